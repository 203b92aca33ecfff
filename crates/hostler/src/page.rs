//! The web page, behind the listener.

use bytes::Bytes;
use hostler_ahp::Pages;
use hostler_web::Site;
use http::Response;
use http::request::Parts;

/// Answers what is no upgrade.
pub(crate) struct Page(pub(crate) Site);

impl Pages for Page {
    fn answer(&self, request: &Parts) -> Response<Bytes> {
        self.0.answer(request)
    }
}
