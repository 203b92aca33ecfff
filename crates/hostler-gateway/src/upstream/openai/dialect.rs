//! Where chat-completions servers differ although they speak one protocol.

use url::{Host, Url};

/// What a server understands; [`Dialect::of`] has the choice that works with most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dialect {
    /// The field that carries the limit of an answer.
    pub token_limit: TokenLimit,
    /// How a system message is sent that stands in the middle of a conversation.
    pub later_system: LaterSystem,
    /// Whether the wished effort is sent as `reasoning_effort`. Servers without reasoning models refuse that field.
    pub reasoning_effort: bool,
}

/// The field for `max_tokens`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenLimit {
    /// `max_tokens`, which everybody but OpenAI's reasoning models takes.
    MaxTokens,
    /// `max_completion_tokens`; servers that do not know it answer without a limit.
    MaxCompletionTokens,
}

/// The form of a system message that is not the first message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LaterSystem {
    /// A system message in its place.
    System,
    /// A marked part of the user's message: the chat templates of many open models refuse a late system message.
    User,
}

impl Dialect {
    /// The dialect of the server at this URL.
    #[must_use]
    pub fn of(base_url: &Url) -> Self {
        let is_openai = match base_url.host() {
            Some(Host::Domain(name)) => name == "openai.com" || name.ends_with(".openai.com"),
            _ => false,
        };
        if is_openai {
            Self {
                token_limit: TokenLimit::MaxCompletionTokens,
                later_system: LaterSystem::System,
                reasoning_effort: false,
            }
        } else {
            Self { token_limit: TokenLimit::MaxTokens, later_system: LaterSystem::User, reasoning_effort: false }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_openai_itself_is_spoken_to_as_openai() {
        for (url, limit) in [
            ("https://api.openai.com/v1", TokenLimit::MaxCompletionTokens),
            ("https://eu.api.openai.com/v1", TokenLimit::MaxCompletionTokens),
            ("https://openai.com.example.org/v1", TokenLimit::MaxTokens),
            ("https://notopenai.com/v1", TokenLimit::MaxTokens),
            ("http://127.0.0.1:8000/v1", TokenLimit::MaxTokens),
            ("http://localhost:11434", TokenLimit::MaxTokens),
        ] {
            assert_eq!(Dialect::of(&url.parse().unwrap()).token_limit, limit, "{url}");
        }
    }
}
