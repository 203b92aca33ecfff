//! Finds the records of a transcript that are the conversation.
//!
//! Each record names its parent, and the file contains all of them: abandoned branches, sub-agents' records,
//! compacted parts. The conversation is the path from its last message to the first one, and in addition
//! * parallel calls and their results, of which only one is on the path;
//! * an answer after a failed call of the model: one build makes the failure the parent of the next prompt;
//! * records before a compaction boundary, which the model no longer receives but which are still displayed.
//!
//! A file may be inconsistent. A missing parent is replaced by the record before it in the file (one build leaves
//! such gaps); a cycle ends the path; of two records with the same id the first counts. (One build writes some of
//! them twice.)

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use super::index::TranscriptIndex;
use super::record::{IndexedRecord, RecordId, RecordKind};

/// The conversation of a transcript.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordChain {
    /// Its records in conversation order, as positions in [`TranscriptIndex::records`].
    pub positions: Vec<usize>,
    /// The records whose parent is missing, as positions in [`TranscriptIndex::records`].
    pub missing_parents: Vec<usize>,
    /// Whether the records form a cycle, so that the beginning is missing.
    pub has_cycle: bool,
    /// The records with the id of another one, as positions in [`TranscriptIndex::records`].
    pub duplicate_ids: Vec<usize>,
}

impl RecordChain {
    /// Finds the conversation.
    pub fn from_index(index: &TranscriptIndex) -> Self {
        let mut chain = Self::default();
        let links = &index.records;
        let mut places: HashMap<RecordId, usize> = HashMap::with_capacity(links.len());
        let mut copies = HashSet::new();
        for (at, link) in links.iter().enumerate() {
            match places.entry(link.id) {
                // One build writes the same records again when it compacts a conversation.
                Entry::Occupied(first) if links.get(*first.get()).is_some_and(|first| first.is_duplicate_of(link)) => {
                    copies.insert(at);
                }
                Entry::Occupied(_) => chain.duplicate_ids.push(at),
                Entry::Vacant(free) => {
                    free.insert(at);
                }
            }
        }
        let mut on_the_way = HashSet::new();
        let mut next = last_message(links, &copies);
        while let Some(at) = next {
            if !on_the_way.insert(at) {
                chain.has_cycle = true;
                break;
            }
            let Some(link) = links.get(at) else { break };
            next = link.parent.and_then(|parent| {
                places.get(&parent).copied().filter(|place| *place != at || link.id == parent).or_else(|| {
                    chain.missing_parents.push(at);
                    previous_record(links, at)
                })
            });
        }
        let beside = SideRecords::collect(links, &places, &on_the_way);
        // The file is in chronological order, and so is the conversation.
        chain.positions = (0..links.len()).filter(|at| on_the_way.contains(at) || beside.contains(*at)).collect();
        chain.order_steering_before_answers(links);
        chain
    }

    /// Moves steering text after the other calls and results of the same answer: those calls may still be running
    /// when the model receives the text, and belong to the turn before it.
    pub(super) fn order_steering_before_answers(&mut self, links: &[IndexedRecord]) {
        let link = |place: Option<&usize>| place.and_then(|place| links.get(*place));
        let mut answer = None;
        for at in 0..self.positions.len() {
            let Some(here) = link(self.positions.get(at)) else { continue };
            match here.kind {
                RecordKind::Answer => answer = here.answer_id,
                RecordKind::Steer => {
                    let after = self.positions.iter().enumerate().skip(at + 1);
                    let mut after = after.filter_map(|(at, place)| Some((at, links.get(*place)?)));
                    let next = after.find(|(_, link)| match link.kind {
                        RecordKind::Answer => link.answer_id != answer,
                        kind => kind.starts_turn(),
                    });
                    let end = next.map_or(self.positions.len(), |(at, _)| at);
                    if let Some(between) = self.positions.get_mut(at..end) {
                        between.rotate_left(1);
                    }
                }
                _ => {}
            }
        }
    }
}

/// The last message of the conversation.
fn last_message(links: &[IndexedRecord], copies: &HashSet<usize>) -> Option<usize> {
    let mut all = links.iter().enumerate();
    all.rfind(|(at, link)| link.can_end_conversation() && !copies.contains(at)).map(|(at, _)| at)
}

/// The record before this one in the file that belongs to the same agent.
pub(super) fn previous_record(links: &[IndexedRecord], at: usize) -> Option<usize> {
    links.get(..at)?.iter().rposition(|link| !link.is_sidechain)
}

/// Records of the conversation that are not on the path.
struct SideRecords(HashSet<usize>);

impl SideRecords {
    fn collect(links: &[IndexedRecord], places: &HashMap<RecordId, usize>, on_the_way: &HashSet<usize>) -> Self {
        let answers: HashSet<RecordId> = on_the_way.iter().filter_map(|at| links.get(*at)?.answer_id).collect();
        // The failures on the path, by their parent, with the last position of each.
        let mut failures: HashMap<RecordId, usize> = HashMap::new();
        for at in on_the_way {
            if let Some(IndexedRecord { kind: RecordKind::ApiError, parent: Some(parent), .. }) = links.get(*at) {
                let last = failures.entry(*parent).or_insert(*at);
                *last = (*last).max(*at);
            }
        }
        let mut beside = Self(HashSet::new());
        // The file is in chronological order, so a parent outside the path is visited before its children.
        let mut until: HashMap<usize, usize> = HashMap::new();
        for (at, link) in links.iter().enumerate() {
            if on_the_way.contains(&at) || link.is_sidechain || places.get(&link.id) != Some(&at) {
                continue;
            }
            let parent = link.parent.and_then(|parent| places.get(&parent).copied());
            let made_at_once = match link.kind {
                RecordKind::Answer => link.answer_id.is_some_and(|answer| answers.contains(&answer)),
                RecordKind::ToolResults => {
                    parent.and_then(|parent| links.get(parent)?.answer_id).is_some_and(|a| answers.contains(&a))
                }
                _ => false,
            };
            let lost = match (link.parent.and_then(|parent| failures.get(&parent)), parent.and_then(|p| until.get(&p)))
            {
                (Some(failure), _) if !matches!(link.kind, RecordKind::Prompt | RecordKind::Command) => Some(*failure),
                (_, Some(failure)) => Some(*failure),
                _ => None,
            };
            if let Some(failure) = lost.filter(|failure| at < *failure) {
                until.insert(at, failure);
                beside.0.insert(at);
            } else if made_at_once {
                beside.0.insert(at);
            }
        }
        beside
    }

    fn contains(&self, at: usize) -> bool {
        self.0.contains(&at)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::io::Cursor;

    use super::*;

    /// A transcript from lines like `name <- parent: kind [answer]`.
    pub(in super::super) fn transcript(lines: &[&str]) -> (TranscriptIndex, Vec<String>) {
        let mut text = String::new();
        let mut names = Vec::new();
        for line in lines {
            let (name, rest) = line.split_once(" <- ").unwrap();
            let (parent, rest) = rest.split_once(": ").unwrap();
            let (kind, answer) = rest.split_once(' ').unwrap_or((rest, name));
            let parent = if parent == "none" { "null".to_owned() } else { format!("{parent:?}") };
            let body = match kind {
                "prompt" => r#""type":"user","message":{"content":"hi"}"#.to_owned(),
                "result" => {
                    r#""type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t"}]}"#.to_owned()
                }
                "answer" => {
                    format!(r#""type":"assistant","message":{{"id":"{answer}","stop_reason":"end_turn","content":[]}}"#)
                }
                "side" => r#""type":"assistant","isSidechain":true,"message":{"id":"s","content":[]}"#.to_owned(),
                "steer" => {
                    let content = serde_json::json!([crate::prompt::wrap_steering_text("in blue")]);
                    format!(
                        r#""type":"attachment","attachment":{{"type":"hook_additional_context","content":{content}}}"#
                    )
                }
                "error" => r#""type":"system","subtype":"api_error""#.to_owned(),
                "boundary" => {
                    format!(r#""type":"system","subtype":"compact_boundary","logicalParentUuid":{parent}"#)
                }
                _ => format!(r#""type":"{kind}""#),
            };
            let parent = if kind == "boundary" { "null".to_owned() } else { parent };
            text.push_str(&format!("{{\"uuid\":\"{name}\",\"parentUuid\":{parent},{body}}}\n"));
            names.push(name.to_owned());
        }
        let index = TranscriptIndex::read(&mut Cursor::new(text)).unwrap();
        assert_eq!(index.damage.damaged_lines, 0);
        (index, names)
    }

    fn chain(lines: &[&str]) -> (String, RecordChain) {
        let (index, names) = transcript(lines);
        let chain = RecordChain::from_index(&index);
        (chain.positions.iter().map(|at| names[*at].as_str()).collect::<Vec<_>>().join(" "), chain)
    }

    #[test]
    fn abandoned_branch_is_excluded() {
        let (names, _) =
            chain(&["a <- none: prompt", "b <- a: answer 1", "c <- b: prompt", "d <- c: answer 2", "e <- b: prompt"]);
        assert_eq!(names, "a b e");
    }

    #[test]
    fn parallel_calls_are_included() {
        let lines = [
            "a <- none: prompt",
            "b <- a: answer 1",
            "c <- b: answer 1",
            "d <- b: result",
            "e <- c: result",
            "f <- e: answer 2",
        ];
        assert_eq!(chain(&lines).0, "a b c d e f");
        // The results are in reverse order, so the second call is not on the path.
        let lines = [
            "a <- none: prompt",
            "b <- a: answer 1",
            "c <- b: answer 1",
            "e <- c: result",
            "d <- b: result",
            "f <- d: answer 2",
        ];
        assert_eq!(chain(&lines).0, "a b c e d f");
    }

    #[test]
    fn answer_after_a_failed_call_is_included() {
        let lines = [
            "a <- none: prompt",
            "b <- a: answer 1",
            "r <- b: result",
            "c <- r: answer 2",
            "x <- a: error",
            "d <- x: prompt",
            "e <- d: answer 3",
        ];
        assert_eq!(chain(&lines).0, "a b r c x d e");
        // The later record has another parent and is on an abandoned branch.
        let lines = ["a <- none: prompt", "x <- a: error", "b <- a: answer 1", "d <- x: prompt"];
        assert_eq!(chain(&lines).0, "a x d");
    }

    #[test]
    fn records_before_compaction_are_included() {
        let lines = [
            "a <- none: prompt",
            "b <- a: answer 1",
            "c <- b: boundary",
            "d <- c: prompt",
            "e <- d: attachment",
            "f <- e: answer 2",
        ];
        assert_eq!(chain(&lines).0, "a b c d e f");
    }

    #[test]
    fn missing_parent_is_replaced_by_the_previous_record() {
        let (names, chain) = chain(&[
            "a <- none: prompt",
            "b <- a: answer 1",
            "s <- none: side",
            "c <- gone: prompt",
            "d <- c: answer 2",
        ]);
        assert_eq!((names.as_str(), chain.missing_parents.len()), ("a b c d", 1));
        // No record precedes it.
        let lone = super::tests::chain(&["c <- gone: prompt"]);
        assert_eq!((lone.0.as_str(), lone.1.missing_parents), ("c", vec![0]));
    }

    #[test]
    fn cycle_ends_the_chain() {
        let (names, chain) = chain(&["a <- c: prompt", "b <- a: answer 1", "c <- b: prompt"]);
        assert_eq!((names.as_str(), chain.has_cycle), ("a b c", true));
        let alone = super::tests::chain(&["a <- a: prompt"]);
        assert_eq!((alone.0.as_str(), alone.1.has_cycle), ("a", true));
    }

    #[test]
    fn first_of_two_records_with_one_id_counts() {
        let (names, chain) = chain(&["a <- none: prompt", "b <- a: answer 1", "b <- a: answer 23", "c <- b: prompt"]);
        assert_eq!((names.as_str(), chain.duplicate_ids), ("a b c", vec![2]));
        let copied = super::tests::chain(&["a <- none: prompt", "b <- a: answer 1", "b <- a: answer 1"]);
        assert_eq!((copied.0.as_str(), copied.1.duplicate_ids), ("a b", vec![]));
    }

    #[test]
    fn sidechain_records_are_excluded() {
        let (names, _) = chain(&["a <- none: prompt", "s <- a: side", "b <- a: answer 1", "t <- s: side"]);
        assert_eq!(names, "a b");
        assert_eq!(chain(&["s <- none: side"]).0, "");
    }

    #[test]
    fn turns_start_with_prompts() {
        let (index, _) = transcript(&[
            "z <- none: attachment",
            "a <- z: prompt",
            "b <- a: answer 1",
            "c <- b: prompt",
            "d <- c: answer 2",
            "e <- d: attachment",
        ]);
        let chain = RecordChain::from_index(&index);
        let spans: Vec<_> = chain.turn_spans(&index).into_iter().map(|span| span.range).collect();
        // The last attachment follows the last message.
        assert_eq!(spans, [1..3, 3..5]);
    }

    #[test]
    fn steering_text_follows_sibling_calls() {
        let lines = [
            "a <- none: prompt",
            "b <- a: answer 1",
            "c <- b: answer 1",
            "d <- c: result",
            "e <- d: steer",
            "f <- e: result",
            "g <- f: answer 2",
        ];
        assert_eq!(chain(&lines).0, "a b c d f e g");
    }

    proptest::proptest! {
        /// For any file the chain is finite, ordered and without duplicates.
        #[test]
        fn chain_is_finite_ordered_and_unique_for_any_file(records in proptest::collection::vec((0u8..12, 0u8..14, 0u8..7), 0..40)) {
            let lines: Vec<String> = records.iter().map(|(name, parent, kind)| {
                let kind = ["prompt", "answer 1", "answer 2", "result", "error", "boundary", "steer"][usize::from(*kind)];
                let parent = if *parent == 13 { "none".to_owned() } else { format!("n{parent}") };
                format!("n{name} <- {parent}: {kind}")
            }).collect();
            let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
            let (index, _) = transcript(&lines);
            let chain = RecordChain::from_index(&index);
            let steered = index.records.iter().any(|link| link.kind == RecordKind::Steer);
            proptest::prop_assert!(steered || chain.positions.is_sorted());
            let unique: HashSet<_> = chain.positions.iter().collect();
            proptest::prop_assert_eq!(unique.len(), chain.positions.len());
            let is_copy = |at: usize, link: &IndexedRecord| {
                index.records[..at].iter().find(|first| first.id == link.id).is_some_and(|first| first.is_duplicate_of(link))
            };
            let mut all = index.records.iter().enumerate();
            let last = all.rfind(|(at, link)| link.can_end_conversation() && !is_copy(*at, link));
            proptest::prop_assert!(last.is_none_or(|(at, _)| chain.positions.contains(&at)));
            let spans = chain.turn_spans(&index);
            proptest::prop_assert!(spans.windows(2).all(|pair| pair[0].range.end <= pair[1].range.start));
        }
    }
}
