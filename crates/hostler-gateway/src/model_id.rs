//! Parses and compares model ids: agents write `claude-sonnet-4-5`, with or without a date; some upstreams write
//! `claude-sonnet-4.5`. Ids of other models pass unchanged.

use crate::upstream::UpstreamModel;

/// A parsed id of a Claude model.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ClaudeId<'a> {
    /// For example `sonnet`.
    family: &'a str,
    major: u32,
    /// Absent in `claude-opus-4`, which is the same model as `claude-opus-4-0`.
    minor: Option<u32>,
    /// Eight digits.
    date: Option<&'a str>,
    /// Suffix such as `1m`, which denotes another model.
    variant: Vec<&'a str>,
    /// The version precedes the family, as in ids up to the third generation.
    version_first: bool,
}

impl<'a> ClaudeId<'a> {
    fn parse(id: &'a str) -> Option<Self> {
        let mut parts = id.strip_prefix("claude-")?.split('-').peekable();
        let version_first = parts.peek().is_some_and(|part| parse_version(part).is_some());
        let mut family = if version_first { None } else { parts.next().filter(|part| is_name(part)) };
        let (major, mut minor) = parse_version(parts.next()?)?;
        if minor.is_none() {
            minor =
                parts.next_if(|part| matches!(parse_version(part), Some((_, None)))).and_then(|part| part.parse().ok());
        }
        if version_first {
            family = parts.next().filter(|part| is_name(part));
        }
        let date = parts.next_if(|part| is_date(part));
        let variant: Vec<&str> = parts.collect();
        let sound =
            variant.iter().all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric()));
        sound.then_some(Self { family: family?, major, minor, date, variant, version_first })
    }

    /// Whether both ids denote the same model, ignoring dates.
    fn is_same_model(&self, other: &Self) -> bool {
        let version = |id: &Self| (id.major, id.minor.unwrap_or(0));
        self.family == other.family && version(self) == version(other) && self.variant == other.variant
    }

    /// The form that agents use.
    fn to_agent_id(&self) -> String {
        let version = match self.minor {
            Some(minor) => format!("{}-{minor}", self.major),
            None => self.major.to_string(),
        };
        let mut parts = vec!["claude", self.family, &version];
        if self.version_first {
            parts.swap(1, 2);
        }
        parts.extend(self.date);
        parts.extend(&self.variant);
        parts.join("-")
    }
}

/// Parses `4` or `4.5`, but not a date.
fn parse_version(part: &str) -> Option<(u32, Option<u32>)> {
    let number = |text: &str| (matches!(text.len(), 1..=2)).then(|| text.parse::<u32>().ok()).flatten();
    match part.split_once('.') {
        Some((major, minor)) => Some((number(major)?, Some(number(minor)?))),
        None => Some((number(part)?, None)),
    }
}

fn is_name(part: &str) -> bool {
    !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_lowercase())
}

fn is_date(part: &str) -> bool {
    part.len() == 8 && part.bytes().all(|byte| byte.is_ascii_digit())
}

/// The agent's form of an upstream's id; `None` if it is not a Claude model.
pub(crate) fn agent_form(upstream: &str) -> Option<String> {
    ClaudeId::parse(upstream).map(|id| id.to_agent_id())
}

/// Whether two ids of either form denote the same model.
pub(crate) fn same_model(one: &str, other: &str) -> bool {
    match (ClaudeId::parse(one), ClaudeId::parse(other)) {
        (Some(one), Some(other)) => one.is_same_model(&other),
        _ => one == other,
    }
}

/// Finds the model for an id of either form in an upstream's list.
pub(crate) fn find_model<'a>(listed: &'a [UpstreamModel], asked: &str) -> Option<&'a UpstreamModel> {
    if let Some(exact) = listed.iter().find(|model| model.id == asked) {
        return Some(exact);
    }
    let asked = ClaudeId::parse(asked)?;
    let editions = listed.iter().filter_map(|model| Some((ClaudeId::parse(&model.id)?, model)));
    let same = editions.filter(|(id, _)| id.is_same_model(&asked));
    // Prefers the requested date, then an id without a date, then the latest date.
    same.max_by_key(|(id, _)| (asked.date.is_some() && id.date == asked.date, id.date.is_none(), id.date))
        .map(|(_, model)| model)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(ids: &[&str]) -> Vec<UpstreamModel> {
        let model = |id: &&str| UpstreamModel {
            id: (*id).to_owned(),
            name: (*id).to_owned(),
            context_window: None,
            max_output: None,
            vision: None,
        };
        ids.iter().map(model).collect()
    }

    #[test]
    fn agent_form_converts_all_six_id_forms() {
        for (id, expected) in [
            // Family first: a version of one number, of two with a dash, of two with a dot.
            ("claude-opus-4", Some("claude-opus-4")),
            ("claude-sonnet-4-5", Some("claude-sonnet-4-5")),
            ("claude-sonnet-4.5", Some("claude-sonnet-4-5")),
            // Version first, in the same three ways.
            ("claude-3-opus", Some("claude-3-opus")),
            ("claude-3-5-sonnet", Some("claude-3-5-sonnet")),
            ("claude-3.5-sonnet", Some("claude-3-5-sonnet")),
            // With a date or a variant.
            ("claude-opus-4-20250514", Some("claude-opus-4-20250514")),
            ("claude-haiku-4-5-20251001", Some("claude-haiku-4-5-20251001")),
            ("claude-haiku-4.5-20251001", Some("claude-haiku-4-5-20251001")),
            ("claude-3-opus-20240229", Some("claude-3-opus-20240229")),
            ("claude-3-5-sonnet-20241022", Some("claude-3-5-sonnet-20241022")),
            ("claude-opus-4.6-1m", Some("claude-opus-4-6-1m")),
            ("claude-sonnet-10.12", Some("claude-sonnet-10-12")),
            // Not Claude models.
            ("gpt-5", None),
            ("claude", None),
            ("claude-", None),
            ("claude-sonnet", None),
            ("claude-sonnet-latest", None),
            ("claude--4-5", None),
            ("claude-4-5", None),
            ("claude-sonnet-4-5-", None),
            ("claude-sonnet-4.5.1", None),
            ("claude-Sonnet-4-5", None),
            ("claude-sonnet-4-5-20251001-ü", None),
            ("anthropic/claude-sonnet-4-5", None),
            ("", None),
        ] {
            assert_eq!(agent_form(id).as_deref(), expected, "{id:?}");
        }
    }

    #[test]
    fn find_model_accepts_ids_of_either_form() {
        let copilot = list(&["claude-sonnet-4", "claude-sonnet-4.5", "claude-opus-4.6", "claude-opus-4.6-1m", "gpt-5"]);
        let anthropic = list(&["claude-sonnet-4-5-20250929", "claude-sonnet-4-5-20260101", "claude-opus-4-20250514"]);
        for (listed, asked, expected) in [
            (&copilot, "claude-sonnet-4-5", Some("claude-sonnet-4.5")),
            (&copilot, "claude-sonnet-4.5", Some("claude-sonnet-4.5")),
            (&copilot, "claude-sonnet-4-5-20250929", Some("claude-sonnet-4.5")),
            (&copilot, "claude-sonnet-4-0", Some("claude-sonnet-4")),
            (&copilot, "claude-sonnet-4-20250514", Some("claude-sonnet-4")),
            (&copilot, "claude-opus-4-6", Some("claude-opus-4.6")),
            (&copilot, "claude-opus-4-6-1m", Some("claude-opus-4.6-1m")),
            (&copilot, "gpt-5", Some("gpt-5")),
            (&copilot, "gpt-4", None),
            (&copilot, "claude-haiku-4-5", None),
            (&copilot, "claude-opus-4-6-fast", None),
            (&anthropic, "claude-sonnet-4-5", Some("claude-sonnet-4-5-20260101")),
            (&anthropic, "claude-sonnet-4-5-20250929", Some("claude-sonnet-4-5-20250929")),
            (&anthropic, "claude-opus-4-0", Some("claude-opus-4-20250514")),
        ] {
            let found = find_model(listed, asked).map(|model| model.id.as_str());
            assert_eq!(found, expected, "{asked:?}");
        }
    }
}
