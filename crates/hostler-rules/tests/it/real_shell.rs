//! Runs allowed lines in a real bash: a command that no rule allows must not have run.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use hostler_rules::{DecisionOutcome, DiskResolver, Effect, PermissionMode, Rule, RuleScope, RuleSet, ToolUse, decide};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

/// Programs without an effect, and one that creates a marker file.
struct Bed {
    directory: tempfile::TempDir,
    rules: RuleSet,
}

impl Bed {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let bed = Self { directory, rules: rules() };
        std::fs::create_dir_all(bed.path().join("bin")).unwrap();
        std::fs::create_dir_all(bed.path().join("w/out")).unwrap();
        for name in ["ls", "cat", "git"] {
            bed.program(name, "exit 0");
        }
        bed.program("rm", "echo \"$@\" >> \"${0%/*}/mark\"");
        bed
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn program(&self, name: &str, body: &str) {
        let path = self.path().join("bin").join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn is_allowed(&self, line: &str) -> bool {
        let call = ToolUse::shell(line, self.path().join("w"));
        decide(&self.rules, PermissionMode::Default, &call, &DiskResolver).outcome == DecisionOutcome::Allow
    }

    /// Runs the line and waits for its background processes; returns whether the marker exists.
    fn leaves_a_mark(&self, line: &str) -> bool {
        let bash = Command::new("/bin/bash")
            .args(["--norc", "--noprofile", "-c", line])
            .current_dir(self.path().join("w"))
            .env_clear()
            .env("PATH", self.path().join("bin"))
            .stdin(Stdio::null())
            .output();
        drop(bash.expect("/bin/bash is needed for this test"));
        let mark = self.path().join("bin/mark");
        let marked = mark.exists();
        if marked {
            std::fs::remove_file(mark).unwrap();
        }
        marked
    }
}

fn rules() -> RuleSet {
    let mut rules = RuleSet::default();
    for text in ["Bash(echo:*)", "Bash(ls:*)", "Bash(cat:*)", "Bash(git:*)", "Bash(true:*)", "Edit(out/**)"] {
        rules.add(Rule::parse(Effect::Allow, RuleScope::Global, text).unwrap()).unwrap();
    }
    rules
}

/// Harmless words, the marker program, and syntax that can hide it.
fn line() -> impl Strategy<Value = String> {
    let pieces = prop::sample::select(vec![
        "rm x",
        "rm x",
        "rm x",
        ";rm x;",
        "\nrm x\n",
        "$(rm x)",
        "`rm x`",
        "echo ",
        "echo a",
        "ls",
        " ",
        " ",
        ";",
        "\n",
        "'",
        "'",
        "\"",
        "\"",
        "\\",
        "\\'",
        "\\\"",
        "\\\\",
        "\\$",
        "\\`",
        "$",
        "$'",
        "$\"",
        "`",
        "$(",
        "$(echo ",
        ")",
        "(",
        "${a:-",
        "${a:-'",
        "}",
        "$((",
        "))",
        "$[",
        "]",
        "# ",
        " #",
        " # )",
        "<<E\n",
        "<<'E'\n",
        "<<-E\n",
        "\nE\n",
        "\n\tE\n",
        "<<<",
        "{",
        ",",
        "&&",
        "|",
        "&",
        "!",
        "> out/b",
        ">",
        "2>&1",
        "case x in x) ",
        "x) ",
        ";;",
        "esac",
        "[[ a == ",
        " ]]",
        " =~ ",
        "a=(",
        "b=",
        "a[0]=",
        "for i in 1; do ",
        "; done",
        "if ls; then ",
        "; fi",
        "f() { ",
        "; }",
        "{ ",
        "~",
        "*",
        "\\\n",
        "time ",
        "<(",
        ">(",
        "-",
        "cat <<'E'\nit's\nE\n",
        "\"$(cat <<'E'\n",
        "\nE\n)\"",
    ]);
    prop::collection::vec(pieces, 1..9).prop_map(|pieces| format!("echo {}", pieces.concat()))
}

#[test]
fn marker_program_is_detected() {
    let bed = Bed::new();
    assert!(bed.leaves_a_mark("echo a; rm x"));
    assert!(bed.leaves_a_mark("echo \\$'a\\' ; rm -rf x; echo \\$'b\\'"));
    assert!(bed.leaves_a_mark("{ rm x; } &"));
    assert!(!bed.leaves_a_mark("echo 'a; rm x'"));
    assert!(bed.is_allowed("echo 'a; rm x'"));
    assert!(!bed.is_allowed("echo a; rm x"));
}

#[test]
fn allowed_lines_run_only_allowed_programs() {
    let tries = 4_000;
    let bed = Bed::new();
    let config = ProptestConfig { cases: tries, failure_persistence: None, ..ProptestConfig::default() };
    let allowed = std::cell::Cell::new(0);
    TestRunner::new(config)
        .run(&line(), |line| {
            if bed.is_allowed(&line) {
                allowed.set(allowed.get() + 1);
                prop_assert!(!bed.leaves_a_mark(&line), "bash ran more than was allowed: {line:?}");
            }
            Ok(())
        })
        .unwrap_or_else(|error| panic!("{error}"));
    // The test is meaningful only if enough lines are allowed.
    assert!(allowed.get() > tries / 50, "only {} of {tries} lines were allowed", allowed.get());
}
