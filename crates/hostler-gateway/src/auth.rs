//! Bearers of agents: `<nonce>.<id>`. The nonce proves that this gateway issued the bearer; the id identifies the
//! lease.
//! This module does not know which ids are registered; `lease` does.

use http::{HeaderMap, header};
use secrecy::{ExposeSecret, SecretString};
use subtle::ConstantTimeEq;

use crate::error::{ApiError, ApiErrorKind};

const NONCE_BYTES: usize = 32;

/// The gateway's secret part of every bearer, generated at each start.
pub(crate) struct BearerNonce(SecretString);

impl BearerNonce {
    pub(crate) fn random() -> Result<Self, getrandom::Error> {
        let mut bytes = [0_u8; NONCE_BYTES];
        getrandom::fill(&mut bytes)?;
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Self(hex.into()))
    }

    pub(crate) fn secret(&self) -> &SecretString {
        &self.0
    }

    /// Creates a nonce with a known value, for tests.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn fixed(text: &str) -> Self {
        Self(text.to_owned().into())
    }

    /// Creates the bearer for an id.
    pub(crate) fn mint_bearer(&self, id: &str) -> SecretString {
        format!("{}.{id}", self.0.expose_secret()).into()
    }

    /// Returns the id of the request's bearer if its nonce matches.
    pub(crate) fn authenticate<'a>(&self, headers: &'a HeaderMap) -> Result<&'a str, ApiError> {
        let refused = |message| ApiError::new(ApiErrorKind::Authentication, message);
        let header = headers
            .get(header::AUTHORIZATION)
            .ok_or_else(|| refused("The Authorization header is missing. Send the gateway's bearer."))?;
        let bearer = header
            .to_str()
            .ok()
            .and_then(|value| value.split_once(' '))
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
            .map(|(_, bearer)| bearer.trim_start())
            .ok_or_else(|| refused("Invalid Authorization header. Use the form `Bearer <nonce>.<id>`."))?;
        let (nonce, id) = bearer.split_once('.').unwrap_or((bearer, ""));
        // The nonce is compared before the id is parsed, so that a caller without the nonce learns nothing.
        if !bool::from(nonce.as_bytes().ct_eq(self.0.expose_secret().as_bytes())) {
            return Err(refused("Invalid bearer. It was not issued by this gateway, or was issued before a restart."));
        }
        if id.is_empty() {
            return Err(refused("Invalid bearer: no ID after the dot. Use the form `Bearer <nonce>.<id>`."));
        }
        Ok(id)
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn authenticate_accepts_only_bearers_with_the_nonce_and_an_id() {
        let nonce = BearerNonce::fixed("abc123");
        let check = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, HeaderValue::from_str(value).unwrap());
            nonce.authenticate(&headers).map(str::to_owned).ok()
        };
        for (value, id) in [
            ("Bearer abc123.one", Some("one")),
            ("bearer abc123.one", Some("one")),
            ("Bearer abc123.one.two", Some("one.two")),
            ("Bearer abc123.", None),
            ("Bearer abc123", None),
            ("Bearer .one", None),
            ("Bearer abc124.one", None),
            ("Bearer abc1234.one", None),
            ("Bearer ", None),
            ("Bearer", None),
            ("Basic abc123.one", None),
            ("abc123.one", None),
        ] {
            assert_eq!(check(value).as_deref(), id, "{value}");
        }
        assert!(nonce.authenticate(&HeaderMap::new()).is_err());
    }

    #[test]
    fn a_nonce_is_thirty_two_random_bytes_in_hex() {
        let (one, two) = (BearerNonce::random().unwrap(), BearerNonce::random().unwrap());
        assert_eq!(one.0.expose_secret().len(), 64);
        assert_ne!(one.0.expose_secret(), two.0.expose_secret());
    }
}
