//! The end of a command's output, within a size limit.

/// Maximum size of the kept output.
const MAX_OUTPUT_BYTES: usize = 256 * 1024;

/// Maximum size of the preview while the command runs.
const OUTPUT_PREVIEW_BYTES: usize = 4 * 1024;

/// The end of a command's output.
#[derive(Debug, Default)]
pub(crate) struct OutputTail {
    text: String,
    dropped_bytes: usize,
}

impl OutputTail {
    /// Appends a line.
    pub(crate) fn push_line(&mut self, line: &[u8]) {
        self.text.push_str(&String::from_utf8_lossy(line));
        self.text.push('\n');
        // Half at a time, so that a long output is not moved with every line.
        if self.text.len() > 2 * MAX_OUTPUT_BYTES {
            self.truncate();
        }
    }

    fn truncate(&mut self) {
        let from = self.text.ceil_char_boundary(self.text.len().saturating_sub(MAX_OUTPUT_BYTES));
        self.dropped_bytes += from;
        self.text.drain(..from);
    }

    /// The last part, for a preview.
    pub(crate) fn preview(&self) -> String {
        let from = self.text.ceil_char_boundary(self.text.len().saturating_sub(OUTPUT_PREVIEW_BYTES));
        let end = self.text.get(from..).unwrap_or_default();
        if from + self.dropped_bytes == 0 { end.to_owned() } else { format!("…{end}") }
    }

    /// The whole kept output.
    pub(crate) fn into_text(mut self) -> String {
        if self.text.len() > MAX_OUTPUT_BYTES {
            self.truncate();
        }
        match self.dropped_bytes {
            0 => self.text,
            bytes => format!("[{bytes} bytes of earlier output omitted]\n{}", self.text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_output_keeps_its_end_and_counts_the_rest() {
        let mut tail = OutputTail::default();
        tail.push_line(b"one");
        tail.push_line("zw\u{f6}lf".as_bytes());
        assert_eq!((tail.preview().as_str(), tail.into_text().as_str()), ("one\nzwölf\n", "one\nzwölf\n"));

        let mut tail = OutputTail::default();
        let line = "ü".repeat(499);
        for _ in 0..2_000 {
            tail.push_line(line.as_bytes());
        }
        assert!(tail.preview().len() <= OUTPUT_PREVIEW_BYTES + '…'.len_utf8() && tail.preview().starts_with('…'));
        let whole = tail.into_text();
        assert!(whole.len() <= MAX_OUTPUT_BYTES + 100 && whole.starts_with('['), "{}", whole.len());
        assert!(whole.ends_with(&format!("{line}\n")));
    }
}
