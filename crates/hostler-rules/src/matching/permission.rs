//! What rules allow of a call.

use super::names_tool;
use super::objection::{is_sink, redirection};
use crate::call::{Scene, Touched};
use crate::path::Spot;
use crate::reads::Grade;
use crate::rule::{CommandPattern, Effect, Matcher, Rule, covers};
use crate::set::RuleSet;
use crate::shell::{Command, File, Kind, Line};

/// How far rules allow a call.
pub(crate) struct Permission<'a> {
    /// The parts that are allowed, and by which rule.
    pub granted: Vec<(&'a Rule, String)>,
    /// The parts that no rule allows.
    pub open: Vec<String>,
    /// The parts that no rule can allow, and why.
    pub opaque: Vec<(String, &'static str)>,
}

impl Permission<'_> {
    pub(crate) fn is_full(&self) -> bool {
        self.open.is_empty() && self.opaque.is_empty() && !self.granted.is_empty()
    }
}

/// Asks the rules that allow. `accepts` may allow a file that is written and that no rule allows.
pub(crate) fn permission<'a>(
    scene: &Scene<'_>,
    rules: impl Iterator<Item = &'a Rule>,
    accepts: &dyn Fn(&Spot) -> bool,
) -> Permission<'a> {
    let rules: Vec<&Rule> = rules.filter(|rule| rule.effect == Effect::Allow).collect();
    let mut asked =
        Asked { scene, rules, accepts, found: Permission { granted: vec![], open: vec![], opaque: vec![] } };
    match &scene.touched {
        Touched::Shell(line) => asked.line(line),
        Touched::Files(_, spots) => spots.iter().for_each(|spot| asked.spot(spot, &spot.text, &scene.call.tool)),
        Touched::Host(host) => {
            let names = |rule: &&Rule| match &rule.matcher {
                Matcher::Domain(domain) if domain.below => {
                    host.strip_suffix(domain.host.as_str()).is_some_and(|rest| rest.ends_with('.'))
                }
                Matcher::Domain(domain) => domain.host == *host,
                matcher => names_tool(matcher, &scene.call.tool),
            };
            let rule = asked.rules.iter().copied().find(names);
            asked.note(rule, host);
        }
        Touched::Nothing => {
            let rule = asked.rules.iter().copied().find(|rule| names_tool(&rule.matcher, &scene.call.tool));
            asked.note(rule, &scene.call.tool);
        }
        Touched::Opaque(why) => asked.found.opaque.push((scene.call.tool.clone(), why)),
    }
    asked.found
}

struct Asked<'a, 's> {
    scene: &'s Scene<'s>,
    rules: Vec<&'a Rule>,
    accepts: &'s dyn Fn(&Spot) -> bool,
    found: Permission<'a>,
}

impl<'a> Asked<'a, '_> {
    fn note(&mut self, rule: Option<&'a Rule>, part: &str) {
        match rule {
            Some(rule) => self.found.granted.push((rule, part.to_owned())),
            None => self.found.open.push(part.to_owned()),
        }
    }

    fn spot(&mut self, spot: &Spot, part: &str, tool: &str) {
        let rule = self.rules.iter().copied().find(|rule| grants_spot(rule, self.scene, spot, tool));
        self.note(rule, part);
    }

    fn line(&mut self, line: &Line) {
        for command in &line.commands {
            self.command(command);
        }
        for file in line.files.iter().filter(|file| file.writes && !is_sink(file)) {
            self.file(file, line.moves);
        }
    }

    /// A file that the shell writes needs what an edit of it needs.
    fn file(&mut self, file: &File, moves: bool) {
        let part = redirection(file);
        let Some(name) = file.name.known() else {
            self.found.opaque.push((part, "the file that it writes is not written out"));
            return;
        };
        if moves && !name.starts_with(['/', '~']) {
            self.found.opaque.push((part, "the directory changes before it writes there"));
            return;
        }
        // A quoted tilde is a name like any other.
        let spelled = if name.starts_with('~') && !file.name.tilde { format!("./{name}") } else { name.to_owned() };
        match self.scene.spot(&spelled) {
            Ok(spot) => {
                let before = self.found.open.len();
                self.spot(&spot, &part, "Write");
                if self.found.open.len() > before && (self.accepts)(&spot) {
                    self.found.open.truncate(before);
                }
            }
            Err(why) => self.found.opaque.push((part, why)),
        }
    }

    fn command(&mut self, command: &Command) {
        if let Kind::Hidden(why) = command.kind {
            self.found.opaque.push((command.text.clone(), why));
            return;
        }
        // An assignment on its own needs no rule if nothing else can be led astray by it.
        if command.words.is_empty() && command.has_harmless_variables() {
            return;
        }
        let grant = self.rules.iter().copied().find_map(|rule| grant(rule, command).map(|reach| (rule, reach)));
        match (grant, command.kind) {
            (Some((rule, reach)), _) => {
                self.found.granted.push((rule, command.text.clone()));
                // Commands within are covered as far as the rule's own words reach into them.
                for inner in command.inner.iter().filter(|inner| inner.reach >= reach) {
                    inner.commands.iter().for_each(|command| self.command(command));
                }
                // What nobody can see stays unseen, whatever the rule names.
                for inner in command.inner.iter().filter(|inner| inner.reach < reach) {
                    inner.commands.iter().for_each(|command| self.opaque_only(command));
                }
            }
            // What only reads needs no rule beside others that have one, as `tail` behind a pipe.
            (None, _) if needs_no_rule(self.scene, command) => {}
            (None, Kind::Carrier) if command.has_harmless_variables() => {
                for inner in &command.inner {
                    inner.commands.iter().for_each(|command| self.command(command));
                }
            }
            (None, Kind::Runner(why)) => self.found.opaque.push((command.text.clone(), why)),
            (None, _) => {
                self.found.open.push(command.text.clone());
                for inner in &command.inner {
                    inner.commands.iter().for_each(|command| self.opaque_only(command));
                }
            }
        }
    }

    fn opaque_only(&mut self, command: &Command) {
        if let Kind::Hidden(why) = command.kind {
            self.found.opaque.push((command.text.clone(), why));
        }
        for inner in &command.inner {
            inner.commands.iter().for_each(|command| self.opaque_only(command));
        }
    }
}

/// Does the command only read, and either no file or before anything else runs? What runs before it could have put a link
/// where it reads.
pub(crate) fn needs_no_rule(scene: &Scene<'_>, command: &Command) -> bool {
    let Touched::Shell(line) = &scene.touched else { return false };
    let mut only_reads = !command.repeats && !line.expands;
    for (other, finding) in line.all().into_iter().zip(&scene.reading(line).commands) {
        only_reads &= finding.grade == Grade::Automatic;
        if std::ptr::eq(other, command) {
            return only_reads || finding.is_free();
        }
    }
    false
}

/// Does a rule allow this command with everything that it runs?
pub(crate) fn is_granted(rules: &RuleSet, command: &Command) -> bool {
    let reaches = |rule: &Rule| grant(rule, command).filter(|_| rule.effect == Effect::Allow);
    rules.iter().filter_map(reaches).any(|reach| {
        let open = command.inner.iter().filter(|inner| inner.reach >= reach);
        open.flat_map(|inner| &inner.commands).all(|inner| is_granted(rules, inner))
    })
}

/// Does a rule allow writing this file?
pub(crate) fn grants_file(rules: &RuleSet, scene: &Scene<'_>, spot: &Spot) -> bool {
    rules.iter().any(|rule| rule.effect == Effect::Allow && grants_spot(rule, scene, spot, "Write"))
}

fn grants_spot(rule: &Rule, scene: &Scene<'_>, spot: &Spot, tool: &str) -> bool {
    match &rule.matcher {
        Matcher::Path { tool: named, pattern } => {
            covers(named, tool) && spot.paths.iter().all(|path| pattern.matches(path, &scene.ground(), false))
        }
        matcher => names_tool(matcher, tool),
    }
}

/// Does the rule allow this command? Answers how many of its words the rule names.
fn grant(rule: &Rule, command: &Command) -> Option<usize> {
    match &rule.matcher {
        Matcher::Command(pattern) => {
            let reach = is_named(pattern, command)?;
            command.has_harmless_variables().then_some(())?;
            let in_full = reach == usize::MAX;
            (in_full || !matches!(command.kind, Kind::Runner(_))).then_some(reach)
        }
        matcher => names_tool(matcher, "Bash").then_some(usize::MAX),
    }
}

/// Are the command's words, beyond doubt, those of the pattern?
fn is_named(pattern: &CommandPattern, command: &Command) -> Option<usize> {
    let first = command.words.get(..pattern.words.len())?;
    let same = first.iter().zip(&pattern.words).all(|(word, wanted)| word.known() == Some(wanted.as_str()));
    same.then_some(())?;
    let in_full = first.len() == command.words.len();
    (pattern.open || in_full).then_some(if pattern.open { pattern.words.len() } else { usize::MAX })
}
