//! What a gateway is told: upstreams, limits, prices, betas. Values only; they can be exchanged while it runs.

use std::fmt;
use std::path::PathBuf;

use hostler_redact::SafeUrl;
use secrecy::{ExposeSecret as _, SecretString};

/// How a gateway answers. Everything here counts without a restart when it changes.
#[derive(Debug, Clone, PartialEq)]
pub struct GatewayOptions {
    /// The upstreams, the default first; at least one, no name twice.
    pub upstreams: Vec<UpstreamSpec>,
    /// The betas that upstreams which take only some are told, if not the usual ones.
    pub allowed_betas: Option<Vec<String>>,
    /// What may be used.
    pub limits: LimitSettings,
    /// What models cost, where it is not as bundled.
    pub prices: Vec<PriceSettings>,
}

/// One upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamSpec {
    /// Lower-case letters, digits and dashes.
    pub name: String,
    /// What it is and where.
    pub settings: UpstreamSettings,
    /// Where its credential comes from.
    pub credential: CredentialSpec,
}

impl UpstreamSpec {
    /// What kind of upstream it is.
    pub fn kind(&self) -> UpstreamKind {
        match self.settings {
            UpstreamSettings::Anthropic { .. } => UpstreamKind::Anthropic,
            UpstreamSettings::Copilot { .. } => UpstreamKind::Copilot,
            UpstreamSettings::OpenAi { .. } => UpstreamKind::OpenAi,
            UpstreamSettings::Scripted => UpstreamKind::Scripted,
        }
    }
}

/// What an upstream is and where, per kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UpstreamSettings {
    /// Anthropic, or any server of its Messages API.
    Anthropic {
        /// Where, if not at Anthropic.
        url: Option<SafeUrl>,
        /// Whether the key is sent as a bearer and not as `x-api-key`.
        bearer: bool,
    },
    /// GitHub Copilot.
    Copilot {
        /// GitHub's web address, if not the usual one.
        github_url: Option<SafeUrl>,
        /// GitHub's API, if not the usual one.
        github_api_url: Option<SafeUrl>,
        /// Copilot's API; found out through GitHub if absent.
        api_url: Option<SafeUrl>,
        /// Sent as the integration's id.
        integration_id: Option<String>,
        /// The OAuth application that signs in.
        client_id: Option<String>,
        /// What is sent to Copilot as the key.
        mode: CopilotModeSetting,
    },
    /// An OpenAI-compatible server.
    OpenAi {
        /// Where, if not at OpenAI.
        url: Option<SafeUrl>,
        /// The field that limits an answer, if not the usual one of that server.
        max_tokens_field: Option<String>,
    },
    /// The built-in scripted model: offline and deterministic.
    Scripted,
}

/// What is sent to Copilot as the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CopilotModeSetting {
    /// What the GitHub token is exchanged for.
    #[default]
    Exchange,
    /// The GitHub token itself.
    Token,
}

/// The kinds of upstreams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpstreamKind {
    /// Anthropic, or any server of its Messages API.
    Anthropic,
    /// GitHub Copilot.
    Copilot,
    /// An OpenAI-compatible server.
    OpenAi,
    /// The built-in scripted model.
    Scripted,
}

impl UpstreamKind {
    /// All of them, in the order of the help text.
    pub const ALL: [Self; 4] = [Self::Anthropic, Self::Copilot, Self::OpenAi, Self::Scripted];

    /// The name that settings use.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::Copilot => "copilot",
            Self::OpenAi => "openai",
            Self::Scripted => "scripted",
        }
    }

    /// The kind of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }

    /// The variable that other tools keep this upstream's credential in.
    pub fn default_key_variable(self) -> Option<&'static str> {
        match self {
            Self::Anthropic => Some("ANTHROPIC_API_KEY"),
            Self::Copilot => Some("GITHUB_TOKEN"),
            Self::OpenAi => Some("OPENAI_API_KEY"),
            Self::Scripted => None,
        }
    }
}

impl fmt::Display for UpstreamKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Where an upstream's credential comes from.
#[derive(Debug, Clone)]
pub enum CredentialSpec {
    /// It needs none.
    None,
    /// From a variable of the environment, which was read at the start.
    Variable {
        /// The variable.
        name: String,
        /// What it held.
        key: SecretString,
    },
    /// From a file, read again whenever it changes.
    File(PathBuf),
    /// From where somebody logged in.
    Stored {
        /// Whether the settings say that it is in the keyring, whoever put it there.
        keyring: bool,
        /// What callers are told as long as there is none; without it they are let through.
        missing_message: Option<String>,
    },
    /// It should be there and is not; callers are told this.
    Missing(String),
}

/// Specs are compared to find out what a changed configuration leaves as it was.
impl PartialEq for CredentialSpec {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::None, Self::None) => true,
            (Self::Variable { name, key }, Self::Variable { name: other_name, key: other_key }) => {
                name == other_name && key.expose_secret() == other_key.expose_secret()
            }
            (Self::File(path), Self::File(other)) => path == other,
            (
                Self::Stored { keyring, missing_message: missing },
                Self::Stored { keyring: other_keyring, missing_message: other_missing },
            ) => keyring == other_keyring && missing == other_missing,
            (Self::Missing(sentence), Self::Missing(other)) => sentence == other,
            _ => false,
        }
    }
}

impl Eq for CredentialSpec {}

/// What may be used; what is absent is not limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LimitSettings {
    /// Requests at the same time.
    pub concurrent: Option<u64>,
    /// Requests within any minute.
    pub requests_per_minute: Option<u64>,
    /// Requests of one session.
    pub session_requests: Option<u64>,
    /// Tokens of one session.
    pub session_tokens: Option<u64>,
    /// Money of one session.
    pub session_dollars: Option<DollarAmount>,
    /// Requests of one day.
    pub day_requests: Option<u64>,
    /// Tokens of one day.
    pub day_tokens: Option<u64>,
    /// Money of one day.
    pub day_dollars: Option<DollarAmount>,
}

impl LimitSettings {
    /// Whether anything is limited, so that what is used must be counted durably.
    pub fn has_limits(&self) -> bool {
        *self != Self::default()
    }
}

/// What a model costs, per million tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PriceSettings {
    /// The model's id, or the beginning of one with a `*` at its end.
    pub model: String,
    /// Tokens that are read.
    pub input: DollarAmount,
    /// Tokens that are written.
    pub output: DollarAmount,
    /// Tokens that are read from the cache, if not in the usual ratio to `input`.
    pub cache_read: Option<DollarAmount>,
    /// Tokens that are written to the cache, if not in the usual ratio to `input`.
    pub cache_write: Option<DollarAmount>,
}

/// An amount of money, exact to a billionth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct DollarAmount {
    /// Billionths of a dollar.
    pub nanos: u64,
}

impl DollarAmount {
    /// Reads a plain decimal number such as `3` or `0.25`; nothing if it is none, is negative or does not fit.
    pub fn parse(text: &str) -> Option<Self> {
        let (whole, part) = text.split_once('.').unwrap_or((text, ""));
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if whole.is_empty() || !digits(whole) || !digits(part) || part.len() > 9 || text.ends_with('.') {
            return None;
        }
        let whole: u64 = whole.parse().ok()?;
        let part: u64 = format!("{part:0<9}").parse().ok()?;
        Some(Self { nanos: whole.checked_mul(1_000_000_000)?.checked_add(part)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn money_is_read_exactly_or_not_at_all() {
        for (text, nanos) in [
            ("3", Some(3_000_000_000)),
            ("0.25", Some(250_000_000)),
            ("0.000000001", Some(1)),
            ("18446744073", Some(18_446_744_073_000_000_000)),
            ("18446744074", None),
            ("0.0000000001", None),
            ("", None),
            (".5", None),
            ("5.", None),
            ("-1", None),
            ("1e3", None),
            ("inf", None),
        ] {
            assert_eq!(DollarAmount::parse(text).map(|dollars| dollars.nanos), nanos, "{text}");
        }
    }

    #[test]
    fn a_spec_is_the_same_only_with_the_same_key_and_never_shows_it() {
        let spec = |key: &str| CredentialSpec::Variable { name: "A".to_owned(), key: key.to_owned().into() };
        assert_eq!(spec("sk-one"), spec("sk-one"));
        assert_ne!(spec("sk-one"), spec("sk-two"));
        assert_ne!(spec("sk-one"), CredentialSpec::None);
        assert!(!format!("{:?}", spec("sk-one")).contains("sk-one"));
    }
}
