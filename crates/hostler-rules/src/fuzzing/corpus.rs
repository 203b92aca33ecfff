//! The command lines of `tests/data/shell-corpus.toml` and their expected outcomes.

use std::collections::HashMap;
use std::path::Path;

use serde::Deserialize;

use super::sandbox::Sandbox;
use crate::decide::{Decision, DecisionOutcome, PermissionMode};
use crate::decide_or_ask::decide_or_ask;
use crate::path::DiskResolver;
use crate::rule::{Effect, Rule, RuleScope};
use crate::rule_set::RuleSet;
use crate::tool_use::ToolUse;

/// The whole file.
#[derive(Deserialize)]
pub(super) struct Corpus {
    want: HashMap<String, HashMap<PermissionMode, ExpectedOutcome>>,
    #[serde(rename = "group")]
    pub(super) groups: Vec<CorpusGroup>,
}

/// Lines with the same expectation.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CorpusGroup {
    pub(super) about: String,
    pub(super) want: String,
    /// The shell's directory, relative to the project.
    #[serde(default)]
    pub(super) directory: String,
    #[serde(default)]
    allow: Vec<String>,
    #[serde(default)]
    ask: Vec<String>,
    #[serde(default)]
    deny: Vec<String>,
    /// Files of the project that no allowed line may read.
    #[serde(default)]
    pub(super) unread: Vec<String>,
    pub(super) lines: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum ExpectedOutcome {
    Allow,
    Ask,
    Deny,
}

impl Corpus {
    pub(super) fn load() -> Self {
        toml::from_str(include_str!("../../tests/data/shell-corpus.toml")).expect("the corpus")
    }

    /// The expected outcome of a group in each mode.
    pub(super) fn expected(&self, group: &CorpusGroup) -> &HashMap<PermissionMode, ExpectedOutcome> {
        self.want.get(&group.want).expect("an expectation of the file")
    }

    /// The lines that are expected to be allowed without a rule.
    pub(super) fn read_only_lines(&self) -> Vec<&str> {
        let reading = self.groups.iter().filter(|group| group.want == "reads");
        reading.flat_map(|group| &group.lines).map(String::as_str).collect()
    }

    /// All lines.
    pub(super) fn lines(&self) -> Vec<&str> {
        self.groups.iter().flat_map(|group| &group.lines).map(String::as_str).collect()
    }
}

impl CorpusGroup {
    pub(super) fn rules(&self) -> RuleSet {
        let mut rules = RuleSet::default();
        for (effect, texts) in [(Effect::Allow, &self.allow), (Effect::Ask, &self.ask), (Effect::Deny, &self.deny)] {
            for text in texts {
                rules.add(Rule::parse(effect, RuleScope::Workspace, text).expect("a rule")).expect("there is room");
            }
        }
        rules
    }

    /// Whether a rule allows lines of the group. Those may write.
    pub(super) fn has_allow_rules(&self) -> bool {
        !self.allow.is_empty()
    }
}

/// Decides on a line in a directory of the sandbox's project.
pub(super) fn decide_line(
    rules: &RuleSet,
    mode: PermissionMode,
    line: &str,
    sandbox: &Sandbox,
    directory: &str,
) -> Decision {
    let cwd = if directory.is_empty() { sandbox.project() } else { sandbox.project().join(directory) };
    let call = ToolUse::shell(line, cwd).with_workspace(sandbox.project()).with_home(sandbox.home());
    decide_or_ask(rules, mode, &call, None::<&Path>, &DiskResolver)
}

/// Whether a line is allowed.
pub(super) fn is_allowed(
    rules: &RuleSet,
    mode: PermissionMode,
    line: &str,
    sandbox: &Sandbox,
    directory: &str,
) -> bool {
    decide_line(rules, mode, line, sandbox, directory).outcome == DecisionOutcome::Allow
}
