//! The project's text files, for tests that search them.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use xtask::workspace::Workspace;

/// Text file of the project, with its path from the root.
pub(crate) struct SourceFile {
    pub(crate) name: String,
    pub(crate) text: String,
}

impl SourceFile {
    pub(crate) fn is_rust(&self) -> bool {
        Path::new(&self.name).extension() == Some(OsStr::new("rs"))
    }

    pub(crate) fn is_test(&self) -> bool {
        self.name.ends_with("_tests.rs")
            || Path::new(&self.name)
                .iter()
                .any(|part| part == "tests" || part == "tests.rs" || part == "hostler-testkit")
    }

    /// Returns the lines that are compiled into the product, with their numbers.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        let unit_tests = |line: &&str| line.starts_with("#[cfg(test)]") || line.starts_with("#[cfg(all(test");
        let is_test = self.is_test();
        self.text
            .lines()
            .take_while(move |line| is_test || !unit_tests(line))
            .enumerate()
            .map(|(at, line)| (at + 1, line))
    }
}

pub(crate) fn find(sources: &[SourceFile], which: impl Fn(&SourceFile) -> bool, needles: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for source in sources.iter().filter(|source| which(source)) {
        for (number, line) in source.lines() {
            if needles.iter().any(|needle| line.contains(needle)) {
                found.push(format!("{}:{number}: {}", source.name, line.trim()));
            }
        }
    }
    found
}

/// Returns all text files of the project, except build output, installed packages and version control.
pub(crate) fn sources() -> Vec<SourceFile> {
    let root = Workspace::load().unwrap().root;
    let mut found = Vec::new();
    collect(&root, &root, &mut found);
    assert!(found.len() > 20, "the project was not found");
    found
}

fn collect(root: &Path, directory: &Path, found: &mut Vec<SourceFile>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path: PathBuf = entry.unwrap().path();
        let name = path.file_name().unwrap_or_default();
        // In a second worktree `.git` is a file that names the first one.
        if ["target", "node_modules", "dist", ".vite", ".git", "captures"].iter().any(|skipped| name == *skipped) {
            continue;
        }
        if path.is_dir() {
            collect(root, &path, found);
        } else if let Ok(text) = std::fs::read_to_string(&path) {
            let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
            found.push(SourceFile { name, text });
        }
    }
}
