//! The ledger file: one JSON object per line. The first line contains the version; each later line contains the totals
//! of a session or day and replaces all earlier lines of it.

use std::borrow::Cow;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use jiff::civil::Date;
use serde::{Deserialize, Serialize};

use super::{LedgerError, Rows, SessionRow, ledger_path};
use crate::dollars::Dollars;
use crate::usage::UsageTotals;

/// The version that this code writes and the only one that it reads.
const LEDGER_VERSION: u32 = 1;
/// Maximum length of a line; longer lines are damaged.
const MAX_LINE_BYTES: u64 = 64 * 1024;
/// Only the owner can read the file, because it contains session names.
const FILE_MODE: u32 = 0o600;

#[derive(Serialize, Deserialize)]
struct LedgerHeader {
    #[serde(rename = "hostlerLedger")]
    version: u32,
}

/// One line. It has no field for message contents or credentials.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct LedgerLine<'a> {
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    session: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    day: Option<Date>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[serde(alias = "forgotten")]
    deleted: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[serde(alias = "guest")]
    unregistered: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(alias = "last")]
    last_used: Option<Date>,
    #[serde(default)]
    requests: u64,
    #[serde(default)]
    input: u64,
    #[serde(default)]
    output: u64,
    #[serde(default)]
    cache_read: u64,
    #[serde(default)]
    cache_write: u64,
    #[serde(default)]
    nanodollars: u64,
    #[serde(default)]
    unpriced: u64,
}

impl<'a> LedgerLine<'a> {
    fn new(totals: &UsageTotals) -> Self {
        Self {
            session: None,
            day: None,
            deleted: false,
            unregistered: false,
            last_used: None,
            requests: totals.requests,
            input: totals.input_tokens,
            output: totals.output_tokens,
            cache_read: totals.cache_read_tokens,
            cache_write: totals.cache_write_tokens,
            nanodollars: totals.dollars.nanos(),
            unpriced: totals.unpriced_tokens,
        }
    }

    fn for_session(session: &'a str, row: Option<&SessionRow>) -> Self {
        let line = Self::new(&row.map(|row| row.totals).unwrap_or_default());
        Self {
            session: Some(session.into()),
            deleted: row.is_none(),
            unregistered: row.is_some_and(|row| row.is_unregistered),
            last_used: row.map(|row| row.last_used),
            ..line
        }
    }

    fn for_day(day: Date, totals: &UsageTotals) -> Self {
        Self { day: Some(day), ..Self::new(totals) }
    }

    fn totals(&self) -> UsageTotals {
        UsageTotals {
            requests: self.requests,
            input_tokens: self.input,
            output_tokens: self.output,
            cache_read_tokens: self.cache_read,
            cache_write_tokens: self.cache_write,
            dollars: Dollars::from_nanos(self.nanodollars),
            unpriced_tokens: self.unpriced,
        }
    }

    /// Replaces earlier totals by those of this line; `false` if the line has no known content.
    fn apply_to(&self, rows: &mut Rows) -> bool {
        let totals = self.totals();
        match (self.session.as_deref(), self.day) {
            (Some(session), None) if self.deleted => drop(rows.sessions.remove(session)),
            (Some(session), None) => {
                let row = SessionRow {
                    totals,
                    is_unregistered: self.unregistered,
                    last_used: self.last_used.unwrap_or_default(),
                };
                rows.sessions.insert(session.into(), row);
            }
            (None, Some(day)) => drop(rows.days.insert(day, totals)),
            (None, None) | (Some(_), Some(_)) => return false,
        }
        true
    }
}

/// Serialized lines to append.
#[derive(Default)]
pub(super) struct LedgerLines(Vec<u8>);

impl LedgerLines {
    /// The lines for all rows.
    fn from_rows(rows: &Rows) -> io::Result<Self> {
        let mut lines = Self::default();
        lines.push(&LedgerHeader { version: LEDGER_VERSION })?;
        for (session, row) in &rows.sessions {
            lines.push_session(session, Some(row))?;
        }
        for (day, totals) in &rows.days {
            lines.push_day(*day, totals)?;
        }
        Ok(lines)
    }

    /// Adds a session's totals, or a line that deletes it.
    pub(super) fn push_session(&mut self, session: &str, row: Option<&SessionRow>) -> io::Result<()> {
        self.push(&LedgerLine::for_session(session, row))
    }

    /// Adds a day's totals.
    pub(super) fn push_day(&mut self, day: Date, totals: &UsageTotals) -> io::Result<()> {
        self.push(&LedgerLine::for_day(day, totals))
    }

    fn push(&mut self, line: &impl Serialize) -> io::Result<()> {
        serde_json::to_writer(&mut self.0, line)?;
        self.0.push(b'\n');
        Ok(())
    }
}

/// The open file and its lock.
#[derive(Debug)]
pub(super) struct LedgerFile {
    path: PathBuf,
    /// Open unless a write has failed; it is then reopened, since the path may have changed.
    file: Option<File>,
    length: u64,
    /// The file may end in an incomplete line, so the next write starts with a line break.
    may_end_mid_line: bool,
    compaction_growth_bytes: u64,
    /// Length at which the file is compacted.
    compact_at: u64,
    /// Lock on a separate file, because compaction replaces the ledger file.
    _lock: File,
}

impl LedgerFile {
    /// Locks, reads and compacts the ledger of a directory.
    pub(super) fn open(dir: &Path, growth: u64) -> Result<(Self, Rows), LedgerError> {
        let lock = lock_ledger(dir)?;
        let path = ledger_path(dir);
        let read = read_ledger(&path)?;
        if read.damaged_lines > 0 {
            tracing::warn!(path = %path.display(), lines = read.damaged_lines, "skipped damaged lines of the ledger");
        }
        let mut file = Self {
            path,
            file: None,
            length: 0,
            may_end_mid_line: true,
            compaction_growth_bytes: growth,
            compact_at: growth,
            _lock: lock,
        };
        if read.length > 0
            && let Err(error) = file.compact(&read.rows)
        {
            tracing::warn!(path = %file.path.display(), %error, "failed to compact the ledger");
        }
        Ok((file, read.rows))
    }

    /// Appends lines in a single write.
    pub(super) fn append(&mut self, lines: &LedgerLines) -> io::Result<()> {
        let written = self.try_append(lines);
        if written.is_err() {
            self.reopen_at_next_write();
        }
        written
    }

    /// Reopens the file at the next write, since its end is unknown after a failure.
    pub(super) fn reopen_at_next_write(&mut self) {
        (self.file, self.may_end_mid_line) = (None, true);
    }

    fn try_append(&mut self, lines: &LedgerLines) -> io::Result<()> {
        let mut file = match self.file.take() {
            Some(file) => file,
            None => {
                let file = OpenOptions::new().append(true).create(true).mode(FILE_MODE).open(&self.path)?;
                self.length = file.metadata()?.len();
                file
            }
        };
        let mut bytes = Vec::with_capacity(lines.0.len() + 32);
        if self.length == 0 {
            let mut header = LedgerLines::default();
            header.push(&LedgerHeader { version: LEDGER_VERSION })?;
            bytes.append(&mut header.0);
        } else if self.may_end_mid_line {
            bytes.push(b'\n');
        }
        bytes.extend_from_slice(&lines.0);
        // A full disk may leave an incomplete line, which readers skip.
        file.write_all(&bytes)?;
        self.length += u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        (self.file, self.may_end_mid_line) = (Some(file), false);
        Ok(())
    }

    /// Whether the file has grown enough to be compacted.
    pub(super) fn needs_compaction(&self) -> bool {
        self.length >= self.compact_at
    }

    /// Replaces the file by one that contains each total once. If that fails, the old file stays in use.
    pub(super) fn compact(&mut self, rows: &Rows) -> io::Result<()> {
        // After a failure as well, the next attempt waits until the file has grown again.
        self.compact_at = self.length.saturating_mul(2).max(self.length.saturating_add(self.compaction_growth_bytes));
        let new = self.path.with_extension("jsonl.new");
        let replaced = replace(&new, &self.path, rows);
        if replaced.is_err() {
            let _ = fs::remove_file(&new);
        }
        let (file, length) = replaced?;
        self.compact_at = length.saturating_mul(2).max(length.saturating_add(self.compaction_growth_bytes));
        (self.file, self.length, self.may_end_mid_line) = (Some(file), length, false);
        Ok(())
    }
}

/// Writes and syncs a new file, then renames it over the old one.
fn replace(new: &Path, path: &Path, rows: &Rows) -> io::Result<(File, u64)> {
    let lines = LedgerLines::from_rows(rows)?;
    match fs::remove_file(new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().append(true).create_new(true).mode(FILE_MODE).open(new)?;
    file.write_all(&lines.0)?;
    file.sync_all()?;
    fs::rename(new, path)?;
    if let Some(dir) = path.parent() {
        File::open(dir)?.sync_all()?;
    }
    Ok((file, u64::try_from(lines.0.len()).unwrap_or(u64::MAX)))
}

fn lock_ledger(dir: &Path) -> Result<File, LedgerError> {
    let path = dir.join("ledger.lock");
    let io = |source| LedgerError::Io { path: path.clone(), source };
    fs::create_dir_all(dir).map_err(io)?;
    let file = OpenOptions::new().write(true).create(true).truncate(false).mode(FILE_MODE).open(&path).map_err(io)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(LedgerError::Locked(dir.to_owned())),
        Err(TryLockError::Error(source)) => Err(io(source)),
    }
}

/// Parsed content of a file.
#[derive(Default)]
struct LedgerContents {
    rows: Rows,
    length: u64,
    /// Complete lines that could not be parsed.
    damaged_lines: usize,
}

fn read_ledger(path: &Path) -> Result<LedgerContents, LedgerError> {
    let io = |source| LedgerError::Io { path: path.to_owned(), source };
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(LedgerContents::default()),
        Err(error) => return Err(io(error)),
    };
    let metadata = file.metadata().map_err(io)?;
    if !metadata.is_file() {
        return Err(io(io::Error::other("not a regular file")));
    }
    let mut read = LedgerContents { length: metadata.len(), ..LedgerContents::default() };
    let mut reader = BufReader::new(file);
    let (mut line, mut long) = (Vec::new(), false);
    loop {
        line.clear();
        let count = reader.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut line).map_err(io)?;
        let whole = line.pop_if(|byte| *byte == b'\n').is_some();
        match (count, whole) {
            // End of file. An incomplete last line was being written when the process died; it is ignored.
            (0, _) => return Ok(read),
            (_, false) => long = true,
            (_, true) if std::mem::take(&mut long) => read.damaged_lines += 1,
            (_, true) if line.is_empty() => {}
            (_, true) => match serde_json::from_slice::<LedgerLine<'_>>(&line) {
                Ok(total) if total.apply_to(&mut read.rows) => {}
                _ => match serde_json::from_slice::<LedgerHeader>(&line) {
                    Ok(header) if header.version > LEDGER_VERSION => return Err(LedgerError::TooNew(path.to_owned())),
                    Ok(_) => {}
                    Err(_) => read.damaged_lines += 1,
                },
            },
        }
    }
}
