//! Reads branches of a directory's git repository, by the git command, never from its files.

use std::path::Path;

use hostler_driver::Clock;

use crate::terminals::command_runner::{CommandProgram, CommandRunner, run_and_read_lines};

/// Maximum number of branches, the latest first.
const MAX_BRANCHES: usize = 2_000;

/// The branches of a repository.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct GitBranches {
    /// The current branch of the directory; `None` for a detached head.
    pub(crate) current: Option<String>,
    /// All branches, the latest commit first.
    pub(crate) all: Vec<String>,
}

/// Whether a directory may be in a repository: a quick check that does not run git.
pub(crate) fn is_repository(directory: &Path) -> bool {
    directory.ancestors().any(|place| place.join(".git").exists())
}

/// The current branch of a directory, if there is one.
pub(crate) async fn current_branch(
    commands: &dyn CommandRunner,
    clock: &dyn Clock,
    directory: &Path,
) -> Option<String> {
    let program = git_command(&["symbolic-ref", "--short", "--quiet", "HEAD"]);
    run_and_read_lines(commands, clock, directory, program, 1).await?.into_iter().next()
}

/// The branches of a directory's repository; `None` if there is no repository, or git did not answer.
pub(crate) async fn branches(commands: &dyn CommandRunner, clock: &dyn Clock, directory: &Path) -> Option<GitBranches> {
    let refs = ["for-each-ref", "--sort=-committerdate", "--format=%(refname:lstrip=2)", "refs/heads"];
    let (all, current) = tokio::join!(
        run_and_read_lines(commands, clock, directory, git_command(&refs), MAX_BRANCHES),
        current_branch(commands, clock, directory),
    );
    Some(GitBranches { all: all?, current })
}

fn git_command(arguments: &[&str]) -> CommandProgram {
    // Reading a repository must neither run its hooks and programs nor fetch anything.
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
