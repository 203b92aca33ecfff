//! How far something has come that a client waits for: the installation of an agent, for now.

use std::sync::{Arc, Mutex, PoisonError};

use hostler_driver::{Driver, InstallError, InstallProgress};

use crate::host::Host;
use crate::hub::{Delivery, Notice, NoticeKind, Subscriber};

/// A client's wish to hear how far something has come.
#[derive(Debug, Clone)]
pub struct ProgressWish {
    /// The client's name for it.
    pub token: String,
    /// The connection that asked.
    pub to: Subscriber,
}

/// One step of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
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
struct Told {
    done: u64,
    total: Option<u64>,
    /// How many hundredths of it, if the total was known.
    hundredth: Option<u128>,
    begun: bool,
    over: bool,
}

impl Told {
    /// What is to be told about an installation, if anything is.
    fn step(&mut self, name: &str, news: &InstallProgress) -> Option<(u64, Option<u64>, String)> {
        if self.over {
            return None;
        }
        let (done, message) = match news {
            InstallProgress::Waiting => (0, format!("Waiting for another process that installs {name}")),
            InstallProgress::Fetching { done, total } => {
                // The end is told when it is known to be one.
                let total = *self.total.get_or_insert(*total.max(&1));
                ((*done).min(total - 1), format!("Installing {name}"))
            }
            InstallProgress::Verifying => (self.total.unwrap_or(1) - 1, format!("Trying {name} out")),
        };
        let done = done.max(self.done);
        let hundredth = self.total.map(|total| u128::from(done) * 100 / u128::from(total));
        let is_news = !self.begun || hundredth != self.hundredth || *news == InstallProgress::Verifying;
        (self.begun, self.done, self.hundredth) = (true, done, hundredth);
        is_news.then_some((done, self.total, message))
    }

    /// The last step, however it went.
    fn end(&mut self, message: String) -> (u64, Option<u64>, String) {
        self.over = true;
        let total = self.total.unwrap_or(1).max(self.done);
        (total, Some(total), message)
    }
}

/// Tells one client.
struct Teller {
    wish: ProgressWish,
    name: String,
    told: Mutex<Told>,
}

impl Teller {
    fn step(&self, news: &InstallProgress) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        // Told under the lock: steps of several threads keep their order.
        if let Some(step) = told.step(&self.name, news) {
            self.tell(step);
        }
    }

    fn end(&self, result: Result<(), InstallError>) {
        let message = match result {
            Ok(()) => format!("{} is installed", self.name),
            Err(error) => error.message,
        };
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let step = told.end(message);
        self.tell(step);
    }

    fn tell(&self, (done, total, message): (u64, Option<u64>, String)) {
        let progress = Progress { token: self.wish.token.clone(), done, total, message };
        let notice = Notice::new(NoticeKind::Progress(Box::new(progress)));
        // Whoever asked may have left.
        self.wish.to.deliver(Delivery::Notice(Arc::new(notice)));
    }
}

impl Host {
    /// Begins what has to be done before an agent can be opened, and tells the client that waits how far it has come. What
    /// fails here is tried again with the first message.
    pub(crate) fn prepare_agent(&self, driver: &Arc<dyn Driver>, wish: ProgressWish) {
        let teller = Arc::new(Teller { wish, name: driver.describe().display_name, told: Mutex::default() });
        let steps = Arc::clone(&teller);
        let Some(preparing) = driver.prepare(Box::new(move |news| steps.step(&news))) else { return };
        let stop = self.stop.clone();
        self.tasks.spawn(async move {
            if let Some(result) = stop.run_until_cancelled(preparing).await {
                teller.end(result);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_only_grow_and_the_last_one_is_the_total() {
        let mut told = Told::default();
        let mut heard = Vec::new();
        for news in [
            InstallProgress::Waiting,
            InstallProgress::Fetching { done: 0, total: 1000 },
            InstallProgress::Fetching { done: 5, total: 1000 },
            InstallProgress::Fetching { done: 200, total: 1000 },
            InstallProgress::Fetching { done: 100, total: 1000 },
            InstallProgress::Fetching { done: 205, total: 1000 },
            InstallProgress::Fetching { done: 5000, total: 1000 },
            InstallProgress::Verifying,
        ] {
            heard.extend(told.step("it", &news).map(|(done, total, _)| (done, total)));
        }
        heard.push((told.end("done".to_owned()).0, Some(1000)));
        assert_eq!(
            heard,
            [(0, None), (0, Some(1000)), (200, Some(1000)), (999, Some(1000)), (999, Some(1000)), (1000, Some(1000))]
        );
        assert_eq!(told.step("it", &InstallProgress::Verifying), None, "nothing follows the end");
    }

    #[test]
    fn what_never_had_a_total_ends_with_one() {
        let mut told = Told::default();
        told.step("it", &InstallProgress::Waiting);
        assert_eq!(told.end("no npm".to_owned()), (1, Some(1), "no npm".to_owned()));
    }
}
