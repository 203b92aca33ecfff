//! Options of a gateway: upstreams, limits, prices, betas. Values only; all of them can be replaced while it runs.

use std::fmt;
use std::path::PathBuf;

use hostler_redact::SafeUrl;
use secrecy::{ExposeSecret as _, SecretString};

/// Options of a gateway. Changes apply without a restart.
#[derive(Debug, Clone, PartialEq)]
pub struct GatewayOptions {
    /// Upstreams, the default first; at least one, with unique names.
    pub upstreams: Vec<UpstreamSpec>,
    /// Betas for upstreams that accept only some, if not the default ones.
    pub allowed_betas: Option<Vec<String>>,
    /// Usage limits.
    pub limits: LimitSettings,
    /// Prices that override the bundled ones.
    pub prices: Vec<PriceSettings>,
}

/// One upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamSpec {
    /// Lower-case letters, digits and dashes.
    pub name: String,
    /// Kind and address.
    pub settings: UpstreamSettings,
    /// Source of its credential.
    pub credential: CredentialSpec,
}

impl UpstreamSpec {
    /// Returns the kind of upstream.
    pub fn kind(&self) -> UpstreamKind {
        match self.settings {
            UpstreamSettings::Anthropic { .. } => UpstreamKind::Anthropic,
            UpstreamSettings::Copilot { .. } => UpstreamKind::Copilot,
            UpstreamSettings::OpenAi { .. } => UpstreamKind::OpenAi,
            UpstreamSettings::Scripted => UpstreamKind::Scripted,
        }
    }
}

/// Settings of an upstream, by kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UpstreamSettings {
    /// Anthropic, or any server of its Messages API.
    Anthropic {
        /// URL, if not Anthropic's.
        url: Option<SafeUrl>,
        /// Whether the key is sent as a bearer instead of `x-api-key`.
        bearer: bool,
    },
    /// GitHub Copilot.
    Copilot {
        /// GitHub's web URL, if not the default.
        github_url: Option<SafeUrl>,
        /// GitHub's API URL, if not the default.
        github_api_url: Option<SafeUrl>,
        /// Copilot's API URL; discovered through GitHub if absent.
        api_url: Option<SafeUrl>,
        /// Sent as the integration's id.
        integration_id: Option<String>,
        /// Client id of the OAuth application that signs in.
        client_id: Option<String>,
        /// Which key is sent to Copilot.
        mode: CopilotModeSetting,
    },
    /// An OpenAI-compatible server.
    OpenAi {
        /// URL, if not OpenAI's.
        url: Option<SafeUrl>,
        /// Field that limits the response length, if not the default for that server.
        max_tokens_field: Option<String>,
    },
    /// The built-in scripted model: offline and deterministic.
    Scripted,
}

/// Which key is sent to Copilot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CopilotModeSetting {
    /// The Copilot token that the GitHub token is exchanged for.
    #[default]
    Exchange,
    /// The GitHub token itself.
    Token,
}

/// Kinds of upstreams.
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
    /// All kinds, in the order of the help text.
    pub const ALL: [Self; 4] = [Self::Anthropic, Self::Copilot, Self::OpenAi, Self::Scripted];

    /// Returns the name that settings use.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::Copilot => "copilot",
            Self::OpenAi => "openai",
            Self::Scripted => "scripted",
        }
    }

    /// Returns the kind with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }

    /// Returns the variable in which other tools expect this upstream's credential.
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

/// Source of an upstream's credential.
#[derive(Debug, Clone)]
pub enum CredentialSpec {
    /// No credential is needed.
    None,
    /// Environment variable, read at the start.
    Variable {
        /// Name of the variable.
        name: String,
        /// Value of the variable.
        key: SecretString,
    },
    /// File, read again whenever it changes.
    File(PathBuf),
    /// Saved by `agents login`.
    Stored {
        /// Whether the settings state that it is in the keyring, also if another program saved it there.
        keyring: bool,
        /// Error for callers while there is none; without this, requests are sent without a credential.
        missing_message: Option<String>,
    },
    /// A required credential is missing; callers receive this error.
    Missing(String),
}

/// Specs are compared to find upstreams that a configuration change leaves unchanged.
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

/// Usage limits; an absent value is unlimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LimitSettings {
    /// Concurrent requests.
    pub concurrent: Option<u64>,
    /// Requests within one minute.
    pub requests_per_minute: Option<u64>,
    /// Requests of one session.
    pub session_requests: Option<u64>,
    /// Tokens of one session.
    pub session_tokens: Option<u64>,
    /// Dollars of one session.
    pub session_dollars: Option<DollarAmount>,
    /// Requests of one day.
    pub day_requests: Option<u64>,
    /// Tokens of one day.
    pub day_tokens: Option<u64>,
    /// Dollars of one day.
    pub day_dollars: Option<DollarAmount>,
}

impl LimitSettings {
    /// Returns whether anything is limited, so that usage must be stored durably.
    pub fn has_limits(&self) -> bool {
        *self != Self::default()
    }
}

/// Price of a model, per million tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PriceSettings {
    /// Model id, or a prefix followed by `*`.
    pub model: String,
    /// Input tokens.
    pub input: DollarAmount,
    /// Output tokens.
    pub output: DollarAmount,
    /// Tokens read from the cache, if not in the default ratio to `input`.
    pub cache_read: Option<DollarAmount>,
    /// Tokens written to the cache, if not in the default ratio to `input`.
    pub cache_write: Option<DollarAmount>,
}

/// Amount of money, exact to a billionth of a dollar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct DollarAmount {
    /// Billionths of a dollar.
    pub nanos: u64,
}

impl DollarAmount {
    /// Parses a decimal number such as `3` or `0.25`; `None` if it is invalid, negative or too large.
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
    fn dollar_amounts_are_parsed_exactly_or_rejected() {
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
    fn credential_specs_compare_keys_and_debug_redacts_them() {
        let spec = |key: &str| CredentialSpec::Variable { name: "A".to_owned(), key: key.to_owned().into() };
        assert_eq!(spec("sk-one"), spec("sk-one"));
        assert_ne!(spec("sk-one"), spec("sk-two"));
        assert_ne!(spec("sk-one"), CredentialSpec::None);
        assert!(!format!("{:?}", spec("sk-one")).contains("sk-one"));
    }
}
