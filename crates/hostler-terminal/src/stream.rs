//! A shell's output, taken apart: text for people, and marks.

use crate::mark::{self, Fit};
use crate::text::Decoder;
use crate::title::Titles;
use crate::{Mark, Nonce};

const ESCAPE: u8 = 0x1b;

/// A piece of a shell's output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// For people, with whatever sequences programs write. Never empty.
    Text(String),
    /// The shell said something about itself.
    Mark(Mark),
    /// A program has given the terminal a title; the sequence is in the text, too.
    Title(String),
}

/// Takes output apart. However the bytes are split, the pieces say the same.
#[derive(Debug)]
pub struct Stream {
    nonce: Nonce,
    /// What may become a mark. Held as long as every byte fits, which only our own shell's do for more than a moment.
    held: Vec<u8>,
    decoder: Decoder,
    titles: Titles,
}

impl Stream {
    /// The output of a shell that was given this nonce.
    pub fn new(nonce: Nonce) -> Self {
        Self { nonce, held: Vec::new(), decoder: Decoder::default(), titles: Titles::default() }
    }

    /// The pieces of some more output.
    pub fn push(&mut self, mut bytes: &[u8]) -> Vec<Piece> {
        let (mut pieces, mut text) = (Vec::new(), String::new());
        while let Some(&first) = bytes.first() {
            if self.held.is_empty() && first != ESCAPE {
                let plain = bytes.iter().position(|byte| *byte == ESCAPE).unwrap_or(bytes.len());
                let (plain, rest) = bytes.split_at_checked(plain).unwrap_or((bytes, &[]));
                self.say(plain, &mut text, &mut pieces);
                bytes = rest;
                continue;
            }
            self.held.push(first);
            match mark::fits(&self.held, &self.nonce) {
                Fit::Perhaps => {}
                Fit::Whole => {
                    let whole = std::mem::take(&mut self.held);
                    // One that makes no sense is ours all the same, and nothing to look at.
                    if let Some(mark) = mark::read(&whole, &self.nonce) {
                        self.decoder.finish(&mut text);
                        flush(&mut text, &mut pieces);
                        pieces.push(Piece::Mark(mark));
                    }
                }
                Fit::No => {
                    // The byte that does not fit may begin something itself.
                    self.held.pop();
                    let plain = std::mem::take(&mut self.held);
                    if plain.is_empty() {
                        self.say(&[first], &mut text, &mut pieces);
                    } else {
                        self.say(&plain, &mut text, &mut pieces);
                        continue;
                    }
                }
            }
            bytes = bytes.get(1..).unwrap_or_default();
        }
        flush(&mut text, &mut pieces);
        pieces
    }

    /// What was held, when nothing more comes.
    pub fn finish(&mut self) -> Vec<Piece> {
        let (mut pieces, mut text) = (Vec::new(), String::new());
        let plain = std::mem::take(&mut self.held);
        self.say(&plain, &mut text, &mut pieces);
        self.decoder.finish(&mut text);
        flush(&mut text, &mut pieces);
        pieces
    }

    fn say(&mut self, bytes: &[u8], text: &mut String, pieces: &mut Vec<Piece>) {
        self.decoder.push(bytes, text);
        if let Some(title) = self.titles.push(bytes) {
            flush(text, pieces);
            pieces.push(Piece::Title(title));
        }
    }
}

fn flush(text: &mut String, pieces: &mut Vec<Piece>) {
    if !text.is_empty() {
        pieces.push(Piece::Text(std::mem::take(text)));
    }
}
