//! Relays requests for files on a client's machine to that client, and its answer back. They never reach the engine.
//!
//! `connected_clients` decides which client may request whose files. Watches are not relayed: a client cannot notify
//! the host of changes.

use ahp_types::ROOT_RESOURCE_URI;
use ahp_types::commands::{ContentEncoding, ResourceListResult, ResourceReadParams, ResourceResolveResult};
use ahp_types::errors::{ahp_error_codes, json_rpc_error_codes};
use hostler_engine::{ClientFileError, MAX_RESOURCE_BYTES};
use percent_encoding::percent_decode_str;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::Request;
use super::handlers::encode_contents;
use crate::client_files::decode_contents;
use crate::host_requests::{HostRequestError, HostRequests};
use crate::methods::to_result;
use crate::rpc::RpcError;

/// Prefix of URIs of clients' files; the client's id and a path follow.
const CLIENT_FILE_URI_PREFIX: &str = "vscode-agent-client://";

/// Maximum number of directory entries that are returned.
const MAX_RELAYED_ENTRIES: usize = 50_000;

/// Sends a request to the owning client, on the root channel.
macro_rules! pass_on {
    ($to:ident, $method:literal, $params:ident) => {{
        $params.channel = ROOT_RESOURCE_URI.to_owned();
        ask($to, $method, &$params).await
    }};
}

impl Request {
    /// The client that owns the files; `None` if they are the host's.
    ///
    /// # Errors
    /// If the request names files of several machines.
    pub(crate) fn owning_client(&self) -> Result<Option<String>, RpcError> {
        let (from, to) = match self {
            Self::Read(params) => (&params.uri, None),
            Self::Write(params) => (&params.uri, None),
            Self::List(params) => (&params.uri, None),
            Self::Delete(params) => (&params.uri, None),
            Self::Resolve(params) => (&params.uri, None),
            Self::Mkdir(params) => (&params.uri, None),
            Self::Ask(params) => (&params.uri, None),
            Self::Watch(params) => (&params.uri, None),
            Self::Copy(params) => (&params.source, Some(&params.destination)),
            Self::Move(params) => (&params.source, Some(&params.destination)),
            Self::Grants | Self::Allow(_) | Self::Revoke(_) => return Ok(None),
        };
        let owner = client_of_uri(from);
        match to.map(|to| client_of_uri(to)) {
            Some(other) if other != owner => Err(RpcError::invalid_params(
                "source and destination are on different machines; read the one and write the other",
            )),
            _ => Ok(owner),
        }
    }

    /// Has the owning client carry out the request.
    pub(crate) async fn relay(self, to: &HostRequests) -> Result<Value, RpcError> {
        let done = match self {
            Self::Read(params) => return relay_read(to, params).await,
            Self::List(mut params) => {
                let list: ResourceListResult = parse_answer(pass_on!(to, "resourceList", params)?)?;
                if list.entries.len() > MAX_RELAYED_ENTRIES {
                    let sentence = format!("the directory has more than {MAX_RELAYED_ENTRIES} entries");
                    return Err(RpcError::invalid_params(sentence));
                }
                return to_result(&list);
            }
            Self::Resolve(mut params) => {
                return to_result(&parse_answer::<ResourceResolveResult>(pass_on!(to, "resourceResolve", params)?)?);
            }
            Self::Write(mut params) => pass_on!(to, "resourceWrite", params),
            Self::Copy(mut params) => pass_on!(to, "resourceCopy", params),
            Self::Move(mut params) => pass_on!(to, "resourceMove", params),
            Self::Delete(mut params) => pass_on!(to, "resourceDelete", params),
            Self::Mkdir(mut params) => pass_on!(to, "resourceMkdir", params),
            Self::Ask(mut params) => pass_on!(to, "resourceRequest", params),
            Self::Watch(_) => {
                Err(RpcError::invalid_params("this host does not watch clients' files; watch them on the client"))
            }
            Self::Grants | Self::Allow(_) | Self::Revoke(_) => {
                Err(RpcError::invalid_params("grants belong to the host"))
            }
        };
        match done? {
            Value::Null | Value::Object(_) => Ok(json!({})),
            _ => Err(malformed_answer()),
        }
    }
}

/// The id in a URI of a client's file, in lowercase.
fn client_of_uri(uri: &str) -> Option<String> {
    let (prefix, rest) = uri.split_at_checked(CLIENT_FILE_URI_PREFIX.len())?;
    let id = rest.split(['/', '?', '#']).next()?;
    prefix
        .eq_ignore_ascii_case(CLIENT_FILE_URI_PREFIX)
        .then(|| percent_decode_str(id).decode_utf8_lossy().to_ascii_lowercase())
}

/// The owning client is asked for bytes; the requesting client gets the form that the host's own files have.
async fn relay_read(to: &HostRequests, mut params: ResourceReadParams) -> Result<Value, RpcError> {
    let wanted = params.encoding.replace(ContentEncoding::Base64);
    let answer = pass_on!(to, "resourceRead", params)?;
    let most = usize::try_from(MAX_RESOURCE_BYTES).unwrap_or(usize::MAX);
    let body = decode_contents(&answer, most).map_err(|error| match error {
        ClientFileError::TooLarge => {
            RpcError::invalid_params(format!("the file has more than {MAX_RESOURCE_BYTES} bytes"))
        }
        _ => malformed_answer(),
    })?;
    let content_type = answer.get("contentType").and_then(Value::as_str).map(str::to_owned);
    encode_contents(body, content_type, wanted)
}

async fn ask(to: &HostRequests, method: &'static str, params: &impl Serialize) -> Result<Value, RpcError> {
    to.call(method, params).await.map_err(|error| match error {
        HostRequestError::Rejected(error) => error,
        HostRequestError::Disconnected => RpcError::new(
            ahp_error_codes::NOT_FOUND,
            "the client that owns these files has disconnected; connect it and try again",
        ),
        HostRequestError::TimedOut => {
            internal_error("client_timed_out", "the client that owns these files did not answer in time; try again")
        }
        HostRequestError::Busy => {
            internal_error("client_busy", "the client that owns these files has too many pending requests; try again")
        }
    })
}

fn parse_answer<T: DeserializeOwned>(answer: Value) -> Result<T, RpcError> {
    serde_json::from_value(answer).map_err(|_| malformed_answer())
}

fn malformed_answer() -> RpcError {
    internal_error("client_answer_malformed", "the answer of the client that owns these files is malformed")
}

/// An error that is due neither to the requesting client nor to the file, with the reason as its name.
fn internal_error(reason: &str, sentence: &str) -> RpcError {
    RpcError::new(json_rpc_error_codes::INTERNAL_ERROR, sentence).with_data(json!({ "reason": reason }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_file_uris_name_their_client() {
        let some = |id: &str| Some(id.to_owned());
        assert_eq!(client_of_uri("vscode-agent-client://Some-Id/file/-/x"), some("some-id"));
        assert_eq!(client_of_uri("VSCODE-agent-client://id"), some("id"));
        assert_eq!(client_of_uri("vscode-agent-client://id?x/y"), some("id"));
        assert_eq!(client_of_uri("vscode-agent-client://an%20id%2f/x"), some("an id/"));
        assert_eq!(client_of_uri("vscode-agent-client:///x"), some(""));
        for uri in ["", "file:///x", "vscode-agent-client:/id/x", "vscode-agent-client:/ä/id", "ahp-content:/abc"] {
            assert_eq!(client_of_uri(uri), None, "{uri}");
        }
    }
}
