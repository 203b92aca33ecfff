//! Reloads the configuration file while a host or a proxy runs.
//!
//! The file is checked twice a second and read once it has stopped changing. Gateway options are applied; an
//! invalid file changes nothing; other changed settings are reported, because they need a restart.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;

use crate::console::TextStyle;
use crate::ports::{GatewayOptions, LaunchError};
use crate::settings::{ConfigFileStamp, SettingValue, Settings, SettingsSource};

const CONFIG_POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Notices that may wait to be shown; further ones are dropped.
const NOTICE_QUEUE_SIZE: usize = 16;

/// Message about a changed file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReloadNotice {
    pub(crate) text: String,
    pub(crate) is_warning: bool,
}

impl ReloadNotice {
    pub(crate) fn style(&self) -> TextStyle {
        if self.is_warning { TextStyle::Yellow } else { TextStyle::Plain }
    }
}

/// Applies a changed configuration to the running host or proxy.
pub(crate) type ReconfigureFn = Arc<dyn Fn(GatewayOptions) -> Result<(), LaunchError> + Send + Sync>;

/// Changes that a running gateway cannot apply.
#[derive(Debug, Clone, Default)]
pub(crate) struct ReloadConstraints {
    /// Variables that are withheld from agents, if agents are started.
    pub(crate) withheld_variables: Option<Vec<String>>,
    /// Whether there is no ledger to count usage in.
    pub(crate) has_no_ledger: bool,
}

/// Follows the configuration file until dropped.
#[derive(Debug)]
pub(crate) struct ConfigReloader {
    task: JoinHandle<()>,
    reload_requested: Arc<Notify>,
}

impl ConfigReloader {
    /// Starts to follow the file of these settings; `on_notice` receives notices. Settings without a file are not
    /// followed.
    pub(crate) fn start(
        settings: &Settings,
        constraints: ReloadConstraints,
        reconfigure: ReconfigureFn,
        on_notice: impl Fn(ReloadNotice) + Send + 'static,
    ) -> Option<Self> {
        let mut watcher = ConfigFileWatcher::new(settings, constraints)?;
        let reload_requested = Arc::new(Notify::new());
        let requested = Arc::clone(&reload_requested);
        let task = tokio::spawn(async move {
            loop {
                tokio::select! {
                    () = watcher.wait_for_change() => {}
                    () = requested.notified() => {}
                }
                for notice in watcher.reload(&*reconfigure) {
                    on_notice(notice);
                }
            }
        });
        Some(Self { task, reload_requested })
    }

    /// Reloads the file now.
    pub(crate) fn reload_now(&self) {
        self.reload_requested.notify_one();
    }
}

impl Drop for ConfigReloader {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Returns a sink and a receiver of notices.
pub(crate) fn notice_channel() -> (impl Fn(ReloadNotice) + Send + 'static, mpsc::Receiver<ReloadNotice>) {
    let (sender, receiver) = mpsc::channel(NOTICE_QUEUE_SIZE);
    let send = move |notice| {
        let _full_is_enough = sender.try_send(notice);
    };
    (send, receiver)
}

/// Writes a notice to the log.
pub(crate) fn log_notice(notice: ReloadNotice) {
    if notice.is_warning {
        tracing::warn!("{}", notice.text);
    } else {
        tracing::info!("{}", notice.text);
    }
}

/// Last read file and effective settings.
struct ConfigFileWatcher {
    source: Arc<SettingsSource>,
    constraints: ReloadConstraints,
    gateway: GatewayOptions,
    restart_settings: BTreeMap<&'static str, SettingValue>,
    /// Stamp of the file that was read.
    read_stamp: Option<ConfigFileStamp>,
    /// Stamp that was seen last.
    seen_stamp: Option<ConfigFileStamp>,
}

impl ConfigFileWatcher {
    fn new(settings: &Settings, constraints: ReloadConstraints) -> Option<Self> {
        Some(Self {
            source: Arc::clone(settings.source.as_ref()?),
            constraints,
            gateway: settings.gateway.clone(),
            restart_settings: settings.restart_settings.clone(),
            read_stamp: settings.config_stamp,
            seen_stamp: settings.config_stamp,
        })
    }

    /// Returns when the file differs from the one that was read and has not changed for a while: editors write in
    /// several steps.
    async fn wait_for_change(&mut self) {
        let mut ticks = tokio::time::interval(CONFIG_POLL_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let now = self.source.stamp();
            let settled = std::mem::replace(&mut self.seen_stamp, now) == now;
            if settled && now != self.read_stamp {
                return;
            }
        }
    }

    /// Reads the file and applies what can be applied.
    fn reload(&mut self, reconfigure: &dyn Fn(GatewayOptions) -> Result<(), LaunchError>) -> Vec<ReloadNotice> {
        self.read_stamp = self.source.stamp();
        let unchanged = |reason: String| {
            vec![ReloadNotice { text: format!("{reason} The configuration is unchanged."), is_warning: true }]
        };
        let settings = match self.source.reload() {
            Ok(settings) => settings,
            Err(error) => return unchanged(error.to_string()),
        };
        self.read_stamp = settings.config_stamp;
        if let Some(reason) = self.violated_constraint(&settings) {
            return unchanged(reason);
        }
        let mut notices: Vec<ReloadNotice> =
            settings.warnings.into_iter().map(|text| ReloadNotice { text, is_warning: true }).collect();
        if settings.gateway != self.gateway {
            if let Err(error) = reconfigure(settings.gateway.clone()) {
                return unchanged(error.to_string());
            }
            self.gateway = settings.gateway;
            let names: Vec<&str> = self.gateway.upstreams.iter().map(|spec| spec.name.as_str()).collect();
            let path = self.source.path().display();
            notices.push(ReloadNotice {
                text: format!("Reloaded {path}. Upstreams: {}.", names.join(", ")),
                is_warning: false,
            });
        }
        let changed = changed_setting_names(&self.restart_settings, &settings.restart_settings);
        self.restart_settings = settings.restart_settings;
        if !changed.is_empty() {
            let text = format!("Restart to apply changes of: {}.", changed.join(", "));
            notices.push(ReloadNotice { text, is_warning: true });
        }
        notices
    }

    fn violated_constraint(&self, settings: &Settings) -> Option<String> {
        if let Some(withheld) = &self.constraints.withheld_variables
            && let Some(name) = settings.credential_variables.iter().find(|name| !withheld.contains(name))
        {
            return Some(format!("Running agents can see the variable {name}. Restart the host to use it for a key."));
        }
        (self.constraints.has_no_ledger && settings.gateway.limits.has_limits())
            .then(|| "Usage is not counted. Restart the proxy to apply limits.".to_owned())
    }
}

fn changed_setting_names(
    before: &BTreeMap<&'static str, SettingValue>,
    after: &BTreeMap<&'static str, SettingValue>,
) -> Vec<&'static str> {
    let mut names: Vec<_> = before.keys().chain(after.keys()).copied().collect();
    names.sort_unstable();
    names.dedup();
    names.retain(|name| before.get(name) != after.get(name));
    names
}

#[cfg(test)]
#[path = "reload_tests.rs"]
mod tests;
