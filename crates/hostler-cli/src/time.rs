//! Timestamps in the format of AHP.

/// Returns the current time in RFC 3339 with milliseconds and `Z`.
pub(crate) fn now_rfc3339() -> String {
    format_rfc3339(jiff::Timestamp::now())
}

fn format_rfc3339(timestamp: jiff::Timestamp) -> String {
    format!("{timestamp:.3}")
}

#[cfg(test)]
mod tests {
    #[test]
    fn timestamps_have_milliseconds_and_z() {
        assert_eq!(super::format_rfc3339(jiff::Timestamp::from_millisecond(0).unwrap()), "1970-01-01T00:00:00.000Z");
    }
}
