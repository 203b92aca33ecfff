//! Arguments of `hostler trust`.

use std::path::PathBuf;

use clap::Subcommand;

/// Manages trusted folders: those whose own configuration applies.
///
/// A folder can contain settings, commands, skills, environment variables and permission rules for agents. They apply only
/// after a person trusts the folder. Trust covers the current configuration: after a change you are asked again. CLAUDE.md is
/// always read. The decisions are in trust.toml in the state directory; a running host applies changes.
#[derive(Debug, Subcommand)]
#[command(after_long_help = "\
Examples:
  hostler trust check
  hostler trust add ~/project
  hostler trust add ~/work --subfolders
  hostler trust remove ~/project

On machines without a user, set trusted folders in the configuration file:
  trusted-folders = [\"/ci/work\"]")]
pub(crate) enum TrustCommand {
    /// Lists the decisions.
    List {
        /// Print the decisions as JSON
        #[arg(long)]
        json: bool,
    },
    /// Shows the configuration of a folder and trusts it.
    ///
    /// The home folder and / can be trusted only by their full path, and never with their subfolders.
    Add {
        /// Folder
        #[arg(value_hint = clap::ValueHint::DirPath)]
        path: PathBuf,
        /// Also trust its subfolders
        #[arg(long)]
        subfolders: bool,
        /// Skip the confirmation
        #[arg(long)]
        yes: bool,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
    /// Removes the decision about a folder, including what its subfolders inherited.
    Remove {
        /// Folder
        #[arg(value_hint = clap::ValueHint::DirPath)]
        path: PathBuf,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
    /// Shows the configuration of a folder and whether it is trusted.
    ///
    /// Exits with 0 if the folder is trusted or has no configuration, and with 1 otherwise.
    Check {
        /// Folder [default: the current directory]
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
