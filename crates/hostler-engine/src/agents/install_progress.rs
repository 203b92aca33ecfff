//! Progress reports for a client that waits for an agent's installation.

use std::sync::{Arc, Mutex, PoisonError};

use hostler_driver::{Driver, InstallError, InstallProgress};

use crate::clients::broadcaster::{Delivery, HostNotification, HostNotificationKind, Subscriber};
use crate::host::Host;

/// A client's request for progress reports.
#[derive(Debug, Clone)]
pub struct ProgressRequest {
    /// The client's token for the reports.
    pub token: String,
    /// The connection that receives them.
    pub subscriber: Subscriber,
}

/// One progress report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgressUpdate {
    /// The client's token for the reports.
    pub token: String,
    /// Completed amount; never decreases.
    pub done: u64,
    /// Total amount, if known. A report with `done` equal to the total is the last one.
    pub total: Option<u64>,
    /// What is in progress, or what went wrong.
    pub message: String,
}

/// What was reported so far. Limits the number of reports, however often the progress changes.
#[derive(Debug, Default)]
struct ProgressState {
    done: u64,
    total: Option<u64>,
    /// Last reported percentage, if the total was known.
    percent: Option<u128>,
    has_started: bool,
    is_finished: bool,
}

impl ProgressState {
    /// Returns the next report about an installation, if one is due.
    fn next_step(&mut self, name: &str, news: &InstallProgress) -> Option<(u64, Option<u64>, String)> {
        if self.is_finished {
            return None;
        }
        let (done, message) = match news {
            InstallProgress::Waiting => (0, format!("Waiting for another process to install {name}")),
            InstallProgress::Fetching { done_bytes: done, total_bytes: total } => {
                // Completion is reported by `final_step` only.
                let total = *self.total.get_or_insert(*total.max(&1));
                ((*done).min(total - 1), format!("Installing {name}"))
            }
            InstallProgress::Verifying => (self.total.unwrap_or(1) - 1, format!("Verifying {name}")),
        };
        let done = done.max(self.done);
        let hundredth = self.total.map(|total| u128::from(done) * 100 / u128::from(total));
        let is_news = !self.has_started || hundredth != self.percent || *news == InstallProgress::Verifying;
        (self.has_started, self.done, self.percent) = (true, done, hundredth);
        is_news.then_some((done, self.total, message))
    }

    /// The last report, after success or failure.
    fn final_step(&mut self, message: String) -> (u64, Option<u64>, String) {
        self.is_finished = true;
        let total = self.total.unwrap_or(1).max(self.done);
        (total, Some(total), message)
    }
}

/// Reports to one client.
struct ProgressReporter {
    request: ProgressRequest,
    name: String,
    state: Mutex<ProgressState>,
}

impl ProgressReporter {
    fn report_step(&self, news: &InstallProgress) {
        let mut progress = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        // Sent under the lock, so that reports from several threads keep their order.
        if let Some(step) = progress.next_step(&self.name, news) {
            self.send(step);
        }
    }

    fn report_end(&self, result: Result<(), InstallError>) {
        let message = match result {
            Ok(()) => format!("{} is installed", self.name),
            Err(error) => error.message,
        };
        let mut progress = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let step = progress.final_step(message);
        self.send(step);
    }

    fn send(&self, (done, total, message): (u64, Option<u64>, String)) {
        let progress = ProgressUpdate { token: self.request.token.clone(), done, total, message };
        let notice = HostNotification::new(HostNotificationKind::Progress(Box::new(progress)));
        // The client may have disconnected.
        self.request.subscriber.deliver(Delivery::Notification(Arc::new(notice)));
    }
}

impl Host {
    /// Starts what an agent needs before it can be opened, and reports progress to the waiting client. A failure is
    /// retried with the first message.
    pub(crate) fn prepare_agent(&self, driver: &Arc<dyn Driver>, request: ProgressRequest) {
        let teller =
            Arc::new(ProgressReporter { request, name: driver.describe().display_name, state: Mutex::default() });
        let steps = Arc::clone(&teller);
        let Some(preparing) = driver.prepare(Box::new(move |news| steps.report_step(&news))) else { return };
        self.tasks.spawn_until_stopped(async move { teller.report_end(preparing.await) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_never_decreases_and_ends_at_the_total() {
        let mut progress = ProgressState::default();
        let mut reported = Vec::new();
        for news in [
            InstallProgress::Waiting,
            InstallProgress::Fetching { done_bytes: 0, total_bytes: 1000 },
            InstallProgress::Fetching { done_bytes: 5, total_bytes: 1000 },
            InstallProgress::Fetching { done_bytes: 200, total_bytes: 1000 },
            InstallProgress::Fetching { done_bytes: 100, total_bytes: 1000 },
            InstallProgress::Fetching { done_bytes: 205, total_bytes: 1000 },
            InstallProgress::Fetching { done_bytes: 5000, total_bytes: 1000 },
            InstallProgress::Verifying,
        ] {
            reported.extend(progress.next_step("it", &news).map(|(done, total, _)| (done, total)));
        }
        reported.push((progress.final_step("done".to_owned()).0, Some(1000)));
        assert_eq!(
            reported,
            [(0, None), (0, Some(1000)), (200, Some(1000)), (999, Some(1000)), (999, Some(1000)), (1000, Some(1000))]
        );
        assert_eq!(progress.next_step("it", &InstallProgress::Verifying), None, "nothing follows the end");
    }

    #[test]
    fn progress_without_a_total_ends_with_one() {
        let mut progress = ProgressState::default();
        progress.next_step("it", &InstallProgress::Waiting);
        assert_eq!(progress.final_step("no npm".to_owned()), (1, Some(1), "no npm".to_owned()));
    }
}
