//! Collects a folder's instructions for the model, for a build that reads none of them by itself in an untrusted
//! folder.
//!
//! A build imports files only from below its working directory, so those files are imported and retain their own
//! imports; instructions of parent directories are copied.

use std::fmt::Write as _;
use std::path::Path;

use super::configuration_tree::{self, ConfigurationTree, EntryContent};

/// Instruction files of a directory.
const INSTRUCTION_FILES: [&str; 3] = ["CLAUDE.md", ".claude/CLAUDE.md", "CLAUDE.local.md"];

/// Rules directory of a directory.
const RULES_DIRECTORY: &str = ".claude/rules";

/// The instructions of a working directory (links resolved) and its parents, outermost first. `own` is the user's
/// configuration directory, which the build reads itself.
pub(super) fn collect_instructions(working_directory: &Path, own: Option<&Path>) -> String {
    let mut text = String::new();
    let directories: Vec<_> = working_directory.ancestors().collect();
    for directory in directories.into_iter().rev() {
        let is_own = own.is_some_and(|own| directory.join(".claude") == own);
        // Text that is unreadable or too long is omitted.
        let mut found = ConfigurationTree::default();
        if let Some(opened) = configuration_tree::open_directory(directory) {
            for name in INSTRUCTION_FILES
                .into_iter()
                .chain([RULES_DIRECTORY])
                .filter(|name| !is_own || !name.starts_with(".claude/"))
            {
                read_path(&mut found, &opened, name);
            }
        }
        let files = found.entries.into_iter().filter(|entry| entry.path.ends_with(".md"));
        for entry in files {
            let path = directory.join(&entry.path);
            let import = path.to_str().filter(|path| directory == working_directory && is_importable(path));
            // Writing to a String cannot fail.
            let _ = match (import, entry.content) {
                (Some(path), _) => writeln!(text, "@{path}"),
                (None, EntryContent::File { bytes, .. }) => {
                    writeln!(text, "# {}\n\n{}\n", path.display(), String::from_utf8_lossy(&bytes))
                }
                (None, EntryContent::Link(_)) => Ok(()),
            };
        }
    }
    text
}

/// Reads a path of one or two names without following a link.
fn read_path(tree: &mut ConfigurationTree, directory: &impl std::os::fd::AsFd, path: &str) {
    match path.split_once('/') {
        None => tree.read(directory, path, path.to_owned()),
        Some((outer, name)) => {
            if let Some(inner) = configuration_tree::open_subdirectory(directory, outer) {
                tree.read(inner, name, path.to_owned());
            }
        }
    }
}

/// Whether the build's import syntax can express the path.
fn is_importable(path: &str) -> bool {
    !path.contains(|letter: char| letter.is_whitespace() || letter.is_control() || letter == '\\')
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use super::*;

    #[test]
    fn own_files_are_imported_and_parent_files_are_copied() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let work = root.join("work");
        for (path, content) in [
            ("CLAUDE.md", "of the parent"),
            (".claude/CLAUDE.md", "of the user"),
            ("work/CLAUDE.md", "@other.md"),
            ("work/.claude/rules/a/b.md", "rule"),
            ("work/.claude/rules/c.txt", "no rule"),
        ] {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        let text = collect_instructions(&work, Some(&root.join(".claude")));
        let (of_parents, own) = text.split_once("@/").unwrap();
        assert!(of_parents.contains("of the parent") && !of_parents.contains("of the user"), "{text}");
        let shown = |path: &str| format!("@{}\n", work.join(path).display());
        assert_eq!(format!("@/{own}"), [shown("CLAUDE.md"), shown(".claude/rules/a/b.md")].concat());
    }

    #[test]
    fn unimportable_path_is_copied_and_links_are_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let work = dir.path().canonicalize().unwrap().join("my work");
        std::fs::create_dir(&work).unwrap();
        std::fs::write(work.join("CLAUDE.md"), "hello").unwrap();
        std::fs::write(dir.path().join("secret"), "secret").unwrap();
        std::os::unix::fs::symlink("../secret", work.join("CLAUDE.local.md")).unwrap();
        let text = collect_instructions(&work, None);
        assert!(text.contains("hello") && !text.contains("secret") && !text.contains('@'), "{text}");
    }
}
