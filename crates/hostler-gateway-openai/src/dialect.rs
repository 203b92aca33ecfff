//! Differences between chat-completions servers.

use url::{Host, Url};

/// What a server supports; [`ChatDialect::for_url`] returns the choice that works with most servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChatDialect {
    /// The field for the maximum output tokens.
    pub token_limit_field: TokenLimitField,
    /// How a system message in the middle of a conversation is sent.
    pub late_system_role: LateSystemRole,
    /// Whether the effort is sent as `reasoning_effort`. Servers without reasoning models reject that field.
    pub supports_reasoning_effort: bool,
}

/// The field for `max_tokens`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenLimitField {
    /// `max_tokens`, which all servers except OpenAI's reasoning models accept.
    MaxTokens,
    /// `max_completion_tokens`; servers that do not know it apply no limit.
    MaxCompletionTokens,
}

/// The form of a system message that is not the first message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LateSystemRole {
    /// A system message at its position.
    System,
    /// A marked part of the user's message, because the chat templates of many open models reject a late system
    /// message.
    User,
}

impl ChatDialect {
    /// The dialect of the server with this URL.
    #[must_use]
    pub fn for_url(base_url: &Url) -> Self {
        let is_openai = match base_url.host() {
            Some(Host::Domain(name)) => name == "openai.com" || name.ends_with(".openai.com"),
            _ => false,
        };
        if is_openai {
            Self {
                token_limit_field: TokenLimitField::MaxCompletionTokens,
                late_system_role: LateSystemRole::System,
                supports_reasoning_effort: false,
            }
        } else {
            Self {
                token_limit_field: TokenLimitField::MaxTokens,
                late_system_role: LateSystemRole::User,
                supports_reasoning_effort: false,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_openais_own_url_gets_the_openai_dialect() {
        for (url, limit) in [
            ("https://api.openai.com/v1", TokenLimitField::MaxCompletionTokens),
            ("https://eu.api.openai.com/v1", TokenLimitField::MaxCompletionTokens),
            ("https://openai.com.example.org/v1", TokenLimitField::MaxTokens),
            ("https://notopenai.com/v1", TokenLimitField::MaxTokens),
            ("http://127.0.0.1:8000/v1", TokenLimitField::MaxTokens),
            ("http://localhost:11434", TokenLimitField::MaxTokens),
        ] {
            assert_eq!(ChatDialect::for_url(&url.parse().unwrap()).token_limit_field, limit, "{url}");
        }
    }
}
