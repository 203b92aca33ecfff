//! Parses times as people write them: `2026-11-01`, `2026-11`, `yesterday`, `7d`, or a full timestamp.

use jiff::civil::Date;
use jiff::{Span, Timestamp, Zoned};

/// The time in milliseconds since the epoch. A day starts at midnight in the host's time zone.
pub(crate) fn parse_time(text: &str, now: &Zoned) -> Option<i64> {
    let at = match text {
        "now" => now.timestamp(),
        "today" => start_of_day(now.date(), now)?,
        "yesterday" => start_of_day(now.date().yesterday().ok()?, now)?,
        text => parse_relative(text, now).or_else(|| parse_date(text, now)).or_else(|| text.parse().ok())?,
    };
    Some(at.as_millisecond())
}

/// `7d`: a time span before now.
fn parse_relative(text: &str, now: &Zoned) -> Option<Timestamp> {
    let unit = text.chars().next_back().filter(char::is_ascii_alphabetic)?;
    let count: i64 = text.strip_suffix(unit)?.parse().ok().filter(|count| (0..=100_000).contains(count))?;
    let span = match unit {
        'h' => Span::new().try_hours(count),
        'd' => Span::new().try_days(count),
        'w' => Span::new().try_weeks(count),
        'm' => Span::new().try_months(count),
        'y' => Span::new().try_years(count),
        _ => return None,
    };
    Some(now.checked_sub(span.ok()?).ok()?.timestamp())
}

/// The start of a day, a month or a year.
fn parse_date(text: &str, now: &Zoned) -> Option<Timestamp> {
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let parts: Vec<&str> = text.split('-').collect();
    if !parts.iter().all(|part| digits(part)) || parts.first().is_none_or(|year| year.len() != 4) {
        return None;
    }
    let number = |at: usize| parts.get(at).map_or(Some(1), |part| part.parse::<i8>().ok());
    let year = parts.first()?.parse().ok()?;
    if parts.len() > 3 {
        return None;
    }
    let (month, of_month) = (number(1)?, number(2)?);
    let valid = Date::new(year, month, of_month).ok()?;
    start_of_day(valid, now)
}

fn start_of_day(date: Date, now: &Zoned) -> Option<Timestamp> {
    Some(date.to_zoned(now.time_zone().clone()).ok()?.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<String> {
        let now: Zoned = "2026-11-16T01:30:00+01:00[Europe/Berlin]".parse().unwrap();
        parse_time(text, &now).map(|ms| Timestamp::from_millisecond(ms).unwrap().to_string())
    }

    #[test]
    fn days_start_at_midnight_in_the_hosts_time_zone() {
        for (text, at) in [
            ("2026-11-01", "2026-10-31T23:00:00Z"),
            ("2026-07", "2026-06-30T22:00:00Z"),
            ("2025", "2024-12-31T23:00:00Z"),
            ("today", "2026-11-15T23:00:00Z"),
            ("yesterday", "2026-11-14T23:00:00Z"),
            ("now", "2026-11-16T00:30:00Z"),
            ("3h", "2026-11-15T21:30:00Z"),
            ("7d", "2026-11-09T00:30:00Z"),
            ("2w", "2026-11-02T00:30:00Z"),
            ("1m", "2026-10-15T23:30:00Z"),
            ("1y", "2025-11-16T00:30:00Z"),
            ("2026-11-01T12:00:00Z", "2026-11-01T12:00:00Z"),
        ] {
            assert_eq!(read(text).as_deref(), Some(at), "{text}");
        }
    }

    #[test]
    fn invalid_times_are_none() {
        for text in [
            "",
            "lunch",
            "d",
            "7",
            "7x",
            "-7d",
            "2026-13",
            "2026-02-30",
            "2026-1-1-1",
            "26-01-01",
            "99999999999d",
            "2026-",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
