//! Main loop of the fake agent: runs turns one after the other.

use std::collections::VecDeque;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nix::sys::signal::{SigSet, Signal};
use serde_json::{Value, json};

use crate::background::FakeBackgroundTask;
use crate::host_input::{HostInput, HostInputMessage, InputWait, UserPrompt};
use crate::output;
use crate::script::{self, ScriptStep};
use crate::tool_calls::FakeToolCall;
use crate::transcript_file::TranscriptFile;

/// Interval between two words of a slow response.
const WORD_INTERVAL: Duration = Duration::from_millis(5);

/// Size of a huge line: far more than a pipe holds.
const HUGE_LINE_BYTES: usize = 1_000_000;

pub(crate) struct FakeAgentLoop {
    pub(crate) input: HostInput,
    pub(crate) store: TranscriptFile,
    pub(crate) version: Option<&'static str>,
    pub(crate) model: String,
    pub(crate) is_stubborn: bool,
    /// Delay before every delta.
    delta_delay: Duration,
    message_count: u64,
    request_count: u64,
    /// Text of the running response so far.
    answer_text: String,
    /// Running background work.
    pub(crate) background: Option<FakeBackgroundTask>,
    /// Messages that arrived while a turn ran.
    pub(crate) queue: VecDeque<UserPrompt>,
}

/// How a turn continues.
pub(crate) enum TurnFlow {
    Continue,
    Interrupted,
    Exit(ExitCode),
}

impl FakeAgentLoop {
    pub(crate) fn new(input: HostInput, store: TranscriptFile, version: Option<&'static str>) -> Self {
        let model = std::env::args().find_map(|argument| argument.strip_prefix("--model=").map(str::to_owned));
        let model = model.unwrap_or_else(|| "fake".to_owned());
        Self {
            input,
            store,
            version,
            model,
            is_stubborn: false,
            delta_delay: Duration::ZERO,
            message_count: 0,
            request_count: 0,
            answer_text: String::new(),
            background: None,
            queue: VecDeque::new(),
        }
    }

    pub(crate) fn run(mut self) -> Result<ExitCode> {
        loop {
            if let Some(prompt) = self.queue.pop_front() {
                if let Some(code) = self.run_turn(&prompt.text, prompt.uuid.as_deref())? {
                    return Ok(code);
                }
                continue;
            }
            let order = match self.input.wait(self.time_until_background_end())? {
                InputWait::Message(order) => order,
                InputWait::Closed if self.is_stubborn => {
                    std::thread::sleep(WORD_INTERVAL);
                    continue;
                }
                InputWait::Closed => return Ok(ExitCode::SUCCESS),
                InputWait::TimedOut => {
                    self.end_background()?;
                    continue;
                }
            };
            match order {
                HostInputMessage::Prompt(prompt) => self.queue.push_back(prompt),
                HostInputMessage::Request { id, subtype, body } => self.handle_request(&id, &subtype, &body)?,
                HostInputMessage::Answer { .. } | HostInputMessage::Other => {}
            }
        }
    }

    /// Runs a whole turn; returns an exit code if it ended the process.
    fn run_turn(&mut self, prompt: &str, uuid: Option<&str>) -> Result<Option<ExitCode>> {
        self.store.append(prompt)?;
        self.print_init(uuid)?;
        let mut flow = TurnFlow::Continue;
        for step in script::parse_steps(prompt) {
            flow = self.run_step(step)?;
            if !matches!(flow, TurnFlow::Continue) {
                break;
            }
        }
        match flow {
            TurnFlow::Continue => Ok(None),
            TurnFlow::Exit(code) => Ok(Some(code)),
            TurnFlow::Interrupted => {
                self.print_assistant()?;
                self.print_user(&json!([{"type": "text", "text": "[Request interrupted by user]"}]))?;
                self.print_result(&json!({"subtype": "error_during_execution", "is_error": true,
                    "terminal_reason": "aborted_streaming", "errors": ["[ede_diagnostic]"], "usage": {}}))?;
                Ok(None)
            }
        }
    }

    fn run_step(&mut self, step: ScriptStep) -> Result<TurnFlow> {
        match step {
            ScriptStep::Fork => {
                spawn_orphan()?;
                return Ok(TurnFlow::Continue);
            }
            ScriptStep::Stubborn => {
                SigSet::from(Signal::SIGTERM).thread_block()?;
                self.is_stubborn = true;
                return Ok(TurnFlow::Continue);
            }
            ScriptStep::Pause(pause) => {
                self.delta_delay = pause;
                return Ok(TurnFlow::Continue);
            }
            ScriptStep::Hold(file) => {
                while !file.exists() {
                    std::thread::sleep(WORD_INTERVAL);
                }
                return Ok(TurnFlow::Continue);
            }
            ScriptStep::Vanish => return Ok(TurnFlow::Exit(ExitCode::SUCCESS)),
            ScriptStep::Compact => self.compact()?,
            ScriptStep::Background(time) => return self.start_background(time),
            ScriptStep::Echo(text) => self.print_answer(&[&format!("echo: {text}")])?,
            ScriptStep::Deltas(count) => {
                self.print_message_start()?;
                for number in 0..count {
                    self.print_delta(&format!("d{number} "))?;
                }
                self.print_message_end()?;
                self.print_success()?;
            }
            ScriptStep::Garbage => self.print_garbage()?,
            ScriptStep::Die(code) => {
                self.print_message_start()?;
                self.print_delta("dying")?;
                return Ok(TurnFlow::Exit(ExitCode::from(code)));
            }
            ScriptStep::Stderr(text) => {
                use std::io::Write as _;
                let _ = writeln!(std::io::stderr(), "{text}");
                return Ok(TurnFlow::Exit(ExitCode::FAILURE));
            }
            ScriptStep::Hang => {
                self.print_message_start()?;
                self.print_delta("hanging")?;
                return self.wait_for_interrupt(Duration::from_secs(3600), None);
            }
            ScriptStep::Wait(file) => {
                self.print_message_start()?;
                self.print_delta("waiting")?;
                while !file.exists() {
                    std::thread::sleep(WORD_INTERVAL);
                }
                self.print_delta(", done")?;
                self.print_message_end()?;
                self.print_success()?;
            }
            ScriptStep::Slow => {
                self.print_message_start()?;
                return self.wait_for_interrupt(WORD_INTERVAL, Some("word "));
            }
            ScriptStep::Cut => {
                self.print_message_start()?;
                self.print_delta("half an ans")?;
                self.print_answer(&["a whole ", "answer"])?;
            }
            ScriptStep::Tool => return self.call_tools(&FakeToolCall::bash(), 1, None),
            ScriptStep::Tools(count) => return self.call_tools(&FakeToolCall::bash(), count, None),
            ScriptStep::Call(name, input) => return self.call_tools(&FakeToolCall::new(name, input), 1, None),
            ScriptStep::SubTool => return self.call_tools(&FakeToolCall::bash(), 1, Some("a0fake")),
            ScriptStep::Ask => {
                let answer = self.request_host(&json!({"subtype": "what_is_this", "x": 1}))?;
                let Some(answer) = answer else { return Ok(TurnFlow::Exit(ExitCode::SUCCESS)) };
                self.print_answer(&[&format!(
                    "{}: {}",
                    string_or_empty(&answer["subtype"]),
                    string_or_empty(&answer["error"])
                )])?;
            }
            ScriptStep::Error(status) => self.print_api_error(status)?,
            ScriptStep::Retry(status) => {
                output::print_message(
                    &json!({"type": "system", "subtype": "api_retry", "attempt": 1, "max_retries": 10,
                    "retry_delay_ms": 512.5, "error_status": status, "error": "unknown", "session_id": self.store.conversation_id}),
                )?;
                self.print_answer(&["after a retry"])?;
            }
            ScriptStep::Nothing => {
                self.print_result(&json!({"subtype": "success", "is_error": false, "result": "", "usage": {}}))?
            }
            ScriptStep::Twice => {
                self.print_answer(&["first"])?;
                self.print_init(None)?;
                self.print_answer(&["second"])?;
            }
        }
        Ok(TurnFlow::Continue)
    }

    /// Prints a word periodically until the host interrupts.
    fn wait_for_interrupt(&mut self, pause: Duration, word: Option<&str>) -> Result<TurnFlow> {
        loop {
            match self.input.wait(pause)? {
                InputWait::TimedOut => {
                    if let Some(word) = word {
                        self.print_delta(word)?;
                    }
                }
                InputWait::Closed if self.is_stubborn => std::thread::sleep(pause),
                InputWait::Closed => return Ok(TurnFlow::Exit(ExitCode::SUCCESS)),
                InputWait::Message(HostInputMessage::Request { id, subtype, body }) => {
                    self.handle_request(&id, &subtype, &body)?;
                    if subtype == "interrupt" && !self.is_stubborn {
                        return Ok(TurnFlow::Interrupted);
                    }
                }
                InputWait::Message(HostInputMessage::Prompt(prompt)) => self.queue.push_back(prompt),
                InputWait::Message(_) => {}
            }
        }
    }

    /// Sends a request to the host and waits for its answer; `None` if the host has disconnected.
    pub(crate) fn request_host(&mut self, request: &Value) -> Result<Option<Value>> {
        self.request_count += 1;
        let id = format!("ask-{}", self.request_count);
        output::print_message(&json!({"type": "control_request", "request_id": id, "request": request}))?;
        while let Some(order) = self.input.next_message()? {
            match order {
                HostInputMessage::Answer { id: answered, body } if answered == id => return Ok(Some(body)),
                HostInputMessage::Request { id, subtype, body } => self.handle_request(&id, &subtype, &body)?,
                HostInputMessage::Prompt(prompt) => self.queue.push_back(prompt),
                HostInputMessage::Answer { .. } | HostInputMessage::Other => {}
            }
        }
        Ok(None)
    }

    fn print_garbage(&mut self) -> Result<()> {
        self.print_message_start()?;
        output::print_line("this is not JSON")?;
        self.print_delta("one ")?;
        output::print_line("{\"type\":\"stream_event\",\"event\":")?;
        output::print_line("")?;
        self.print_delta("two ")?;
        output::print_message(&json!({"type": "from_the_future", "huge": "x".repeat(HUGE_LINE_BYTES)}))?;
        output::print_message(&json!({"type": "system", "subtype": "from_the_future"}))?;
        output::print_message(&json!({"type": "stream_event", "event": {"type": "from_the_future"}}))?;
        output::print_message(&json!({"type": "assistant", "message": 7}))?;
        self.print_delta("three")?;
        self.print_message_end()?;
        self.print_success()
    }

    fn print_api_error(&mut self, status: u16) -> Result<()> {
        let text = format!("API Error: {status} the upstream says no");
        output::print_message(&json!({"type": "assistant", "error": "unknown", "parent_tool_use_id": null,
            "message": {"id": "synthetic", "model": "<synthetic>", "content": [{"type": "text", "text": text}]}}))?;
        self.print_result(&json!({"subtype": "success", "is_error": true, "api_error_status": status, "result": text,
            "terminal_reason": "api_error", "usage": {}}))
    }

    pub(crate) fn print_init(&self, uuid: Option<&str>) -> Result<()> {
        let mut init = json!({"type": "system", "subtype": "init", "session_id": self.store.conversation_id,
            "model": self.model, "claude_code_version": self.version, "capabilities": ["msg_lifecycle_v1"], "tools": []});
        if let Some(uuid) = uuid {
            init["user_message_uuids"] = json!([uuid]);
        }
        output::print_message(&init)
    }

    /// Prints a whole response and the turn's end.
    pub(crate) fn print_answer(&mut self, pieces: &[&str]) -> Result<()> {
        self.print_message_start()?;
        for piece in pieces {
            self.print_delta(piece)?;
        }
        self.print_message_end()?;
        self.print_success()
    }

    pub(crate) fn print_message_start(&mut self) -> Result<()> {
        self.message_count += 1;
        self.answer_text.clear();
        let message = json!({"id": self.message_id(), "model": self.model, "content": [],
            "usage": {"input_tokens": 10, "output_tokens": 1}});
        self.print_stream_event(&json!({"type": "message_start", "message": message}))?;
        self.print_stream_event(
            &json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        )
    }

    pub(crate) fn print_delta(&mut self, text: &str) -> Result<()> {
        if !self.delta_delay.is_zero() {
            std::thread::sleep(self.delta_delay);
        }
        self.answer_text.push_str(text);
        self.print_stream_event(
            &json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}),
        )
    }

    pub(crate) fn print_message_end(&mut self) -> Result<()> {
        self.print_assistant()?;
        self.print_stream_event(&json!({"type": "content_block_stop", "index": 0}))?;
        self.print_stream_event(
            &json!({"type": "message_delta", "delta": {}, "usage": {"input_tokens": 10, "output_tokens": 5}}),
        )?;
        self.print_stream_event(&json!({"type": "message_stop"}))
    }

    fn print_assistant(&self) -> Result<()> {
        self.print_assistant_block(&json!({"type": "text", "text": self.answer_text}))
    }

    pub(crate) fn print_assistant_block(&self, block: &Value) -> Result<()> {
        output::print_message(
            &json!({"type": "assistant", "parent_tool_use_id": null, "session_id": self.store.conversation_id,
            "message": {"id": self.message_id(), "role": "assistant", "model": self.model, "content": [block]}}),
        )
    }

    pub(crate) fn print_user(&self, content: &Value) -> Result<()> {
        output::print_message(
            &json!({"type": "user", "parent_tool_use_id": null, "session_id": self.store.conversation_id,
            "message": {"role": "user", "content": content}}),
        )
    }

    pub(crate) fn print_success(&self) -> Result<()> {
        self.print_result(&json!({"subtype": "success", "is_error": false, "result": self.answer_text, "terminal_reason": "completed",
            "usage": {"input_tokens": 10, "output_tokens": 5}, "modelUsage": {&self.model: {"contextWindow": 200_000}}}))
    }

    pub(crate) fn print_result(&self, fields: &Value) -> Result<()> {
        let mut result = json!({"type": "result", "session_id": self.store.conversation_id, "permission_denials": []});
        if let (Some(result), Some(fields)) = (result.as_object_mut(), fields.as_object()) {
            result.extend(fields.clone());
        }
        output::print_message(&result)
    }

    pub(crate) fn print_stream_event(&self, event: &Value) -> Result<()> {
        output::print_stream_event(&self.store.conversation_id, event)
    }

    fn message_id(&self) -> String {
        format!("msg_{}", self.message_count)
    }
}

/// Starts a child in its own session whose parent has ended, and appends its pid to the file that the test reads.
fn spawn_orphan() -> Result<()> {
    let file = std::env::var_os("FAKE_AGENT_PIDS").context("FAKE_AGENT_PIDS names no file")?;
    let written = || std::fs::read_to_string(&file).unwrap_or_default().lines().count();
    let before = written();
    let status = Command::new("sh")
        .args(["-c", r#"setsid sh -c 'echo $$ >> "$0"; exec sleep 3600' "$0" &"#])
        .arg(&file)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()?;
    if !status.success() {
        bail!("the child could not be left behind: {status}");
    }
    while written() == before {
        std::thread::sleep(WORD_INTERVAL);
    }
    Ok(())
}

pub(crate) fn string_or_empty(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
