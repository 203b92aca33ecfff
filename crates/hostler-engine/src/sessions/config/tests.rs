//! Tests of configuration values: limits, defaults, replacements and schemas.

use serde_json::json;

use super::*;

fn object(value: Value) -> JsonObject {
    value.as_object().unwrap().clone()
}

fn offer() -> ConfigChoices {
    let model = |id: &str| ModelInfo {
        id: id.into(),
        name: id.into(),
        context_window: None,
        max_output_tokens: None,
        supports_vision: None,
    };
    ConfigChoices { allow_bypass: false, models: vec![model("m"), model("n")], is_repository: true }
}

/// A session's values after a change, as the reducer computes them.
fn after(now: &JsonObject, requested: Value, replace: bool) -> Result<JsonObject, ConfigValueError> {
    let change = resolve_change(&offer(), now, &object(requested), replace)?;
    let mut values = if replace { JsonObject::new() } else { now.clone() };
    values.extend(change);
    Ok(values)
}

#[test]
fn limits_must_be_non_negative_numbers_or_null() {
    for good in [
        json!({"limitTokens": 0}),
        json!({"limitTokens": 500_000, "limitRequests": 7, "limitDollars": 2.5}),
        json!({"limitDollars": 3}),
        json!({"limitDollars": null, "limitTokens": null}),
    ] {
        let values = after(&JsonObject::new(), good.clone(), false).unwrap();
        assert_eq!(values, object(good.clone()));
        let values = resolve_session_values(&offer(), &object(good.clone()), &[]).unwrap();
        assert!(object(good).iter().all(|(key, value)| values[key] == *value), "{values:?}");
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
        let reason = after(&JsonObject::new(), bad.clone(), false).unwrap_err();
        let text = reason.to_string();
        assert!(text.contains("cannot be") && text.contains("not negative"), "{text}");
        assert_eq!(resolve_session_values(&offer(), &object(bad), &[]).unwrap_err(), reason);
    }
}

#[test]
fn session_limits_parses_configured_limits() {
    let values = object(json!({"limitTokens": 5, "limitDollars": 0.1, "limitRequests": null}));
    let expected = SessionBudgetLimits { requests: None, tokens: Some(5), nanodollars: Some(100_000_000) };
    assert_eq!(session_limits(&values), expected);
}

#[test]
fn requested_values_override_session_defaults_and_built_in_defaults() {
    let file = object(json!({"permissionMode": "acceptEdits"}));
    let clients = object(json!({"permissionMode": "plan", "model": "n", "effort": "high", "theirs": 1}));
    let begin = [&file, &clients];
    let values = resolve_session_values(&offer(), &object(json!({"effort": "low"})), &begin).unwrap();
    let expected = json!({"permissionMode": "acceptEdits", "mode": "interactive", "autoApprove": "assisted",
                          "model": "n", "effort": "low", "isolation": "folder"});
    assert_eq!(Value::Object(values), expected);
    let usual = resolve_session_values(&offer(), &JsonObject::new(), &[]).unwrap();
    let expected = json!({"permissionMode": "default", "mode": "interactive", "autoApprove": "default",
                          "effort": "default", "isolation": "folder"});
    assert_eq!(Value::Object(usual), expected);
}

#[test]
fn unavailable_session_defaults_are_ignored() {
    let old = object(json!({"permissionMode": "bypassPermissions", "model": "gone", "effort": 7}));
    let values = resolve_session_values(&offer(), &JsonObject::new(), &[&old]).unwrap();
    assert_eq!(values, resolve_session_values(&offer(), &JsonObject::new(), &[]).unwrap());
}

#[test]
fn replacement_keeps_read_only_values_and_clears_the_rest() {
    let now = object(json!({"permissionMode": "default", "mode": "interactive", "autoApprove": "default",
                            "isolation": "folder", "branch": "main", "model": "m", "limitTokens": 5}));
    let values = after(&now, json!({"autoApprove": "assisted"}), true).unwrap();
    let expected = json!({"permissionMode": "acceptEdits", "mode": "interactive", "autoApprove": "assisted",
                          "isolation": "folder", "branch": "main"});
    assert_eq!(Value::Object(values), expected);
    let merged = after(&now, json!({"model": null, "branch": "main"}), false).unwrap();
    assert_eq!((&merged["model"], &merged["limitTokens"]), (&Value::Null, &json!(5)), "null clears one value");
    assert!(after(&now, json!({"model": "m"}), true).unwrap_err().to_string().contains("must contain"));
    for fixed in [json!({"branch": "other"}), json!({"isolation": "worktree"}), json!({"unknown": 1})] {
        assert!(after(&now, fixed.clone(), false).unwrap_err().to_string().contains("cannot be changed"), "{fixed}");
    }
}

#[test]
fn host_config_accepts_foreign_keys_and_checks_known_ones() {
    let check = |change: Value| check_host_change(&offer(), &object(change));
    check(json!({"telemetryLevel": "all", "mode": 7, "permissionMode": "plan", "model": "m", "effort": null})).unwrap();
    for bad in [json!({"permissionMode": "bypassPermissions"}), json!({"model": "x"}), json!({"effort": "huge"})] {
        check(bad).unwrap_err();
    }
}

#[test]
fn schema_marks_mutable_properties() {
    let schema = serde_json::to_value(session_schema(&offer())).unwrap();
    let properties = schema["properties"].as_object().unwrap();
    let fixed: Vec<_> = properties.iter().filter(|(_, p)| p["sessionMutable"] != true).map(|(key, _)| key).collect();
    assert_eq!(fixed, [BRANCH, ISOLATION]);
    assert_eq!(properties[BRANCH]["readOnly"], true);
    assert_eq!(properties[BRANCH]["enumDynamic"], true);
    assert_eq!(properties[MODEL]["enum"], json!(["m", "n"]));
    assert_eq!(
        properties[AUTO_APPROVE]["enum"],
        json!(["default", "assisted"]),
        "approving everything is not on offer"
    );
    let elsewhere = ConfigChoices { is_repository: false, ..offer() };
    assert!(!session_schema(&elsewhere).properties.contains_key(BRANCH));
}
