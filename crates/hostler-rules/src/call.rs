//! A tool call, and what it touches.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::glob::Ground;
use crate::path::{Resolver, Spot, normalise};
use crate::reads::{self, Reading};
use crate::shell::{self, Line};

/// What an agent wants to do.
#[derive(Clone)]
pub struct Call {
    /// The tool's name, as the agent gives it.
    pub tool: String,
    /// The tool's input, as the agent gives it.
    pub input: Value,
    /// The agent's current directory, absolute: what relative names in the input stand for.
    pub cwd: PathBuf,
    /// The session's working directory: what relative patterns of rules stand for, and where edits may be accepted.
    pub workspace: PathBuf,
    /// The user's home directory, if it is known: what `~` stands for.
    pub home: Option<PathBuf>,
    /// The host's own directories, absolute: state, cache and configuration. No mode but bypass touches them without a question.
    pub own_directories: Vec<PathBuf>,
}

// Inputs hold file contents.
impl std::fmt::Debug for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Call").field("tool", &self.tool).field("cwd", &self.cwd).finish_non_exhaustive()
    }
}

/// A text that is no call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// No tool is named.
    #[error("name a tool and what it is about, as in `Bash(rm -rf x)` or `Read(notes.txt)`")]
    Form,
    /// The tool's input has no text form.
    #[error("what `{0}` is about cannot be written in parentheses; write the name alone")]
    NoText(String),
}

impl Call {
    /// A call in a workspace that is also the current directory.
    pub fn new(tool: impl Into<String>, input: Value, cwd: impl Into<PathBuf>) -> Self {
        let cwd = cwd.into();
        Self { tool: tool.into(), input, workspace: cwd.clone(), cwd, home: None, own_directories: Vec::new() }
    }

    /// A command line.
    pub fn shell(command: &str, cwd: impl Into<PathBuf>) -> Self {
        Self::new("Bash", field("command", command), cwd)
    }

    /// Says where the session works, if that is not the current directory.
    #[must_use]
    pub fn in_workspace(self, workspace: impl Into<PathBuf>) -> Self {
        Self { workspace: workspace.into(), ..self }
    }

    /// Says where the user is at home.
    #[must_use]
    pub fn with_home(self, home: impl Into<PathBuf>) -> Self {
        Self { home: Some(home.into()), ..self }
    }

    /// Says which directories are the host's own.
    #[must_use]
    pub fn with_own_directories(self, own_directories: impl IntoIterator<Item = PathBuf>) -> Self {
        Self { own_directories: own_directories.into_iter().collect(), ..self }
    }

    /// Reads a call from the form that rules have: `Bash(rm -rf x)`, `Read(notes.txt)`, `WebFetch(https://example.com/a)`,
    /// `mcp__github__create_issue`.
    ///
    /// # Errors
    /// When no tool is named, or when its input is more than a text.
    pub fn parse(text: &str, cwd: impl Into<PathBuf>) -> Result<Self, CallError> {
        let (tool, content) = match text.split_once('(') {
            None => (text, None),
            Some((tool, rest)) => (tool, Some(rest.strip_suffix(')').ok_or(CallError::Form)?)),
        };
        if tool.is_empty() || tool.contains(char::is_whitespace) {
            return Err(CallError::Form);
        }
        let Some(content) = content else {
            return Ok(Self::new(tool, Value::Object(Map::new()), cwd));
        };
        let input = match tool {
            "Bash" => field("command", content),
            "Read" | "Edit" | "MultiEdit" | "Write" => field("file_path", content),
            "NotebookEdit" | "NotebookRead" => field("notebook_path", content),
            "Glob" | "Grep" | "LS" => field("path", content),
            "WebFetch" => match content.strip_prefix("domain:") {
                Some(host) => field("url", &format!("https://{host}/")),
                None => field("url", content),
            },
            _ => return Err(CallError::NoText(tool.to_owned())),
        };
        Ok(Self::new(tool, input, cwd))
    }

    pub(crate) fn is_mcp(&self) -> bool {
        self.tool.starts_with("mcp__")
    }
}

fn field(name: &str, value: &str) -> Value {
    Value::Object(Map::from_iter([(name.to_owned(), Value::String(value.to_owned()))]))
}

/// What a call does to files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    /// Reads whatever lies below.
    Search,
    Write,
}

/// What a call touches.
pub(crate) enum Touched {
    Shell(Line),
    Files(Access, Vec<Spot>),
    /// A host on the web.
    Host(String),
    /// Nothing that rules could name more closely than by the tool.
    Nothing,
    /// It cannot be seen, for this reason.
    Opaque(&'static str),
}

/// A call together with everything that decisions need about its surroundings.
pub(crate) struct Scene<'a> {
    pub call: &'a Call,
    pub touched: Touched,
    pub resolver: &'a dyn Resolver,
    workspace: Vec<PathBuf>,
    home: Vec<PathBuf>,
    own: Vec<PathBuf>,
    reading: OnceCell<Reading>,
}

impl<'a> Scene<'a> {
    pub(crate) fn new(call: &'a Call, resolver: &'a dyn Resolver) -> Self {
        let both = |path: &Path| {
            let plain = normalise(path);
            let mut paths = vec![plain.clone()];
            paths.extend(resolver.resolve(&plain).ok().filter(|real| *real != plain));
            paths
        };
        let workspace = both(&call.workspace);
        let home = call.home.as_deref().map(both).unwrap_or_default();
        let own = call.own_directories.iter().flat_map(|path| both(path)).collect();
        Self { touched: touched(call, resolver), call, resolver, workspace, home, own, reading: OnceCell::new() }
    }

    pub(crate) fn ground(&self) -> Ground<'_> {
        Ground { workspace: &self.workspace, home: &self.home }
    }

    pub(crate) fn home(&self) -> &[PathBuf] {
        &self.home
    }

    /// The host's own directories.
    pub(crate) fn own(&self) -> &[PathBuf] {
        &self.own
    }

    /// What this line, which is the call's, reads. Found out once.
    pub(crate) fn reading(&self, line: &Line) -> &Reading {
        self.reading.get_or_init(|| reads::read(self, line))
    }

    /// The spot that a name means in the current directory.
    pub(crate) fn spot(&self, name: &str) -> Result<Spot, &'static str> {
        Spot::new(name, &self.call.cwd, self.call.home.as_deref(), self.resolver)
    }

    /// Is this spot within the workspace, by every path that it may have?
    pub(crate) fn is_inside(&self, spot: &Spot) -> bool {
        spot.paths.iter().all(|path| self.workspace.iter().any(|workspace| path.starts_with(workspace)))
    }
}

fn touched(call: &Call, resolver: &dyn Resolver) -> Touched {
    match call.tool.as_str() {
        "Bash" => match call.input.get("command") {
            Some(Value::String(line)) => Touched::Shell(shell::read(line)),
            _ => Touched::Opaque("it has no command"),
        },
        "Read" | "NotebookRead" => files(call, Access::Read, resolver),
        "Grep" => files(call, Access::Search, resolver),
        "Glob" | "LS" => files(call, Access::Read, resolver),
        "Edit" | "MultiEdit" | "Write" | "NotebookEdit" => files(call, Access::Write, resolver),
        "WebFetch" => match call.input.get("url") {
            Some(Value::String(url)) => host(url),
            _ => Touched::Opaque("it has no address"),
        },
        _ => Touched::Nothing,
    }
}

fn files(call: &Call, access: Access, resolver: &dyn Resolver) -> Touched {
    let mut names: Vec<String> = Vec::new();
    for key in ["file_path", "notebook_path", "path"] {
        match call.input.get(key) {
            None | Some(Value::Null) => {}
            Some(Value::String(name)) => names.push(name.clone()),
            Some(_) => return Touched::Opaque("its path is not a text"),
        }
    }
    if matches!(call.tool.as_str(), "Glob" | "Grep" | "LS") && names.is_empty() {
        names.push(".".to_owned());
    }
    // A pattern can lead elsewhere than the path beside it.
    if let ("Glob", Some(Value::String(pattern))) = (call.tool.as_str(), call.input.get("pattern")) {
        if pattern.split('/').any(|name| name == "..") {
            return Touched::Opaque("its pattern goes up with `..`");
        }
        if pattern.starts_with(['/', '~']) {
            let plain = pattern.split('/').take_while(|name| !name.contains(['*', '?', '[', '{']));
            let start = plain.collect::<Vec<_>>().join("/");
            names.push(if start.is_empty() { "/".to_owned() } else { start });
        }
    }
    if names.is_empty() {
        return Touched::Opaque("it has no path");
    }
    let spot = |name: &String| Spot::new(name, &call.cwd, call.home.as_deref(), resolver);
    match names.iter().map(spot).collect::<Result<Vec<_>, _>>() {
        Ok(spots) => Touched::Files(access, spots),
        Err(why) => Touched::Opaque(why),
    }
}

fn host(url: &str) -> Touched {
    match url::Url::parse(url) {
        Ok(url) if matches!(url.scheme(), "http" | "https") => match url.host_str() {
            Some(host) => Touched::Host(host.trim_end_matches('.').to_owned()),
            None => Touched::Opaque("its address names no host"),
        },
        _ => Touched::Opaque("its address is not one of the web"),
    }
}
