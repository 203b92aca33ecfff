//! How a tool call is displayed.

/// What a tool does, for clients that display some kinds specially.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ToolKind {
    /// Runs a command.
    Terminal,
    /// Reads files or data.
    Read,
    /// Searches.
    Search,
    /// Changes a file.
    Edit,
    /// Starts a sub-agent.
    SubAgent,
    /// Fetches or searches the web.
    Web,
    /// Anything else.
    #[default]
    Other,
}

/// How a call is shown.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct ToolDisplay {
    /// The tool's name for people.
    pub name: String,
    /// What it does.
    pub kind: ToolKind,
    /// A sentence while it runs: `Reading src/main.rs`.
    pub running_text: String,
    /// A sentence when it is done: `Read src/main.rs`.
    pub finished_text: String,
    /// The model's stated reason for the call.
    pub intention: Option<String>,
    /// The language that the input is written in: `shellscript`.
    pub language: Option<&'static str>,
    /// The MCP server and its tool, for tools that belong to one.
    pub mcp: Option<(String, String)>,
}

/// A file that a call changed.
#[derive(Clone, PartialEq, Eq)]
pub struct FileEdit {
    /// The file.
    pub path: String,
    /// Its previous contents; absent if it is new.
    pub before: Option<String>,
    /// Its new contents; absent if it was deleted or is unknown.
    pub after: Option<String>,
    /// Number of added lines.
    pub added_lines: u64,
    /// Number of removed lines.
    pub removed_lines: u64,
}
