//! Steering messages: held, injected, in flight or undelivered.
//!
//! A working agent accepts a message only in the answer to a hook: after one of its own tool calls, or with the
//! denial of one. (Text that is given before a call is forgotten when the call is interrupted.) A sub-agent's call
//! does not count, because the sub-agent's model would receive the text. Injected, undelivered and cancelled are
//! decided under one lock, the one under which turns end.
//!
//! A steer with attachments does not fit into a hook answer: it is written as a message directly before that answer,
//! and the agent folds it in when the call is over. Until there is evidence that the model has it (newer builds
//! report it; with older ones the next answer shows it), a cancel withdraws it first, because an interrupted agent
//! starts a turn about the messages in its queue.

use hostler_attachments::AttachmentBlock;
use hostler_driver::{DriverEvent, SteeringMessage, SteeringMessageId};
use uuid::Uuid;

use crate::wire::CommandLifecycle;

/// How many late steers may wait for their receipt.
const MAX_LATE_RECEIPTS: usize = 256;

/// The steers of one connection.
///
/// Plain text is injected in the answer to a hook. A steer with attachments is written as a message before that
/// answer. From then on it is *in flight*, until the model is known to have it or it is cancelled.
#[derive(Debug, Default)]
pub(super) struct SteeringQueue {
    queued: Option<SteeringMessage>,
    in_flight: Option<InFlightMessage>,
    /// Steers that arrived when no turn could receive them.
    late: Vec<SteeringMessageId>,
}

#[derive(Debug)]
struct InFlightMessage {
    steer: SteeringMessageId,
    message: Uuid,
    /// Whether the agent reports what happens to the message. Newer builds do.
    has_lifecycle: bool,
}

impl SteeringQueue {
    pub(super) fn queue(&mut self, steer: SteeringMessage, busy: bool) {
        if busy {
            self.queued = Some(steer);
        } else {
            self.late.push(steer.id);
            // Under a flood of late steers only the latest ones get a receipt.
            let surplus = self.late.len().saturating_sub(MAX_LATE_RECEIPTS);
            self.late.drain(..surplus);
        }
    }

    pub(super) fn cancel(&mut self, id: &SteeringMessageId) -> bool {
        self.queued.take_if(|held| held.id == *id).is_some()
    }

    /// The steer that could be injected now. At most one message is in flight.
    pub(super) fn next(&self) -> Option<&SteeringMessage> {
        self.queued.as_ref().filter(|held| can_be_injected(held) && (!has_blocks(held) || self.in_flight.is_none()))
    }

    /// Releases a steer for injection, if it is still held. From here on it is neither held nor undelivered.
    pub(super) fn inject(&mut self, id: &SteeringMessageId) -> bool {
        self.next().is_some_and(|next| next.id == *id) && self.cancel(id)
    }

    /// The same for a steer that is sent as a message and is then in flight.
    pub(super) fn send_as_message(&mut self, id: &SteeringMessageId, message: Uuid) -> bool {
        let taken = self.inject(id);
        if taken {
            self.in_flight = Some(InFlightMessage { steer: id.clone(), message, has_lifecycle: false });
        }
        taken
    }

    /// The message in flight.
    pub(super) fn message_in_flight(&self) -> Option<Uuid> {
        self.in_flight.as_ref().map(|written| written.message)
    }

    /// The model answers. With older builds this is the only evidence: the answer covers everything written before
    /// it.
    pub(super) fn on_answer(&mut self) -> Option<DriverEvent> {
        if self.in_flight.as_ref().is_some_and(|written| written.has_lifecycle) { None } else { self.mark_delivered() }
    }

    /// Newer builds report what happens to a message.
    pub(super) fn on_lifecycle(&mut self, news: &CommandLifecycle<'_>) -> Option<DriverEvent> {
        let written = self.in_flight.as_mut()?;
        if Uuid::parse_str(&news.command_uuid) != Ok(written.message) {
            return None;
        }
        written.has_lifecycle = true;
        if news.state.0 == "started" { self.mark_delivered() } else { None }
    }

    fn mark_delivered(&mut self) -> Option<DriverEvent> {
        self.in_flight.take().map(|written| DriverEvent::SteerInjected(written.steer))
    }

    /// The agent's result for a cancelled message.
    pub(super) fn on_message_cancelled(&mut self, message: Uuid, is_back: bool) -> Option<DriverEvent> {
        let written = self.in_flight.take_if(|written| written.message == message)?;
        Some(match is_back {
            true => DriverEvent::SteerUndelivered(written.steer),
            false => DriverEvent::SteerInjected(written.steer),
        })
    }

    /// The turn is over. A held steer is undelivered. A message that is still in flight was folded in and its answer
    /// failed, or the agent starts a turn about it; the model has it either way.
    pub(super) fn on_turn_end(&mut self) -> Vec<DriverEvent> {
        self.mark_delivered().into_iter().chain(self.abandon_all()).collect()
    }

    /// Reports all steers as undelivered.
    pub(super) fn abandon_all(&mut self) -> Vec<DriverEvent> {
        let written = self.in_flight.take().map(|written| written.steer);
        let held = self.queued.take().map(|steer| steer.id);
        self.late.drain(..).chain(written).chain(held).map(DriverEvent::SteerUndelivered).collect()
    }

    /// Reports late steers as undelivered.
    pub(super) fn take_late(&mut self) -> Vec<DriverEvent> {
        self.late.drain(..).map(DriverEvent::SteerUndelivered).collect()
    }
}

fn has_blocks(steer: &SteeringMessage) -> bool {
    !steer.prompt.blocks().is_empty()
}

/// A message that is folded in retains its text and images; both builds silently drop documents. Text files can be sent
/// as text, PDF documents cannot.
fn can_be_injected(steer: &SteeringMessage) -> bool {
    steer.is_within_size_limit()
        && !steer.prompt.blocks().iter().any(|block| matches!(block, AttachmentBlock::Pdf { .. }))
}
