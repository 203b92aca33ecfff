//! What each request does, and what it is answered with.

use ahp_types::commands::{
    ContentEncoding, CreateResourceWatchParams, CreateResourceWatchResult, DirectoryEntry, ResourceListResult,
    ResourceReadParams, ResourceReadResult, ResourceResolveResult, ResourceType, ResourceWriteMode,
    ResourceWriteParams,
};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hostler_engine::{
    Access, Engine, EntryKind, FileKind, Resolved, Resources, WatchResource, WriteMode, WriteResource,
};
use serde_json::{Value, json};

use super::Request;
use crate::methods::value;
use crate::rpc::RpcError;

impl Request {
    /// Does it, for a client.
    pub(crate) async fn carry_out(self, engine: &Engine, client: &str) -> Result<Value, RpcError> {
        let resources = engine.resources();
        match self {
            Self::Read(params) => return read(&resources, params).await,
            Self::List(params) => {
                let entries = resources.list(&params.uri).await?.into_iter().map(entry).collect();
                return value(&ResourceListResult { entries });
            }
            Self::Resolve(params) => {
                let follow = params.follow_symlinks.unwrap_or(true);
                return value(&resolved(resources.resolve(&params.uri, follow).await?));
            }
            Self::Watch(params) => return watch(&resources, params).await,
            Self::Grants => return Ok(json!({"items": resources.grants()})),
            Self::Write(params) => resources.write(write(params)?).await?,
            Self::Copy(params) => {
                let keep = params.fail_if_exists.unwrap_or_default();
                resources.copy(&params.source, &params.destination, keep).await?;
            }
            Self::Move(params) => {
                let keep = params.fail_if_exists.unwrap_or_default();
                resources.rename(&params.source, &params.destination, keep).await?;
            }
            Self::Delete(params) => resources.remove(&params.uri, params.recursive.unwrap_or_default()).await?,
            Self::Mkdir(params) => resources.make_directory(&params.uri).await?,
            Self::Ask(params) => {
                // Whoever says neither wants to read.
                let access = if params.write == Some(true) { Access::Write } else { Access::Read };
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
    encoded(contents.body, contents.content_type, params.encoding)
}

/// Text is sent as text unless bytes are asked for; what is no text is sent as bytes whatever is asked for.
pub(super) fn encoded(
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
    value(&ResourceReadResult { data, encoding, content_type })
}

fn entry((name, kind): (String, FileKind)) -> DirectoryEntry {
    let kind = match kind {
        FileKind::File => "file",
        FileKind::Directory => "directory",
    };
    DirectoryEntry { name, r#type: kind.to_owned() }
}

fn resolved(resolved: Resolved) -> ResourceResolveResult {
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

fn write(params: ResourceWriteParams) -> Result<WriteResource, RpcError> {
    let data = match params.encoding {
        ContentEncoding::Utf8 => params.data.into_bytes(),
        ContentEncoding::Base64 => {
            STANDARD.decode(params.data).map_err(|error| RpcError::params(format!("the data is no base64: {error}")))?
        }
    };
    let position = u64::try_from(params.position.unwrap_or_default())
        .map_err(|_| RpcError::params("a position is not negative"))?;
    let mode = match params.mode {
        None | Some(ResourceWriteMode::Truncate) => WriteMode::Truncate,
        Some(ResourceWriteMode::Append) => WriteMode::Append,
        Some(ResourceWriteMode::Insert) => WriteMode::Insert,
    };
    let create_only = params.create_only.unwrap_or_default();
    Ok(WriteResource { uri: params.uri, data, mode, position, create_only, if_match: params.if_match })
}

async fn watch(resources: &Resources, params: CreateResourceWatchParams) -> Result<Value, RpcError> {
    let recursive = params.recursive.unwrap_or_default();
    let watch = WatchResource { uri: params.uri, recursive, includes: params.includes, excludes: params.excludes };
    let channel = resources.watch(watch).await?;
    value(&CreateResourceWatchResult { channel })
}
