//! What a component's step requires of another component. The actor's loop routes these effects.

use tokio::sync::oneshot;

use super::image_removal::{ImageRemovalEvent, ImageRemovalResult};
use crate::sessions::action_mapper::TurnErrorDetails;
use crate::sessions::turn::TurnInput;

/// An effect on another component. Effects are carried out in order; those that follow from one are carried out before
/// the next one, as if each were a call.
#[derive(Debug)]
pub(super) enum SessionEffect {
    /// Pass an input to the turn machine.
    Turn(TurnInput<TurnErrorDetails>),
    /// Pass the head of the queue to the turn machine; `resume` if a person continues the queue.
    QueueChanged {
        resume: bool,
    },
    /// Publish whether the queue waits for a person.
    PublishQueuePaused,
    ImageRemoval(ImageRemovalEvent<oneshot::Sender<ImageRemovalResult>>),
}

impl SessionEffect {
    /// Whether it is an input of the turn machine. After the last one of a series, the state of the queue is published.
    pub(super) fn is_turn_input(&self) -> bool {
        matches!(self, Self::Turn(_) | Self::QueueChanged { .. })
    }
}
