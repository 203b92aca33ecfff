//! The length of a text in place of the text.

use std::fmt;

/// Prints the byte length of a value that must not be printed. For hand-written `Debug` implementations.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ByteLength(usize);

/// Measures a text or bytes.
pub fn byte_length(of: impl AsRef<[u8]>) -> ByteLength {
    ByteLength(of.as_ref().len())
}

impl fmt::Debug for ByteLength {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0)
    }
}
