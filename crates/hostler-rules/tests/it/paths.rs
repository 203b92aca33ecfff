//! Path rules: links, `..`, and files that do not exist yet.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use hostler_rules::{
    DecisionOutcome, DiskResolver, Effect, PathKind, PathResolver, PermissionMode, Rule, RuleScope, RuleSet, ToolUse,
    decide, decide_or_ask, suggest_rules,
};
use serde_json::json;

struct Bed {
    directory: tempfile::TempDir,
}

impl Bed {
    /// `w/src` belongs to the project, `w/secret` must not be read, `outside` is not part of it.
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        for name in ["w/src", "w/secret", "outside"] {
            std::fs::create_dir_all(directory.path().join(name)).unwrap();
        }
        Self { directory }
    }

    fn path(&self, name: &str) -> String {
        self.directory.path().join(name).display().to_string()
    }

    fn link(&self, name: &str, target: &str) {
        symlink(target, self.path(name)).unwrap();
    }

    fn decide(&self, rules: &[(Effect, &str)], tool: &str, name: &str) -> DecisionOutcome {
        let input = match tool {
            "Glob" | "Grep" | "LS" => json!({ "path": name, "pattern": "x" }),
            "NotebookEdit" => json!({ "notebook_path": name }),
            "Bash" => json!({ "command": name }),
            _ => json!({ "file_path": name }),
        };
        self.call(rules, &ToolUse::new(tool, input, self.path("w")))
    }

    fn call(&self, rules: &[(Effect, &str)], call: &ToolUse) -> DecisionOutcome {
        let mut set = RuleSet::default();
        for (effect, text) in rules {
            set.add(Rule::parse(*effect, RuleScope::Workspace, text).unwrap()).unwrap();
        }
        decide(&set, PermissionMode::Default, call, &DiskResolver).outcome
    }
}

const RULES: [(Effect, &str); 3] =
    [(Effect::Allow, "Edit(src/**)"), (Effect::Allow, "Read(src/**)"), (Effect::Deny, "Read(secret/**)")];

#[test]
fn directory_rule_covers_its_files_for_all_tools_of_the_group() {
    let bed = Bed::new();
    for tool in ["Edit", "MultiEdit", "Write", "NotebookEdit", "Read", "Glob", "Grep", "LS"] {
        assert_eq!(bed.decide(&RULES, tool, "src/new/file"), DecisionOutcome::Allow, "{tool}");
        assert_eq!(bed.decide(&RULES, tool, &bed.path("w/src/file")), DecisionOutcome::Allow, "{tool}");
        assert_eq!(bed.decide(&RULES, tool, "other"), DecisionOutcome::Undecided, "{tool}");
        assert_eq!(bed.decide(&RULES, tool, "src/../other"), DecisionOutcome::Undecided, "{tool}");
    }
    for tool in ["Read", "Glob", "Grep", "LS"] {
        assert_eq!(bed.decide(&RULES, tool, "src/../secret/key"), DecisionOutcome::Deny, "{tool}");
    }
}

#[test]
fn write_rule_does_not_cover_edit() {
    let bed = Bed::new();
    let rules = [(Effect::Allow, "Write(src/**)")];
    assert_eq!(bed.decide(&rules, "Write", "src/a"), DecisionOutcome::Allow);
    assert_eq!(bed.decide(&rules, "Edit", "src/a"), DecisionOutcome::Undecided);
}

#[test]
fn link_out_of_an_allowed_directory_is_not_allowed() {
    let bed = Bed::new();
    bed.link("w/src/out", "../../outside");
    bed.link("w/src/file", &bed.path("outside/file"));
    bed.link("w/src/dangling", &bed.path("outside/not-yet"));
    for name in ["src/out/x", "src/file", "src/dangling", "src/out/../x"] {
        assert_eq!(bed.decide(&RULES, "Write", name), DecisionOutcome::Undecided, "{name}");
    }
    assert_eq!(
        bed.decide(&[RULES[0], (Effect::Allow, "Bash(echo:*)")], "Bash", "echo a > src/out/x"),
        DecisionOutcome::Undecided
    );
}

#[test]
fn allowed_directory_that_is_a_link_is_not_allowed() {
    let bed = Bed::new();
    bed.link("w/linked", &bed.path("outside"));
    assert_eq!(bed.decide(&[(Effect::Allow, "Edit(linked/**)")], "Edit", "linked/x"), DecisionOutcome::Undecided);
}

#[test]
fn link_into_a_denied_directory_is_denied() {
    let bed = Bed::new();
    bed.link("w/src/in", "../secret");
    assert_eq!(bed.decide(&RULES, "Read", "src/in/key"), DecisionOutcome::Deny);
    assert_eq!(bed.decide(&RULES, "Bash", "cat src/in/key"), DecisionOutcome::Deny);
}

#[test]
fn denied_directory_link_is_denied_by_its_real_path_too() {
    let bed = Bed::new();
    bed.link("w/vault", &bed.path("outside"));
    let rules = [(Effect::Deny, "Read(vault/**)"), (Effect::Allow, "Read")];
    assert_eq!(bed.decide(&rules, "Read", &bed.path("outside/key")), DecisionOutcome::Deny);
    assert_eq!(bed.decide(&rules, "Read", &bed.path("w/src/a")), DecisionOutcome::Allow);
}

#[test]
fn workspace_behind_a_link_is_the_same_workspace() {
    let bed = Bed::new();
    bed.link("door", &bed.path("w"));
    let call = ToolUse::new("Edit", json!({ "file_path": "src/a" }), bed.path("door"));
    assert_eq!(bed.call(&RULES, &call), DecisionOutcome::Allow);
}

#[test]
fn link_loop_is_asked_about() {
    let bed = Bed::new();
    bed.link("w/src/a", "b");
    bed.link("w/src/b", "a");
    assert_eq!(bed.decide(&RULES, "Edit", "src/a/x"), DecisionOutcome::Ask);
}

#[test]
fn patterns_are_relative_to_the_workspace_and_names_to_the_current_directory() {
    let bed = Bed::new();
    let call = ToolUse::new("Edit", json!({ "file_path": "a" }), bed.path("w/src")).with_workspace(bed.path("w"));
    assert_eq!(bed.call(&RULES, &call), DecisionOutcome::Allow);
    let call = ToolUse::new("Edit", json!({ "file_path": "src/a" }), bed.path("outside")).with_workspace(bed.path("w"));
    assert_eq!(bed.call(&RULES, &call), DecisionOutcome::Undecided);
}

#[test]
fn search_above_a_denied_directory_is_asked_about() {
    let bed = Bed::new();
    let rules = [(Effect::Deny, "Read(secret/**)"), (Effect::Allow, "Read")];
    assert_eq!(bed.decide(&rules, "Grep", "."), DecisionOutcome::Ask);
    assert_eq!(bed.decide(&rules, "Grep", "src"), DecisionOutcome::Allow);
    assert_eq!(bed.decide(&rules, "Glob", "."), DecisionOutcome::Allow);
}

#[test]
fn glob_pattern_counts_as_a_path() {
    let bed = Bed::new();
    let rules = [(Effect::Deny, "Read(//etc/**)"), (Effect::Allow, "Read")];
    let glob = |pattern: &str| ToolUse::new("Glob", json!({ "pattern": pattern }), bed.path("w"));
    assert_eq!(bed.call(&rules, &glob("/etc/*.conf")), DecisionOutcome::Deny);
    assert_eq!(bed.call(&rules, &glob("*/../../../etc/*")), DecisionOutcome::Ask);
    assert_eq!(bed.call(&rules, &glob("src/**/*.rs")), DecisionOutcome::Allow);
}

#[test]
fn tilde_requires_a_configured_home() {
    let bed = Bed::new();
    let rules = [(Effect::Deny, "Read(~/keys/**)"), (Effect::Allow, "Read")];
    let call = ToolUse::new("Read", json!({ "file_path": "~/keys/a" }), bed.path("w"));
    assert_eq!(bed.call(&rules, &call), DecisionOutcome::Ask);
    assert_eq!(bed.call(&rules, &call.with_home(bed.path("home"))), DecisionOutcome::Deny);
    let absolute = ToolUse::new("Read", json!({ "file_path": bed.path("home/keys/a") }), bed.path("w"));
    assert_eq!(bed.call(&rules, &absolute.with_home(bed.path("home"))), DecisionOutcome::Deny);
}

#[test]
fn malformed_input_is_never_allowed_and_a_tool_denial_applies() {
    let bed = Bed::new();
    for (tool, input) in [
        ("Bash", json!({})),
        ("Bash", json!({ "command": ["ls"] })),
        ("Bash", json!(null)),
        ("Read", json!({})),
        ("Edit", json!({ "file_path": 5 })),
        ("Write", json!({ "file_path": "a\u{0}b" })),
        ("Edit", json!({ "file_path": "src/a", "path": 7 })),
        ("WebFetch", json!({ "url": "file:///etc/passwd" })),
        ("WebFetch", json!({ "url": "no address" })),
    ] {
        let call = ToolUse::new(tool, input.clone(), bed.path("w"));
        assert_eq!(
            bed.call(&[(Effect::Allow, tool), (Effect::Allow, "*")], &call),
            DecisionOutcome::Ask,
            "{tool} {input}"
        );
        assert_eq!(bed.call(&[(Effect::Deny, tool)], &call), DecisionOutcome::Deny, "{tool}");
    }
}

#[test]
fn every_path_of_an_input_is_checked() {
    let bed = Bed::new();
    let call = ToolUse::new("Edit", json!({ "file_path": "src/a", "notebook_path": "other" }), bed.path("w"));
    assert_eq!(bed.call(&RULES, &call), DecisionOutcome::Undecided);
    assert!(Path::new(&bed.path("w")).is_absolute());
}

/// The real file system, with the number of times that each path, as it is written, is resolved.
#[derive(Default)]
struct CountingResolver(RefCell<BTreeMap<OsString, usize>>);

impl PathResolver for CountingResolver {
    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        *self.0.borrow_mut().entry(path.into()).or_default() += 1;
        DiskResolver.resolve(path)
    }

    fn path_kind(&self, path: &Path) -> PathKind {
        DiskResolver.path_kind(path)
    }

    fn read(&self, path: &Path, limit: u64) -> Option<Vec<u8>> {
        DiskResolver.read(path, limit)
    }

    fn list(&self, path: &Path, limit: usize) -> Option<Vec<(PathBuf, PathKind)>> {
        DiskResolver.list(path, limit)
    }
}

#[test]
fn decision_resolves_each_path_once_and_the_next_decision_resolves_it_again() {
    let bed = Bed::new();
    bed.link("w/loop", "loop");
    let mut rules = RuleSet::default();
    for (effect, text) in RULES.into_iter().chain([(Effect::Ask, "Read(asked/**)"), (Effect::Deny, "Edit(src/x)")]) {
        rules.add(Rule::parse(effect, RuleScope::Workspace, text).unwrap()).unwrap();
    }
    let line = "cd src && cat a.txt loop a.txt ../loop | timeout 5 tool src/a.txt . > out";
    let call = ToolUse::shell(line, bed.path("w")).with_home(bed.path("outside"));
    let resolver = CountingResolver::default();
    let decisions: [fn(&RuleSet, &ToolUse, &CountingResolver); 3] = [
        |rules, call, resolver| {
            let decision = decide_or_ask(rules, PermissionMode::Default, call, None, resolver);
            assert_eq!(decision.outcome, DecisionOutcome::Ask);
        },
        |rules, call, resolver| drop(decide(rules, PermissionMode::Plan, call, resolver)),
        |_, call, resolver| drop(suggest_rules(call, RuleScope::Session, resolver)),
    ];
    for (number, decide) in decisions.into_iter().enumerate() {
        decide(&rules, &call, &resolver);
        let counts = resolver.0.borrow();
        assert!(counts.values().all(|count| *count <= number + 1), "{counts:?}");
        assert_eq!(counts.get(OsStr::new(&bed.path("w"))), Some(&(number + 1)), "the disk is read for each decision");
    }
}
