//! Memory, descriptors and tasks of the process.

use std::fmt;
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;

/// Maximum time for the last tasks to end.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Copy)]
pub(crate) struct ProcessStats {
    /// Resident memory in MiB.
    pub(crate) memory: f64,
    pub(crate) descriptors: usize,
    pub(crate) tasks: usize,
}

impl ProcessStats {
    pub(crate) const HEAD: &str = "requests       memory  descriptors  tasks";

    pub(crate) fn take(runtime: &Runtime) -> Self {
        let status = std::fs::read_to_string("/proc/self/status").expect("this is measured on Linux");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        let kilobytes: f64 = line.trim().trim_end_matches("kB").trim().parse().unwrap();
        Self {
            memory: kilobytes / 1024.0,
            descriptors: std::fs::read_dir("/proc/self/fd").unwrap().count(),
            tasks: runtime.metrics().num_alive_tasks(),
        }
    }
}

impl fmt::Display for ProcessStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>6.1} MiB  {:>11}  {:>5}", self.memory, self.descriptors, self.tasks)
    }
}

/// Returns the statistics as soon as they match. Closed connections are detected with a delay.
pub(crate) async fn settle(runtime: &Runtime, expected: impl Fn(&ProcessStats) -> bool) -> ProcessStats {
    let deadline = Instant::now() + SETTLE_TIMEOUT;
    loop {
        let now = ProcessStats::take(runtime);
        if expected(&now) {
            return now;
        }
        assert!(Instant::now() < deadline, "something stays behind: {now}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
