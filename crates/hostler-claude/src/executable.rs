//! How a Claude Code executable is run: directly, or by Node.js.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// How Claude Code is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Executable {
    /// A native executable.
    Native(PathBuf),
    /// A script for Node.js.
    Js {
        /// `node`, or a path to it.
        node: PathBuf,
        /// The script.
        cli: PathBuf,
    },
}

impl Executable {
    /// A script (`.js`, `.mjs`, `.cjs`) runs on the `node` of the agent's PATH; anything else is a program.
    pub fn from_path(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        match path.extension().and_then(OsStr::to_str) {
            Some("js" | "mjs" | "cjs") => Self::Js { node: PathBuf::from("node"), cli: path },
            _ => Self::Native(path),
        }
    }

    /// The path that identifies it to a person.
    pub fn path(&self) -> &Path {
        match self {
            Self::Native(path) | Self::Js { cli: path, .. } => path,
        }
    }

    /// The program, and the arguments that precede ours. A bare name is looked up in the agent's PATH.
    pub(crate) fn command(&self) -> (PathBuf, Vec<OsString>) {
        match self {
            Self::Native(path) => (path.clone(), Vec::new()),
            Self::Js { node, cli } => (node.clone(), vec![cli.into()]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extension_selects_node_or_direct_execution() {
        assert_eq!(Executable::from_path("/opt/claude"), Executable::Native("/opt/claude".into()));
        assert_eq!(Executable::from_path("claude.exe"), Executable::Native("claude.exe".into()));
        for script in ["/opt/cli.js", "cli.mjs", "cli.cjs"] {
            assert_eq!(Executable::from_path(script), Executable::Js { node: "node".into(), cli: script.into() });
        }
    }
}
