//! Links that change between two decisions: every decision reads the disk again, on a new call and on one that was
//! decided on before.
//!
//! A change between a decision and the use of the file is not detected here; the code that opens the file has to check
//! again.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use hostler_rules::{
    DecisionOutcome, DiskResolver, Effect, PermissionMode, Rule, RuleScope, RuleSet, ToolUse, decide_or_ask,
};
use serde_json::json;

struct Project {
    base: tempfile::TempDir,
    rules: RuleSet,
    /// The calls of earlier decisions, by file name.
    earlier_calls: RefCell<BTreeMap<String, [ToolUse; 4]>>,
}

impl Project {
    fn new(rules: &[(Effect, &str)]) -> Self {
        let base = tempfile::tempdir().unwrap();
        for directory in ["project/src", "project/secret", "outside/src"] {
            fs::create_dir_all(base.path().join(directory)).unwrap();
        }
        for file in ["project/a.txt", "project/src/a.txt", "project/secret/a.txt", "outside/a.txt", "outside/src/a.txt"]
        {
            fs::write(base.path().join(file), "text").unwrap();
        }
        let mut set = RuleSet::default();
        for (effect, text) in rules {
            set.add(Rule::parse(*effect, RuleScope::Workspace, text).unwrap()).unwrap();
        }
        Self { base, rules: set, earlier_calls: RefCell::default() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.base.path().join("project").join(name)
    }

    /// Replaces an entry by a link.
    fn swap(&self, name: &str, target: &str) {
        let path = self.path(name);
        drop(fs::remove_file(&path).or_else(|_| fs::rename(&path, path.with_extension("away"))));
        symlink(target, path).unwrap();
    }

    /// The decisions on all tools that read, and on a shell that reads.
    fn verdicts(&self, name: &str) -> [DecisionOutcome; 4] {
        let judge =
            |call: &ToolUse| decide_or_ask(&self.rules, PermissionMode::Default, call, None, &DiskResolver).outcome;
        let call = |tool: &str, key: &str, path: &Path| ToolUse::new(tool, json!({ key: path }), self.path(""));
        let calls = [
            call("Read", "file_path", Path::new(name)),
            call("Read", "file_path", &self.path(name)),
            call("Grep", "path", Path::new(name)),
            ToolUse::shell(&format!("cat {name}"), self.path("")),
        ];
        let verdicts = calls.each_ref().map(judge);
        let mut earlier = self.earlier_calls.borrow_mut();
        let earlier = earlier.entry(name.to_owned()).or_insert(calls);
        assert_eq!(earlier.each_ref().map(judge), verdicts, "the same calls, decided on before");
        verdicts
    }
}

#[test]
fn file_replaced_by_an_outside_link_is_asked_about() {
    let project = Project::new(&[]);
    assert_eq!(project.verdicts("a.txt"), [DecisionOutcome::Allow; 4]);
    project.swap("a.txt", "../outside/a.txt");
    assert_eq!(project.verdicts("a.txt"), [DecisionOutcome::Ask; 4]);
    project.swap("a.txt", "src/a.txt");
    assert_eq!(project.verdicts("a.txt"), [DecisionOutcome::Allow; 4]);
}

#[test]
fn parent_replaced_by_a_link_is_asked_about() {
    let project = Project::new(&[(Effect::Allow, "Read(src/**)")]);
    assert_eq!(project.verdicts("src/a.txt"), [DecisionOutcome::Allow; 4]);
    project.swap("src", "../outside/src");
    assert_eq!(project.verdicts("src/a.txt"), [DecisionOutcome::Ask; 4]);
}

#[test]
fn link_retargeted_to_a_denied_path_is_denied() {
    let project = Project::new(&[(Effect::Deny, "Read(secret/**)")]);
    project.swap("a.txt", "src/a.txt");
    assert_eq!(project.verdicts("a.txt"), [DecisionOutcome::Allow; 4]);
    project.swap("a.txt", "secret/a.txt");
    assert_eq!(project.verdicts("a.txt"), [DecisionOutcome::Deny; 4]);
    // Through two links, the second of which points back into the project.
    symlink("../project/secret", project.base.path().join("outside/back")).unwrap();
    project.swap("a.txt", "../outside/back/a.txt");
    assert_eq!(project.verdicts("a.txt"), [DecisionOutcome::Deny; 4]);
}

#[test]
fn dangling_link_is_asked_about_before_and_after_its_target_exists() {
    let project = Project::new(&[]);
    project.swap("a.txt", "../outside/later.txt");
    assert_eq!(project.verdicts("a.txt"), [DecisionOutcome::Ask; 4]);
    fs::write(project.base.path().join("outside/later.txt"), "text").unwrap();
    assert_eq!(project.verdicts("a.txt"), [DecisionOutcome::Ask; 4]);
}

#[test]
fn link_followed_by_dot_dot_is_asked_about() {
    let project = Project::new(&[]);
    // Lexically `link/../a.txt` is in the project, on disk it is outside.
    project.swap("link", "../outside/src");
    assert_eq!(project.verdicts("link/../a.txt"), [DecisionOutcome::Ask; 4]);
}
