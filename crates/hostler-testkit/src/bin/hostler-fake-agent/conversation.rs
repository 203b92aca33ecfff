//! Turns, one after the other.

use std::collections::VecDeque;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nix::sys::signal::{SigSet, Signal};
use serde_json::{Value, json};

use crate::background::Background;
use crate::input::{Input, Order, Prompt, Waited};
use crate::script::{self, Step};
use crate::store::Store;
use crate::tools::Call;
use crate::wire;

/// Between two words of a slow answer.
const PAUSE: Duration = Duration::from_millis(5);

/// How large a huge line is: far more than a pipe holds.
const HUGE: usize = 1_000_000;

pub(crate) struct Conversation {
    pub(crate) input: Input,
    pub(crate) store: Store,
    pub(crate) version: Option<&'static str>,
    pub(crate) model: String,
    pub(crate) stubborn: bool,
    /// Before every piece of an answer.
    pause: Duration,
    messages: u64,
    asked: u64,
    /// What the running answer has said so far.
    said: String,
    /// What goes on in the background.
    pub(crate) background: Option<Background>,
    /// Messages that came while a turn ran.
    pub(crate) queue: VecDeque<Prompt>,
}

/// How a turn went on.
pub(crate) enum Flow {
    Goes,
    Interrupted,
    Exit(ExitCode),
}

impl Conversation {
    pub(crate) fn new(input: Input, store: Store, version: Option<&'static str>) -> Self {
        let model = std::env::args().find_map(|argument| argument.strip_prefix("--model=").map(str::to_owned));
        let model = model.unwrap_or_else(|| "fake".to_owned());
        Self {
            input,
            store,
            version,
            model,
            stubborn: false,
            pause: Duration::ZERO,
            messages: 0,
            asked: 0,
            said: String::new(),
            background: None,
            queue: VecDeque::new(),
        }
    }

    pub(crate) fn run(mut self) -> Result<ExitCode> {
        loop {
            if let Some(prompt) = self.queue.pop_front() {
                if let Some(code) = self.turn(&prompt.text, prompt.uuid.as_deref())? {
                    return Ok(code);
                }
                continue;
            }
            let order = match self.input.wait(self.idle())? {
                Waited::Order(order) => order,
                Waited::Closed if self.stubborn => {
                    std::thread::sleep(PAUSE);
                    continue;
                }
                Waited::Closed => return Ok(ExitCode::SUCCESS),
                Waited::Nothing => {
                    self.background_ends()?;
                    continue;
                }
            };
            match order {
                Order::Prompt(prompt) => self.queue.push_back(prompt),
                Order::Request { id, subtype, body } => self.request(&id, &subtype, &body)?,
                Order::Answer { .. } | Order::Other => {}
            }
        }
    }

    /// A whole turn; a code if it ended the process.
    fn turn(&mut self, prompt: &str, uuid: Option<&str>) -> Result<Option<ExitCode>> {
        self.store.append(prompt)?;
        self.init(uuid)?;
        let mut flow = Flow::Goes;
        for step in script::steps(prompt) {
            flow = self.step(step)?;
            if !matches!(flow, Flow::Goes) {
                break;
            }
        }
        match flow {
            Flow::Goes => Ok(None),
            Flow::Exit(code) => Ok(Some(code)),
            Flow::Interrupted => {
                self.assistant()?;
                self.user(&json!([{"type": "text", "text": "[Request interrupted by user]"}]))?;
                self.result(&json!({"subtype": "error_during_execution", "is_error": true,
                    "terminal_reason": "aborted_streaming", "errors": ["[ede_diagnostic]"], "usage": {}}))?;
                Ok(None)
            }
        }
    }

    fn step(&mut self, step: Step) -> Result<Flow> {
        match step {
            Step::Fork => {
                leave_a_child_behind()?;
                return Ok(Flow::Goes);
            }
            Step::Stubborn => {
                SigSet::from(Signal::SIGTERM).thread_block()?;
                self.stubborn = true;
                return Ok(Flow::Goes);
            }
            Step::Pause(pause) => {
                self.pause = pause;
                return Ok(Flow::Goes);
            }
            Step::Hold(file) => {
                while !file.exists() {
                    std::thread::sleep(PAUSE);
                }
                return Ok(Flow::Goes);
            }
            Step::Vanish => return Ok(Flow::Exit(ExitCode::SUCCESS)),
            Step::Compact => self.compact()?,
            Step::Background(time) => return self.start_background(time),
            Step::Echo(text) => self.answer(&[&format!("echo: {text}")])?,
            Step::Deltas(count) => {
                self.message_start()?;
                for number in 0..count {
                    self.delta(&format!("d{number} "))?;
                }
                self.message_end()?;
                self.success()?;
            }
            Step::Garbage => self.garbage()?,
            Step::Die(code) => {
                self.message_start()?;
                self.delta("dying")?;
                return Ok(Flow::Exit(ExitCode::from(code)));
            }
            Step::Stderr(text) => {
                use std::io::Write as _;
                let _ = writeln!(std::io::stderr(), "{text}");
                return Ok(Flow::Exit(ExitCode::FAILURE));
            }
            Step::Hang => {
                self.message_start()?;
                self.delta("hanging")?;
                return self.until_interrupted(Duration::from_secs(3600), None);
            }
            Step::Wait(file) => {
                self.message_start()?;
                self.delta("waiting")?;
                while !file.exists() {
                    std::thread::sleep(PAUSE);
                }
                self.delta(", done")?;
                self.message_end()?;
                self.success()?;
            }
            Step::Slow => {
                self.message_start()?;
                return self.until_interrupted(PAUSE, Some("word "));
            }
            Step::Cut => {
                self.message_start()?;
                self.delta("half an ans")?;
                self.answer(&["a whole ", "answer"])?;
            }
            Step::Tool => return self.tools(&Call::shell(), 1, None),
            Step::Tools(count) => return self.tools(&Call::shell(), count, None),
            Step::Call(name, input) => return self.tools(&Call::of(name, input), 1, None),
            Step::SubTool => return self.tools(&Call::shell(), 1, Some("a0fake")),
            Step::Ask => {
                let answer = self.ask(&json!({"subtype": "what_is_this", "x": 1}))?;
                let Some(answer) = answer else { return Ok(Flow::Exit(ExitCode::SUCCESS)) };
                self.answer(&[&format!("{}: {}", text(&answer["subtype"]), text(&answer["error"]))])?;
            }
            Step::Error(status) => self.api_error(status)?,
            Step::Retry(status) => {
                wire::print(&json!({"type": "system", "subtype": "api_retry", "attempt": 1, "max_retries": 10,
                    "retry_delay_ms": 512.5, "error_status": status, "error": "unknown", "session_id": self.store.session}))?;
                self.answer(&["after a retry"])?;
            }
            Step::Nothing => {
                self.result(&json!({"subtype": "success", "is_error": false, "result": "", "usage": {}}))?
            }
            Step::Twice => {
                self.answer(&["first"])?;
                self.init(None)?;
                self.answer(&["second"])?;
            }
        }
        Ok(Flow::Goes)
    }

    /// Says a word now and then until the host interrupts us.
    fn until_interrupted(&mut self, pause: Duration, word: Option<&str>) -> Result<Flow> {
        loop {
            match self.input.wait(pause)? {
                Waited::Nothing => {
                    if let Some(word) = word {
                        self.delta(word)?;
                    }
                }
                Waited::Closed if self.stubborn => std::thread::sleep(pause),
                Waited::Closed => return Ok(Flow::Exit(ExitCode::SUCCESS)),
                Waited::Order(Order::Request { id, subtype, body }) => {
                    self.request(&id, &subtype, &body)?;
                    if subtype == "interrupt" && !self.stubborn {
                        return Ok(Flow::Interrupted);
                    }
                }
                Waited::Order(Order::Prompt(prompt)) => self.queue.push_back(prompt),
                Waited::Order(_) => {}
            }
        }
    }

    /// Asks the host and waits for its answer; `None` if the host has gone.
    pub(crate) fn ask(&mut self, request: &Value) -> Result<Option<Value>> {
        self.asked += 1;
        let id = format!("ask-{}", self.asked);
        wire::print(&json!({"type": "control_request", "request_id": id, "request": request}))?;
        while let Some(order) = self.input.next()? {
            match order {
                Order::Answer { id: answered, body } if answered == id => return Ok(Some(body)),
                Order::Request { id, subtype, body } => self.request(&id, &subtype, &body)?,
                Order::Prompt(prompt) => self.queue.push_back(prompt),
                Order::Answer { .. } | Order::Other => {}
            }
        }
        Ok(None)
    }

    fn garbage(&mut self) -> Result<()> {
        self.message_start()?;
        wire::print_text("this is not JSON")?;
        self.delta("one ")?;
        wire::print_text("{\"type\":\"stream_event\",\"event\":")?;
        wire::print_text("")?;
        self.delta("two ")?;
        wire::print(&json!({"type": "from_the_future", "huge": "x".repeat(HUGE)}))?;
        wire::print(&json!({"type": "system", "subtype": "from_the_future"}))?;
        wire::print(&json!({"type": "stream_event", "event": {"type": "from_the_future"}}))?;
        wire::print(&json!({"type": "assistant", "message": 7}))?;
        self.delta("three")?;
        self.message_end()?;
        self.success()
    }

    fn api_error(&mut self, status: u16) -> Result<()> {
        let text = format!("API Error: {status} the upstream says no");
        wire::print(&json!({"type": "assistant", "error": "unknown", "parent_tool_use_id": null,
            "message": {"id": "synthetic", "model": "<synthetic>", "content": [{"type": "text", "text": text}]}}))?;
        self.result(&json!({"subtype": "success", "is_error": true, "api_error_status": status, "result": text,
            "terminal_reason": "api_error", "usage": {}}))
    }

    pub(crate) fn init(&self, uuid: Option<&str>) -> Result<()> {
        let mut init = json!({"type": "system", "subtype": "init", "session_id": self.store.session,
            "model": self.model, "claude_code_version": self.version, "capabilities": ["msg_lifecycle_v1"], "tools": []});
        if let Some(uuid) = uuid {
            init["user_message_uuids"] = json!([uuid]);
        }
        wire::print(&init)
    }

    /// A whole answer and the turn's end.
    pub(crate) fn answer(&mut self, pieces: &[&str]) -> Result<()> {
        self.message_start()?;
        for piece in pieces {
            self.delta(piece)?;
        }
        self.message_end()?;
        self.success()
    }

    pub(crate) fn message_start(&mut self) -> Result<()> {
        self.messages += 1;
        self.said.clear();
        let message = json!({"id": self.message_id(), "model": self.model, "content": [],
            "usage": {"input_tokens": 10, "output_tokens": 1}});
        self.event(&json!({"type": "message_start", "message": message}))?;
        self.event(&json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}))
    }

    pub(crate) fn delta(&mut self, text: &str) -> Result<()> {
        if !self.pause.is_zero() {
            std::thread::sleep(self.pause);
        }
        self.said.push_str(text);
        self.event(&json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}))
    }

    pub(crate) fn message_end(&mut self) -> Result<()> {
        self.assistant()?;
        self.event(&json!({"type": "content_block_stop", "index": 0}))?;
        self.event(&json!({"type": "message_delta", "delta": {}, "usage": {"input_tokens": 10, "output_tokens": 5}}))?;
        self.event(&json!({"type": "message_stop"}))
    }

    fn assistant(&self) -> Result<()> {
        self.whole(&json!({"type": "text", "text": self.said}))
    }

    pub(crate) fn whole(&self, block: &Value) -> Result<()> {
        wire::print(&json!({"type": "assistant", "parent_tool_use_id": null, "session_id": self.store.session,
            "message": {"id": self.message_id(), "role": "assistant", "model": self.model, "content": [block]}}))
    }

    pub(crate) fn user(&self, content: &Value) -> Result<()> {
        wire::print(&json!({"type": "user", "parent_tool_use_id": null, "session_id": self.store.session,
            "message": {"role": "user", "content": content}}))
    }

    pub(crate) fn success(&self) -> Result<()> {
        self.result(&json!({"subtype": "success", "is_error": false, "result": self.said, "terminal_reason": "completed",
            "usage": {"input_tokens": 10, "output_tokens": 5}, "modelUsage": {&self.model: {"contextWindow": 200_000}}}))
    }

    pub(crate) fn result(&self, fields: &Value) -> Result<()> {
        let mut result = json!({"type": "result", "session_id": self.store.session, "permission_denials": []});
        if let (Some(result), Some(fields)) = (result.as_object_mut(), fields.as_object()) {
            result.extend(fields.clone());
        }
        wire::print(&result)
    }

    pub(crate) fn event(&self, event: &Value) -> Result<()> {
        wire::stream(&self.store.session, event)
    }

    fn message_id(&self) -> String {
        format!("msg_{}", self.messages)
    }
}

/// A child in a session of its own whose parent has ended, and its pid as a new line of the file that the test reads.
fn leave_a_child_behind() -> Result<()> {
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
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
