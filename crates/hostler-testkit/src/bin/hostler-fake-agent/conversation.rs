//! Turns, one after the other.

use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nix::sys::signal::{SigSet, Signal};
use serde_json::{Value, json};

use crate::input::{Input, Order, Waited};
use crate::script::{self, Step};
use crate::store::Store;
use crate::wire;

/// Between two words of a slow answer.
const PAUSE: Duration = Duration::from_millis(5);

/// How large a huge line is: far more than a pipe holds.
const HUGE: usize = 1_000_000;

pub(crate) struct Conversation {
    input: Input,
    store: Store,
    version: Option<&'static str>,
    model: String,
    stubborn: bool,
    messages: u64,
    /// What the running answer has said so far.
    said: String,
}

/// How a turn went on.
enum Flow {
    Goes,
    Interrupted,
    Exit(ExitCode),
}

impl Conversation {
    pub(crate) fn new(input: Input, store: Store, version: Option<&'static str>) -> Self {
        let model = std::env::args().find_map(|argument| argument.strip_prefix("--model=").map(str::to_owned));
        let model = model.unwrap_or_else(|| "fake".to_owned());
        Self { input, store, version, model, stubborn: false, messages: 0, said: String::new() }
    }

    pub(crate) fn run(mut self) -> Result<ExitCode> {
        while let Some(order) = self.input.next()? {
            match order {
                Order::Prompt { text, uuid } => {
                    if let Some(code) = self.turn(&text, uuid.as_deref())? {
                        return Ok(code);
                    }
                }
                Order::Request { id, subtype } => self.request(&id, &subtype)?,
                Order::Answer { .. } | Order::Other => {}
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    fn request(&self, id: &str, subtype: &str) -> Result<()> {
        match subtype {
            "initialize" => {
                let mut body = json!({"commands": [], "models": [], "pid": std::process::id()});
                if let Some(version) = self.version {
                    body["claude_code_version"] = json!(version);
                }
                wire::answer(id, &body)
            }
            "interrupt" if self.stubborn => Ok(()),
            "interrupt" => wire::answer(id, &json!({})),
            other => wire::refuse(id, &format!("Unsupported control request subtype: {other}")),
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
            Step::Tool => return self.tool(),
            Step::Ask => {
                let answer = self.ask("q-1", &json!({"subtype": "what_is_this", "x": 1}))?;
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
                Waited::Order(Order::Request { id, subtype }) => {
                    self.request(&id, &subtype)?;
                    if subtype == "interrupt" && !self.stubborn {
                        return Ok(Flow::Interrupted);
                    }
                }
                Waited::Order(_) => {}
            }
        }
    }

    fn tool(&mut self) -> Result<Flow> {
        let id = "toolu_fake";
        self.message_start()?;
        let input = json!({"command": "true"});
        self.event(&json!({"type": "content_block_start", "index": 1,
            "content_block": {"type": "tool_use", "id": id, "name": "Bash", "input": {}}}))?;
        self.event(&json!({"type": "content_block_delta", "index": 1,
            "delta": {"type": "input_json_delta", "partial_json": input.to_string()}}))?;
        self.whole(&json!({"type": "tool_use", "id": id, "name": "Bash", "input": input}))?;
        self.event(&json!({"type": "content_block_stop", "index": 1}))?;
        let hook = json!({"subtype": "hook_callback", "callback_id": "pre_tool_use", "tool_use_id": id, "input": {
            "hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": input, "tool_use_id": id,
            "session_id": self.store.session, "transcript_path": self.store.path}});
        let Some(verdict) = self.ask("hook-1", &hook)? else { return Ok(Flow::Exit(ExitCode::SUCCESS)) };
        let decision = &verdict["response"]["hookSpecificOutput"];
        let (is_error, output) = if decision["permissionDecision"] == "deny" {
            (true, format!("PreToolUse:Bash hook error: {}", text(&decision["permissionDecisionReason"])))
        } else {
            let request = json!({"subtype": "can_use_tool", "tool_name": "Bash", "input": input, "tool_use_id": id});
            let Some(verdict) = self.ask("permission-1", &request)? else { return Ok(Flow::Exit(ExitCode::SUCCESS)) };
            match verdict["response"]["behavior"].as_str() {
                Some("allow") => (false, "done".to_owned()),
                _ => (true, text(&verdict["response"]["message"])),
            }
        };
        self.user(&json!([{"type": "tool_result", "tool_use_id": id, "is_error": is_error, "content": output}]))?;
        self.answer(&["no tool, then"])?;
        Ok(Flow::Goes)
    }

    /// Asks the host and waits for its answer; `None` if the host has gone.
    fn ask(&mut self, id: &str, request: &Value) -> Result<Option<Value>> {
        wire::print(&json!({"type": "control_request", "request_id": id, "request": request}))?;
        while let Some(order) = self.input.next()? {
            match order {
                Order::Answer { id: answered, body } if answered == id => return Ok(Some(body)),
                Order::Request { id, subtype } => self.request(&id, &subtype)?,
                Order::Prompt { .. } | Order::Answer { .. } | Order::Other => {}
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

    fn init(&self, uuid: Option<&str>) -> Result<()> {
        let mut init = json!({"type": "system", "subtype": "init", "session_id": self.store.session,
            "model": self.model, "claude_code_version": self.version, "capabilities": ["msg_lifecycle_v1"], "tools": []});
        if let Some(uuid) = uuid {
            init["user_message_uuids"] = json!([uuid]);
        }
        wire::print(&init)
    }

    /// A whole answer and the turn's end.
    fn answer(&mut self, pieces: &[&str]) -> Result<()> {
        self.message_start()?;
        for piece in pieces {
            self.delta(piece)?;
        }
        self.message_end()?;
        self.success()
    }

    fn message_start(&mut self) -> Result<()> {
        self.messages += 1;
        self.said.clear();
        let message = json!({"id": self.message_id(), "model": self.model, "content": [],
            "usage": {"input_tokens": 10, "output_tokens": 1}});
        self.event(&json!({"type": "message_start", "message": message}))?;
        self.event(&json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}))
    }

    fn delta(&mut self, text: &str) -> Result<()> {
        self.said.push_str(text);
        self.event(&json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}))
    }

    fn message_end(&mut self) -> Result<()> {
        self.assistant()?;
        self.event(&json!({"type": "content_block_stop", "index": 0}))?;
        self.event(&json!({"type": "message_delta", "delta": {}, "usage": {"input_tokens": 10, "output_tokens": 5}}))?;
        self.event(&json!({"type": "message_stop"}))
    }

    fn assistant(&self) -> Result<()> {
        self.whole(&json!({"type": "text", "text": self.said}))
    }

    fn whole(&self, block: &Value) -> Result<()> {
        wire::print(&json!({"type": "assistant", "parent_tool_use_id": null, "session_id": self.store.session,
            "message": {"id": self.message_id(), "role": "assistant", "model": self.model, "content": [block]}}))
    }

    fn user(&self, content: &Value) -> Result<()> {
        wire::print(&json!({"type": "user", "parent_tool_use_id": null, "session_id": self.store.session,
            "message": {"role": "user", "content": content}}))
    }

    fn success(&self) -> Result<()> {
        self.result(&json!({"subtype": "success", "is_error": false, "result": self.said, "terminal_reason": "completed",
            "usage": {"input_tokens": 10, "output_tokens": 5}, "modelUsage": {&self.model: {"contextWindow": 200_000}}}))
    }

    fn result(&self, fields: &Value) -> Result<()> {
        let mut result = json!({"type": "result", "session_id": self.store.session, "permission_denials": []});
        if let (Some(result), Some(fields)) = (result.as_object_mut(), fields.as_object()) {
            result.extend(fields.clone());
        }
        wire::print(&result)
    }

    fn event(&self, event: &Value) -> Result<()> {
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

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
