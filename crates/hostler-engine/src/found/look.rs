//! What the agents keep, found at the start.

use std::sync::Arc;

use super::FoundSession;
use crate::host::Host;

impl Host {
    /// Looks which conversations there are that no session of the store is.
    pub(crate) async fn find_sessions(&self) {
        for (provider, driver) in &self.drivers {
            let Some(archive) = driver.archive() else { continue };
            for conversation in archive.look().await.conversations {
                let uri: Arc<str> = format!("{provider}:/{}", conversation.id).into();
                let mut sessions = self.sessions();
                if !sessions.knows(&uri) {
                    sessions.found.insert(uri, FoundSession { provider: provider.clone(), conversation });
                }
            }
        }
    }
}
