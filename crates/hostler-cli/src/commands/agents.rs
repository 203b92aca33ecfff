//! `hostler agents`: lists and installs managed builds, and dispatches to `login` for upstream credentials.

use std::sync::Arc;

use hostler_driver::{InstallError, InstalledBuild, Installer};
use tokio::sync::mpsc;

use super::login;
use crate::Io;
use crate::args::AgentsCommand;
use crate::console::{Console, TextStyle};
use crate::exit::{CommandFailure, Exit};
use crate::ports::Wiring;
use crate::progress::InstallProgressBar;
use crate::settings::Settings;

/// Progress lines that may wait to be printed; further ones are dropped.
const PROGRESS_LINE_QUEUE_SIZE: usize = 16;

/// Runs `hostler agents`.
pub(crate) async fn run_agents_command(
    command: &AgentsCommand,
    wiring: &Wiring,
    settings: &Settings,
    io: &mut Io,
) -> Result<Exit, CommandFailure> {
    match command {
        AgentsCommand::Login { upstream } => login::log_in(upstream, wiring, settings, io).await,
        AgentsCommand::Logout { upstream } => login::log_out(upstream, wiring, settings, io).await,
        AgentsCommand::List => list_builds(wiring, &mut io.console),
        AgentsCommand::Install { agent, build } => {
            let installer = find_installer(agent, wiring)?;
            let build = match build {
                Some(build) => build.clone(),
                None => default_build(installer.as_ref())?,
            };
            let installed = install_build(&installer, &build, io).await?;
            io.console.write_note(&install_summary(&installer, &installed), TextStyle::Plain);
            Ok(Exit::Done)
        }
    }
}

/// Installs a build with a progress bar; Ctrl-C stops it.
pub(super) async fn install_build(
    installer: &Arc<dyn Installer>,
    build: &str,
    io: &mut Io,
) -> Result<InstalledBuild, CommandFailure> {
    let Some(version) = installer.pinned_version(build) else {
        let builds = installer.builds().join(", ");
        let text = format!("{} has no build `{build}`. Choose one of: {builds}.", installer.provider());
        return Err(CommandFailure::new(Exit::Usage, "unknownBuild", text));
    };
    let title = format!("{} {version} ({build})", installer.provider());
    let (sender, mut lines) = mpsc::channel::<String>(PROGRESS_LINE_QUEUE_SIZE);
    let (bar, sink) = InstallProgressBar::new(title, &io.console, move |line| {
        let _dropped = sender.try_send(line.to_owned());
    });
    let mut installing = installer.install(build, sink);
    let result = loop {
        tokio::select! {
            // Waiting lines are printed before the result.
            biased;
            Some(line) = lines.recv() => io.console.write_note(&line, TextStyle::Plain),
            result = &mut installing => break result,
            _ = io.signals.next_stop_signal() => {
                installer.stop().await;
                return Err(CommandFailure::interrupted());
            }
        }
    };
    drop(bar);
    drop(installing);
    while let Ok(line) = lines.try_recv() {
        io.console.write_note(&line, TextStyle::Plain);
    }
    result.map_err(|error: InstallError| CommandFailure::new(Exit::AgentMissing, error.code(), error.message))
}

pub(super) fn install_summary(installer: &Arc<dyn Installer>, installed: &InstalledBuild) -> String {
    let InstalledBuild { build, version, path, newly_installed } = installed;
    let what = if *newly_installed { "installed" } else { "already installed" };
    format!("{} {version} ({build}) is {what}: {}", installer.provider(), path.display())
}

pub(super) fn default_build(installer: &dyn Installer) -> Result<String, CommandFailure> {
    installer.builds().into_iter().next().ok_or_else(|| {
        let text = format!("{} has no managed build.", installer.provider());
        CommandFailure::new(Exit::AgentMissing, "agentMissing", text)
    })
}

fn find_installer(agent: &str, wiring: &Wiring) -> Result<Arc<dyn Installer>, CommandFailure> {
    wiring.installers.iter().find(|installer| installer.provider() == agent).cloned().ok_or_else(|| {
        let known = wiring.installers.iter().map(|installer| installer.provider()).collect::<Vec<_>>().join(", ");
        CommandFailure::new(Exit::Usage, "unknownAgent", format!("Unknown agent: {agent}. Choose one of: {known}."))
    })
}

fn list_builds(wiring: &Wiring, console: &mut Console) -> Result<Exit, CommandFailure> {
    console.write_out_line(&format_build_row("AGENT", "BUILD", "VERSION", "INSTALLED"), TextStyle::Bold)?;
    for installer in &wiring.installers {
        for build in installer.builds() {
            let pinned = installer.pinned_version(&build).unwrap_or_default();
            let installed = match installer.installed_build(&build) {
                Some(installed) => installed.path.display().to_string(),
                None => "no".to_owned(),
            };
            console.write_out_line(
                &format_build_row(installer.provider(), &build, &pinned, &installed),
                TextStyle::Plain,
            )?;
        }
    }
    Ok(Exit::Done)
}

fn format_build_row(agent: &str, build: &str, version: &str, installed: &str) -> String {
    format!("{agent:<10} {build:<8} {version:<10} {installed}")
}
