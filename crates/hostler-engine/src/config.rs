//! What can be configured for a session, and for the host.

use std::collections::HashMap;

use ahp_types::common::JsonObject;
use ahp_types::state::{ConfigSchema, SessionConfigPropertySchema, SessionConfigSchema};
use hostler_rules::Mode;
use serde_json::Value;

use crate::budget::{SessionLimits, nanodollars};
use crate::stopping::BackgroundOnStop;

/// The property that says what the agent may do without asking.
pub(crate) const PERMISSION_MODE: &str = "permissionMode";

/// The properties that limit what the session may use in its whole life.
const LIMIT_REQUESTS: &str = "limitRequests";
const LIMIT_TOKENS: &str = "limitTokens";
const LIMIT_DOLLARS: &str = "limitDollars";

/// The property that says how hard the model is to think.
pub(crate) const EFFORT: &str = "effort";

/// The property that says how many tokens it may spend on it.
const THINKING_BUDGET: &str = "thinkingBudget";

/// The property that says what becomes of background work when a turn is stopped.
pub(crate) const BACKGROUND_ON_STOP: &str = "backgroundOnStop";

/// The effort that leaves the choice to the agent.
const DEFAULT_EFFORT: &str = "default";

/// What the effort can be, in the agent's own words but for the first.
const EFFORTS: [&str; 6] = [DEFAULT_EFFORT, "low", "medium", "high", "xhigh", "max"];

/// The most tokens that may be set aside for thinking.
const MAX_THINKING: u32 = 1_000_000;

/// Each with its title and what it is good for.
const LIMITS: [(&str, &str, &str); 3] = [
    (LIMIT_REQUESTS, "Request limit", "How many requests to the model the session may make"),
    (LIMIT_TOKENS, "Token limit", "How many tokens of all kinds the session may use"),
    (LIMIT_DOLLARS, "Dollar limit", "How many US dollars the session may cost"),
];

/// The permission mode if nobody says otherwise.
pub(crate) const DEFAULT_MODE: &str = "default";

/// The permission modes that a session can have.
const PERMISSION_MODES: [(&str, Mode, &str); 5] = [
    (DEFAULT_MODE, Mode::Default, "Ask before anything is changed"),
    ("acceptEdits", Mode::AcceptEdits, "Edit files in the working directory without asking"),
    ("plan", Mode::Plan, "Plan only, change nothing"),
    ("dontAsk", Mode::DontAsk, "Do only what needs no question, deny the rest"),
    // Only where the host's configuration allows it.
    ("bypassPermissions", Mode::Bypass, "Do everything that no rule forbids, without asking"),
];

/// The modes on offer.
fn modes(bypass: bool) -> impl Iterator<Item = &'static (&'static str, Mode, &'static str)> {
    PERMISSION_MODES.iter().filter(move |(_, mode, _)| bypass || *mode != Mode::Bypass)
}

/// The mode of a name. A mode that is not on offer is the one that asks.
pub(crate) fn mode(name: &str, bypass: bool) -> Mode {
    modes(bypass).find(|(known, ..)| *known == name).map(|(_, mode, _)| *mode).unwrap_or_default()
}

/// What the agent itself is told. It need not know more than what changes its own ways: the gate sees to the rest.
pub(crate) fn agent_mode(mode: Mode) -> &'static str {
    match mode {
        Mode::AcceptEdits => "acceptEdits",
        Mode::Plan => "plan",
        Mode::Default | Mode::Bypass | Mode::DontAsk => DEFAULT_MODE,
    }
}

/// The values of a session's configuration, defaults filled in.
pub(crate) fn resolve(wanted: Option<&JsonObject>, bypass: bool) -> Result<JsonObject, String> {
    let mode = match wanted.and_then(|values| values.get(PERMISSION_MODE)) {
        None => DEFAULT_MODE.into(),
        Some(value) => check_mode(value, bypass)?,
    };
    let mut values = JsonObject::new();
    values.insert(PERMISSION_MODE.to_owned(), mode);
    if let Some(effort) = wanted.and_then(|wanted| wanted.get(EFFORT)) {
        check_effort(effort)?;
        values.insert(EFFORT.to_owned(), effort.clone());
    }
    if let Some(budget) = wanted.and_then(|wanted| wanted.get(THINKING_BUDGET)) {
        check_thinking(budget)?;
        values.insert(THINKING_BUDGET.to_owned(), budget.clone());
    }
    if let Some(policy) = wanted.and_then(|wanted| wanted.get(BACKGROUND_ON_STOP)) {
        check_background(policy)?;
        values.insert(BACKGROUND_ON_STOP.to_owned(), policy.clone());
    }
    for (key, ..) in LIMITS {
        if let Some(limit) = wanted.and_then(|wanted| wanted.get(key)) {
            check_limit(key, limit)?;
            values.insert(key.to_owned(), limit.clone());
        }
    }
    Ok(values)
}

/// The limits that a session's configuration sets.
pub(crate) fn limits(values: &JsonObject) -> SessionLimits {
    let number = |key| values.get(key).and_then(Value::as_u64);
    SessionLimits {
        requests: number(LIMIT_REQUESTS),
        tokens: number(LIMIT_TOKENS),
        nanodollars: values.get(LIMIT_DOLLARS).and_then(Value::as_f64).and_then(nanodollars),
    }
}

/// The effort of a name, if it is one, and not the agent's own choice.
pub(crate) fn effort(name: &str) -> Option<String> {
    (name != DEFAULT_EFFORT && EFFORTS.contains(&name)).then(|| name.to_owned())
}

/// How many tokens may be spent on thinking.
pub(crate) fn thinking(values: &JsonObject) -> Option<u32> {
    values.get(THINKING_BUDGET).and_then(Value::as_u64).and_then(|tokens| u32::try_from(tokens).ok())
}

/// Whether a client may change a session's configuration like this.
pub(crate) fn check_change(change: &JsonObject, replace: bool, bypass: bool) -> Result<(), String> {
    for (key, value) in change {
        if key == PERMISSION_MODE {
            check_mode(value, bypass)?;
        } else if key == EFFORT {
            check_effort(value)?;
        } else if key == THINKING_BUDGET {
            check_thinking(value)?;
        } else if key == BACKGROUND_ON_STOP {
            check_background(value)?;
        } else if LIMITS.iter().any(|(limit, ..)| key == limit) {
            check_limit(key, value)?;
        } else {
            return Err(format!("{key:?} cannot be changed in a session"));
        }
    }
    if replace && !change.contains_key(PERMISSION_MODE) {
        return Err(format!("{PERMISSION_MODE:?} cannot be left out"));
    }
    Ok(())
}

fn check_mode(value: &Value, bypass: bool) -> Result<Value, String> {
    let known = modes(bypass).any(|(mode, ..)| value.as_str() == Some(*mode));
    if known { Ok(value.clone()) } else { Err(format!("{PERMISSION_MODE} cannot be {value}")) }
}

fn check_effort(value: &Value) -> Result<(), String> {
    match value.as_str() {
        Some(name) if EFFORTS.contains(&name) => Ok(()),
        _ => Err(format!("{EFFORT} must be one of {}; it cannot be {value}", EFFORTS.join(", "))),
    }
}

/// A policy, or null where the host's is to hold.
fn check_background(value: &Value) -> Result<(), String> {
    let known = value.as_str().is_some_and(|name| BackgroundOnStop::named(name).is_some());
    if known || value.is_null() {
        return Ok(());
    }
    let names = BackgroundOnStop::ALL.map(|(name, ..)| name).join(", ");
    Err(format!("{BACKGROUND_ON_STOP} must be one of {names}; it cannot be {value}"))
}

/// A number of tokens, or null where the agent is to choose.
fn check_thinking(value: &Value) -> Result<(), String> {
    let fits = value.as_u64().is_some_and(|tokens| tokens <= u64::from(MAX_THINKING));
    if fits || value.is_null() {
        return Ok(());
    }
    Err(format!("{THINKING_BUDGET} must be a whole number of tokens up to {MAX_THINKING}; it cannot be {value}"))
}

/// A limit is a number, or null where the session shall have none of its own.
fn check_limit(key: &str, value: &Value) -> Result<(), String> {
    let (fits, what) = if key == LIMIT_DOLLARS {
        (value.as_f64().and_then(nanodollars).is_some(), "an amount of dollars such as 2.5, and not negative")
    } else {
        (value.is_u64(), "a whole number, and not negative")
    };
    if fits || value.is_null() { Ok(()) } else { Err(format!("{key} must be {what}; it cannot be {value}")) }
}

/// The schema of a session's configuration.
pub(crate) fn session_schema(bypass: bool) -> SessionConfigSchema {
    let text = |value: &str| Value::from(value);
    let mode = SessionConfigPropertySchema {
        default: Some(text(DEFAULT_MODE)),
        r#enum: Some(modes(bypass).map(|(mode, ..)| text(mode)).collect()),
        enum_descriptions: Some(modes(bypass).map(|(.., meaning)| (*meaning).to_owned()).collect()),
        ..property("string", "Permission mode", "What the agent may do without asking")
    };
    let effort = SessionConfigPropertySchema {
        default: Some(text(DEFAULT_EFFORT)),
        r#enum: Some(EFFORTS.map(text).to_vec()),
        ..property("string", "Effort", "How hard the model thinks, from the next message on")
    };
    let thinking = property(
        "number",
        "Thinking budget",
        "How many tokens the model may spend on thinking, from the next message on",
    );
    let background = SessionConfigPropertySchema {
        r#enum: Some(BackgroundOnStop::ALL.map(|(name, ..)| text(name)).to_vec()),
        enum_descriptions: Some(BackgroundOnStop::ALL.map(|(.., meaning)| meaning.to_owned()).to_vec()),
        ..property("string", "Background work on stop", "What becomes of background work when a turn is stopped")
    };
    let mut properties = HashMap::from([
        (PERMISSION_MODE.to_owned(), mode),
        (EFFORT.to_owned(), effort),
        (THINKING_BUDGET.to_owned(), thinking),
        (BACKGROUND_ON_STOP.to_owned(), background),
    ]);
    properties.extend(LIMITS.map(|(key, title, description)| (key.to_owned(), property("number", title, description))));
    SessionConfigSchema { r#type: "object".to_owned(), properties, required: None }
}

/// A property that clients may change while the session lives.
fn property(r#type: &str, title: &str, description: &str) -> SessionConfigPropertySchema {
    SessionConfigPropertySchema {
        r#type: r#type.to_owned(),
        title: title.to_owned(),
        description: Some(description.to_owned()),
        default: None,
        r#enum: None,
        enum_labels: None,
        enum_descriptions: None,
        read_only: None,
        items: None,
        min_items: None,
        max_items: None,
        properties: None,
        required: None,
        additional_properties: None,
        enum_dynamic: None,
        session_mutable: Some(true),
    }
}

/// The schema of the host's configuration: nothing of ours yet. Clients keep values of their own there.
pub(crate) fn root_schema() -> ConfigSchema {
    ConfigSchema { r#type: "object".to_owned(), properties: HashMap::new(), required: None }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> JsonObject {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn limits_are_numbers_or_nothing() {
        for good in [
            json!({"limitTokens": 0}),
            json!({"limitTokens": 500_000, "limitRequests": 7, "limitDollars": 2.5}),
            json!({"limitDollars": 3}),
            json!({"limitDollars": null, "limitTokens": null}),
        ] {
            let good = object(good);
            check_change(&good, false, false).unwrap();
            let values = resolve(Some(&good), false).unwrap();
            assert!(good.iter().all(|(key, value)| values[key] == *value), "{values:?}");
        }
        for bad in [
            json!({"limitTokens": -1}),
            json!({"limitTokens": 1.5}),
            json!({"limitTokens": "many"}),
            json!({"limitRequests": true}),
            json!({"limitDollars": -0.01}),
            json!({"limitDollars": "2.50"}),
            json!({"limitDollars": 1e300}),
        ] {
            let bad = object(bad);
            let reason = check_change(&bad, false, false).unwrap_err();
            assert!(reason.contains("must be") && reason.contains("not negative"), "{reason}");
            assert_eq!(resolve(Some(&bad), false).unwrap_err(), reason);
        }
    }

    #[test]
    fn limits_are_read_as_they_were_set() {
        let values = object(json!({"limitTokens": 5, "limitDollars": 0.1, "limitRequests": null}));
        let expected = SessionLimits { requests: None, tokens: Some(5), nanodollars: Some(100_000_000) };
        assert_eq!(limits(&values), expected);
    }
}
