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

/// Why a script is invalid.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("line {line}: {problem}")]
pub(super) struct ScriptError {
    line: usize,
    problem: String,
}

/// A user text with directives.
#[derive(Debug)]
pub(super) struct Script(Vec<Directive>);

impl Script {
    /// Parses a text; `None` if no line is a directive, so that "!important" is ordinary text.
    pub(super) fn parse(text: &str) -> Result<Option<Self>, ScriptError> {
        let mut directives = Vec::new();
        let mut unknown = None;
        for (line, words) in (1..).zip(text.lines()) {
            let Some(words) = words.trim().strip_prefix('!') else {
                continue;
            };
            let (name, rest) = words.split_once(char::is_whitespace).unwrap_or((words, ""));
            match parse_directive(name, rest.trim()) {
                Some(Ok(directive)) => directives.push(directive),
                Some(Err(problem)) => return Err(ScriptError { line, problem }),
                None => unknown = unknown.or(Some((line, name))),
            }
        }
        match unknown {
            Some((line, name)) if !directives.is_empty() => Err(ScriptError {
                line,
                problem: format!("there is no directive !{name}; there are {DIRECTIVE_NAMES}"),
            }),
            _ => Ok((!directives.is_empty()).then_some(Self(directives))),
        }
    }

    /// The message after this number of tool results: the first step whose calls have no results yet.
    pub(super) fn message_after(self, results: usize) -> MessageScript {
        let mut pace = Duration::ZERO;
        let mut left = results;
        for step in self.split_messages() {
            let calls = step.iter().filter(|directive| directive.is_tool()).count();
            if left == 0 || calls == 0 {
                return MessageScript { delta_delay: pace, directives: step };
            }
            left = left.saturating_sub(calls);
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
    pub(super) fn with_images(mut self, pictures: &[&str]) -> Self {
        for directive in &mut self.directives {
            if let Directive::See { data, text } = directive {
                *directive = Directive::Say(match (pictures.contains(&data.as_str()), pictures.len()) {
                    (true, _) => std::mem::take(text),
                    (false, 0) => "There is no picture.".to_owned(),
                    (false, count) => format!("That is not among the pictures that were sent ({count})."),
                });
            }
        }
        self
    }

    /// The response to a text without directives.
    pub(super) fn echo(text: &str) -> Self {
        let mut said: String = text.chars().take(MAX_ECHO_CHARS).collect();
        if said.len() < text.len() {
            said.push('…');
        }
        let answer = if said.is_empty() {
            "Hello from the scripted model. You sent no text.".to_owned()
        } else {
            format!("Hello from the scripted model. You said: {said}")
        };
        Self { delta_delay: Duration::ZERO, directives: vec![Directive::Say(answer)] }
    }
}

const DIRECTIVE_NAMES: &str = "!say, !think, !deltas, !huge, !see, !pace, !wait, !tool, !error, !cut and !hang";

/// Parses a directive from its name and the rest of its line; `None` if the name is unknown.
fn parse_directive(name: &str, rest: &str) -> Option<Result<Directive, String>> {
    Some(match name {
        "say" => parse_text(rest).map(Directive::Say),
        "think" => parse_text(rest).map(Directive::Think),
        "deltas" => parse_deltas(rest),
        "huge" => parse_output_size(rest).map(Directive::Huge),
        "see" => parse_see(rest),
        "pace" => parse_milliseconds(rest).map(Directive::Pace),
        "wait" => parse_milliseconds(rest).map(Directive::Wait),
        "tool" => parse_tool(rest),
        "error" => parse_error(rest),
        "cut" => require_no_argument(rest, Directive::Cut),
        "hang" => require_no_argument(rest, Directive::Hang),
        _ => return None,
    })
}

fn parse_text(rest: &str) -> Result<String, String> {
    if rest.is_empty() {
        return Err("a text must follow".to_owned());
    }
    Ok(rest.replace("\\n", "\n"))
}

fn parse_deltas(rest: &str) -> Result<Directive, String> {
    let (count, text) = split_first_word(rest);
    let count = parse_output_size(count)?;
    Ok(Directive::Deltas { count, text: (!text.is_empty()).then(|| text.replace("\\n", "\n")) })
}

fn parse_see(rest: &str) -> Result<Directive, String> {
    let (data, said) = split_first_word(rest);
    Ok(Directive::See { data: data.to_owned(), text: parse_text(said)? })
}

fn parse_tool(rest: &str) -> Result<Directive, String> {
    let (name, input) = split_first_word(rest);
    if name.is_empty() {
        return Err("the name of a tool must follow".to_owned());
    }
    let input = if input.is_empty() { "{}" } else { input };
    let input: Box<RawValue> =
        serde_json::from_str(input).map_err(|error| format!("the input of {name} is not JSON: {error}"))?;
    if !input.get().starts_with('{') {
        return Err(format!("the input of {name} must be a JSON object"));
    }
    Ok(Directive::Tool { name: name.to_owned(), input })
}

fn parse_error(rest: &str) -> Result<Directive, String> {
    let (status, message) = split_first_word(rest);
    let status = status
        .parse::<u16>()
        .ok()
        .and_then(|status| StatusCode::from_u16(status).ok())
        .filter(|status| status.as_u16() >= 400)
        .ok_or("a status of 400 or more must follow")?;
    let message = if message.is_empty() { "The script asked for this error." } else { message };
    Ok(Directive::Error { status, message: message.to_owned() })
}

fn require_no_argument(rest: &str, directive: Directive) -> Result<Directive, String> {
    if rest.is_empty() { Ok(directive) } else { Err("nothing may follow".to_owned()) }
}

fn parse_milliseconds(rest: &str) -> Result<Duration, String> {
    rest.parse().map(Duration::from_millis).map_err(|_| "a number of milliseconds must follow".to_owned())
}

fn parse_output_size(rest: &str) -> Result<usize, String> {
    rest.parse()
        .ok()
        .filter(|size| (1..=MAX_OUTPUT_BYTES).contains(size))
        .ok_or_else(|| format!("a number from 1 to {MAX_OUTPUT_BYTES} must follow"))
}

fn split_first_word(rest: &str) -> (&str, &str) {
    let (word, rest) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    (word, rest.trim_start())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The directives of the message after this number of results, in the form of a script.
    fn act(text: &str, results: usize) -> String {
        let act = Script::parse(text).unwrap().unwrap().message_after(results);
        let words: Vec<String> = act
            .directives
            .iter()
            .map(|directive| match directive {
                Directive::Say(text) => format!("say {text}"),
                Directive::Tool { name, .. } => format!("tool {name}"),
                Directive::Pace(pace) => format!("pace {}", pace.as_millis()),
                other => format!("{other:?}"),
            })
            .collect();
        format!("{}@{}", words.join(", "), act.delta_delay.as_millis())
    }

    #[test]
    fn a_text_without_directives_is_not_a_script() {
        for text in ["", "hi", "what a day!", "!important", "wow\n!\n! say", "see !say in the docs"] {
            assert!(Script::parse(text).unwrap().is_none(), "{text}");
        }
    }

    #[test]
    fn see_reports_whether_the_image_was_sent() {
        let act = |pictures: &[&str]| {
            let act = Script::parse("!see AAAA it is red").unwrap().unwrap().message_after(0).with_images(pictures);
            act.directives.iter().map(|directive| format!("{directive:?}")).collect::<Vec<_>>()
        };
        assert_eq!(act(&["BBBB", "AAAA"]), [r#"Say("it is red")"#]);
        assert_eq!(act(&[]), [r#"Say("There is no picture.")"#]);
        assert_eq!(act(&["BBBB"]), [r#"Say("That is not among the pictures that were sent (1).")"#]);
        for wrong in ["!see", "!see AAAA"] {
            assert_eq!(Script::parse(wrong).unwrap_err().problem, "a text must follow");
        }
    }

    #[test]
    fn prose_between_directives_is_a_comment() {
        assert_eq!(act("Please do this:\n  !say one\r\nand then\n!say two", 0), "say one, say two@0");
    }

    #[test]
    fn a_script_continues_after_the_calls_with_results() {
        let script = "!pace 5\n!say a\n!tool A {}\n!tool B {}\n!say b\n!pace 7\n!tool C\n!say c";
        assert_eq!(act(script, 0), "pace 5, say a, tool A, tool B@0");
        assert_eq!(act(script, 2), "say b, pace 7, tool C@5");
        assert_eq!(act(script, 3), "say c@7");
        assert_eq!(act(script, 9), "say c@7");
        assert_eq!(act("!tool A", 1), "@0");
    }

    #[test]
    fn errors_contain_their_line() {
        for (text, told) in [
            ("!say hi\n!sya there", "line 2: there is no directive !sya"),
            ("!say", "line 1: a text must follow"),
            ("x\n!wait soon", "line 2: a number of milliseconds must follow"),
            ("!deltas 0", "line 1: a number from 1 to"),
            ("!huge 99999999999", "line 1: a number from 1 to"),
            ("!tool", "line 1: the name of a tool must follow"),
            ("!tool Bash {", "line 1: the input of Bash is not JSON"),
            ("!tool Bash [1]", "line 1: the input of Bash must be a JSON object"),
            ("!error 200", "line 1: a status of 400 or more must follow"),
            ("!cut now", "line 1: nothing may follow"),
        ] {
            let error = Script::parse(text).unwrap_err().to_string();
            assert!(error.starts_with(told), "{text}: {error}");
        }
    }

    #[test]
    fn a_long_text_is_echoed_truncated() {
        let Directive::Say(said) = MessageScript::echo(&"ä".repeat(5000)).directives.remove(0) else { panic!() };
        assert!(said.ends_with("ä…") && said.chars().count() < 1100);
    }
}
