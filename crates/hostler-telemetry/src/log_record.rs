//! Converts a `tracing` event to a log record.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use tracing::field::{Field, Visit};
use tracing::{Event, Metadata};

/// Maximum length of a text, in bytes.
const MAX_TEXT_BYTES: usize = 4 * 1024;

/// Maximum number of fields of a record.
const MAX_RECORD_FIELDS: usize = 32;

/// Severity of a record; for listeners, the minimum severity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LogLevel {
    /// All details.
    Trace,
    /// Details for finding faults.
    Debug,
    /// Normal events.
    Info,
    /// Unexpected events.
    Warn,
    /// Failures.
    Error,
    /// A failure that ends the host. The host never logs at this level.
    Fatal,
}

impl LogLevel {
    const ALL: [(Self, &str, u8); 6] = [
        (Self::Trace, "trace", 1),
        (Self::Debug, "debug", 5),
        (Self::Info, "info", 9),
        (Self::Warn, "warn", 13),
        (Self::Error, "error", 17),
        (Self::Fatal, "fatal", 21),
    ];

    /// The level with this name, case-insensitive.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known, _)| known.eq_ignore_ascii_case(name)).map(|(level, ..)| *level)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(level, ..)| *level == self).map_or("", |(_, name, _)| name)
    }

    /// OTLP's severity number.
    pub(crate) fn severity_number(self) -> u8 {
        Self::ALL.iter().find(|(level, ..)| *level == self).map_or(0, |(.., number)| *number)
    }

    pub(crate) fn of(metadata: &Metadata<'_>) -> Self {
        match *metadata.level() {
            tracing::Level::TRACE => Self::Trace,
            tracing::Level::DEBUG => Self::Debug,
            tracing::Level::INFO => Self::Info,
            tracing::Level::WARN => Self::Warn,
            tracing::Level::ERROR => Self::Error,
        }
    }
}

/// A log record.
#[derive(Debug, Clone, PartialEq)]
pub struct LogRecord {
    /// Time of the event, in nanoseconds since 1970.
    pub time_unix_nano: u64,
    /// Its severity.
    pub level: LogLevel,
    /// The `tracing` target that emitted it.
    pub target: &'static str,
    /// The message.
    pub message: String,
    /// The structured fields.
    pub fields: Vec<(&'static str, FieldValue)>,
}

/// A field's value.
#[derive(Debug, Clone, PartialEq)]
pub enum FieldValue {
    /// A text, or the text form of any other value.
    Text(String),
    /// An integer.
    Int(i64),
    /// A floating-point number.
    Float(f64),
    /// A boolean.
    Bool(bool),
}

impl LogRecord {
    pub(crate) fn of(event: &Event<'_>) -> Self {
        let metadata = event.metadata();
        let mut record = Self {
            time_unix_nano: now_unix_nano(),
            level: LogLevel::of(metadata),
            target: metadata.target(),
            message: String::new(),
            fields: Vec::new(),
        };
        event.record(&mut record);
        record
    }
}

/// Nanoseconds since 1970.
pub(crate) fn now_unix_nano() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

impl LogRecord {
    fn set_field(&mut self, field: &Field, value: FieldValue) {
        match (field.name(), value) {
            ("message", FieldValue::Text(text)) => self.message = text,
            (name, value) if self.fields.len() < MAX_RECORD_FIELDS => self.fields.push((name, value)),
            _ => {}
        }
    }
}

impl Visit for LogRecord {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.set_field(field, FieldValue::Float(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.set_field(field, FieldValue::Int(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        let value = i64::try_from(value).map_or_else(|_| FieldValue::Text(value.to_string()), FieldValue::Int);
        self.set_field(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.set_field(field, FieldValue::Bool(value));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.set_field(field, FieldValue::Text(truncate(value.to_owned())));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.set_field(field, FieldValue::Text(truncate(format!("{value:?}"))));
    }
}

fn truncate(mut text: String) -> String {
    if text.len() > MAX_TEXT_BYTES {
        text.truncate(text.floor_char_boundary(MAX_TEXT_BYTES));
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_have_otlp_numbers_and_are_found_by_name() {
        for (name, number) in [("trace", 1), ("debug", 5), ("info", 9), ("warn", 13), ("error", 17), ("fatal", 21)] {
            let level = LogLevel::from_name(name).unwrap();
            assert_eq!((level.name(), level.severity_number()), (name, number));
        }
        assert_eq!(LogLevel::from_name("INFO"), Some(LogLevel::Info));
        for name in ["", "verbose", "info ", "{level}"] {
            assert_eq!(LogLevel::from_name(name), None, "{name:?}");
        }
    }

    #[test]
    fn long_texts_are_truncated_between_characters() {
        let text = truncate("ä".repeat(MAX_TEXT_BYTES));
        assert!(text.len() <= MAX_TEXT_BYTES + '…'.len_utf8() && text.ends_with("ä…"));
        assert_eq!(truncate("short".to_owned()), "short");
    }
}
