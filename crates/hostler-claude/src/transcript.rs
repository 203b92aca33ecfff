//! Where Claude Code keeps a conversation.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use hostler_process::Environment;

/// Longer slugs are cut here and get a hash.
const LONGEST_SLUG: usize = 200;

/// Finds the transcripts of conversations that run in one directory.
#[derive(Debug, Clone)]
pub(crate) struct Transcripts {
    directory: Option<PathBuf>,
}

impl Transcripts {
    /// For an agent with this environment in this directory (links resolved).
    pub(crate) fn new(environment: &Environment, working_directory: &Path) -> Self {
        let home = || environment.get("HOME").map(|home| Path::new(home).join(".claude"));
        let set = |value: &&OsStr| !value.is_empty();
        let config = environment.get("CLAUDE_CONFIG_DIR").filter(set).map(PathBuf::from).or_else(home);
        let slug = working_directory.to_str().map(slug);
        Self { directory: config.zip(slug).map(|(config, slug)| config.join("projects").join(slug)) }
    }

    /// The transcript of a conversation, if it exists and holds something.
    pub(crate) async fn find(&self, session: &str) -> Option<PathBuf> {
        let path = self.directory.as_ref()?.join(format!("{session}.jsonl"));
        exists(&path).await.then_some(path)
    }
}

/// Whether there is a transcript at this path.
pub(crate) async fn exists(path: &Path) -> bool {
    tokio::fs::metadata(path).await.is_ok_and(|file| file.is_file() && file.len() > 0)
}

/// The name of a directory's folder under `projects`: everything but letters and digits becomes a dash.
fn slug(directory: &str) -> String {
    // The agent counts UTF-16 units: a character outside the basic plane becomes two dashes.
    let dashed: String = directory
        .encode_utf16()
        .map(|unit| match u8::try_from(unit) {
            Ok(byte) if byte.is_ascii_alphanumeric() => char::from(byte),
            _ => '-',
        })
        .collect();
    if dashed.len() <= LONGEST_SLUG {
        return dashed;
    }
    let hash = directory.encode_utf16().fold(0_i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)));
    let start: String = dashed.chars().take(LONGEST_SLUG).collect();
    format!("{start}-{}", base36(hash.unsigned_abs()))
}

fn base36(mut number: u32) -> String {
    let mut digits = Vec::new();
    loop {
        digits.push(char::from_digit(number % 36, 36).unwrap_or('0'));
        number /= 36;
        if number == 0 {
            return digits.iter().rev().collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slug_is_letters_digits_and_dashes() {
        assert_eq!(slug("/home/me/My Project_1"), "-home-me-My-Project-1");
        assert_eq!(slug("/ä/🦀"), "-----");
    }

    #[test]
    fn a_long_slug_is_cut_and_hashed() {
        let slug = slug(&format!("/{}", "a".repeat(300)));
        let (start, hash) = slug.split_at(LONGEST_SLUG);
        assert_eq!(start, format!("-{}", "a".repeat(199)));
        assert!(hash.starts_with('-') && hash.len() > 1, "{hash}");
        assert_eq!(base36(0), "0");
        assert_eq!(base36(36 * 36 + 35), "10z");
    }

    #[test]
    fn the_configuration_directory_is_respected() {
        let mut environment = Environment::from_vars([("HOME".into(), "/home/me".into())]);
        let directory = |environment: &Environment| Transcripts::new(environment, Path::new("/p")).directory;
        assert_eq!(directory(&environment), Some("/home/me/.claude/projects/-p".into()));
        environment.set("CLAUDE_CONFIG_DIR", "/c");
        assert_eq!(directory(&environment), Some("/c/projects/-p".into()));
        assert_eq!(directory(&Environment::default()), None);
    }
}
