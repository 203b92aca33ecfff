//! Parses the directive language: one directive per line; other lines are comments.

use std::time::Duration;

use http::StatusCode;
use serde_json::value::RawValue;

/// Maximum output size, so that a typo does not exhaust the memory.
const MAX_OUTPUT_BYTES: usize = 256 * 1024 * 1024;
/// Maximum length of an echoed text; longer texts are truncated.
const MAX_ECHO_CHARS: usize = 1000;

/// One action of the model.
#[derive(Debug, Clone)]
pub(super) enum Directive {
    /// A text block, streamed word by word.
    Say(String),
    /// A thinking block, streamed word by word.
    Think(String),
    /// A text block with this number of deltas.
    Deltas { count: usize, text: Option<String> },
    /// A text block of this size, in large deltas.
    Huge(usize),
    /// A text block, if the user sent an image with these contents (in base64); otherwise a text block that reports
    /// what was sent.
    See { data: String, text: String },
    /// The delay before each following delta.
    Pace(Duration),
    /// A pause.
    Wait(Duration),
    /// A tool call; the message ends after it.
    Tool { name: String, input: Box<RawValue> },
    /// An error: a response with this status before the first event, an `error` event after it.
    Error { status: StatusCode, message: String },
    /// The connection is closed.
    Cut,
    /// The stream stays open without further events.
    Hang,
}

impl Directive {
    fn is_tool(&self) -> bool {
        matches!(self, Self::Tool { .. })
    }
}

/// Why a script is invalid, with the first line that is.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("line {line}: {error}")]
pub(super) struct ScriptError {
    line: usize,
    error: DirectiveError,
}

/// Why a directive is invalid.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
enum DirectiveError {
    #[error("unknown directive !{name}; use {DIRECTIVE_NAMES}")]
    Unknown { name: String },
    /// The argument is missing, or is not of the expected form.
    #[error("expected {0}")]
    Expected(&'static str),
    #[error("expected a number from 1 to {MAX_OUTPUT_BYTES}")]
    ExpectedSize,
    #[error("the input of {tool} is not valid JSON: {reason}")]
    InvalidInput { tool: String, reason: String },
    #[error("the input of {tool} must be a JSON object")]
    InputNotAnObject { tool: String },
}

/// A user text with directives.
#[derive(Debug)]
pub(super) struct Script(Vec<Directive>);

impl Script {
    /// Parses a text; `None` if no line is a directive, so that "!important" is ordinary text.
    pub(super) fn parse(text: &str) -> Result<Option<Self>, ScriptError> {
        let mut directives = Vec::new();
        let mut unknown = None;
        for (number, line) in (1..).zip(text.lines()) {
            let Some(directive) = line.trim().strip_prefix('!') else {
                continue;
            };
            let (name, argument) = directive.split_once(char::is_whitespace).unwrap_or((directive, ""));
            match parse_directive(name, argument.trim()) {
                Some(Ok(directive)) => directives.push(directive),
                Some(Err(error)) => return Err(ScriptError { line: number, error }),
                None => unknown = unknown.or(Some((number, name))),
            }
        }
        match unknown {
            Some((line, name)) if !directives.is_empty() => {
                Err(ScriptError { line, error: DirectiveError::Unknown { name: name.to_owned() } })
            }
            _ => Ok((!directives.is_empty()).then_some(Self(directives))),
        }
    }

    /// The message after this number of tool results: the first step whose calls have no results yet.
    pub(super) fn message_after(self, results: usize) -> MessageScript {
        let mut pace = Duration::ZERO;
        let mut remaining = results;
        for step in self.split_messages() {
            let calls = step.iter().filter(|directive| directive.is_tool()).count();
            if remaining == 0 || calls == 0 {
                return MessageScript { delta_delay: pace, directives: step };
            }
            remaining = remaining.saturating_sub(calls);
            // The pace of an earlier step still applies.
            for directive in step {
                if let Directive::Pace(set) = directive {
                    pace = set;
                }
            }
        }
        MessageScript { delta_delay: pace, directives: Vec::new() }
    }

    /// Splits the script into messages; a message ends after its tool calls.
    fn split_messages(self) -> Vec<Vec<Directive>> {
        let mut steps: Vec<Vec<Directive>> = Vec::new();
        let mut after_call = true;
        for directive in self.0 {
            let is_tool = directive.is_tool();
            match steps.last_mut() {
                Some(step) if is_tool || !after_call => step.push(directive),
                _ => steps.push(vec![directive]),
            }
            after_call = is_tool;
        }
        steps
    }
}

/// The directives of one message.
#[derive(Debug, Default)]
pub(super) struct MessageScript {
    /// The delay before each delta at the start.
    pub(super) delta_delay: Duration,
    pub(super) directives: Vec<Directive>,
}

impl MessageScript {
    /// Resolves directives about images with these images.
    pub(super) fn with_images(mut self, images: &[&str]) -> Self {
        for directive in &mut self.directives {
            if let Directive::See { data, text } = directive {
                *directive = Directive::Say(match (images.contains(&data.as_str()), images.len()) {
                    (true, _) => std::mem::take(text),
                    (false, 0) => "No image was sent.".to_owned(),
                    (false, count) => format!("The image is not among the images that were sent ({count})."),
                });
            }
        }
        self
    }

    /// The response to a text without directives.
    pub(super) fn echo(text: &str) -> Self {
        let mut echoed: String = text.chars().take(MAX_ECHO_CHARS).collect();
        if echoed.len() < text.len() {
            echoed.push('…');
        }
        let answer = if echoed.is_empty() {
            "Hello from the scripted model. You sent no text.".to_owned()
        } else {
            format!("Hello from the scripted model. You said: {echoed}")
        };
        Self { delta_delay: Duration::ZERO, directives: vec![Directive::Say(answer)] }
    }
}

const DIRECTIVE_NAMES: &str = "!say, !think, !deltas, !huge, !see, !pace, !wait, !tool, !error, !cut or !hang";

/// Parses a directive from its name and the rest of its line; `None` if the name is unknown.
fn parse_directive(name: &str, argument: &str) -> Option<Result<Directive, DirectiveError>> {
    Some(match name {
        "say" => parse_text(argument).map(Directive::Say),
        "think" => parse_text(argument).map(Directive::Think),
        "deltas" => parse_deltas(argument),
        "huge" => parse_output_size(argument).map(Directive::Huge),
        "see" => parse_see(argument),
        "pace" => parse_milliseconds(argument).map(Directive::Pace),
        "wait" => parse_milliseconds(argument).map(Directive::Wait),
        "tool" => parse_tool(argument),
        "error" => parse_error(argument),
        "cut" => require_no_argument(argument, Directive::Cut),
        "hang" => require_no_argument(argument, Directive::Hang),
        _ => return None,
    })
}

fn parse_text(argument: &str) -> Result<String, DirectiveError> {
    if argument.is_empty() {
        return Err(DirectiveError::Expected("text"));
    }
    Ok(argument.replace("\\n", "\n"))
}

fn parse_deltas(argument: &str) -> Result<Directive, DirectiveError> {
    let (count, text) = split_first_word(argument);
    let count = parse_output_size(count)?;
    Ok(Directive::Deltas { count, text: (!text.is_empty()).then(|| text.replace("\\n", "\n")) })
}

fn parse_see(argument: &str) -> Result<Directive, DirectiveError> {
    let (data, text) = split_first_word(argument);
    Ok(Directive::See { data: data.to_owned(), text: parse_text(text)? })
}

fn parse_tool(argument: &str) -> Result<Directive, DirectiveError> {
    let (name, input) = split_first_word(argument);
    if name.is_empty() {
        return Err(DirectiveError::Expected("the name of a tool"));
    }
    let tool = name.to_owned();
    let input = if input.is_empty() { "{}" } else { input };
    let input: Box<RawValue> = match serde_json::from_str(input) {
        Ok(input) => input,
        Err(error) => return Err(DirectiveError::InvalidInput { tool, reason: error.to_string() }),
    };
    if !input.get().starts_with('{') {
        return Err(DirectiveError::InputNotAnObject { tool });
    }
    Ok(Directive::Tool { name: tool, input })
}

fn parse_error(argument: &str) -> Result<Directive, DirectiveError> {
    let (status, message) = split_first_word(argument);
    let status = status
        .parse::<u16>()
        .ok()
        .and_then(|status| StatusCode::from_u16(status).ok())
        .filter(|status| status.as_u16() >= 400)
        .ok_or(DirectiveError::Expected("an HTTP status of 400 or higher"))?;
    let message = if message.is_empty() { "The script requested this error." } else { message };
    Ok(Directive::Error { status, message: message.to_owned() })
}

fn require_no_argument(argument: &str, directive: Directive) -> Result<Directive, DirectiveError> {
    if argument.is_empty() { Ok(directive) } else { Err(DirectiveError::Expected("no argument")) }
}

fn parse_milliseconds(argument: &str) -> Result<Duration, DirectiveError> {
    let expected = |_| DirectiveError::Expected("a number of milliseconds");
    argument.parse().map(Duration::from_millis).map_err(expected)
}

fn parse_output_size(argument: &str) -> Result<usize, DirectiveError> {
    argument.parse().ok().filter(|size| (1..=MAX_OUTPUT_BYTES).contains(size)).ok_or(DirectiveError::ExpectedSize)
}

fn split_first_word(rest: &str) -> (&str, &str) {
    let (word, rest) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    (word, rest.trim_start())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The directives of the message after this number of results, in the form of a script.
    fn message(text: &str, results: usize) -> String {
        let message = Script::parse(text).unwrap().unwrap().message_after(results);
        let directives: Vec<String> = message
            .directives
            .iter()
            .map(|directive| match directive {
                Directive::Say(text) => format!("say {text}"),
                Directive::Tool { name, .. } => format!("tool {name}"),
                Directive::Pace(pace) => format!("pace {}", pace.as_millis()),
                other => format!("{other:?}"),
            })
            .collect();
        format!("{}@{}", directives.join(", "), message.delta_delay.as_millis())
    }

    #[test]
    fn a_text_without_directives_is_not_a_script() {
        for text in ["", "hi", "what a day!", "!important", "wow\n!\n! say", "see !say in the docs"] {
            assert!(Script::parse(text).unwrap().is_none(), "{text}");
        }
    }

    #[test]
    fn see_reports_whether_the_image_was_sent() {
        let answer = |images: &[&str]| {
            let script = Script::parse("!see AAAA it is red").unwrap().unwrap();
            let message = script.message_after(0).with_images(images);
            message.directives.iter().map(|directive| format!("{directive:?}")).collect::<Vec<_>>()
        };
        assert_eq!(answer(&["BBBB", "AAAA"]), [r#"Say("it is red")"#]);
        assert_eq!(answer(&[]), [r#"Say("No image was sent.")"#]);
        assert_eq!(answer(&["BBBB"]), [r#"Say("The image is not among the images that were sent (1).")"#]);
        for wrong in ["!see", "!see AAAA"] {
            assert_eq!(Script::parse(wrong).unwrap_err().error, DirectiveError::Expected("text"));
        }
    }

    #[test]
    fn prose_between_directives_is_a_comment() {
        assert_eq!(message("Please do this:\n  !say one\r\nand then\n!say two", 0), "say one, say two@0");
    }

    #[test]
    fn a_script_continues_after_the_calls_with_results() {
        let script = "!pace 5\n!say a\n!tool A {}\n!tool B {}\n!say b\n!pace 7\n!tool C\n!say c";
        assert_eq!(message(script, 0), "pace 5, say a, tool A, tool B@0");
        assert_eq!(message(script, 2), "say b, pace 7, tool C@5");
        assert_eq!(message(script, 3), "say c@7");
        assert_eq!(message(script, 9), "say c@7");
        assert_eq!(message("!tool A", 1), "@0");
    }

    #[test]
    fn errors_contain_their_line() {
        for (text, expected) in [
            ("!say hi\n!sya there", "line 2: unknown directive !sya; use !say, "),
            ("!say", "line 1: expected text"),
            ("x\n!wait soon", "line 2: expected a number of milliseconds"),
            ("!deltas 0", "line 1: expected a number from 1 to"),
            ("!huge 99999999999", "line 1: expected a number from 1 to"),
            ("!tool", "line 1: expected the name of a tool"),
            ("!tool Bash {", "line 1: the input of Bash is not valid JSON"),
            ("!tool Bash [1]", "line 1: the input of Bash must be a JSON object"),
            ("!error 200", "line 1: expected an HTTP status of 400 or higher"),
            ("!cut now", "line 1: expected no argument"),
        ] {
            let error = Script::parse(text).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{text}: {error}");
        }
    }

    #[test]
    fn a_long_text_is_echoed_truncated() {
        let Directive::Say(answer) = MessageScript::echo(&"ä".repeat(5000)).directives.remove(0) else { panic!() };
        assert!(answer.ends_with("ä…") && answer.chars().count() < 1100);
    }
}
