//! Path patterns of rules: `src/**`, `~/secrets/**`, `//etc/*`, `*.pem`. Parses, prints and matches them without disk
//! access.
//!
//! * `//x` is an absolute path, `~/x` is in the home directory. A single leading slash is refused: it could mean the
//!   root of the file system or of the project.
//! * `./x` and `a/b` are relative to the workspace. A pattern without a slash, such as `*.pem`, matches at any depth.
//! * `*` is any text within a name, `?` one character, `**` any number of directories. A backslash escapes the next
//!   character; all others, including brackets and braces, are literal.
//! * `x/` and `x/**` are the directory and everything below it.
//!
//! A rule that denies or asks also covers everything below a match; a rule that allows does not.

use std::fmt;
use std::path::{Path, PathBuf};

/// A pattern for paths.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PathPattern {
    anchor: Anchor,
    parts: Vec<PatternPart>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Anchor {
    Root,
    Home,
    Workspace,
    /// Anywhere below the workspace.
    Anywhere,
}

/// One component of a pattern.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum PatternPart {
    /// `**`
    AnyDirectories,
    Name(Vec<PatternChar>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum PatternChar {
    Char(char),
    AnyChar,
    AnyChars,
}

/// Position and reason of a refused pattern.
pub(crate) type PatternError = (usize, &'static str);

const MAX_PATTERN_BYTES: usize = 4096;

impl PathPattern {
    pub(crate) fn parse(text: &str) -> Result<Self, PatternError> {
        if text.len() > MAX_PATTERN_BYTES {
            return Err((0, "the path is longer than 4096 bytes"));
        }
        if text.chars().any(|c| c.is_control()) {
            return Err((0, "the path contains a control character"));
        }
        let (anchor, rest) = if let Some(rest) = text.strip_prefix("//") {
            (Anchor::Root, rest)
        } else if text.starts_with('/') {
            return Err((0, "start an absolute path with `//`, and a path in the workspace without a slash"));
        } else if let Some(rest) = text.strip_prefix('~') {
            match rest.strip_prefix('/') {
                Some(rest) => (Anchor::Home, rest),
                None if rest.is_empty() => (Anchor::Home, rest),
                None => return Err((1, "only your own home directory is supported, as `~/`")),
            }
        } else if let Some(rest) = text.strip_prefix("./") {
            (Anchor::Workspace, rest)
        } else if text.trim_end_matches('/').contains('/') || text == "**" {
            (Anchor::Workspace, text)
        } else {
            (Anchor::Anywhere, text)
        };
        if text.is_empty() {
            return Err((0, "the parentheses are empty; add a path or remove them"));
        }
        let offset = text.chars().count() - rest.chars().count();
        let mut parts = Vec::new();
        let mut at = offset;
        for name in rest.split('/') {
            match name {
                "" | "." => {}
                ".." => return Err((at, "a pattern cannot contain `..`")),
                "**" => {
                    if parts.last() != Some(&PatternPart::AnyDirectories) {
                        parts.push(PatternPart::AnyDirectories);
                    }
                }
                _ if name.contains("**") => return Err((at, "`**` must be a whole path component, between slashes")),
                _ => {
                    let name = PatternPart::Name(parse_name(name).ok_or((at, "a trailing backslash escapes nothing"))?);
                    if matches!(name.literal_name().as_deref(), Some("." | "..")) {
                        return Err((at, "`.` and `..` are not file names"));
                    }
                    parts.push(name);
                }
            }
            at += name.chars().count() + 1;
        }
        if rest.ends_with('/') && parts.last() != Some(&PatternPart::AnyDirectories) {
            parts.push(PatternPart::AnyDirectories);
        }
        if parts.is_empty() {
            parts.push(PatternPart::AnyDirectories);
        }
        Ok(Self { anchor, parts })
    }

    /// A pattern for exactly this path, or for everything below it. The path is absolute and without `..`.
    pub(crate) fn for_path(path: &Path, below: bool, workspace: &Path) -> Option<Self> {
        let (anchor, rest) = match path.strip_prefix(workspace) {
            Ok(rest) => (Anchor::Workspace, rest),
            Err(_) => (Anchor::Root, path.strip_prefix("/").ok()?),
        };
        let mut parts = Vec::new();
        for name in rest {
            let name = name.to_str().filter(|name| !name.chars().any(char::is_control))?;
            parts.push(PatternPart::Name(name.chars().map(PatternChar::Char).collect()));
        }
        if below {
            parts.push(PatternPart::AnyDirectories);
        }
        (!parts.is_empty()).then_some(Self { anchor, parts })
    }

    /// Does the pattern match this path? With `below`, descendants of a match count too.
    pub(crate) fn matches(&self, path: &Path, ground: &PatternBases<'_>, below: bool) -> bool {
        self.bases(ground).iter().any(|base| {
            let Some(names) = path.strip_prefix(base).ok().and_then(path_names) else {
                return false;
            };
            let lengths = if below { 0..=names.len() } else { names.len()..=names.len() };
            let floating = self.anchor == Anchor::Anywhere;
            let starts = if floating { names.len() } else { 0 };
            lengths.into_iter().any(|length| {
                (0..=starts.min(length))
                    .any(|start| names.get(start..length).is_some_and(|names| matches_parts(&self.parts, names)))
            })
        })
    }

    /// Can the pattern match an entry at or below this directory?
    pub(crate) fn may_match_below(&self, directory: &Path, ground: &PatternBases<'_>) -> bool {
        let spelled: PathBuf = self.parts.iter().map_while(PatternPart::literal_name).collect();
        let start = if self.anchor == Anchor::Anywhere { PathBuf::new() } else { spelled };
        let goes_on = self.anchor == Anchor::Anywhere || !self.is_literal();
        self.bases(ground).iter().any(|base| {
            let start = base.join(&start);
            start.starts_with(directory) || (goes_on && directory.starts_with(&start))
        })
    }

    /// Whether the pattern names a single path and its descendants.
    pub(crate) fn is_literal(&self) -> bool {
        let parts = self.parts.strip_suffix(&[PatternPart::AnyDirectories]).unwrap_or(&self.parts);
        self.anchor != Anchor::Anywhere && parts.iter().all(|part| part.literal_name().is_some())
    }

    /// Can a shell glob expand to the last name of a path that this pattern matches?
    pub(crate) fn may_end_with(&self, shell_pattern: &str) -> bool {
        if !shell_pattern.chars().all(|c| c.is_alphanumeric() || "._-*?".contains(c)) {
            return true;
        }
        let Some(glyphs) = parse_name(shell_pattern) else { return true };
        match self.parts.last() {
            Some(last @ PatternPart::Name(_)) => {
                last.literal_name().is_none_or(|name| matches_parts(&[PatternPart::Name(glyphs)], &[&name]))
            }
            _ => true,
        }
    }

    /// The literal beginning of the pattern, with its anchor.
    pub(crate) fn literal_prefix(&self, ground: &PatternBases<'_>) -> Option<PathBuf> {
        let spelled: PathBuf = self.parts.iter().map_while(PatternPart::literal_name).collect();
        let base = self.bases(ground).first()?.to_path_buf();
        (self.anchor != Anchor::Anywhere).then(|| base.join(spelled))
    }

    fn bases<'a>(&self, ground: &PatternBases<'a>) -> Vec<&'a Path> {
        match self.anchor {
            Anchor::Root => vec![Path::new("/")],
            Anchor::Home => ground.home.iter().map(PathBuf::as_path).collect(),
            Anchor::Workspace | Anchor::Anywhere => ground.workspace.iter().map(PathBuf::as_path).collect(),
        }
    }
}

/// What patterns are relative to: the workspace and the home directory, as written and as resolved.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PatternBases<'a> {
    pub workspace: &'a [PathBuf],
    pub home: &'a [PathBuf],
}

impl PatternPart {
    fn literal_name(&self) -> Option<String> {
        match self {
            Self::AnyDirectories => None,
            Self::Name(glyphs) => glyphs.iter().map(|glyph| glyph.literal_char()).collect(),
        }
    }
}

impl PatternChar {
    fn literal_char(self) -> Option<char> {
        match self {
            Self::Char(c) => Some(c),
            Self::AnyChar | Self::AnyChars => None,
        }
    }
}

fn parse_name(name: &str) -> Option<Vec<PatternChar>> {
    let mut found = Vec::new();
    let mut chars = name.chars();
    while let Some(c) = chars.next() {
        found.push(match c {
            '*' => PatternChar::AnyChars,
            '?' => PatternChar::AnyChar,
            '\\' => PatternChar::Char(chars.next()?),
            _ => PatternChar::Char(c),
        });
    }
    Some(found)
}

/// The components of a path; `None` if one is not UTF-8, which no pattern can match.
fn path_names(path: &Path) -> Option<Vec<&str>> {
    path.iter().map(std::ffi::OsStr::to_str).collect()
}

/// Wildcard matching with one backtracking point: on failure, the last `**` takes one more name.
fn matches_parts(parts: &[PatternPart], names: &[&str]) -> bool {
    matches_wildcards(
        parts,
        names,
        |part| *part == PatternPart::AnyDirectories,
        |part, name| match part {
            PatternPart::AnyDirectories => true,
            PatternPart::Name(glyphs) => {
                let chars: Vec<char> = name.chars().collect();
                matches_wildcards(
                    glyphs,
                    &chars,
                    |glyph| *glyph == PatternChar::AnyChars,
                    |glyph, c| match glyph {
                        PatternChar::Char(wanted) => wanted == c,
                        PatternChar::AnyChar | PatternChar::AnyChars => true,
                    },
                )
            }
        },
    )
}

fn matches_wildcards<P, I>(
    pattern: &[P],
    items: &[I],
    is_any: impl Fn(&P) -> bool,
    fits: impl Fn(&P, &I) -> bool,
) -> bool {
    let (mut at, mut item) = (0, 0);
    let mut back: Option<(usize, usize)> = None;
    while let Some(current) = items.get(item) {
        match pattern.get(at) {
            Some(any) if is_any(any) => {
                back = Some((at, item));
                at += 1;
                continue;
            }
            Some(one) if fits(one, current) => {
                at += 1;
                item += 1;
                continue;
            }
            _ => {}
        }
        let Some((any, taken)) = back else {
            return false;
        };
        back = Some((any, taken + 1));
        at = any + 1;
        item = taken + 1;
    }
    pattern.get(at..).is_some_and(|rest| rest.iter().all(is_any))
}

impl fmt::Display for PathPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.anchor {
            Anchor::Root => "//",
            Anchor::Home => "~/",
            Anchor::Workspace => "./",
            Anchor::Anywhere => "",
        })?;
        // In an unanchored pattern a slash would anchor it, so a directory is written with a single slash at its end.
        let mut parts = self.parts.as_slice();
        let directory = self.anchor == Anchor::Anywhere && parts.len() == 2;
        if directory {
            parts = parts.get(..1).unwrap_or_default();
        }
        for (at, part) in parts.iter().enumerate() {
            if at > 0 {
                f.write_str("/")?;
            }
            match part {
                PatternPart::AnyDirectories => f.write_str("**")?,
                PatternPart::Name(glyphs) => {
                    glyphs.iter().enumerate().try_for_each(|(at, glyph)| write_pattern_char(f, *glyph, at))?
                }
            }
        }
        if directory { f.write_str("/") } else { Ok(()) }
    }
}

fn write_pattern_char(f: &mut fmt::Formatter<'_>, glyph: PatternChar, at: usize) -> fmt::Result {
    match glyph {
        PatternChar::AnyChars => f.write_str("*"),
        PatternChar::AnyChar => f.write_str("?"),
        PatternChar::Char(c) if matches!(c, '*' | '?' | '\\') || (c == '~' && at == 0) => write!(f, "\\{c}"),
        PatternChar::Char(c) => write!(f, "{c}"),
    }
}

#[cfg(test)]
mod tests;
