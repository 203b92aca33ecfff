//! `hostler trust`: the grammar.

use std::path::PathBuf;

use clap::Subcommand;

/// Lists, adds, removes and checks the folders whose own configuration is trusted.
///
/// A folder can bring settings, commands, skills, environment variables and permission rules for agents. None of that applies until
/// a person trusts the folder. Trust holds for the configuration as it is at that moment: when it changes, you are asked
/// again. CLAUDE.md is always read. The decisions are in trust.toml of the state directory; a running host follows them.
#[derive(Debug, Subcommand)]
#[command(after_long_help = "\
Examples:
  hostler trust check                    what this folder brings, and whether it applies
  hostler trust add ~/project
  hostler trust add ~/work --subfolders
  hostler trust remove ~/project

On machines without people, name the folders in the configuration file:
  trusted-folders = [\"/ci/work\"]")]
pub(crate) enum TrustCommand {
    /// Lists the decisions.
    List {
        /// Print the decisions as JSON
        #[arg(long)]
        json: bool,
    },
    /// Trusts a folder, after showing what it brings.
    ///
    /// The home folder and / are trusted only if their full path is given, and never with their subfolders.
    Add {
        /// The folder
        #[arg(value_hint = clap::ValueHint::DirPath)]
        path: PathBuf,
        /// Trust the folders below it, too
        #[arg(long)]
        subfolders: bool,
        /// Do not ask
        #[arg(long)]
        yes: bool,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
    /// Removes the decision about a folder, and what its subfolders inherited from it.
    Remove {
        /// The folder
        #[arg(value_hint = clap::ValueHint::DirPath)]
        path: PathBuf,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
    /// Shows what a folder brings and whether it applies.
    ///
    /// Exits with 0 if the folder is trusted or brings nothing, and with 1 otherwise.
    Check {
        /// The folder [default: the current one]
        #[arg(value_hint = clap::ValueHint::DirPath)]
        path: Option<PathBuf>,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
}

impl TrustCommand {
    /// Returns whether the command prints JSON.
    pub(crate) fn is_json(&self) -> bool {
        match self {
            Self::List { json } | Self::Add { json, .. } | Self::Remove { json, .. } | Self::Check { json, .. } => {
                *json
            }
        }
    }
}
