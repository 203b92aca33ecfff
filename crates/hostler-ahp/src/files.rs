//! Files that only the client can read: fetched from it by a request of the host. The engine asks for nothing but what a
//! message of this very client names.

use ahp_types::ROOT_RESOURCE_URI;
use ahp_types::commands::{
    ContentEncoding, ResourceListParams, ResourceListResult, ResourceReadParams, ResourceReadResult,
    ResourceResolveParams, ResourceResolveResult, ResourceType,
};
use ahp_types::errors::ahp_error_codes;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use hostler_engine::{Fetch, FetchError, Listed, Listing};
use serde::de::DeserializeOwned;
use serde::{Deserialize as _, Serialize};

use crate::reverse::{CallError, Reverse};

/// The word for a directory in listings.
const DIRECTORY: &str = "directory";

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

    fn list<'a>(&'a self, uri: &'a str, most: usize) -> BoxFuture<'a, Result<Option<Listing>, FetchError>> {
        async move {
            let (channel, uri) = (ROOT_RESOURCE_URI.to_owned(), uri.to_owned());
            let looked =
                ResourceResolveParams { channel: channel.clone(), uri: uri.clone(), follow_symlinks: None, meta: None };
            let found: ResourceResolveResult = self.ask("resourceResolve", &looked).await?;
            if found.r#type != ResourceType::Directory {
                return Ok(None);
            }
            let list: ResourceListResult =
                self.ask("resourceList", &ResourceListParams { channel, uri, meta: None }).await?;
            let more = list.entries.len() > most;
            let entries = list.entries.into_iter().take(most);
            let entries = entries.map(|entry| Listed { directory: entry.r#type == DIRECTORY, name: entry.name });
            Ok(Some(Listing { entries: entries.collect(), more }))
        }
        .boxed()
    }
}

impl ClientFiles {
    /// Asks the client for something of a known form.
    async fn ask<T: DeserializeOwned>(&self, method: &'static str, params: &impl Serialize) -> Result<T, FetchError> {
        let answer = self.0.call(method, params).await.map_err(why)?;
        serde_json::from_value(answer).map_err(|_| FetchError::Malformed)
    }
}

/// The bytes of a file that a client has answered with.
pub(crate) fn contents(answer: &serde_json::Value, most: usize) -> Result<Vec<u8>, FetchError> {
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
