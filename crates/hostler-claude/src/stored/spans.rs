//! The conversation, cut into turns.

use std::collections::HashMap;
use std::ops::Range;

use uuid::Uuid;

use super::chain::Chain;
use super::index::Index;
use super::link::{Kind, Link, RecordId};

/// One turn: a stretch of the conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// Its id, the same whenever the transcript is read.
    pub turn: Uuid,
    /// The message that began it, by its record; `None` if the agent began it by itself, or if it goes on behind words into the
    /// turn before, which have no record of their own.
    pub message: Option<Uuid>,
    /// Whether that is a command for the agent itself.
    pub command: bool,
    /// Its records, as positions in [`Chain::links`].
    pub links: Range<usize>,
    /// Whether nothing more will be said in it, as far as the file shows.
    pub over: bool,
    /// Whether somebody's words in the middle of it ended it; the answer goes on in the next one.
    pub goes_on: bool,
}

impl Chain {
    /// Where the turns begin and end. What stands before the first prompt belongs to no turn.
    pub fn spans(&self, index: &Index) -> Vec<Span> {
        let mut spans: Vec<Span> = Vec::new();
        // Where the conversation was shortened, if nothing was said since.
        let mut shortened = None;
        let folded: HashMap<usize, RecordId> = index.folded.iter().copied().collect();
        for (at, place) in self.links.iter().enumerate() {
            let Some(link) = index.links.get(*place) else { continue };
            if link.kind.begins_a_turn() {
                let from = shortened_before(&mut spans, shortened.take()).unwrap_or(at);
                if let Some(before) = spans.last_mut() {
                    before.goes_on = matches!(link.kind, Kind::Folded | Kind::Steer) && !before.over;
                    before.over = true;
                }
                let message = match link.kind {
                    Kind::Folded => Some(folded.get(place).copied().unwrap_or(link.id)),
                    Kind::Prompt | Kind::Command => Some(link.id),
                    _ => None,
                };
                let message = message.map(RecordId::uuid);
                let command = link.kind == Kind::Command;
                let (turn, links) = (link.id.turn(), from..at + 1);
                spans.push(Span { turn, message, command, links, over: false, goes_on: false });
                continue;
            }
            match link.kind {
                Kind::Boundary => shortened = Some(at),
                Kind::Summary | Kind::Hidden => {}
                _ => shortened = None,
            }
            if let Some(span) = spans.last_mut() {
                span.links.end = at + 1;
                if link.kind.is_message() {
                    span.over = link.over;
                }
            }
        }
        spans
    }

    /// The places of a turn's records in the index.
    pub(super) fn places(&self, span: &Span) -> &[usize] {
        self.links.get(span.links.clone()).unwrap_or_default()
    }

    /// How many records there are of what was said and done in a turn.
    pub(super) fn done(&self, index: &Index, span: &Span) -> usize {
        self.records(index, span).filter(|link| link.kind.is_done()).count()
    }

    /// How many bytes the records of a turn are that are told.
    pub(super) fn bytes(&self, index: &Index, span: &Span) -> u64 {
        let told = self.records(index, span).filter(|link| link.kind != Kind::Hidden);
        told.map(|link| link.place.end.saturating_sub(link.place.start)).sum()
    }

    fn records<'a>(&'a self, index: &'a Index, span: &Span) -> impl Iterator<Item = &'a Link> {
        self.places(span).iter().filter_map(|place| index.links.get(*place))
    }
}

/// A conversation that is shortened between two turns is shortened for the second one, which may be the order to do it.
fn shortened_before(spans: &mut [Span], boundary: Option<usize>) -> Option<usize> {
    let boundary = boundary?;
    let before = spans.last_mut()?;
    before.links.end = boundary;
    Some(boundary)
}
