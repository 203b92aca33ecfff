use hostler_attachments::AttachmentBlock;
use hostler_driver::{DriverEvent, SteeringMessage, SteeringMessageId};
use uuid::Uuid;

use crate::wire::CommandLifecycle;

/// How many receipts for late words may wait to be told.
const MAX_LATE_RECEIPTS: usize = 256;

/// What a person says that waits for a way into the running turn.
///
/// Words alone are told in the answer to a hook. What has attachments is written as a message of its own before that
/// answer: the agent folds it in when the call is over. From then on it is *on its way*, until something shows that the
/// model has it, or that it was taken back.
#[derive(Debug, Default)]
pub(super) struct SteeringQueue {
    queued: Option<SteeringMessage>,
    in_flight: Option<InFlightMessage>,
    /// Words that came when there was no turn that they could go into.
    late: Vec<SteeringMessageId>,
}

#[derive(Debug)]
struct InFlightMessage {
    steer: SteeringMessageId,
    message: Uuid,
    /// Whether the agent tells of it. Newer builds do.
    has_lifecycle: bool,
}

impl SteeringQueue {
    pub(super) fn queue(&mut self, steer: SteeringMessage, busy: bool) {
        if busy {
            self.queued = Some(steer);
        } else {
            self.late.push(steer.id);
            // Whoever floods us with words that nobody can take is told of the latest ones.
            let surplus = self.late.len().saturating_sub(MAX_LATE_RECEIPTS);
            self.late.drain(..surplus);
        }
    }

    pub(super) fn cancel(&mut self, id: &SteeringMessageId) -> bool {
        self.queued.take_if(|held| held.id == *id).is_some()
    }

    /// What could be told now. One message at a time is on its way.
    pub(super) fn next(&self) -> Option<&SteeringMessage> {
        self.queued.as_ref().filter(|held| can_be_injected(held) && (!has_blocks(held) || self.in_flight.is_none()))
    }

    /// The words, for the model, if they are still held. From here on they are neither held nor given up.
    pub(super) fn inject(&mut self, id: &SteeringMessageId) -> bool {
        self.next().is_some_and(|next| next.id == *id) && self.cancel(id)
    }

    /// The same for a message, which has a way to go.
    pub(super) fn send_as_message(&mut self, id: &SteeringMessageId, message: Uuid) -> bool {
        let taken = self.inject(id);
        if taken {
            self.in_flight = Some(InFlightMessage { steer: id.clone(), message, has_lifecycle: false });
        }
        taken
    }

    /// The message that is on its way.
    pub(super) fn message_in_flight(&self) -> Option<Uuid> {
        self.in_flight.as_ref().map(|written| written.message)
    }

    /// The model answers. Older builds do not say more than that: it answers to what was written before.
    pub(super) fn on_answer(&mut self) -> Option<DriverEvent> {
        if self.in_flight.as_ref().is_some_and(|written| written.has_lifecycle) { None } else { self.mark_delivered() }
    }

    /// Newer builds say what becomes of a message.
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

    /// We wanted a message back, and this is what the agent says.
    pub(super) fn on_message_cancelled(&mut self, message: Uuid, is_back: bool) -> Option<DriverEvent> {
        let written = self.in_flight.take_if(|written| written.message == message)?;
        Some(match is_back {
            true => DriverEvent::SteerUndelivered(written.steer),
            false => DriverEvent::SteerInjected(written.steer),
        })
    }

    /// The turn is over. What is held will not be told. What is still on its way was folded in, and the answer to it
    /// failed; or the agent begins a turn about it. Either way it has it.
    pub(super) fn on_turn_end(&mut self) -> Vec<DriverEvent> {
        self.mark_delivered().into_iter().chain(self.abandon_all()).collect()
    }

    /// Nothing will be told any more.
    pub(super) fn abandon_all(&mut self) -> Vec<DriverEvent> {
        let written = self.in_flight.take().map(|written| written.steer);
        let held = self.queued.take().map(|steer| steer.id);
        self.late.drain(..).chain(written).chain(held).map(DriverEvent::SteerUndelivered).collect()
    }

    /// What came too late.
    pub(super) fn take_late(&mut self) -> Vec<DriverEvent> {
        self.late.drain(..).map(DriverEvent::SteerUndelivered).collect()
    }
}

fn has_blocks(steer: &SteeringMessage) -> bool {
    !steer.prompt.blocks().is_empty()
}

/// A message that is folded in keeps its words and its pictures; both builds drop documents without a word. Text can be
/// told as words, a PDF document cannot.
fn can_be_injected(steer: &SteeringMessage) -> bool {
    steer.is_within_size_limit()
        && !steer.prompt.blocks().iter().any(|block| matches!(block, AttachmentBlock::Pdf { .. }))
}
