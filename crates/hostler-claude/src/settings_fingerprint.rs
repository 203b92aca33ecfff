//! A fingerprint of the settings files that an agent reads at its start, from file metadata only.

use std::fmt::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Settings and instructions of the user.
const USER_FILES: [&str; 2] = ["settings.json", "CLAUDE.md"];

/// Settings, instructions and MCP servers of a project.
const PROJECT_FILES: [&str; 5] =
    [".claude/settings.json", ".claude/settings.local.json", ".mcp.json", "CLAUDE.md", "CLAUDE.local.md"];

/// Changes when one of the files is created, changed or deleted. Claude Code's own state (`.claude.json`) is
/// excluded: it is rewritten constantly.
pub(crate) fn settings_fingerprint(config_directory: Option<&Path>, working_directory: &Path) -> String {
    let user = config_directory.into_iter().flat_map(|directory| USER_FILES.map(|name| directory.join(name)));
    let project = PROJECT_FILES.map(|name| working_directory.join(name));
    let mut text = String::new();
    for path in user.chain(project) {
        // Writing to a String cannot fail.
        let _ = match std::fs::metadata(path) {
            Ok(file) => write!(text, "{}.{}.{}.{} ", file.ino(), file.len(), file.mtime(), file.mtime_nsec()),
            Err(_) => write!(text, "- "),
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprint_changes_only_with_settings_files() {
        let dir = tempfile::tempdir().unwrap();
        let (user, work) = (dir.path().join("user"), dir.path().join("work"));
        std::fs::create_dir_all(&user).unwrap();
        std::fs::create_dir_all(work.join(".claude")).unwrap();
        let now = || settings_fingerprint(Some(&user), &work);
        let mut seen = vec![now()];
        for (path, text) in [
            (user.join("settings.json"), "{}"),
            (work.join(".claude/settings.local.json"), "{}"),
            (work.join(".claude/settings.local.json"), "{\"hooks\":{}}"),
            (work.join(".mcp.json"), "{}"),
        ] {
            std::fs::write(path, text).unwrap();
            assert!(!seen.contains(&now()), "{text}");
            seen.push(now());
        }
        std::fs::remove_file(work.join(".mcp.json")).unwrap();
        assert_eq!(now(), seen[3]);
        std::fs::write(work.join("main.rs"), "fn main() {}").unwrap();
        std::fs::write(user.join(".claude.json"), "{}").unwrap();
        assert_eq!(now(), seen[3]);
        assert_ne!(settings_fingerprint(None, &work), now());
    }
}
