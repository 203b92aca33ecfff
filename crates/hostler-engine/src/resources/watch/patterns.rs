//! Which paths below a watched directory are reported: patterns and paths, relative to it.

use std::path::Path;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use serde_json::Value;

use crate::resources::ResourceError;

/// Maximum number of patterns of each kind.
const MAX_PATTERNS: usize = 128;

/// Maximum length of a pattern.
const MAX_PATTERN_BYTES: usize = 1024;

/// Included and excluded paths.
#[derive(Debug, Clone, Default)]
pub(super) struct WatchPatterns {
    includes: Option<GlobSet>,
    excludes: Option<GlobSet>,
}

impl WatchPatterns {
    pub(super) fn parse(includes: Option<&Value>, excludes: Option<&Value>) -> Result<Self, ResourceError> {
        Ok(Self {
            includes: includes.map(parse_glob_set).transpose()?,
            excludes: excludes.map(parse_glob_set).transpose()?,
        })
    }

    /// Whether a path relative to the watched directory is reported.
    pub(super) fn includes_path(&self, path: &Path) -> bool {
        let within = |set: &GlobSet| path.ancestors().any(|path| !path.as_os_str().is_empty() && set.is_match(path));
        // The watched directory itself is always reported.
        path.as_os_str().is_empty()
            || (self.includes.as_ref().is_none_or(within) && !self.excludes.as_ref().is_some_and(within))
    }
}

/// Why the patterns of a watch are invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WatchPatternError {
    /// The patterns are not a list.
    #[error("patterns must have the form {{\"items\": [\"pattern\"]}}")]
    NotAList,
    /// There are too many patterns.
    #[error("a watch can have at most {MAX_PATTERNS} patterns of each kind")]
    TooMany,
    /// A pattern is not a text, or it is empty or too long.
    #[error("a pattern must be a text of 1 to {MAX_PATTERN_BYTES} bytes")]
    InvalidLength,
    /// A pattern cannot be parsed.
    #[error("the pattern {pattern:?} is invalid: {problem}")]
    InvalidSyntax {
        /// The pattern.
        pattern: String,
        /// The parser's error.
        problem: String,
    },
    /// The patterns together are too complex.
    #[error("the patterns are too complex: {problem}; use fewer or simpler ones")]
    TooComplex {
        /// The cause.
        problem: String,
    },
}

impl WatchPatternError {
    /// The stable code for programs.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotAList
            | Self::TooMany
            | Self::InvalidLength
            | Self::InvalidSyntax { .. }
            | Self::TooComplex { .. } => "invalidPattern",
        }
    }
}

/// `{items: [pattern, …]}`.
fn parse_glob_set(value: &Value) -> Result<GlobSet, WatchPatternError> {
    let items = value.get("items").and_then(Value::as_array);
    let items = items.ok_or(WatchPatternError::NotAList)?;
    if items.len() > MAX_PATTERNS {
        return Err(WatchPatternError::TooMany);
    }
    let mut set = GlobSetBuilder::new();
    for item in items {
        let pattern = item.as_str().filter(|pattern| !pattern.is_empty() && pattern.len() <= MAX_PATTERN_BYTES);
        let pattern = pattern.ok_or(WatchPatternError::InvalidLength)?;
        let relative = pattern.trim_start_matches("./").trim_end_matches('/');
        let glob = GlobBuilder::new(relative).literal_separator(true).build();
        set.add(glob.map_err(|error| WatchPatternError::InvalidSyntax {
            pattern: pattern.to_owned(),
            problem: error.kind().to_string(),
        })?);
    }
    set.build().map_err(|error| WatchPatternError::TooComplex { problem: error.kind().to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn patterns(includes: Option<Value>, excludes: Option<Value>) -> WatchPatterns {
        WatchPatterns::parse(includes.as_ref(), excludes.as_ref()).unwrap()
    }

    #[test]
    fn patterns_are_relative_and_include_everything_below() {
        let watched = patterns(
            Some(json!({"items": ["src", "*.md", "**/*.rs"]})),
            Some(json!({"items": ["**/out", "./src/gen/"]})),
        );
        for path in ["", "src", "src/a", "src/a/b", "a.md", "deep/in/x.rs", "src/generous"] {
            assert!(watched.includes_path(Path::new(path)), "{path}");
        }
        for path in ["other", "deep/a.md", "src/gen", "src/gen/x.rs", "src/out/x.rs", "out"] {
            assert!(!watched.includes_path(Path::new(path)), "{path}");
        }
        assert!(WatchPatterns::default().includes_path(Path::new("anything/at/all")));
        assert!(!patterns(Some(json!({"items": []})), None).includes_path(Path::new("anything")));
    }

    #[test]
    fn invalid_pattern_lists_are_refused() {
        for value in [
            json!([]),
            json!({}),
            json!("*.rs"),
            json!({"items": [7]}),
            json!({"items": [""]}),
            json!({"items": ["[a"]}),
            json!({"items": ["x".repeat(1025)]}),
            json!({"items": vec!["x"; 129]}),
        ] {
            assert!(
                matches!(WatchPatterns::parse(Some(&value), None), Err(ResourceError::InvalidPattern(_))),
                "{value}"
            );
            assert!(WatchPatterns::parse(None, Some(&value)).is_err());
        }
    }
}
