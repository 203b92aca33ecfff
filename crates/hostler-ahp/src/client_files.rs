//! Reads files on a client's machine by host-to-client requests. The engine requests only files that a message of the
//! same client names.

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
use hostler_engine::{ClientDirectoryEntry, ClientFileError, ClientFileReader, DirectoryListing};
use serde::de::DeserializeOwned;
use serde::{Deserialize as _, Serialize};

use crate::host_requests::{HostRequestError, HostRequests};

/// Entry type of a directory in listings.
const DIRECTORY_ENTRY_TYPE: &str = "directory";

/// One client's files.
#[derive(Clone)]
pub(crate) struct ClientFiles(pub(crate) HostRequests);

impl ClientFileReader for ClientFiles {
    fn read<'a>(&'a self, uri: &'a str, most: usize) -> BoxFuture<'a, Result<Vec<u8>, ClientFileError>> {
        async move {
            let params = ResourceReadParams {
                channel: ROOT_RESOURCE_URI.to_owned(),
                uri: uri.to_owned(),
                encoding: Some(ContentEncoding::Base64),
                meta: None,
            };
            let answer = self.0.call("resourceRead", &params).await.map_err(to_fetch_error)?;
            decode_contents(&answer, most)
        }
        .boxed()
    }

    fn list<'a>(
        &'a self,
        uri: &'a str,
        most: usize,
    ) -> BoxFuture<'a, Result<Option<DirectoryListing>, ClientFileError>> {
        async move {
            let (channel, uri) = (ROOT_RESOURCE_URI.to_owned(), uri.to_owned());
            let looked =
                ResourceResolveParams { channel: channel.clone(), uri: uri.clone(), follow_symlinks: None, meta: None };
            let found: ResourceResolveResult = self.request("resourceResolve", &looked).await?;
            if found.r#type != ResourceType::Directory {
                return Ok(None);
            }
            let list: ResourceListResult =
                self.request("resourceList", &ResourceListParams { channel, uri, meta: None }).await?;
            let more = list.entries.len() > most;
            let entries = list.entries.into_iter().take(most);
            let entries = entries.map(|entry| ClientDirectoryEntry {
                is_directory: entry.r#type == DIRECTORY_ENTRY_TYPE,
                name: entry.name,
            });
            Ok(Some(DirectoryListing { entries: entries.collect(), is_truncated: more }))
        }
        .boxed()
    }
}

impl ClientFiles {
    /// Sends a request and decodes its result.
    async fn request<T: DeserializeOwned>(
        &self,
        method: &'static str,
        params: &impl Serialize,
    ) -> Result<T, ClientFileError> {
        let answer = self.0.call(method, params).await.map_err(to_fetch_error)?;
        serde_json::from_value(answer).map_err(|_| ClientFileError::Malformed)
    }
}

/// Decodes the file contents in a client's answer.
pub(crate) fn decode_contents(answer: &serde_json::Value, most: usize) -> Result<Vec<u8>, ClientFileError> {
    let read = ResourceReadResult::deserialize(answer).map_err(|_| ClientFileError::Malformed)?;
    let contents = match read.encoding {
        ContentEncoding::Base64 if read.data.len() > most.div_ceil(3).saturating_mul(4) => {
            return Err(ClientFileError::TooLarge);
        }
        ContentEncoding::Base64 => STANDARD.decode(read.data).map_err(|_| ClientFileError::Malformed)?,
        ContentEncoding::Utf8 => read.data.into_bytes(),
    };
    if contents.len() > most { Err(ClientFileError::TooLarge) } else { Ok(contents) }
}

fn to_fetch_error(error: HostRequestError) -> ClientFileError {
    match error {
        HostRequestError::Disconnected => ClientFileError::Gone,
        HostRequestError::TimedOut => ClientFileError::TimedOut,
        HostRequestError::Busy => ClientFileError::Busy,
        HostRequestError::Rejected(error) => match error.code {
            ahp_error_codes::NOT_FOUND => ClientFileError::NotFound,
            ahp_error_codes::PERMISSION_DENIED => ClientFileError::Denied,
            _ => ClientFileError::Failed,
        },
    }
}
