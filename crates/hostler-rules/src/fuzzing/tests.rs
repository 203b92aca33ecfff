//! Checks the fuzzed properties with the seeds, the corpus and random mutations.

use std::collections::BTreeSet;
use std::path::Path;

use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};

use super::corpus::{ExpectedOutcome, decide_line};
use super::*;
use crate::read_only::programs_with_text_options;

/// Finds a violated property without running the fuzzer.
#[test]
fn shell_rules_properties_hold_for_seeds_and_their_prefixes() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/shell_rules");
    let seeds: Vec<Vec<u8>> =
        std::fs::read_dir(seeds).unwrap().map(|seed| std::fs::read(seed.unwrap().path()).unwrap()).collect();
    assert!(seeds.len() > 2);
    for mut seed in seeds {
        (0..seed.len()).step_by(5).for_each(|length| shell_rules(&seed[..length]));
        for more in 0..40 {
            seed[1] = more;
            shell_rules(&seed);
        }
    }
}

#[test]
fn corpus_is_large_and_has_no_duplicates() {
    let corpus = Corpus::load();
    assert!(corpus.lines().len() >= 400, "the corpus has {} lines", corpus.lines().len());
    for group in &corpus.groups {
        assert_eq!(corpus.expected(group).len(), MODES.len(), "{}: every mode is expected", group.about);
        assert_eq!(
            group.lines.iter().collect::<BTreeSet<_>>().len(),
            group.lines.len(),
            "{}: a line twice",
            group.about
        );
    }
}

#[test]
fn corpus_lines_are_decided_as_expected_in_every_mode() {
    let corpus = Corpus::load();
    let sandbox = Sandbox::new(RepositoryKind::Clean);
    let mut wrong = Vec::new();
    for group in &corpus.groups {
        let (rules, expected) = (group.rules(), corpus.expected(group));
        for line in &group.lines {
            for mode in MODES {
                let decision = decide_line(&rules, mode, line, &sandbox, &group.directory);
                let got = match decision.outcome {
                    DecisionOutcome::Allow => ExpectedOutcome::Allow,
                    DecisionOutcome::Ask => ExpectedOutcome::Ask,
                    DecisionOutcome::Deny => ExpectedOutcome::Deny,
                    DecisionOutcome::Undecided => unreachable!("nothing is left open"),
                };
                if got != expected[&mode] {
                    let want = expected[&mode];
                    wrong.push(format!(
                        "{mode:?}: {line:?}: want {want:?}, got {got:?} ({}): {}",
                        group.about,
                        explain(&decision).join(" ")
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} decisions:\n  {}", wrong.len(), wrong.join("\n  "));
}

/// A line whose program is missing would prove nothing.
#[test]
fn programs_of_the_allow_list_are_installed() {
    let sandbox = Sandbox::new(RepositoryKind::Clean);
    let is_builtin = |name: &str| ["type", ":"].contains(&name);
    let missing: Vec<_> = programs_with_text_options()
        .into_iter()
        .map(|(name, _)| name)
        .chain(["find", "git", "printf", "ps", "timeout", "nice", "env", "xargs"])
        .filter(|name| !is_builtin(name) && !sandbox.has_program(name))
        .collect();
    assert!(missing.is_empty(), "these programs are needed on PATH and were not found: {}", missing.join(", "));
}

#[test]
fn values_of_text_options_are_not_read_as_files() {
    let mut sandbox = Sandbox::new(RepositoryKind::Clean);
    let (mut allowed, mut wrong) = (0, Vec::new());
    for (program, options) in programs_with_text_options() {
        for option in options {
            for value in ["../outside/passwd", "ln1", "made"] {
                for line in [format!("{program} {option} {value}"), format!("{program} {option} {value} a.txt")] {
                    if is_allowed(&RuleSet::default(), PermissionMode::Default, &line, &sandbox, "") {
                        allowed += 1;
                        let found = sandbox.find_violations(&line, "", &[]);
                        wrong.extend((!found.is_empty()).then(|| format!("{line:?}: {found:?}")));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} lines:\n  {}", wrong.len(), wrong.join("\n  "));
    assert!(allowed > 300, "{allowed} allowed lines prove little");
}

#[test]
fn sandbox_detects_violations() {
    let mut sandbox = Sandbox::new(RepositoryKind::Clean);
    for (line, evidence) in [
        ("touch made", "ran"),
        ("./evil.sh", "ran"),
        ("{ sleep 0.1; ./evil.sh; } >/dev/null 2>&1 &", "ran"),
        ("echo x > made", "made project/made"),
        ("echo x > a.txt", "changed project/a.txt"),
        ("echo x > ../outside/made", "made outside/made"),
        ("cat ../outside/passwd", "printed"),
        ("cat link.txt | md5sum", "read \"outside/passwd\""),
        ("cat ~/.ssh/id_rsa | wc -c", "read \"home/.ssh/id_rsa\""),
        ("ls ..", "read \"\""),
        ("ls ln1 >/dev/null", "read \"outside\""),
        ("cat /etc/passwd", "printed"),
        ("printenv", "printed"),
        ("cat secret.txt", "read \"project/secret.txt\""),
        ("cd docs && git status", "ran"),
        ("git log --format=%GG", "ran"),
        ("ls -la; cat a.txt; find . -name x; ls -l ln1; git status; git diff; git log", ""),
    ] {
        // Without access times, only the output shows what was read.
        if evidence.starts_with("read") && !sandbox.records_access_times() {
            continue;
        }
        let found = sandbox.find_violations(line, "", &["secret.txt".to_owned()]);
        let seen = found.iter().any(|found| found.starts_with(evidence));
        assert_eq!(seen, !evidence.is_empty(), "{line:?}: {found:?}");
    }
    for repository in RepositoryKind::ALL.into_iter().filter(|repository| *repository != RepositoryKind::Clean) {
        let mut sandbox = Sandbox::new(repository);
        assert!(!sandbox.find_violations("git status", "", &[]).is_empty(), "in {repository:?}");
    }
}

/// Runs every allowed line of the corpus in this kind of repository; lines without Git run in the clean
/// one only.
fn run_what_is_allowed(repository: RepositoryKind) {
    let corpus = Corpus::load();
    let mut sandbox = Sandbox::new(repository);
    let (mut allowed, mut wrong) = (0, Vec::new());
    for group in &corpus.groups {
        let rules = group.rules();
        // An allow rule may allow writes, so only plan mode is checked.
        let modes: &[PermissionMode] = if group.has_allow_rules() {
            &[PermissionMode::Plan]
        } else {
            &[PermissionMode::Default, PermissionMode::Plan]
        };
        let lines = group.lines.iter().filter(|line| repository == RepositoryKind::Clean || line.contains("git"));
        for line in lines {
            if modes.iter().any(|mode| is_allowed(&rules, *mode, line, &sandbox, &group.directory)) {
                allowed += 1;
                let found = sandbox.find_violations(line, &group.directory, &group.unread);
                if !found.is_empty() {
                    wrong.push(format!("{line:?} ({}): {found:?}", group.about));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} allowed lines in {repository:?}:\n  {}", wrong.len(), wrong.join("\n  "));
    assert!(repository != RepositoryKind::Clean || allowed > 200, "{allowed} allowed lines prove little");
}

#[test]
fn allowed_lines_only_read_the_project() {
    run_what_is_allowed(RepositoryKind::Clean);
}

#[test]
fn allowed_lines_run_no_program_that_a_repository_configures() {
    run_what_is_allowed(RepositoryKind::Hostile);
}

#[test]
fn allowed_lines_do_not_follow_an_external_git_directory() {
    run_what_is_allowed(RepositoryKind::ExternalGitDirectory);
}

#[test]
fn allowed_lines_run_no_program_that_a_submodule_configures() {
    run_what_is_allowed(RepositoryKind::Submodule);
}

#[test]
fn allowed_lines_do_not_follow_an_external_work_tree() {
    run_what_is_allowed(RepositoryKind::Worktree);
}

#[test]
fn shell_reads_properties_hold_for_seeds() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/shell_reads");
    let seeds: Vec<_> =
        std::fs::read_dir(seeds).unwrap().map(|seed| std::fs::read(seed.unwrap().path()).unwrap()).collect();
    assert!(seeds.len() > 2);
    for seed in seeds {
        shell_reads(&seed);
    }
}

/// Checks this many generated lines, the same ones in every run; `PROPTEST_CASES` checks more. Returns how many of them
/// were allowed.
fn run_generated_lines(cases: u32, last: std::ops::RangeInclusive<u8>) -> usize {
    let config = ProptestConfig {
        cases: ProptestConfig::default().cases.max(cases),
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let bytes = (proptest::collection::vec(any::<u8>(), 4..48), last);
    let allowed = std::cell::Cell::new(0);
    TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha))
        .run(&bytes, |(mut data, last)| {
            data.push(last);
            allowed.set(allowed.get() + usize::from(shell_reads(&data)));
            Ok(())
        })
        .unwrap();
    allowed.get()
}

#[test]
fn allowed_mutated_lines_only_read_the_project() {
    let allowed = run_generated_lines(2_000, 0..=127);
    assert!(allowed > 300, "{allowed} allowed lines prove little");
}

#[test]
fn allowed_composed_lines_only_read_the_project() {
    let allowed = run_generated_lines(3_000, 128..=255);
    assert!(allowed > 300, "{allowed} allowed lines prove little");
}
