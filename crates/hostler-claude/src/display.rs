//! How Claude Code's tools are shown to people: a table, with sentences for tools that it does not know.

use std::borrow::Cow;
use std::path::Path;

use hostler_driver::{ToolDisplay, ToolKind};
use serde::Deserialize;
use serde_json::value::RawValue;

/// Longer words of an input are cut in a sentence.
const MAX_WORD: usize = 120;

/// The fields of inputs that sentences are made of. Every tool has some of them.
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

/// What a tool's sentences speak about.
#[derive(Clone, Copy)]
enum About {
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

struct Known {
    tool: &'static str,
    name: &'static str,
    kind: ToolKind,
    present: &'static str,
    past: &'static str,
    about: About,
}

const fn known(
    tool: &'static str,
    name: &'static str,
    kind: ToolKind,
    present: &'static str,
    past: &'static str,
    about: About,
) -> Known {
    Known { tool, name, kind, present, past, about }
}

/// Every tool of the two tested builds.
const TOOLS: [Known; 37] = [
    known("Agent", "Agent", ToolKind::SubAgent, "Running agent", "Ran agent", About::Description),
    known("AskUserQuestion", "Question", ToolKind::Other, "Asking a question", "Asked a question", About::Nothing),
    known("Bash", "Bash", ToolKind::Terminal, "Running", "Ran", About::Command),
    known(
        "BashOutput",
        "Shell Output",
        ToolKind::Read,
        "Reading a shell's output",
        "Read a shell's output",
        About::Nothing,
    ),
    known("CronCreate", "Schedule", ToolKind::Other, "Scheduling a prompt", "Scheduled a prompt", About::Nothing),
    known("CronDelete", "Unschedule", ToolKind::Other, "Removing a schedule", "Removed a schedule", About::Nothing),
    known("CronList", "Schedules", ToolKind::Read, "Listing schedules", "Listed schedules", About::Nothing),
    known("Edit", "Edit", ToolKind::Edit, "Editing", "Edited", About::File),
    known("EnterPlanMode", "Plan", ToolKind::Other, "Beginning to plan", "Began to plan", About::Nothing),
    known("EnterWorktree", "Worktree", ToolKind::Other, "Entering a worktree", "Entered a worktree", About::Nothing),
    known("ExitPlanMode", "Plan", ToolKind::Other, "Proposing a plan", "Proposed a plan", About::Nothing),
    known("ExitWorktree", "Worktree", ToolKind::Other, "Leaving a worktree", "Left a worktree", About::Nothing),
    known("Glob", "Find Files", ToolKind::Search, "Finding", "Found", About::Pattern),
    known("Grep", "Search", ToolKind::Search, "Searching for", "Searched for", About::Pattern),
    known("KillBash", "Stop Shell", ToolKind::Other, "Stopping a shell", "Stopped a shell", About::Nothing),
    known("KillShell", "Stop Shell", ToolKind::Other, "Stopping a shell", "Stopped a shell", About::Nothing),
    known("LS", "List", ToolKind::Read, "Listing", "Listed", About::Folder),
    known(
        "LSP",
        "Language Server",
        ToolKind::Search,
        "Asking the language server",
        "Asked the language server",
        About::Nothing,
    ),
    known(
        "ListMcpResourcesTool",
        "MCP Resources",
        ToolKind::Read,
        "Listing MCP resources",
        "Listed MCP resources",
        About::Nothing,
    ),
    known("Monitor", "Monitor", ToolKind::Read, "Watching", "Watched", About::Description),
    known("MultiEdit", "Edit", ToolKind::Edit, "Editing", "Edited", About::File),
    known("NotebookEdit", "Edit Notebook", ToolKind::Edit, "Editing", "Edited", About::File),
    known("NotebookRead", "Read Notebook", ToolKind::Read, "Reading", "Read", About::File),
    known("Read", "Read", ToolKind::Read, "Reading", "Read", About::File),
    known("ReadMcpResourceTool", "MCP Resource", ToolKind::Read, "Reading", "Read", About::Uri),
    known(
        "SendMessage",
        "Message",
        ToolKind::Other,
        "Sending a message to an agent",
        "Sent a message to an agent",
        About::Nothing,
    ),
    known("Skill", "Skill", ToolKind::Other, "Using the skill", "Used the skill", About::Skill),
    known("SlashCommand", "Command", ToolKind::Other, "Running", "Ran", About::Command),
    known("Task", "Agent", ToolKind::SubAgent, "Running agent", "Ran agent", About::Description),
    known("TaskCreate", "Task List", ToolKind::Other, "Adding a task", "Added a task", About::Nothing),
    known(
        "TaskOutput",
        "Task Output",
        ToolKind::Read,
        "Reading a task's output",
        "Read a task's output",
        About::Nothing,
    ),
    known("TaskStop", "Stop Task", ToolKind::Other, "Stopping a task", "Stopped a task", About::Nothing),
    known(
        "TodoWrite",
        "To-do List",
        ToolKind::Other,
        "Updating the to-do list",
        "Updated the to-do list",
        About::Nothing,
    ),
    known("ToolSearch", "Find Tools", ToolKind::Search, "Looking for tools", "Looked for tools", About::Query),
    known("WebFetch", "Fetch", ToolKind::Web, "Fetching", "Fetched", About::Url),
    known("WebSearch", "Web Search", ToolKind::Web, "Searching the web for", "Searched the web for", About::Query),
    known("Write", "Write", ToolKind::Edit, "Writing", "Wrote", About::File),
];

/// How a call is shown; without an input, how it is shown before that is known.
pub(crate) fn display(tool: &str, input: Option<&RawValue>, directory: &Path) -> ToolDisplay {
    // Fields of another type than expected make the input unreadable here; the sentence then does without it.
    let input: Input<'_> = input.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
    if let Some((server, name)) = mcp(tool) {
        return ToolDisplay {
            name: words(name),
            present: format!("Using {} of {server}", words(name)),
            past: format!("Used {} of {server}", words(name)),
            mcp: Some((server.to_owned(), name.to_owned())),
            ..ToolDisplay::default()
        };
    }
    let Some(known) = TOOLS.iter().find(|known| known.tool == tool) else {
        let present = format!("Using {}", short(tool));
        return ToolDisplay {
            name: tool.to_owned(),
            present,
            past: format!("Used {}", short(tool)),
            ..Default::default()
        };
    };
    let about = known.about.of(&input, directory);
    let sentence = |verb: &str| match &about {
        Some(about) => format!("{verb} {about}"),
        None => verb.to_owned(),
    };
    ToolDisplay {
        name: known.name.to_owned(),
        kind: known.kind,
        present: sentence(known.present),
        past: sentence(known.past),
        intention: match known.about {
            About::Command => input.description.as_deref().map(short),
            _ => None,
        },
        language: matches!(known.tool, "Bash").then_some("shellscript"),
        mcp: None,
    }
}

impl About {
    fn of(self, input: &Input<'_>, directory: &Path) -> Option<String> {
        let text = match self {
            Self::Nothing => None,
            Self::File => {
                let path = input.file_path.as_ref().or(input.notebook_path.as_ref()).or(input.path.as_ref())?;
                return Some(code(&below(path, directory)));
            }
            Self::Folder => return input.path.as_ref().map(|path| code(&below(path, directory))),
            Self::Command => input.command.as_ref(),
            Self::Description => return input.description.as_deref().map(short),
            Self::Pattern => input.pattern.as_ref(),
            Self::Query => input.query.as_ref(),
            Self::Url => input.url.as_ref(),
            Self::Skill => input.skill.as_ref(),
            Self::Uri => input.uri.as_ref(),
        };
        text.map(|text| code(text))
    }
}

/// `mcp__server__tool`, taken apart.
pub(crate) fn mcp(tool: &str) -> Option<(&str, &str)> {
    tool.strip_prefix("mcp__")?.split_once("__").filter(|(server, name)| !server.is_empty() && !name.is_empty())
}

/// A path as people in this directory would write it.
fn below(path: &str, directory: &Path) -> String {
    match Path::new(path).strip_prefix(directory) {
        Ok(rest) if rest.as_os_str().is_empty() => ".".to_owned(),
        Ok(rest) => rest.to_string_lossy().into_owned(),
        Err(_) => path.to_owned(),
    }
}

/// Inline code. Backticks inside would end it.
fn code(text: &str) -> String {
    format!("`{}`", short(text).replace('`', "'"))
}

/// One line of bounded length.
fn short(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    let mut cut: String = line.chars().take(MAX_WORD).collect();
    if cut.len() < text.trim_end().len() {
        cut.push('…');
    }
    cut
}

/// `create_issue` for people.
fn words(name: &str) -> String {
    short(&name.replace('_', " "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(tool: &str, input: &str) -> ToolDisplay {
        let input = RawValue::from_string(input.to_owned()).unwrap();
        display(tool, Some(&input), Path::new("/home/ada/project"))
    }

    #[test]
    fn sentences_say_what_is_done_to_what() {
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
            assert_eq!((display.present.as_str(), display.past.as_str()), (present, past), "{tool} {input}");
        }
    }

    #[test]
    fn a_shell_command_says_why_and_in_which_language() {
        let display = shown("Bash", r#"{"command":"ls","description":"List the files"}"#);
        assert_eq!((display.kind, display.language), (ToolKind::Terminal, Some("shellscript")));
        assert_eq!(display.intention.as_deref(), Some("List the files"));
    }

    #[test]
    fn the_table_is_sorted_and_names_no_tool_twice() {
        assert!(TOOLS.windows(2).all(|pair| pair[0].tool < pair[1].tool));
    }

    #[test]
    fn long_inputs_make_short_sentences() {
        let display = shown("Bash", &format!(r#"{{"command":"{}"}}"#, "ä".repeat(5_000)));
        assert!(display.present.chars().count() < 150);
    }
}
