//! A configuration file that changes while a host or a proxy runs.
//!
//! The file is looked at twice a second and read once it has stopped changing. What a gateway can take over is taken
//! over; a file with a mistake leaves everything as it was; the rest is named, since it counts from the next start.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;

use crate::console::Style;
use crate::ports::{GatewayOptions, LaunchError};
use crate::settings::{Settings, Source, Stamp, Value};

const POLL: Duration = Duration::from_millis(500);
/// Notes that wait to be shown; more of them say nothing new.
const NOTES: usize = 16;

/// Something to tell about a changed file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Note {
    pub(crate) text: String,
    pub(crate) bad: bool,
}

impl Note {
    pub(crate) fn style(&self) -> Style {
        if self.bad { Style::Yellow } else { Style::Plain }
    }
}

/// Gives a changed configuration to whoever runs with it.
pub(crate) type Reconfigure = Arc<dyn Fn(GatewayOptions) -> Result<(), LaunchError> + Send + Sync>;

/// What a running gateway cannot take over although the settings could say it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Bounds {
    /// The variables that agents do not get, if agents are started.
    pub(crate) hidden: Option<Vec<String>>,
    /// Whether there is no place to count what is used.
    pub(crate) unlimited: bool,
}

/// Follows the configuration file until dropped.
#[derive(Debug)]
pub(crate) struct Reloader {
    task: JoinHandle<()>,
    now: Arc<Notify>,
}

impl Reloader {
    /// Begins to follow the file of these settings; notes go to `tell`. Settings without a file are not followed.
    pub(crate) fn start(
        settings: &Settings,
        bounds: Bounds,
        reconfigure: Reconfigure,
        tell: impl Fn(Note) + Send + 'static,
    ) -> Option<Self> {
        let mut follower = Follower::new(settings, bounds)?;
        let now = Arc::new(Notify::new());
        let wanted = Arc::clone(&now);
        let task = tokio::spawn(async move {
            loop {
                tokio::select! {
                    () = follower.changed() => {}
                    () = wanted.notified() => {}
                }
                for note in follower.read(&*reconfigure) {
                    tell(note);
                }
            }
        });
        Some(Self { task, now })
    }

    /// Reads the file now.
    pub(crate) fn now(&self) {
        self.now.notify_one();
    }
}

impl Drop for Reloader {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Notes for somebody who reads them when there is time.
pub(crate) fn notes() -> (impl Fn(Note) + Send + 'static, mpsc::Receiver<Note>) {
    let (sender, receiver) = mpsc::channel(NOTES);
    let tell = move |note| {
        let _full_is_enough = sender.try_send(note);
    };
    (tell, receiver)
}

/// Notes for the log, where nobody waits for them.
pub(crate) fn log(note: Note) {
    if note.bad {
        tracing::warn!("{}", note.text);
    } else {
        tracing::info!("{}", note.text);
    }
}

/// What was read last, and what is in force.
struct Follower {
    source: Arc<Source>,
    bounds: Bounds,
    gateway: GatewayOptions,
    restart: BTreeMap<&'static str, Value>,
    /// The file that was read.
    read: Option<Stamp>,
    /// The file as it was seen last.
    seen: Option<Stamp>,
}

impl Follower {
    fn new(settings: &Settings, bounds: Bounds) -> Option<Self> {
        Some(Self {
            source: Arc::clone(settings.source.as_ref()?),
            bounds,
            gateway: settings.gateway.clone(),
            restart: settings.restart.clone(),
            read: settings.stamp,
            seen: settings.stamp,
        })
    }

    /// Returns when the file is another one than the one that was read, and has stayed the same for a while: editors
    /// write in several steps.
    async fn changed(&mut self) {
        let mut ticks = tokio::time::interval(POLL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let now = self.source.stamp();
            let settled = std::mem::replace(&mut self.seen, now) == now;
            if settled && now != self.read {
                return;
            }
        }
    }

    /// Reads the file and applies what can be applied.
    fn read(&mut self, reconfigure: &dyn Fn(GatewayOptions) -> Result<(), LaunchError>) -> Vec<Note> {
        self.read = self.source.stamp();
        let stays = |why: String| vec![Note { text: format!("{why} The configuration stays as it was."), bad: true }];
        let settings = match self.source.load_again() {
            Ok(settings) => settings,
            Err(error) => return stays(error.to_string()),
        };
        self.read = settings.stamp;
        if let Some(why) = self.out_of_bounds(&settings) {
            return stays(why);
        }
        let mut notes: Vec<Note> = settings.warnings.into_iter().map(|text| Note { text, bad: true }).collect();
        if settings.gateway != self.gateway {
            if let Err(error) = reconfigure(settings.gateway.clone()) {
                return stays(error.to_string());
            }
            self.gateway = settings.gateway;
            let names: Vec<&str> = self.gateway.upstreams.iter().map(|spec| spec.name.as_str()).collect();
            let path = self.source.path().display();
            notes.push(Note { text: format!("{path} was read anew; upstreams: {}.", names.join(", ")), bad: false });
        }
        let changed = changed_names(&self.restart, &settings.restart);
        self.restart = settings.restart;
        if !changed.is_empty() {
            let text = format!("What has changed of {} counts from the next start.", changed.join(", "));
            notes.push(Note { text, bad: true });
        }
        notes
    }

    fn out_of_bounds(&self, settings: &Settings) -> Option<String> {
        if let Some(hidden) = &self.bounds.hidden
            && let Some(name) = settings.credential_variables.iter().find(|name| !hidden.contains(name))
        {
            return Some(format!(
                "The agents that run can see the variable {name}: start the host again to use it for a key."
            ));
        }
        (self.bounds.unlimited && settings.gateway.limits.any())
            .then(|| "What is used is not being counted: start the proxy again to have limits.".to_owned())
    }
}

fn changed_names(before: &BTreeMap<&'static str, Value>, after: &BTreeMap<&'static str, Value>) -> Vec<&'static str> {
    let mut names: Vec<_> = before.keys().chain(after.keys()).copied().collect();
    names.sort_unstable();
    names.dedup();
    names.retain(|name| before.get(name) != after.get(name));
    names
}

#[cfg(test)]
#[path = "reload_tests.rs"]
mod tests;
