/// The most that one message may carry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttachmentLimits {
    /// Files per message.
    pub files: usize,
    /// Bytes of one file.
    pub file_bytes: usize,
    /// Bytes of all files together.
    pub total_bytes: usize,
    /// Pixels of a picture, before it is decoded.
    pub image_pixels: u64,
    /// The longest edge of a picture that is sent. More than [`Limits::HARD_EDGE`] counts as that.
    pub image_edge_pixels: u32,
    /// Bytes of a picture that is sent.
    pub image_bytes: usize,
    /// Pages of a PDF document.
    pub pdf_pages: usize,
    /// Pictures in one request to the provider, earlier ones of the conversation included.
    pub images_per_request: usize,
    /// Bytes of one request to the provider, the conversation included.
    pub request_bytes: usize,
    /// Bytes of the attachments as they are written to the agent, in one line with the message.
    pub agent_line_bytes: usize,
}

impl AttachmentLimits {
    /// No picture is ever sent with a longer edge: in requests with many pictures, providers take none that is longer.
    pub const MAX_IMAGE_EDGE_PIXELS: u32 = 2000;

    /// The longest edge that a picture is shrunk to.
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
            // Claude Code encodes a larger picture anew, both builds, and makes an animation stand still.
            image_bytes: 512_000,
            pdf_pages: 100,
            images_per_request: 100,
            request_bytes: 32_000_000,
            agent_line_bytes: 28_000_000,
        }
    }
}

/// What the conversation carries already, and every further request carries again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ConversationSize {
    /// Pictures.
    pub images: usize,
    /// Bytes, as the provider counts them.
    pub bytes: usize,
}
