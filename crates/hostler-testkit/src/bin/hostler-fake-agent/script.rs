//! What a prompt makes the agent do.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

/// One word of a prompt. `fork`, `stubborn`, `pause` and `hold` are followed by further words; the others end the turn.
#[derive(Debug, PartialEq)]
pub(crate) enum ScriptStep {
    /// `fork`: leave a child behind that called setsid, like the real agent's shell does.
    Fork,
    /// `stubborn`: from now on ignore SIGTERM, interrupts and the end of the input.
    Stubborn,
    /// `pause MS`: from now on wait before every piece of an answer.
    Pause(Duration),
    /// `hold FILE`: go on when the file exists.
    Hold(PathBuf),
    /// `garbage`: malformed lines, a huge line and unknown types between the words of the answer.
    Garbage,
    /// `die [CODE]`: exit in the middle of the answer.
    Die(u8),
    /// `hang`: say one word and wait for an interrupt.
    Hang,
    /// `wait FILE`: say one word, and the rest when the file exists.
    Wait(PathBuf),
    /// `slow`: say a word every few milliseconds until interrupted.
    Slow,
    /// `deltas N`: an answer of N pieces.
    Deltas(u64),
    /// `cut`: the stream is cut and starts again.
    Cut,
    /// `tool`: call a tool; the hook and then the permission request decide. What the hooks' answers told the model is
    /// repeated.
    Tool,
    /// `tools N`: the same, N times.
    Tools(u64),
    /// `call NAME INPUT`: the same with another tool; what the host made of the input is the result.
    Call(String, Value),
    /// `subtool`: the same, by a sub-agent.
    SubTool,
    /// `background MS`: start something in the background. When it is over, begin a turn about it.
    Background(Duration),
    /// `compact`: shorten the conversation.
    Compact,
    /// `ask`: ask the host something that it cannot know, and repeat its answer.
    Ask,
    /// `error STATUS`: the API fails.
    Error(u16),
    /// `retry STATUS`: the API fails once.
    Retry(u16),
    /// `nothing`: succeed without a word.
    Nothing,
    /// `twice`: when the turn is over, begin another one unasked.
    Twice,
    /// `vanish`: exit without a word.
    Vanish,
    /// `stderr TEXT`: write to stderr and exit.
    Stderr(String),
    /// Anything else is echoed.
    Echo(String),
}

fn number_in(words: &str) -> Option<u64> {
    words.split(' ').next()?.parse().ok()
}

/// The steps of a prompt.
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
