//! The protocol's own fixtures, and additional ones, against this host's state engine. See `data/ahp/README.md`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use ahp_types::StateAction;
use hostler_engine::{ApplyOutcome, ChannelState, Reduce as _};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

#[derive(Deserialize)]
struct Reduction {
    description: String,
    reducer: String,
    initial: Value,
    actions: Vec<Value>,
    expected: Value,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RoundTrip {
    name: String,
    #[serde(rename = "type")]
    kind: String,
    input: Value,
    acceptable_outputs: Vec<Value>,
    preserved_output: Option<Value>,
}

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/ahp")
}

fn read<T: DeserializeOwned>(directory: &str) -> Vec<(String, T)> {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(data().join(directory)).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let read = |file: PathBuf| {
        let name = format!("{directory}/{}", file.file_name().unwrap().to_string_lossy());
        let text = std::fs::read_to_string(&file).unwrap();
        let fixture = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        (name, fixture)
    };
    files.into_iter().map(read).collect()
}

fn reductions() -> Vec<(String, Reduction)> {
    ["upstream-unchanged/reducers", "ported/reducers", "ours/reducers"].into_iter().flat_map(read).collect()
}

/// Removes nulls, and normalizes numbers.
fn canonical(value: Value) -> Value {
    match value {
        Value::Object(object) => object
            .into_iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(key, value)| (key, canonical(value)))
            .collect(),
        Value::Array(items) => items.into_iter().map(canonical).collect(),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => whole.into(),
            None => match number.as_f64() {
                #[expect(clippy::cast_possible_truncation, reason = "the value is a small integer")]
                Some(float) if float.fract() == 0.0 && float.abs() < 9e15 => (float as i64).into(),
                _ => Value::Number(number),
            },
        },
        other => other,
    }
}

fn state_json(state: ChannelState) -> Value {
    canonical(serde_json::to_value(ahp_types::state::SnapshotState::from(state)).unwrap())
}

#[test]
fn reducer_fixtures_reach_the_expected_state() {
    let mut wrong = Vec::new();
    for (name, fixture) in reductions() {
        let mut state = match ChannelState::read(&fixture.reducer, fixture.initial.clone()) {
            Some(Ok(state)) => state,
            other => panic!("{name}: no such state: {other:?}"),
        };
        assert_eq!(state.kind(), fixture.reducer);
        let before = state.clone();
        let outcomes: Vec<ApplyOutcome> = fixture
            .actions
            .iter()
            .map(|action| state.reduce(&serde_json::from_value(action.clone()).unwrap()))
            .collect();
        // The outcome must match: without `Applied` the state is unchanged.
        if !outcomes.contains(&ApplyOutcome::Applied) && state != before {
            wrong.push(format!("{name}: moved, although {outcomes:?}"));
        }
        let (found, expected) = (state_json(state), canonical(fixture.expected));
        if found != expected {
            wrong.push(format!("{name} ({}):\n  found    {found}\n  expected {expected}", fixture.description));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn types_round_trip() {
    for (name, fixture) in read::<RoundTrip>("upstream-unchanged/round-trips") {
        let found = round_trip(&fixture.kind, fixture.input.clone())
            .unwrap_or_else(|| panic!("{name}: the type {:?} is not known to this test", fixture.kind))
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        let found = canonical(found);
        let accepted = fixture.acceptable_outputs.into_iter().chain(fixture.preserved_output);
        assert!(accepted.map(canonical).any(|accepted| accepted == found), "{} became {found}", fixture.name);
    }
}

fn round_trip(kind: &str, input: Value) -> Option<serde_json::Result<Value>> {
    use ahp_types::{commands, messages, notifications, state};
    fn through<T: DeserializeOwned + serde::Serialize>(input: Value) -> serde_json::Result<Value> {
        serde_json::to_value(serde_json::from_value::<T>(input)?)
    }
    Some(match kind {
        "StateAction" => through::<StateAction>(input),
        "ActionEnvelope" => through::<ahp_types::ActionEnvelope>(input),
        "JsonRpcMessage" => through::<messages::JsonRpcMessage>(input),
        "ChatSource" => through::<commands::ChatSource>(input),
        "InitializeResult" => through::<commands::InitializeResult>(input),
        "Implementation" => through::<commands::Implementation>(input),
        "ChangesetOperationTarget" => through::<commands::ChangesetOperationTarget>(input),
        "SessionStatus" => through::<state::SessionStatus>(input),
        "StringOrMarkdown" => through::<ahp_types::common::StringOrMarkdown>(input),
        "ChatInputQuestion" => through::<state::ChatInputQuestion>(input),
        "SessionSummary" => through::<state::SessionSummary>(input),
        "Customization" => through::<state::Customization>(input),
        "PartialSessionSummary" => through::<notifications::PartialSessionSummary>(input),
        "SessionAddedParams" => through::<notifications::SessionAddedParams>(input),
        _ => return None,
    })
}

#[test]
fn every_type_of_action_has_a_fixture() {
    let mut types = BTreeSet::new();
    for (name, fixture) in reductions() {
        for action in fixture.actions {
            let kind = action["type"].as_str().unwrap().to_owned();
            match serde_json::from_value(action).unwrap() {
                StateAction::Unknown(_) => {}
                known => {
                    let back = serde_json::to_value(&known).unwrap();
                    assert_eq!(back["type"], *kind, "{name}");
                    types.insert(kind);
                }
            }
        }
    }
    assert_eq!(types.len(), 106, "{types:?}");
}
