//! What git says about a directory. Asked by its command, never read from its files.

use std::path::Path;

use hostler_driver::Clock;

use crate::commands::{Commands, Program, lines_of};

/// How many branches are looked at, the latest first.
const MOST_BRANCHES: usize = 2_000;

/// The branches of a repository.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Branches {
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
pub(crate) async fn current_branch(commands: &dyn Commands, clock: &dyn Clock, directory: &Path) -> Option<String> {
    let program = git(&["symbolic-ref", "--short", "--quiet", "HEAD"]);
    lines_of(commands, clock, directory, program, 1).await?.into_iter().next()
}

/// The branches of the repository that a directory is in; `None` if it is in none, or git did not answer.
pub(crate) async fn branches(commands: &dyn Commands, clock: &dyn Clock, directory: &Path) -> Option<Branches> {
    let refs = ["for-each-ref", "--sort=-committerdate", "--format=%(refname:lstrip=2)", "refs/heads"];
    let (all, current) = tokio::join!(
        lines_of(commands, clock, directory, git(&refs), MOST_BRANCHES),
        current_branch(commands, clock, directory),
    );
    Some(Branches { all: all?, current })
}

fn git(arguments: &[&str]) -> Program {
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
    Program::Named("env", quiet.iter().chain(arguments).map(|argument| (*argument).to_owned()).collect())
}
