use std::ops::Range;

use image::metadata::Orientation;

use crate::ImageType;

/// What a picture says of itself, read without decoding a pixel.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ImageHeader {
    pub(crate) image_type: ImageType,
    pub(crate) width: u32,
    pub(crate) height: u32,
    /// More than one if it moves.
    pub(crate) frame_count: u32,
    /// The pixels of its largest part. A frame may claim to be larger than the picture.
    pub(crate) max_frame_pixels: u64,
    /// Bytes of one pixel when it is decoded.
    pub(crate) bytes_per_pixel: u64,
    /// Whether its pixels are kept exactly, so that text in it is crisp.
    pub(crate) is_lossless: bool,
    /// Why models may not take its colours, where that is so.
    pub(crate) unusual_colors: Option<&'static str>,
    /// Whether it is written in a way that nobody uses, and few programs read.
    pub(crate) is_unusual_encoding: bool,
    /// How it has to be turned to be upright.
    pub(crate) orientation: Orientation,
    /// The parts of the file that make up the picture: no metadata, nothing behind its end.
    pub(crate) image_ranges: Vec<Range<usize>>,
    /// Where the picture ends.
    pub(crate) end_offset: usize,
}

impl ImageHeader {
    /// A still picture without metadata, to be corrected by whoever knows more.
    pub(super) fn new(image_type: ImageType, width: u32, height: u32) -> Self {
        Self {
            image_type,
            width,
            height,
            frame_count: 1,
            max_frame_pixels: u64::from(width) * u64::from(height),
            bytes_per_pixel: 4,
            is_lossless: true,
            unusual_colors: None,
            is_unusual_encoding: false,
            orientation: Orientation::NoTransforms,
            image_ranges: Vec::new(),
            end_offset: 0,
        }
    }

    /// A part of the picture may be larger than the picture.
    pub(super) fn include_frame(&mut self, width: u32, height: u32) {
        self.max_frame_pixels = self.max_frame_pixels.max(u64::from(width) * u64::from(height));
    }

    pub(super) fn add_image_range(&mut self, range: Range<usize>) {
        match self.image_ranges.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => self.image_ranges.push(range),
        }
    }

    pub(super) fn read_orientation(&mut self, exif: &[u8]) {
        self.orientation = Orientation::from_exif_chunk(exif).unwrap_or(Orientation::NoTransforms);
    }

    /// How much memory its pixels take once they are decoded, in ordinary pixels of four bytes. Colours of 16 bits take twice
    /// as much.
    pub(crate) fn decoded_pixels(&self) -> u64 {
        self.max_frame_pixels.saturating_mul(self.bytes_per_pixel.max(4)) / 4
    }

    pub(crate) fn is_animated(&self) -> bool {
        self.frame_count > 1
    }

    /// Whether the picture is the whole file.
    pub(crate) fn is_whole_file(&self, file: &[u8]) -> bool {
        matches!(self.image_ranges.as_slice(), [all] if *all == (0..file.len()))
    }
}
