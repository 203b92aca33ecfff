//! Finds turns on abandoned branches.
//!
//! An agent appends each record to the last one that it remembers. When a person goes back, or when two agents with
//! separate memories write into one file, records continue from an earlier turn, and the other branch is no longer
//! part of the conversation. Turns on such a branch start with a prompt; other records outside the conversation are
//! ignored.

use std::collections::{HashMap, HashSet};

use super::index::TranscriptIndex;
use super::record::{RecordId, RecordKind};
use super::record_chain::{RecordChain, previous_record};
use super::turn_spans::TurnSpan;

/// A turn on an abandoned branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AbandonedSpan {
    /// Its records.
    pub(super) chain: RecordChain,
    /// Its span within them.
    pub(super) span: TurnSpan,
    /// Number of turns of the conversation that start before it in the file.
    pub(super) turns_before: usize,
}

/// An abandoned turn while its records are collected.
struct AbandonedTurnBuilder {
    positions: Vec<usize>,
    /// Whether a turn that was started by steering text continues it; `None` if no turn follows from it.
    continued_by_steering: Option<bool>,
}

/// Finds the turns outside the conversation, in the order of the file.
pub(super) fn find_abandoned_turns(
    index: &TranscriptIndex,
    chain: &RecordChain,
    spans: &[TurnSpan],
) -> Vec<AbandonedSpan> {
    let links = &index.records;
    let on_chain: HashSet<usize> = chain.positions.iter().copied().collect();
    let mut outside = links.iter().enumerate().filter(|(at, link)| !link.is_sidechain && !on_chain.contains(at));
    // Most files have none.
    if !outside.clone().any(|(_, link)| can_start_branch(link.kind)) {
        return Vec::new();
    }
    let mut places: HashMap<RecordId, usize> = HashMap::with_capacity(links.len());
    for (at, link) in links.iter().enumerate() {
        places.entry(link.id).or_insert(at);
    }
    let mut turn_of_record: HashMap<usize, usize> = HashMap::new();
    let mut turns: Vec<AbandonedTurnBuilder> = Vec::new();
    for (at, link) in outside.by_ref().filter(|(at, link)| places.get(&link.id) == Some(at)) {
        let parent = link.parent.and_then(|parent| places.get(&parent).copied().or_else(|| previous_record(links, at)));
        let before = parent.and_then(|parent| turn_of_record.get(&parent).copied());
        let starts_turn = if before.is_some() { link.kind.starts_turn() } else { can_start_branch(link.kind) };
        let before_turn = before.and_then(|before| turns.get_mut(before));
        if starts_turn {
            if let Some(before) = before_turn {
                before.continued_by_steering = Some(matches!(link.kind, RecordKind::QueuedPrompt | RecordKind::Steer));
            }
            turn_of_record.insert(at, turns.len());
            turns.push(AbandonedTurnBuilder { positions: vec![at], continued_by_steering: None });
        } else if let (Some(turn), Some(before)) = (before_turn, before) {
            turn.positions.push(at);
            turn_of_record.insert(at, before);
        }
    }
    let starts: Vec<_> = spans.iter().filter_map(|span| chain.positions.get(span.range.start)).collect();
    turns.into_iter().filter_map(|turn| turn.build(index, &starts)).collect()
}

/// Whether a record can start an abandoned turn directly on the conversation. Other messages belong to an existing
/// turn.
fn can_start_branch(kind: RecordKind) -> bool {
    matches!(kind, RecordKind::Prompt | RecordKind::Command)
}

impl AbandonedTurnBuilder {
    /// The turn; `starts` are the first records of the conversation's turns.
    fn build(self, index: &TranscriptIndex, starts: &[&usize]) -> Option<AbandonedSpan> {
        let first = *self.positions.first()?;
        let turns_before = starts.iter().filter(|start| ***start < first).count();
        let mut chain = RecordChain { positions: self.positions, ..RecordChain::default() };
        chain.order_steering_before_answers(&index.records);
        let mut span = chain.turn_spans(index).into_iter().next()?;
        if let Some(goes_on) = self.continued_by_steering {
            (span.continues_in_next, span.is_complete) = (goes_on && !span.is_complete, true);
        }
        Some(AbandonedSpan { chain, span, turns_before })
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    /// The abandoned turns of a transcript with lines like `name <- parent: kind`: records and position of each.
    fn found(lines: &[&str]) -> Vec<String> {
        let mut text = String::new();
        let mut names = Vec::new();
        for line in lines {
            let (name, rest) = line.split_once(" <- ").unwrap();
            let (parent, kind) = rest.split_once(": ").unwrap();
            let parent = if parent == "none" { "null".to_owned() } else { format!("{parent:?}") };
            let body = match kind {
                "prompt" => r#""type":"user","message":{"content":"hi"}"#.to_owned(),
                "answer" => {
                    format!(r#""type":"assistant","message":{{"id":"m-{name}","stop_reason":"end_turn","content":[]}}"#)
                }
                "side" => r#""type":"user","isSidechain":true,"message":{"content":"hi"}"#.to_owned(),
                _ => format!(r#""type":"{kind}""#),
            };
            text.push_str(&format!("{{\"uuid\":\"{name}\",\"parentUuid\":{parent},{body}}}\n"));
            names.push(name.to_owned());
        }
        let index = TranscriptIndex::read(&mut Cursor::new(text)).unwrap();
        assert_eq!(index.damage.damaged_lines, 0);
        let chain = RecordChain::from_index(&index);
        let spans = chain.turn_spans(&index);
        let say = |abandoned: &AbandonedSpan| {
            let links = abandoned.chain.positions.iter().map(|at| names[*at].as_str()).collect::<Vec<_>>().join(" ");
            format!("{links} at {}{}", abandoned.turns_before, if abandoned.span.is_complete { "" } else { ", open" })
        };
        find_abandoned_turns(&index, &chain, &spans).iter().map(say).collect()
    }

    #[test]
    fn conversation_without_branches_has_no_abandoned_turns() {
        let lines = ["a <- none: prompt", "b <- a: answer", "h <- b: attachment", "c <- b: prompt", "s <- a: side"];
        assert_eq!(found(&lines), [""; 0]);
    }

    #[test]
    fn concurrent_branches_abandon_the_one_that_ended_first() {
        let lines = [
            "a <- none: prompt",
            "b <- a: answer",
            "y <- b: prompt",
            "h <- b: attachment",
            "z <- h: prompt",
            "za <- z: answer",
            "z2 <- za: prompt",
            "ya <- y: answer",
        ];
        assert_eq!(found(&lines), ["z za at 2", "z2 at 2, open"]);
        // The other branch gets the last message, so the first one is abandoned.
        assert_eq!(found(&[&lines[..], &["z3 <- z2: answer"]].concat()), ["y ya at 1"]);
    }

    #[test]
    fn branch_inside_a_turn_follows_that_turn() {
        let lines = [
            "a <- none: prompt",
            "b <- a: answer",
            "y <- b: prompt",
            "y1 <- y: answer",
            "z <- y1: prompt",
            "h <- y1: attachment",
            "y2 <- h: answer",
        ];
        assert_eq!(found(&lines), ["z at 2, open"]);
    }

    #[test]
    fn branch_without_a_prompt_is_not_a_turn() {
        let lines = ["a <- none: prompt", "x <- a: answer", "b <- a: answer", "c <- b: prompt", "d <- c: answer"];
        assert_eq!(found(&lines), [""; 0]);
    }
}
