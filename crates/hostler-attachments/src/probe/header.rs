use std::ops::Range;

use image::metadata::Orientation;

use crate::ImageType;

/// What a picture says of itself, read without decoding a pixel.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) form: ImageType,
    pub(crate) width: u32,
    pub(crate) height: u32,
    /// More than one if it moves.
    pub(crate) frames: u32,
    /// The pixels of its largest part. A frame may claim to be larger than the picture.
    pub(crate) pixels: u64,
    /// Bytes of one pixel when it is decoded.
    pub(crate) pixel_bytes: u64,
    /// Whether its pixels are kept exactly, so that text in it is crisp.
    pub(crate) lossless: bool,
    /// Why models may not take its colours, where that is so.
    pub(crate) odd_colours: Option<&'static str>,
    /// Whether it is written in a way that nobody uses, and few programs read.
    pub(crate) is_rare: bool,
    /// How it has to be turned to be upright.
    pub(crate) orientation: Orientation,
    /// The parts of the file that make up the picture: no metadata, nothing behind its end.
    pub(crate) kept: Vec<Range<usize>>,
    /// Where the picture ends.
    pub(crate) end: usize,
}

impl Header {
    /// A still picture without metadata, to be corrected by whoever knows more.
    pub(super) fn new(form: ImageType, width: u32, height: u32) -> Self {
        Self {
            form,
            width,
            height,
            frames: 1,
            pixels: u64::from(width) * u64::from(height),
            pixel_bytes: 4,
            lossless: true,
            odd_colours: None,
            is_rare: false,
            orientation: Orientation::NoTransforms,
            kept: Vec::new(),
            end: 0,
        }
    }

    /// A part of the picture may be larger than the picture.
    pub(super) fn has_part(&mut self, width: u32, height: u32) {
        self.pixels = self.pixels.max(u64::from(width) * u64::from(height));
    }

    pub(super) fn keep(&mut self, range: Range<usize>) {
        match self.kept.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => self.kept.push(range),
        }
    }

    pub(super) fn orient(&mut self, exif: &[u8]) {
        self.orientation = Orientation::from_exif_chunk(exif).unwrap_or(Orientation::NoTransforms);
    }

    /// How much memory its pixels take once they are decoded, in ordinary pixels of four bytes. Colours of 16 bits take twice
    /// as much.
    pub(crate) fn decoded_pixels(&self) -> u64 {
        self.pixels.saturating_mul(self.pixel_bytes.max(4)) / 4
    }

    pub(crate) fn is_animated(&self) -> bool {
        self.frames > 1
    }

    /// Whether the picture is the whole file.
    pub(crate) fn is_bare(&self, file: &[u8]) -> bool {
        matches!(self.kept.as_slice(), [all] if *all == (0..file.len()))
    }
}
