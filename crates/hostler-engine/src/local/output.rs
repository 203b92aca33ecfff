//! What a command has printed, as far as it is kept: its end.

/// How much of a command's output is kept.
const MOST: usize = 256 * 1024;

/// How much of it is shown while it runs.
const SHOWN: usize = 4 * 1024;

/// The end of a command's output.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    text: String,
    left_out: usize,
}

impl Kept {
    /// Appends a line.
    pub(crate) fn line(&mut self, line: &[u8]) {
        self.text.push_str(&String::from_utf8_lossy(line));
        self.text.push('\n');
        // Half at a time, so that long outputs are not moved about with every line.
        if self.text.len() > 2 * MOST {
            self.cut();
        }
    }

    fn cut(&mut self) {
        let from = self.text.ceil_char_boundary(self.text.len().saturating_sub(MOST));
        self.left_out += from;
        self.text.drain(..from);
    }

    /// The last of it, for a look in between.
    pub(crate) fn shown(&self) -> String {
        let from = self.text.ceil_char_boundary(self.text.len().saturating_sub(SHOWN));
        let end = self.text.get(from..).unwrap_or_default();
        if from + self.left_out == 0 { end.to_owned() } else { format!("…{end}") }
    }

    /// All that is kept.
    pub(crate) fn whole(mut self) -> String {
        if self.text.len() > MOST {
            self.cut();
        }
        match self.left_out {
            0 => self.text,
            bytes => format!("[{bytes} bytes before this were left out]\n{}", self.text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_long_output_is_kept_and_the_rest_counted() {
        let mut kept = Kept::default();
        kept.line(b"one");
        kept.line("zw\u{f6}lf".as_bytes());
        assert_eq!((kept.shown().as_str(), kept.whole().as_str()), ("one\nzwölf\n", "one\nzwölf\n"));

        let mut kept = Kept::default();
        let line = "ü".repeat(499);
        for _ in 0..2_000 {
            kept.line(line.as_bytes());
        }
        assert!(kept.shown().len() <= SHOWN + '…'.len_utf8() && kept.shown().starts_with('…'));
        let whole = kept.whole();
        assert!(whole.len() <= MOST + 100 && whole.starts_with('['), "{}", whole.len());
        assert!(whole.ends_with(&format!("{line}\n")));
    }
}
