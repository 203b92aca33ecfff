//! Where chat-completions servers differ although they speak one protocol.

use url::{Host, Url};

/// What a server understands; [`Dialect::of`] has the choice that works with most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChatDialect {
    /// The field that carries the limit of an answer.
    pub token_limit_field: TokenLimitField,
    /// How a system message is sent that stands in the middle of a conversation.
    pub late_system_role: LateSystemRole,
    /// Whether the wished effort is sent as `reasoning_effort`. Servers without reasoning models refuse that field.
    pub supports_reasoning_effort: bool,
}

/// The field for `max_tokens`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenLimitField {
    /// `max_tokens`, which everybody but OpenAI's reasoning models takes.
    MaxTokens,
    /// `max_completion_tokens`; servers that do not know it answer without a limit.
    MaxCompletionTokens,
}

/// The form of a system message that is not the first message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LateSystemRole {
    /// A system message in its place.
    System,
    /// A marked part of the user's message: the chat templates of many open models refuse a late system message.
    User,
}

impl ChatDialect {
    /// The dialect of the server at this URL.
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
    fn only_openai_itself_is_spoken_to_as_openai() {
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
