//! The `resource*` commands: what clients do with files. Decoded here; carried out by the engine, or passed on to the
//! client that has them.

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

/// One grant.
#[derive(Debug, Deserialize)]
pub(crate) struct GrantParams {
    id: String,
}

macro_rules! requests {
    ($($method:literal $variant:ident($params:ty);)+) => {
        /// A request about files, decoded.
        #[derive(Debug)]
        pub(crate) enum Request {
            $($variant($params),)+
            /// `hostler/listGrants`: AHP has no word for what was granted.
            Grants,
        }

        /// The methods.
        pub(crate) const METHODS: &[&str] = &[$($method,)+ "hostler/listGrants"];

        impl Request {
            /// Reads one of the methods.
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
    /// How many bytes it carries.
    fn size(&self) -> usize {
        match self {
            Self::Write(params) => params.data.len(),
            _ => 0,
        }
    }
}
