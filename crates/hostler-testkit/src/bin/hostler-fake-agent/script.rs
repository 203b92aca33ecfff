//! Parses a prompt into the steps of the fake agent.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

/// Word of a prompt. `fork`, `stubborn`, `pause` and `hold` are followed by further words; the others end the turn.
#[derive(Debug, PartialEq)]
pub(crate) enum ScriptStep {
    /// `fork`: start a child that calls setsid and outlives the agent, like the real agent's shell.
    Fork,
    /// `stubborn`: from now on ignore SIGTERM, interrupts and the end of the input.
    Stubborn,
    /// `pause MS`: from now on wait before every delta.
    Pause(Duration),
    /// `hold FILE`: continue when the file exists.
    Hold(PathBuf),
    /// `garbage`: malformed lines, a huge line and unknown types between the words of the response.
    Garbage,
    /// `die [CODE]`: exit in the middle of the response.
    Die(u8),
    /// `hang`: print one word and wait for an interrupt.
    Hang,
    /// `wait FILE`: print one word, and the rest when the file exists.
    Wait(PathBuf),
    /// `slow`: print a word every few milliseconds until interrupted.
    Slow,
    /// `deltas N`: a response of N deltas.
    Deltas(u64),
    /// `cut`: the stream is cut and starts again.
    Cut,
    /// `tool`: call a tool; the hook and then the permission request decide. The response repeats the context that
    /// the hook answers gave to the model.
    Tool,
    /// `tools N`: the same, N times.
    Tools(u64),
    /// `call NAME INPUT`: the same with another tool; the result is the input as the host changed it.
    Call(String, Value),
    /// `subtool`: the same, by a sub-agent.
    SubTool,
    /// `background MS`: start background work. When it ends, start a turn about it.
    Background(Duration),
    /// `compact`: compact the conversation.
    Compact,
    /// `ask`: send the host an unknown request, and repeat its answer.
    Ask,
    /// `error STATUS`: the API fails.
    Error(u16),
    /// `retry STATUS`: the API fails once.
    Retry(u16),
    /// `nothing`: succeed without output.
    Nothing,
    /// `twice`: when the turn is over, start another one without a prompt.
    Twice,
    /// `vanish`: exit without output.
    Vanish,
    /// `stderr TEXT`: write to stderr and exit.
    Stderr(String),
    /// Anything else is echoed.
    Echo(String),
}

fn number_in(words: &str) -> Option<u64> {
    words.split(' ').next()?.parse().ok()
}

/// Parses the steps of a prompt.
pub(crate) fn parse_steps(prompt: &str) -> Vec<ScriptStep> {
    let (word, rest) = prompt.split_once(' ').unwrap_or((prompt, ""));
    let milliseconds = || Duration::from_millis(number_in(rest).unwrap_or(0));
    let number = || number_in(rest);
    let argument = |step: ScriptStep| {
        let mut all = vec![step];
        all.extend(parse_steps(rest.split_once(' ').map_or("", |(_, more)| more)));
        all
    };
    let prefix = |step: ScriptStep| {
        let mut all = vec![step];
        all.extend(parse_steps(rest));
        all
    };
    vec![match word {
        "fork" => return prefix(ScriptStep::Fork),
        "stubborn" => return prefix(ScriptStep::Stubborn),
        "pause" => return argument(ScriptStep::Pause(milliseconds())),
        "hold" => return argument(ScriptStep::Hold(PathBuf::from(rest.split(' ').next().unwrap_or_default()))),
        "garbage" => ScriptStep::Garbage,
        "die" => ScriptStep::Die(number().and_then(|code| code.try_into().ok()).unwrap_or(1)),
        "hang" => ScriptStep::Hang,
        "wait" => ScriptStep::Wait(PathBuf::from(rest)),
        "slow" => ScriptStep::Slow,
        "deltas" => ScriptStep::Deltas(number().unwrap_or(1)),
        "cut" => ScriptStep::Cut,
        "tool" => ScriptStep::Tool,
        "tools" => ScriptStep::Tools(number().unwrap_or(1)),
        "call" => {
            let (name, input) = rest.split_once(' ').unwrap_or((rest, "{}"));
            ScriptStep::Call(name.to_owned(), serde_json::from_str(input).unwrap_or_else(|_| json!({})))
        }
        "subtool" => ScriptStep::SubTool,
        "background" => ScriptStep::Background(milliseconds()),
        "compact" => ScriptStep::Compact,
        "vanish" => ScriptStep::Vanish,
        "ask" => ScriptStep::Ask,
        "error" => ScriptStep::Error(number().and_then(|status| status.try_into().ok()).unwrap_or(500)),
        "retry" => ScriptStep::Retry(number().and_then(|status| status.try_into().ok()).unwrap_or(529)),
        "nothing" => ScriptStep::Nothing,
        "twice" => ScriptStep::Twice,
        "stderr" => ScriptStep::Stderr(rest.to_owned()),
        _ => ScriptStep::Echo(prompt.to_owned()),
    }]
}
