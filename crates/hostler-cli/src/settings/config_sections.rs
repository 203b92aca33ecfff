//! Parses the tables of the configuration file: `[upstreams.NAME]`, `[limits]` and `[prices."MODEL"]`.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use hostler_redact::SafeUrl;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::SettingsError;
use super::parse_values::parse_url;
use crate::ports::{CopilotModeSetting, DollarAmount, LimitSettings, PriceSettings, UpstreamKind, UpstreamSettings};

/// Upstream from the file.
#[derive(Clone)]
pub(crate) struct UpstreamSection {
    pub(super) name: String,
    pub(super) settings: UpstreamSettings,
    pub(super) key_source: Option<UpstreamKeySource>,
    /// Whether it has a custom URL; only keys that were configured for it are sent there.
    pub(super) has_custom_url: bool,
}

/// Configured source of an upstream's key.
#[derive(Clone)]
pub(crate) enum UpstreamKeySource {
    Variable { name: String, origin: String },
    File(PathBuf),
    Keyring,
}

/// Parser of the tables. Collects warnings about ignored input.
pub(super) struct SectionParser<'a> {
    /// Returns the line of an offset, for messages.
    pub(super) locate: &'a dyn Fn(usize) -> String,
    /// Path of the file, for relative paths.
    pub(super) path: &'a Path,
    pub(super) warnings: &'a mut Vec<String>,
}

/// One `name = value` of a table.
struct TableField<'a> {
    name: &'a str,
    value: &'a DeValue<'a>,
    origin: String,
}

impl TableField<'_> {
    fn invalid(&self, expected: &str) -> SettingsError {
        SettingsError::Invalid { origin: self.origin.clone(), expected: expected.to_owned() }
    }

    fn text(&self) -> Result<String, SettingsError> {
        let text = self.value.as_str().filter(|text| !text.is_empty());
        text.map(str::to_owned).ok_or_else(|| self.invalid("a string"))
    }

    fn url(&self) -> Result<SafeUrl, SettingsError> {
        parse_url(&self.text()?).map_err(|error| self.invalid(&error.expected))
    }

    fn boolean(&self) -> Result<bool, SettingsError> {
        self.value.as_bool().ok_or_else(|| self.invalid("true or false"))
    }

    fn count(&self) -> Result<u64, SettingsError> {
        let count = match self.value {
            DeValue::Integer(number) if number.radix() == 10 => number.as_str().parse().ok(),
            _ => None,
        };
        count.filter(|count| *count > 0).ok_or_else(|| self.invalid("a whole number above 0"))
    }

    fn dollars(&self) -> Result<DollarAmount, SettingsError> {
        let dollars = match self.value {
            DeValue::Integer(number) if number.radix() == 10 => DollarAmount::parse(number.as_str()),
            DeValue::Float(number) => DollarAmount::parse(number.as_str()),
            _ => None,
        };
        dollars.ok_or_else(|| self.invalid("an amount in dollars such as 2.5"))
    }
}

impl SectionParser<'_> {
    /// `[upstreams.NAME]`.
    pub(super) fn parse_upstreams(
        &mut self,
        value: &Spanned<DeValue<'_>>,
        origin: &str,
    ) -> Result<Vec<UpstreamSection>, SettingsError> {
        let table = as_table(value, origin)?;
        let mut sections = Vec::new();
        for (name, value) in table {
            let origin = format!("{}: `upstreams.{}`", (self.locate)(name.span().start), name.get_ref());
            sections.push(self.parse_upstream(name.get_ref(), value, &origin)?);
        }
        Ok(sections)
    }

    fn parse_upstream(
        &mut self,
        name: &str,
        value: &Spanned<DeValue<'_>>,
        origin: &str,
    ) -> Result<UpstreamSection, SettingsError> {
        let invalid =
            |expected: &str| SettingsError::Invalid { origin: origin.to_owned(), expected: expected.to_owned() };
        let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if name.is_empty() || !name.bytes().all(is_allowed) {
            return Err(invalid("named with lowercase letters, digits and dashes"));
        }
        let fields = self.fields(as_table(value, origin)?, &format!("upstreams.{name}"));
        let kind = match fields.iter().find(|field| field.name == "kind") {
            Some(field) => {
                let kind = field.value.as_str().and_then(UpstreamKind::from_name);
                kind.ok_or_else(|| field.invalid(&format!("one of {}", upstream_kind_names())))?
            }
            None => UpstreamKind::from_name(name)
                .ok_or_else(|| invalid(&format!("a table with a `kind`: one of {}", upstream_kind_names())))?,
        };
        let mut section = UpstreamSection {
            name: name.to_owned(),
            settings: default_upstream_settings(kind),
            key_source: None,
            has_custom_url: false,
        };
        let mut key_origin: Option<String> = None;
        for field in fields.iter().filter(|field| field.name != "kind") {
            if is_literal_key(field.name) {
                return Err(SettingsError::LiteralKey { origin: field.origin.clone() });
            }
            if let Some(key) = self.parse_key_source(field, kind)? {
                // `key-keyring = false` has no effect.
                let Some(key) = key else { continue };
                if let Some(first) = key_origin.replace(field.origin.clone()) {
                    return Err(SettingsError::Conflict { first, second: field.origin.clone() });
                }
                section.key_source = Some(key);
            } else if !apply_field(&mut section.settings, field)? {
                self.warnings
                    .push(format!("{} is not a setting of upstreams of the kind {kind}. Ignored.", field.origin));
            } else {
                section.has_custom_url |= field.name.ends_with("url");
            }
        }
        Ok(section)
    }

    /// Parses one of the three key sources; the inner `None` is a switch that is off.
    fn parse_key_source(
        &self,
        field: &TableField<'_>,
        kind: UpstreamKind,
    ) -> Result<Option<Option<UpstreamKeySource>>, SettingsError> {
        if kind == UpstreamKind::Scripted {
            return Ok(None);
        }
        Ok(match field.name {
            "key-env" => {
                let name = field.text()?;
                if name.contains(['=', '\0']) {
                    return Err(field.invalid("the name of an environment variable"));
                }
                Some(Some(UpstreamKeySource::Variable { name, origin: field.origin.clone() }))
            }
            "key-file" => {
                let directory = self.path.parent().unwrap_or(self.path);
                Some(Some(UpstreamKeySource::File(directory.join(field.text()?))))
            }
            "key-keyring" => Some(field.boolean()?.then_some(UpstreamKeySource::Keyring)),
            _ => None,
        })
    }

    /// `[limits]`.
    pub(super) fn parse_limits(
        &mut self,
        value: &Spanned<DeValue<'_>>,
        origin: &str,
    ) -> Result<LimitSettings, SettingsError> {
        let mut limits = LimitSettings::default();
        for field in self.fields(as_table(value, origin)?, "limits") {
            let positive = || match field.dollars() {
                Ok(dollars) if dollars.nanos > 0 => Ok(dollars),
                _ => Err(field.invalid("an amount in dollars above 0 such as 2.5")),
            };
            match field.name {
                "concurrent" => limits.concurrent = Some(field.count()?),
                "requests-per-minute" => limits.requests_per_minute = Some(field.count()?),
                "session-requests" => limits.session_requests = Some(field.count()?),
                "session-tokens" => limits.session_tokens = Some(field.count()?),
                "session-dollars" => limits.session_dollars = Some(positive()?),
                "day-requests" => limits.day_requests = Some(field.count()?),
                "day-tokens" => limits.day_tokens = Some(field.count()?),
                "day-dollars" => limits.day_dollars = Some(positive()?),
                _ => self.warn_unknown(&field),
            }
        }
        Ok(limits)
    }

    /// `[prices."MODEL"]`.
    pub(super) fn parse_prices(
        &mut self,
        value: &Spanned<DeValue<'_>>,
        origin: &str,
    ) -> Result<Vec<PriceSettings>, SettingsError> {
        let mut prices = Vec::new();
        for (model, value) in as_table(value, origin)? {
            let model_name = model.get_ref().to_string();
            let origin = format!("{}: `prices.{model_name}`", (self.locate)(model.span().start));
            let prefix = model_name.strip_suffix('*').unwrap_or(&model_name);
            if prefix.trim().is_empty() || prefix.contains('*') {
                let expected = "named by a model id, or by the beginning of one followed by `*`".to_owned();
                return Err(SettingsError::Invalid { origin, expected });
            }
            let (mut input, mut output, mut cache_read, mut cache_write) = (None, None, None, None);
            for field in self.fields(as_table(value, &origin)?, &format!("prices.{model_name}")) {
                match field.name {
                    "input" => input = Some(field.dollars()?),
                    "output" => output = Some(field.dollars()?),
                    "cache-read" => cache_read = Some(field.dollars()?),
                    "cache-write" => cache_write = Some(field.dollars()?),
                    _ => self.warn_unknown(&field),
                }
            }
            let (Some(input), Some(output)) = (input, output) else {
                let expected = "a table with `input` and `output`, in dollars per million tokens".to_owned();
                return Err(SettingsError::Invalid { origin, expected });
            };
            prices.push(PriceSettings { model: model_name, input, output, cache_read, cache_write });
        }
        Ok(prices)
    }

    fn fields<'t>(&self, table: &'t DeTable<'t>, section: &str) -> Vec<TableField<'t>> {
        let field = |(name, value): (&'t Spanned<Cow<'t, str>>, &'t Spanned<DeValue<'t>>)| TableField {
            name: name.get_ref(),
            value: value.get_ref(),
            origin: format!("{}: `{section}.{}`", (self.locate)(name.span().start), name.get_ref()),
        };
        table.iter().map(field).collect()
    }

    fn warn_unknown(&mut self, field: &TableField<'_>) {
        self.warnings.push(format!("{} is not a setting. Ignored.", field.origin));
    }
}

fn as_table<'t>(value: &'t Spanned<DeValue<'t>>, origin: &str) -> Result<&'t DeTable<'t>, SettingsError> {
    let invalid = || SettingsError::Invalid { origin: origin.to_owned(), expected: "a table".to_owned() };
    value.get_ref().as_table().ok_or_else(invalid)
}

/// Returns whether a name is one that users try for a literal key in the file.
fn is_literal_key(name: &str) -> bool {
    matches!(name, "key" | "api-key" | "api_key" | "apikey" | "token" | "auth-token" | "secret" | "password")
}

fn upstream_kind_names() -> String {
    UpstreamKind::ALL.map(UpstreamKind::as_str).join(", ")
}

/// Returns default settings of a kind.
pub(super) fn default_upstream_settings(kind: UpstreamKind) -> UpstreamSettings {
    match kind {
        UpstreamKind::Anthropic => UpstreamSettings::Anthropic { url: None, bearer: false },
        UpstreamKind::Copilot => UpstreamSettings::Copilot {
            github_url: None,
            github_api_url: None,
            api_url: None,
            integration_id: None,
            client_id: None,
            mode: CopilotModeSetting::default(),
        },
        UpstreamKind::OpenAi => UpstreamSettings::OpenAi { url: None, max_tokens_field: None },
        UpstreamKind::Scripted => UpstreamSettings::Scripted,
    }
}

/// Applies a field of the kind; returns whether the kind has it.
fn apply_field(settings: &mut UpstreamSettings, field: &TableField<'_>) -> Result<bool, SettingsError> {
    match (settings, field.name) {
        (UpstreamSettings::Anthropic { url, .. } | UpstreamSettings::OpenAi { url, .. }, "url") => {
            *url = Some(field.url()?);
        }
        (UpstreamSettings::Anthropic { bearer, .. }, "bearer") => *bearer = field.boolean()?,
        (UpstreamSettings::OpenAi { max_tokens_field, .. }, "max-tokens-field") => {
            let name = field.text()?;
            if !matches!(name.as_str(), "max_tokens" | "max_completion_tokens") {
                return Err(field.invalid("max_tokens or max_completion_tokens"));
            }
            *max_tokens_field = Some(name);
        }
        (UpstreamSettings::Copilot { github_url, .. }, "github-url") => *github_url = Some(field.url()?),
        (UpstreamSettings::Copilot { github_api_url, .. }, "github-api-url") => *github_api_url = Some(field.url()?),
        (UpstreamSettings::Copilot { api_url, .. }, "api-url") => *api_url = Some(field.url()?),
        (UpstreamSettings::Copilot { integration_id, .. }, "integration-id") => *integration_id = Some(field.text()?),
        (UpstreamSettings::Copilot { client_id, .. }, "client-id") => *client_id = Some(field.text()?),
        (UpstreamSettings::Copilot { mode, .. }, "mode") => {
            *mode = match field.value.as_str() {
                Some("exchange") => CopilotModeSetting::Exchange,
                Some("token") => CopilotModeSetting::Token,
                _ => return Err(field.invalid("exchange or token")),
            }
        }
        _ => return Ok(false),
    }
    Ok(true)
}
