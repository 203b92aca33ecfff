//! Converts file errors to AHP's error codes.

use std::io::ErrorKind;

use ahp_types::ROOT_RESOURCE_URI;
use ahp_types::commands::ResourceRequestParams;
use ahp_types::errors::{PermissionDeniedErrorData, ahp_error_codes, json_rpc_error_codes};
use hostler_engine::{FileAccess, FileError, ResourceError};

use crate::rpc::RpcError;

impl From<ResourceError> for RpcError {
    fn from(error: ResourceError) -> Self {
        let (sentence, reason_code) = (error.to_string(), error.code());
        let error = match error {
            ResourceError::Denied { uri, access, .. } => permission_denied(uri, access, sentence),
            ResourceError::File { error, .. } => Self::new(error_code(&error), sentence),
            ResourceError::GrantNotFound(_) => Self::new(ahp_error_codes::NOT_FOUND, sentence),
            ResourceError::TooManyGrants { .. } | ResourceError::TooManyWatches { .. } => {
                Self::new(json_rpc_error_codes::INTERNAL_ERROR, sentence)
            }
            ResourceError::InvalidPattern(_) => Self::invalid_params(sentence),
            ResourceError::Engine(error) => error.into(),
        };
        error.with_reason_code(reason_code)
    }
}

/// An error that names the access to request.
fn permission_denied(uri: String, access: FileAccess, sentence: String) -> RpcError {
    let write = (access == FileAccess::Write).then_some(true);
    let read = write.is_none().then_some(true);
    let request = ResourceRequestParams { channel: ROOT_RESOURCE_URI.to_owned(), meta: None, uri, read, write };
    let data = PermissionDeniedErrorData { request: Some(request) };
    RpcError::new(ahp_error_codes::PERMISSION_DENIED, sentence)
        .with_data(serde_json::to_value(data).unwrap_or_default())
}

fn error_code(error: &FileError) -> i32 {
    match error {
        FileError::NotFound | FileError::WrongKind | FileError::LinkLoop => ahp_error_codes::NOT_FOUND,
        FileError::Outside | FileError::Private | FileError::Special | FileError::MountPoint => {
            ahp_error_codes::PERMISSION_DENIED
        }
        FileError::AlreadyExists => ahp_error_codes::ALREADY_EXISTS,
        FileError::Conflict | FileError::Changed => ahp_error_codes::CONFLICT,
        FileError::NotEmpty
        | FileError::Nested
        | FileError::InvalidName(_)
        | FileError::TooLarge(_)
        | FileError::TooMany(_)
        | FileError::TooDeep(_) => json_rpc_error_codes::INVALID_PARAMS,
        FileError::Io(error) => match error.kind() {
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem | ErrorKind::ResourceBusy => {
                ahp_error_codes::PERMISSION_DENIED
            }
            // No file can have such a name.
            ErrorKind::InvalidFilename => ahp_error_codes::NOT_FOUND,
            _ => json_rpc_error_codes::INTERNAL_ERROR,
        },
    }
}
