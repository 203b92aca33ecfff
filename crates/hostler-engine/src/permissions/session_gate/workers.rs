//! Threads that evaluate calls for the gates of all sessions.
//!
//! A long command line takes up to half a second to parse, and rules, links and Git configurations are read from disk.
//! A thread of the runtime must not wait for that. The number of threads is fixed; no call starts one.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, mpsc};

/// Number of threads. A session uses one at a time, so a stalled disk of one session does not delay the others.
pub(super) const GATE_WORKERS: usize = 4;

type Job = Box<dyn FnOnce() + Send>;

/// The threads, which start with the first job and end when this is dropped.
#[derive(Debug, Default)]
pub(crate) struct GateWorkers {
    jobs: OnceLock<mpsc::Sender<Job>>,
}

impl GateWorkers {
    /// Queues a job. `false` if no thread can run it.
    pub(super) fn run(&self, job: impl FnOnce() + Send + 'static) -> bool {
        self.jobs.get_or_init(start_threads).send(Box::new(job)).is_ok()
    }
}

fn start_threads() -> mpsc::Sender<Job> {
    let (sender, jobs) = mpsc::channel();
    let jobs = Arc::new(Mutex::new(jobs));
    for number in 0..GATE_WORKERS {
        let jobs = Arc::clone(&jobs);
        let thread = std::thread::Builder::new().name(format!("gate-{number}"));
        if let Err(error) = thread.spawn(move || run_jobs(&jobs)) {
            tracing::error!(%error, "failed to start a thread of the permission gate");
        }
    }
    sender
}

fn run_jobs(jobs: &Mutex<mpsc::Receiver<Job>>) {
    loop {
        let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(job) = job else { return };
        // A job that panics sends no result.
        let _ = catch_unwind(AssertUnwindSafe(job));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn jobs_share_a_fixed_number_of_threads() {
        let workers = GateWorkers::default();
        let (sender, names) = mpsc::channel();
        for _ in 0..100 {
            let sender = sender.clone();
            assert!(workers.run(move || {
                let _ = sender.send(std::thread::current().name().map(str::to_owned));
            }));
        }
        drop(sender);
        let names: Vec<_> = names.iter().flatten().collect();
        assert_eq!(names.len(), 100);
        assert!(names.iter().all(|name| name.starts_with("gate-")), "{names:?}");
        assert!(names.iter().collect::<BTreeSet<_>>().len() <= GATE_WORKERS);
    }

    #[test]
    fn thread_survives_a_job_that_panics() {
        let workers = GateWorkers::default();
        for _ in 0..GATE_WORKERS {
            workers.run(|| panic!("expected in this test"));
        }
        let (sender, result) = mpsc::channel();
        assert!(workers.run(move || {
            let _ = sender.send(7);
        }));
        assert_eq!(result.recv(), Ok(7));
    }
}
