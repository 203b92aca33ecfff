//! A tool call and its target: the command line, paths or host that it touches.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use serde_json::{Map, Value};

use crate::path::{CandidatePaths, OneTimeResolver, PathResolver, normalize_path};
use crate::path_pattern::PatternBases;
use crate::read_only::{self, ReadAnalysis};
use crate::shell::{self, CommandLine};

/// A call that an agent wants to make. Its command line is parsed once, for all decisions and suggestions on it. Links
/// are resolved for each of them anew.
#[derive(Clone)]
pub struct ToolUse {
    /// The tool's name, as the agent sends it.
    pub(crate) tool: String,
    /// The tool's input, as the agent sends it.
    pub(crate) input: Value,
    /// The agent's current directory, absolute. Relative names in the input are relative to it.
    pub(crate) cwd: PathBuf,
    /// The session's working directory. Relative patterns of rules are relative to it, and accepted edits are limited
    /// to it.
    pub(crate) workspace: PathBuf,
    /// The user's home directory, if known, for `~`.
    pub(crate) home: Option<PathBuf>,
    /// The host's own directories, absolute: state, cache and configuration. Only bypass mode touches them without
    /// asking.
    pub(crate) host_directories: Vec<PathBuf>,
    /// The parsed command line of a Bash call, after the first decision.
    command_line: OnceLock<CommandLine>,
}

/// The same call in the same environment.
impl PartialEq for ToolUse {
    fn eq(&self, other: &Self) -> bool {
        let Self { tool, input, cwd, workspace, home, host_directories, command_line: _ } = self;
        *tool == other.tool
            && *input == other.input
            && *cwd == other.cwd
            && *workspace == other.workspace
            && *home == other.home
            && *host_directories == other.host_directories
    }
}

// Debug omits the input, which can contain file contents.
impl std::fmt::Debug for ToolUse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ToolUse").field("tool", &self.tool).field("cwd", &self.cwd).finish_non_exhaustive()
    }
}

/// Why a text is not a call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ToolUseError {
    /// The text names no tool.
    #[error("expected a tool call such as `Bash(rm -rf x)` or `Read(notes.txt)`")]
    Syntax,
    /// The tool's input has no text form.
    #[error("`{0}` does not accept parentheses; use the tool name alone")]
    NoTextInput(String),
}

impl ToolUseError {
    /// The machine-readable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Syntax => "invalidToolCall",
            Self::NoTextInput(_) => "unsupportedToolInput",
        }
    }
}

impl ToolUse {
    /// A call whose workspace is the current directory.
    pub fn new(tool: impl Into<String>, input: Value, cwd: impl Into<PathBuf>) -> Self {
        let cwd = cwd.into();
        Self {
            tool: tool.into(),
            input,
            workspace: cwd.clone(),
            cwd,
            home: None,
            host_directories: Vec::new(),
            command_line: OnceLock::new(),
        }
    }

    /// A command line.
    pub fn shell(command: &str, cwd: impl Into<PathBuf>) -> Self {
        Self::new("Bash", object_with_field("command", command), cwd)
    }

    /// Sets the workspace, if it is not the current directory.
    #[must_use]
    pub fn with_workspace(self, workspace: impl Into<PathBuf>) -> Self {
        Self { workspace: workspace.into(), ..self }
    }

    /// Sets the user's home directory.
    #[must_use]
    pub fn with_home(self, home: impl Into<PathBuf>) -> Self {
        Self { home: Some(home.into()), ..self }
    }

    /// Sets the host's own directories.
    #[must_use]
    pub fn with_host_directories(self, own_directories: impl IntoIterator<Item = PathBuf>) -> Self {
        Self { host_directories: own_directories.into_iter().collect(), ..self }
    }

    /// Parses a call in the form of rules: `Bash(rm -rf x)`, `Read(notes.txt)`, `WebFetch(https://example.com/a)`,
    /// `mcp__github__create_issue`.
    ///
    /// # Errors
    /// If no tool is named, or if its input is not a single text.
    pub fn parse(text: &str, cwd: impl Into<PathBuf>) -> Result<Self, ToolUseError> {
        let (tool, content) = match text.split_once('(') {
            None => (text, None),
            Some((tool, rest)) => (tool, Some(rest.strip_suffix(')').ok_or(ToolUseError::Syntax)?)),
        };
        if tool.is_empty() || tool.contains(char::is_whitespace) {
            return Err(ToolUseError::Syntax);
        }
        let Some(content) = content else {
            return Ok(Self::new(tool, Value::Object(Map::new()), cwd));
        };
        let input = match tool {
            "Bash" => object_with_field("command", content),
            "Read" | "Edit" | "MultiEdit" | "Write" => object_with_field("file_path", content),
            "NotebookEdit" | "NotebookRead" => object_with_field("notebook_path", content),
            "Glob" | "Grep" | "LS" => object_with_field("path", content),
            "WebFetch" => match content.strip_prefix("domain:") {
                Some(host) => object_with_field("url", &format!("https://{host}/")),
                None => object_with_field("url", content),
            },
            _ => return Err(ToolUseError::NoTextInput(tool.to_owned())),
        };
        Ok(Self::new(tool, input, cwd))
    }

    pub(crate) fn is_mcp(&self) -> bool {
        self.tool.starts_with("mcp__")
    }

    /// What `line`, the call's command line, does.
    fn parse_line(&self, line: &str) -> &CommandLine {
        self.command_line.get_or_init(|| {
            tracing::trace!(bytes = line.len(), "parsing the command line of a tool call");
            shell::parse_command_line(line)
        })
    }
}

fn object_with_field(name: &str, value: &str) -> Value {
    Value::Object(Map::from_iter([(name.to_owned(), Value::String(value.to_owned()))]))
}

/// How a call accesses files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PathAccess {
    Read,
    /// Reads everything below.
    Search,
    Write,
}

/// What a call touches.
pub(crate) enum ToolTarget<'a> {
    Shell(&'a CommandLine),
    Files(PathAccess, Vec<CandidatePaths>),
    /// A host on the web.
    Host(String),
    /// Nothing that a rule could name more precisely than by the tool.
    ToolOnly,
    /// The target cannot be determined, for this reason.
    Unanalyzable(&'static str),
}

/// A call with everything that decisions need about its environment.
pub(crate) struct DecisionContext<'a> {
    pub call: &'a ToolUse,
    pub target: ToolTarget<'a>,
    pub resolver: OneTimeResolver<'a>,
    workspace: Vec<PathBuf>,
    home: Vec<PathBuf>,
    host_directories: Vec<PathBuf>,
    read_analysis: OnceCell<ReadAnalysis>,
}

impl<'a> DecisionContext<'a> {
    pub(crate) fn new(call: &'a ToolUse, resolver: &'a dyn PathResolver) -> Self {
        let resolver = OneTimeResolver::new(resolver);
        let both = |path: &Path| {
            let plain = normalize_path(path);
            let mut paths = vec![plain.clone()];
            paths.extend(resolver.resolve(&plain).ok().filter(|real| *real != plain));
            paths
        };
        let workspace = both(&call.workspace);
        let home = call.home.as_deref().map(both).unwrap_or_default();
        let host_directories = call.host_directories.iter().flat_map(|path| both(path)).collect();
        Self {
            target: find_target(call, &resolver),
            call,
            resolver,
            workspace,
            home,
            host_directories,
            read_analysis: OnceCell::new(),
        }
    }

    pub(crate) fn pattern_bases(&self) -> PatternBases<'_> {
        PatternBases { workspace: &self.workspace, home: &self.home }
    }

    pub(crate) fn home(&self) -> &[PathBuf] {
        &self.home
    }

    /// The host's own directories.
    pub(crate) fn host_directories(&self) -> &[PathBuf] {
        &self.host_directories
    }

    /// The read analysis of this line, which is the call's. Computed once.
    pub(crate) fn read_analysis(&self, line: &CommandLine) -> &ReadAnalysis {
        self.read_analysis.get_or_init(|| read_only::analyze_reads(self, line))
    }

    /// The candidate paths of a name in the current directory.
    pub(crate) fn resolve_path(&self, name: &str) -> Result<CandidatePaths, &'static str> {
        CandidatePaths::new(name, &self.call.cwd, self.call.home.as_deref(), &self.resolver)
    }

    /// Are all candidate paths within the workspace?
    pub(crate) fn is_in_workspace(&self, spot: &CandidatePaths) -> bool {
        spot.paths.iter().all(|path| self.workspace.iter().any(|workspace| path.starts_with(workspace)))
    }
}

fn find_target<'a>(call: &'a ToolUse, resolver: &dyn PathResolver) -> ToolTarget<'a> {
    match call.tool.as_str() {
        "Bash" => match call.input.get("command") {
            Some(Value::String(line)) => ToolTarget::Shell(call.parse_line(line)),
            _ => ToolTarget::Unanalyzable("it has no command"),
        },
        "Read" | "NotebookRead" => find_file_target(call, PathAccess::Read, resolver),
        "Grep" => find_file_target(call, PathAccess::Search, resolver),
        "Glob" | "LS" => find_file_target(call, PathAccess::Read, resolver),
        "Edit" | "MultiEdit" | "Write" | "NotebookEdit" => find_file_target(call, PathAccess::Write, resolver),
        "WebFetch" => match call.input.get("url") {
            Some(Value::String(url)) => find_host_target(url),
            _ => ToolTarget::Unanalyzable("it has no URL"),
        },
        _ => ToolTarget::ToolOnly,
    }
}

fn find_file_target(call: &ToolUse, access: PathAccess, resolver: &dyn PathResolver) -> ToolTarget<'static> {
    let mut names: Vec<String> = Vec::new();
    for key in ["file_path", "notebook_path", "path"] {
        match call.input.get(key) {
            None | Some(Value::Null) => {}
            Some(Value::String(name)) => names.push(name.clone()),
            Some(_) => return ToolTarget::Unanalyzable("its path is not a string"),
        }
    }
    if matches!(call.tool.as_str(), "Glob" | "Grep" | "LS") && names.is_empty() {
        names.push(".".to_owned());
    }
    // A glob pattern can point elsewhere than the path beside it.
    if let ("Glob", Some(Value::String(pattern))) = (call.tool.as_str(), call.input.get("pattern")) {
        if pattern.split('/').any(|name| name == "..") {
            return ToolTarget::Unanalyzable("its pattern contains `..`");
        }
        if pattern.starts_with(['/', '~']) {
            let plain = pattern.split('/').take_while(|name| !name.contains(['*', '?', '[', '{']));
            let start = plain.collect::<Vec<_>>().join("/");
            names.push(if start.is_empty() { "/".to_owned() } else { start });
        }
    }
    if names.is_empty() {
        return ToolTarget::Unanalyzable("it has no path");
    }
    let spot = |name: &String| CandidatePaths::new(name, &call.cwd, call.home.as_deref(), resolver);
    match names.iter().map(spot).collect::<Result<Vec<_>, _>>() {
        Ok(spots) => ToolTarget::Files(access, spots),
        Err(why) => ToolTarget::Unanalyzable(why),
    }
}

fn find_host_target(url: &str) -> ToolTarget<'static> {
    match url::Url::parse(url) {
        Ok(url) if matches!(url.scheme(), "http" | "https") => match url.host_str() {
            Some(host) => ToolTarget::Host(host.trim_end_matches('.').to_owned()),
            None => ToolTarget::Unanalyzable("its URL has no host"),
        },
        _ => ToolTarget::Unanalyzable("its URL is not an HTTP or HTTPS URL"),
    }
}
