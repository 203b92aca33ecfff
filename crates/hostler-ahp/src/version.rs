//! Which protocol version a connection speaks.

use ahp_types::errors::{UnsupportedProtocolVersionErrorData, ahp_error_codes};

use crate::rpc::RpcError;

/// The versions that this host speaks, as ranges. What 1.0 has and 0.9 does not (canvases), this host does not send to
/// anybody; should that change, the difference is made here.
const SUPPORTED: &[&str] = &["^1.0.0", "^0.9.0"];

/// A negotiated version; the number is its slot in the envelope's frame cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Version {
    pub(crate) name: String,
    pub(crate) slot: usize,
}

impl Version {
    /// What is noted about a client, because `reconnect` does not tell its version.
    pub(crate) fn memo(&self) -> &str {
        &self.name
    }

    /// The version of a client that comes back. `None` if it is not known, or not spoken any more: then the client has
    /// to initialize.
    pub(crate) fn of_memo(memo: &str) -> Option<Self> {
        negotiate(&[memo.to_owned()]).ok()
    }
}

/// Picks the highest offer that this host speaks. Offers that cannot be read are skipped.
pub(crate) fn negotiate(offers: &[String]) -> Result<Version, RpcError> {
    let spoken = |parts: &(u64, u64, u64)| parts.0 == 1 || (parts.0, parts.1) == (0, 9);
    let offered = offers.iter().filter_map(|offer| parse(offer).map(|parts| (parts, offer)));
    match offered.filter(|(parts, _)| spoken(parts)).max() {
        Some((_, name)) => Ok(Version { name: name.clone(), slot: 0 }),
        None => Err(refusal(offers)),
    }
}

fn refusal(offers: &[String]) -> RpcError {
    let data = UnsupportedProtocolVersionErrorData {
        supported_versions: SUPPORTED.iter().map(|version| (*version).to_owned()).collect(),
    };
    let offered = if offers.is_empty() { "none".to_owned() } else { offers.join(", ") };
    let message = format!(
        "This host speaks AHP 1.0 and 0.9; the client offered {offered}. Update the client (VS Code: 1.136 or later)."
    );
    RpcError::new(ahp_error_codes::UNSUPPORTED_PROTOCOL_VERSION, message)
        .with_data(serde_json::to_value(data).unwrap_or_default())
}

fn parse(version: &str) -> Option<(u64, u64, u64)> {
    let mut parts = version.split('.').map(|part| part.parse::<u64>().ok());
    let parsed = (parts.next()??, parts.next()??, parts.next()??);
    parts.next().is_none().then_some(parsed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(versions: &[&str]) -> Result<String, i32> {
        let offers: Vec<_> = versions.iter().map(|version| (*version).to_owned()).collect();
        negotiate(&offers).map(|version| version.name).map_err(|error| error.code)
    }

    #[test]
    fn the_highest_offer_of_the_major_version_wins() {
        assert_eq!(offer(&["1.0.0"]), Ok("1.0.0".into()));
        assert_eq!(offer(&["0.9.0", "1.0.0", "1.2.0", "2.0.0"]), Ok("1.2.0".into()));
        assert_eq!(offer(&["nonsense", "1.0", "1.0.0"]), Ok("1.0.0".into()));
    }

    #[test]
    fn a_client_that_comes_back_speaks_what_it_spoke() {
        for offers in [&["0.9.0", "0.7.0"][..], &["1.0.0", "0.9.0"], &["1.2.0"]] {
            let offers: Vec<_> = offers.iter().map(|version| (*version).to_owned()).collect();
            let version = negotiate(&offers).unwrap();
            assert_eq!(Version::of_memo(version.memo()), Some(version));
        }
        assert_eq!(Version::of_memo(""), None, "nothing was noted");
        assert_eq!(Version::of_memo("0.8.0"), None, "not spoken any more");
    }

    #[test]
    fn other_offers_are_refused_with_the_supported_versions() {
        assert_eq!(offer(&["0.9.0", "0.7.0", "0.6.0", "0.5.2", "0.5.1"]), Ok("0.9.0".into()), "VS Code 1.139");
        for offers in [&["0.8.0", "2.0.0"][..], &["0.6.0"], &[], &["x"]] {
            assert_eq!(offer(offers), Err(-32005), "{offers:?}");
        }
        let error = negotiate(&[]).unwrap_err();
        assert_eq!(error.data.unwrap()["supportedVersions"][0], "^1.0.0");
    }
}
