//! Finishes work that a restart interrupted: deletes transcripts of deleted sessions, and imports the remaining turns
//! of partly imported ones. Runs after the start, one item at a time, because no request waits for it.

use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::host::Host;

/// Delay before each session, so that connected clients are served first.
const PENDING_IMPORT_DELAY: Duration = Duration::from_secs(10);

impl Host {
    /// Starts the cleanup task. It ends with the host.
    pub(crate) fn resume_pending_cleanup(self: &Arc<Self>) {
        self.tasks.spawn_until_stopped(run_pending_cleanup(Arc::downgrade(self)));
    }

    /// Imports the remaining turns of a chat. Failures are retried when the chat is opened.
    async fn import_remaining_turns(self: &Arc<Self>, chat: &str) {
        if self.chat_view(chat).await.is_some()
            && let Err(error) = self.external.wait_until_imported(chat, 0).await
        {
            tracing::info!(chat, %error, "import is not complete");
        }
    }
}

async fn run_pending_cleanup(weak: Weak<Host>) {
    let Some(host) = weak.upgrade() else { return };
    host.wait_for_initial_scan().await;
    host.delete_pending_transcripts().await;
    let chats = host.store.chats_missing_start().await.unwrap_or_else(|error| {
        tracing::warn!(%error, "failed to read the incomplete imports");
        Vec::new()
    });
    drop(host);
    for chat in chats {
        let Some(wait) = weak.upgrade().map(|host| host.clock.sleep(PENDING_IMPORT_DELAY)) else { return };
        wait.await;
        let Some(host) = weak.upgrade() else { return };
        host.import_remaining_turns(&chat).await;
    }
}
