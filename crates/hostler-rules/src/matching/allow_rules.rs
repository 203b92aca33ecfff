//! Matches allow rules against all parts of a call.

use super::matches_tool;
use super::restrictions::{format_redirection, is_output_device};
use crate::path::CandidatePaths;
use crate::read_only::ReadSafety;
use crate::rule::{CommandPattern, Effect, Matcher, Rule, covers_tool};
use crate::rule_set::RuleSet;
use crate::shell::{CommandKind, CommandLine, FileRedirection, ShellCommand};
use crate::tool_use::{DecisionContext, ToolTarget};

/// Which parts of a call are allowed.
pub(crate) struct AllowMatches<'a> {
    /// The allowed parts with their rules.
    pub granted: Vec<(&'a Rule, String)>,
    /// The parts that no rule allows.
    pub unmatched: Vec<String>,
    /// The parts that no rule can allow, with the reason.
    pub unanalyzable: Vec<(String, &'static str)>,
}

impl AllowMatches<'_> {
    pub(crate) fn covers_all(&self) -> bool {
        self.unmatched.is_empty() && self.unanalyzable.is_empty() && !self.granted.is_empty()
    }
}

/// Matches the allow rules. `accepts` may allow writing a file that no rule allows.
pub(crate) fn match_allow_rules<'a>(
    scene: &DecisionContext<'_>,
    rules: impl Iterator<Item = &'a Rule>,
    accepts: &dyn Fn(&CandidatePaths) -> bool,
) -> AllowMatches<'a> {
    let rules: Vec<&Rule> = rules.filter(|rule| rule.effect == Effect::Allow).collect();
    let mut asked = AllowMatcher {
        scene,
        rules,
        accepts_write: accepts,
        matches: AllowMatches { granted: vec![], unmatched: vec![], unanalyzable: vec![] },
    };
    match &scene.target {
        ToolTarget::Shell(line) => asked.match_line(line),
        ToolTarget::Files(_, spots) => {
            spots.iter().for_each(|spot| asked.match_path(spot, &spot.text, &scene.call.tool))
        }
        ToolTarget::Host(host) => {
            let names = |rule: &&Rule| match &rule.matcher {
                Matcher::Domain(domain) if domain.subdomains_only => {
                    host.strip_suffix(domain.host.as_str()).is_some_and(|rest| rest.ends_with('.'))
                }
                Matcher::Domain(domain) => domain.host == *host,
                matcher => matches_tool(matcher, &scene.call.tool),
            };
            let rule = asked.rules.iter().copied().find(names);
            asked.record(rule, host);
        }
        ToolTarget::ToolOnly => {
            let rule = asked.rules.iter().copied().find(|rule| matches_tool(&rule.matcher, &scene.call.tool));
            asked.record(rule, &scene.call.tool);
        }
        ToolTarget::Unanalyzable(why) => asked.matches.unanalyzable.push((scene.call.tool.clone(), why)),
    }
    asked.matches
}

struct AllowMatcher<'a, 's> {
    scene: &'s DecisionContext<'s>,
    rules: Vec<&'a Rule>,
    accepts_write: &'s dyn Fn(&CandidatePaths) -> bool,
    matches: AllowMatches<'a>,
}

impl<'a> AllowMatcher<'a, '_> {
    fn record(&mut self, rule: Option<&'a Rule>, part: &str) {
        match rule {
            Some(rule) => self.matches.granted.push((rule, part.to_owned())),
            None => self.matches.unmatched.push(part.to_owned()),
        }
    }

    fn match_path(&mut self, spot: &CandidatePaths, part: &str, tool: &str) {
        let rule = self.rules.iter().copied().find(|rule| grants_path(rule, self.scene, spot, tool));
        self.record(rule, part);
    }

    fn match_line(&mut self, line: &CommandLine) {
        for command in &line.commands {
            self.match_command(command);
        }
        for file in line.redirections.iter().filter(|file| file.writes && !is_output_device(file)) {
            self.match_redirection(file, line.changes_directory);
        }
    }

    /// A file that the shell writes is checked like an edit of it.
    fn match_redirection(&mut self, file: &FileRedirection, moves: bool) {
        let part = format_redirection(file);
        let Some(name) = file.target.as_literal() else {
            self.matches.unanalyzable.push((part, "the file that it writes is only known at run time"));
            return;
        };
        if moves && !name.starts_with(['/', '~']) {
            self.matches.unanalyzable.push((part, "the working directory changes before it writes the file"));
            return;
        }
        // A quoted tilde is an ordinary character.
        let spelled =
            if name.starts_with('~') && !file.target.has_tilde { format!("./{name}") } else { name.to_owned() };
        match self.scene.resolve_path(&spelled) {
            Ok(spot) => {
                let before = self.matches.unmatched.len();
                self.match_path(&spot, &part, "Write");
                if self.matches.unmatched.len() > before && (self.accepts_write)(&spot) {
                    self.matches.unmatched.truncate(before);
                }
            }
            Err(why) => self.matches.unanalyzable.push((part, why)),
        }
    }

    fn match_command(&mut self, command: &ShellCommand) {
        if let CommandKind::Unanalyzable(why) = command.kind {
            self.matches.unanalyzable.push((command.text.clone(), why));
            return;
        }
        // An assignment without a command needs no rule if the variable is harmless.
        if command.words.is_empty() && command.has_harmless_variables() {
            return;
        }
        let grant =
            self.rules.iter().copied().find_map(|rule| match_command_rule(rule, command).map(|reach| (rule, reach)));
        match (grant, command.kind) {
            (Some((rule, reach)), _) => {
                self.matches.granted.push((rule, command.text.clone()));
                // Nested commands behind the words that the rule names need a rule of their own.
                for inner in command.nested.iter().filter(|inner| inner.start_word >= reach) {
                    inner.commands.iter().for_each(|command| self.match_command(command));
                }
                // Unanalyzable nested commands remain so, even if the rule names them.
                for inner in command.nested.iter().filter(|inner| inner.start_word < reach) {
                    inner.commands.iter().for_each(|command| self.record_unanalyzable(command));
                }
            }
            // A read-only command such as `tail` behind a pipe needs no rule beside commands that have one.
            (None, _) if needs_no_rule(self.scene, command) => {}
            (None, CommandKind::Wrapper) if command.has_harmless_variables() => {
                for inner in &command.nested {
                    inner.commands.iter().for_each(|command| self.match_command(command));
                }
            }
            (None, CommandKind::Launcher(why)) => self.matches.unanalyzable.push((command.text.clone(), why)),
            (None, _) => {
                self.matches.unmatched.push(command.text.clone());
                for inner in &command.nested {
                    inner.commands.iter().for_each(|command| self.record_unanalyzable(command));
                }
            }
        }
    }

    fn record_unanalyzable(&mut self, command: &ShellCommand) {
        if let CommandKind::Unanalyzable(why) = command.kind {
            self.matches.unanalyzable.push((command.text.clone(), why));
        }
        for inner in &command.nested {
            inner.commands.iter().for_each(|command| self.record_unanalyzable(command));
        }
    }
}

/// Does the command only read, and either no file or before any other command? A command before it could have placed a
/// link where it reads.
pub(crate) fn needs_no_rule(scene: &DecisionContext<'_>, command: &ShellCommand) -> bool {
    let ToolTarget::Shell(line) = &scene.target else { return false };
    let mut only_reads = !command.may_repeat && !line.has_expansions;
    for (other, finding) in line.all_commands().into_iter().zip(&scene.read_analysis(line).commands) {
        only_reads &= finding.safety == ReadSafety::Safe;
        if std::ptr::eq(other, command) {
            return only_reads || finding.reads_no_files();
        }
    }
    false
}

/// Does a rule allow this command and every command that it runs?
pub(crate) fn is_granted(rules: &RuleSet, command: &ShellCommand) -> bool {
    let reaches = |rule: &Rule| match_command_rule(rule, command).filter(|_| rule.effect == Effect::Allow);
    rules.iter().filter_map(reaches).any(|reach| {
        let open = command.nested.iter().filter(|inner| inner.start_word >= reach);
        open.flat_map(|inner| &inner.commands).all(|inner| is_granted(rules, inner))
    })
}

/// Does a rule allow writing this file?
pub(crate) fn grants_write(rules: &RuleSet, scene: &DecisionContext<'_>, spot: &CandidatePaths) -> bool {
    rules.iter().any(|rule| rule.effect == Effect::Allow && grants_path(rule, scene, spot, "Write"))
}

fn grants_path(rule: &Rule, scene: &DecisionContext<'_>, spot: &CandidatePaths, tool: &str) -> bool {
    match &rule.matcher {
        Matcher::Path { tool: named, pattern } => {
            covers_tool(named, tool)
                && spot.paths.iter().all(|path| pattern.matches(path, &scene.pattern_bases(), false))
        }
        matcher => matches_tool(matcher, tool),
    }
}

/// Does the rule allow this command? Returns how many of its words the rule names.
fn match_command_rule(rule: &Rule, command: &ShellCommand) -> Option<usize> {
    match &rule.matcher {
        Matcher::Command(pattern) => {
            let reach = match_pattern(pattern, command)?;
            command.has_harmless_variables().then_some(())?;
            let in_full = reach == usize::MAX;
            (in_full || !matches!(command.kind, CommandKind::Launcher(_))).then_some(reach)
        }
        matcher => matches_tool(matcher, "Bash").then_some(usize::MAX),
    }
}

/// Are the command's words certain to be those of the pattern?
fn match_pattern(pattern: &CommandPattern, command: &ShellCommand) -> Option<usize> {
    let first = command.words.get(..pattern.words.len())?;
    let same = first.iter().zip(&pattern.words).all(|(word, wanted)| word.as_literal() == Some(wanted.as_str()));
    same.then_some(())?;
    let in_full = first.len() == command.words.len();
    (pattern.is_prefix || in_full).then_some(if pattern.is_prefix { pattern.words.len() } else { usize::MAX })
}
