//! Splits a shell's output into text, shell events and titles.
//!
//! Shell events carry a nonce; output without it passes through byte for byte. A property test and a fuzz target check
//! this, and that chunk boundaries change nothing.

use crate::shell_event::{self, SequenceMatch};
use crate::title_scanner::TitleScanner;
use crate::utf8_decoder::Utf8Decoder;
use crate::{ShellEvent, ShellNonce};

const ESCAPE: u8 = 0x1b;

/// A piece of a shell's output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ShellOutput {
    /// Text with the escape sequences of programs. Never empty.
    Text(String),
    /// An event that the shell reported.
    Event(ShellEvent),
    /// A program set the terminal's title; the sequence remains in the text.
    Title(String),
}

/// Parses output. Chunk boundaries do not change the result.
#[derive(Debug)]
pub struct ShellOutputParser {
    nonce: ShellNonce,
    /// Bytes that may become a shell event. They are held as long as every byte matches; other output stops matching
    /// soon.
    pending: Vec<u8>,
    decoder: Utf8Decoder,
    title_scanner: TitleScanner,
}

impl ShellOutputParser {
    /// Parses the output of a shell with this nonce.
    pub fn new(nonce: ShellNonce) -> Self {
        Self { nonce, pending: Vec::new(), decoder: Utf8Decoder::default(), title_scanner: TitleScanner::default() }
    }

    /// Parses the next chunk.
    pub fn push(&mut self, mut bytes: &[u8]) -> Vec<ShellOutput> {
        let (mut pieces, mut text) = (Vec::new(), String::new());
        while let Some(&first) = bytes.first() {
            if self.pending.is_empty() && first != ESCAPE {
                let plain = bytes.iter().position(|byte| *byte == ESCAPE).unwrap_or(bytes.len());
                let (plain, rest) = bytes.split_at_checked(plain).unwrap_or((bytes, &[]));
                self.push_text(plain, &mut text, &mut pieces);
                bytes = rest;
                continue;
            }
            self.pending.push(first);
            match shell_event::match_sequence(&self.pending, &self.nonce) {
                SequenceMatch::Partial => {}
                SequenceMatch::Complete => {
                    let whole = std::mem::take(&mut self.pending);
                    // A malformed event with the nonce is dropped: it comes from the script and is not text.
                    if let Some(mark) = shell_event::parse_sequence(&whole, &self.nonce) {
                        self.decoder.finish(&mut text);
                        flush_text(&mut text, &mut pieces);
                        pieces.push(ShellOutput::Event(mark));
                    }
                }
                SequenceMatch::Mismatch => {
                    // The byte that does not match may start a sequence itself.
                    self.pending.pop();
                    let plain = std::mem::take(&mut self.pending);
                    if plain.is_empty() {
                        self.push_text(&[first], &mut text, &mut pieces);
                    } else {
                        self.push_text(&plain, &mut text, &mut pieces);
                        continue;
                    }
                }
            }
            bytes = bytes.get(1..).unwrap_or_default();
        }
        flush_text(&mut text, &mut pieces);
        pieces
    }

    /// Returns the pending output at the end.
    pub fn finish(&mut self) -> Vec<ShellOutput> {
        let (mut pieces, mut text) = (Vec::new(), String::new());
        let plain = std::mem::take(&mut self.pending);
        self.push_text(&plain, &mut text, &mut pieces);
        self.decoder.finish(&mut text);
        flush_text(&mut text, &mut pieces);
        pieces
    }

    fn push_text(&mut self, bytes: &[u8], text: &mut String, pieces: &mut Vec<ShellOutput>) {
        self.decoder.push(bytes, text);
        if let Some(title) = self.title_scanner.push(bytes) {
            flush_text(text, pieces);
            pieces.push(ShellOutput::Title(title));
        }
    }
}

fn flush_text(text: &mut String, pieces: &mut Vec<ShellOutput>) {
    if !text.is_empty() {
        pieces.push(ShellOutput::Text(std::mem::take(text)));
    }
}
