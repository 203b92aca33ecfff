//! Removes metadata from image files without re-encoding them.

use crate::ImageType;
use crate::probe::ImageHeader;

/// Flags in a WebP header for metadata.
const WEBP_METADATA_FLAGS: u8 = 0x08 | 0x04;

/// Returns the file without metadata; the encoded pixels are unchanged.
pub(super) fn strip_metadata(file: &[u8], header: &ImageHeader) -> Vec<u8> {
    let mut bare = Vec::with_capacity(file.len());
    for range in &header.image_ranges {
        bare.extend_from_slice(file.get(range.clone()).unwrap_or_default());
    }
    if header.image_type == ImageType::WebP {
        fix_webp_header(&mut bare);
    }
    bare
}

/// Updates the length and the flags in a WebP header.
fn fix_webp_header(bare: &mut [u8]) {
    let length = u32::try_from(bare.len().saturating_sub(8)).unwrap_or(u32::MAX).to_le_bytes();
    if let Some(field) = bare.get_mut(4..8) {
        field.copy_from_slice(&length);
    }
    if bare.get(12..16) == Some(b"VP8X")
        && let Some(flags) = bare.get_mut(20)
    {
        *flags &= !WEBP_METADATA_FLAGS;
    }
}
