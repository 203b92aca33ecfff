//! URIs of channels. VS Code derives the default chat's URI by itself, so its form is fixed.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use uuid::Uuid;

/// The root channel.
pub const ROOT_CHANNEL_URI: &str = ahp_types::ROOT_RESOURCE_URI;

const CHAT_SCHEME: &str = "ahp-chat:";
const DEFAULT_CHAT_PREFIX: &str = "ahp-chat://default/";
/// Scheme of terminal channels.
pub(crate) const TERMINAL_SCHEME: &str = "ahp-terminal:";

/// Scheme of VS Code's terminals.
const VSCODE_TERMINAL_SCHEME: &str = "agenthost-terminal:";

/// Maximum length of a URI that a client may choose.
pub(crate) const MAX_URI_BYTES: usize = 512;

/// Prefix of watch channels.
pub(crate) const RESOURCE_WATCH_PREFIX: &str = "ahp-resource-watch:/";

const SUB_AGENT_CHAT_PREFIX: &str = "ahp-chat://subagent/";
const ANNOTATIONS_SUFFIX: &str = "/annotations";

/// Whether a URI can name a session: its scheme is valid and none of the protocol's own.
pub fn is_session_uri(uri: &str) -> bool {
    let Some((scheme, rest)) = uri.split_once(':') else { return false };
    let mut letters = scheme.bytes();
    letters.next().is_some_and(|b| b.is_ascii_lowercase())
        && letters.all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"+.-".contains(&b))
        && !rest.is_empty()
        && uri.len() <= MAX_URI_BYTES
        && (!scheme.starts_with("ahp-") || scheme == "ahp-session")
        && scheme != "file"
        && scheme != "mcp"
        && !is_terminal_channel(uri)
        && !uri.ends_with(ANNOTATIONS_SUFFIX)
}

/// Whether a channel's URI is a terminal's.
pub fn is_terminal_channel(channel: &str) -> bool {
    channel.starts_with(TERMINAL_SCHEME) || channel.starts_with(VSCODE_TERMINAL_SCHEME)
}

/// Whether a client may use a URI for a terminal.
pub(crate) fn is_terminal_uri(uri: &str) -> bool {
    let named = uri.split_once(':').is_some_and(|(_, name)| !name.trim_matches('/').is_empty());
    is_terminal_channel(uri) && named && uri.len() <= MAX_URI_BYTES && !uri.contains(|letter: char| letter.is_control())
}

/// The annotations channel of a session.
pub fn annotations_uri(session: &str) -> String {
    format!("{session}{ANNOTATIONS_SUFFIX}")
}

/// The session of an annotations channel.
pub fn annotated_session(channel: &str) -> Option<&str> {
    channel.strip_suffix(ANNOTATIONS_SUFFIX).filter(|session| is_session_uri(session))
}

/// The URI of a session's default chat.
pub fn default_chat_uri(session: &str) -> String {
    format!("{DEFAULT_CHAT_PREFIX}{}", URL_SAFE_NO_PAD.encode(session))
}

/// The URI of the chat of a sub-agent that a call started.
pub fn sub_agent_chat_uri(session: &str, call: &str) -> String {
    // Bytes that are not allowed in a URI path are percent-encoded, as VS Code does.
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.!~*'()".contains(byte);
    let mut name = String::with_capacity(call.len());
    for byte in call.bytes() {
        match plain(&byte) {
            true => name.push(char::from(byte)),
            false => name.push_str(&format!("%{byte:02X}")),
        }
    }
    format!("{SUB_AGENT_CHAT_PREFIX}{}/{name}", URL_SAFE_NO_PAD.encode(session))
}

/// Whether a channel is a sub-agent chat, which may be created a moment later.
pub(crate) fn is_sub_agent_chat(channel: &str) -> bool {
    channel.starts_with(SUB_AGENT_CHAT_PREFIX)
}

/// The session of a channel: the channel itself, or the session in a chat's URI.
pub fn session_of(channel: &str) -> Option<String> {
    if let Some(session) = annotated_session(channel) {
        return Some(session.to_owned());
    }
    if !channel.starts_with(CHAT_SCHEME) {
        return is_session_uri(channel).then(|| channel.to_owned());
    }
    let encoded = match channel.strip_prefix(SUB_AGENT_CHAT_PREFIX) {
        Some(worker) => worker.split_once('/')?.0,
        None => channel.strip_prefix(DEFAULT_CHAT_PREFIX)?,
    };
    let bytes = URL_SAFE_NO_PAD.decode(encoded).ok()?;
    let session = String::from_utf8(bytes).ok()?;
    is_session_uri(&session).then_some(session)
}

/// The conversation id of a session: the UUID in its path, or a new one.
pub(crate) fn conversation_id(session: &str) -> Uuid {
    session
        .split_once(':')
        .and_then(|(_, path)| Uuid::try_parse(path.trim_start_matches('/')).ok())
        .unwrap_or_else(Uuid::new_v4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_chat_uri_maps_back_to_its_session() {
        let session = "claude:/0b9e3c5e-8f2b-4a36-9f61-0e8f2b4a369f";
        assert_eq!(session_of(&default_chat_uri(session)).as_deref(), Some(session));
        assert_eq!(session_of(session).as_deref(), Some(session));
    }

    #[test]
    fn sub_agent_chat_uri_maps_back_to_its_session() {
        let chat = sub_agent_chat_uri("claude:/s", "toolu_1/ü");
        assert_eq!(chat, "ahp-chat://subagent/Y2xhdWRlOi9z/toolu_1%2F%C3%BC");
        assert_eq!(session_of(&chat).as_deref(), Some("claude:/s"));
        assert!(is_sub_agent_chat(&chat) && !is_sub_agent_chat(&default_chat_uri("claude:/s")));
    }

    #[test]
    fn annotations_uri_maps_back_to_its_session_and_is_no_session() {
        let channel = annotations_uri("claude:/s");
        assert_eq!((session_of(&channel).as_deref(), is_session_uri(&channel)), (Some("claude:/s"), false));
        assert_eq!(session_of("ahp-chat://default/x/annotations"), None);
    }

    #[test]
    fn channels_of_other_kinds_have_no_session() {
        for channel in
            [ROOT_CHANNEL_URI, "ahp-chat://default/%%%", "ahp-terminal:/1", "", "noscheme", "file:///x", "Claude:/x"]
        {
            assert_eq!(session_of(channel), None, "{channel}");
        }
    }

    #[test]
    fn terminal_uris_use_the_protocol_or_vs_code_scheme() {
        for uri in ["ahp-terminal:/1", "agenthost-terminal:/1", "agenthost-terminal://shell/1", "ahp-terminal:x"] {
            assert!(is_terminal_uri(uri) && !is_session_uri(uri), "{uri}");
        }
        for uri in ["ahp-terminal:", "ahp-terminal:///", "claude:/1", "ahp-terminal:/a\nb", "terminal:/1", ""] {
            assert!(!is_terminal_uri(uri), "{uri}");
        }
        assert!(!is_terminal_uri(&format!("ahp-terminal:/{}", "x".repeat(MAX_URI_BYTES))));
    }

    #[test]
    fn session_without_a_uuid_gets_a_new_conversation_id() {
        assert_ne!(conversation_id("claude:/mine"), conversation_id("claude:/mine"));
        let id = "0b9e3c5e-8f2b-4a36-9f61-0e8f2b4a369f";
        assert_eq!(conversation_id(&format!("claude:/{id}")).to_string(), id);
    }
}
