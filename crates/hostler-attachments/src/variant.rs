//! Keys of variants: contents that were made from an original for sending.

use std::fmt;

use crate::AttachmentLimits;

/// Incremented whenever the same image is optimized to different bytes.
pub const IMAGE_OPTIMIZER_VERSION: u32 = 1;

/// Identifies a variant: the same original, limits and optimizer give the same key and the same bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct VariantKey(blake3::Hash);

impl VariantKey {
    /// The key of the image that `original` is optimized to for a model.
    pub(crate) fn for_model(original: &[u8], limits: &AttachmentLimits) -> Self {
        let mut key = blake3::Hasher::new();
        key.update(blake3::hash(original).as_bytes());
        key.update(b"model");
        key.update(&limits.effective_image_edge_pixels().to_le_bytes());
        key.update(&(limits.image_bytes as u64).to_le_bytes());
        key.update(&IMAGE_OPTIMIZER_VERSION.to_le_bytes());
        Self(key.finalize())
    }
}

impl fmt::Display for VariantKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.to_hex())
    }
}

impl fmt::Debug for VariantKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VariantKey({self})")
    }
}
