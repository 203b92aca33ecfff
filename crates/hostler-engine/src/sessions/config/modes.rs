//! Permission modes, and the two VS Code properties that mirror them.
//!
//! `permissionMode` is authoritative. `mode` and `autoApprove` express the same in VS Code's terms, which VS Code
//! renders itself; the three always agree. A combination of the two never permits more than some permission mode does.

use ahp_types::common::JsonObject;
use hostler_rules::PermissionMode;
use serde_json::Value;

use super::{AUTO_APPROVE, ConfigValueError, MODE, PERMISSION_MODE};

/// The default permission mode.
pub(crate) const DEFAULT_MODE: &str = "default";

/// A value of an enum property: name, label and description.
#[derive(Debug, Clone, Copy)]
pub(super) struct EnumOption(pub(super) &'static str, pub(super) &'static str, pub(super) &'static str);

/// The permission modes that a session can have.
const PERMISSION_MODES: [(EnumOption, PermissionMode); 5] = [
    (EnumOption(DEFAULT_MODE, "Ask first", "Ask before each change"), PermissionMode::Default),
    (
        EnumOption("acceptEdits", "Accept edits", "Edit files in the working directory without asking"),
        PermissionMode::AcceptEdits,
    ),
    (EnumOption("plan", "Plan", "Plan without making changes"), PermissionMode::Plan),
    (
        EnumOption("dontAsk", "Deny instead of asking", "Run what is allowed without asking, and deny the rest"),
        PermissionMode::DontAsk,
    ),
    // Only if the host's configuration allows it.
    (
        EnumOption("bypassPermissions", "Allow all", "Run everything that no rule denies, without asking"),
        PermissionMode::Bypass,
    ),
];

/// VS Code's names of agent modes.
const INTERACTIVE: &str = "interactive";
const PLAN: &str = "plan";
const AUTOPILOT: &str = "autopilot";

/// Each with its meaning here.
pub(super) const VSCODE_MODES: [EnumOption; 3] = [
    EnumOption(INTERACTIVE, "Interactive", "Ask about everything that is not approved"),
    EnumOption(PLAN, "Plan", "Plan without making changes"),
    EnumOption(AUTOPILOT, "Autopilot", "Run what is allowed without asking, and deny the rest"),
];

/// VS Code's names of automatic approvals.
const ASSISTED: &str = "assisted";
const APPROVE_ALL: &str = "autoApprove";

/// Each with its meaning here. The last one only if the host's configuration allows it.
const VSCODE_APPROVALS: [EnumOption; 3] = [
    EnumOption(DEFAULT_MODE, "Default approvals", "Reading only"),
    EnumOption(ASSISTED, "Approve edits", "Reading, and edits of files in the working directory"),
    EnumOption(APPROVE_ALL, "Approve all", "Everything that no rule denies"),
];

/// The available modes.
pub(super) fn available_modes(bypass: bool) -> impl Iterator<Item = &'static (EnumOption, PermissionMode)> {
    PERMISSION_MODES.iter().filter(move |(_, mode)| bypass || *mode != PermissionMode::Bypass)
}

/// The available approvals.
pub(super) fn available_approvals(bypass: bool) -> impl Iterator<Item = &'static EnumOption> {
    VSCODE_APPROVALS.iter().filter(move |EnumOption(name, ..)| bypass || *name != APPROVE_ALL)
}

/// The mode with this name. An unavailable mode becomes the one that asks.
pub(crate) fn parse_mode(name: &str, bypass: bool) -> PermissionMode {
    available_modes(bypass).find(|(EnumOption(known, ..), _)| *known == name).map(|(_, mode)| *mode).unwrap_or_default()
}

/// The agent's own name for a mode. The agent only knows modes that change its own behavior; the gate enforces the
/// rest.
pub(crate) fn agent_mode_name(mode: PermissionMode) -> &'static str {
    match mode {
        PermissionMode::AcceptEdits => "acceptEdits",
        PermissionMode::Plan => "plan",
        PermissionMode::Default | PermissionMode::Bypass | PermissionMode::DontAsk => DEFAULT_MODE,
    }
}

/// The mode that a session adopts after its agent changed its own mode, with its name. `None` if it is looser than the
/// mode that a person chose, or unknown.
pub(crate) fn mode_after_agent_change(
    agent_mode: &str,
    chosen: PermissionMode,
) -> Option<(&'static str, PermissionMode)> {
    let mode = match (agent_mode, chosen) {
        ("plan", _) => PermissionMode::Plan,
        (_, PermissionMode::Plan) => return None,
        // These modes have no other name in the agent.
        (DEFAULT_MODE, PermissionMode::Bypass | PermissionMode::DontAsk) => chosen,
        (DEFAULT_MODE, _) => PermissionMode::Default,
        ("acceptEdits", PermissionMode::AcceptEdits | PermissionMode::Bypass) => PermissionMode::AcceptEdits,
        ("dontAsk", _) => PermissionMode::DontAsk,
        _ => return None,
    };
    PERMISSION_MODES.iter().find(|(_, known)| *known == mode).map(|(EnumOption(name, ..), mode)| (*name, *mode))
}

/// The values of all three properties for a permission mode. An approval that has no effect now is kept, so that it
/// applies again afterwards.
pub(crate) fn values_for_mode(mode: &str, now: &JsonObject) -> JsonObject {
    let retained = || match now.get(AUTO_APPROVE).and_then(Value::as_str) {
        Some(ASSISTED) => ASSISTED,
        _ => DEFAULT_MODE,
    };
    let (way, approved) = match mode {
        "acceptEdits" => (INTERACTIVE, ASSISTED),
        "plan" => (PLAN, retained()),
        "dontAsk" => (AUTOPILOT, retained()),
        "bypassPermissions" => (INTERACTIVE, APPROVE_ALL),
        _ => (INTERACTIVE, DEFAULT_MODE),
    };
    let values = [(PERMISSION_MODE, mode), (MODE, way), (AUTO_APPROVE, approved)];
    values.into_iter().map(|(key, value)| (key.to_owned(), value.into())).collect()
}

/// The permission mode for a combination of `mode` and `autoApprove`.
fn mode_for_values(way: &str, approved: &str) -> &'static str {
    match (way, approved) {
        (PLAN, _) => "plan",
        (AUTOPILOT, _) => "dontAsk",
        (_, ASSISTED) => "acceptEdits",
        (_, APPROVE_ALL) => "bypassPermissions",
        _ => DEFAULT_MODE,
    }
}

/// The values of all three properties after a change that names some of them. `None` if it names none.
pub(super) fn resolve_mode_values(
    requested: &JsonObject,
    now: &JsonObject,
    bypass: bool,
) -> Result<Option<JsonObject>, ConfigValueError> {
    let mode =
        parse_option(requested, PERMISSION_MODE, available_modes(bypass).map(|(EnumOption(name, ..), _)| *name))?;
    let way = parse_option(requested, MODE, VSCODE_MODES.iter().map(|EnumOption(name, ..)| *name))?;
    let approved =
        parse_option(requested, AUTO_APPROVE, available_approvals(bypass).map(|EnumOption(name, ..)| *name))?;
    if way.is_none() && approved.is_none() {
        return Ok(mode.map(|mode| values_for_mode(mode, now)));
    }
    // Properties that are not named stay, unless the permission mode changes them.
    let rest = mode.map_or_else(|| now.clone(), |mode| values_for_mode(mode, now));
    let rest = |key: &str, other| rest.get(key).and_then(Value::as_str).unwrap_or(other).to_owned();
    let way = way.map_or_else(|| rest(MODE, INTERACTIVE), str::to_owned);
    let approved = approved.map_or_else(|| rest(AUTO_APPROVE, DEFAULT_MODE), str::to_owned);
    let meant = mode_for_values(&way, &approved);
    if mode.is_some_and(|mode| mode != meant) {
        return Err(ConfigValueError::Contradiction { first: PERMISSION_MODE, second: MODE, third: AUTO_APPROVE });
    }
    let values = [(PERMISSION_MODE, meant.to_owned()), (MODE, way), (AUTO_APPROVE, approved)];
    Ok(Some(values.into_iter().map(|(key, value)| (key.to_owned(), value.into())).collect()))
}

/// The value of a property in a change, if it is an available one.
fn parse_option(
    requested: &JsonObject,
    key: &str,
    known: impl Iterator<Item = &'static str>,
) -> Result<Option<&'static str>, ConfigValueError> {
    let Some(value) = requested.get(key) else { return Ok(None) };
    let names: Vec<_> = known.collect();
    match names.iter().find(|name| value.as_str() == Some(**name)) {
        Some(name) => Ok(Some(name)),
        None => Err(ConfigValueError::invalid(key, value, format!("one of {}", names.join(", ")))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> JsonObject {
        value.as_object().unwrap().clone()
    }

    fn three(mode: &str, way: &str, approved: &str) -> JsonObject {
        object(json!({"permissionMode": mode, "mode": way, "autoApprove": approved}))
    }

    fn after(requested: Value, now: &JsonObject) -> JsonObject {
        resolve_mode_values(&object(requested), now, true).unwrap().unwrap()
    }

    #[test]
    fn permission_modes_map_to_vscode_values_and_back() {
        let none = JsonObject::new();
        for (mode, way, approved) in [
            ("default", "interactive", "default"),
            ("acceptEdits", "interactive", "assisted"),
            ("plan", "plan", "default"),
            ("dontAsk", "autopilot", "default"),
            ("bypassPermissions", "interactive", "autoApprove"),
        ] {
            let expected = three(mode, way, approved);
            assert_eq!(after(json!({"permissionMode": mode}), &none), expected);
            assert_eq!(after(json!({"mode": way, "autoApprove": approved}), &none), expected);
            assert_eq!(after(Value::Object(expected.clone()), &none), expected, "as resolved values come back");
        }
    }

    #[test]
    fn approvals_apply_again_after_plan_mode() {
        let assisted = after(json!({"autoApprove": "assisted"}), &three("default", "interactive", "default"));
        assert_eq!(assisted, three("acceptEdits", "interactive", "assisted"));
        let planning = after(json!({"mode": "plan"}), &assisted);
        assert_eq!(planning, three("plan", "plan", "assisted"));
        assert_eq!(after(json!({"mode": "interactive"}), &planning), assisted);
        // Approving everything is never kept: it has to be chosen again.
        let all = three("bypassPermissions", "interactive", "autoApprove");
        assert_eq!(after(json!({"permissionMode": "plan"}), &all), three("plan", "plan", "default"));
    }

    #[test]
    fn contradictory_and_unavailable_values_are_rejected() {
        let none = JsonObject::new();
        let refused = |requested: Value| resolve_mode_values(&object(requested), &none, false).unwrap_err().to_string();
        assert!(refused(json!({"permissionMode": "plan", "mode": "interactive"})).contains("contradicts"));
        assert!(refused(json!({"permissionMode": "default", "autoApprove": "assisted"})).contains("contradicts"));
        for requested in [
            json!({"autoApprove": "autoApprove"}),
            json!({"permissionMode": "bypassPermissions"}),
            json!({"mode": "agent"}),
            json!({"mode": null}),
            json!({"autoApprove": true}),
        ] {
            assert!(refused(requested.clone()).contains("cannot be"), "{requested}");
        }
        assert_eq!(resolve_mode_values(&object(json!({"effort": "low"})), &none, false), Ok(None));
    }
}
