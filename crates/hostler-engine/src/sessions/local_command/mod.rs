//! Messages that the host carries out itself, as local turns: `!command` and `/rename`. No agent is started for them or
//! receives them. Pure.

mod output_tail;

use hostler_driver::SlashCommand;

pub(crate) use self::output_tail::OutputTail;
use crate::sessions::rejection::ActionRejection;

/// The prefix of commands for the host's own shell.
pub(crate) const COMMAND_PREFIX: &str = "!";

const RENAME_COMMAND: &str = "rename";

/// A command for the host itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LocalCommand {
    /// A command line for the user's shell.
    Shell(String),
    /// A new title of the chat; an empty one changes nothing.
    Rename(String),
}

/// The command in a message, if it is not for the agent.
pub(crate) fn parse(text: &str) -> Option<LocalCommand> {
    if let Some(line) = text.strip_prefix(COMMAND_PREFIX) {
        return Some(LocalCommand::Shell(line.trim().to_owned()));
    }
    let rest = text.trim_end().strip_prefix('/')?.strip_prefix(RENAME_COMMAND)?;
    let title = rest.split_whitespace().collect::<Vec<_>>().join(" ");
    (rest.is_empty() || rest.starts_with(char::is_whitespace)).then_some(LocalCommand::Rename(title))
}

/// Checks whether a command can be carried out. Attachments are allowed, because editors attach the open file to every
/// message; the host ignores them.
pub(crate) fn validate(local: Option<&LocalCommand>, longest_title: usize) -> Result<(), ActionRejection> {
    match local {
        Some(LocalCommand::Shell(line)) if line.is_empty() => {
            Err(ActionRejection::EmptyCommand { prefix: COMMAND_PREFIX })
        }
        Some(LocalCommand::Rename(title)) if title.len() > longest_title => {
            Err(ActionRejection::InvalidTitle { max: longest_title })
        }
        _ => Ok(()),
    }
}

/// The host's own slash commands.
pub(crate) fn slash_commands() -> impl Iterator<Item = SlashCommand> {
    std::iter::once(SlashCommand {
        name: RENAME_COMMAND.to_owned(),
        description: "Rename this chat".to_owned(),
        argument_hint: "TITLE".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_recognizes_only_local_commands() {
        let command = |line: &str| Some(LocalCommand::Shell(line.into()));
        let rename = |title: &str| Some(LocalCommand::Rename(title.into()));
        assert_eq!(parse("!ls -la"), command("ls -la"));
        assert_eq!(parse("! echo a\necho b\n"), command("echo a\necho b"));
        assert_eq!(parse("!"), command(""));
        assert_eq!(parse("/rename  The\n new title "), rename("The new title"));
        assert_eq!(parse("/rename"), rename(""));
        for text in ["ls", " !ls", "/renamed x", "/compact", "say /rename x", ""] {
            assert_eq!(parse(text), None, "{text:?}");
        }
        assert!(validate(parse("!  ").as_ref(), 10).unwrap_err().to_string().contains("!ls"));
        assert!(validate(parse("/rename 12345678901").as_ref(), 10).is_err());
        assert!(validate(parse("/rename").as_ref(), 10).is_ok());
        assert!(validate(parse("hello").as_ref(), 10).is_ok());
    }
}
