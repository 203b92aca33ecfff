//! Accepts, serves and closes connections. Does not know the requests on them; `handler` answers those.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::TaskTracker;

use crate::connection::{TrackedBody, TrackedConnection};
use crate::gateway::GatewayState;
use crate::handler;

/// Maximum time for a connection to write its last bytes when the gateway stops.
const STOP_GRACE_PERIOD: Duration = Duration::from_secs(1);
/// Pause after a failed accept; such errors (too many open files) do not disappear by retrying at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Maximum size of a connection's read and write buffers.
const CONNECTION_BUFFER_BYTES: usize = 64 * 1024;

/// Accepts connections until the gateway stops; the listener is closed when this returns.
pub(crate) async fn accept_connections(listener: TcpListener, shared: Arc<GatewayState>, tasks: TaskTracker) {
    let stop = shared.stop.clone();
    let accepting = async {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    let connection = shared.connections.accept();
                    tasks.spawn(serve_connection(stream, connection, Arc::clone(&shared)));
                }
                Err(error) => {
                    tracing::warn!(%error, "failed to accept a connection to the gateway");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    };
    stop.run_until_cancelled(accepting).await;
}

/// Serves one connection until it closes.
async fn serve_connection(stream: TcpStream, place: Arc<TrackedConnection>, shared: Arc<GatewayState>) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "failed to set TCP_NODELAY");
    }
    let stop = shared.stop.clone();
    let service = service_fn(|request| {
        let (shared, place) = (Arc::clone(&shared), Arc::clone(&place));
        async move {
            let tracked = place.begin_request();
            let response = handler::handle_request(&shared, &place, request).await;
            Ok::<_, Infallible>(response.map(|body| TrackedBody { body, _guard: tracked }))
        }
    });
    let mut http = http1::Builder::new();
    http.max_buf_size(CONNECTION_BUFFER_BYTES);
    let mut connection = std::pin::pin!(http.serve_connection(TokioIo::new(stream), service));
    let mut is_last_request = false;
    let ended = loop {
        tokio::select! {
            ended = connection.as_mut() => break Ok(ended),
            reason = place.wait_until_overdue(), if !is_last_request => {
                tracing::debug!(reason, "closed a connection");
                // An authenticated request may have started at this moment; it is answered, and then the connection
                // closes.
                if !place.is_busy() {
                    return;
                }
                connection.as_mut().graceful_shutdown();
                is_last_request = true;
            }
            () = stop.cancelled() => {
                // The leases are cancelled, so requests in flight end by themselves; this flushes their last bytes.
                connection.as_mut().graceful_shutdown();
                break tokio::time::timeout(STOP_GRACE_PERIOD, connection.as_mut()).await;
            }
        }
    };
    match ended {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "connection failed"),
        Err(_) => {
            tracing::debug!("dropped a connection that did not read its last bytes in time")
        }
    }
}
