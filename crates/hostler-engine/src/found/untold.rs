//! Turns that are still to be taken in: whoever wants to read one waits until it is there.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

/// How many of the first turns the store does not have yet, by chat.
#[derive(Debug, Default)]
pub(crate) struct Untold {
    chats: Mutex<HashMap<Arc<str>, watch::Sender<usize>>>,
}

impl Untold {
    fn chats(&self) -> MutexGuard<'_, HashMap<Arc<str>, watch::Sender<usize>>> {
        self.chats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// So many of a chat's first turns are not there. Zero also says that nobody cares any more.
    pub(crate) fn set(&self, chat: &Arc<str>, turns: usize) {
        let mut chats = self.chats();
        match (turns, chats.get(chat)) {
            (0, _) => drop(chats.remove(chat)),
            (turns, Some(told)) => drop(told.send_replace(turns)),
            (turns, None) => drop(chats.insert(Arc::clone(chat), watch::Sender::new(turns))),
        }
    }

    /// How many of a chat's first turns are not there.
    pub(crate) fn of(&self, chat: &str) -> usize {
        self.chats().get(chat).map_or(0, |untold| *untold.borrow())
    }

    /// Waits until the turn at this place of a chat is there, or nobody will bring it any more.
    pub(crate) async fn told(&self, chat: &str, place: usize) {
        let untold = self.chats().get(chat).map(watch::Sender::subscribe);
        if let Some(mut untold) = untold {
            let _ = untold.wait_for(|untold| *untold <= place).await;
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
        let is_there = |place| untold.told("c", place).now_or_never().is_some();
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
