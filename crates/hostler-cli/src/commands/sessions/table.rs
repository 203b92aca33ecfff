//! Sessions as rows and lines: functions over values, the clock and the width included.

use std::path::Path;

use ahp_types::state::{SessionStatus, SessionSummary};
use jiff::Timestamp;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use crate::catalogue::{self, working_directory};
use crate::console::one_line;

use super::is;

/// The directory's share of what the fixed columns leave, in percent.
const DIRECTORY_SHARE: usize = 40;
/// No column of text is cut below this.
const LEAST: usize = 8;
const GAP: &str = "  ";
const CUT: char = '…';
const UNREAD: char = '●';

/// One session, as text: id, status, age, directory, title.
pub(super) type Row = [String; 5];

/// The rows of sessions, in their order.
pub(super) fn rows(sessions: &[SessionSummary], home: &Path, now: Timestamp) -> Vec<Row> {
    let row = |(session, id): (&SessionSummary, String)| {
        let mark = if is(session.status, SessionStatus::IsRead) { ' ' } else { UNREAD };
        let status = format!("{mark} {}", status(session.status));
        [id, status, age(&session.modified_at, now), directory(session, home), one_line(&session.title)]
    };
    sessions.iter().zip(catalogue::short_ids(sessions)).map(row).collect()
}

/// The header and the rows as lines; no wider than the terminal, where there is one.
pub(super) fn lines(rows: &[Row], columns: Option<usize>) -> Vec<String> {
    let header = ["ID", "  STATUS", "CHANGED", "DIRECTORY", "TITLE"].map(str::to_owned);
    let all: Vec<&Row> = std::iter::once(&header).chain(rows).collect();
    let mut widths = [0; 5];
    for row in &all {
        for (width, cell) in widths.iter_mut().zip(row.iter()) {
            *width = cell.width().max(*width);
        }
    }
    if let Some(columns) = columns {
        let [id, status, age, directory, title] = &mut widths;
        let rest = columns.saturating_sub(*id + *status + *age + 4 * GAP.len());
        // What the title does not need is the directory's.
        let share = (rest * DIRECTORY_SHARE / 100).max(rest.saturating_sub(*title)).max(LEAST);
        *directory = share.min(*directory);
        *title = rest.saturating_sub(*directory).max(LEAST).min(*title);
    }
    all.into_iter().map(|row| line(row, widths)).collect()
}

fn line([id, status, age, directory, title]: &Row, widths: [usize; 5]) -> String {
    let [id_width, status_width, age_width, directory_width, title_width] = widths;
    let cells = [
        pad(id.clone(), id_width),
        pad(status.clone(), status_width),
        pad(age.clone(), age_width),
        // The end of a path says more than its beginning.
        pad(cut_start(directory, directory_width), directory_width),
        cut_end(title, title_width),
    ];
    cells.join(GAP).trim_end().to_owned()
}

/// What stands above a session that is shown.
pub(super) fn heading(session: &SessionSummary, home: &Path) -> String {
    let facts = [one_line(&session.resource), status(session.status).to_owned(), directory(session, home)];
    let facts: Vec<_> = facts.into_iter().filter(|fact| !fact.is_empty()).collect();
    match one_line(&session.title) {
        title if title.is_empty() => facts.join(" · "),
        title => format!("{title}\n{}", facts.join(" · ")),
    }
}

fn status(status: u32) -> &'static str {
    if is(status, SessionStatus::InputNeeded) {
        "waiting"
    } else if is(status, SessionStatus::InProgress) {
        "working"
    } else if is(status, SessionStatus::Error) {
        "error"
    } else if is(status, SessionStatus::IsArchived) {
        "archived"
    } else {
        "idle"
    }
}

/// How long ago, or the day where that says more.
pub(super) fn age(at: &str, now: Timestamp) -> String {
    let Ok(at) = at.parse::<Timestamp>() else {
        return "?".to_owned();
    };
    let seconds = now.as_second().saturating_sub(at.as_second());
    match seconds {
        ..60 => "now".to_owned(),
        60..3600 => format!("{} min", seconds / 60),
        3600..86_400 => format!("{} h", seconds / 3600),
        86_400..604_800 => format!("{} d", seconds / 86_400),
        _ => at.strftime("%Y-%m-%d").to_string(),
    }
}

/// The first working directory, as a person would write it.
fn directory(session: &SessionSummary, home: &Path) -> String {
    let Some(uri) = session.working_directories.as_ref().and_then(|directories| directories.first()) else {
        return String::new();
    };
    let Some(path) = working_directory(session) else {
        return one_line(uri);
    };
    at_home(&path, home)
}

/// A path as a person would write it.
pub(super) fn at_home(path: &Path, home: &Path) -> String {
    // A home of `/` would make everything a part of it.
    match path.strip_prefix(home) {
        Ok(rest) if home.parent().is_some() && rest.as_os_str().is_empty() => "~".to_owned(),
        Ok(rest) if home.parent().is_some() => one_line(&format!("~/{}", rest.display())),
        _ => one_line(&path.display().to_string()),
    }
}

fn pad(text: String, width: usize) -> String {
    let missing = width.saturating_sub(text.width());
    text + &" ".repeat(missing)
}

fn cut_end(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut kept = fitting(text.chars(), width);
    kept.push(CUT);
    kept.into_iter().collect()
}

fn cut_start(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut kept = fitting(text.chars().rev(), width);
    kept.push(CUT);
    kept.into_iter().rev().collect()
}

/// As many characters as leave room for the mark of the cut.
fn fitting(chars: impl Iterator<Item = char>, width: usize) -> Vec<char> {
    let mut room = width.saturating_sub(1);
    let fits = |c: &char| match room.checked_sub(c.width().unwrap_or(0)) {
        Some(rest) => {
            room = rest;
            true
        }
        None => false,
    };
    chars.take_while(fits).collect()
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
