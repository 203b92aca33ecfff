/// The most that one message may carry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Files per message.
    pub files: usize,
    /// Bytes of one file.
    pub file_bytes: usize,
    /// Bytes of all files together.
    pub total_bytes: usize,
    /// Pixels of a picture, before it is decoded.
    pub pixels: u64,
    /// The longest edge of a picture that is sent. More than [`Limits::HARD_EDGE`] counts as that.
    pub edge: u32,
    /// Bytes of a picture that is sent.
    pub image_bytes: usize,
    /// Pages of a PDF document.
    pub pdf_pages: usize,
    /// Pictures in one request to the provider, earlier ones of the conversation included.
    pub images: usize,
    /// Bytes of one request to the provider, the conversation included.
    pub request_bytes: usize,
    /// Bytes of the attachments as they are written to the agent, in one line with the message.
    pub line_bytes: usize,
}

impl Limits {
    /// No picture is ever sent with a longer edge: in requests with many pictures, providers take none that is longer.
    pub const HARD_EDGE: u32 = 2000;

    /// The longest edge that a picture is shrunk to.
    pub(crate) fn edge(&self) -> u32 {
        self.edge.clamp(1, Self::HARD_EDGE)
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            files: 20,
            file_bytes: 10 << 20,
            total_bytes: 20 << 20,
            pixels: 64_000_000,
            edge: 1568,
            // Claude Code encodes a larger picture anew, both builds, and makes an animation stand still.
            image_bytes: 512_000,
            pdf_pages: 100,
            images: 100,
            request_bytes: 32_000_000,
            line_bytes: 28_000_000,
        }
    }
}

/// What the conversation carries already, and every further request carries again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct History {
    /// Pictures.
    pub images: usize,
    /// Bytes, as the provider counts them.
    pub bytes: usize,
}
