//! Channel states and the only place that changes them. The protocol's reducers apply actions; where they differ from
//! the protocol's text, they are corrected here, so that this host, clients in Rust and clients in TypeScript reach the
//! same state.

mod chat;
mod session;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use ahp::reducers::{
    ReduceError, ReduceOutcome, apply_action_to_annotations, apply_action_to_automation,
    apply_action_to_automation_run, apply_action_to_canvas, apply_action_to_changeset, apply_action_to_resource_watch,
    apply_action_to_root, apply_action_to_terminal,
};
use ahp_types::StateAction;
use ahp_types::state::{
    AnnotationsState, AutomationRunState, AutomationState, CanvasState, ChangesetState, ChatState, ResourceWatchState,
    RootState, SessionState, SnapshotState, TerminalState,
};

pub(crate) use chat::{MAX_TURN_DURATION_MS, complete_queue_order, is_valid_start_time};
pub(crate) use session::chat_summary_change;

/// Outcome of an action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApplyOutcome {
    /// The state has changed.
    Applied,
    /// The target of the action does not exist (any more).
    NoOp,
    /// The action belongs to another kind of channel.
    OutOfScope,
    /// The action would break the state, which is unchanged.
    Refused(ApplyError),
}

/// Why an action must not be applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// The running turn would be lost.
    #[error("the turn {0:?} is running; another turn cannot start before it has ended")]
    TurnAlreadyRunning(String),
    /// The turn could start but never end.
    #[error("the start time {0:?} of the turn is invalid")]
    InvalidStartTime(String),
    /// The reducer rejects it.
    #[error(transparent)]
    Reducer(#[from] ReduceError),
}

impl ApplyError {
    /// The stable code for programs.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::TurnAlreadyRunning(_) => "turnActive",
            Self::InvalidStartTime(_) | Self::Reducer(_) => "invalidTimestamp",
        }
    }
}

impl From<ReduceOutcome> for ApplyOutcome {
    fn from(outcome: ReduceOutcome) -> Self {
        match outcome {
            ReduceOutcome::Applied => Self::Applied,
            ReduceOutcome::NoOp => Self::NoOp,
            ReduceOutcome::OutOfScope => Self::OutOfScope,
            ReduceOutcome::Invalid(error) => Self::Refused(error.into()),
        }
    }
}

/// A state that actions change.
pub trait Reduce {
    /// Applies an action.
    fn reduce(&mut self, action: &StateAction) -> ApplyOutcome;
}

/// Kinds of channels, each with the type of its state and the protocol's name for it.
macro_rules! channels {
    ($($(#[$doc:meta])* $kind:ident($state:ty) = $name:literal;)+) => {
        /// The state of a channel. Shared until it is changed.
        #[derive(Clone, PartialEq)]
        pub enum ChannelState {
            $($(#[$doc])* $kind(Arc<$state>),)+
        }

        impl ChannelState {
            /// The protocol's name of the channel's kind.
            pub fn kind(&self) -> &'static str {
                match self {
                    $(Self::$kind(_) => $name,)+
                }
            }

            /// Parses a state. `None` if the kind is unknown.
            ///
            /// # Errors
            /// If the value is not a state of this kind.
            pub fn read(kind: &str, value: serde_json::Value) -> Option<serde_json::Result<Self>> {
                match kind {
                    $($name => Some(serde_json::from_value(value).map(|state| Self::$kind(Arc::new(state)))),)+
                    _ => None,
                }
            }
        }

        /// Prints only the kind, because states contain conversations.
        impl fmt::Debug for ChannelState {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "ChannelState({})", self.kind())
            }
        }

        impl Reduce for ChannelState {
            fn reduce(&mut self, action: &StateAction) -> ApplyOutcome {
                match self {
                    $(Self::$kind(state) => Arc::make_mut(state).reduce(action),)+
                }
            }
        }
    };
}

channels! {
    /// `ahp-root://`.
    Root(RootState) = "root";
    /// A session.
    Session(SessionState) = "session";
    /// A chat.
    Chat(ChatState) = "chat";
    /// A terminal.
    Terminal(TerminalState) = "terminal";
    /// A changeset.
    Changeset(ChangesetState) = "changeset";
    /// A session's annotations.
    Annotations(AnnotationsState) = "annotations";
    /// A watched resource.
    ResourceWatch(ResourceWatchState) = "resourceWatch";
    /// A canvas.
    Canvas(CanvasState) = "canvas";
    /// The automations.
    Automation(AutomationState) = "automation";
    /// One run of an automation.
    AutomationRun(AutomationRunState) = "automationRun";
}

impl From<ChannelState> for SnapshotState {
    fn from(state: ChannelState) -> Self {
        fn own<T: Clone>(state: Arc<T>) -> Box<T> {
            Box::new(Arc::unwrap_or_clone(state))
        }
        match state {
            ChannelState::Root(state) => Self::Root(own(state)),
            ChannelState::Session(state) => Self::Session(own(state)),
            ChannelState::Chat(state) => Self::Chat(own(state)),
            ChannelState::Terminal(state) => Self::Terminal(own(state)),
            ChannelState::Changeset(state) => Self::Changeset(own(state)),
            ChannelState::Annotations(state) => Self::Annotations(own(state)),
            ChannelState::ResourceWatch(state) => Self::ResourceWatch(own(state)),
            ChannelState::Canvas(state) => Self::Canvas(own(state)),
            ChannelState::Automation(state) => Self::Automations(own(state)),
            ChannelState::AutomationRun(state) => Self::AutomationRun(own(state)),
        }
    }
}

/// States that the protocol's reducers change without corrections.
macro_rules! reduced_by {
    ($($state:ty: $reducer:path;)+) => {
        $(impl Reduce for $state {
            fn reduce(&mut self, action: &StateAction) -> ApplyOutcome {
                $reducer(self, action).into()
            }
        })+
    };
}

reduced_by! {
    RootState: apply_action_to_root;
    TerminalState: apply_action_to_terminal;
    ChangesetState: apply_action_to_changeset;
    AnnotationsState: apply_action_to_annotations;
    ResourceWatchState: apply_action_to_resource_watch;
    CanvasState: apply_action_to_canvas;
    AutomationState: apply_action_to_automation;
    AutomationRunState: apply_action_to_automation_run;
}
