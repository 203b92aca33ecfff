//! JSON-RPC 2.0: classifies incoming messages, and defines errors with AHP's codes.

use ahp_types::errors::{AuthRequiredErrorData, PermissionDeniedErrorData, ahp_error_codes, json_rpc_error_codes};
use hostler_engine::{EngineError, TerminalError, TrustError};
use serde::Deserialize as _;
use serde_json::{Map, Value, json};

/// Maximum length of an error message from a client.
const MAX_CLIENT_ERROR_CHARS: usize = 1000;

/// A request's id, echoed unchanged.
pub(crate) type JsonRpcId = Value;

/// One message of a client.
#[derive(Debug, PartialEq)]
pub(crate) enum IncomingMessage {
    Request {
        id: JsonRpcId,
        method: String,
        params: Value,
    },
    Notification {
        method: String,
        params: Value,
    },
    /// Answer to a host-to-client request.
    Response {
        id: JsonRpcId,
        result: Result<Value, RpcError>,
    },
}

/// Parses a frame. The error is the answer to send.
pub(crate) fn parse_message(text: &str) -> Result<IncomingMessage, (JsonRpcId, RpcError)> {
    let value: Value = serde_json::from_str(text).map_err(|_| {
        (Value::Null, RpcError::new(json_rpc_error_codes::PARSE_ERROR, "the frame is not one JSON message"))
    })?;
    let Value::Object(mut message) = value else {
        let error = "a frame holds one JSON object; batches are not supported";
        return Err((Value::Null, RpcError::new(json_rpc_error_codes::INVALID_REQUEST, error)));
    };
    let id = message.remove("id").filter(|id| !id.is_null());
    if id.as_ref().is_some_and(|id| !can_be_echoed(id)) {
        let error = "a request's id is a string or a whole number of at most 64 bits";
        return Err((Value::Null, RpcError::new(json_rpc_error_codes::INVALID_REQUEST, error)));
    }
    let Some(method) = message.remove("method") else {
        let id = id.clone().unwrap_or(Value::Null);
        if let Some(error) = message.remove("error") {
            return Ok(IncomingMessage::Response { id, result: Err(RpcError::from_response(&error)) });
        }
        if let Some(result) = message.remove("result") {
            return Ok(IncomingMessage::Response { id, result: Ok(result) });
        }
        let error = RpcError::new(json_rpc_error_codes::INVALID_REQUEST, "the message has no method");
        return Err((id, error));
    };
    let Value::String(method) = method else {
        let error = RpcError::new(json_rpc_error_codes::INVALID_REQUEST, "the method is not a string");
        return Err((id.unwrap_or(Value::Null), error));
    };
    let params = message.remove("params").unwrap_or(Value::Null);
    Ok(match id {
        Some(id) => IncomingMessage::Request { id, method, params },
        None => IncomingMessage::Notification { method, params },
    })
}

/// Whether an id can be echoed unchanged. Other numbers would be rounded, and the client would wait for its answer
/// forever.
fn can_be_echoed(id: &Value) -> bool {
    id.is_string() || id.is_i64() || id.is_u64()
}

/// An error as clients receive it: AHP's code, a message for display, and data, which contains the host's own code.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RpcError {
    pub(crate) code: i32,
    pub(crate) message: String,
    pub(crate) data: Option<Value>,
    /// The host's own code; by default the name of AHP's code.
    reason_code: &'static str,
}

impl RpcError {
    pub(crate) fn new(code: i32, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None, reason_code: default_reason_code(code) }
    }

    pub(crate) fn invalid_params(message: impl Into<String>) -> Self {
        Self::new(json_rpc_error_codes::INVALID_PARAMS, message)
    }

    pub(crate) fn unknown_method(method: &str) -> Self {
        Self::new(json_rpc_error_codes::METHOD_NOT_FOUND, format!("this host has no method {method:?}"))
    }

    /// Converts a client's error answer. Its message is returned to the same client only.
    fn from_response(error: &Value) -> Self {
        let code = error.get("code").and_then(Value::as_i64).and_then(|code| i32::try_from(code).ok());
        let code = code.unwrap_or(json_rpc_error_codes::INTERNAL_ERROR);
        let sentence = error.get("message").and_then(Value::as_str).filter(|sentence| !sentence.is_empty());
        let sentence: String = sentence.unwrap_or("the client refused").chars().take(MAX_CLIENT_ERROR_CHARS).collect();
        // It names the access to request.
        let data = error.get("data").filter(|_| code == ahp_error_codes::PERMISSION_DENIED);
        let data = data.and_then(|data| PermissionDeniedErrorData::deserialize(data).ok());
        Self { data: data.and_then(|data| serde_json::to_value(data).ok()), ..Self::new(code, sentence) }
    }

    pub(crate) fn with_data(mut self, data: Value) -> Self {
        self.data = Some(data);
        self
    }

    /// Sets the host's own code of the error.
    pub(crate) fn with_reason_code(mut self, code: &'static str) -> Self {
        self.reason_code = code;
        self
    }

    /// The `error` member of an answer. The host's own code is `data.code`.
    pub(crate) fn into_json(self) -> Value {
        let mut data = match self.data {
            Some(Value::Object(data)) => data,
            Some(other) => Map::from_iter([("value".to_owned(), other)]),
            None => Map::new(),
        };
        data.entry("code").or_insert_with(|| self.reason_code.into());
        json!({"code": self.code, "message": self.message, "data": data})
    }
}

/// The name of one of AHP's codes, for errors without a code of their own.
fn default_reason_code(code: i32) -> &'static str {
    match code {
        json_rpc_error_codes::PARSE_ERROR => "parseError",
        json_rpc_error_codes::INVALID_REQUEST => "invalidRequest",
        json_rpc_error_codes::METHOD_NOT_FOUND => "methodNotFound",
        json_rpc_error_codes::INVALID_PARAMS => "invalidParams",
        ahp_error_codes::SESSION_NOT_FOUND => "sessionNotFound",
        ahp_error_codes::PROVIDER_NOT_FOUND => "providerNotFound",
        ahp_error_codes::SESSION_ALREADY_EXISTS => "sessionExists",
        ahp_error_codes::UNSUPPORTED_PROTOCOL_VERSION => "unsupportedProtocolVersion",
        ahp_error_codes::AUTH_REQUIRED => "signInNeeded",
        ahp_error_codes::NOT_FOUND => "notFound",
        ahp_error_codes::PERMISSION_DENIED => "permissionDenied",
        ahp_error_codes::ALREADY_EXISTS => "alreadyExists",
        ahp_error_codes::CONFLICT => "conflict",
        _ => "internalError",
    }
}

impl From<EngineError> for RpcError {
    fn from(error: EngineError) -> Self {
        let code = match &error {
            EngineError::ChannelNotFound(_) | EngineError::SessionNotFound(_) => ahp_error_codes::SESSION_NOT_FOUND,
            EngineError::SessionExists(_) => ahp_error_codes::SESSION_ALREADY_EXISTS,
            EngineError::ProviderNotFound(_) => ahp_error_codes::PROVIDER_NOT_FOUND,
            EngineError::ClientUnknown | EngineError::ContentNotFound(_) => ahp_error_codes::NOT_FOUND,
            EngineError::SignInNeeded { .. } => ahp_error_codes::AUTH_REQUIRED,
            EngineError::Trust(TrustError::NotAFolder { .. }) => ahp_error_codes::NOT_FOUND,
            EngineError::Trust(TrustError::Changed { .. }) => ahp_error_codes::CONFLICT,
            EngineError::Trust(TrustError::File(_) | TrustError::TooManyFolders) => {
                json_rpc_error_codes::INTERNAL_ERROR
            }
            EngineError::InvalidParams(_)
            | EngineError::Trust(_)
            | EngineError::ActiveElsewhere
            | EngineError::BackgroundWorkNotFound(_)
            | EngineError::BackgroundWorkEnded(_)
            | EngineError::BackgroundOutputUnavailable { .. }
            | EngineError::Agent(_)
            | EngineError::ImageRemoval(_) => json_rpc_error_codes::INVALID_PARAMS,
            EngineError::Store(_)
            | EngineError::Rules(_)
            | EngineError::TranscriptStore(_)
            | EngineError::ImportIncomplete(_)
            | EngineError::Search(_)
            | EngineError::PromptIdKey(_)
            | EngineError::NoDriver
            | EngineError::TaskFailed(_)
            | EngineError::Stopping => json_rpc_error_codes::INTERNAL_ERROR,
        };
        let (message, reason_code) = (error.to_string(), error.code());
        let data = match error {
            EngineError::SignInNeeded { resources, .. } => {
                serde_json::to_value(AuthRequiredErrorData { resources }).ok()
            }
            _ => None,
        };
        Self { data, ..Self::new(code, message) }.with_reason_code(reason_code)
    }
}

impl From<TerminalError> for RpcError {
    fn from(error: TerminalError) -> Self {
        let reason_code = error.code();
        let code = match error {
            TerminalError::Directory(error) => return error.into(),
            TerminalError::Engine(error) => return error.into(),
            TerminalError::Disabled => ahp_error_codes::PERMISSION_DENIED,
            TerminalError::AlreadyExists(_) => ahp_error_codes::ALREADY_EXISTS,
            TerminalError::NotFound(_) => ahp_error_codes::NOT_FOUND,
            TerminalError::InvalidUri(_) | TerminalError::Action(_) => json_rpc_error_codes::INVALID_PARAMS,
            TerminalError::TooMany(_) | TerminalError::ShellStartFailed(_) => json_rpc_error_codes::INTERNAL_ERROR,
        };
        Self::new(code, error.to_string()).with_reason_code(reason_code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn string_ids_make_requests_and_null_ids_make_notifications() {
        let request = parse_message(r#"{"jsonrpc":"2.0","id":"seven","method":"ping"}"#);
        assert_eq!(
            request,
            Ok(IncomingMessage::Request { id: json!("seven"), method: "ping".into(), params: Value::Null })
        );
        let notification = parse_message(r#"{"id":null,"method":"unsubscribe","params":{"channel":"x"}}"#);
        assert!(matches!(notification, Ok(IncomingMessage::Notification { method, .. }) if method == "unsubscribe"));
    }

    #[test]
    fn malformed_messages_are_answered_with_errors() {
        let code = |text: &str| parse_message(text).err().map(|(_, error)| error.code);
        assert_eq!(code("{"), Some(-32700));
        assert_eq!(code("[]"), Some(-32600));
        assert_eq!(code("7"), Some(-32600));
        assert_eq!(code(r#"{"id":1}"#), Some(-32600));
        assert_eq!(code(r#"{"id":1,"method":{}}"#), Some(-32600));
    }

    #[test]
    fn an_id_that_cannot_be_echoed_unchanged_is_refused() {
        for id in ["1.5", "1e3", "3333333333333333333333333333333333333331", "true", "[1]", "{}"] {
            let (echoed, error) = parse_message(&format!(r#"{{"id":{id},"method":"ping"}}"#)).unwrap_err();
            assert_eq!((echoed, error.code), (Value::Null, -32600), "{id}");
        }
        for id in ["0", "-9223372036854775808", "18446744073709551615", r#""""#] {
            assert!(parse_message(&format!(r#"{{"id":{id},"method":"ping"}}"#)).is_ok(), "{id}");
        }
    }

    #[test]
    fn every_error_has_a_code_of_the_host_in_its_data() {
        let code = |error: RpcError| error.into_json()["data"]["code"].clone();
        assert_eq!(code(EngineError::SessionNotFound("claude:/1".to_owned()).into()), "sessionNotFound");
        assert_eq!(code(TerminalError::Disabled.into()), "terminalsDisabled");
        let cursor = EngineError::InvalidParams(hostler_engine::InvalidParams::SessionCursor);
        assert_eq!(code(cursor.into()), "invalidCursor");
        assert_eq!(code(RpcError::unknown_method("x")), "methodNotFound");
        assert_eq!(code(RpcError::new(-1, "unknown")), "internalError");
        assert_eq!(code(RpcError::invalid_params("x").with_reason_code("invalidTitle")), "invalidTitle");
    }

    #[test]
    fn host_code_is_merged_into_existing_data() {
        let error = EngineError::SignInNeeded { message: "Sign in first.".to_owned(), resources: Vec::new() };
        let body = RpcError::from(error).into_json();
        assert_eq!(body["data"], json!({"code": "signInNeeded", "resources": []}));
        assert!(serde_json::from_value::<AuthRequiredErrorData>(body["data"].clone()).is_ok());
        let named = RpcError::new(-32603, "x").with_data(json!({"reason": "client_busy"})).into_json();
        assert_eq!(named["data"], json!({"code": "internalError", "reason": "client_busy"}));
    }

    #[test]
    fn answers_are_distinguished_from_requests() {
        let answer = |text: &str| match parse_message(text) {
            Ok(IncomingMessage::Response { id, result }) => (id, result.map_err(|error| error.code)),
            other => panic!("{other:?}"),
        };
        assert_eq!(answer(r#"{"id":1,"result":null}"#), (json!(1), Ok(Value::Null)));
        assert_eq!(answer(r#"{"id":"x","error":{"code":-32009,"message":"no"}}"#), (json!("x"), Err(-32009)));
        assert_eq!(answer(r#"{"id":null,"error":"what"}"#), (Value::Null, Err(-32603)));
    }
}
