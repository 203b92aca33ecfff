//! The `resource*` commands: file operations of clients. Decoded here; carried out by the engine, or relayed to the
//! client that owns the files.

mod error;
mod file_op_limiter;
mod handlers;
mod relay;

use ahp_types::commands::{
    CreateResourceWatchParams, ResourceCopyParams, ResourceDeleteParams, ResourceListParams, ResourceMkdirParams,
    ResourceMoveParams, ResourceReadParams, ResourceRequestParams, ResourceResolveParams, ResourceWriteParams,
};
use serde::Deserialize;
use serde_json::Value;

use crate::decode;
use crate::rpc::RpcError;

pub(crate) use file_op_limiter::FileOpLimiter;

/// Parameters of one grant.
#[derive(Debug, Deserialize)]
pub(crate) struct GrantParams {
    id: String,
}

macro_rules! requests {
    ($($method:literal $variant:ident($params:ty);)+) => {
        /// A decoded file request.
        #[derive(Debug)]
        pub(crate) enum Request {
            $($variant($params),)+
            /// `hostler/listGrants`, an extension: AHP cannot list grants.
            Grants,
        }

        /// The methods.
        pub(crate) const METHODS: &[&str] = &[$($method,)+ "hostler/listGrants"];

        impl Request {
            /// Parses one of the methods.
            pub(crate) fn read(method: &str, params: Value) -> Result<Self, RpcError> {
                match method {
                    $($method => decode::params(params).map(Self::$variant),)+
                    "hostler/listGrants" => Ok(Self::Grants),
                    _ => Err(RpcError::unknown_method(method)),
                }
            }
        }
    };
}

requests! {
    "resourceRead" Read(ResourceReadParams);
    "resourceWrite" Write(ResourceWriteParams);
    "resourceList" List(ResourceListParams);
    "resourceCopy" Copy(ResourceCopyParams);
    "resourceDelete" Delete(ResourceDeleteParams);
    "resourceMove" Move(ResourceMoveParams);
    "resourceResolve" Resolve(ResourceResolveParams);
    "resourceMkdir" Mkdir(ResourceMkdirParams);
    "resourceRequest" Ask(ResourceRequestParams);
    "createResourceWatch" Watch(CreateResourceWatchParams);
    "hostler/allowGrant" Allow(GrantParams);
    "hostler/revokeGrant" Revoke(GrantParams);
}

impl Request {
    /// Number of bytes that it carries.
    fn size(&self) -> usize {
        match self {
            Self::Write(params) => params.data.len(),
            _ => 0,
        }
    }
}
