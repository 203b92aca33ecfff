//! A terminal's state, and how output of its shell changes it. No I/O and no clock.

use std::sync::Arc;

use ahp_types::StateAction;
use ahp_types::actions::{
    TerminalCommandDetectionAvailableAction, TerminalCommandExecutedAction, TerminalCommandFinishedAction,
    TerminalCwdChangedAction, TerminalDataAction, TerminalExitedAction, TerminalTitleChangedAction,
};
use ahp_types::state::{TerminalContentPart, TerminalState};
use hostler_files::path_to_file_uri;
use hostler_terminal::{ShellEvent, ShellOutput, scrollback_trim_bytes};

use crate::sessions::state::Reduce as _;

/// Size of a content part beside its text.
const CONTENT_PART_OVERHEAD_BYTES: usize = 128;

/// The state of a terminal.
#[derive(Debug)]
pub(super) struct TerminalScreen {
    pub(super) state: Arc<TerminalState>,
    /// Size of the scrollback.
    scrollback_bytes: usize,
    /// Whether a person has named it: then programs do not change the title.
    pub(super) has_user_title: bool,
    /// The running command, and its start (milliseconds since the epoch).
    running_command: Option<(String, i64)>,
    command_count: u64,
    /// Whether the shell has reported shell integration.
    has_shell_integration: bool,
    /// The title that was published last.
    published_title: String,
    /// The directory that was published last.
    published_directory: Option<String>,
}

impl TerminalScreen {
    pub(super) fn new(state: TerminalState, scrollback_bytes: usize, has_user_title: bool) -> Self {
        let (published_title, published_directory) = (state.title.clone(), state.cwd.clone());
        Self {
            state: Arc::new(state),
            scrollback_bytes,
            has_user_title,
            running_command: None,
            command_count: 0,
            has_shell_integration: false,
            published_title,
            published_directory,
        }
    }

    /// Applies an action, and trims the scrollback.
    pub(super) fn reduce(&mut self, action: &StateAction) {
        let state = Arc::make_mut(&mut self.state);
        state.reduce(action);
        trim_content(&mut state.content, self.scrollback_bytes);
    }

    /// Converts output to actions, appended to `waiting`. `now` is in milliseconds since the epoch.
    pub(super) fn apply_output(&mut self, piece: ShellOutput, now: i64, waiting: &mut Vec<StateAction>) {
        match piece {
            ShellOutput::Text(text) => match waiting.last_mut() {
                Some(StateAction::TerminalData(before)) => before.data.push_str(&text),
                _ => waiting.push(StateAction::TerminalData(TerminalDataAction { data: text })),
            },
            ShellOutput::Title(title) => {
                if !self.has_user_title && title != self.published_title {
                    self.published_title.clone_from(&title);
                    waiting.push(StateAction::TerminalTitleChanged(TerminalTitleChangedAction { title }));
                }
            }
            ShellOutput::Event(mark) => {
                if !std::mem::replace(&mut self.has_shell_integration, true) {
                    let available = TerminalCommandDetectionAvailableAction {};
                    waiting.push(StateAction::TerminalCommandDetectionAvailable(available));
                }
                self.apply_mark(mark, now, waiting);
            }
        }
    }

    fn apply_mark(&mut self, mark: ShellEvent, now: i64, waiting: &mut Vec<StateAction>) {
        match mark {
            ShellEvent::PromptShown => {}
            ShellEvent::CommandStarted(command_line) => {
                // The end of the previous command was not reported.
                self.finish_command(None, now, waiting);
                self.command_count += 1;
                let command_id = self.command_count.to_string();
                self.running_command = Some((command_id.clone(), now));
                let executed = TerminalCommandExecutedAction { command_id, command_line, timestamp: now };
                waiting.push(StateAction::TerminalCommandExecuted(executed));
            }
            ShellEvent::CommandFinished(code) => self.finish_command(code.map(i64::from), now, waiting),
            ShellEvent::DirectoryChanged(path) => {
                let Ok(cwd) = path_to_file_uri(&path) else { return };
                if self.published_directory.as_ref() != Some(&cwd) {
                    self.published_directory = Some(cwd.clone());
                    waiting.push(StateAction::TerminalCwdChanged(TerminalCwdChangedAction { cwd }));
                }
            }
        }
    }

    /// Ends the running command, if there is one.
    fn finish_command(&mut self, exit_code: Option<i64>, now: i64, waiting: &mut Vec<StateAction>) {
        let Some((command_id, began)) = self.running_command.take() else { return };
        let duration_ms = Some((now - began).max(0));
        let finished = TerminalCommandFinishedAction { command_id, exit_code, duration_ms };
        waiting.push(StateAction::TerminalCommandFinished(finished));
    }

    /// Handles the end of the shell.
    pub(super) fn exit(&mut self, exit_code: Option<i64>, now: i64, waiting: &mut Vec<StateAction>) {
        self.finish_command(None, now, waiting);
        waiting.push(StateAction::TerminalExited(TerminalExitedAction { exit_code }));
    }
}

/// Size of a content part.
fn part_size(part: &TerminalContentPart) -> usize {
    CONTENT_PART_OVERHEAD_BYTES
        + match part {
            TerminalContentPart::Unclassified(part) => part.value.len(),
            TerminalContentPart::Command(part) => part.output.len() + part.command_line.len(),
            TerminalContentPart::Unknown(_) => 0,
        }
}

/// Removes the oldest contents beyond the limit, and a little more, so that trimming is rare.
fn trim_content(content: &mut Vec<TerminalContentPart>, most: usize) {
    let total: usize = content.iter().map(part_size).sum();
    if total <= most {
        return;
    }
    let mut excess = total - most + most / 8;
    let mut whole = 0;
    for part in content.iter().take(content.len().saturating_sub(1)) {
        if part_size(part) > excess {
            break;
        }
        excess -= part_size(part);
        whole += 1;
    }
    content.drain(..whole);
    let text = match content.first_mut() {
        Some(TerminalContentPart::Unclassified(part)) => &mut part.value,
        Some(TerminalContentPart::Command(part)) => &mut part.output,
        _ => return,
    };
    let cut = scrollback_trim_bytes(text, excess);
    text.drain(..cut);
}

#[cfg(test)]
mod tests {
    use super::*;
    use ahp_types::state::{TerminalClaim, TerminalClientClaim, TerminalLifecycleState, TerminalRunningLifecycleState};

    fn screen(scrollback: usize) -> TerminalScreen {
        let state = TerminalState {
            title: "sh".into(),
            cwd: None,
            cols: Some(80),
            rows: Some(24),
            content: Vec::new(),
            lifecycle: TerminalLifecycleState::Running(TerminalRunningLifecycleState {}),
            claim: TerminalClaim::Client(TerminalClientClaim { client_id: "me".into() }),
            supports_command_detection: None,
            is_pty: Some(true),
        };
        TerminalScreen::new(state, scrollback, false)
    }

    fn apply_all(screen: &mut TerminalScreen, pieces: impl IntoIterator<Item = ShellOutput>) -> Vec<String> {
        let mut waiting = Vec::new();
        pieces.into_iter().enumerate().for_each(|(now, piece)| {
            screen.apply_output(piece, i64::try_from(now).unwrap(), &mut waiting);
        });
        waiting.iter().for_each(|action| screen.reduce(action));
        waiting
            .iter()
            .map(|action| serde_json::to_value(action).unwrap()["type"].as_str().unwrap().to_owned())
            .collect()
    }

    fn text(text: &str) -> ShellOutput {
        ShellOutput::Text(text.into())
    }

    /// All text, without the structure of commands.
    fn raw(screen: &TerminalScreen) -> String {
        let part = |part: &TerminalContentPart| match part {
            TerminalContentPart::Unclassified(part) => part.value.clone(),
            TerminalContentPart::Command(part) => part.output.clone(),
            TerminalContentPart::Unknown(_) => String::new(),
        };
        screen.state.content.iter().map(part).collect()
    }

    #[test]
    fn commands_are_reported_in_order() {
        let mut screen = screen(10_000);
        let actions = apply_all(
            &mut screen,
            [
                ShellOutput::Event(ShellEvent::CommandFinished(Some(0))),
                ShellOutput::Event(ShellEvent::DirectoryChanged("/a b".into())),
                ShellOutput::Event(ShellEvent::PromptShown),
                text("$ "),
                text("ls\r\n"),
                ShellOutput::Event(ShellEvent::CommandStarted("ls".into())),
                text("out"),
                ShellOutput::Event(ShellEvent::CommandFinished(Some(2))),
                ShellOutput::Event(ShellEvent::DirectoryChanged("/a b".into())),
                text("$ "),
            ],
        );
        let expected =
            ["commandDetectionAvailable", "cwdChanged", "data", "commandExecuted", "data", "commandFinished", "data"];
        assert_eq!(actions, expected.map(|name| format!("terminal/{name}")));
        assert_eq!(screen.state.cwd.as_deref(), Some("file:///a%20b"));
        let content = serde_json::to_value(&screen.state.content).unwrap();
        let command = serde_json::json!({"type": "command", "commandId": "1", "commandLine": "ls", "output": "out",
            "timestamp": 5, "isComplete": true, "exitCode": 2, "durationMs": 2});
        assert_eq!(content[1], command);
        assert_eq!(content[0]["value"], "$ ls\r\n");
        assert_eq!(raw(&screen), "$ ls\r\nout$ ");
    }

    #[test]
    fn shell_exit_ends_the_running_command() {
        let mut screen = screen(10_000);
        apply_all(&mut screen, [ShellOutput::Event(ShellEvent::CommandStarted("exit 3".into()))]);
        let mut waiting = Vec::new();
        screen.exit(Some(3), 9, &mut waiting);
        waiting.iter().for_each(|action| screen.reduce(action));
        assert!(matches!(screen.state.lifecycle, TerminalLifecycleState::Exited(_)));
        let content = serde_json::to_value(&screen.state.content).unwrap();
        assert_eq!((content[0]["isComplete"].as_bool(), content[0].get("exitCode")), (Some(true), None));
    }

    #[test]
    fn program_titles_apply_until_a_person_sets_a_title() {
        let mut screen = screen(10_000);
        assert_eq!(
            apply_all(&mut screen, [ShellOutput::Title("vim".into()), ShellOutput::Title("vim".into())]),
            ["terminal/titleChanged"]
        );
        assert_eq!(screen.state.title, "vim");
        screen.has_user_title = true;
        assert_eq!(apply_all(&mut screen, [ShellOutput::Title("top".into())]), [] as [String; 0]);
    }

    #[test]
    fn scrollback_is_trimmed_at_a_line_end() {
        let mut screen = screen(2000);
        for line in 0..1000 {
            apply_all(&mut screen, [text(&format!("{line} äöü\r\n"))]);
            assert!(screen.state.content.iter().map(part_size).sum::<usize>() <= 2000);
        }
        let raw = raw(&screen);
        assert!(raw.len() > 1000 && raw.ends_with("999 äöü\r\n"), "{raw}");
        let first: u32 = raw.split(' ').next().unwrap().parse().expect("a whole line is first");
        assert!(first > 800);
    }

    #[test]
    fn many_commands_and_an_endless_one_stay_bounded() {
        let mut screen = screen(4000);
        for _ in 0..500 {
            apply_all(
                &mut screen,
                [
                    ShellOutput::Event(ShellEvent::CommandStarted("true".into())),
                    ShellOutput::Event(ShellEvent::CommandFinished(Some(0))),
                ],
            );
        }
        assert!(screen.state.content.len() < 40);
        apply_all(&mut screen, [ShellOutput::Event(ShellEvent::CommandStarted("yes".into()))]);
        for _ in 0..100 {
            apply_all(&mut screen, [text(&"y\r\n".repeat(100))]);
        }
        assert_eq!(screen.state.content.len(), 1, "the one that runs");
        assert!(raw(&screen).len() <= 4000);
    }
}
