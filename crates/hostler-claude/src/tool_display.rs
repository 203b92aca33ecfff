//! Display names and sentences for Claude Code's tools: a table, and generic sentences for unknown tools.

use std::borrow::Cow;
use std::path::Path;

use hostler_driver::{ToolDisplay, ToolKind};
use serde::Deserialize;
use serde_json::value::RawValue;

/// Longer input is truncated in a sentence.
const MAX_INPUT_CHARS: usize = 120;

/// The input fields that appear in sentences. Every tool has some of them.
#[derive(Debug, Default, Deserialize)]
struct Input<'a> {
    #[serde(borrow, default)]
    file_path: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    notebook_path: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    path: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    command: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    description: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pattern: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    query: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    url: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    skill: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    uri: Option<Cow<'a, str>>,
}

/// The input field that a tool's sentences display.
#[derive(Clone, Copy)]
enum DisplayedField {
    Nothing,
    File,
    Folder,
    Command,
    Description,
    Pattern,
    Query,
    Url,
    Skill,
    Uri,
}

struct ToolEntry {
    tool: &'static str,
    name: &'static str,
    kind: ToolKind,
    running_verb: &'static str,
    finished_verb: &'static str,
    field: DisplayedField,
}

const fn tool_entry(
    tool: &'static str,
    name: &'static str,
    kind: ToolKind,
    present: &'static str,
    past: &'static str,
    about: DisplayedField,
) -> ToolEntry {
    ToolEntry { tool, name, kind, running_verb: present, finished_verb: past, field: about }
}

/// Every tool of the two tested builds.
const TOOLS: [ToolEntry; 37] = [
    tool_entry("Agent", "Agent", ToolKind::SubAgent, "Running agent", "Ran agent", DisplayedField::Description),
    tool_entry(
        "AskUserQuestion",
        "Question",
        ToolKind::Other,
        "Asking a question",
        "Asked a question",
        DisplayedField::Nothing,
    ),
    tool_entry("Bash", "Bash", ToolKind::Terminal, "Running", "Ran", DisplayedField::Command),
    tool_entry(
        "BashOutput",
        "Shell Output",
        ToolKind::Read,
        "Reading shell output",
        "Read shell output",
        DisplayedField::Nothing,
    ),
    tool_entry(
        "CronCreate",
        "Schedule",
        ToolKind::Other,
        "Scheduling a prompt",
        "Scheduled a prompt",
        DisplayedField::Nothing,
    ),
    tool_entry(
        "CronDelete",
        "Unschedule",
        ToolKind::Other,
        "Removing a schedule",
        "Removed a schedule",
        DisplayedField::Nothing,
    ),
    tool_entry(
        "CronList",
        "Schedules",
        ToolKind::Read,
        "Listing schedules",
        "Listed schedules",
        DisplayedField::Nothing,
    ),
    tool_entry("Edit", "Edit", ToolKind::Edit, "Editing", "Edited", DisplayedField::File),
    tool_entry(
        "EnterPlanMode",
        "Plan",
        ToolKind::Other,
        "Entering plan mode",
        "Entered plan mode",
        DisplayedField::Nothing,
    ),
    tool_entry(
        "EnterWorktree",
        "Worktree",
        ToolKind::Other,
        "Entering a worktree",
        "Entered a worktree",
        DisplayedField::Nothing,
    ),
    tool_entry("ExitPlanMode", "Plan", ToolKind::Other, "Proposing a plan", "Proposed a plan", DisplayedField::Nothing),
    tool_entry(
        "ExitWorktree",
        "Worktree",
        ToolKind::Other,
        "Exiting a worktree",
        "Exited a worktree",
        DisplayedField::Nothing,
    ),
    tool_entry("Glob", "Find Files", ToolKind::Search, "Finding", "Found", DisplayedField::Pattern),
    tool_entry("Grep", "Search", ToolKind::Search, "Searching for", "Searched for", DisplayedField::Pattern),
    tool_entry(
        "KillBash",
        "Stop Shell",
        ToolKind::Other,
        "Stopping a shell",
        "Stopped a shell",
        DisplayedField::Nothing,
    ),
    tool_entry(
        "KillShell",
        "Stop Shell",
        ToolKind::Other,
        "Stopping a shell",
        "Stopped a shell",
        DisplayedField::Nothing,
    ),
    tool_entry("LS", "List", ToolKind::Read, "Listing", "Listed", DisplayedField::Folder),
    tool_entry(
        "LSP",
        "Language Server",
        ToolKind::Search,
        "Querying the language server",
        "Queried the language server",
        DisplayedField::Nothing,
    ),
    tool_entry(
        "ListMcpResourcesTool",
        "MCP Resources",
        ToolKind::Read,
        "Listing MCP resources",
        "Listed MCP resources",
        DisplayedField::Nothing,
    ),
    tool_entry("Monitor", "Monitor", ToolKind::Read, "Watching", "Watched", DisplayedField::Description),
    tool_entry("MultiEdit", "Edit", ToolKind::Edit, "Editing", "Edited", DisplayedField::File),
    tool_entry("NotebookEdit", "Edit Notebook", ToolKind::Edit, "Editing", "Edited", DisplayedField::File),
    tool_entry("NotebookRead", "Read Notebook", ToolKind::Read, "Reading", "Read", DisplayedField::File),
    tool_entry("Read", "Read", ToolKind::Read, "Reading", "Read", DisplayedField::File),
    tool_entry("ReadMcpResourceTool", "MCP Resource", ToolKind::Read, "Reading", "Read", DisplayedField::Uri),
    tool_entry(
        "SendMessage",
        "Message",
        ToolKind::Other,
        "Sending a message to an agent",
        "Sent a message to an agent",
        DisplayedField::Nothing,
    ),
    tool_entry("Skill", "Skill", ToolKind::Other, "Using the skill", "Used the skill", DisplayedField::Skill),
    tool_entry("SlashCommand", "Command", ToolKind::Other, "Running", "Ran", DisplayedField::Command),
    tool_entry("Task", "Agent", ToolKind::SubAgent, "Running agent", "Ran agent", DisplayedField::Description),
    tool_entry("TaskCreate", "Task List", ToolKind::Other, "Adding a task", "Added a task", DisplayedField::Nothing),
    tool_entry(
        "TaskOutput",
        "Task Output",
        ToolKind::Read,
        "Reading task output",
        "Read task output",
        DisplayedField::Nothing,
    ),
    tool_entry("TaskStop", "Stop Task", ToolKind::Other, "Stopping a task", "Stopped a task", DisplayedField::Nothing),
    tool_entry(
        "TodoWrite",
        "To-do List",
        ToolKind::Other,
        "Updating the to-do list",
        "Updated the to-do list",
        DisplayedField::Nothing,
    ),
    tool_entry(
        "ToolSearch",
        "Find Tools",
        ToolKind::Search,
        "Searching for tools",
        "Searched for tools",
        DisplayedField::Query,
    ),
    tool_entry("WebFetch", "Fetch", ToolKind::Web, "Fetching", "Fetched", DisplayedField::Url),
    tool_entry(
        "WebSearch",
        "Web Search",
        ToolKind::Web,
        "Searching the web for",
        "Searched the web for",
        DisplayedField::Query,
    ),
    tool_entry("Write", "Write", ToolKind::Edit, "Writing", "Wrote", DisplayedField::File),
];

/// How a call is displayed; without an input, how it is displayed before that is known.
pub(crate) fn display_tool_call(tool: &str, input: Option<&RawValue>, directory: &Path) -> ToolDisplay {
    // A field of an unexpected type makes the input unreadable here; the sentence then omits it.
    let input: Input<'_> = input.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
    if let Some((server, name)) = parse_mcp_tool(tool) {
        return ToolDisplay {
            name: humanize_name(name),
            running_text: format!("Using {} of {server}", humanize_name(name)),
            finished_text: format!("Used {} of {server}", humanize_name(name)),
            mcp: Some((server.to_owned(), name.to_owned())),
            ..ToolDisplay::default()
        };
    }
    let Some(known) = TOOLS.iter().find(|known| known.tool == tool) else {
        let present = format!("Using {}", first_line_truncated(tool));
        return ToolDisplay {
            name: tool.to_owned(),
            running_text: present,
            finished_text: format!("Used {}", first_line_truncated(tool)),
            ..Default::default()
        };
    };
    let about = known.field.describe(&input, directory);
    let sentence = |verb: &str| match &about {
        Some(about) => format!("{verb} {about}"),
        None => verb.to_owned(),
    };
    ToolDisplay {
        name: known.name.to_owned(),
        kind: known.kind,
        running_text: sentence(known.running_verb),
        finished_text: sentence(known.finished_verb),
        intention: match known.field {
            DisplayedField::Command => input.description.as_deref().map(first_line_truncated),
            _ => None,
        },
        language: matches!(known.tool, "Bash").then_some("shellscript"),
        mcp: None,
    }
}

impl DisplayedField {
    fn describe(self, input: &Input<'_>, directory: &Path) -> Option<String> {
        let text = match self {
            Self::Nothing => None,
            Self::File => {
                let path = input.file_path.as_ref().or(input.notebook_path.as_ref()).or(input.path.as_ref())?;
                return Some(inline_code(&relative_path(path, directory)));
            }
            Self::Folder => return input.path.as_ref().map(|path| inline_code(&relative_path(path, directory))),
            Self::Command => input.command.as_ref(),
            Self::Description => return input.description.as_deref().map(first_line_truncated),
            Self::Pattern => input.pattern.as_ref(),
            Self::Query => input.query.as_ref(),
            Self::Url => input.url.as_ref(),
            Self::Skill => input.skill.as_ref(),
            Self::Uri => input.uri.as_ref(),
        };
        text.map(|text| inline_code(text))
    }
}

/// Splits `mcp__server__tool`.
pub(crate) fn parse_mcp_tool(tool: &str) -> Option<(&str, &str)> {
    tool.strip_prefix("mcp__")?.split_once("__").filter(|(server, name)| !server.is_empty() && !name.is_empty())
}

/// A path relative to this directory, if it is below it.
fn relative_path(path: &str, directory: &Path) -> String {
    match Path::new(path).strip_prefix(directory) {
        Ok(rest) if rest.as_os_str().is_empty() => ".".to_owned(),
        Ok(rest) => rest.to_string_lossy().into_owned(),
        Err(_) => path.to_owned(),
    }
}

/// Inline code. Backticks inside would end it.
fn inline_code(text: &str) -> String {
    format!("`{}`", first_line_truncated(text).replace('`', "'"))
}

/// The first line, truncated.
fn first_line_truncated(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    let mut cut: String = line.chars().take(MAX_INPUT_CHARS).collect();
    if cut.len() < text.trim_end().len() {
        cut.push('…');
    }
    cut
}

/// Display form of a name such as `create_issue`.
fn humanize_name(name: &str) -> String {
    first_line_truncated(&name.replace('_', " "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(tool: &str, input: &str) -> ToolDisplay {
        let input = RawValue::from_string(input.to_owned()).unwrap();
        display_tool_call(tool, Some(&input), Path::new("/home/ada/project"))
    }

    #[test]
    fn sentences_name_action_and_object() {
        for (tool, input, present, past) in [
            ("Read", r#"{"file_path":"/home/ada/project/src/main.rs"}"#, "Reading `src/main.rs`", "Read `src/main.rs`"),
            ("Read", r#"{"file_path":"/etc/hosts"}"#, "Reading `/etc/hosts`", "Read `/etc/hosts`"),
            ("Write", r#"{"file_path":"/home/ada/project/a.txt","content":"x"}"#, "Writing `a.txt`", "Wrote `a.txt`"),
            ("NotebookEdit", r#"{"notebook_path":"/n.ipynb"}"#, "Editing `/n.ipynb`", "Edited `/n.ipynb`"),
            ("Bash", r#"{"command":"git status\nls"}"#, "Running `git status…`", "Ran `git status…`"),
            ("Bash", r#"{"command":"echo `id`"}"#, "Running `echo 'id'`", "Ran `echo 'id'`"),
            ("Grep", r#"{"pattern":"fn main"}"#, "Searching for `fn main`", "Searched for `fn main`"),
            ("LS", r#"{"path":"/home/ada/project"}"#, "Listing `.`", "Listed `.`"),
            (
                "WebFetch",
                r#"{"url":"https://example.com"}"#,
                "Fetching `https://example.com`",
                "Fetched `https://example.com`",
            ),
            (
                "Task",
                r#"{"description":"Look around","prompt":"…"}"#,
                "Running agent Look around",
                "Ran agent Look around",
            ),
            ("TodoWrite", r#"{"todos":[]}"#, "Updating the to-do list", "Updated the to-do list"),
            ("Read", r#"{"file_path":7}"#, "Reading", "Read"),
            ("Read", r#"[]"#, "Reading", "Read"),
            ("BrandNew", r#"{"file_path":"x"}"#, "Using BrandNew", "Used BrandNew"),
            ("mcp__git_hub__create_issue", "{}", "Using create issue of git_hub", "Used create issue of git_hub"),
            ("mcp__", "{}", "Using mcp__", "Used mcp__"),
        ] {
            let display = shown(tool, input);
            assert_eq!(
                (display.running_text.as_str(), display.finished_text.as_str()),
                (present, past),
                "{tool} {input}"
            );
        }
    }

    #[test]
    fn shell_command_has_intention_and_language() {
        let display = shown("Bash", r#"{"command":"ls","description":"List the files"}"#);
        assert_eq!((display.kind, display.language), (ToolKind::Terminal, Some("shellscript")));
        assert_eq!(display.intention.as_deref(), Some("List the files"));
    }

    #[test]
    fn tool_table_is_sorted_and_unique() {
        assert!(TOOLS.windows(2).all(|pair| pair[0].tool < pair[1].tool));
    }

    #[test]
    fn long_inputs_are_truncated() {
        let display = shown("Bash", &format!(r#"{{"command":"{}"}}"#, "ä".repeat(5_000)));
        assert!(display.running_text.chars().count() < 150);
    }
}
