//! The `hostler` binary: wiring and `main` only. It implements the ports of the crates with each other.

#![forbid(unsafe_code)]

mod agent_binary;
mod command_runner;
mod credential_adapters;
mod embedded_site;
mod gateway_adapter;
mod launcher;
mod model_refresh;
mod proxy;
mod terminals;
mod upstreams;

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;

use hostler_claude::install::{ClaudeInstaller, InstallerConfig};
use hostler_cli::{FolderInspector, HostEnvironment, Wiring};
use hostler_driver::Installer;
use hostler_telemetry::LogTap;

use crate::credential_adapters::{CredentialVaultAdapter, GitHubLogin};
use crate::launcher::InProcessHostLauncher;
use crate::proxy::InProcessProxyLauncher;

/// Returns the inspector of folders' configuration, with this process's environment.
fn folder_inspector(environment: &HostEnvironment) -> FolderInspector {
    let environment = environment.clone();
    Arc::new(move |folder| hostler_claude::workspace_configuration(folder, |name| environment.var(name)))
}

fn main() -> ExitCode {
    // Every agent runs under a copy of this program as its supervisor; that path must be quick and needs no wiring.
    if std::env::args_os().nth(1).is_some_and(|argument| argument == launcher::SUPERVISE_COMMAND) {
        return hostler_process::supervise_main();
    }
    // Client commands hold keys and tokens like a host: `ps e` or `/proc` must not show them to an agent. If the
    // system refuses, a host reports it at its start.
    let _ = hostler_process::hide_memory();
    let environment = HostEnvironment::from_process();
    let vars: Vec<(OsString, OsString)> = environment.vars.clone().into_iter().collect();
    let supervisor = launcher::supervisor_command();
    let installer = InstallerConfig::for_this_machine(environment.cache_dir(), vars, supervisor.clone());
    let installer: Arc<dyn Installer> = Arc::new(ClaudeInstaller::new(installer));
    let log = LogTap::default();
    let wiring = Wiring {
        host_launcher: Arc::new(InProcessHostLauncher::new(
            environment.clone(),
            Arc::clone(&installer),
            supervisor,
            log.clone(),
        )),
        proxy_launcher: Arc::new(InProcessProxyLauncher),
        credential_vault: Arc::new(CredentialVaultAdapter),
        device_login: Arc::new(GitHubLogin),
        installers: vec![installer],
        doctor_checks: Vec::new(),
        folder_inspector: folder_inspector(&environment),
        plans_dir: hostler_claude::plans_directory(|name| environment.var(name)),
        log_tap: log,
        environment,
    };
    hostler_cli::main(std::env::args_os(), wiring)
}
