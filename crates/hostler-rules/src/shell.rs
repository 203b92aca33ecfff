//! Shell command lines: the commands that a line can run, and the files that it opens itself.
//!
//! Command lines are parsed by a bash grammar (`brush-parser`) with bounded stack and time; nothing is compared as
//! text. All commands that the line could run are collected, in every branch: lists, pipes, groups, loops, functions,
//! substitutions, here-documents, and those that other commands run for it (`sudo`, `xargs`, `find -exec`, `sh -c '…'`,
//! see [`programs`]). Where that is not possible, the command is *unanalyzable*, with a reason. This module does not
//! know rules: a line is allowed only if every command that it can run is allowed, and a test runs allowed lines in a
//! real bash and looks for other commands.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tracing::dispatcher::{self, Dispatch};

mod ast_walk;
mod limits;
mod nesting;
mod programs;
mod variables;
mod word;

pub(crate) use programs::{NON_LITERAL_OPTIONS, has_non_numeric_comparison, is_plain_printf, is_plain_sed};
pub(crate) use variables::is_harmless as is_harmless_variable;
pub(crate) use word::{ShellWord, WordForm};

/// What a command line does, as far as it can be analyzed.
#[derive(Debug, Clone, Default)]
pub(crate) struct CommandLine {
    pub commands: Vec<ShellCommand>,
    pub redirections: Vec<FileRedirection>,
    /// Whether the shell changes its directory within the line, so that relative paths are uncertain.
    pub changes_directory: bool,
    /// Whether the line is `cd … && …`: the rest runs only in that directory.
    pub begins_with_cd: bool,
    /// Whether a text beside the words of commands is known only at run time: a value, a here-document, a condition.
    pub has_expansions: bool,
}

/// A simple command.
#[derive(Debug, Clone)]
pub(crate) struct ShellCommand {
    /// The name and its arguments; empty for an assignment without a command.
    pub words: Vec<ShellWord>,
    /// The variables that are set for it.
    pub variables: Vec<String>,
    pub kind: CommandKind,
    /// The commands that it runs.
    pub nested: Vec<NestedCommands>,
    /// Whether it changes the shell's directory.
    pub changes_directory: bool,
    /// Whether it may run more than once, in a loop or a function.
    pub may_repeat: bool,
    /// Its text for display.
    pub text: String,
}

/// How a command is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CommandKind {
    /// By its words.
    Plain,
    /// By the commands that it runs. It has no effect of its own, like `nice` or `timeout`.
    Wrapper,
    /// By its options it runs or changes more than its first words show. Only a rule that names it completely can allow
    /// it.
    Launcher(&'static str),
    /// What it runs cannot be determined. No rule can allow it.
    Unanalyzable(&'static str),
}

/// Commands within a command.
#[derive(Debug, Clone)]
pub(crate) struct NestedCommands {
    /// The word of the outer command at which they begin.
    pub start_word: usize,
    pub commands: Vec<ShellCommand>,
}

/// A file that the shell opens by a redirection.
#[derive(Debug, Clone)]
pub(crate) struct FileRedirection {
    pub target: ShellWord,
    pub writes: bool,
}

impl CommandLine {
    /// A line that cannot be analyzed at all.
    fn unanalyzable(text: &str, why: &'static str) -> Self {
        Self { commands: vec![ShellCommand::unanalyzable(text, why)], ..Self::default() }
    }

    /// All commands, including nested ones, outer ones first.
    pub(crate) fn all_commands(&self) -> Vec<&ShellCommand> {
        let mut found: Vec<&ShellCommand> = Vec::new();
        let mut waiting: Vec<&ShellCommand> = self.commands.iter().rev().collect();
        while let Some(command) = waiting.pop() {
            found.push(command);
            waiting.extend(command.nested.iter().rev().flat_map(|inner| inner.commands.iter().rev()));
        }
        found
    }
}

impl ShellCommand {
    fn unanalyzable(text: &str, why: &'static str) -> Self {
        let kind = CommandKind::Unanalyzable(why);
        let (words, variables, nested) = Default::default();
        Self {
            words,
            variables,
            kind,
            nested,
            changes_directory: false,
            may_repeat: false,
            text: truncate_for_display(text),
        }
    }

    /// Are all variables that are set for the command harmless, so that they do not affect what runs?
    pub(crate) fn has_harmless_variables(&self) -> bool {
        let alone = self.words.is_empty();
        self.variables.iter().all(|name| variables::is_harmless(name, alone))
    }
}

/// Collects the commands that a line can run. If the parser panics or gets no stack, the line is unanalyzable.
pub(crate) fn parse_command_line(line: &str) -> CommandLine {
    // The grammar is recursive and must not depend on the caller's stack: it runs on the caller's thread, with a stack
    // of its own. It also logs its input, and command lines must not be logged.
    let walk = || dispatcher::with_default(&Dispatch::none(), || ast_walk::walk_line(line));
    let parsed = catch_unwind(AssertUnwindSafe(|| stacker::grow(limits::PARSER_STACK_BYTES, walk)));
    parsed.unwrap_or_else(|_| CommandLine::unanalyzable(line, "it could not be parsed"))
}

/// The words of a single command without operators, as a rule names it.
pub(crate) fn parse_single_command(text: &str) -> Result<Vec<ShellWord>, &'static str> {
    let mut line = parse_command_line(text);
    if !line.redirections.is_empty() {
        return Err("a rule cannot contain redirections");
    }
    match (line.commands.pop(), line.commands.is_empty()) {
        (Some(command), true) if command.words.is_empty() => match command.kind {
            CommandKind::Unanalyzable(_) => Err("this is not a valid shell command"),
            _ => Err("a rule cannot contain only an assignment; add a command"),
        },
        (Some(command), true) if !command.variables.is_empty() && !has_assignment_word(&command) => {
            Err("a rule cannot set variables before the command")
        }
        (Some(command), true) => Ok(command.words),
        _ => Err("a rule can name only one command; add one rule per command"),
    }
}

/// `export A=1` and `env A=1 x` set variables by their own words.
fn has_assignment_word(command: &ShellCommand) -> bool {
    command.words.iter().any(|word| word.text.contains('='))
}

/// Is this a device to which writing changes nothing?
pub(crate) fn is_output_device_path(name: &str) -> bool {
    matches!(name, "/dev/null" | "/dev/stdout" | "/dev/stderr" | "/dev/tty" | "/dev/fd/1" | "/dev/fd/2")
}

pub(crate) fn base_name(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

/// Truncates a text for display.
pub(crate) fn truncate_for_display(text: &str) -> String {
    const LONGEST: usize = 200;
    if text.chars().count() <= LONGEST {
        return text.to_owned();
    }
    text.chars().take(LONGEST).chain(['…']).collect()
}
