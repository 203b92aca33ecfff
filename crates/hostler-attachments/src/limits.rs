//! Limits on attachments, and the size of the conversation that they are added to.

/// Limits for one message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttachmentLimits {
    /// Attachments per message.
    pub files: usize,
    /// Bytes of one attachment.
    pub file_bytes: usize,
    /// Bytes of all attachments together.
    pub total_bytes: usize,
    /// Pixels of an image, checked before it is decoded.
    pub image_pixels: u64,
    /// Longest edge of a sent image. At most [`AttachmentLimits::MAX_IMAGE_EDGE_PIXELS`] applies.
    pub image_edge_pixels: u32,
    /// Bytes of a sent image.
    pub image_bytes: usize,
    /// Pages of a PDF document.
    pub pdf_pages: usize,
    /// Images in one request to the provider, including earlier ones of the conversation.
    pub images_per_request: usize,
    /// Bytes of one request to the provider, including the conversation.
    pub request_bytes: usize,
    /// Bytes of the attachments in the line that is written to the agent.
    pub agent_line_bytes: usize,
}

impl AttachmentLimits {
    /// Maximum edge of any sent image: providers reject longer edges in requests with many images.
    pub const MAX_IMAGE_EDGE_PIXELS: u32 = 2000;

    /// The longest edge that an image is scaled to.
    pub(crate) fn effective_image_edge_pixels(&self) -> u32 {
        self.image_edge_pixels.clamp(1, Self::MAX_IMAGE_EDGE_PIXELS)
    }
}

impl Default for AttachmentLimits {
    fn default() -> Self {
        Self {
            files: 20,
            file_bytes: 10 << 20,
            total_bytes: 20 << 20,
            image_pixels: 64_000_000,
            image_edge_pixels: 1568,
            // Both builds of Claude Code re-encode a larger image, and reduce an animation to one frame.
            image_bytes: 512_000,
            pdf_pages: 100,
            images_per_request: 100,
            request_bytes: 32_000_000,
            agent_line_bytes: 28_000_000,
        }
    }
}

/// What the conversation already contains, and every further request contains again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ConversationSize {
    /// Number of images.
    pub images: usize,
    /// Bytes, as the provider counts them.
    pub bytes: usize,
}
