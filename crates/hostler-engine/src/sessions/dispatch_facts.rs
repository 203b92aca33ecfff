//! Facts about a dispatch that need a disk. A task looks them up before the session's actor receives the dispatch, so
//! that a slow disk delays neither the actor nor other clients.

use std::sync::Arc;

use ahp_types::StateAction;

use crate::EngineError;
use crate::host::Host;
use crate::sessions::session::Dispatch;

/// What the disk says about a dispatch: the facts that its action needs. The engine looks them up itself.
#[derive(Debug, Clone, Default)]
pub struct DispatchFacts {
    /// The working directory that the action names.
    directory: Option<Result<String, EngineError>>,
    /// Whether a turn that is only in the store has the id of the turn that the action starts. `None` if no such turn
    /// existed when the session was loaded.
    stored_turn: Option<Result<bool, EngineError>>,
}

impl DispatchFacts {
    /// The normalized URI of the working directory that the action names.
    ///
    /// # Errors
    /// If no session may work there.
    pub(crate) fn directory(&self) -> Result<String, EngineError> {
        self.directory.clone().unwrap_or(Err(EngineError::Stopping))
    }

    /// Whether a turn that was only in the store when the session was loaded has the id that the action names.
    ///
    /// # Errors
    /// If the store could not be read.
    pub(crate) fn is_turn_stored(&self) -> Result<bool, EngineError> {
        self.stored_turn.clone().unwrap_or(Ok(false))
    }
}

impl Host {
    /// Looks up the facts for a dispatch to a session, which may have turns that are only in the store.
    pub(crate) async fn look_up_dispatch_facts(
        self: &Arc<Self>,
        session: &str,
        has_stored_turns: bool,
        dispatch: &Dispatch,
    ) -> DispatchFacts {
        let mut facts = DispatchFacts::default();
        match &dispatch.action {
            StateAction::SessionWorkingDirectorySet(action) => {
                facts.directory = Some(self.resolve_directory(action.directory.clone()).await);
            }
            StateAction::ChatTurnStarted(action) if has_stored_turns => {
                let found = self.store.find_turn(session, &action.turn_id).await;
                facts.stored_turn = Some(found.map(|found| found.is_some()).map_err(EngineError::from));
            }
            _ => {}
        }
        facts
    }
}
