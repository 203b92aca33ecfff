//! Output streams of a command, with styles for terminals and without control characters from other sources.

use std::fmt;
use std::io::{self, Write};

use crate::environment::HostEnvironment;

/// The two output streams of a command, and whether they are terminals with color.
pub struct Console {
    out: Box<dyn Write + Send>,
    err: Box<dyn Write + Send>,
    out_is_terminal: bool,
    err_is_terminal: bool,
    color: bool,
}

impl Console {
    /// Uses the process's own streams.
    pub fn for_process(environment: &HostEnvironment) -> Self {
        Self {
            out: Box::new(io::stdout()),
            err: Box::new(io::stderr()),
            out_is_terminal: environment.stdout_is_terminal,
            err_is_terminal: environment.stderr_is_terminal,
            color: !environment.is_color_disabled(),
        }
    }

    /// Uses any two writers; the environment decides whether they count as terminals.
    pub fn with_writers(
        out: impl Write + Send + 'static,
        err: impl Write + Send + 'static,
        environment: &HostEnvironment,
    ) -> Self {
        Self { out: Box::new(out), err: Box::new(err), ..Self::for_process(environment) }
    }

    pub(crate) fn out_is_terminal(&self) -> bool {
        self.out_is_terminal
    }

    pub(crate) fn err_is_terminal(&self) -> bool {
        self.err_is_terminal
    }

    /// Returns whether stderr shows colors; for the log.
    pub(crate) fn err_has_color(&self) -> bool {
        self.color && self.err_is_terminal
    }

    /// Writes to stdout and flushes, so that answers appear as they stream.
    pub(crate) fn write_out(&mut self, text: &str) -> io::Result<()> {
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }

    /// Writes untrusted text to stdout: unchanged for programs, without control characters on a terminal.
    pub(crate) fn write_out_untrusted(&mut self, text: &str, style: TextStyle) -> io::Result<()> {
        if self.out_is_terminal {
            let text = style.paint(&strip_control_characters(text), self.color);
            self.write_out(&text)
        } else {
            self.write_out(text)
        }
    }

    /// Writes a line to stdout; its untrusted parts are already escaped.
    pub(crate) fn write_out_line(&mut self, text: &str, style: TextStyle) -> io::Result<()> {
        let text = style.paint(text, self.color && self.out_is_terminal);
        self.write_out(&format!("{text}\n"))
    }

    /// Writes a question that is answered on the same line.
    pub(crate) fn write_prompt(&mut self, text: &str) {
        let _unread = write!(self.err, "{text}").and_then(|()| self.err.flush());
    }

    /// Writes a line for people to stderr. A closed stderr is not an error.
    pub(crate) fn write_note(&mut self, text: &str, style: TextStyle) {
        let text = style.paint(text, self.err_has_color());
        let _unread = writeln!(self.err, "{text}").and_then(|()| self.err.flush());
    }
}

impl fmt::Debug for Console {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Console")
            .field("out_is_terminal", &self.out_is_terminal)
            .field("err_is_terminal", &self.err_is_terminal)
            .field("color", &self.color)
            .finish_non_exhaustive()
    }
}

/// Styles of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TextStyle {
    Plain,
    Dim,
    Bold,
    Green,
    Yellow,
    Red,
}

impl TextStyle {
    fn paint(self, text: &str, color: bool) -> String {
        let code = match self {
            Self::Plain => "",
            Self::Dim => "2",
            Self::Bold => "1",
            Self::Green => "32",
            Self::Yellow => "33",
            Self::Red => "31",
        };
        if !color || code.is_empty() || text.is_empty() {
            return text.to_owned();
        }
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    }
}

/// Removes control characters from text of agents and hosts; line breaks and tabs stay.
pub(crate) fn strip_control_characters(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect()
}

/// Does the same and joins lines.
pub(crate) fn to_one_line(text: &str) -> String {
    strip_control_characters(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn untrusted_text_loses_control_sequences() {
        assert_eq!(strip_control_characters("a\u{1b}[2Jb\u{9b}c\r\n\td"), "a[2Jbc\n\td");
        assert_eq!(to_one_line("two\n  lines\u{7}"), "two lines");
    }

    #[test]
    fn no_escape_sequences_without_color() {
        assert_eq!(TextStyle::Red.paint("x", false), "x");
        assert_eq!(TextStyle::Red.paint("x", true), "\u{1b}[31mx\u{1b}[0m");
    }
}
