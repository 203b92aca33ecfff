//! Background tasks: which commands and sub-agents run beside the turns, and where they write their output.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use hostler_driver::{BackgroundTask, BackgroundTaskKind, DriverEvent};
use serde_json::value::RawValue;

use crate::wire::{BackgroundTasks, BackgroundedWork, TaskNotification, TaskStarted, TaskUpdated};

/// More tasks than any agent has; the least important ones are dropped first.
const MAX_TASKS: usize = 512;

/// Maximum length of a task's description, in characters.
const MAX_REASON_CHARS: usize = 200;

/// The agent's tasks.
///
/// Both builds report every sub-agent and every command that takes longer than two seconds as a task. Only the native
/// build reports which of them run in the background; for the other build the tool's result does.
#[derive(Debug, Default)]
pub(super) struct BackgroundTasksState {
    tasks: HashMap<String, TrackedTask>,
}

#[derive(Debug)]
struct TrackedTask {
    task: BackgroundTask,
    state: TaskState,
    /// The file with its output.
    output: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum TaskState {
    /// The turn waits for it.
    Foreground,
    /// It runs in the background.
    Background,
    /// It ran in the background and is over; the model has not been notified yet.
    Ended,
}

impl BackgroundTasksState {
    /// Whether a task with this id is running.
    pub(super) fn is_running(&self, id: &str) -> bool {
        self.tasks.get(id).is_some_and(|known| known.state == TaskState::Background)
    }

    pub(super) fn on_task_started(&mut self, started: &TaskStarted<'_>) -> Option<DriverEvent> {
        let kind = match started.task_type.as_deref() {
            Some(kind) if kind.contains("agent") => BackgroundTaskKind::SubAgent,
            _ => BackgroundTaskKind::Shell,
        };
        let task = BackgroundTask {
            id: started.task_id.to_string(),
            kind,
            description: started.description.as_deref().unwrap_or_default().to_owned(),
            call_id: started.tool_use_id.as_deref().map(str::to_owned),
        };
        if self.tasks.len() >= MAX_TASKS {
            self.tasks.retain(|_, known| known.state == TaskState::Background);
        }
        if self.tasks.len() >= MAX_TASKS {
            return None;
        }
        let id = task.id.clone();
        self.tasks.insert(id.clone(), TrackedTask { task, state: TaskState::Foreground, output: None });
        if started.is_backgrounded == Some(true) { self.move_to_background(&id) } else { None }
    }

    /// A call has returned: a task that it left running is now in the background.
    pub(super) fn on_call_returned(&mut self, result: &RawValue) -> Option<DriverEvent> {
        if !self.tasks.values().any(|known| known.state == TaskState::Foreground) {
            return None;
        }
        let left: BackgroundedWork<'_> = serde_json::from_str(result.get()).ok()?;
        self.move_to_background(left.task_id()?)
    }

    /// The tool result of a background command names its output file.
    pub(super) fn on_tool_result(&mut self, result: &str) {
        let Some((id, path)) = parse_output_file(result) else { return };
        if let Some(known) = self.tasks.get_mut(id).filter(|known| known.task.kind == BackgroundTaskKind::Shell) {
            known.output = Some(path);
        }
    }

    /// The output file of a background task.
    pub(super) fn output_path(&self, id: &str) -> Option<&Path> {
        self.tasks.get(id).filter(|known| known.state == TaskState::Background)?.output.as_deref()
    }

    pub(super) fn on_task_list(&mut self, list: &BackgroundTasks<'_>) -> Vec<DriverEvent> {
        let listed = |id: &str| list.tasks.iter().any(|task| &*task.task_id == id);
        let gone: Vec<_> = self.tasks.keys().filter(|id| !listed(id)).cloned().collect();
        let mut events: Vec<_> = list.tasks.iter().filter_map(|task| self.move_to_background(&task.task_id)).collect();
        events.extend(gone.iter().filter_map(|id| self.end_task(id)));
        events
    }

    pub(super) fn on_task_updated(&mut self, update: &TaskUpdated<'_>) -> Option<DriverEvent> {
        match update.patch.status.as_deref()? {
            "completed" | "failed" | "killed" | "stopped" => self.end_task(&update.task_id),
            _ => None,
        }
    }

    /// A task is over: the event, and the reason of the turn that the agent starts about it.
    pub(super) fn on_task_notification(
        &mut self,
        over: &TaskNotification<'_>,
    ) -> (Option<DriverEvent>, Option<String>) {
        let event = self.end_task(&over.task_id);
        let Some(TrackedTask { task, state: TaskState::Ended, .. }) = self.tasks.remove(&*over.task_id) else {
            return (event, None);
        };
        let status = over.status.as_deref().unwrap_or("completed");
        // A task that a person stopped does not wake the model.
        let wakes = status != "stopped";
        (event, wakes.then(|| describe_end(&task, status, over.summary.as_deref())))
    }

    fn move_to_background(&mut self, id: &str) -> Option<DriverEvent> {
        let known = self.tasks.get_mut(id).filter(|known| known.state == TaskState::Foreground)?;
        known.state = TaskState::Background;
        Some(DriverEvent::BackgroundTaskChanged(known.task.clone()))
    }

    fn end_task(&mut self, id: &str) -> Option<DriverEvent> {
        let known = self.tasks.get_mut(id).filter(|known| known.state == TaskState::Background)?;
        known.state = TaskState::Ended;
        Some(DriverEvent::BackgroundTaskEnded { id: id.to_owned() })
    }
}

/// The command's id and output file from the agent's fixed wording. No output of the command precedes it.
fn parse_output_file(result: &str) -> Option<(&str, PathBuf)> {
    let (id, rest) = result.strip_prefix("Command running in background with ID: ")?.split_once(". ")?;
    let name = format!("/{id}.output");
    let rest = rest.strip_prefix("Output is being written to: ")?;
    let (directory, _) = rest.split_once(&name)?;
    let path = PathBuf::from(format!("{directory}{name}"));
    path.is_absolute().then_some((id, path))
}

/// `Background command "npm test" completed (exit code 0)` is the agent's own wording.
fn describe_end(task: &BackgroundTask, status: &str, summary: Option<&str>) -> String {
    let what = match (task.kind, summary) {
        (BackgroundTaskKind::Shell, Some(summary)) if !summary.is_empty() => {
            return summary.chars().take(MAX_REASON_CHARS).collect();
        }
        (BackgroundTaskKind::Shell, _) => "command",
        (BackgroundTaskKind::SubAgent, _) => "agent",
    };
    let description: String = task.description.chars().take(MAX_REASON_CHARS).collect();
    format!("Background {what} \"{description}\" {status}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_file_is_parsed_from_the_tool_result() {
        let begins = "Command running in background with ID: b1. Output is being written to: ";
        let read = |rest: &str| parse_output_file(&format!("{begins}{rest}")).map(|(id, path)| (id.to_owned(), path));
        let expected = Some(("b1".to_owned(), PathBuf::from("/t/a. b/tasks/b1.output")));
        assert_eq!(read("/t/a. b/tasks/b1.output"), expected);
        assert_eq!(read("/t/a. b/tasks/b1.output. You will be notified when it completes."), expected);
        assert_eq!(read("/t/tasks/b2.output"), None);
        assert_eq!(read("tasks/b1.output"), None);
        assert_eq!(parse_output_file(&format!("printed\n{begins}/t/b1.output")), None);
        assert_eq!(parse_output_file("Command running in background with ID: b1."), None);
    }
}
