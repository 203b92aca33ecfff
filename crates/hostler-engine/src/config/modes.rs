//! Permission modes, and the two properties of VS Code's own that show them.
//!
//! `permissionMode` is what counts. `mode` and `autoApprove` are another way of saying it, which VS Code draws by itself;
//! the three always agree. What two of them say together is never more than what one of them could say.

use ahp_types::common::JsonObject;
use hostler_rules::Mode;
use serde_json::Value;

use super::{AUTO_APPROVE, MODE, PERMISSION_MODE};

/// The permission mode if nobody says otherwise.
pub(crate) const DEFAULT_MODE: &str = "default";

/// One of the words that a property can have: what people read instead of it, and what it means.
#[derive(Debug, Clone, Copy)]
pub(super) struct Word(pub(super) &'static str, pub(super) &'static str, pub(super) &'static str);

/// The permission modes that a session can have.
const PERMISSION_MODES: [(Word, Mode); 5] = [
    (Word(DEFAULT_MODE, "Ask first", "Ask before anything is changed"), Mode::Default),
    (Word("acceptEdits", "Accept edits", "Edit files in the working directory without asking"), Mode::AcceptEdits),
    (Word("plan", "Plan", "Plan only, change nothing"), Mode::Plan),
    (Word("dontAsk", "Never ask", "Do only what needs no question, deny the rest"), Mode::DontAsk),
    // Only where the host's configuration allows it.
    (Word("bypassPermissions", "Allow all", "Do everything that no rule forbids, without asking"), Mode::Bypass),
];

/// What VS Code calls the way in which the agent works.
const INTERACTIVE: &str = "interactive";
const PLAN: &str = "plan";
const AUTOPILOT: &str = "autopilot";

/// Each with its meaning here.
pub(super) const WAYS: [Word; 3] = [
    Word(INTERACTIVE, "Interactive", "Ask about what is not approved"),
    Word(PLAN, "Plan", "Plan only, change nothing"),
    Word(AUTOPILOT, "Autopilot", "Never ask: do what needs no question, deny the rest"),
];

/// What VS Code calls the things that are approved without a question.
const ASSISTED: &str = "assisted";
const APPROVE_ALL: &str = "autoApprove";

/// Each with its meaning here. The last one only where the host's configuration allows it.
const APPROVALS: [Word; 3] = [
    Word(DEFAULT_MODE, "Default approvals", "Only what reads"),
    Word(ASSISTED, "Approve edits", "Edits of files in the working directory too"),
    Word(APPROVE_ALL, "Approve all", "Everything that no rule forbids"),
];

/// The modes on offer.
pub(super) fn modes(bypass: bool) -> impl Iterator<Item = &'static (Word, Mode)> {
    PERMISSION_MODES.iter().filter(move |(_, mode)| bypass || *mode != Mode::Bypass)
}

/// The approvals on offer.
pub(super) fn approvals(bypass: bool) -> impl Iterator<Item = &'static Word> {
    APPROVALS.iter().filter(move |Word(name, ..)| bypass || *name != APPROVE_ALL)
}

/// The mode of a name. A mode that is not on offer is the one that asks.
pub(crate) fn mode(name: &str, bypass: bool) -> Mode {
    modes(bypass).find(|(Word(known, ..), _)| *known == name).map(|(_, mode)| *mode).unwrap_or_default()
}

/// What the agent itself is told. It need not know more than what changes its own ways: the gate sees to the rest.
pub(crate) fn agent_mode(mode: Mode) -> &'static str {
    match mode {
        Mode::AcceptEdits => "acceptEdits",
        Mode::Plan => "plan",
        Mode::Default | Mode::Bypass | Mode::DontAsk => DEFAULT_MODE,
    }
}

/// The mode that a session follows its agent into, with its name. `None` if it would be looser than the mode that a person
/// chose, or is not known.
pub(crate) fn followed(word: &str, chosen: Mode) -> Option<(&'static str, Mode)> {
    let mode = match (word, chosen) {
        ("plan", _) => Mode::Plan,
        (_, Mode::Plan) => return None,
        // The agent does not know more than this of these modes.
        (DEFAULT_MODE, Mode::Bypass | Mode::DontAsk) => chosen,
        (DEFAULT_MODE, _) => Mode::Default,
        ("acceptEdits", Mode::AcceptEdits | Mode::Bypass) => Mode::AcceptEdits,
        ("dontAsk", _) => Mode::DontAsk,
        _ => return None,
    };
    PERMISSION_MODES.iter().find(|(_, known)| *known == mode).map(|(Word(name, ..), mode)| (*name, *mode))
}

/// The values of all three properties that a permission mode means. What is approved is kept where it does not matter now,
/// so that it holds again afterwards.
pub(crate) fn said_by_mode(mode: &str, now: &JsonObject) -> JsonObject {
    let kept = || match now.get(AUTO_APPROVE).and_then(Value::as_str) {
        Some(ASSISTED) => ASSISTED,
        _ => DEFAULT_MODE,
    };
    let (way, approved) = match mode {
        "acceptEdits" => (INTERACTIVE, ASSISTED),
        "plan" => (PLAN, kept()),
        "dontAsk" => (AUTOPILOT, kept()),
        "bypassPermissions" => (INTERACTIVE, APPROVE_ALL),
        _ => (INTERACTIVE, DEFAULT_MODE),
    };
    let values = [(PERMISSION_MODE, mode), (MODE, way), (AUTO_APPROVE, approved)];
    values.into_iter().map(|(key, value)| (key.to_owned(), value.into())).collect()
}

/// The permission mode that `mode` and `autoApprove` mean together.
fn meant(way: &str, approved: &str) -> &'static str {
    match (way, approved) {
        (PLAN, _) => "plan",
        (AUTOPILOT, _) => "dontAsk",
        (_, ASSISTED) => "acceptEdits",
        (_, APPROVE_ALL) => "bypassPermissions",
        _ => DEFAULT_MODE,
    }
}

/// All three properties as a wish wants them, which may name some of them. `None` if it names none.
pub(super) fn wanted(wish: &JsonObject, now: &JsonObject, bypass: bool) -> Result<Option<JsonObject>, String> {
    let mode = word(wish, PERMISSION_MODE, modes(bypass).map(|(Word(name, ..), _)| *name))?;
    let way = word(wish, MODE, WAYS.iter().map(|Word(name, ..)| *name))?;
    let approved = word(wish, AUTO_APPROVE, approvals(bypass).map(|Word(name, ..)| *name))?;
    if way.is_none() && approved.is_none() {
        return Ok(mode.map(|mode| said_by_mode(mode, now)));
    }
    // What is not named stays, unless the permission mode says otherwise.
    let rest = mode.map_or_else(|| now.clone(), |mode| said_by_mode(mode, now));
    let rest = |key: &str, other| rest.get(key).and_then(Value::as_str).unwrap_or(other).to_owned();
    let way = way.map_or_else(|| rest(MODE, INTERACTIVE), str::to_owned);
    let approved = approved.map_or_else(|| rest(AUTO_APPROVE, DEFAULT_MODE), str::to_owned);
    let meant = meant(&way, &approved);
    if mode.is_some_and(|mode| mode != meant) {
        return Err(format!("{PERMISSION_MODE} contradicts {MODE} and {AUTO_APPROVE}; say one or the other"));
    }
    let values = [(PERMISSION_MODE, meant.to_owned()), (MODE, way), (AUTO_APPROVE, approved)];
    Ok(Some(values.into_iter().map(|(key, value)| (key.to_owned(), value.into())).collect()))
}

/// The word that a wish has for a property, if it is one of those that are known.
fn word(
    wish: &JsonObject,
    key: &str,
    mut known: impl Iterator<Item = &'static str>,
) -> Result<Option<&'static str>, String> {
    let Some(value) = wish.get(key) else { return Ok(None) };
    match known.find(|word| value.as_str() == Some(*word)) {
        Some(word) => Ok(Some(word)),
        None => Err(format!("{key} cannot be {value}")),
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

    fn after(wish: Value, now: &JsonObject) -> JsonObject {
        wanted(&object(wish), now, true).unwrap().unwrap()
    }

    #[test]
    fn each_mode_has_one_pair_of_words_and_each_pair_one_mode() {
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
    fn what_is_approved_holds_again_after_a_plan() {
        let assisted = after(json!({"autoApprove": "assisted"}), &three("default", "interactive", "default"));
        assert_eq!(assisted, three("acceptEdits", "interactive", "assisted"));
        let planning = after(json!({"mode": "plan"}), &assisted);
        assert_eq!(planning, three("plan", "plan", "assisted"));
        assert_eq!(after(json!({"mode": "interactive"}), &planning), assisted);
        // Approving everything is never kept: it has to be said again.
        let all = three("bypassPermissions", "interactive", "autoApprove");
        assert_eq!(after(json!({"permissionMode": "plan"}), &all), three("plan", "plan", "default"));
    }

    #[test]
    fn contradictions_and_words_that_are_not_on_offer_are_refused() {
        let none = JsonObject::new();
        let refused = |wish: Value| wanted(&object(wish), &none, false).unwrap_err();
        assert!(refused(json!({"permissionMode": "plan", "mode": "interactive"})).contains("contradicts"));
        assert!(refused(json!({"permissionMode": "default", "autoApprove": "assisted"})).contains("contradicts"));
        for wish in [
            json!({"autoApprove": "autoApprove"}),
            json!({"permissionMode": "bypassPermissions"}),
            json!({"mode": "agent"}),
            json!({"mode": null}),
            json!({"autoApprove": true}),
        ] {
            assert!(refused(wish.clone()).contains("cannot be"), "{wish}");
        }
        assert_eq!(wanted(&object(json!({"effort": "low"})), &none, false), Ok(None));
    }
}
