//! Carries out each file request in the engine and builds its answer.

use ahp_types::commands::{
    ContentEncoding, CreateResourceWatchParams, CreateResourceWatchResult, DirectoryEntry, ResourceListResult,
    ResourceReadParams, ResourceReadResult, ResourceResolveResult, ResourceType, ResourceWriteMode,
    ResourceWriteParams,
};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hostler_engine::{
    Engine, EntryKind, FileAccess, FileKind, ResourceMetadata, Resources, WatchResource, WriteMode, WriteResource,
};
use serde_json::{Value, json};

use super::Request;
use crate::methods::to_result;
use crate::rpc::RpcError;

impl Request {
    /// Carries out the request for a client.
    pub(crate) async fn execute(self, engine: &Engine, client: &str) -> Result<Value, RpcError> {
        let resources = engine.resources();
        match self {
            Self::Read(params) => return read(&resources, params).await,
            Self::List(params) => {
                let entries = resources.list(&params.uri).await?.into_iter().map(to_directory_entry).collect();
                return to_result(&ResourceListResult { entries });
            }
            Self::Resolve(params) => {
                let follow = params.follow_symlinks.unwrap_or(true);
                return to_result(&to_resolve_result(resources.resolve(&params.uri, follow).await?));
            }
            Self::Watch(params) => return create_watch(&resources, params).await,
            Self::Grants => return Ok(json!({"items": resources.grants()})),
            Self::Write(params) => resources.write(to_write_resource(params)?).await?,
            Self::Copy(params) => {
                let fail_if_exists = params.fail_if_exists.unwrap_or_default();
                resources.copy(&params.source, &params.destination, fail_if_exists).await?;
            }
            Self::Move(params) => {
                let fail_if_exists = params.fail_if_exists.unwrap_or_default();
                resources.rename(&params.source, &params.destination, fail_if_exists).await?;
            }
            Self::Delete(params) => resources.remove(&params.uri, params.recursive.unwrap_or_default()).await?,
            Self::Mkdir(params) => resources.make_directory(&params.uri).await?,
            Self::Ask(params) => {
                // A request that names neither access asks to read.
                let access = if params.write == Some(true) { FileAccess::Write } else { FileAccess::Read };
                resources.request(client, &params.uri, access).await?;
            }
            Self::Allow(grant) => resources.allow_grant(&grant.id).await?,
            Self::Revoke(grant) => resources.revoke_grant(&grant.id).await?,
        }
        Ok(json!({}))
    }
}

async fn read(resources: &Resources, params: ResourceReadParams) -> Result<Value, RpcError> {
    let contents = resources.read(&params.uri).await?;
    encode_contents(contents.body, contents.content_type, params.encoding)
}

/// Text is sent as text unless bytes are requested; other contents are always sent as bytes.
pub(super) fn encode_contents(
    body: Vec<u8>,
    content_type: Option<String>,
    wanted: Option<ContentEncoding>,
) -> Result<Value, RpcError> {
    let (data, encoding) = match wanted {
        Some(ContentEncoding::Base64) => (STANDARD.encode(&body), ContentEncoding::Base64),
        _ => match String::from_utf8(body) {
            Ok(text) => (text, ContentEncoding::Utf8),
            Err(bytes) => (STANDARD.encode(bytes.as_bytes()), ContentEncoding::Base64),
        },
    };
    to_result(&ResourceReadResult { data, encoding, content_type })
}

fn to_directory_entry((name, kind): (String, FileKind)) -> DirectoryEntry {
    let kind = match kind {
        FileKind::File => "file",
        FileKind::Directory => "directory",
    };
    DirectoryEntry { name, r#type: kind.to_owned() }
}

fn to_resolve_result(resolved: ResourceMetadata) -> ResourceResolveResult {
    let (r#type, sized) = match resolved.kind {
        EntryKind::Directory => (ResourceType::Directory, false),
        EntryKind::Link => (ResourceType::Symlink, true),
        EntryKind::File | EntryKind::Special => (ResourceType::File, true),
    };
    ResourceResolveResult {
        uri: resolved.uri,
        r#type,
        size: i64::try_from(resolved.size).ok().filter(|_| sized),
        mtime: resolved.modified,
        ctime: resolved.created,
        content_type: None,
        etag: Some(resolved.etag),
    }
}

fn to_write_resource(params: ResourceWriteParams) -> Result<WriteResource, RpcError> {
    let data = match params.encoding {
        ContentEncoding::Utf8 => params.data.into_bytes(),
        ContentEncoding::Base64 => STANDARD
            .decode(params.data)
            .map_err(|error| RpcError::invalid_params(format!("data is not valid base64: {error}")))?,
    };
    let position = u64::try_from(params.position.unwrap_or_default())
        .map_err(|_| RpcError::invalid_params("position must not be negative"))?;
    let mode = match params.mode {
        None | Some(ResourceWriteMode::Truncate) => WriteMode::Truncate,
        Some(ResourceWriteMode::Append) => WriteMode::Append,
        Some(ResourceWriteMode::Insert) => WriteMode::Insert,
    };
    let create_only = params.create_only.unwrap_or_default();
    Ok(WriteResource { uri: params.uri, data, mode, position, create_only, if_match: params.if_match })
}

async fn create_watch(resources: &Resources, params: CreateResourceWatchParams) -> Result<Value, RpcError> {
    let recursive = params.recursive.unwrap_or_default();
    let watch = WatchResource { uri: params.uri, recursive, includes: params.includes, excludes: params.excludes };
    let channel = resources.watch(watch).await?;
    to_result(&CreateResourceWatchResult { channel })
}
