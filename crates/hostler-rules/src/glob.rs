//! Patterns for paths: `src/**`, `~/secrets/**`, `//etc/*`, `*.pem`.
//!
//! * `//x` is an absolute path, `~/x` lies in the home directory. One slash alone is refused, since it means the file system's
//!   root to some people and the project's to others.
//! * `./x` and `a/b` are relative to the workspace. A pattern without a slash, as `*.pem`, matches at any depth in it.
//! * `*` is anything within a name, `?` one character, `**` any number of directories. A backslash takes the next character
//!   as it is; all others, brackets and braces too, stand for themselves.
//! * `x/` and `x/**` are the directory with everything below it.
//!
//! A rule that denies or asks also covers everything below what it matches; a rule that allows does not.

use std::fmt;
use std::path::{Path, PathBuf};

/// A pattern for paths.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PathPattern {
    anchor: Anchor,
    parts: Vec<Part>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Anchor {
    Root,
    Home,
    Workspace,
    /// Anywhere below the workspace.
    Anywhere,
}

/// What stands between two slashes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Part {
    /// `**`
    Directories,
    Name(Vec<Glyph>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Glyph {
    Char(char),
    AnyOne,
    Any,
}

/// Why a pattern is refused, and where.
pub(crate) type Refusal = (usize, &'static str);

const LONGEST: usize = 4096;

impl PathPattern {
    pub(crate) fn parse(text: &str) -> Result<Self, Refusal> {
        if text.len() > LONGEST {
            return Err((0, "the path is longer than 4096 bytes"));
        }
        if text.chars().any(|c| c.is_control()) {
            return Err((0, "the path holds a control character"));
        }
        let (anchor, rest) = if let Some(rest) = text.strip_prefix("//") {
            (Anchor::Root, rest)
        } else if text.starts_with('/') {
            return Err((0, "write `//` in front of an absolute path, and nothing in front of one in the workspace"));
        } else if let Some(rest) = text.strip_prefix('~') {
            match rest.strip_prefix('/') {
                Some(rest) => (Anchor::Home, rest),
                None if rest.is_empty() => (Anchor::Home, rest),
                None => return Err((1, "only your own home directory can be named, as `~/`")),
            }
        } else if let Some(rest) = text.strip_prefix("./") {
            (Anchor::Workspace, rest)
        } else if text.trim_end_matches('/').contains('/') || text == "**" {
            (Anchor::Workspace, text)
        } else {
            (Anchor::Anywhere, text)
        };
        if text.is_empty() {
            return Err((0, "name a path between the parentheses, or leave them out"));
        }
        let offset = text.chars().count() - rest.chars().count();
        let mut parts = Vec::new();
        let mut at = offset;
        for name in rest.split('/') {
            match name {
                "" | "." => {}
                ".." => return Err((at, "a pattern cannot go up with `..`")),
                "**" => {
                    if parts.last() != Some(&Part::Directories) {
                        parts.push(Part::Directories);
                    }
                }
                _ if name.contains("**") => return Err((at, "`**` stands for whole directories, between slashes")),
                _ => {
                    let name = Part::Name(glyphs(name).ok_or((at, "a backslash at the end takes nothing"))?);
                    if matches!(name.spelled().as_deref(), Some("." | "..")) {
                        return Err((at, "`.` and `..` name no file"));
                    }
                    parts.push(name);
                }
            }
            at += name.chars().count() + 1;
        }
        if rest.ends_with('/') && parts.last() != Some(&Part::Directories) {
            parts.push(Part::Directories);
        }
        if parts.is_empty() {
            parts.push(Part::Directories);
        }
        Ok(Self { anchor, parts })
    }

    /// A pattern for exactly this path, or for all that is below it. The path is absolute and without `..`.
    pub(crate) fn exact(path: &Path, below: bool, workspace: &Path) -> Option<Self> {
        let (anchor, rest) = match path.strip_prefix(workspace) {
            Ok(rest) => (Anchor::Workspace, rest),
            Err(_) => (Anchor::Root, path.strip_prefix("/").ok()?),
        };
        let mut parts = Vec::new();
        for name in rest {
            let name = name.to_str().filter(|name| !name.chars().any(char::is_control))?;
            parts.push(Part::Name(name.chars().map(Glyph::Char).collect()));
        }
        if below {
            parts.push(Part::Directories);
        }
        (!parts.is_empty()).then_some(Self { anchor, parts })
    }

    /// Does the pattern match this path? `below` says whether everything below a match counts as well.
    pub(crate) fn matches(&self, path: &Path, ground: &Ground<'_>, below: bool) -> bool {
        self.bases(ground).iter().any(|base| {
            let Some(names) = path.strip_prefix(base).ok().and_then(names) else {
                return false;
            };
            let lengths = if below { 0..=names.len() } else { names.len()..=names.len() };
            let floating = self.anchor == Anchor::Anywhere;
            let starts = if floating { names.len() } else { 0 };
            lengths.into_iter().any(|length| {
                (0..=starts.min(length))
                    .any(|start| names.get(start..length).is_some_and(|names| parts_match(&self.parts, names)))
            })
        })
    }

    /// Can this pattern match something at or below this directory?
    pub(crate) fn may_match_below(&self, directory: &Path, ground: &Ground<'_>) -> bool {
        let spelled: PathBuf = self.parts.iter().map_while(Part::spelled).collect();
        let start = if self.anchor == Anchor::Anywhere { PathBuf::new() } else { spelled };
        let goes_on = self.anchor == Anchor::Anywhere || !self.is_spelled_out();
        self.bases(ground).iter().any(|base| {
            let start = base.join(&start);
            start.starts_with(directory) || (goes_on && directory.starts_with(&start))
        })
    }

    /// Whether it names one path and what is below that.
    pub(crate) fn is_spelled_out(&self) -> bool {
        let parts = self.parts.strip_suffix(&[Part::Directories]).unwrap_or(&self.parts);
        self.anchor != Anchor::Anywhere && parts.iter().all(|part| part.spelled().is_some())
    }

    /// Could a name that the shell expands from this pattern be the last name of a path that this one matches?
    pub(crate) fn may_end_with(&self, shell_pattern: &str) -> bool {
        if !shell_pattern.chars().all(|c| c.is_alphanumeric() || "._-*?".contains(c)) {
            return true;
        }
        let Some(glyphs) = glyphs(shell_pattern) else { return true };
        match self.parts.last() {
            Some(last @ Part::Name(_)) => {
                last.spelled().is_none_or(|name| parts_match(&[Part::Name(glyphs)], &[&name]))
            }
            _ => true,
        }
    }

    /// The part of the pattern that is a plain path, with its anchor.
    pub(crate) fn spelled_out(&self, ground: &Ground<'_>) -> Option<PathBuf> {
        let spelled: PathBuf = self.parts.iter().map_while(Part::spelled).collect();
        let base = self.bases(ground).first()?.to_path_buf();
        (self.anchor != Anchor::Anywhere).then(|| base.join(spelled))
    }

    fn bases<'a>(&self, ground: &Ground<'a>) -> Vec<&'a Path> {
        match self.anchor {
            Anchor::Root => vec![Path::new("/")],
            Anchor::Home => ground.home.iter().map(PathBuf::as_path).collect(),
            Anchor::Workspace | Anchor::Anywhere => ground.workspace.iter().map(PathBuf::as_path).collect(),
        }
    }
}

/// Where patterns stand: the workspace and the home directory, as written and as they really are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ground<'a> {
    pub workspace: &'a [PathBuf],
    pub home: &'a [PathBuf],
}

impl Part {
    fn spelled(&self) -> Option<String> {
        match self {
            Self::Directories => None,
            Self::Name(glyphs) => glyphs.iter().map(|glyph| glyph.char()).collect(),
        }
    }
}

impl Glyph {
    fn char(self) -> Option<char> {
        match self {
            Self::Char(c) => Some(c),
            Self::AnyOne | Self::Any => None,
        }
    }
}

fn glyphs(name: &str) -> Option<Vec<Glyph>> {
    let mut found = Vec::new();
    let mut chars = name.chars();
    while let Some(c) = chars.next() {
        found.push(match c {
            '*' => Glyph::Any,
            '?' => Glyph::AnyOne,
            '\\' => Glyph::Char(chars.next()?),
            _ => Glyph::Char(c),
        });
    }
    Some(found)
}

/// The names of a path; nothing if one of them is not text, which no pattern can name.
fn names(path: &Path) -> Option<Vec<&str>> {
    path.iter().map(std::ffi::OsStr::to_str).collect()
}

/// The classic matching with one memory: on failure go back to the last `**` and let it take one name more.
fn parts_match(parts: &[Part], names: &[&str]) -> bool {
    wildcard(
        parts,
        names,
        |part| *part == Part::Directories,
        |part, name| match part {
            Part::Directories => true,
            Part::Name(glyphs) => {
                let chars: Vec<char> = name.chars().collect();
                wildcard(
                    glyphs,
                    &chars,
                    |glyph| *glyph == Glyph::Any,
                    |glyph, c| match glyph {
                        Glyph::Char(wanted) => wanted == c,
                        Glyph::AnyOne | Glyph::Any => true,
                    },
                )
            }
        },
    )
}

fn wildcard<P, I>(pattern: &[P], items: &[I], is_any: impl Fn(&P) -> bool, fits: impl Fn(&P, &I) -> bool) -> bool {
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
        // Without an anchor a slash would anchor it, so that a directory is written with the one slash at its end.
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
                Part::Directories => f.write_str("**")?,
                Part::Name(glyphs) => {
                    glyphs.iter().enumerate().try_for_each(|(at, glyph)| write_glyph(f, *glyph, at))?
                }
            }
        }
        if directory { f.write_str("/") } else { Ok(()) }
    }
}

fn write_glyph(f: &mut fmt::Formatter<'_>, glyph: Glyph, at: usize) -> fmt::Result {
    match glyph {
        Glyph::Any => f.write_str("*"),
        Glyph::AnyOne => f.write_str("?"),
        Glyph::Char(c) if matches!(c, '*' | '?' | '\\') || (c == '~' && at == 0) => write!(f, "\\{c}"),
        Glyph::Char(c) => write!(f, "{c}"),
    }
}

#[cfg(test)]
mod tests;
