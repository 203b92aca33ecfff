//! Finds turns on abandoned branches.
//!
//! An agent appends each record to the last one that it remembers. When a person goes back, or when two agents with
//! separate memories write into one file, records continue from an earlier turn, and the other branch is no longer
//! part of the conversation. Turns on such a branch start with a prompt; other records outside the conversation are
//! ignored.

use std::collections::{HashMap, HashSet};

use super::index::TranscriptIndex;
use super::record::{IndexedRecord, RecordId, RecordKind};
use super::record_chain::{RecordChain, previous_record};

/// The records of turns outside the conversation, in the order of the file.
pub(super) fn find_abandoned_records(index: &TranscriptIndex, chain: &RecordChain) -> RecordChain {
    let links = &index.records;
    let on_chain: HashSet<usize> = chain.positions.iter().copied().collect();
    let is_outside = |(at, link): &(usize, &IndexedRecord)| !link.is_sidechain && !on_chain.contains(at);
    // Other messages directly on the conversation belong to one of its turns.
    let starts_branch = |link: &IndexedRecord| matches!(link.kind, RecordKind::Prompt | RecordKind::Command);
    let mut abandoned = RecordChain::default();
    // Most files have none.
    if !links.iter().enumerate().filter(is_outside).any(|(_, link)| starts_branch(link)) {
        return abandoned;
    }
    let mut places: HashMap<RecordId, usize> = HashMap::with_capacity(links.len());
    for (at, link) in links.iter().enumerate() {
        places.entry(link.id).or_insert(at);
    }
    let mut found = HashSet::new();
    let outside = links.iter().enumerate().filter(is_outside);
    for (at, link) in outside.filter(|(at, link)| places.get(&link.id) == Some(at)) {
        let parent = link.parent.and_then(|parent| places.get(&parent).copied().or_else(|| previous_record(links, at)));
        if starts_branch(link) || parent.is_some_and(|parent| found.contains(&parent)) {
            found.insert(at);
            abandoned.positions.push(at);
        }
    }
    abandoned.order_steering_before_answers(links);
    abandoned
}

#[cfg(test)]
mod tests {
    use super::super::TurnSpan;
    use super::super::record_chain::tests::transcript;
    use super::*;

    /// The abandoned turns of a transcript: the records of each.
    fn found(lines: &[&str]) -> Vec<String> {
        let (index, names) = transcript(lines);
        let chain = RecordChain::from_index(&index);
        let abandoned = find_abandoned_records(&index, &chain);
        let say = |span: &TurnSpan| {
            let links = abandoned.positions_of(span).iter().map(|at| names[*at].as_str()).collect::<Vec<_>>().join(" ");
            format!("{links}{}", if span.is_complete { "" } else { ", open" })
        };
        abandoned.turn_spans(&index).iter().map(say).collect()
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
        assert_eq!(found(&lines), ["z za", "z2, open"]);
        // The other branch gets the last message, so the first one is abandoned.
        assert_eq!(found(&[&lines[..], &["z3 <- z2: answer"]].concat()), ["y ya"]);
    }

    #[test]
    fn branch_inside_a_turn_is_abandoned() {
        let lines = [
            "a <- none: prompt",
            "b <- a: answer",
            "y <- b: prompt",
            "y1 <- y: answer",
            "z <- y1: prompt",
            "h <- y1: attachment",
            "y2 <- h: answer",
        ];
        assert_eq!(found(&lines), ["z, open"]);
    }

    #[test]
    fn branch_without_a_prompt_is_not_a_turn() {
        let lines = ["a <- none: prompt", "x <- a: answer", "b <- a: answer", "c <- b: prompt", "d <- c: answer"];
        assert_eq!(found(&lines), [""; 0]);
    }
}
