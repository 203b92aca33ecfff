//! Which processes run which conversations, from the agents' registry files.
//!
//! Interactive agents of both builds, and every agent of the newer one, have a file `sessions/<pid>.json` in the
//! configuration directory while they live; a killed agent leaves it behind. Only the newer build writes the start
//! time of the process and whether it is busy.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use hostler_driver::ExternalActivity;
use serde::Deserialize;
use uuid::Uuid;

/// Longer files are not read.
const MAX_REGISTRY_FILE_BYTES: u64 = 64 * 1024;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RegisteredSession {
    pid: u32,
    session_id: Uuid,
    /// Start time of the process, in clock ticks of the machine.
    #[serde(default)]
    proc_start: Option<String>,
    #[serde(default)]
    status: Option<String>,
}

/// The agents that this host has started; they do not count as external activity.
#[derive(Debug, Default)]
pub(crate) struct HostAgents(Mutex<HashMap<u32, Option<String>>>);

impl HostAgents {
    /// Adds a process.
    pub(crate) fn add(&self, pid: u32) {
        let mut own = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        own.retain(|pid, began| began.is_some() && *began == self::process_start_time(*pid));
        own.insert(pid, process_start_time(pid));
    }

    /// Whether a live process is one of them, and not another one with a reused pid.
    fn contains(&self, pid: u32) -> bool {
        let own = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        own.get(&pid).is_some_and(|known| *known == process_start_time(pid))
    }
}

/// What live processes report about a conversation that they run; a busy one takes precedence. `None` if there is
/// none.
pub(super) fn find_external_activity(
    configuration: &Path,
    conversation: Uuid,
    own: &HostAgents,
) -> Option<ExternalActivity> {
    let leaders = registry_files(configuration).into_iter().filter_map(|path| read_registry_file(&path));
    let leaders =
        leaders.filter(|leader| leader.session_id == conversation && leader.is_alive() && !own.contains(leader.pid));
    let said: Vec<_> = leaders.map(|leader| leader.activity()).collect();
    [ExternalActivity::Busy, ExternalActivity::Unknown, ExternalActivity::Idle]
        .into_iter()
        .find(|lead| said.contains(lead))
}

fn registry_files(configuration: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(configuration.join("sessions")).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|end| end == "json")).collect()
}

fn read_registry_file(path: &Path) -> Option<RegisteredSession> {
    let facts =
        fs::symlink_metadata(path).ok().filter(|facts| facts.is_file() && facts.len() <= MAX_REGISTRY_FILE_BYTES);
    facts.and_then(|_| serde_json::from_slice(&fs::read(path).ok()?).ok())
}

impl RegisteredSession {
    /// Whether the process is alive and the same one. `false` where the system cannot answer.
    fn is_alive(&self) -> bool {
        let Some(began) = process_start_time(self.pid) else { return false };
        self.proc_start.as_ref().is_none_or(|said| *said == began)
    }

    fn activity(&self) -> ExternalActivity {
        match self.status.as_deref() {
            // "waiting" is a turn that waits for a person.
            Some("busy" | "waiting") => ExternalActivity::Busy,
            Some("idle") => ExternalActivity::Idle,
            _ => ExternalActivity::Unknown,
        }
    }
}

/// Start time of a live process, in clock ticks of the machine.
fn process_start_time(pid: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may contain anything and ends with the last parenthesis; the start time is the 20th field after it.
    stat.rsplit_once(')')?.1.split_whitespace().nth(19).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_registry_entry_of_a_live_process_is_busy() {
        let home = tempfile::tempdir().unwrap();
        let (id, pid, own) = (Uuid::from_u128(7), std::process::id(), HostAgents::default());
        let ask = || find_external_activity(home.path(), id, &own);
        assert_eq!(ask(), None, "there is no such directory");
        fs::create_dir(home.path().join("sessions")).unwrap();
        let say = |text: &str| fs::write(home.path().join("sessions").join(format!("{pid}.json")), text).unwrap();
        let start = process_start_time(pid).unwrap();
        let leader = |status: &str, start: &str| {
            say(&format!(r#"{{"pid":{pid},"sessionId":"{id}","procStart":"{start}","status":"{status}","kind":"x"}}"#));
            ask()
        };
        assert_eq!(leader("idle", &start), Some(ExternalActivity::Idle));
        assert_eq!(leader("waiting", &start), Some(ExternalActivity::Busy), "a person is asked for permission");
        assert_eq!(leader("dreaming", &start), Some(ExternalActivity::Unknown), "a status of a later build");
        assert_eq!(leader("busy", "1"), None, "another process had the number");
        say(&format!(r#"{{"pid":{pid},"sessionId":"{id}"}}"#));
        assert_eq!(ask(), Some(ExternalActivity::Unknown), "the older build does not say what it does");
        assert_eq!(leader("busy", &start), Some(ExternalActivity::Busy));
        assert_eq!(find_external_activity(home.path(), Uuid::from_u128(8), &own), None);
        for noise in ["", "{", r#"{"pid":-1}"#, "[]"] {
            say(noise);
            assert_eq!(ask(), None, "{noise:?}");
        }
    }

    #[test]
    fn host_agents_are_not_external_activity() {
        let home = tempfile::tempdir().unwrap();
        let (id, pid, own) = (Uuid::from_u128(7), std::process::id(), HostAgents::default());
        fs::create_dir(home.path().join("sessions")).unwrap();
        let say = |pid: u32, status: &str| {
            let text = format!(r#"{{"pid":{pid},"sessionId":"{id}","status":"{status}"}}"#);
            fs::write(home.path().join("sessions").join(format!("{pid}.json")), text).unwrap();
        };
        let parent = std::os::unix::process::parent_id();
        say(pid, "busy");
        say(parent, "idle");
        assert_eq!(find_external_activity(home.path(), id, &own), Some(ExternalActivity::Busy));
        own.add(pid);
        assert_eq!(find_external_activity(home.path(), id, &own), Some(ExternalActivity::Idle));
        own.add(parent);
        assert_eq!(find_external_activity(home.path(), id, &own), None);
    }
}
