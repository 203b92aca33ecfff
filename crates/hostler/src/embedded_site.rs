//! Serves the embedded web page behind the AHP listener.

use bytes::Bytes;
use hostler_ahp::HttpHandler;
use hostler_web::Site;
use http::Response;
use http::request::Parts;

/// Answers requests that are not WebSocket upgrades.
pub(crate) struct EmbeddedSite(pub(crate) Site);

impl HttpHandler for EmbeddedSite {
    fn respond(&self, request: &Parts) -> Response<Bytes> {
        self.0.respond(request)
    }
}
