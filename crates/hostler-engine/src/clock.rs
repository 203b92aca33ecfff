//! What time it is, in the two forms that are needed.

use jiff::Timestamp;

/// The time as the store counts it.
pub(crate) fn now_ms() -> i64 {
    Timestamp::now().as_millisecond()
}

/// The time as AHP writes it.
pub(crate) fn now() -> String {
    format!("{:.3}", Timestamp::now())
}
