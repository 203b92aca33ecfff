//! One module per command.

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
use crate::exit::{Exit, Failure};

pub(crate) use agents::agents;
pub(crate) use demo::demo;
pub(crate) use doctor::doctor;
pub(crate) use grants::{Grant, grants};
pub(crate) use link::link;
pub(crate) use proxy::proxy;
pub(crate) use rules::rules;
pub(crate) use run::run;
pub(crate) use serve::serve;
pub(crate) use sessions::sessions;
pub(crate) use trust::trust;

/// Prints a completion script.
pub(crate) fn completions(shell: clap_complete::Shell, console: &mut Console) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "hostler", &mut script);
    console.out(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Done)
}
