//! What the agents keep, found at the start.

use std::sync::Arc;

use super::FoundSession;
use crate::actor::Input;
use crate::engine::Engine;
use crate::host::Host;

impl Engine {
    /// Looks at the agents' archives: what is new is found, and sessions that are open hear what others did in them.
    pub async fn look_at_archives(&self) {
        self.host.find_sessions().await;
        let live: Vec<_> = self.host.sessions().live.values().cloned().collect();
        for session in live {
            let _ = session.send(Input::RecordChanged).await;
        }
    }
}

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
