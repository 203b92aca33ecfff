//! An independent, simple model of the policy: the few calls and the few rules of these tests.

use std::collections::BTreeSet;
use std::path::Path;

use hostler_driver::GateDecision;
use serde_json::json;

/// The calls that agents make.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TestCall {
    Read,
    Push,
    Pull,
    Write,
    /// An invalid input.
    Malformed,
}

impl TestCall {
    pub(crate) const ALL: [Self; 5] = [Self::Read, Self::Push, Self::Pull, Self::Write, Self::Malformed];

    pub(crate) fn tool(self) -> &'static str {
        match self {
            Self::Read => "Read",
            Self::Push | Self::Pull | Self::Malformed => "Bash",
            Self::Write => "Write",
        }
    }

    pub(crate) fn input(self, directory: &Path) -> String {
        match self {
            Self::Read => json!({ "file_path": directory.join("notes.txt") }).to_string(),
            Self::Push => json!({ "command": "git push" }).to_string(),
            Self::Pull => json!({ "command": "git pull" }).to_string(),
            Self::Write => json!({ "file_path": directory.join("made.txt"), "content": "x" }).to_string(),
            Self::Malformed => "[]".to_owned(),
        }
    }

    /// Returns the call that a tool and its input are.
    pub(crate) fn of(tool: &str, input: &str, directory: &Path) -> Option<Self> {
        Self::ALL.into_iter().find(|test_call| test_call.tool() == tool && test_call.input(directory) == input)
    }
}

/// The permission modes.
pub(crate) const MODES: [&str; 4] = ["default", "acceptEdits", "plan", "dontAsk"];

/// Contents of the host's rules file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RulesFile {
    Empty,
    DeniesPush,
    AllowsPush,
    AsksPull,
}

impl RulesFile {
    pub(crate) const ALL: [Self; 4] = [Self::Empty, Self::DeniesPush, Self::AllowsPush, Self::AsksPull];

    /// The file's text. All texts differ in length, so that every change is noticed.
    pub(crate) fn text(self, version: usize) -> String {
        let rule = match self {
            Self::Empty => String::new(),
            Self::DeniesPush => r#"{ effect = "deny", scope = "global", rule = "Bash(git push:*)" }"#.to_owned(),
            Self::AllowsPush => r#"{ effect = "allow", scope = "global", rule = "Bash(git push)" }"#.to_owned(),
            Self::AsksPull => r#"{ effect = "ask", scope = "global", rule = "Bash(git pull:*)" }"#.to_owned(),
        };
        format!("#{}\n[global]\nversion = 1\nrules = [{rule}]\n", "#".repeat(version * 100))
    }
}

/// The policy that applies in the session.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Policy {
    pub(crate) mode: &'static str,
    pub(crate) rules_file: RulesFile,
    /// Calls that were allowed for the session.
    pub(crate) session: BTreeSet<TestCall>,
    /// Calls that were allowed permanently, in the rule store.
    pub(crate) always: BTreeSet<TestCall>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExpectedDecision {
    Allow,
    Ask,
    Deny,
}

impl Policy {
    pub(crate) fn new() -> Self {
        Self { mode: "default", rules_file: RulesFile::Empty, session: BTreeSet::new(), always: BTreeSet::new() }
    }

    pub(crate) fn decision(&self, test_call: TestCall) -> ExpectedDecision {
        let asked = if self.mode == "dontAsk" { ExpectedDecision::Deny } else { ExpectedDecision::Ask };
        match (test_call, self.mode, self.rules_file) {
            (TestCall::Malformed, _, _) | (TestCall::Push, _, RulesFile::DeniesPush) => ExpectedDecision::Deny,
            (TestCall::Read, _, _) => ExpectedDecision::Allow,
            (_, "plan", _) => ExpectedDecision::Deny,
            (TestCall::Pull, _, RulesFile::AsksPull) => asked,
            (TestCall::Push, _, RulesFile::AllowsPush) | (TestCall::Write, "acceptEdits", _) => ExpectedDecision::Allow,
            _ if self.session.contains(&test_call) || self.always.contains(&test_call) => ExpectedDecision::Allow,
            _ => asked,
        }
    }
}

impl From<&GateDecision> for ExpectedDecision {
    fn from(gate: &GateDecision) -> Self {
        match gate {
            GateDecision::Allow => Self::Allow,
            GateDecision::Ask => Self::Ask,
            GateDecision::Deny(_) => Self::Deny,
        }
    }
}
