//! Diff previews: the change that a pending call would make to a file, displayed before it is approved.
//!
//! A preview is not a guarantee: the agent makes the edit itself, and the file may change meanwhile. In case of doubt
//! there is no preview.

use std::io::{self, Read as _};

use std::path::{Path, PathBuf};

use fs_err::OpenOptions;
use fs_err::os::unix::fs::OpenOptionsExt as _;
use hostler_driver::FileEdit;
use rustix::fs::OFlags;
use serde::Deserialize;

/// Maximum size of files and results.
const MAX_PREVIEW_BYTES: usize = 1024 * 1024;

/// A change of one file, as the agent's edit tools describe it.
#[derive(Debug, PartialEq)]
pub(crate) struct ProposedEdit {
    /// The file's path in the call.
    pub(crate) path: PathBuf,
    kind: EditKind,
}

#[derive(Debug, PartialEq)]
enum EditKind {
    /// The whole file is overwritten.
    Overwrite(String),
    /// Texts are replaced, one after the other.
    Replace(Vec<Replacement>),
}

#[derive(Debug, PartialEq, Deserialize)]
struct Replacement {
    old_string: String,
    new_string: String,
    #[serde(default)]
    replace_all: bool,
}

impl ProposedEdit {
    /// `None` for calls that change no file, or have an unknown input.
    pub(crate) fn from_tool_call(tool: &str, input: &str, directory: &Path) -> Option<Self> {
        #[derive(Deserialize)]
        struct Write {
            file_path: PathBuf,
            content: String,
        }
        #[derive(Deserialize)]
        struct Edit {
            file_path: PathBuf,
            #[serde(flatten)]
            replacement: Replacement,
        }
        #[derive(Deserialize)]
        struct MultiEdit {
            file_path: PathBuf,
            edits: Vec<Replacement>,
        }
        let (path, change) = match tool {
            "Write" => {
                let Write { file_path, content } = serde_json::from_str(input).ok()?;
                (file_path, EditKind::Overwrite(content))
            }
            "Edit" => {
                let Edit { file_path, replacement } = serde_json::from_str(input).ok()?;
                (file_path, EditKind::Replace(vec![replacement]))
            }
            "MultiEdit" => {
                let MultiEdit { file_path, edits } = serde_json::from_str(input).ok()?;
                (file_path, EditKind::Replace(edits))
            }
            _ => return None,
        };
        Some(Self { path: directory.join(path), kind: change })
    }

    /// Reads the file and creates the preview. `place` is the real path of the file, without links. Blocks.
    pub(crate) fn diff_preview(self, place: &Path) -> Option<FileEdit> {
        let before = match read_plain_file(place) {
            Ok(text) => Some(text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(_) => return None,
        };
        self.apply(before)
    }

    fn apply(self, before: Option<String>) -> Option<FileEdit> {
        let after = match self.kind {
            EditKind::Overwrite(content) => content,
            EditKind::Replace(parts) => {
                let mut text = before.clone().unwrap_or_default();
                for part in parts {
                    text = part.apply(&text, before.is_none())?;
                }
                text
            }
        };
        if after.len() > MAX_PREVIEW_BYTES {
            return None;
        }
        let (added, removed) = count_changed_lines(before.as_deref().unwrap_or_default(), &after);
        Some(FileEdit {
            path: self.path.to_str()?.to_owned(),
            before,
            after: Some(after),
            added_lines: added,
            removed_lines: removed,
        })
    }
}

impl Replacement {
    /// `None` if the agent would reject the edit: the text is missing, or not unique.
    fn apply(&self, text: &str, new_file: bool) -> Option<String> {
        let Self { old_string, new_string, replace_all } = self;
        if old_string.is_empty() {
            return (new_file && text.is_empty()).then(|| new_string.clone());
        }
        let mut found = text.matches(old_string.as_str());
        let (first, second) = (found.next(), found.next());
        if first.is_none() || (second.is_some() && !replace_all) {
            return None;
        }
        // A short text can have a long replacement and many occurrences.
        let growth = new_string.len().saturating_mul(text.matches(old_string.as_str()).count());
        (growth <= MAX_PREVIEW_BYTES).then(|| text.replace(old_string.as_str(), new_string))
    }
}

/// The numbers of added and removed lines between the first and the last difference.
fn count_changed_lines(before: &str, after: &str) -> (u64, u64) {
    let (old, new): (Vec<_>, Vec<_>) = (before.lines().collect(), after.lines().collect());
    let same = |pairs: &mut dyn Iterator<Item = (&&str, &&str)>| pairs.take_while(|(old, new)| old == new).count();
    let head = same(&mut old.iter().zip(&new));
    let tail = same(&mut old.iter().skip(head).rev().zip(new.iter().skip(head).rev()));
    let rest = |lines: usize| (lines - head - tail) as u64;
    (rest(new.len()), rest(old.len()))
}

/// The text of a regular file within the size limit. Links and pipes that replace it meanwhile are not followed.
fn read_plain_file(file: &Path) -> io::Result<String> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits();
    let flags = i32::try_from(flags).map_err(io::Error::other)?;
    let opened = OpenOptions::new().read(true).custom_flags(flags).open(file)?;
    if !opened.metadata()?.is_file() {
        return Err(io::Error::other("not a plain file"));
    }
    let mut text = String::new();
    let read = opened.take(MAX_PREVIEW_BYTES as u64 + 1).read_to_string(&mut text)?;
    if read > MAX_PREVIEW_BYTES { Err(io::Error::other("too large")) } else { Ok(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(tool: &str, input: &serde_json::Value, before: Option<&str>) -> Option<FileEdit> {
        ProposedEdit::from_tool_call(tool, &input.to_string(), Path::new("/p"))?.apply(before.map(str::to_owned))
    }

    #[test]
    fn preview_applies_writes_and_edits_like_the_agent() {
        let write = serde_json::json!({ "file_path": "a.txt", "content": "one\ntwo\n" });
        let new = applied("Write", &write, None).unwrap();
        assert_eq!(
            (new.before, new.after.as_deref(), new.added_lines, new.removed_lines),
            (None, Some("one\ntwo\n"), 2, 0)
        );
        let old = applied("Write", &write, Some("one\nthree\n")).unwrap();
        assert_eq!((old.before.as_deref(), old.added_lines, old.removed_lines), (Some("one\nthree\n"), 1, 1));
        let edit = serde_json::json!({ "file_path": "a.txt", "old_string": "b", "new_string": "x\ny" });
        let edited = applied("Edit", &edit, Some("a\nb\nc")).unwrap();
        assert_eq!((edited.after.as_deref(), edited.added_lines, edited.removed_lines), (Some("a\nx\ny\nc"), 2, 1));
        let edits = serde_json::json!({ "file_path": "a.txt", "edits": [
            { "old_string": "a", "new_string": "b", "replace_all": true }, { "old_string": "bb", "new_string": "c" },
        ] });
        assert_eq!(applied("MultiEdit", &edits, Some("aa d")).unwrap().after.as_deref(), Some("c d"));
    }

    #[test]
    fn rejected_edits_have_no_preview() {
        let edit = |old: &str| serde_json::json!({ "file_path": "a", "old_string": old, "new_string": "x" });
        assert_eq!(applied("Edit", &edit("a"), Some("a a")), None, "twice");
        assert_eq!(applied("Edit", &edit("z"), Some("a a")), None, "never");
        assert_eq!(applied("Edit", &edit(""), Some("a a")), None, "nothing in a file that is there");
        assert_eq!(applied("Edit", &edit(""), None).unwrap().after.as_deref(), Some("x"));
        assert_eq!(applied("Read", &edit("a"), Some("a")), None);
        let long = serde_json::json!({ "file_path": "a", "old_string": "a", "new_string": "x".repeat(2048), "replace_all": true });
        assert_eq!(applied("Edit", &long, Some(&"a".repeat(2048))), None, "too large");
    }

    #[test]
    fn only_regular_files_within_the_size_limit_are_read() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        std::fs::write(at("plain"), "text").unwrap();
        std::fs::write(at("large"), vec![b'x'; MAX_PREVIEW_BYTES + 1]).unwrap();
        std::os::unix::fs::symlink(at("plain"), at("link")).unwrap();
        assert_eq!(read_plain_file(&at("plain")).unwrap(), "text");
        for other in ["large", "link", "."] {
            assert!(read_plain_file(&at(other)).is_err(), "{other}");
        }
    }
}
