//! How a tool call is shown to people.

/// What a tool does, for clients that show some kinds in their own way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ToolKind {
    /// Runs a command.
    Terminal,
    /// Reads something.
    Read,
    /// Looks for something.
    Search,
    /// Changes a file.
    Edit,
    /// Lets another agent work.
    SubAgent,
    /// Looks something up on the web.
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
    /// Why the model makes the call, in its own words.
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
    /// What was in it; absent if it is new.
    pub before: Option<String>,
    /// What is in it now; absent if it is gone or unknown.
    pub after: Option<String>,
    /// Lines that are new.
    pub added_lines: u64,
    /// Lines that are gone.
    pub removed_lines: u64,
}
