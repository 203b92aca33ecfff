//! Builds the JSON of an OTLP export request from records.

use std::collections::BTreeMap;

use serde_json::{Map, Value as Json, json};

use crate::log_record::{FieldValue, LogLevel, LogRecord};

/// The request with these records, and a record about dropped ones.
pub fn build_export_request(version: &str, records: &[LogRecord], dropped: u64) -> Map<String, Json> {
    let mut scopes: BTreeMap<&str, Vec<Json>> = BTreeMap::new();
    for record in records {
        scopes.entry(record.target).or_default().push(to_log_record(record));
    }
    if dropped > 0 {
        let record = LogRecord {
            time_unix_nano: crate::log_record::now_unix_nano(),
            level: LogLevel::Warn,
            target: "hostler_telemetry",
            message: "dropped log records: the client reads them too slowly".to_owned(),
            fields: vec![("count", FieldValue::Int(i64::try_from(dropped).unwrap_or(i64::MAX)))],
        };
        scopes.entry(record.target).or_default().push(to_log_record(&record));
    }
    let scopes: Vec<Json> =
        scopes.into_iter().map(|(name, lines)| json!({"scope": {"name": name}, "logRecords": lines})).collect();
    let about =
        [to_attribute("service.name", &text_value("hostler")), to_attribute("service.version", &text_value(version))];
    let logs = json!([{"resource": {"attributes": about}, "scopeLogs": scopes}]);
    Map::from_iter([("resourceLogs".to_owned(), logs)])
}

fn to_log_record(record: &LogRecord) -> Json {
    let attributes: Vec<Json> = record.fields.iter().map(|(name, value)| to_attribute(name, value)).collect();
    let mut line = json!({
        // 64-bit numbers are strings in OTLP/JSON.
        "timeUnixNano": record.time_unix_nano.to_string(),
        "observedTimeUnixNano": record.time_unix_nano.to_string(),
        "severityNumber": record.level.severity_number(),
        "severityText": record.level.name().to_ascii_uppercase(),
        "body": {"stringValue": record.message},
    });
    if let (false, Some(line)) = (attributes.is_empty(), line.as_object_mut()) {
        line.insert("attributes".to_owned(), attributes.into());
    }
    line
}

fn text_value(text: &str) -> FieldValue {
    FieldValue::Text(text.to_owned())
}

fn to_attribute(key: &str, value: &FieldValue) -> Json {
    let value = match value {
        FieldValue::Text(text) => json!({"stringValue": text}),
        FieldValue::Int(number) => json!({"intValue": number.to_string()}),
        // JSON cannot represent NaN and infinities.
        FieldValue::Float(number) if number.is_finite() => json!({"doubleValue": number}),
        FieldValue::Float(number) => json!({"doubleValue": number.to_string()}),
        FieldValue::Bool(yes) => json!({"boolValue": yes}),
    };
    json!({"key": key, "value": value})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_grouped_by_target() {
        let record = |target, message: &str, fields| LogRecord {
            time_unix_nano: 1_800_000_000_000_000_001,
            level: LogLevel::Info,
            target,
            message: message.to_owned(),
            fields,
        };
        let fields = vec![
            ("port", FieldValue::Int(8137)),
            ("fast", FieldValue::Bool(true)),
            ("ratio", FieldValue::Float(0.5)),
            ("who", text_value("x")),
        ];
        let records = [
            record("b", "first", fields),
            record("a", "second", vec![("odd", FieldValue::Float(f64::NAN))]),
            record("b", "third", vec![]),
        ];
        let plain = |message: &str| {
            json!({"timeUnixNano": "1800000000000000001", "observedTimeUnixNano": "1800000000000000001",
                   "severityNumber": 9, "severityText": "INFO", "body": {"stringValue": message}})
        };
        let with = |message: &str, attributes: Json| {
            let mut line = plain(message);
            line["attributes"] = attributes;
            line
        };
        let first = with(
            "first",
            json!([{"key": "port", "value": {"intValue": "8137"}}, {"key": "fast", "value": {"boolValue": true}},
                   {"key": "ratio", "value": {"doubleValue": 0.5}}, {"key": "who", "value": {"stringValue": "x"}}]),
        );
        let second = with("second", json!([{"key": "odd", "value": {"doubleValue": "NaN"}}]));
        let expected = json!({"resourceLogs": [{
            "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "hostler"}},
                                        {"key": "service.version", "value": {"stringValue": "1.2.3"}}]},
            "scopeLogs": [{"scope": {"name": "a"}, "logRecords": [second]},
                          {"scope": {"name": "b"}, "logRecords": [first, plain("third")]}],
        }]});
        assert_eq!(Json::from(build_export_request("1.2.3", &records, 0)), expected);
    }

    #[test]
    fn dropped_records_are_reported() {
        let request = Json::from(build_export_request("1", &[], 7));
        let line = &request["resourceLogs"][0]["scopeLogs"][0]["logRecords"][0];
        assert_eq!(line["attributes"][0]["value"]["intValue"], "7");
        assert_eq!(line["severityNumber"], 13);
    }
}
