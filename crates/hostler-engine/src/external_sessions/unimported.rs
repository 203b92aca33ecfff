//! Tracks turns that are not imported yet: a reader of such a turn waits for it, or receives the reason why it is
//! unavailable.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::EngineError;

/// The number of a chat's first turns that the store does not contain yet, by chat.
#[derive(Debug, Default)]
pub(crate) struct UnimportedTurns {
    chats: Mutex<HashMap<Arc<str>, watch::Sender<ImportStatus>>>,
}

#[derive(Debug, Default)]
struct ImportStatus {
    missing_turns: usize,
    /// Why they are unavailable at the moment.
    error: Option<EngineError>,
}

impl UnimportedTurns {
    fn lock_chats(&self) -> MutexGuard<'_, HashMap<Arc<str>, watch::Sender<ImportStatus>>> {
        self.chats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets how many of a chat's first turns are missing while an import is in progress. Zero also releases all readers
    /// when the session ends.
    pub(crate) fn set_missing(&self, chat: &Arc<str>, turns: usize) {
        let mut chats = self.lock_chats();
        let missing = ImportStatus { missing_turns: turns, error: None };
        match (turns, chats.get(chat)) {
            (0, _) => drop(chats.remove(chat)),
            (_, Some(sender)) => drop(sender.send_replace(missing)),
            (_, None) => drop(chats.insert(Arc::clone(chat), watch::Sender::new(missing))),
        }
    }

    /// Reports that the missing turns are unavailable at the moment; waiting readers receive the error.
    pub(crate) fn fail(&self, chat: &str, trouble: EngineError) {
        if let Some(unimported) = self.lock_chats().get(chat) {
            unimported.send_modify(|missing| missing.error = Some(trouble));
        }
    }

    /// The number of a chat's first turns that are missing.
    pub(crate) fn missing_count(&self, chat: &str) -> usize {
        self.lock_chats().get(chat).map_or(0, |unimported| unimported.borrow().missing_turns)
    }

    /// Waits until the turn at this position of a chat is imported, or the import has ended.
    ///
    /// # Errors
    /// If it is unavailable at the moment.
    pub(crate) async fn wait_until_imported(&self, chat: &str, place: usize) -> Result<(), EngineError> {
        let unimported = self.lock_chats().get(chat).map(watch::Sender::subscribe);
        let Some(mut unimported) = unimported else { return Ok(()) };
        let progress =
            unimported.wait_for(|unimported| unimported.missing_turns <= place || unimported.error.is_some()).await;
        match progress {
            Ok(unimported) if unimported.missing_turns > place => unimported.error.clone().map_or(Ok(()), Err),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[test]
    fn reader_waits_until_the_turn_is_imported_or_the_session_ends() {
        let (unimported, chat) = (UnimportedTurns::default(), Arc::from("c"));
        let is_there =
            |place| unimported.wait_until_imported("c", place).now_or_never().is_some_and(|result| result.is_ok());
        assert!(is_there(0), "nothing is missing");
        unimported.set_missing(&chat, 10);
        assert!(is_there(10) && !is_there(9));
        for (missing, is_imported) in [(5, false), (4, true), (0, true)] {
            unimported.set_missing(&chat, 10);
            let mut waiting = Box::pin(unimported.wait_until_imported("c", 4));
            assert!(waiting.as_mut().now_or_never().is_none());
            unimported.set_missing(&chat, missing);
            assert_eq!(waiting.as_mut().now_or_never().is_some(), is_imported, "{missing} are missing");
            assert_eq!(unimported.missing_count("c"), missing);
        }
    }

    #[test]
    fn reader_receives_the_error_of_a_failed_import() {
        let (unimported, chat) = (UnimportedTurns::default(), Arc::from("c"));
        unimported.set_missing(&chat, 10);
        let mut waiting = Box::pin(unimported.wait_until_imported("c", 4));
        assert!(waiting.as_mut().now_or_never().is_none());
        unimported.fail(&chat, EngineError::Stopping);
        assert!(matches!(waiting.now_or_never(), Some(Err(EngineError::Stopping))));
        assert!(matches!(unimported.wait_until_imported("c", 12).now_or_never(), Some(Ok(()))), "it is there");
        // The import is retried.
        unimported.set_missing(&chat, 10);
        assert!(unimported.wait_until_imported("c", 4).now_or_never().is_none());
    }
}
