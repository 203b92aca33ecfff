//! Former names of Hostler's own methods and parameters. The host accepts them; answers carry the current names only.

use serde_json::Value;

/// Former and current name of each renamed method.
pub(crate) const METHODS: &[(&str, &str)] = &[
    ("hostler/audit", "hostler/listAudit"),
    ("hostler/backgroundOutput", "hostler/readBackgroundOutput"),
    ("hostler/createLink", "hostler/createSignInLink"),
    ("hostler/dropImages", "hostler/removeImages"),
    ("hostler/listSignIns", "hostler/listBrowserSessions"),
    ("hostler/sessionsDoctor", "hostler/checkSessions"),
];

/// Current method, former and current name of each renamed parameter.
pub(crate) const PARAMS: &[(&str, &str, &str)] = &[
    ("hostler/removeImages", "which", "images"),
    ("hostler/search", "all", "includeUnlisted"),
    ("hostler/search", "flat", "byTurn"),
    ("hostler/search", "wait", "waitForIndex"),
];

/// The current name of a method.
pub(crate) fn current_method(method: &str) -> &str {
    METHODS.iter().find(|(former, _)| *former == method).map_or(method, |(_, current)| current)
}

/// Renames former parameters of a method, which is given by its current name. A parameter under its current name wins.
pub(crate) fn rename_params(method: &str, params: &mut Value) {
    let Value::Object(object) = params else { return };
    for (_, former, current) in PARAMS.iter().filter(|(renamed, ..)| *renamed == method) {
        if let Some(value) = object.remove(*former) {
            object.entry(*current).or_insert(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::commands;
    use serde_json::json;

    #[test]
    fn former_names_lead_to_rows_of_the_table() {
        let row = |name: &str| commands::ALL.iter().find(|command| command.name == name);
        for (former, current) in METHODS {
            assert!(row(former).is_none() && row(current).is_some(), "{former}");
            assert_eq!(current_method(former), *current);
        }
        for (method, former, current) in PARAMS {
            let params = row(method).unwrap().params;
            let has = |name: &str| params.split([' ', ',', ':', '?']).any(|param| param == name);
            assert!(has(current) && !has(former), "{method}: {former}");
        }
        assert_eq!(current_method("ping"), "ping");
    }

    #[test]
    fn former_parameters_are_renamed_and_current_ones_win() {
        let renamed = |method: &str, mut params: Value| {
            rename_params(method, &mut params);
            params
        };
        let search = json!({"query": "x", "all": true, "flat": true, "wait": true});
        let current = json!({"query": "x", "includeUnlisted": true, "byTurn": true, "waitForIndex": true});
        assert_eq!(renamed("hostler/search", search.clone()), current);
        assert_eq!(renamed("hostler/removeImages", json!({"which": "all"})), json!({"images": "all"}));
        let both = json!({"which": "all", "images": "last"});
        assert_eq!(renamed("hostler/removeImages", both), json!({"images": "last"}));
        assert_eq!(renamed("listSessions", search.clone()), search, "other methods are not affected");
        assert_eq!(renamed("hostler/search", Value::Null), Value::Null);
    }
}
