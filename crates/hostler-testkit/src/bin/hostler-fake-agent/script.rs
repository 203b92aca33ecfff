//! What a prompt makes the agent do.

use std::path::PathBuf;

/// One word of a prompt. `fork` and `stubborn` are followed by further words; the others end the turn.
#[derive(Debug, PartialEq)]
pub(crate) enum Step {
    /// `fork`: leave a child behind that called setsid, like the real agent's shell does.
    Fork,
    /// `stubborn`: from now on ignore SIGTERM and interrupts.
    Stubborn,
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
    /// `tool`: call a tool; the hook and then the permission request decide.
    Tool,
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
    /// `stderr TEXT`: write to stderr and exit.
    Stderr(String),
    /// Anything else is echoed.
    Echo(String),
}

/// The steps of a prompt.
pub(crate) fn steps(prompt: &str) -> Vec<Step> {
    let (word, rest) = prompt.split_once(' ').unwrap_or((prompt, ""));
    let number = || rest.split(' ').next().and_then(|number| number.parse::<u64>().ok());
    let prefix = |step: Step| {
        let mut all = vec![step];
        all.extend(steps(rest));
        all
    };
    vec![match word {
        "fork" => return prefix(Step::Fork),
        "stubborn" => return prefix(Step::Stubborn),
        "garbage" => Step::Garbage,
        "die" => Step::Die(number().and_then(|code| code.try_into().ok()).unwrap_or(1)),
        "hang" => Step::Hang,
        "wait" => Step::Wait(PathBuf::from(rest)),
        "slow" => Step::Slow,
        "deltas" => Step::Deltas(number().unwrap_or(1)),
        "cut" => Step::Cut,
        "tool" => Step::Tool,
        "ask" => Step::Ask,
        "error" => Step::Error(number().and_then(|status| status.try_into().ok()).unwrap_or(500)),
        "retry" => Step::Retry(number().and_then(|status| status.try_into().ok()).unwrap_or(529)),
        "nothing" => Step::Nothing,
        "twice" => Step::Twice,
        "stderr" => Step::Stderr(rest.to_owned()),
        _ => Step::Echo(prompt.to_owned()),
    }]
}
