//! Parses the configuration file. Unknown keys become warnings; errors name the line and never quote values.

use std::collections::BTreeMap;
use std::path::Path;

use secrecy::SecretString;
use toml::de::{DeTable, DeValue};

use super::config_sections::{SectionParser, UpstreamSection};
use super::{
    EXPECTED_COUNT, EXPECTED_SECONDS, EXPECTED_SIZE, FormerNameUse, SETTINGS, SettingKey, SettingKind, SettingValue,
    SettingsError, find_setting,
};
use crate::ports::{LimitSettings, PriceSettings};

/// Parsed configuration file, with the line of each value for messages.
#[derive(Default)]
pub(crate) struct ConfigFile {
    pub(super) values: BTreeMap<SettingKey, (SettingValue, String)>,
    pub(super) agent_env: Vec<(String, SecretString)>,
    pub(super) upstreams: Vec<UpstreamSection>,
    pub(super) limits: LimitSettings,
    pub(super) prices: Vec<PriceSettings>,
    /// Uses of former names.
    pub(super) former_names: Vec<FormerNameUse>,
    pub(super) warnings: Vec<String>,
}

impl ConfigFile {
    /// Parses the text; `path` is used in messages and for relative paths.
    pub(crate) fn parse(text: &str, path: &Path) -> Result<Self, SettingsError> {
        // The parser's own message quotes the line, which may contain a token: only its reason is used.
        let table = DeTable::parse(text).map_err(|error| SettingsError::Syntax {
            path: path.to_owned(),
            line: line_at_offset(text, error.span().map_or(0, |span| span.start)),
            message: error.message().trim_end_matches('.').to_owned(),
        })?;
        let mut file = Self::default();
        let at = |offset: usize| format!("{} line {}", path.display(), line_at_offset(text, offset));
        for (name, value) in table.get_ref() {
            let origin = format!("{}: `{}`", at(name.span().start), name.get_ref());
            if file.set_value(name.get_ref(), value.get_ref(), &origin, path)? {
                continue;
            }
            let below = format!("{}.", name.get_ref());
            if SETTINGS.iter().any(|setting| setting.name.starts_with(&below)) {
                let table = value
                    .get_ref()
                    .as_table()
                    .ok_or_else(|| SettingsError::Invalid { origin, expected: "a table".to_owned() })?;
                for (name, value) in table {
                    let full = format!("{below}{}", name.get_ref());
                    let origin = format!("{}: `{full}`", at(name.span().start));
                    if !file.set_value(&full, value.get_ref(), &origin, path)? {
                        file.warnings.push(format!("{origin} is not a setting. Ignored."));
                    }
                }
            } else if name.get_ref() == "agent" {
                let table = value
                    .get_ref()
                    .as_table()
                    .ok_or_else(|| SettingsError::Invalid { origin, expected: "a table".to_owned() })?;
                file.read_agent(table, &at)?;
            } else {
                let mut sections = SectionParser { locate: &at, path, warnings: &mut file.warnings };
                match name.get_ref().as_ref() {
                    "upstreams" => file.upstreams = sections.parse_upstreams(value, &origin)?,
                    "limits" => file.limits = sections.parse_limits(value, &origin)?,
                    "prices" => file.prices = sections.parse_prices(value, &origin)?,
                    _ => file.warnings.push(format!("{origin} is not a setting. Ignored.")),
                }
            }
        }
        Ok(file)
    }

    /// Stores a setting of the table; returns whether the name is a setting.
    fn set_value(&mut self, name: &str, value: &DeValue<'_>, origin: &str, path: &Path) -> Result<bool, SettingsError> {
        let Some((setting, is_former)) = find_setting(name) else { return Ok(false) };
        let expected = || expected_value(setting.kind).to_owned();
        let invalid = || SettingsError::Invalid { origin: origin.to_owned(), expected: expected() };
        let value = read_value(value, setting.kind, path).ok_or_else(invalid)?;
        // A key cannot occur twice in the file, so the other value has another name of the same setting.
        if let Some((_, first)) = self.values.insert(setting.key, (value, origin.to_owned())) {
            return Err(SettingsError::Conflict { first, second: origin.to_owned() });
        }
        if is_former {
            self.former_names.push(FormerNameUse { origin: origin.to_owned(), current: format!("`{}`", setting.name) });
        }
        Ok(true)
    }

    fn read_agent(&mut self, table: &DeTable<'_>, at: &dyn Fn(usize) -> String) -> Result<(), SettingsError> {
        for (name, value) in table {
            let origin = format!("{}: `agent.{}`", at(name.span().start), name.get_ref());
            if name.get_ref() != "env" {
                self.warnings.push(format!("{origin} is not a setting. Ignored."));
                continue;
            }
            let invalid =
                || SettingsError::Invalid { origin: origin.clone(), expected: "a table of strings".to_owned() };
            for (variable, value) in value.get_ref().as_table().ok_or_else(invalid)? {
                let value = value.get_ref().as_str().ok_or_else(invalid)?;
                self.agent_env.push((variable.get_ref().to_string(), value.into()));
            }
        }
        Ok(())
    }
}

fn read_value(value: &DeValue<'_>, kind: SettingKind, path: &Path) -> Option<SettingValue> {
    match kind {
        SettingKind::Text => value.as_str().map(|text| SettingValue::Text(text.into())),
        SettingKind::Path => {
            let directory = path.parent().unwrap_or(path);
            value.as_str().map(|text| SettingValue::Text(directory.join(text).into_os_string()))
        }
        SettingKind::Flag => value.as_bool().map(SettingValue::Flag),
        SettingKind::List => {
            let items = value.as_array()?.iter().map(|item| item.get_ref().as_str().map(str::to_owned));
            items.collect::<Option<Vec<_>>>().map(SettingValue::List)
        }
        // Numbers stay as written: their range is checked together with values of variables.
        SettingKind::Count => match value {
            DeValue::Integer(number) if number.radix() == 10 => Some(SettingValue::Text(number.as_str().into())),
            _ => None,
        },
        SettingKind::Size => match value {
            DeValue::Integer(number) if number.radix() == 10 => Some(SettingValue::Text(number.as_str().into())),
            DeValue::String(text) => Some(SettingValue::Text(text.as_ref().into())),
            _ => None,
        },
        SettingKind::Seconds => match value {
            DeValue::Integer(number) if number.radix() == 10 => Some(SettingValue::Text(number.as_str().into())),
            DeValue::Float(number) => Some(SettingValue::Text(number.as_str().into())),
            _ => None,
        },
    }
}

fn expected_value(kind: SettingKind) -> &'static str {
    match kind {
        SettingKind::Text | SettingKind::Path => "a string",
        SettingKind::Flag => "true or false",
        SettingKind::List => "a list of strings",
        SettingKind::Seconds => EXPECTED_SECONDS,
        SettingKind::Count => EXPECTED_COUNT,
        SettingKind::Size => EXPECTED_SIZE,
    }
}

/// Returns the line of a byte offset, from 1.
fn line_at_offset(text: &str, offset: usize) -> usize {
    1 + text.bytes().take(offset).filter(|byte| *byte == b'\n').count()
}
