//! From a command line to its commands: tokenizes, parses, and walks the complete syntax tree.

use std::panic::{AssertUnwindSafe, catch_unwind};

use brush_parser::ast;
use brush_parser::{ParserOptions, TokenizerOptions};

use super::limits;
use super::programs::{self, NestedSource};
use super::word::{ShellWord, TextContext, WordForm, scan_word};
use super::{CommandKind, CommandLine, FileRedirection, NestedCommands, ShellCommand, truncate_for_display};

/// Analyzes a whole command line.
pub(super) fn walk_line(text: &str) -> CommandLine {
    let mut walk = AstWalker::default();
    walk.walk_script(text, 0);
    walk.line.begins_with_cd &=
        walk.line.commands.first().and_then(|first| first.words.first()?.as_literal()) == Some("cd");
    if walk.exceeded_limit {
        walk.line.commands.push(ShellCommand::unanalyzable(text, "it runs too many commands"));
    }
    walk.line
}

#[derive(Default)]
struct AstWalker {
    line: CommandLine,
    command_count: usize,
    token_reads: usize,
    exceeded_limit: bool,
    /// Number of enclosing loops and functions.
    repeat_depth: usize,
}

fn parse(text: &str, token_reads: &mut usize) -> Result<ast::Program, &'static str> {
    limits::check_text(text)?;
    // Extended globs are off, as in the shells that agents start: there `!(…)` negates a subshell and is not a pattern.
    let tokenizing = TokenizerOptions { enable_extended_globbing: false, posix_mode: false, sh_mode: false };
    let parsing = ParserOptions { enable_extended_globbing: false, ..ParserOptions::default() };
    let parse = || {
        let tokens = brush_parser::uncached_tokenize_str(text, &tokenizing).map_err(|_| NOT_A_COMMAND_LINE)?;
        limits::check_tokens(&tokens, token_reads)?;
        brush_parser::parse_tokens(&tokens, &parsing).map_err(|_| NOT_A_COMMAND_LINE)
    };
    // The limits prevent the known panics of the grammar. This catches others.
    catch_unwind(AssertUnwindSafe(parse)).unwrap_or(Err(NOT_A_COMMAND_LINE))
}

const NOT_A_COMMAND_LINE: &str = "it is not a valid command line";

impl AstWalker {
    fn walk_script(&mut self, text: &str, depth: usize) {
        let depth = depth + 1;
        if depth > limits::MAX_SCRIPT_DEPTH {
            self.push_unanalyzable(text, "its command lines are nested too deeply");
            return;
        }
        match parse(text, &mut self.token_reads) {
            Ok(program) => {
                self.line.begins_with_cd |= depth == 1 && is_and_chain(&program);
                for list in &program.complete_commands {
                    self.walk_list(list, depth);
                }
            }
            Err(why) => self.push_unanalyzable(text, why),
        }
    }

    fn push_unanalyzable(&mut self, text: &str, why: &'static str) {
        self.push(ShellCommand::unanalyzable(text, why));
    }

    fn push(&mut self, command: ShellCommand) {
        self.command_count += 1;
        if self.command_count > limits::MAX_COMMANDS {
            self.exceeded_limit = true;
        } else {
            self.line.commands.push(command);
        }
    }

    /// Collects the commands of another command line separately. Its redirections count for this line.
    fn collect_separately(&mut self, walk: impl FnOnce(&mut Self)) -> Vec<ShellCommand> {
        let outer = std::mem::take(&mut self.line.commands);
        walk(self);
        std::mem::replace(&mut self.line.commands, outer)
    }

    fn walk_list(&mut self, list: &ast::CompoundList, depth: usize) {
        for ast::CompoundListItem(and_or, _) in &list.0 {
            self.walk_pipeline(&and_or.first, depth);
            for next in &and_or.additional {
                let (ast::AndOr::And(pipeline) | ast::AndOr::Or(pipeline)) = next;
                self.walk_pipeline(pipeline, depth);
            }
        }
    }

    fn walk_repeated(&mut self, list: &ast::CompoundList, depth: usize) {
        self.repeat_depth += 1;
        self.walk_list(list, depth);
        self.repeat_depth -= 1;
    }

    fn walk_pipeline(&mut self, pipeline: &ast::Pipeline, depth: usize) {
        for command in &pipeline.seq {
            self.walk_command(command, depth);
        }
    }

    fn walk_command(&mut self, command: &ast::Command, depth: usize) {
        match command {
            ast::Command::Simple(simple) => self.walk_simple(simple, depth),
            ast::Command::Compound(compound, redirections) => {
                self.walk_compound(compound, depth);
                self.walk_redirections(redirections.as_ref(), depth);
            }
            ast::Command::Function(function) => {
                self.scan_text(&function.fname.value, TextContext::Word, depth);
                self.repeat_depth += 1;
                self.walk_compound(&function.body.0, depth);
                self.repeat_depth -= 1;
                self.walk_redirections(function.body.1.as_ref(), depth);
            }
            ast::Command::ExtendedTest(test, redirections) => {
                self.walk_test(&test.expr, depth);
                self.walk_redirections(redirections.as_ref(), depth);
            }
        }
    }

    fn walk_compound(&mut self, compound: &ast::CompoundCommand, depth: usize) {
        use ast::CompoundCommand as C;
        match compound {
            C::Arithmetic(arithmetic) => self.walk_arithmetic(&arithmetic.expr.value, depth),
            C::ArithmeticForClause(clause) => {
                for part in [&clause.initializer, &clause.condition, &clause.updater].into_iter().flatten() {
                    self.walk_arithmetic(&part.value, depth);
                }
                self.walk_repeated(&clause.body.list, depth);
            }
            C::BraceGroup(group) => self.walk_list(&group.list, depth),
            C::Subshell(subshell) => self.walk_list(&subshell.list, depth),
            C::ForClause(clause) => {
                for value in clause.values.iter().flatten() {
                    self.scan_other_text(&value.value, TextContext::Word, depth);
                }
                self.push_assignment(std::slice::from_ref(&clause.variable_name));
                self.walk_repeated(&clause.body.list, depth);
            }
            C::CaseClause(clause) => {
                self.scan_other_text(&clause.value.value, TextContext::Word, depth);
                for case in &clause.cases {
                    for pattern in &case.patterns {
                        self.scan_other_text(&pattern.value, TextContext::FreeText, depth);
                    }
                    if let Some(list) = &case.cmd {
                        self.walk_list(list, depth);
                    }
                }
            }
            C::IfClause(clause) => {
                self.walk_list(&clause.condition, depth);
                self.walk_list(&clause.then, depth);
                for other in clause.elses.iter().flatten() {
                    if let Some(condition) = &other.condition {
                        self.walk_list(condition, depth);
                    }
                    self.walk_list(&other.body, depth);
                }
            }
            C::WhileClause(clause) | C::UntilClause(clause) => {
                self.walk_repeated(&clause.0, depth);
                self.walk_repeated(&clause.1.list, depth);
            }
            C::Coprocess(coprocess) => {
                let name = coprocess.name.as_ref().map_or("COPROC", |name| name.value.as_str());
                self.push_assignment(&[name.to_owned()]);
                self.walk_command(&coprocess.body, depth);
            }
        }
    }

    /// `((…))`. The grammar also parses `( ( rm x ) )` as this, so the text is analyzed as commands too.
    fn walk_arithmetic(&mut self, expression: &str, depth: usize) {
        self.push_unanalyzable(expression, "it evaluates variables as arithmetic, which can run commands");
        self.walk_script(expression, depth);
    }

    fn walk_test(&mut self, expression: &ast::ExtendedTestExpr, depth: usize) {
        use ast::BinaryPredicate as B;
        use ast::ExtendedTestExpr as T;
        match expression {
            T::And(left, right) | T::Or(left, right) => {
                self.walk_test(left, depth);
                self.walk_test(right, depth);
            }
            T::Not(inner) | T::Parenthesized(inner) => self.walk_test(inner, depth),
            T::UnaryTest(predicate, word) => {
                self.scan_other_text(&word.value, TextContext::FreeText, depth);
                self.line.has_expansions |= word.value.contains('/');
                if matches!(predicate, ast::UnaryPredicate::ShellVariableIsSetAndAssigned) {
                    self.require_plain_arithmetic(&word.value);
                }
            }
            T::BinaryTest(predicate, left, right) => {
                self.scan_other_text(&left.value, TextContext::FreeText, depth);
                self.scan_other_text(&right.value, TextContext::FreeText, depth);
                let computes = matches!(
                    predicate,
                    B::ArithmeticEqualTo
                        | B::ArithmeticNotEqualTo
                        | B::ArithmeticLessThan
                        | B::ArithmeticLessThanOrEqualTo
                        | B::ArithmeticGreaterThan
                        | B::ArithmeticGreaterThanOrEqualTo
                );
                if computes {
                    self.require_plain_arithmetic(&left.value);
                    self.require_plain_arithmetic(&right.value);
                }
            }
        }
    }

    /// Operands that the shell evaluates as arithmetic may run commands, unless they are plain numbers or values of the
    /// shell itself.
    fn require_plain_arithmetic(&mut self, operand: &str) {
        let plain = operand.trim_matches('"');
        let status = matches!(plain, "$?" | "$#" | "$$" | "$!");
        if !status && !plain.chars().all(|c| c.is_ascii_digit() || c == '-') {
            self.push_unanalyzable(operand, "it evaluates variables as arithmetic, which can run commands");
        }
    }

    fn walk_simple(&mut self, simple: &ast::SimpleCommand, depth: usize) {
        let mut words = Vec::new();
        let mut variables = Vec::new();
        for item in simple.prefix.iter().flat_map(|prefix| &prefix.0) {
            match item {
                ast::CommandPrefixOrSuffixItem::AssignmentWord(assignment, _) => {
                    variables.push(self.walk_assignment(assignment, depth));
                }
                other => words.extend(self.walk_item(other, depth)),
            }
        }
        if let Some(name) = &simple.word_or_name {
            words.extend(self.scan_text(&name.value, TextContext::Word, depth));
        }
        for item in simple.suffix.iter().flat_map(|suffix| &suffix.0) {
            words.extend(self.walk_item(item, depth));
        }
        if has_named_descriptor(simple) {
            self.push_unanalyzable(&simple.to_string(), "a redirection may set a variable");
        }
        if words.is_empty() {
            self.push_assignment(&variables);
        } else {
            let command = self.build_command(words, variables, depth);
            self.push(command);
        }
    }

    /// An assignment without a command runs nothing, but later commands may read it.
    fn push_assignment(&mut self, variables: &[String]) {
        if !variables.is_empty() {
            let text = variables.iter().map(|name| format!("{name}=…")).collect::<Vec<_>>().join(" ");
            let variables = variables.to_vec();
            let (words, inner) = Default::default();
            self.push(ShellCommand {
                words,
                variables,
                kind: CommandKind::Plain,
                nested: inner,
                changes_directory: false,
                may_repeat: false,
                text,
            });
        }
    }

    fn walk_item(&mut self, item: &ast::CommandPrefixOrSuffixItem, depth: usize) -> Option<ShellWord> {
        use ast::CommandPrefixOrSuffixItem as I;
        match item {
            I::IoRedirect(redirection) => {
                self.walk_redirection(redirection, depth);
                None
            }
            I::Word(word) => self.scan_text(&word.value, TextContext::Word, depth),
            I::AssignmentWord(assignment, word) => match &assignment.value {
                ast::AssignmentValue::Scalar(_) => self.scan_text(&word.value, TextContext::Word, depth),
                ast::AssignmentValue::Array(_) => {
                    let name = self.walk_assignment(assignment, depth);
                    Some(ShellWord {
                        known_prefix: format!("{name}="),
                        form: WordForm::SingleWord,
                        ..ShellWord::literal(&word.value)
                    })
                }
            },
            I::ProcessSubstitution(_, subshell) => {
                self.walk_list(&subshell.list, depth);
                Some(ShellWord {
                    known_prefix: "/dev/fd/".to_owned(),
                    form: WordForm::SingleWord,
                    ..ShellWord::literal("<(…)")
                })
            }
        }
    }

    fn walk_assignment(&mut self, assignment: &ast::Assignment, depth: usize) -> String {
        let name = match &assignment.name {
            ast::AssignmentName::VariableName(name) => name,
            ast::AssignmentName::ArrayElementName(name, subscript) => {
                self.require_plain_arithmetic(subscript);
                name
            }
        };
        match &assignment.value {
            ast::AssignmentValue::Scalar(value) => {
                self.scan_other_text(&value.value, TextContext::Word, depth);
                // A value with a slash may be a path that a program opens.
                self.line.has_expansions |= value.value.contains('/');
            }
            ast::AssignmentValue::Array(values) => {
                for (subscript, value) in values {
                    if let Some(subscript) = subscript {
                        self.require_plain_arithmetic(&subscript.value);
                    }
                    self.scan_other_text(&value.value, TextContext::Word, depth);
                }
            }
        }
        name.clone()
    }

    /// Scans a text beside the words of commands.
    fn scan_other_text(&mut self, raw: &str, place: TextContext, depth: usize) {
        let word = self.scan_text(raw, place, depth);
        self.line.has_expansions |= word.is_none_or(|word| !word.is_literal() || word.has_tilde);
    }

    /// Scans a word and the commands that its expansion runs. A word that cannot be scanned is recorded as
    /// unanalyzable.
    fn scan_text(&mut self, raw: &str, place: TextContext, depth: usize) -> Option<ShellWord> {
        match scan_word(raw, place) {
            Ok(scanned) => {
                if let Some(why) = scanned.unanalyzable {
                    self.push_unanalyzable(raw, why);
                }
                for script in &scanned.scripts {
                    self.walk_script(script, depth);
                }
                Some(scanned.word)
            }
            Err(why) => {
                self.push_unanalyzable(raw, why);
                Some(ShellWord::any_words(raw))
            }
        }
    }

    fn walk_redirections(&mut self, list: Option<&ast::RedirectList>, depth: usize) {
        for redirection in list.iter().flat_map(|list| &list.0) {
            self.walk_redirection(redirection, depth);
        }
    }

    fn walk_redirection(&mut self, redirection: &ast::IoRedirect, depth: usize) {
        use ast::IoFileRedirectKind as K;
        use ast::IoFileRedirectTarget as T;
        match redirection {
            ast::IoRedirect::File(_, kind, target) => {
                let writes = !matches!(kind, K::Read | K::DuplicateInput);
                match target {
                    T::Filename(name) => self.push_redirection(&name.value, writes, depth),
                    T::Fd(_) => {}
                    T::ProcessSubstitution(_, subshell) => self.walk_list(&subshell.list, depth),
                    // `>&2` and `>&-` refer to descriptors, `>& name` to a file.
                    T::Duplicate(word) => {
                        let descriptor = word.value.strip_suffix('-').unwrap_or(&word.value);
                        if !descriptor.chars().all(|c| c.is_ascii_digit()) {
                            self.push_redirection(&word.value, true, depth);
                        }
                    }
                }
            }
            ast::IoRedirect::OutputAndError(name, _) => self.push_redirection(&name.value, true, depth),
            ast::IoRedirect::HereString(_, word) => self.scan_other_text(&word.value, TextContext::Word, depth),
            ast::IoRedirect::HereDocument(_, document) => {
                if document.requires_expansion {
                    self.scan_other_text(&document.doc.value, TextContext::HereDocument, depth);
                }
            }
        }
    }

    fn push_redirection(&mut self, raw: &str, writes: bool, depth: usize) {
        if let Some(name) = self.scan_text(raw, TextContext::Word, depth) {
            self.line.redirections.push(FileRedirection { target: name, writes });
        }
    }

    /// Builds a command from its words, with the commands that it runs.
    fn build_command(&mut self, words: Vec<ShellWord>, mut variables: Vec<String>, depth: usize) -> ShellCommand {
        let look = programs::analyze_program(&words);
        variables.extend(look.variables);
        self.line.changes_directory |= look.changes_directory;
        let mut kind = look.kind;
        let mut inner = Vec::new();
        for (reach, found) in look.nested {
            if depth >= limits::MAX_SCRIPT_DEPTH || self.command_count >= limits::MAX_COMMANDS {
                kind = CommandKind::Unanalyzable("its command lines are nested too deeply");
                break;
            }
            let commands = match found {
                // Variables that a wrapper sets apply to the command that it runs.
                NestedSource::Words(words) => {
                    self.command_count += 1;
                    vec![self.build_command(words, variables.clone(), depth + 1)]
                }
                NestedSource::Script(script) => self.collect_separately(|walk| walk.walk_script(&script, depth)),
            };
            inner.push(NestedCommands { start_word: reach, commands });
        }
        let text = words.iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join(" ");
        let repeats = self.repeat_depth > 0;
        ShellCommand {
            words,
            variables,
            kind,
            nested: inner,
            changes_directory: look.changes_directory,
            may_repeat: repeats,
            text: truncate_for_display(&text),
        }
    }
}

/// `{NAME}<file` sets a variable. The grammar returns it as a word before a redirection.
fn has_named_descriptor(simple: &ast::SimpleCommand) -> bool {
    use ast::CommandPrefixOrSuffixItem as I;
    let prefix = simple.prefix.iter().flat_map(|prefix| &prefix.0);
    let items = || prefix.clone().chain(simple.suffix.iter().flat_map(|suffix| &suffix.0));
    let names = |word: &ast::Word| {
        let text = word.value.replace("\\\n", "");
        text.starts_with('{') && text.ends_with('}') && text != "{}"
    };
    let named = |item: &I| matches!(item, I::Word(word) | I::AssignmentWord(_, word) if names(word));
    items().any(|item| matches!(item, I::IoRedirect(_)))
        && (simple.word_or_name.iter().any(names) || items().any(named))
}

/// Is this a single `&&` chain that begins with a simple command?
fn is_and_chain(program: &ast::Program) -> bool {
    let [list] = program.complete_commands.as_slice() else { return false };
    let [ast::CompoundListItem(chain, ast::SeparatorOperator::Sequence)] = list.0.as_slice() else { return false };
    let [ast::Command::Simple(first)] = chain.first.seq.as_slice() else { return false };
    !chain.first.bang
        && first.prefix.is_none()
        && chain.additional.iter().all(|next| matches!(next, ast::AndOr::And(_)))
}
