//! Formats sessions as table rows and headings: pure functions; time and terminal width are arguments.

use std::path::Path;

use ahp_types::state::{SessionStatus, SessionSummary};
use jiff::Timestamp;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use crate::console::to_one_line;
use crate::session_lookup::{self, working_directory};

use super::has_status;

/// Share of the directory column in the space beside the fixed columns, in percent.
const DIRECTORY_WIDTH_PERCENT: usize = 40;
/// Minimum width of a text column.
const MIN_TEXT_COLUMN_WIDTH: usize = 8;
const COLUMN_GAP: &str = "  ";
const ELLIPSIS: char = '…';
const UNREAD_MARK: char = '●';

/// Session as text: id, status, age, directory, title.
pub(super) type SessionTableRow = [String; 5];

/// Returns the rows of sessions, in their order.
pub(super) fn session_rows(sessions: &[SessionSummary], home: &Path, now: Timestamp) -> Vec<SessionTableRow> {
    let row = |(session, id): (&SessionSummary, String)| {
        let mark = if has_status(session.status, SessionStatus::IsRead) { ' ' } else { UNREAD_MARK };
        let status = format!("{mark} {}", status_label(session.status));
        [
            id,
            status,
            format_age(&session.modified_at, now),
            format_directory(session, home),
            to_one_line(&session.title),
        ]
    };
    sessions.iter().zip(session_lookup::short_ids(sessions)).map(row).collect()
}

/// Returns header and rows as lines that fit the terminal, if there is one.
pub(super) fn format_table(rows: &[SessionTableRow], columns: Option<usize>) -> Vec<String> {
    let header = ["ID", "  STATUS", "CHANGED", "DIRECTORY", "TITLE"].map(str::to_owned);
    let all: Vec<&SessionTableRow> = std::iter::once(&header).chain(rows).collect();
    let mut widths = [0; 5];
    for row in &all {
        for (width, cell) in widths.iter_mut().zip(row.iter()) {
            *width = cell.width().max(*width);
        }
    }
    if let Some(columns) = columns {
        let [id, status, age, directory, title] = &mut widths;
        let rest = columns.saturating_sub(*id + *status + *age + 4 * COLUMN_GAP.len());
        // The directory gets the space that the title does not need.
        let share = (rest * DIRECTORY_WIDTH_PERCENT / 100).max(rest.saturating_sub(*title)).max(MIN_TEXT_COLUMN_WIDTH);
        *directory = share.min(*directory);
        *title = rest.saturating_sub(*directory).max(MIN_TEXT_COLUMN_WIDTH).min(*title);
    }
    all.into_iter().map(|row| format_row(row, widths)).collect()
}

fn format_row([id, status, age, directory, title]: &SessionTableRow, widths: [usize; 5]) -> String {
    let [id_width, status_width, age_width, directory_width, title_width] = widths;
    let cells = [
        pad_to_width(id.clone(), id_width),
        pad_to_width(status.clone(), status_width),
        pad_to_width(age.clone(), age_width),
        // Paths are truncated at the start because their end is more specific.
        pad_to_width(truncate_start(directory, directory_width), directory_width),
        truncate_end(title, title_width),
    ];
    cells.join(COLUMN_GAP).trim_end().to_owned()
}

/// Returns the heading of a session that is shown.
pub(super) fn format_heading(session: &SessionSummary, home: &Path) -> String {
    let details =
        [to_one_line(&session.resource), status_label(session.status).to_owned(), format_directory(session, home)];
    let details: Vec<_> = details.into_iter().filter(|detail| !detail.is_empty()).collect();
    match to_one_line(&session.title) {
        title if title.is_empty() => details.join(" · "),
        title => format!("{title}\n{}", details.join(" · ")),
    }
}

fn status_label(status: u32) -> &'static str {
    if has_status(status, SessionStatus::InputNeeded) {
        "waiting"
    } else if has_status(status, SessionStatus::InProgress) {
        "working"
    } else if has_status(status, SessionStatus::Error) {
        "error"
    } else if has_status(status, SessionStatus::IsArchived) {
        "archived"
    } else {
        "idle"
    }
}

/// Formats the age, or the date for old sessions.
pub(super) fn format_age(at: &str, now: Timestamp) -> String {
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

/// Formats the first working directory.
fn format_directory(session: &SessionSummary, home: &Path) -> String {
    let Some(uri) = session.working_directories.as_ref().and_then(|directories| directories.first()) else {
        return String::new();
    };
    let Some(path) = working_directory(session) else {
        return to_one_line(uri);
    };
    abbreviate_home(&path, home)
}

/// Formats a path with `~` for the home directory.
pub(super) fn abbreviate_home(path: &Path, home: &Path) -> String {
    // With `/` as home, every path would be inside it.
    match path.strip_prefix(home) {
        Ok(rest) if home.parent().is_some() && rest.as_os_str().is_empty() => "~".to_owned(),
        Ok(rest) if home.parent().is_some() => to_one_line(&format!("~/{}", rest.display())),
        _ => to_one_line(&path.display().to_string()),
    }
}

fn pad_to_width(text: String, width: usize) -> String {
    let missing = width.saturating_sub(text.width());
    text + &" ".repeat(missing)
}

fn truncate_end(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut visible = take_fitting(text.chars(), width);
    visible.push(ELLIPSIS);
    visible.into_iter().collect()
}

fn truncate_start(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut visible = take_fitting(text.chars().rev(), width);
    visible.push(ELLIPSIS);
    visible.into_iter().rev().collect()
}

/// Takes the characters that fit, leaving room for the ellipsis.
fn take_fitting(chars: impl Iterator<Item = char>, width: usize) -> Vec<char> {
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
