//! What git says about a directory. Asked by its command, never read from its files.

use std::path::Path;

use hostler_driver::Clock;

use crate::command_runner::{CommandProgram, CommandRunner, run_and_read_lines};

/// How many branches are looked at, the latest first.
const MAX_BRANCHES: usize = 2_000;

/// The branches of a repository.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct GitBranches {
    /// The one that the directory is on; `None` between branches.
    pub(crate) current: Option<String>,
    /// All of them, the latest commit first.
    pub(crate) all: Vec<String>,
}

/// Whether git may know a directory: a glance, without asking it.
pub(crate) fn is_repository(directory: &Path) -> bool {
    directory.ancestors().any(|place| place.join(".git").exists())
}

/// The branch that a directory is on, if it is on one.
pub(crate) async fn current_branch(
    commands: &dyn CommandRunner,
    clock: &dyn Clock,
    directory: &Path,
) -> Option<String> {
    let program = git_command(&["symbolic-ref", "--short", "--quiet", "HEAD"]);
    run_and_read_lines(commands, clock, directory, program, 1).await?.into_iter().next()
}

/// The branches of the repository that a directory is in; `None` if it is in none, or git did not answer.
pub(crate) async fn branches(commands: &dyn CommandRunner, clock: &dyn Clock, directory: &Path) -> Option<GitBranches> {
    let refs = ["for-each-ref", "--sort=-committerdate", "--format=%(refname:lstrip=2)", "refs/heads"];
    let (all, current) = tokio::join!(
        run_and_read_lines(commands, clock, directory, git_command(&refs), MAX_BRANCHES),
        current_branch(commands, clock, directory),
    );
    Some(GitBranches { all: all?, current })
}

fn git_command(arguments: &[&str]) -> CommandProgram {
    // Nothing that a repository brings along is to run because somebody looked at it, and nothing is to be fetched.
    let quiet = [
        "GIT_NO_LAZY_FETCH=1",
        "GIT_ALLOW_PROTOCOL=none",
        "GIT_TERMINAL_PROMPT=0",
        "git",
        "--no-pager",
        "--no-optional-locks",
        "-c",
        "core.fsmonitor=false",
        "-c",
        "core.hooksPath=/dev/null",
    ];
    CommandProgram::Named("env", quiet.iter().chain(arguments).map(|argument| (*argument).to_owned()).collect())
}
