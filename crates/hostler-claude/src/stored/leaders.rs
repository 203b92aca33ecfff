//! Which processes lead which conversations, as far as they say so.
//!
//! Interactive agents of both builds, and every agent of the newer one, keep a file `sessions/<pid>.json` in the configuration
//! directory while they live; one that is killed leaves it behind. The newer build says in it when the process began, and
//! whether it is busy; the older one does not.

use std::fs;
use std::path::{Path, PathBuf};

use hostler_driver::Lead;
use serde::Deserialize;
use uuid::Uuid;

/// No file that is longer is read.
const LONGEST: u64 = 64 * 1024;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Leader {
    pid: u32,
    session_id: Uuid,
    /// When the process began, in the clock ticks of the machine.
    #[serde(default)]
    proc_start: Option<String>,
    #[serde(default)]
    status: Option<String>,
}

/// Whether living processes say that they are busy with a conversation, or that they are not. `None` if nobody says anything.
pub(super) fn lead(configuration: &Path, conversation: Uuid) -> Option<Lead> {
    let said = files(configuration).into_iter().filter_map(|path| read(&path));
    let said = said.filter(|leader| leader.session_id == conversation && leader.lives());
    let words: Vec<_> = said.filter_map(|leader| leader.status).collect();
    if words.iter().any(|status| status == "busy") {
        return Some(Lead::Busy);
    }
    words.iter().any(|status| status == "idle").then_some(Lead::Idle)
}

fn files(configuration: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(configuration.join("sessions")).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|end| end == "json")).collect()
}

fn read(path: &Path) -> Option<Leader> {
    let facts = fs::symlink_metadata(path).ok().filter(|facts| facts.is_file() && facts.len() <= LONGEST);
    facts.and_then(|_| serde_json::from_slice(&fs::read(path).ok()?).ok())
}

impl Leader {
    /// Whether the process is there, and the same. Where the machine cannot tell, it is not.
    fn lives(&self) -> bool {
        let Ok(stat) = fs::read_to_string(format!("/proc/{}/stat", self.pid)) else { return false };
        // The name, which may hold anything, ends with the last parenthesis; the beginning is the 20th word behind it.
        let began = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(19));
        self.proc_start.as_deref().is_none_or(|said| Some(said) == began)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own_start() -> String {
        let stat = fs::read_to_string("/proc/self/stat").unwrap();
        stat.rsplit_once(')').unwrap().1.split_whitespace().nth(19).unwrap().to_owned()
    }

    #[test]
    fn who_lives_and_says_that_it_is_busy_is() {
        let home = tempfile::tempdir().unwrap();
        let (id, pid) = (Uuid::from_u128(7), std::process::id());
        assert_eq!(lead(home.path(), id), None, "there is no such directory");
        fs::create_dir(home.path().join("sessions")).unwrap();
        let say = |text: &str| fs::write(home.path().join("sessions").join(format!("{pid}.json")), text).unwrap();
        let start = own_start();
        let leader = |status: &str, start: &str| {
            say(&format!(r#"{{"pid":{pid},"sessionId":"{id}","procStart":"{start}","status":"{status}","kind":"x"}}"#));
            lead(home.path(), id)
        };
        assert_eq!(leader("busy", &start), Some(Lead::Busy));
        assert_eq!(lead(home.path(), Uuid::from_u128(8)), None);
        assert_eq!(leader("idle", &start), Some(Lead::Idle));
        assert_eq!(leader("waiting", &start), None, "a word of a later build");
        assert_eq!(leader("busy", "1"), None, "another process had the number");
        say(&format!(r#"{{"pid":{pid},"sessionId":"{id}"}}"#));
        assert_eq!(lead(home.path(), id), None, "the older build does not say what it does");
        for noise in ["", "{", r#"{"pid":-1}"#, "[]"] {
            say(noise);
            assert_eq!(lead(home.path(), id), None, "{noise:?}");
        }
    }
}
