//! Parses the tags with which the agent wraps typed commands: `<command-name>/compact</command-name>`.

use serde_json::value::RawValue;

use crate::prompt::unwrap_steering_text;

/// The steering text in the context record of a hook.
pub(super) fn steering_text(contents: &RawValue) -> Option<String> {
    let texts: Vec<String> = serde_json::from_str(contents.get()).ok()?;
    texts.iter().find_map(|text| unwrap_steering_text(text)).map(str::to_owned)
}

/// The contents of the first such tag.
pub(super) fn tag_contents<'a>(text: &'a str, tag: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(&format!("<{tag}>"))?;
    Some(rest.split_once(&format!("</{tag}>"))?.0)
}

/// The output of a shell command, formatted as code, if the text is one.
pub(super) fn format_shell_output(text: &str) -> Option<String> {
    const TAGS: [&str; 2] = ["bash-stdout", "bash-stderr"];
    if !TAGS.iter().any(|tag| text.trim_start().starts_with(&format!("<{tag}>"))) {
        return None;
    }
    let parts = TAGS.map(|tag| tag_contents(text, tag).unwrap_or_default().trim_matches('\n'));
    let lines: Vec<_> = parts.iter().flat_map(|part| part.lines()).map(|line| format!("    {line}")).collect();
    Some(lines.join("\n"))
}

/// The slash command that a person typed, without its arguments.
pub(super) fn slash_command(text: &str) -> Option<&str> {
    tag_contents(text, "command-name").filter(|_| text.trim_start().starts_with("<command-"))
}

/// The shell command that a person typed.
pub(super) fn shell_command(text: &str) -> Option<&str> {
    tag_contents(text, "bash-input").filter(|_| text.trim_start().starts_with("<bash-input>"))
}
