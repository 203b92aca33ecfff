//! Configuration of sessions and of the host: properties, values and checks.

mod error;
mod modes;
mod schema;
#[cfg(test)]
mod tests;
mod value_search;

use ahp_types::common::JsonObject;
use serde_json::Value;

pub use self::error::ConfigValueError;
pub(crate) use self::modes::{DEFAULT_MODE, agent_mode_name, mode_after_agent_change, parse_mode, values_for_mode};
pub(crate) use self::schema::{host_schema, session_schema};
pub(crate) use self::value_search::matching_values as values_of;
use crate::agents::model_gateway::ModelInfo;
use crate::external_sessions::ExternalSessionFilter;
use crate::sessions::background_on_stop::BackgroundOnStop;
use crate::sessions::budget::{SessionBudgetLimits, to_nanodollars};

/// The property for what the agent may do without asking.
pub(crate) const PERMISSION_MODE: &str = "permissionMode";

/// The two properties by which VS Code expresses the same.
const MODE: &str = "mode";
const AUTO_APPROVE: &str = "autoApprove";

/// The model of messages that name none.
pub(crate) const MODEL: &str = "model";

/// Where the agent works, and the only supported value.
const ISOLATION: &str = "isolation";
const ISOLATION_FOLDER: &str = "folder";

/// The git branch of the working directory; read-only.
pub(crate) const BRANCH: &str = "branch";

/// The properties that limit the session's total usage.
const LIMIT_REQUESTS: &str = "limitRequests";
const LIMIT_TOKENS: &str = "limitTokens";
const LIMIT_DOLLARS: &str = "limitDollars";

/// The property for the model's effort.
pub(crate) const EFFORT: &str = "effort";

/// The property for the maximum of thinking tokens.
const THINKING_BUDGET: &str = "thinkingBudget";

/// The property for what happens to background work when a turn is stopped.
pub(crate) const BACKGROUND_ON_STOP: &str = "backgroundOnStop";

/// The host's property for which external sessions are listed.
pub(crate) const SHOW_EXTERNAL: &str = "showExternalSessions";

/// The effort that leaves the choice to the agent.
const DEFAULT_EFFORT: &str = "default";

/// The efforts; all but the first are the agent's own names.
const EFFORTS: [&str; 6] = [DEFAULT_EFFORT, "low", "medium", "high", "xhigh", "max"];

/// Maximum of thinking tokens.
const MAX_THINKING_TOKENS: u32 = 1_000_000;

/// Each with its title and description.
const LIMIT_PROPERTIES: [(&str, &str, &str); 3] = [
    (LIMIT_REQUESTS, "Request limit", "Maximum number of requests to the model"),
    (LIMIT_TOKENS, "Token limit", "Maximum number of tokens of all kinds"),
    (LIMIT_DOLLARS, "Dollar limit", "Maximum cost in US dollars"),
];

/// The keys of the host's configuration that this host uses: defaults of new sessions, and the filter of external
/// sessions.
const HOST_CONFIG_KEYS: [&str; 4] = [PERMISSION_MODE, MODEL, EFFORT, SHOW_EXTERNAL];

/// The available choices.
#[derive(Debug, Clone, Default)]
pub(crate) struct ConfigChoices {
    /// Whether the mode that bypasses permissions is available.
    pub(crate) allow_bypass: bool,
    /// The available models.
    pub(crate) models: Vec<ModelInfo>,
    /// Whether the working directory is in a git repository.
    pub(crate) is_repository: bool,
}

/// The values of a session's configuration: the requested ones, then the defaults of new sessions (the first usable
/// value of each property), then the built-in defaults. Values that git determines are not included.
pub(crate) fn resolve_session_values(
    offer: &ConfigChoices,
    wanted: &JsonObject,
    begin: &[&JsonObject],
) -> Result<JsonObject, ConfigValueError> {
    let said = modes::resolve_mode_values(wanted, &JsonObject::new(), offer.allow_bypass)?;
    let begins =
        |key: &str| begin.iter().find_map(|values| values.get(key).filter(|value| is_usable(offer, key, value)));
    let mut values = said.unwrap_or_else(|| {
        let mode = begins(PERMISSION_MODE).and_then(Value::as_str).unwrap_or(DEFAULT_MODE);
        values_for_mode(mode, &JsonObject::new())
    });
    if let Some(isolation) = wanted.get(ISOLATION) {
        check_isolation(isolation)?;
    }
    values.insert(ISOLATION.to_owned(), ISOLATION_FOLDER.into());
    let limits = LIMIT_PROPERTIES.iter().map(|(key, ..)| *key);
    for key in [MODEL, EFFORT, THINKING_BUDGET, BACKGROUND_ON_STOP].into_iter().chain(limits) {
        if let Some(value) = wanted.get(key) {
            check_value(offer, key, value)?;
            values.insert(key.to_owned(), value.clone());
        } else if let Some(value) = begins(key) {
            values.insert(key.to_owned(), value.clone());
        }
    }
    // The schema declares it as the default, so the values include it.
    values.entry(EFFORT).or_insert_with(|| DEFAULT_EFFORT.into());
    Ok(values)
}

/// Whether a value can be a default of new sessions. A stored value may have become invalid.
fn is_usable(offer: &ConfigChoices, key: &str, value: &Value) -> bool {
    !value.is_null() && check_host_value(offer, key, value).is_ok()
}

/// Checks a client's change of the host's configuration. Keys that the host does not use belong to the clients.
pub(crate) fn check_host_change(offer: &ConfigChoices, change: &JsonObject) -> Result<(), ConfigValueError> {
    change.iter().try_for_each(|(key, value)| check_host_value(offer, key, value))
}

fn check_host_value(offer: &ConfigChoices, key: &str, value: &Value) -> Result<(), ConfigValueError> {
    match key {
        _ if !HOST_CONFIG_KEYS.contains(&key) || value.is_null() => Ok(()),
        PERMISSION_MODE => {
            let requested = JsonObject::from_iter([(PERMISSION_MODE.to_owned(), value.clone())]);
            // Bypassing permissions must be chosen for each session; it cannot be a default.
            modes::resolve_mode_values(&requested, &JsonObject::new(), false).map(drop)
        }
        SHOW_EXTERNAL => check_show_external(value),
        _ => check_value(offer, key, value),
    }
}

fn check_show_external(value: &Value) -> Result<(), ConfigValueError> {
    if value.as_str().is_some_and(|name| ExternalSessionFilter::from_name(name).is_some()) {
        return Ok(());
    }
    let names = ExternalSessionFilter::ALL.map(|(name, ..)| name).join(", ");
    Err(ConfigValueError::invalid(SHOW_EXTERNAL, value, format!("one of {names}")))
}

/// The limits in a session's configuration.
pub(crate) fn session_limits(values: &JsonObject) -> SessionBudgetLimits {
    let number = |key| values.get(key).and_then(Value::as_u64);
    SessionBudgetLimits {
        requests: number(LIMIT_REQUESTS),
        tokens: number(LIMIT_TOKENS),
        nanodollars: values.get(LIMIT_DOLLARS).and_then(Value::as_f64).and_then(to_nanodollars),
    }
}

/// The effort with this name; `None` if it is unknown or the agent's own choice.
pub(crate) fn parse_effort(name: &str) -> Option<String> {
    (name != DEFAULT_EFFORT && EFFORTS.contains(&name)).then(|| name.to_owned())
}

/// The maximum of thinking tokens in a session's configuration.
pub(crate) fn thinking_budget(values: &JsonObject) -> Option<u32> {
    values.get(THINKING_BUDGET).and_then(Value::as_u64).and_then(|tokens| u32::try_from(tokens).ok())
}

/// The change of a session's configuration that a client's change results in: related properties change together, and
/// read-only properties survive a replacement.
pub(crate) fn resolve_change(
    offer: &ConfigChoices,
    now: &JsonObject,
    requested: &JsonObject,
    replace: bool,
) -> Result<JsonObject, ConfigValueError> {
    for (key, value) in requested {
        match key.as_str() {
            PERMISSION_MODE | MODE | AUTO_APPROVE => {}
            ISOLATION | BRANCH if now.get(key) == Some(value) => {}
            MODEL | EFFORT | THINKING_BUDGET | BACKGROUND_ON_STOP => check_value(offer, key, value)?,
            key if is_limit(key) => check_value(offer, key, value)?,
            _ => return Err(ConfigValueError::ReadOnly { key: key.to_owned() }),
        }
    }
    let said = modes::resolve_mode_values(requested, now, offer.allow_bypass)?;
    if replace && said.is_none() {
        return Err(ConfigValueError::Missing { key: PERMISSION_MODE });
    }
    let mut change = requested.clone();
    change.extend(said.into_iter().flatten());
    if replace {
        let fixed = [ISOLATION, BRANCH].into_iter().filter_map(|key| Some((key.to_owned(), now.get(key)?.clone())));
        change.extend(fixed);
    }
    Ok(change)
}

fn is_limit(key: &str) -> bool {
    LIMIT_PROPERTIES.iter().any(|(limit, ..)| key == *limit)
}

/// Checks a value without relations to other properties. Null removes the choice.
fn check_value(offer: &ConfigChoices, key: &str, value: &Value) -> Result<(), ConfigValueError> {
    match key {
        _ if value.is_null() => Ok(()),
        MODEL => check_model(offer, value),
        EFFORT => check_effort(value),
        THINKING_BUDGET => check_thinking_budget(value),
        BACKGROUND_ON_STOP => check_background_on_stop(value),
        _ => check_limit(key, value),
    }
}

fn check_model(offer: &ConfigChoices, value: &Value) -> Result<(), ConfigValueError> {
    match value.as_str() {
        Some(id) if offer.models.iter().any(|model| model.id == id) => Ok(()),
        _ => Err(ConfigValueError::invalid(MODEL, value, "a model that this host offers")),
    }
}

fn check_isolation(value: &Value) -> Result<(), ConfigValueError> {
    match value.as_str() {
        Some(ISOLATION_FOLDER) => Ok(()),
        _ => {
            let expected = format!("{ISOLATION_FOLDER:?}, because agents work in the folder itself");
            Err(ConfigValueError::invalid(ISOLATION, value, expected))
        }
    }
}

fn check_effort(value: &Value) -> Result<(), ConfigValueError> {
    match value.as_str() {
        Some(name) if EFFORTS.contains(&name) => Ok(()),
        _ => Err(ConfigValueError::invalid(EFFORT, value, format!("one of {}", EFFORTS.join(", ")))),
    }
}

fn check_background_on_stop(value: &Value) -> Result<(), ConfigValueError> {
    if value.as_str().is_some_and(|name| BackgroundOnStop::from_name(name).is_some()) {
        return Ok(());
    }
    let names = BackgroundOnStop::ALL.map(|(name, ..)| name).join(", ");
    Err(ConfigValueError::invalid(BACKGROUND_ON_STOP, value, format!("one of {names}")))
}

fn check_thinking_budget(value: &Value) -> Result<(), ConfigValueError> {
    if value.as_u64().is_some_and(|tokens| tokens <= u64::from(MAX_THINKING_TOKENS)) {
        return Ok(());
    }
    let expected = format!("a whole number of tokens up to {MAX_THINKING_TOKENS}");
    Err(ConfigValueError::invalid(THINKING_BUDGET, value, expected))
}

fn check_limit(key: &str, value: &Value) -> Result<(), ConfigValueError> {
    let (fits, expected) = if key == LIMIT_DOLLARS {
        (value.as_f64().and_then(to_nanodollars).is_some(), "an amount of dollars that is not negative, such as 2.5")
    } else {
        (value.is_u64(), "a whole number that is not negative")
    };
    if fits { Ok(()) } else { Err(ConfigValueError::invalid(key, value, expected)) }
}
