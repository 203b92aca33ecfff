//! Bounds-checked reader of file headers.

/// Reads a file from its start, and never beyond its end.
#[derive(Debug, Clone)]
pub(super) struct ByteReader<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl<'a> ByteReader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, position: 0 }
    }

    /// Number of bytes that have been read.
    pub(super) fn position(&self) -> usize {
        self.position
    }

    pub(super) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let taken = self.bytes.get(self.position..self.position.checked_add(count)?)?;
        self.position += count;
        Some(taken)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    pub(super) fn byte(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// Continues after the next such byte.
    pub(super) fn skip_past(&mut self, byte: u8) -> Option<()> {
        let rest = self.bytes.get(self.position..)?;
        self.position += rest.iter().position(|found| *found == byte)? + 1;
        Some(())
    }

    pub(super) fn be16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub(super) fn be32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub(super) fn le16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(super) fn le24(&mut self) -> Option<u32> {
        self.array().map(|[low, middle, high]| u32::from_le_bytes([low, middle, high, 0]))
    }

    pub(super) fn le32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }
}
