//! Properties of an image file that are read without decoding pixels.

use std::ops::Range;

use image::metadata::Orientation;

use crate::ImageType;

/// Header data of an image, read without decoding a pixel.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ImageHeader {
    pub(crate) image_type: ImageType,
    pub(crate) width: u32,
    pub(crate) height: u32,
    /// More than one for an animation.
    pub(crate) frame_count: u32,
    /// Pixels of the largest frame, which may be declared larger than the image.
    pub(crate) max_frame_pixels: u64,
    /// Bytes per decoded pixel.
    pub(crate) bytes_per_pixel: u64,
    /// Whether the encoding is lossless, so that text in the image stays crisp.
    pub(crate) is_lossless: bool,
    /// Why models may reject its color format, if so.
    pub(crate) unusual_colors: Option<&'static str>,
    /// Whether it uses a rare encoding that few programs support.
    pub(crate) is_unusual_encoding: bool,
    /// Orientation to apply.
    pub(crate) orientation: Orientation,
    /// Byte ranges that make up the image, without metadata and trailing data.
    pub(crate) image_ranges: Vec<Range<usize>>,
    /// End of the image in the file.
    pub(crate) end_offset: usize,
}

impl ImageHeader {
    /// A still image without metadata; the caller sets the other fields.
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

    /// Includes a frame, which may be larger than the image.
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

    /// Memory of the decoded pixels, in pixels of four bytes. Channels of 16 bits take twice as much.
    pub(crate) fn decoded_pixels(&self) -> u64 {
        self.max_frame_pixels.saturating_mul(self.bytes_per_pixel.max(4)) / 4
    }

    pub(crate) fn is_animated(&self) -> bool {
        self.frame_count > 1
    }

    /// Whether the image ranges cover the whole file.
    pub(crate) fn is_whole_file(&self, file: &[u8]) -> bool {
        matches!(self.image_ranges.as_slice(), [all] if *all == (0..file.len()))
    }
}
