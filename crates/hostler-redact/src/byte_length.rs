use std::fmt;

/// How long something is that is not printed. For `Debug` by hand.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ByteLength(usize);

/// The length of a text or of bytes.
pub fn byte_length(of: impl AsRef<[u8]>) -> ByteLength {
    ByteLength(of.as_ref().len())
}

impl fmt::Debug for ByteLength {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0)
    }
}
