//! The conversation, cut into turns.

use std::ops::Range;

use uuid::Uuid;

use super::chain::Chain;
use super::index::Index;
use super::link::Kind;

/// One turn: a stretch of the conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// Its id, the same whenever the transcript is read.
    pub turn: Uuid,
    /// The message that began it, by its record; `None` if the agent began it by itself.
    pub message: Option<Uuid>,
    /// Its records, as positions in [`Chain::links`].
    pub links: Range<usize>,
}

impl Chain {
    /// Where the turns begin and end. What stands before the first prompt belongs to no turn.
    pub fn spans(&self, index: &Index) -> Vec<Span> {
        let mut spans: Vec<Span> = Vec::new();
        // Where the conversation was shortened, if nothing was said since.
        let mut shortened = None;
        for (at, link) in self.links.iter().enumerate() {
            let Some(link) = index.links.get(*link) else { continue };
            if link.kind.begins_a_turn() {
                let from = shortened_before(&mut spans, shortened.take()).unwrap_or(at);
                let message = (link.kind == Kind::Prompt).then(|| link.id.uuid());
                spans.push(Span { turn: link.id.turn(), message, links: from..at + 1 });
                continue;
            }
            match link.kind {
                Kind::Boundary => shortened = Some(at),
                Kind::Summary | Kind::Hidden => {}
                _ => shortened = None,
            }
            if let Some(span) = spans.last_mut() {
                span.links.end = at + 1;
            }
        }
        spans
    }
}

/// A conversation that is shortened between two turns is shortened for the second one, which may be the order to do it.
fn shortened_before(spans: &mut [Span], boundary: Option<usize>) -> Option<usize> {
    let boundary = boundary?;
    let before = spans.last_mut()?;
    before.links.end = boundary;
    Some(boundary)
}
