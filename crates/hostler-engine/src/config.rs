//! What can be configured for a session, and for the host.

use std::collections::HashMap;

use ahp_types::common::JsonObject;
use ahp_types::state::{ConfigSchema, SessionConfigPropertySchema, SessionConfigSchema};
use serde_json::Value;

/// The property that says what the agent may do without asking.
pub(crate) const PERMISSION_MODE: &str = "permissionMode";

/// Its value if nobody says otherwise.
pub(crate) const DEFAULT_MODE: &str = "default";

/// The permission modes that a session can have. Skipping permissions altogether is not one of them.
const PERMISSION_MODES: [(&str, &str); 3] = [
    (DEFAULT_MODE, "Ask before anything is changed"),
    ("acceptEdits", "Edit files without asking"),
    ("plan", "Plan only, change nothing"),
];

/// The values of a session's configuration, defaults filled in.
pub(crate) fn resolve(wanted: Option<&JsonObject>) -> Result<JsonObject, String> {
    let mode = match wanted.and_then(|values| values.get(PERMISSION_MODE)) {
        None => DEFAULT_MODE.into(),
        Some(value) => check_mode(value)?,
    };
    let mut values = JsonObject::new();
    values.insert(PERMISSION_MODE.to_owned(), mode);
    Ok(values)
}

/// Whether a client may change a session's configuration like this.
pub(crate) fn check_change(change: &JsonObject, replace: bool) -> Result<(), String> {
    for (key, value) in change {
        if key != PERMISSION_MODE {
            return Err(format!("{key:?} cannot be changed in a session"));
        }
        check_mode(value)?;
    }
    if replace && !change.contains_key(PERMISSION_MODE) {
        return Err(format!("{PERMISSION_MODE:?} cannot be left out"));
    }
    Ok(())
}

fn check_mode(value: &Value) -> Result<Value, String> {
    let known = PERMISSION_MODES.iter().any(|(mode, _)| value.as_str() == Some(*mode));
    if known { Ok(value.clone()) } else { Err(format!("{PERMISSION_MODE} cannot be {value}")) }
}

/// The schema of a session's configuration.
pub(crate) fn session_schema() -> SessionConfigSchema {
    let text = |value: &str| Value::from(value);
    let mode = SessionConfigPropertySchema {
        r#type: "string".to_owned(),
        title: "Permission mode".to_owned(),
        description: Some("What the agent may do without asking".to_owned()),
        default: Some(text(DEFAULT_MODE)),
        r#enum: Some(PERMISSION_MODES.iter().map(|(mode, _)| text(mode)).collect()),
        enum_labels: None,
        enum_descriptions: Some(PERMISSION_MODES.iter().map(|(_, meaning)| (*meaning).to_owned()).collect()),
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
