//! Files that only the client can read: fetched from it by a request of the host. The engine asks for nothing but what a
//! message of this very client names.

use ahp_types::ROOT_RESOURCE_URI;
use ahp_types::commands::{ContentEncoding, ResourceReadParams, ResourceReadResult};
use ahp_types::errors::ahp_error_codes;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use hostler_engine::{Fetch, FetchError};
use serde::Deserialize as _;

use crate::reverse::{CallError, Reverse};

/// One client's files.
#[derive(Clone)]
pub(crate) struct ClientFiles(pub(crate) Reverse);

impl Fetch for ClientFiles {
    fn fetch<'a>(&'a self, uri: &'a str, most: usize) -> BoxFuture<'a, Result<Vec<u8>, FetchError>> {
        async move {
            let params = ResourceReadParams {
                channel: ROOT_RESOURCE_URI.to_owned(),
                uri: uri.to_owned(),
                encoding: Some(ContentEncoding::Base64),
                meta: None,
            };
            let answer = self.0.call("resourceRead", &params).await.map_err(why)?;
            contents(&answer, most)
        }
        .boxed()
    }
}

fn contents(answer: &serde_json::Value, most: usize) -> Result<Vec<u8>, FetchError> {
    let read = ResourceReadResult::deserialize(answer).map_err(|_| FetchError::Malformed)?;
    let contents = match read.encoding {
        ContentEncoding::Base64 if read.data.len() > most.div_ceil(3).saturating_mul(4) => {
            return Err(FetchError::TooLarge);
        }
        ContentEncoding::Base64 => STANDARD.decode(read.data).map_err(|_| FetchError::Malformed)?,
        ContentEncoding::Utf8 => read.data.into_bytes(),
    };
    if contents.len() > most { Err(FetchError::TooLarge) } else { Ok(contents) }
}

fn why(error: CallError) -> FetchError {
    match error {
        CallError::Gone => FetchError::Gone,
        CallError::TimedOut => FetchError::TimedOut,
        CallError::Busy => FetchError::Busy,
        CallError::Refused(error) => match error.code {
            ahp_error_codes::NOT_FOUND => FetchError::NotFound,
            ahp_error_codes::PERMISSION_DENIED => FetchError::Denied,
            _ => FetchError::Failed,
        },
    }
}
