//! Builds the page with Vite, unless neither its sources nor its output have changed.
//!
//! `web/.vite/page` contains fingerprints of the last build's sources and output, so that a build by a developer's
//! own command is noticed too.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

/// Entries of `web` that do not become part of the page.
const IGNORED_ENTRIES: [&str; 8] =
    ["node_modules", "dist", ".vite", "tests", "browser", "bench", "scripts", "README.md"];

/// Builds the page unless it is up to date; returns whether it was built.
pub(super) fn ensure_built(web: &Path, build: impl FnOnce() -> Result<()>) -> Result<bool> {
    let (stamp, dist) = (web.join(".vite/page"), web.join("dist"));
    let sources = fingerprint(web, &IGNORED_ENTRIES)?;
    let made = || -> Result<String> { Ok(format!("{sources:016x} {:016x}\n", fingerprint(&dist, &[])?)) };
    if dist.join("index.html").is_file()
        && std::fs::read_to_string(&stamp).is_ok_and(|found| made().ok() == Some(found))
    {
        return Ok(false);
    }
    build()?;
    std::fs::create_dir_all(web.join(".vite"))?;
    std::fs::write(&stamp, made()?).with_context(|| format!("failed to write {}", stamp.display()))?;
    Ok(true)
}

/// Hashes the names and contents of all files below a directory.
fn fingerprint(directory: &Path, without: &[&str]) -> Result<u64> {
    let mut files = BTreeMap::new();
    collect_files(directory, without, &mut files)?;
    let mut hasher = DefaultHasher::new();
    files.hash(&mut hasher);
    Ok(hasher.finish())
}

fn collect_files(directory: &Path, without: &[&str], files: &mut BTreeMap<PathBuf, Vec<u8>>) -> Result<()> {
    let unreadable = || format!("failed to read {}", directory.display());
    for entry in std::fs::read_dir(directory).with_context(unreadable)? {
        let entry = entry.with_context(unreadable)?;
        let path = entry.path();
        if without.iter().any(|name| entry.file_name() == *name) {
            continue;
        }
        if path.is_dir() {
            collect_files(&path, &[], files)?;
        } else {
            let content = std::fs::read(&path).with_context(|| format!("failed to read {}", path.display()))?;
            files.insert(path, content);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_is_rebuilt_when_sources_or_output_changed() {
        let web = tempfile::tempdir().unwrap();
        let (web, dist) = (web.path(), web.path().join("dist"));
        for directory in ["src", "tests"] {
            std::fs::create_dir(web.join(directory)).unwrap();
        }
        let write = |name: &str, text: &str| std::fs::write(web.join(name), text).unwrap();
        let built = || {
            ensure_built(web, || {
                std::fs::create_dir_all(&dist)?;
                Ok(std::fs::write(dist.join("index.html"), "the page")?)
            })
            .unwrap()
        };
        write("src/main.ts", "one");
        assert!(built());
        assert!(!built(), "nothing has changed");
        write("src/main.ts", "two");
        assert!(built(), "a source has changed");
        write("src/more.ts", "");
        assert!(built(), "a source is new");
        write("tests/more.test.ts", "");
        assert!(!built(), "tests are no part of the page");
        write("dist/index.html", "another build");
        assert!(built(), "the output has changed");
        std::fs::remove_dir_all(&dist).unwrap();
        assert!(built(), "the output is missing");
    }

    #[test]
    fn failed_build_is_retried() {
        let web = tempfile::tempdir().unwrap();
        std::fs::write(web.path().join("index.html"), "").unwrap();
        assert!(ensure_built(web.path(), || anyhow::bail!("broken")).is_err());
        let mut tried = false;
        let again = ensure_built(web.path(), || {
            tried = true;
            anyhow::bail!("broken")
        });
        assert!(again.is_err() && tried);
    }
}
