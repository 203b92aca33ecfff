//! The protocol version of a connection: negotiation, and what clients of an older version are not sent.

use ahp_types::StateAction;
use ahp_types::errors::{UnsupportedProtocolVersionErrorData, ahp_error_codes};
use ahp_types::state::SnapshotState;
use serde_json::Value;

use crate::protocol::{SinceVersion, actions};
use crate::rpc::RpcError;

/// Supported versions, as ranges.
const SUPPORTED_VERSION_RANGES: &[&str] = &["^1.0.0", "^0.9.0"];

/// Canvases exist in 1.0 but not in 0.9.
const CANVASES_SINCE: SinceVersion = SinceVersion(0, 10, 0);

/// A negotiated version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProtocolVersion {
    pub(crate) name: String,
    number: SinceVersion,
}

impl ProtocolVersion {
    /// Slot of its frames in frame caches: versions with the same features share one.
    pub(crate) fn cache_slot(&self) -> usize {
        usize::from(!self.supports(CANVASES_SINCE))
    }

    /// Whether its clients know a feature that was added in another version.
    pub(crate) fn supports(&self, since: SinceVersion) -> bool {
        since <= self.number
    }

    /// Whether its clients know an action. An action without a row in the table has no known version and counts as
    /// known: it is only returned to its sender.
    pub(crate) fn supports_action(&self, action: &StateAction) -> bool {
        let row = match action {
            StateAction::Unknown(value) => value.get("type").and_then(Value::as_str).and_then(actions::find_by_name),
            known => actions::row(known),
        };
        row.is_none_or(|row| self.supports(row.since))
    }

    /// Removes what its clients do not know from a state.
    pub(crate) fn downgrade_state(&self, mut state: SnapshotState) -> SnapshotState {
        if let SnapshotState::Chat(chat) = &mut state
            && !self.supports(CANVASES_SINCE)
        {
            chat.canvases = None;
        }
        state
    }

    /// Stored as client metadata, because `reconnect` does not carry the version.
    pub(crate) fn client_metadata(&self) -> &str {
        &self.name
    }

    /// The version of a reconnecting client. `None` if it is unknown or no longer supported: the client then has to
    /// initialize.
    pub(crate) fn from_client_metadata(memo: &str) -> Option<Self> {
        negotiate(&[memo.to_owned()]).ok()
    }
}

/// Picks the highest supported offer. Offers that cannot be parsed are skipped.
pub(crate) fn negotiate(offers: &[String]) -> Result<ProtocolVersion, RpcError> {
    let spoken = |SinceVersion(major, minor, _): &SinceVersion| *major == 1 || (*major, *minor) == (0, 9);
    let offered = offers.iter().filter_map(|offer| parse_version(offer).map(|number| (number, offer)));
    match offered.filter(|(number, _)| spoken(number)).max() {
        Some((number, name)) => Ok(ProtocolVersion { name: name.clone(), number }),
        None => Err(unsupported_version_error(offers)),
    }
}

fn unsupported_version_error(offers: &[String]) -> RpcError {
    let data = UnsupportedProtocolVersionErrorData {
        supported_versions: SUPPORTED_VERSION_RANGES.iter().map(|version| (*version).to_owned()).collect(),
    };
    let offered = if offers.is_empty() { "none".to_owned() } else { offers.join(", ") };
    let message = format!(
        "This host speaks AHP 1.0 and 0.9; the client offered {offered}. Update the client (VS Code: 1.136 or later)."
    );
    RpcError::new(ahp_error_codes::UNSUPPORTED_PROTOCOL_VERSION, message)
        .with_data(serde_json::to_value(data).unwrap_or_default())
}

fn parse_version(version: &str) -> Option<SinceVersion> {
    let mut parts = version.split('.').map(|part| part.parse::<u64>().ok());
    let parsed = SinceVersion(parts.next()??, parts.next()??, parts.next()??);
    parts.next().is_none().then_some(parsed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn offer(versions: &[&str]) -> Result<String, i32> {
        let offers: Vec<_> = versions.iter().map(|version| (*version).to_owned()).collect();
        negotiate(&offers).map(|version| version.name).map_err(|error| error.code)
    }

    #[test]
    fn negotiate_picks_the_highest_supported_offer() {
        assert_eq!(offer(&["1.0.0"]), Ok("1.0.0".into()));
        assert_eq!(offer(&["0.9.0", "1.0.0", "1.2.0", "2.0.0"]), Ok("1.2.0".into()));
        assert_eq!(offer(&["nonsense", "1.0", "1.0.0"]), Ok("1.0.0".into()));
    }

    #[test]
    fn a_reconnecting_client_keeps_its_version() {
        for offers in [&["0.9.0", "0.7.0"][..], &["1.0.0", "0.9.0"], &["1.2.0"]] {
            let offers: Vec<_> = offers.iter().map(|version| (*version).to_owned()).collect();
            let version = negotiate(&offers).unwrap();
            assert_eq!(ProtocolVersion::from_client_metadata(version.client_metadata()), Some(version));
        }
        assert_eq!(ProtocolVersion::from_client_metadata(""), None, "nothing was noted");
        assert_eq!(ProtocolVersion::from_client_metadata("0.8.0"), None, "not spoken any more");
    }

    #[test]
    fn older_versions_do_not_receive_newer_features() {
        let version = |name: &str| negotiate(&[name.to_owned()]).unwrap();
        let (old, new, newer) = (version("0.9.0"), version("1.0.0"), version("1.3.0"));
        assert_ne!(old.cache_slot(), new.cache_slot());
        assert_eq!(new.cache_slot(), newer.cache_slot());
        let action = |json: Value| serde_json::from_value::<StateAction>(json).unwrap();
        for (json, known) in [
            (json!({"type": "chat/canvasesChanged", "canvases": []}), false),
            (json!({"type": "canvas/stateChanged"}), false),
            (json!({"type": "chat/isReadChanged", "isRead": true}), true),
            (json!({"type": "chat/fromTheFuture"}), true),
        ] {
            assert_eq!(old.supports_action(&action(json.clone())), known, "{json}");
            assert!(new.supports_action(&action(json.clone())), "{json}");
        }
        let chat = json!({"resource": "ahp-chat:/c", "title": "", "status": 1, "modifiedAt": "", "turns": [],
                          "canvases": [{"resource": "ahp-canvas:/1"}]});
        let state = SnapshotState::Chat(Box::new(serde_json::from_value(chat.clone()).unwrap()));
        assert_eq!(serde_json::to_value(new.downgrade_state(state.clone())).unwrap(), chat);
        let lowered = serde_json::to_value(old.downgrade_state(state)).unwrap();
        assert!(lowered.get("canvases").is_none() && lowered["resource"] == "ahp-chat:/c");
    }

    #[test]
    fn unsupported_offers_are_refused_with_the_supported_versions() {
        assert_eq!(offer(&["0.9.0", "0.7.0", "0.6.0", "0.5.2", "0.5.1"]), Ok("0.9.0".into()), "VS Code 1.139");
        for offers in [&["0.8.0", "2.0.0"][..], &["0.6.0"], &[], &["x"]] {
            assert_eq!(offer(offers), Err(-32005), "{offers:?}");
        }
        let error = negotiate(&[]).unwrap_err();
        assert_eq!(error.data.unwrap()["supportedVersions"][0], "^1.0.0");
    }
}
