//! Keeps what clients are offered up to date with what the upstreams offer.

use std::sync::Arc;
use std::time::Duration;

use hostler_ahp::Server;
use hostler_engine::Engine;
use hostler_gateway::Gateway;
use tokio::sync::Notify;
use tokio_util::task::AbortOnDropHandle;

/// How often the upstreams are asked for their models while somebody may be looking.
const RENEWAL: Duration = Duration::from_secs(30 * 60);

/// How often it is looked at whether somebody has logged in or out on the host, which nobody tells a running one.
const LOOK: Duration = Duration::from_secs(2);

/// Asks the upstreams for their models: when the first client has come (nobody waits for it at the start), when the
/// configuration changes, and now and then. Ends when it is dropped.
pub(crate) struct ModelWatch {
    reconfigured: Arc<Notify>,
    _tasks: [AbortOnDropHandle<()>; 2],
}

impl ModelWatch {
    pub(crate) fn start(gateway: Arc<Gateway>, engine: Engine, server: &Server) -> Self {
        let reconfigured = Arc::new(Notify::new());
        let signing = sign_ins(Arc::clone(&gateway), engine.clone(), Arc::clone(&reconfigured));
        let (changed, mut clients) = (Arc::clone(&reconfigured), server.clients());
        let task = async move {
            // Fails only if the server is gone, and then there is nobody to tell.
            if clients.wait_for(|count| *count > 0).await.is_err() {
                return;
            }
            loop {
                gateway.refresh_models().await;
                engine.models_changed().await;
                // Over the time, or at once.
                let _ = tokio::time::timeout(RENEWAL, changed.notified()).await;
            }
        };
        let tasks = [tokio::spawn(task), tokio::spawn(signing)];
        Self { reconfigured, _tasks: tasks.map(AbortOnDropHandle::new) }
    }

    /// The upstreams are other ones now.
    pub(crate) fn reconfigured(&self) {
        self.reconfigured.notify_one();
    }
}

/// Tells clients what they have to sign in to. Whoever has signed in may be offered other models.
async fn sign_ins(gateway: Arc<Gateway>, engine: Engine, reconfigured: Arc<Notify>) {
    let mut changes = gateway.sign_in_changes();
    let mut seen = gateway.protected();
    loop {
        match tokio::time::timeout(LOOK, changes.changed()).await {
            Ok(Ok(())) => seen = gateway.protected(),
            // The gateway is gone.
            Ok(Err(_)) => return,
            Err(_) => {
                let now = gateway.protected();
                if now == seen {
                    continue;
                }
                seen = now;
            }
        }
        engine.sign_ins_changed().await;
        reconfigured.notify_one();
    }
}
