//! `hostler doctor`: checks agent, directories, disk space and upstreams, and changes nothing.

mod upstreams;

use std::path::Path;

use nix::sys::statvfs::statvfs;
use nix::unistd::{AccessFlags, access};
use serde::Serialize;

use crate::Io;
use crate::console::{Console, TextStyle};
use crate::exit::{CommandFailure, Exit};
use crate::ports::{ClaudeChoice, DoctorFinding, FindingSeverity, Wiring};
use crate::settings::{FormerNameUse, Settings, TokenChoice};
use crate::state::{HostEndpoint, StateDir, read_token};

/// Free space below which a managed install does not fit.
const LOW_DISK_BYTES: u64 = 1 << 30;
/// Free space below which the journal may fail to write.
const CRITICAL_DISK_BYTES: u64 = 64 << 20;

/// Finding and the check that produced it.
#[derive(Debug, Serialize)]
struct CheckFinding {
    check: String,
    #[serde(flatten)]
    finding: DoctorFinding,
}

/// Reports what is missing and how to fix it.
pub(crate) async fn run_doctor_command(
    wiring: &Wiring,
    settings: &Settings,
    io: &mut Io,
) -> Result<Exit, CommandFailure> {
    let agent = check_agent(wiring, settings);
    let agent_missing = agent.iter().any(|finding| finding.level == FindingSeverity::Problem);
    let upstreams = upstreams::check_upstreams(wiring, settings).await;
    let mut report: Vec<CheckFinding> = Vec::new();
    let mut add = |check: &str, findings: Vec<DoctorFinding>| {
        report.extend(findings.into_iter().map(|finding| CheckFinding { check: check.to_owned(), finding }));
    };
    add("settings", check_former_names(settings));
    add("agent", agent);
    add("programs", check_programs(wiring));
    add("upstream", upstreams);
    add("state", vec![check_writable("state directory", &settings.state_dir, "--state-dir")]);
    add("runtime", vec![check_writable("runtime directory", &wiring.environment.runtime_dir(), "XDG_RUNTIME_DIR")]);
    add("token", vec![check_token(settings)]);
    add("host", vec![check_host(settings)]);
    add("disk", vec![check_disk(&settings.state_dir), check_disk(&wiring.environment.cache_dir())]);
    for check in &wiring.doctor_checks {
        add(check.name(), check.run().await);
    }
    if settings.json {
        let text = serde_json::to_string_pretty(&report).map_err(std::io::Error::other)?;
        io.console.write_out(&format!("{text}\n"))?;
    } else {
        print_report(&report, &mut io.console)?;
    }
    let problem = report.iter().any(|reported| reported.finding.level == FindingSeverity::Problem);
    Ok(match (agent_missing, problem) {
        (true, _) => Exit::AgentMissing,
        (false, true) => Exit::Failed,
        (false, false) => Exit::Done,
    })
}

fn print_report(report: &[CheckFinding], console: &mut Console) -> Result<(), CommandFailure> {
    for CheckFinding { check, finding } in report {
        let (mark, style) = match finding.level {
            FindingSeverity::Ok => ("ok     ", TextStyle::Green),
            FindingSeverity::Warning => ("warning", TextStyle::Yellow),
            FindingSeverity::Problem => ("problem", TextStyle::Red),
        };
        console.write_out_line(&format!("{mark}  {check:<9} {}", finding.text), style)?;
        if let Some(fix) = &finding.fix {
            console.write_out_line(&format!("                   → {fix}"), TextStyle::Plain)?;
        }
    }
    Ok(())
}

/// Reports settings that are given by a former name.
fn check_former_names(settings: &Settings) -> Vec<DoctorFinding> {
    let finding = |former: &FormerNameUse| DoctorFinding::warning(former.to_string(), "Rename it.");
    settings.former_names.iter().map(finding).collect()
}

/// Checks whether the agent that the settings select is installed.
fn check_agent(wiring: &Wiring, settings: &Settings) -> Vec<DoctorFinding> {
    let selected = match &settings.claude {
        ClaudeChoice::Path(path) if path.is_file() => {
            return vec![DoctorFinding::ok(format!("claude is {}.", path.display()))];
        }
        ClaudeChoice::Path(path) => {
            let text = format!("The configured claude does not exist: {}.", path.display());
            return vec![DoctorFinding::problem(text, "Correct --claude, or omit it to use the managed build.")];
        }
        ClaudeChoice::Js => Some("js"),
        ClaudeChoice::Native => Some("native"),
        ClaudeChoice::Auto => None,
    };
    let mut findings = Vec::new();
    for installer in &wiring.installers {
        let provider = installer.provider();
        let default = installer.builds().into_iter().next();
        for build in installer.builds() {
            let pinned = installer.pinned_version(&build).unwrap_or_default();
            let fix = format!("Run `hostler agents install {provider} --build {build}`.");
            let is_selected = selected.map_or(Some(&build) == default.as_ref(), |selected| selected == build);
            findings.push(match installer.installed_build(&build) {
                Some(installed) => {
                    DoctorFinding::ok(format!("{provider} {} ({build}) is installed.", installed.version))
                }
                None if !is_selected => {
                    DoctorFinding::ok(format!("{provider} {pinned} ({build}) is not installed and not needed."))
                }
                None if selected.is_none() && wiring.environment.find_program(provider).is_some() => {
                    DoctorFinding::warning(
                        format!(
                            "{provider} {pinned} ({build}) is not installed. The untested one on the PATH is used."
                        ),
                        fix,
                    )
                }
                None => DoctorFinding::problem(format!("{provider} {pinned} ({build}) is not installed."), fix),
            });
        }
    }
    findings
}

fn check_programs(wiring: &Wiring) -> Vec<DoctorFinding> {
    let find = |name: &str, fix: &str| match wiring.environment.find_program(name) {
        Some(path) => DoctorFinding::ok(format!("{name} is {}.", path.display())),
        None => DoctorFinding::warning(format!("{name} is not on the PATH."), fix),
    };
    vec![
        find("npm", "Install Node.js. `hostler agents install` needs npm."),
        find("node", "Install Node.js. The js build of Claude Code needs it."),
    ]
}

/// Checks whether a directory can be used, without creating it.
fn check_writable(what: &str, path: &Path, setting: &str) -> DoctorFinding {
    let shown = path.display();
    let fix = format!("Make it writable, or choose another directory ({setting}).");
    let Some(existing) = nearest_existing_ancestor(path) else {
        return DoctorFinding::problem(format!("The {what} {shown} cannot be created."), fix);
    };
    let is_usable = existing.is_dir() && access(existing, AccessFlags::W_OK | AccessFlags::X_OK).is_ok();
    match (is_usable, existing == path) {
        (true, true) => DoctorFinding::ok(format!("The {what} is {shown}.")),
        (true, false) => DoctorFinding::ok(format!("The {what} {shown} will be created when needed.")),
        (false, _) => DoctorFinding::problem(format!("The {what} {shown} is not writable."), fix),
    }
}

fn check_token(settings: &Settings) -> DoctorFinding {
    let path = match &settings.token {
        TokenChoice::Disabled => {
            let text = "The host runs without a token. Every program on this machine can use it.";
            return DoctorFinding::warning(text, "Remove no-token.");
        }
        TokenChoice::Given(_) => return DoctorFinding::ok("The token comes from a setting."),
        TokenChoice::File(path) => path.clone(),
        TokenChoice::StateDirectory => settings.state_dir.join("token"),
    };
    match read_token(&path) {
        Ok(_) => DoctorFinding::ok(format!("The token is in {}.", path.display())),
        Err(_) if !path.exists() && matches!(settings.token, TokenChoice::StateDirectory) => {
            DoctorFinding::ok("The first host will create a token.")
        }
        Err(error) => DoctorFinding::problem(error.to_string(), format!("Check {}.", path.display())),
    }
}

fn check_host(settings: &Settings) -> DoctorFinding {
    match HostEndpoint::find_running(&StateDir::without_checks(&settings.state_dir)) {
        Ok(Some(endpoint)) => {
            let HostEndpoint { pid, started_at: started, .. } = &endpoint;
            DoctorFinding::ok(format!("A host is running at {} (process {pid}, since {started}).", endpoint.addr()))
        }
        Ok(None) => DoctorFinding::ok("No host is running. Commands start their own."),
        Err(error) => DoctorFinding::problem(error.to_string(), "Choose another directory with --state-dir."),
    }
}

fn check_disk(path: &Path) -> DoctorFinding {
    let shown = path.display();
    let free = nearest_existing_ancestor(path).and_then(|path| statvfs(path).ok());
    // The types differ between systems.
    #[expect(clippy::useless_conversion, reason = "the types differ between systems")]
    let free = free.map(|stat| u64::from(stat.blocks_available()).saturating_mul(u64::from(stat.fragment_size())));
    match free {
        None => DoctorFinding::warning(format!("The free space at {shown} is unknown."), "Check the disk."),
        Some(free) if free < CRITICAL_DISK_BYTES => {
            DoctorFinding::problem(format!("{} at {shown}.", format_free_space(free)), "Free some space.")
        }
        Some(free) if free < LOW_DISK_BYTES => {
            DoctorFinding::warning(format!("{} at {shown}.", format_free_space(free)), "Free some space.")
        }
        Some(free) => DoctorFinding::ok(format!("{} at {shown}.", format_free_space(free))),
    }
}

fn format_free_space(bytes: u64) -> String {
    format!("{} MiB free", bytes >> 20)
}

/// Returns the path itself, or its nearest existing ancestor.
fn nearest_existing_ancestor(path: &Path) -> Option<&Path> {
    path.ancestors().find(|path| path.exists())
}
