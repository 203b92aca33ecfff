use std::sync::Arc;

use hostler_driver::{InstallError, Installed, Installer};
use tokio::sync::mpsc;

use super::login;
use crate::Io;
use crate::args::AgentsCommand;
use crate::console::{Console, Style};
use crate::exit::{Exit, Failure};
use crate::ports::Wiring;
use crate::progress::InstallBar;
use crate::settings::Settings;

/// Lines that may wait to be printed; progress that nobody can follow is dropped.
const LINES: usize = 16;

/// Lists and installs managed agents, and logs in to what answers them.
pub(crate) async fn agents(
    command: &AgentsCommand,
    wiring: &Wiring,
    settings: &Settings,
    io: &mut Io,
) -> Result<Exit, Failure> {
    match command {
        AgentsCommand::Login { upstream } => login::login(upstream, wiring, settings, io).await,
        AgentsCommand::Logout { upstream } => login::logout(upstream, wiring, settings, io).await,
        AgentsCommand::List => list(wiring, &mut io.console),
        AgentsCommand::Install { agent, build } => {
            let installer = find(agent, wiring)?;
            let build = match build {
                Some(build) => build.clone(),
                None => default_build(installer.as_ref())?,
            };
            let installed = install(&installer, &build, io).await?;
            io.console.note(&summary(&installer, &installed), Style::Plain);
            Ok(Exit::Done)
        }
    }
}

/// Installs a build with a progress bar; Ctrl-C stops it.
pub(super) async fn install(installer: &Arc<dyn Installer>, build: &str, io: &mut Io) -> Result<Installed, Failure> {
    let Some(version) = installer.pinned(build) else {
        let builds = installer.builds().join(", ");
        let text = format!("{} has no build `{build}`: choose one of {builds}.", installer.provider());
        return Err(Failure::new(Exit::Usage, text));
    };
    let title = format!("{} {version} ({build})", installer.provider());
    let (sender, mut lines) = mpsc::channel::<String>(LINES);
    let (bar, sink) = InstallBar::new(title, &io.console, move |line| {
        let _dropped = sender.try_send(line.to_owned());
    });
    let mut installing = installer.install(build, sink);
    let result = loop {
        tokio::select! {
            // The lines that are there come before the end.
            biased;
            Some(line) = lines.recv() => io.console.note(&line, Style::Plain),
            result = &mut installing => break result,
            _ = io.signals.next() => {
                installer.stop().await;
                return Err(Failure::interrupted());
            }
        }
    };
    drop(bar);
    drop(installing);
    while let Ok(line) = lines.try_recv() {
        io.console.note(&line, Style::Plain);
    }
    result.map_err(|error: InstallError| Failure::new(Exit::AgentMissing, error.message))
}

pub(super) fn summary(installer: &Arc<dyn Installer>, installed: &Installed) -> String {
    let Installed { build, version, path, fresh } = installed;
    let what = if *fresh { "installed" } else { "already installed" };
    format!("{} {version} ({build}) is {what}: {}", installer.provider(), path.display())
}

pub(super) fn default_build(installer: &dyn Installer) -> Result<String, Failure> {
    let nothing = || Failure::new(Exit::AgentMissing, format!("{} has no managed build.", installer.provider()));
    installer.builds().into_iter().next().ok_or_else(nothing)
}

fn find(agent: &str, wiring: &Wiring) -> Result<Arc<dyn Installer>, Failure> {
    wiring.installers.iter().find(|installer| installer.provider() == agent).cloned().ok_or_else(|| {
        let known = wiring.installers.iter().map(|installer| installer.provider()).collect::<Vec<_>>().join(", ");
        Failure::new(Exit::Usage, format!("There is no agent `{agent}` to install: choose one of {known}."))
    })
}

fn list(wiring: &Wiring, console: &mut Console) -> Result<Exit, Failure> {
    console.out_line(&row("AGENT", "BUILD", "VERSION", "INSTALLED"), Style::Bold)?;
    for installer in &wiring.installers {
        for build in installer.builds() {
            let pinned = installer.pinned(&build).unwrap_or_default();
            let installed = match installer.installed(&build) {
                Some(installed) => installed.path.display().to_string(),
                None => "no".to_owned(),
            };
            console.out_line(&row(installer.provider(), &build, &pinned, &installed), Style::Plain)?;
        }
    }
    Ok(Exit::Done)
}

fn row(agent: &str, build: &str, version: &str, installed: &str) -> String {
    format!("{agent:<10} {build:<8} {version:<10} {installed}")
}
