//! How far something has come that a client waits for: the installation of an agent, for now.

use std::sync::{Arc, Mutex, PoisonError};

use hostler_driver::{Driver, InstallError, InstallProgress};

use crate::broadcaster::{Delivery, HostNotification, HostNotificationKind, Subscriber};
use crate::host::Host;

/// A client's wish to hear how far something has come.
#[derive(Debug, Clone)]
pub struct ProgressRequest {
    /// The client's name for it.
    pub token: String,
    /// The connection that asked.
    pub subscriber: Subscriber,
}

/// One step of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgressUpdate {
    /// The client's name for it.
    pub token: String,
    /// How much is done; never less than before.
    pub done: u64,
    /// Of how much, if that is known. Where both are the same it is over, and nothing follows.
    pub total: Option<u64>,
    /// What is going on, or what went wrong.
    pub message: String,
}

/// What was told so far. Few steps are told, however often there is something new.
#[derive(Debug, Default)]
struct ProgressState {
    done: u64,
    total: Option<u64>,
    /// How many hundredths of it, if the total was known.
    percent: Option<u128>,
    has_started: bool,
    is_finished: bool,
}

impl ProgressState {
    /// What is to be told about an installation, if anything is.
    fn next_step(&mut self, name: &str, news: &InstallProgress) -> Option<(u64, Option<u64>, String)> {
        if self.is_finished {
            return None;
        }
        let (done, message) = match news {
            InstallProgress::Waiting => (0, format!("Waiting for another process that installs {name}")),
            InstallProgress::Fetching { done_bytes: done, total_bytes: total } => {
                // The end is told when it is known to be one.
                let total = *self.total.get_or_insert(*total.max(&1));
                ((*done).min(total - 1), format!("Installing {name}"))
            }
            InstallProgress::Verifying => (self.total.unwrap_or(1) - 1, format!("Trying {name} out")),
        };
        let done = done.max(self.done);
        let hundredth = self.total.map(|total| u128::from(done) * 100 / u128::from(total));
        let is_news = !self.has_started || hundredth != self.percent || *news == InstallProgress::Verifying;
        (self.has_started, self.done, self.percent) = (true, done, hundredth);
        is_news.then_some((done, self.total, message))
    }

    /// The last step, however it went.
    fn final_step(&mut self, message: String) -> (u64, Option<u64>, String) {
        self.is_finished = true;
        let total = self.total.unwrap_or(1).max(self.done);
        (total, Some(total), message)
    }
}

/// Tells one client.
struct ProgressReporter {
    request: ProgressRequest,
    name: String,
    state: Mutex<ProgressState>,
}

impl ProgressReporter {
    fn report_step(&self, news: &InstallProgress) {
        let mut told = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        // Told under the lock: steps of several threads keep their order.
        if let Some(step) = told.next_step(&self.name, news) {
            self.send(step);
        }
    }

    fn report_end(&self, result: Result<(), InstallError>) {
        let message = match result {
            Ok(()) => format!("{} is installed", self.name),
            Err(error) => error.message,
        };
        let mut told = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let step = told.final_step(message);
        self.send(step);
    }

    fn send(&self, (done, total, message): (u64, Option<u64>, String)) {
        let progress = ProgressUpdate { token: self.request.token.clone(), done, total, message };
        let notice = HostNotification::new(HostNotificationKind::Progress(Box::new(progress)));
        // Whoever asked may have left.
        self.request.subscriber.deliver(Delivery::Notification(Arc::new(notice)));
    }
}

impl Host {
    /// Begins what has to be done before an agent can be opened, and tells the client that waits how far it has come. What
    /// fails here is tried again with the first message.
    pub(crate) fn prepare_agent(&self, driver: &Arc<dyn Driver>, wish: ProgressRequest) {
        let teller =
            Arc::new(ProgressReporter { request: wish, name: driver.describe().display_name, state: Mutex::default() });
        let steps = Arc::clone(&teller);
        let Some(preparing) = driver.prepare(Box::new(move |news| steps.report_step(&news))) else { return };
        let stop = self.stop.clone();
        self.tasks.spawn(async move {
            if let Some(result) = stop.run_until_cancelled(preparing).await {
                teller.report_end(result);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_only_grow_and_the_last_one_is_the_total() {
        let mut told = ProgressState::default();
        let mut heard = Vec::new();
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
            heard.extend(told.next_step("it", &news).map(|(done, total, _)| (done, total)));
        }
        heard.push((told.final_step("done".to_owned()).0, Some(1000)));
        assert_eq!(
            heard,
            [(0, None), (0, Some(1000)), (200, Some(1000)), (999, Some(1000)), (999, Some(1000)), (1000, Some(1000))]
        );
        assert_eq!(told.next_step("it", &InstallProgress::Verifying), None, "nothing follows the end");
    }

    #[test]
    fn what_never_had_a_total_ends_with_one() {
        let mut told = ProgressState::default();
        told.next_step("it", &InstallProgress::Waiting);
        assert_eq!(told.final_step("no npm".to_owned()), (1, Some(1), "no npm".to_owned()));
    }
}
