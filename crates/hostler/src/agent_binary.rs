//! Selects the Claude Code executable.

use std::path::PathBuf;

use hostler_claude::Executable;
use hostler_cli::{ClaudeChoice, HostEnvironment, LaunchError};
use hostler_driver::Installer;
use hostler_process::is_executable;

/// Selects the executable: a path as given, a managed build, or by default the managed native build and then
/// `claude` on the PATH.
pub(crate) fn choose_agent(
    choice: &ClaudeChoice,
    installer: &dyn Installer,
    environment: &HostEnvironment,
    on_demand: bool,
) -> Result<AgentBinary, LaunchError> {
    match (resolve_executable(choice, installer, environment), choice) {
        (Ok(executable), _) => Ok(AgentBinary::Executable(executable)),
        (Err(LaunchError::AgentMissing(_)), ClaudeChoice::Native | ClaudeChoice::Auto) if on_demand => {
            Ok(AgentBinary::InstallOnDemand("native"))
        }
        (Err(LaunchError::AgentMissing(_)), ClaudeChoice::Js) if on_demand => Ok(AgentBinary::InstallOnDemand("js")),
        (Err(error), _) => Err(error),
    }
}

/// Selected executable.
pub(crate) enum AgentBinary {
    /// An existing executable.
    Executable(Executable),
    /// A managed build that is installed when it is first needed.
    InstallOnDemand(&'static str),
}

fn resolve_executable(
    choice: &ClaudeChoice,
    installer: &dyn Installer,
    environment: &HostEnvironment,
) -> Result<Executable, LaunchError> {
    let managed =
        |build: &str| installer.installed_build(build).map(|installed| with_host_node(installed.path, environment));
    match choice {
        ClaudeChoice::Path(path) => check_runnable(with_host_node(path.clone(), environment)),
        ClaudeChoice::Native => managed("native").ok_or_else(|| not_installed_error("native", "")),
        ClaudeChoice::Js => managed("js").ok_or_else(|| not_installed_error("js", " --build js")),
        ClaudeChoice::Auto => managed("native")
            .or_else(|| environment.find_program("claude").map(|path| with_host_node(path, environment)))
            .ok_or_else(|| {
                let sentence = "Claude Code is not installed. Run `hostler agents install claude`.";
                LaunchError::AgentMissing(sentence.to_owned())
            }),
    }
}

/// Checks whether an executable that was given by path can be run.
fn check_runnable(executable: Executable) -> Result<Executable, LaunchError> {
    let is_runnable = match &executable {
        Executable::Native(path) => is_executable(path),
        Executable::Js { cli, .. } => cli.is_file(),
    };
    if is_runnable {
        return Ok(executable);
    }
    let path = executable.path();
    let sentence = if path.exists() {
        format!("{} is not executable. Check its permissions, or --claude.", path.display())
    } else {
        format!("Claude Code not found at {}. Check --claude.", path.display())
    };
    Err(LaunchError::AgentMissing(sentence))
}

fn not_installed_error(build: &str, flag: &str) -> LaunchError {
    let sentence = format!("The managed {build} build is not installed. Run `hostler agents install claude{flag}`.");
    LaunchError::AgentMissing(sentence)
}

/// Runs scripts with the host's `node`, not with one that a project puts first on the PATH.
pub(crate) fn with_host_node(path: PathBuf, environment: &HostEnvironment) -> Executable {
    match Executable::from_path(path) {
        Executable::Js { node, cli } => {
            let node = environment.find_program("node").unwrap_or(node);
            Executable::Js { node, cli }
        }
        native => native,
    }
}
