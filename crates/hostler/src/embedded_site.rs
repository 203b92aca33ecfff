//! The web page, behind the listener.

use bytes::Bytes;
use hostler_ahp::HttpHandler;
use hostler_web::Site;
use http::Response;
use http::request::Parts;

/// Answers what is no upgrade.
pub(crate) struct EmbeddedSite(pub(crate) Site);

impl HttpHandler for EmbeddedSite {
    fn respond(&self, request: &Parts) -> Response<Bytes> {
        self.0.respond(request)
    }
}
