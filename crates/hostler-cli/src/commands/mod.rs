//! Commands, one module each. Arguments are parsed in `args`, settings are resolved in `settings`.

mod agents;
mod demo;
mod doctor;
mod grants;
mod link;
mod login;
mod proxy;
mod rules;
mod run;
mod serve;
mod sessions;
mod trust;

use clap::CommandFactory as _;

use crate::args::Cli;
use crate::console::Console;
use crate::exit::{CommandFailure, Exit};

pub(crate) use agents::run_agents_command;
pub(crate) use demo::run_demo_command;
pub(crate) use doctor::run_doctor_command;
pub(crate) use grants::{GrantInfo, run_grants_command};
pub(crate) use link::run_link_command;
pub(crate) use proxy::run_proxy_command;
pub(crate) use rules::run_rules_command;
pub(crate) use run::run_run_command;
pub(crate) use serve::run_serve_command;
pub(crate) use sessions::run_sessions_command;
pub(crate) use trust::run_trust_command;

/// Prints a completion script.
pub(crate) fn print_completions(shell: clap_complete::Shell, console: &mut Console) -> Result<Exit, CommandFailure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "hostler", &mut script);
    console.write_out(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Done)
}
