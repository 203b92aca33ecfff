//! Decides when a call is retried: only before the first byte of a response, because agents retry by themselves after
//! it.

use std::time::Duration;

use http::header;

use super::UpstreamError;

const MAX_RETRIES: u32 = 2;
/// Maximum duration of all attempts and pauses.
const RETRY_TIME_BUDGET: Duration = Duration::from_secs(10);
/// Maximum `retry-after` that the gateway waits for; the caller handles longer ones.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(5);
const INITIAL_BACKOFF: Duration = Duration::from_millis(250);

/// The delay before the next attempt; `None` if there is none.
pub(super) fn next_delay(error: &UpstreamError, retries: u32, spent: Duration) -> Option<Duration> {
    if retries >= MAX_RETRIES {
        return None;
    }
    let usual = INITIAL_BACKOFF * 2_u32.pow(retries);
    let pause = match error {
        UpstreamError::Unreachable { .. } => usual,
        UpstreamError::ErrorResponse(refusal) => {
            let asked = refusal.headers.get(header::RETRY_AFTER).map(|value| {
                let seconds = value.to_str().ok().and_then(|text| text.trim().parse::<u64>().ok());
                seconds.map_or(Duration::MAX, Duration::from_secs)
            });
            let pause = match (refusal.status.as_u16(), asked) {
                (429, None) => return None,
                (429 | 502 | 503 | 529, Some(asked)) => asked,
                (502 | 503 | 529, None) => usual,
                _ => return None,
            };
            (pause <= MAX_RETRY_AFTER).then_some(pause)?
        }
        UpstreamError::TimedOut
        | UpstreamError::Interrupted { .. }
        | UpstreamError::InvalidResponse { .. }
        | UpstreamError::MissingCredential { .. }
        | UpstreamError::Internal { .. } => return None,
    };
    (spent + pause < RETRY_TIME_BUDGET).then_some(pause)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::{HeaderMap, HeaderValue, StatusCode};

    use super::super::UpstreamErrorResponse;
    use super::*;

    fn refused(status: u16, retry_after: Option<&'static str>) -> UpstreamError {
        let mut headers = HeaderMap::new();
        if let Some(value) = retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static(value));
        }
        UpstreamError::from(UpstreamErrorResponse {
            status: StatusCode::from_u16(status).unwrap(),
            headers,
            body: Bytes::new(),
        })
    }

    #[test]
    fn next_delay_follows_the_error_and_the_time_spent() {
        let unreachable = || UpstreamError::Unreachable { reason: "refused".to_owned() };
        let broken_off = || UpstreamError::Interrupted { reason: "reset".to_owned() };
        for (error, retries, spent, expected) in [
            (unreachable(), 0, 0, Some(250)),
            (unreachable(), 1, 0, Some(500)),
            (unreachable(), 2, 0, None),
            (unreachable(), 0, 9_900, None),
            (refused(429, Some("1")), 0, 0, Some(1_000)),
            (refused(429, Some("1")), 0, 9_500, None),
            (refused(429, Some("30")), 0, 0, None),
            (refused(429, Some("Wed, 21 Oct 2026 07:28:00 GMT")), 0, 0, None),
            (refused(429, None), 0, 0, None),
            (refused(529, None), 0, 0, Some(250)),
            (refused(503, Some("2")), 1, 0, Some(2_000)),
            (refused(502, None), 1, 0, Some(500)),
            (refused(500, None), 0, 0, None),
            (refused(401, None), 0, 0, None),
            (refused(400, Some("1")), 0, 0, None),
            (UpstreamError::TimedOut, 0, 0, None),
            (broken_off(), 0, 0, None),
        ] {
            let got = next_delay(&error, retries, Duration::from_millis(spent));
            assert_eq!(got, expected.map(Duration::from_millis), "{error:?} after {retries} retries and {spent} ms");
        }
    }
}
