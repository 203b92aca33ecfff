mod upstreams;

use std::path::Path;

use nix::sys::statvfs::statvfs;
use nix::unistd::{AccessFlags, access};
use serde::Serialize;

use crate::Io;
use crate::console::{Console, Style};
use crate::exit::{Exit, Failure};
use crate::ports::{ClaudeChoice, Finding, Level, Wiring};
use crate::settings::{Settings, TokenChoice};
use crate::state::{Endpoint, StateDir, read_token};

/// Below this a managed install does not fit.
const LOW_DISK: u64 = 1 << 30;
/// Below this the journal is in danger.
const NO_DISK: u64 = 64 << 20;

/// A finding and the check that it is from.
#[derive(Debug, Serialize)]
struct Reported {
    check: String,
    #[serde(flatten)]
    finding: Finding,
}

/// Reports what is missing and how to fix it.
pub(crate) async fn doctor(wiring: &Wiring, settings: &Settings, io: &mut Io) -> Result<Exit, Failure> {
    let agent = agent(wiring, settings);
    let agent_missing = agent.iter().any(|finding| finding.level == Level::Problem);
    let upstreams = upstreams::upstreams(wiring, settings).await;
    let mut report: Vec<Reported> = Vec::new();
    let mut add = |check: &str, findings: Vec<Finding>| {
        report.extend(findings.into_iter().map(|finding| Reported { check: check.to_owned(), finding }));
    };
    add("agent", agent);
    add("programs", programs(wiring));
    add("upstream", upstreams);
    add("state", vec![writable("state directory", &settings.state_dir, "--state-dir")]);
    add("runtime", vec![writable("runtime directory", &wiring.environment.runtime_dir(), "XDG_RUNTIME_DIR")]);
    add("token", vec![token(settings)]);
    add("host", vec![host(settings)]);
    add("disk", vec![disk(&settings.state_dir), disk(&wiring.environment.cache_dir())]);
    for check in &wiring.doctor {
        add(check.name(), check.run().await);
    }
    if settings.json {
        let text = serde_json::to_string_pretty(&report).map_err(std::io::Error::other)?;
        io.console.out(&format!("{text}\n"))?;
    } else {
        print(&report, &mut io.console)?;
    }
    let problem = report.iter().any(|reported| reported.finding.level == Level::Problem);
    Ok(match (agent_missing, problem) {
        (true, _) => Exit::AgentMissing,
        (false, true) => Exit::Failed,
        (false, false) => Exit::Done,
    })
}

fn print(report: &[Reported], console: &mut Console) -> Result<(), Failure> {
    for Reported { check, finding } in report {
        let (mark, style) = match finding.level {
            Level::Ok => ("ok     ", Style::Green),
            Level::Warning => ("warning", Style::Yellow),
            Level::Problem => ("problem", Style::Red),
        };
        console.out_line(&format!("{mark}  {check:<9} {}", finding.text), style)?;
        if let Some(fix) = &finding.fix {
            console.out_line(&format!("                   → {fix}"), Style::Plain)?;
        }
    }
    Ok(())
}

/// Whether the agent that the settings choose is there.
fn agent(wiring: &Wiring, settings: &Settings) -> Vec<Finding> {
    let wanted = match &settings.claude {
        ClaudeChoice::Path(path) if path.is_file() => {
            return vec![Finding::ok(format!("claude is {}.", path.display()))];
        }
        ClaudeChoice::Path(path) => {
            let text = format!("claude should be {}, and there is no such file.", path.display());
            return vec![Finding::problem(text, "Correct --claude, or leave it out to use the managed build.")];
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
            let pinned = installer.pinned(&build).unwrap_or_default();
            let fix = format!("Run `hostler agents install {provider} --build {build}`.");
            let is_wanted = wanted.map_or(Some(&build) == default.as_ref(), |wanted| wanted == build);
            findings.push(match installer.installed(&build) {
                Some(installed) => Finding::ok(format!("{provider} {} ({build}) is installed.", installed.version)),
                None if !is_wanted => {
                    Finding::ok(format!("{provider} {pinned} ({build}) is not installed, not needed."))
                }
                None if wanted.is_none() && wiring.environment.find_program(provider).is_some() => Finding::warning(
                    format!("{provider} {pinned} ({build}) is not installed; the one on the PATH is used, untested."),
                    fix,
                ),
                None => Finding::problem(format!("{provider} {pinned} ({build}) is not installed."), fix),
            });
        }
    }
    findings
}

fn programs(wiring: &Wiring) -> Vec<Finding> {
    let look = |name: &str, why: &str| match wiring.environment.find_program(name) {
        Some(path) => Finding::ok(format!("{name} is {}.", path.display())),
        None => Finding::warning(format!("{name} is not on the PATH."), why),
    };
    vec![
        look("npm", "Install Node.js; `hostler agents install` needs npm."),
        look("node", "Install Node.js; the js build of Claude Code needs it."),
    ]
}

/// Whether a directory can be used, without making it.
fn writable(what: &str, path: &Path, setting: &str) -> Finding {
    let shown = path.display();
    let fix = format!("Make it writable for you, or choose another one ({setting}).");
    let Some(existing) = nearest(path) else {
        return Finding::problem(format!("The {what} {shown} cannot be made."), fix);
    };
    let usable = existing.is_dir() && access(existing, AccessFlags::W_OK | AccessFlags::X_OK).is_ok();
    match (usable, existing == path) {
        (true, true) => Finding::ok(format!("The {what} is {shown}.")),
        (true, false) => Finding::ok(format!("The {what} {shown} will be made when it is needed.")),
        (false, _) => Finding::problem(format!("The {what} {shown} is not writable."), fix),
    }
}

fn token(settings: &Settings) -> Finding {
    let path = match &settings.token {
        TokenChoice::Off => {
            let text = "The host runs without a token: every program on this machine can use it.";
            return Finding::warning(text, "Leave --no-token out.");
        }
        TokenChoice::Given(_) => return Finding::ok("The token is given by a setting."),
        TokenChoice::File(path) => path.clone(),
        TokenChoice::Kept => settings.state_dir.join("token"),
    };
    match read_token(&path) {
        Ok(_) => Finding::ok(format!("The token is in {}.", path.display())),
        Err(_) if !path.exists() && matches!(settings.token, TokenChoice::Kept) => {
            Finding::ok("A token will be made by the first host.")
        }
        Err(error) => Finding::problem(error.to_string(), format!("Look at {}.", path.display())),
    }
}

fn host(settings: &Settings) -> Finding {
    match Endpoint::find(&StateDir::look(&settings.state_dir)) {
        Ok(Some(endpoint)) => {
            let Endpoint { pid, started, .. } = &endpoint;
            Finding::ok(format!("A host runs as process {pid} at {} since {started}.", endpoint.addr()))
        }
        Ok(None) => Finding::ok("No host runs on this state directory; commands start their own."),
        Err(error) => Finding::problem(error.to_string(), "Choose another one with --state-dir."),
    }
}

fn disk(path: &Path) -> Finding {
    let shown = path.display();
    let free = nearest(path).and_then(|path| statvfs(path).ok());
    // Their types differ between systems.
    #[expect(clippy::useless_conversion, reason = "not useless everywhere")]
    let free = free.map(|stat| u64::from(stat.blocks_available()).saturating_mul(u64::from(stat.fragment_size())));
    match free {
        None => Finding::warning(format!("The free space at {shown} is not known."), "Look at the disk."),
        Some(free) if free < NO_DISK => Finding::problem(format!("{} at {shown}.", amount(free)), "Free some space."),
        Some(free) if free < LOW_DISK => Finding::warning(format!("{} at {shown}.", amount(free)), "Free some space."),
        Some(free) => Finding::ok(format!("{} at {shown}.", amount(free))),
    }
}

fn amount(bytes: u64) -> String {
    format!("{} MiB are free", bytes >> 20)
}

/// The path itself, or the nearest directory above it that exists.
fn nearest(path: &Path) -> Option<&Path> {
    path.ancestors().find(|path| path.exists())
}
