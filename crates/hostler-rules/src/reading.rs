//! What needs nobody's word in a session that asks: reading where the session works, and calls that touch nothing.

use std::path::Path;

use crate::call::Call;
use crate::decide::{Mode, Verdict, decide};
use crate::path::Resolver;
use crate::rule::{Effect, Rule, Scope};
use crate::set::RuleSet;

/// Tools that change nothing outside the agent: lists of their own, output of what runs already, and agents whose own
/// calls pass the gate one by one.
const HARMLESS: [&str; 14] = [
    "Agent",
    "AgentOutput",
    "BashOutput",
    "EnterPlanMode",
    "KillShell",
    "Task",
    "TaskCreate",
    "TaskGet",
    "TaskList",
    "TaskOutput",
    "TaskStop",
    "TaskUpdate",
    "TodoWrite",
    "ToolSearch",
];

/// Tools that read files by name, and nothing else.
const READERS: [&str; 5] = ["Glob", "Grep", "LS", "NotebookRead", "Read"];

/// Whether the call only looks at what is in the working directory, or touches nothing at all.
pub(crate) fn is_harmless(call: &Call, resolver: &dyn Resolver) -> bool {
    let tool = call.tool.as_str();
    if HARMLESS.contains(&tool) {
        return true;
    }
    if READERS.contains(&tool) {
        return reads_inside(call, resolver);
    }
    tool == "Bash" && only_reads(call, resolver) && stays_inside(call, resolver)
}

/// By every path that the names may have, after their links.
fn reads_inside(call: &Call, resolver: &dyn Resolver) -> bool {
    let mut rules = RuleSet::default();
    let inside = Rule::parse(Effect::Allow, Scope::Session, "Read(./**)").ok();
    if inside.and_then(|rule| rules.add(rule).ok()).is_none() {
        return false;
    }
    decide(&rules, Mode::Default, call, resolver).verdict == Verdict::Allow
}

/// The rules know which commands only read: those are what planning may run.
fn only_reads(call: &Call, resolver: &dyn Resolver) -> bool {
    decide(&RuleSet::default(), Mode::Plan, call, resolver).verdict == Verdict::Allow
}

/// A command that only reads can still read what is none of its business. It stays inside if no word of it leads out;
/// what could be a path and is not plain is taken for one that does.
fn stays_inside(call: &Call, resolver: &dyn Resolver) -> bool {
    let Some(line) = call.input.get("command").and_then(serde_json::Value::as_str) else { return false };
    if line.contains(['~', '$', '`', '\\']) {
        return false;
    }
    let Ok(workspace) = resolver.resolve(&call.workspace) else { return false };
    let separators = |c: char| c.is_whitespace() || "'\"=<>|&;(){},:".contains(c);
    line.split(separators).filter(|word| !word.is_empty()).all(|word| {
        // `cd` alone leads home, and whatever follows it starts there.
        !matches!(word, "cd" | "pushd" | "popd")
            && (word == "/dev/null" || leads_inside(word, call, &workspace, resolver))
    })
}

fn leads_inside(word: &str, call: &Call, workspace: &Path, resolver: &dyn Resolver) -> bool {
    if word.starts_with('-') {
        // An option can carry a path right behind its letter.
        return !word.contains('/');
    }
    resolver.resolve(&call.cwd.join(word)).is_ok_and(|path| path.starts_with(workspace))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::Disk;
    use serde_json::json;

    fn shell(line: &str, directory: &Path) -> bool {
        is_harmless(&Call::shell(line, directory), &Disk)
    }

    #[test]
    fn commands_that_only_read_pass_as_long_as_they_stay_inside() {
        let dir = tempfile::tempdir().unwrap();
        let work = dir.path().join("work");
        std::fs::create_dir(&work).unwrap();
        std::fs::write(dir.path().join("secret"), "x").unwrap();
        #[cfg(unix)]
        std::os::unix::fs::symlink(dir.path().join("secret"), work.join("link")).unwrap();
        for line in ["ls -la", "git status", "cat src/main.rs | grep -n 'fn main'", "ls 2>/dev/null", "wc -l *.rs"] {
            assert!(shell(line, &work), "{line}");
        }
        for line in [
            "cat ../secret",
            "cat link",
            "cat ~/.ssh/id_rsa",
            "cat /etc/passwd",
            "cd && cat .ssh/id_rsa",
            "grep -r key \"$HOME\"",
            "grep -f/etc/passwd x",
            "grep --file=/etc/passwd x",
            "cat <../secret",
            "touch made",
            "rm -rf x",
            "ls; rm x",
        ] {
            assert!(!shell(line, &work), "{line}");
        }
    }

    #[test]
    fn files_are_read_inside_only_and_nothing_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let work = dir.path().join("work");
        std::fs::create_dir(&work).unwrap();
        #[cfg(unix)]
        std::os::unix::fs::symlink(dir.path(), work.join("out")).unwrap();
        let call = |tool: &str, path: &str| is_harmless(&Call::new(tool, json!({ "file_path": path }), &work), &Disk);
        assert!(call("Read", "a.txt") && call("Read", &work.join("deep/a.txt").display().to_string()));
        assert!(!call("Read", "../a.txt") && !call("Read", "/etc/hosts") && !call("Read", "out/secret"));
        assert!(!call("Write", "a.txt") && !call("Edit", "a.txt") && !call("BrandNew", "a.txt"));
        assert!(is_harmless(&Call::new("Grep", json!({ "pattern": "x" }), &work), &Disk));
        assert!(is_harmless(&Call::new("Glob", json!({ "pattern": "**/*.rs" }), &work), &Disk));
        assert!(!is_harmless(&Call::new("Glob", json!({ "pattern": "/etc/*" }), &work), &Disk));
        assert!(!is_harmless(&Call::new("Read", json!({ "file_path": 7 }), &work), &Disk));
        assert!(!is_harmless(&Call::new("mcp__x__read", json!({}), &work), &Disk));
    }
}
