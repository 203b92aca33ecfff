//! From a command line to its commands: tokens, syntax tree, and a walk over all of it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use brush_parser::ast;
use brush_parser::{ParserOptions, TokenizerOptions};

use super::limits;
use super::programs::{self, Found};
use super::word::{Form, Place, Word, scan};
use super::{Command, File, Inner, Kind, Line, shown};

/// Reads a whole command line.
pub(super) fn line(text: &str) -> Line {
    let mut walk = Walk::default();
    walk.script(text, 0);
    walk.line.begins_with_cd &= walk.line.commands.first().and_then(|first| first.words.first()?.known()) == Some("cd");
    if walk.exhausted {
        walk.line.commands.push(Command::hidden(text, "it runs too many commands"));
    }
    walk.line
}

#[derive(Default)]
struct Walk {
    line: Line,
    count: usize,
    exhausted: bool,
    /// How many loops and functions are around.
    repeating: usize,
}

fn parse(text: &str) -> Result<ast::Program, &'static str> {
    limits::check_text(text)?;
    // Extended globs are off, as in the shells that agents start: `!(…)` negates a subshell there, and is not a pattern.
    let tokenizing = TokenizerOptions { enable_extended_globbing: false, posix_mode: false, sh_mode: false };
    let parsing = ParserOptions { enable_extended_globbing: false, ..ParserOptions::default() };
    let parse = || {
        let tokens = brush_parser::uncached_tokenize_str(text, &tokenizing).map_err(|_| UNREADABLE)?;
        limits::check_tokens(&tokens)?;
        brush_parser::parse_tokens(&tokens, &parsing).map_err(|_| UNREADABLE)
    };
    // The panics of the grammar that we know of are kept from it by the limits; this is for the others.
    catch_unwind(AssertUnwindSafe(parse)).unwrap_or(Err(UNREADABLE))
}

const UNREADABLE: &str = "it is not a command line that a shell could read";

impl Walk {
    fn script(&mut self, text: &str, depth: usize) {
        let depth = depth + 1;
        if depth > limits::DEEPEST_SCRIPT {
            self.hidden(text, "command lines lie too deep within each other");
            return;
        }
        match parse(text) {
            Ok(program) => {
                self.line.begins_with_cd |= depth == 1 && is_chain(&program);
                for list in &program.complete_commands {
                    self.list(list, depth);
                }
            }
            Err(why) => self.hidden(text, why),
        }
    }

    fn hidden(&mut self, text: &str, why: &'static str) {
        self.push(Command::hidden(text, why));
    }

    fn push(&mut self, command: Command) {
        self.count += 1;
        if self.count > limits::MOST_COMMANDS {
            self.exhausted = true;
        } else {
            self.line.commands.push(command);
        }
    }

    /// The commands of another command line, apart from those of this one; its files count as ours.
    fn apart(&mut self, walk: impl FnOnce(&mut Self)) -> Vec<Command> {
        let outer = std::mem::take(&mut self.line.commands);
        walk(self);
        std::mem::replace(&mut self.line.commands, outer)
    }

    fn list(&mut self, list: &ast::CompoundList, depth: usize) {
        for ast::CompoundListItem(and_or, _) in &list.0 {
            self.pipeline(&and_or.first, depth);
            for next in &and_or.additional {
                let (ast::AndOr::And(pipeline) | ast::AndOr::Or(pipeline)) = next;
                self.pipeline(pipeline, depth);
            }
        }
    }

    fn repeated(&mut self, list: &ast::CompoundList, depth: usize) {
        self.repeating += 1;
        self.list(list, depth);
        self.repeating -= 1;
    }

    fn pipeline(&mut self, pipeline: &ast::Pipeline, depth: usize) {
        for command in &pipeline.seq {
            self.command(command, depth);
        }
    }

    fn command(&mut self, command: &ast::Command, depth: usize) {
        match command {
            ast::Command::Simple(simple) => self.simple(simple, depth),
            ast::Command::Compound(compound, redirections) => {
                self.compound(compound, depth);
                self.redirections(redirections.as_ref(), depth);
            }
            ast::Command::Function(function) => {
                self.text(&function.fname.value, Place::Word, depth);
                self.repeating += 1;
                self.compound(&function.body.0, depth);
                self.repeating -= 1;
                self.redirections(function.body.1.as_ref(), depth);
            }
            ast::Command::ExtendedTest(test, redirections) => {
                self.test(&test.expr, depth);
                self.redirections(redirections.as_ref(), depth);
            }
        }
    }

    fn compound(&mut self, compound: &ast::CompoundCommand, depth: usize) {
        use ast::CompoundCommand as C;
        match compound {
            C::Arithmetic(arithmetic) => self.arithmetic(&arithmetic.expr.value, depth),
            C::ArithmeticForClause(clause) => {
                for part in [&clause.initializer, &clause.condition, &clause.updater].into_iter().flatten() {
                    self.arithmetic(&part.value, depth);
                }
                self.repeated(&clause.body.list, depth);
            }
            C::BraceGroup(group) => self.list(&group.list, depth),
            C::Subshell(subshell) => self.list(&subshell.list, depth),
            C::ForClause(clause) => {
                for value in clause.values.iter().flatten() {
                    self.aside(&value.value, Place::Word, depth);
                }
                self.variables_alone(std::slice::from_ref(&clause.variable_name));
                self.repeated(&clause.body.list, depth);
            }
            C::CaseClause(clause) => {
                self.aside(&clause.value.value, Place::Word, depth);
                for case in &clause.cases {
                    for pattern in &case.patterns {
                        self.aside(&pattern.value, Place::Loose, depth);
                    }
                    if let Some(list) = &case.cmd {
                        self.list(list, depth);
                    }
                }
            }
            C::IfClause(clause) => {
                self.list(&clause.condition, depth);
                self.list(&clause.then, depth);
                for other in clause.elses.iter().flatten() {
                    if let Some(condition) = &other.condition {
                        self.list(condition, depth);
                    }
                    self.list(&other.body, depth);
                }
            }
            C::WhileClause(clause) | C::UntilClause(clause) => {
                self.repeated(&clause.0, depth);
                self.repeated(&clause.1.list, depth);
            }
            C::Coprocess(coprocess) => {
                let name = coprocess.name.as_ref().map_or("COPROC", |name| name.value.as_str());
                self.variables_alone(&[name.to_owned()]);
                self.command(&coprocess.body, depth);
            }
        }
    }

    /// `((…))`. The grammar takes `( ( rm x ) )` for this, too, so that it is read as commands as well.
    fn arithmetic(&mut self, expression: &str, depth: usize) {
        self.hidden(expression, "it computes with variables, whose values can run commands");
        self.script(expression, depth);
    }

    fn test(&mut self, expression: &ast::ExtendedTestExpr, depth: usize) {
        use ast::BinaryPredicate as B;
        use ast::ExtendedTestExpr as T;
        match expression {
            T::And(left, right) | T::Or(left, right) => {
                self.test(left, depth);
                self.test(right, depth);
            }
            T::Not(inner) | T::Parenthesized(inner) => self.test(inner, depth),
            T::UnaryTest(predicate, word) => {
                self.aside(&word.value, Place::Loose, depth);
                self.line.expands |= word.value.contains('/');
                if matches!(predicate, ast::UnaryPredicate::ShellVariableIsSetAndAssigned) {
                    self.only_numbers_or_names(&word.value);
                }
            }
            T::BinaryTest(predicate, left, right) => {
                self.aside(&left.value, Place::Loose, depth);
                self.aside(&right.value, Place::Loose, depth);
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
                    self.only_numbers_or_names(&left.value);
                    self.only_numbers_or_names(&right.value);
                }
            }
        }
    }

    /// Operands that the shell evaluates as arithmetic may run commands, unless they are plain or results of the shell.
    fn only_numbers_or_names(&mut self, operand: &str) {
        let plain = operand.trim_matches('"');
        let status = matches!(plain, "$?" | "$#" | "$$" | "$!");
        if !status && !plain.chars().all(|c| c.is_ascii_digit() || c == '-') {
            self.hidden(operand, "it computes with variables, whose values can run commands");
        }
    }

    fn simple(&mut self, simple: &ast::SimpleCommand, depth: usize) {
        let mut words = Vec::new();
        let mut variables = Vec::new();
        for item in simple.prefix.iter().flat_map(|prefix| &prefix.0) {
            match item {
                ast::CommandPrefixOrSuffixItem::AssignmentWord(assignment, _) => {
                    variables.push(self.assignment(assignment, depth));
                }
                other => words.extend(self.item(other, depth)),
            }
        }
        if let Some(name) = &simple.word_or_name {
            words.extend(self.text(&name.value, Place::Word, depth));
        }
        for item in simple.suffix.iter().flat_map(|suffix| &suffix.0) {
            words.extend(self.item(item, depth));
        }
        if names_descriptor(simple) {
            self.hidden(&simple.to_string(), "a redirection may set a variable");
        }
        if words.is_empty() {
            self.variables_alone(&variables);
        } else {
            let command = self.build(words, variables, depth);
            self.push(command);
        }
    }

    /// An assignment on its own runs nothing, but what follows may read it.
    fn variables_alone(&mut self, variables: &[String]) {
        if !variables.is_empty() {
            let text = variables.iter().map(|name| format!("{name}=…")).collect::<Vec<_>>().join(" ");
            let variables = variables.to_vec();
            let (words, inner) = Default::default();
            self.push(Command { words, variables, kind: Kind::Plain, inner, moves: false, repeats: false, text });
        }
    }

    fn item(&mut self, item: &ast::CommandPrefixOrSuffixItem, depth: usize) -> Option<Word> {
        use ast::CommandPrefixOrSuffixItem as I;
        match item {
            I::IoRedirect(redirection) => {
                self.redirection(redirection, depth);
                None
            }
            I::Word(word) => self.text(&word.value, Place::Word, depth),
            I::AssignmentWord(assignment, word) => match &assignment.value {
                ast::AssignmentValue::Scalar(_) => self.text(&word.value, Place::Word, depth),
                ast::AssignmentValue::Array(_) => {
                    let name = self.assignment(assignment, depth);
                    Some(Word { head: format!("{name}="), form: Form::One, ..Word::literal(&word.value) })
                }
            },
            I::ProcessSubstitution(_, subshell) => {
                self.list(&subshell.list, depth);
                Some(Word { head: "/dev/fd/".to_owned(), form: Form::One, ..Word::literal("<(…)") })
            }
        }
    }

    fn assignment(&mut self, assignment: &ast::Assignment, depth: usize) -> String {
        let name = match &assignment.name {
            ast::AssignmentName::VariableName(name) => name,
            ast::AssignmentName::ArrayElementName(name, subscript) => {
                self.only_numbers_or_names(subscript);
                name
            }
        };
        match &assignment.value {
            ast::AssignmentValue::Scalar(value) => {
                self.aside(&value.value, Place::Word, depth);
                // A value with a slash may be a path that a program opens.
                self.line.expands |= value.value.contains('/');
            }
            ast::AssignmentValue::Array(values) => {
                for (subscript, value) in values {
                    if let Some(subscript) = subscript {
                        self.only_numbers_or_names(&subscript.value);
                    }
                    self.aside(&value.value, Place::Word, depth);
                }
            }
        }
        name.clone()
    }

    /// A text beside the words of commands.
    fn aside(&mut self, raw: &str, place: Place, depth: usize) {
        let word = self.text(raw, place, depth);
        self.line.expands |= word.is_none_or(|word| !word.is_literal() || word.tilde);
    }

    /// Reads a word and all that is run for its value. What cannot be read is noted as hidden.
    fn text(&mut self, raw: &str, place: Place, depth: usize) -> Option<Word> {
        match scan(raw, place) {
            Ok(scanned) => {
                if let Some(why) = scanned.hidden {
                    self.hidden(raw, why);
                }
                for script in &scanned.scripts {
                    self.script(script, depth);
                }
                Some(scanned.word)
            }
            Err(why) => {
                self.hidden(raw, why);
                Some(Word::anything(raw))
            }
        }
    }

    fn redirections(&mut self, list: Option<&ast::RedirectList>, depth: usize) {
        for redirection in list.iter().flat_map(|list| &list.0) {
            self.redirection(redirection, depth);
        }
    }

    fn redirection(&mut self, redirection: &ast::IoRedirect, depth: usize) {
        use ast::IoFileRedirectKind as K;
        use ast::IoFileRedirectTarget as T;
        match redirection {
            ast::IoRedirect::File(_, kind, target) => {
                let writes = !matches!(kind, K::Read | K::DuplicateInput);
                match target {
                    T::Filename(name) => self.file(&name.value, writes, depth),
                    T::Fd(_) => {}
                    T::ProcessSubstitution(_, subshell) => self.list(&subshell.list, depth),
                    // `>&2` and `>&-` are about descriptors, `>& name` about a file.
                    T::Duplicate(word) => {
                        let descriptor = word.value.strip_suffix('-').unwrap_or(&word.value);
                        if !descriptor.chars().all(|c| c.is_ascii_digit()) {
                            self.file(&word.value, true, depth);
                        }
                    }
                }
            }
            ast::IoRedirect::OutputAndError(name, _) => self.file(&name.value, true, depth),
            ast::IoRedirect::HereString(_, word) => self.aside(&word.value, Place::Word, depth),
            ast::IoRedirect::HereDocument(_, document) => {
                if document.requires_expansion {
                    self.aside(&document.doc.value, Place::Document, depth);
                }
            }
        }
    }

    fn file(&mut self, raw: &str, writes: bool, depth: usize) {
        if let Some(name) = self.text(raw, Place::Word, depth) {
            self.line.files.push(File { name, writes });
        }
    }

    /// A command of these words, with the commands that it runs in turn.
    fn build(&mut self, words: Vec<Word>, mut variables: Vec<String>, depth: usize) -> Command {
        let look = programs::look(&words);
        variables.extend(look.variables);
        self.line.moves |= look.moves;
        let mut kind = look.kind;
        let mut inner = Vec::new();
        for (reach, found) in look.inner {
            if depth >= limits::DEEPEST_SCRIPT || self.count >= limits::MOST_COMMANDS {
                kind = Kind::Hidden("command lines lie too deep within each other");
                break;
            }
            let commands = match found {
                // What a carrier sets is set for what it carries.
                Found::Words(words) => {
                    self.count += 1;
                    vec![self.build(words, variables.clone(), depth + 1)]
                }
                Found::Script(script) => self.apart(|walk| walk.script(&script, depth)),
            };
            inner.push(Inner { reach, commands });
        }
        let text = words.iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join(" ");
        let repeats = self.repeating > 0;
        Command { words, variables, kind, inner, moves: look.moves, repeats, text: shown(&text) }
    }
}

/// `{NAME}<file` sets a variable; to the grammar it is a word before a redirection.
fn names_descriptor(simple: &ast::SimpleCommand) -> bool {
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

/// Is this one list of commands, each of which runs only if the one before it succeeded, and the first a simple one?
fn is_chain(program: &ast::Program) -> bool {
    let [list] = program.complete_commands.as_slice() else { return false };
    let [ast::CompoundListItem(chain, ast::SeparatorOperator::Sequence)] = list.0.as_slice() else { return false };
    let [ast::Command::Simple(first)] = chain.first.seq.as_slice() else { return false };
    !chain.first.bang
        && first.prefix.is_none()
        && chain.additional.iter().all(|next| matches!(next, ast::AndOr::And(_)))
}
