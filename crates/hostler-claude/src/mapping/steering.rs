use hostler_attachments::Block;
use hostler_driver::{DriverEvent, Steer, SteerId};
use uuid::Uuid;

use crate::wire::CommandLifecycle;

/// How many receipts for late words may wait to be told.
const MAX_LATE: usize = 256;

/// What a person says that waits for a way into the running turn.
///
/// Words alone are told in the answer to a hook. What has attachments is written as a message of its own before that
/// answer: the agent folds it in when the call is over. From then on it is *on its way*, until something shows that the
/// model has it, or that it was taken back.
#[derive(Debug, Default)]
pub(super) struct Steering {
    held: Option<Steer>,
    on_its_way: Option<Written>,
    /// Words that came when there was no turn that they could go into.
    late: Vec<SteerId>,
}

#[derive(Debug)]
struct Written {
    steer: SteerId,
    message: Uuid,
    /// Whether the agent tells of it. Newer builds do.
    is_told_of: bool,
}

impl Steering {
    pub(super) fn hold(&mut self, steer: Steer, busy: bool) {
        if busy {
            self.held = Some(steer);
        } else {
            self.late.push(steer.id);
            // Whoever floods us with words that nobody can take is told of the latest ones.
            let surplus = self.late.len().saturating_sub(MAX_LATE);
            self.late.drain(..surplus);
        }
    }

    pub(super) fn take_back(&mut self, id: &SteerId) -> bool {
        self.held.take_if(|held| held.id == *id).is_some()
    }

    /// What could be told now. One message at a time is on its way.
    pub(super) fn next(&self) -> Option<&Steer> {
        self.held.as_ref().filter(|held| can_be_told(held) && (!has_blocks(held) || self.on_its_way.is_none()))
    }

    /// The words, for the model, if they are still held. From here on they are neither held nor given up.
    pub(super) fn inject(&mut self, id: &SteerId) -> bool {
        self.next().is_some_and(|next| next.id == *id) && self.take_back(id)
    }

    /// The same for a message, which has a way to go.
    pub(super) fn write(&mut self, id: &SteerId, message: Uuid) -> bool {
        let taken = self.inject(id);
        if taken {
            self.on_its_way = Some(Written { steer: id.clone(), message, is_told_of: false });
        }
        taken
    }

    /// The message that is on its way.
    pub(super) fn on_its_way(&self) -> Option<Uuid> {
        self.on_its_way.as_ref().map(|written| written.message)
    }

    /// The model answers. Older builds do not say more than that: it answers to what was written before.
    pub(super) fn answered(&mut self) -> Option<DriverEvent> {
        if self.on_its_way.as_ref().is_some_and(|written| written.is_told_of) { None } else { self.arrived() }
    }

    /// Newer builds say what becomes of a message.
    pub(super) fn on_lifecycle(&mut self, news: &CommandLifecycle<'_>) -> Option<DriverEvent> {
        let written = self.on_its_way.as_mut()?;
        if Uuid::parse_str(&news.command_uuid) != Ok(written.message) {
            return None;
        }
        written.is_told_of = true;
        if news.state.0 == "started" { self.arrived() } else { None }
    }

    fn arrived(&mut self) -> Option<DriverEvent> {
        self.on_its_way.take().map(|written| DriverEvent::SteerInjected(written.steer))
    }

    /// We wanted a message back, and this is what the agent says.
    pub(super) fn withdrawn(&mut self, message: Uuid, is_back: bool) -> Option<DriverEvent> {
        let written = self.on_its_way.take_if(|written| written.message == message)?;
        Some(match is_back {
            true => DriverEvent::SteerUndelivered(written.steer),
            false => DriverEvent::SteerInjected(written.steer),
        })
    }

    /// The turn is over. What is held will not be told. What is still on its way was folded in, and the answer to it
    /// failed; or the agent begins a turn about it. Either way it has it.
    pub(super) fn turn_over(&mut self) -> Vec<DriverEvent> {
        self.arrived().into_iter().chain(self.give_up()).collect()
    }

    /// Nothing will be told any more.
    pub(super) fn give_up(&mut self) -> Vec<DriverEvent> {
        let written = self.on_its_way.take().map(|written| written.steer);
        let held = self.held.take().map(|steer| steer.id);
        self.late.drain(..).chain(written).chain(held).map(DriverEvent::SteerUndelivered).collect()
    }

    /// What came too late.
    pub(super) fn late(&mut self) -> Vec<DriverEvent> {
        self.late.drain(..).map(DriverEvent::SteerUndelivered).collect()
    }
}

fn has_blocks(steer: &Steer) -> bool {
    !steer.text.blocks().is_empty()
}

/// A message that is folded in keeps its words and its pictures; both builds drop documents without a word. Text can be
/// told as words, a PDF document cannot.
fn can_be_told(steer: &Steer) -> bool {
    steer.fits() && !steer.text.blocks().iter().any(|block| matches!(block, Block::Pdf { .. }))
}
