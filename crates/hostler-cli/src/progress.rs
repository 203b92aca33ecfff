//! Progress on stderr: a spinner and an install bar, drawn on a terminal only.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hostler_driver::{InstallProgress, InstallProgressSink};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::console::Console;

const SPINNER_TICK_INTERVAL: Duration = Duration::from_millis(100);

/// Spinner that runs until the first output.
#[derive(Debug)]
pub(crate) struct Spinner(Option<ProgressBar>);

impl Spinner {
    /// Starts the spinner, on a terminal.
    pub(crate) fn start(text: &'static str, console: &Console) -> Self {
        if !console.err_is_terminal() {
            return Self::hidden();
        }
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {elapsed}") {
            bar.set_style(style);
        }
        bar.set_message(text);
        bar.enable_steady_tick(SPINNER_TICK_INTERVAL);
        Self(Some(bar))
    }

    pub(crate) fn hidden() -> Self {
        Self(None)
    }

    pub(crate) fn set_text(&self, text: &str) {
        if let Some(bar) = self.0.as_ref().filter(|_| !text.is_empty()) {
            bar.set_message(text.to_owned());
        }
    }

    pub(crate) fn clear(&mut self) {
        if let Some(bar) = self.0.take() {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Progress of an install: a bar on a terminal, a line per step elsewhere.
#[derive(Debug)]
pub(crate) struct InstallProgressBar {
    bar: ProgressBar,
}

impl InstallProgressBar {
    /// Returns the bar and the sink for the installer. Without a terminal, `line` receives the steps.
    pub(crate) fn new(
        title: String,
        console: &Console,
        line: impl Fn(&str) + Send + Sync + 'static,
    ) -> (Self, InstallProgressSink) {
        if !console.err_is_terminal() {
            return (Self { bar: ProgressBar::hidden() }, plain_progress_sink(title, line));
        }
        let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template("{msg} [{wide_bar}] {binary_bytes}/{binary_total_bytes}") {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_message(title.clone());
        bar.enable_steady_tick(SPINNER_TICK_INTERVAL);
        let sink = bar.clone();
        let report = move |progress| match progress {
            InstallProgress::Waiting => {
                sink.set_message(format!("{title}: waiting for another process that is installing it"))
            }
            InstallProgress::Fetching { done_bytes: done, total_bytes: total } => {
                sink.set_message(title.clone());
                sink.set_length(total.max(done));
                sink.set_position(done);
            }
            InstallProgress::Verifying => {
                sink.set_position(sink.length().unwrap_or_default());
                sink.set_message(format!("{title}: verifying"));
            }
        };
        (Self { bar }, Box::new(report))
    }
}

impl Drop for InstallProgressBar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Reports each step once, and every quarter of a download.
fn plain_progress_sink(title: String, line: impl Fn(&str) + Send + Sync + 'static) -> InstallProgressSink {
    let last = Arc::new(Mutex::new(String::new()));
    Box::new(move |progress| {
        let text = match progress {
            InstallProgress::Waiting => format!("{title}: waiting for another process that is installing it"),
            InstallProgress::Fetching { done_bytes: done, total_bytes: total } => {
                let quarters = (done.min(total) * 4).checked_div(total).unwrap_or(0);
                format!("{title}: downloading, {}%", quarters * 25)
            }
            InstallProgress::Verifying => format!("{title}: verifying"),
        };
        let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
        if *last != text {
            line(&text);
            *last = text;
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_is_printed_once_without_a_terminal() {
        let printed = Arc::new(Mutex::new(Vec::new()));
        let sink = plain_progress_sink("claude".into(), {
            let printed = Arc::clone(&printed);
            move |line| printed.lock().unwrap().push(line.to_owned())
        });
        for done in 0..=100 {
            sink(InstallProgress::Fetching { done_bytes: done, total_bytes: 100 });
        }
        sink(InstallProgress::Fetching { done_bytes: 1, total_bytes: 0 });
        sink(InstallProgress::Verifying);
        let printed = printed.lock().unwrap();
        assert_eq!(printed.len(), 7, "{printed:?}");
        assert_eq!(printed.last().unwrap(), "claude: verifying");
    }
}
