//! Divides the conversation into turns.

use std::collections::HashMap;
use std::ops::Range;

use uuid::Uuid;

use super::index::TranscriptIndex;
use super::record::{IndexedRecord, RecordId, RecordKind};
use super::record_chain::RecordChain;

/// One turn: a range of the conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnSpan {
    /// Its id, stable over all reads of the transcript.
    pub turn_id: Uuid,
    /// The record of the message that started it; `None` if the agent started it by itself, or if it continues after
    /// steering text, which has no record of its own.
    pub message_id: Option<Uuid>,
    /// Whether that message is a command for the agent itself.
    pub is_command: bool,
    /// Its records, as a range of [`RecordChain::positions`].
    pub range: Range<usize>,
    /// Whether the turn is finished, as far as the file shows.
    pub is_complete: bool,
    /// Whether steering text ended it; the answer continues in the next turn.
    pub continues_in_next: bool,
}

impl RecordChain {
    /// Where the turns start and end. Records before the first prompt belong to no turn.
    pub fn turn_spans(&self, index: &TranscriptIndex) -> Vec<TurnSpan> {
        let mut spans: Vec<TurnSpan> = Vec::new();
        // The position of a compaction, if no message followed it yet.
        let mut shortened = None;
        let folded: HashMap<usize, RecordId> = index.folded_messages.iter().copied().collect();
        for (at, place) in self.positions.iter().enumerate() {
            let Some(link) = index.records.get(*place) else { continue };
            if link.kind.starts_turn() {
                let from = move_compaction_to_next(&mut spans, shortened.take()).unwrap_or(at);
                if let Some(before) = spans.last_mut() {
                    before.continues_in_next =
                        matches!(link.kind, RecordKind::QueuedPrompt | RecordKind::Steer) && !before.is_complete;
                    before.is_complete = true;
                }
                let message = match link.kind {
                    RecordKind::QueuedPrompt => Some(folded.get(place).copied().unwrap_or(link.id)),
                    RecordKind::Prompt | RecordKind::Command => Some(link.id),
                    _ => None,
                };
                let message = message.map(RecordId::uuid);
                let command = link.kind == RecordKind::Command;
                let (turn, links) = (link.id.turn_id(), from..at + 1);
                spans.push(TurnSpan {
                    turn_id: turn,
                    message_id: message,
                    is_command: command,
                    range: links,
                    is_complete: false,
                    continues_in_next: false,
                });
                continue;
            }
            match link.kind {
                RecordKind::CompactBoundary => shortened = Some(at),
                RecordKind::CompactSummary | RecordKind::Hidden => {}
                _ => shortened = None,
            }
            if let Some(span) = spans.last_mut() {
                span.range.end = at + 1;
                if link.kind.is_message() {
                    span.is_complete = link.ends_turn;
                }
            }
        }
        spans
    }

    /// The positions of a turn's records in the index.
    pub(super) fn positions_of(&self, span: &TurnSpan) -> &[usize] {
        self.positions.get(span.range.clone()).unwrap_or_default()
    }

    /// How many records of activity a turn has.
    pub(super) fn count_activity(&self, index: &TranscriptIndex, span: &TurnSpan) -> usize {
        self.records_of(index, span).filter(|link| link.kind.is_activity()).count()
    }

    /// Total size of a turn's displayed records, in bytes.
    pub(super) fn size_bytes(&self, index: &TranscriptIndex, span: &TurnSpan) -> u64 {
        let visible = self.records_of(index, span).filter(|link| link.kind != RecordKind::Hidden);
        visible.map(|link| link.byte_range.end.saturating_sub(link.byte_range.start)).sum()
    }

    fn records_of<'a>(
        &'a self,
        index: &'a TranscriptIndex,
        span: &TurnSpan,
    ) -> impl Iterator<Item = &'a IndexedRecord> {
        self.positions_of(span).iter().filter_map(|place| index.records.get(*place))
    }
}

/// A compaction between two turns belongs to the second one, which may be the command that caused it.
fn move_compaction_to_next(spans: &mut [TurnSpan], boundary: Option<usize>) -> Option<usize> {
    let boundary = boundary?;
    let before = spans.last_mut()?;
    before.range.end = boundary;
    Some(boundary)
}
