//! Turns that are still to be taken in: whoever wants to read one waits until it is there.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::EngineError;

/// How many of the first turns the store does not have yet, by chat.
#[derive(Debug, Default)]
pub(crate) struct Untold {
    chats: Mutex<HashMap<Arc<str>, watch::Sender<Missing>>>,
}

#[derive(Debug, Default)]
struct Missing {
    turns: usize,
    /// Why they do not come at the moment.
    trouble: Option<EngineError>,
}

impl Untold {
    fn chats(&self) -> MutexGuard<'_, HashMap<Arc<str>, watch::Sender<Missing>>> {
        self.chats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// So many of a chat's first turns are not there, and somebody is about to bring some of them. Zero also says that
    /// nobody cares any more.
    pub(crate) fn set(&self, chat: &Arc<str>, turns: usize) {
        let mut chats = self.chats();
        let missing = Missing { turns, trouble: None };
        match (turns, chats.get(chat)) {
            (0, _) => drop(chats.remove(chat)),
            (_, Some(told)) => drop(told.send_replace(missing)),
            (_, None) => drop(chats.insert(Arc::clone(chat), watch::Sender::new(missing))),
        }
    }

    /// Those that are not there cannot be had at the moment: nobody is to wait for them.
    pub(crate) fn fail(&self, chat: &str, trouble: EngineError) {
        if let Some(untold) = self.chats().get(chat) {
            untold.send_modify(|missing| missing.trouble = Some(trouble));
        }
    }

    /// How many of a chat's first turns are not there.
    pub(crate) fn of(&self, chat: &str) -> usize {
        self.chats().get(chat).map_or(0, |untold| untold.borrow().turns)
    }

    /// Waits until the turn at this place of a chat is there, or nobody will bring it any more.
    ///
    /// # Errors
    /// If it cannot be had at the moment.
    pub(crate) async fn told(&self, chat: &str, place: usize) -> Result<(), EngineError> {
        let untold = self.chats().get(chat).map(watch::Sender::subscribe);
        let Some(mut untold) = untold else { return Ok(()) };
        let told = untold.wait_for(|untold| untold.turns <= place || untold.trouble.is_some()).await;
        match told {
            Ok(untold) if untold.turns > place => untold.trouble.clone().map_or(Ok(()), Err),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[test]
    fn whoever_wants_a_turn_waits_until_it_is_there() {
        let untold = Untold::default();
        let chat: Arc<str> = "c".into();
        let is_there = |place| untold.told("c", place).now_or_never().is_some_and(|told| told.is_ok());
        assert!(is_there(0), "nothing is missing");
        untold.set(&chat, 10);
        assert!(is_there(10) && !is_there(9));
        let mut waiting = Box::pin(untold.told("c", 4));
        assert!(waiting.as_mut().now_or_never().is_none());
        untold.set(&chat, 5);
        assert!(waiting.as_mut().now_or_never().is_none() && is_there(9));
        untold.set(&chat, 4);
        assert!(waiting.as_mut().now_or_never().is_some());
    }

    #[test]
    fn nobody_waits_for_a_turn_that_cannot_be_had_at_the_moment() {
        let untold = Untold::default();
        let chat: Arc<str> = "c".into();
        untold.set(&chat, 10);
        let mut waiting = Box::pin(untold.told("c", 4));
        assert!(waiting.as_mut().now_or_never().is_none());
        untold.fail(&chat, EngineError::Stopping);
        assert!(matches!(waiting.now_or_never(), Some(Err(EngineError::Stopping))));
        assert!(matches!(untold.told("c", 12).now_or_never(), Some(Ok(()))), "it is there");
        // Somebody tries it again.
        untold.set(&chat, 10);
        assert!(untold.told("c", 4).now_or_never().is_none());
    }

    #[test]
    fn nobody_waits_for_a_session_that_has_ended() {
        let untold = Untold::default();
        let chat: Arc<str> = "c".into();
        untold.set(&chat, 10);
        let mut waiting = Box::pin(untold.told("c", 4));
        assert!(waiting.as_mut().now_or_never().is_none());
        untold.set(&chat, 0);
        assert!(waiting.as_mut().now_or_never().is_some());
        assert_eq!(untold.of("c"), 0);
    }
}
