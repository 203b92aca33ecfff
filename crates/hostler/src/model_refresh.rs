//! Refreshes the list of models that clients can choose, from the upstreams.

use std::sync::Arc;
use std::time::Duration;

use hostler_ahp::Server;
use hostler_engine::Engine;
use hostler_gateway::Gateway;
use tokio::sync::Notify;
use tokio_util::task::AbortOnDropHandle;

/// How often the upstreams are asked for their models while clients are connected.
const MODEL_REFRESH_INTERVAL: Duration = Duration::from_secs(30 * 60);

/// How often sign-ins that were made on this machine are checked; a running host gets no notification of them.
const SIGN_IN_POLL_INTERVAL: Duration = Duration::from_secs(2);

/// Asks the upstreams for their models: when the first client connects (the start does not wait for it), when the
/// configuration changes, and periodically. Ends when dropped.
pub(crate) struct ModelRefresher {
    refresh_requested: Arc<Notify>,
    _tasks: [AbortOnDropHandle<()>; 2],
}

impl ModelRefresher {
    pub(crate) fn start(gateway: Arc<Gateway>, engine: Engine, server: &Server) -> Self {
        let refresh_requested = Arc::new(Notify::new());
        let signing = watch_sign_ins(Arc::clone(&gateway), engine.clone(), Arc::clone(&refresh_requested));
        let (changed, mut clients) = (Arc::clone(&refresh_requested), server.watch_client_count());
        let task = async move {
            // Fails only if the server has ended.
            if clients.wait_for(|count| *count > 0).await.is_err() {
                return;
            }
            loop {
                gateway.refresh_models().await;
                engine.refresh_models().await;
                // After the interval, or at once on a change.
                let _ = tokio::time::timeout(MODEL_REFRESH_INTERVAL, changed.notified()).await;
            }
        };
        let tasks = [tokio::spawn(task), tokio::spawn(signing)];
        Self { refresh_requested, _tasks: tasks.map(AbortOnDropHandle::new) }
    }

    /// Requests a refresh because the upstreams have changed.
    pub(crate) fn request_refresh(&self) {
        self.refresh_requested.notify_one();
    }
}

/// Publishes what clients have to sign in to. A sign-in may change the offered models.
async fn watch_sign_ins(gateway: Arc<Gateway>, engine: Engine, reconfigured: Arc<Notify>) {
    let mut changes = gateway.sign_in_changes();
    let mut seen = gateway.protected_resources();
    loop {
        match tokio::time::timeout(SIGN_IN_POLL_INTERVAL, changes.changed()).await {
            Ok(Ok(())) => seen = gateway.protected_resources(),
            // The gateway has ended.
            Ok(Err(_)) => return,
            Err(_) => {
                let now = gateway.protected_resources();
                if now == seen {
                    continue;
                }
                seen = now;
            }
        }
        engine.publish_sign_ins().await;
        reconfigured.notify_one();
    }
}
