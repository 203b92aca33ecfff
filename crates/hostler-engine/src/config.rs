//! What can be configured for a session, and for the host.

use std::collections::HashMap;

use ahp_types::common::JsonObject;
use ahp_types::state::{ConfigSchema, SessionConfigPropertySchema, SessionConfigSchema};
use hostler_rules::Mode;
use serde_json::Value;

/// The property that says what the agent may do without asking.
pub(crate) const PERMISSION_MODE: &str = "permissionMode";

/// Its value if nobody says otherwise.
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
    Ok(values)
}

/// Whether a client may change a session's configuration like this.
pub(crate) fn check_change(change: &JsonObject, replace: bool, bypass: bool) -> Result<(), String> {
    for (key, value) in change {
        if key != PERMISSION_MODE {
            return Err(format!("{key:?} cannot be changed in a session"));
        }
        check_mode(value, bypass)?;
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

/// The schema of a session's configuration.
pub(crate) fn session_schema(bypass: bool) -> SessionConfigSchema {
    let text = |value: &str| Value::from(value);
    let mode = SessionConfigPropertySchema {
        r#type: "string".to_owned(),
        title: "Permission mode".to_owned(),
        description: Some("What the agent may do without asking".to_owned()),
        default: Some(text(DEFAULT_MODE)),
        r#enum: Some(modes(bypass).map(|(mode, ..)| text(mode)).collect()),
        enum_labels: None,
        enum_descriptions: Some(modes(bypass).map(|(.., meaning)| (*meaning).to_owned()).collect()),
        read_only: None,
        items: None,
        min_items: None,
        max_items: None,
        properties: None,
        required: None,
        additional_properties: None,
        enum_dynamic: None,
        session_mutable: Some(true),
    };
    SessionConfigSchema {
        r#type: "object".to_owned(),
        properties: HashMap::from([(PERMISSION_MODE.to_owned(), mode)]),
        required: None,
    }
}

/// The schema of the host's configuration: nothing of ours yet. Clients keep values of their own there.
pub(crate) fn root_schema() -> ConfigSchema {
    ConfigSchema { r#type: "object".to_owned(), properties: HashMap::new(), required: None }
}
