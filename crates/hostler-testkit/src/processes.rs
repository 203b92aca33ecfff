//! Inspects processes from outside through `/proc`, like `ps`.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Process in `/proc`.
#[derive(Debug, Clone)]
pub struct ProcessInfo {
    /// Its id.
    pub pid: u32,
    /// Its parent's id.
    pub parent: u32,
    /// Its command line, joined by spaces.
    pub command: String,
}

/// Returns every visible process except zombies.
pub fn list_processes() -> Vec<ProcessInfo> {
    // An unreadable `/proc` must not pass as an empty one.
    let entries =
        std::fs::read_dir("/proc").expect("tests look at processes in /proc, which this system does not have");
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter_map(read_process).collect()
}

/// Returns all descendants of a process.
pub fn descendants(pid: u32) -> Vec<ProcessInfo> {
    let mut children: HashMap<u32, Vec<ProcessInfo>> = HashMap::new();
    for process in list_processes() {
        children.entry(process.parent).or_default().push(process);
    }
    let mut found = Vec::new();
    let mut queue = vec![pid];
    while let Some(parent) = queue.pop() {
        for process in children.remove(&parent).unwrap_or_default() {
            queue.push(process.pid);
            found.push(process);
        }
    }
    found
}

/// Returns the agents of a host: the children of its supervisors. (An agent may rewrite its own command line.)
pub fn agent_processes(host: u32) -> Vec<ProcessInfo> {
    let supervisors: Vec<_> = supervisor_processes(host).into_iter().map(|process| process.pid).collect();
    let tree = descendants(host).into_iter();
    tree.filter(|process| supervisors.contains(&process.parent)).collect()
}

/// Returns the supervisors of a host.
pub fn supervisor_processes(host: u32) -> Vec<ProcessInfo> {
    descendants(host).into_iter().filter(|process| process.command.ends_with(" supervise")).collect()
}

/// Returns whether a process is alive (a zombie is not).
pub fn is_alive(pid: u32) -> bool {
    read_process(pid).is_some()
}

/// Returns the environment that a process was started with.
pub fn read_environment(pid: u32) -> Vec<String> {
    let bytes = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    bytes.split(|byte| *byte == 0).map(|entry| String::from_utf8_lossy(entry).into_owned()).collect()
}

/// Waits until none of the processes is alive; returns those that still are after five seconds.
pub async fn wait_for_exit(pids: &[u32]) -> Vec<ProcessInfo> {
    let deadline = Instant::now() + Duration::from_secs(5);
    loop {
        let alive: Vec<_> = pids.iter().filter_map(|pid| read_process(*pid)).collect();
        if alive.is_empty() || Instant::now() > deadline {
            return alive;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Returns the number of open descriptors of a process.
pub fn count_descriptors(pid: u32) -> usize {
    std::fs::read_dir(PathBuf::from(format!("/proc/{pid}/fd"))).map(Iterator::count).unwrap_or_default()
}

fn read_process(pid: u32) -> Option<ProcessInfo> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The command's name may contain anything, so the fields are counted from its closing parenthesis.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace();
    let state = fields.next()?;
    if state == "Z" || state == "X" {
        return None;
    }
    let parent = fields.next()?.parse().ok()?;
    let command = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let words = command.split(|byte| *byte == 0).map(String::from_utf8_lossy);
    let command = words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    Some(ProcessInfo { pid, parent, command })
}
