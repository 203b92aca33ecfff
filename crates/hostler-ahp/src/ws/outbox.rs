//! Frames to be written to a socket, in their order. Pure; frames are never copied, only counted down.

use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::{Buf as _, Bytes};

/// Maximum number of frames in one system call.
pub(crate) const MAX_WRITE_SLICES: usize = 128;

/// Outgoing frames. Control frames overtake queued ones, but not a frame that is partly written.
#[derive(Default)]
pub(crate) struct Outbox {
    /// The rest of a frame that was partly written.
    current: Bytes,
    /// Only the newest ping needs an answer, so a flood of pings does not fill the outbox.
    pong: Bytes,
    ping: Bytes,
    queue: VecDeque<Bytes>,
    /// The size of the queue.
    queued_bytes: usize,
    /// Nothing may follow a close frame.
    closed: bool,
}

impl Outbox {
    /// Adds a frame. After a close frame it is dropped.
    pub(crate) fn push(&mut self, frame: Bytes) {
        if !self.closed && !frame.is_empty() {
            self.queued_bytes += frame.len();
            self.queue.push_back(frame);
        }
    }

    /// Sets the answer to a ping; replaces one that is not sent yet.
    pub(crate) fn set_pong(&mut self, frame: Bytes) {
        if !self.closed {
            self.pong = frame;
        }
    }

    /// Sets a ping to send.
    pub(crate) fn set_ping(&mut self, frame: Bytes) {
        if !self.closed {
            self.ping = frame;
        }
    }

    /// Adds the close frame after all queued frames.
    pub(crate) fn close(&mut self, frame: Bytes) {
        self.push(frame);
        self.closed = true;
    }

    /// Drops queued frames. A partly written frame stays, because the rest of the stream would be garbage without it. A
    /// close frame stays too.
    pub(crate) fn discard_queued(&mut self) {
        let close = if self.closed { self.queue.pop_back() } else { None };
        self.queue.clear();
        (self.pong, self.ping) = (Bytes::new(), Bytes::new());
        self.queued_bytes = close.as_ref().map_or(0, Bytes::len);
        self.queue.extend(close);
    }

    /// Whether control frames are queued, which must be written at once.
    pub(crate) fn is_urgent(&self) -> bool {
        !(self.pong.is_empty() && self.ping.is_empty())
    }

    /// Whether everything is written.
    pub(crate) fn is_empty(&self) -> bool {
        self.current.is_empty() && !self.is_urgent() && self.queue.is_empty()
    }

    /// Size of the frames that are queued behind the current one.
    pub(crate) fn queued_bytes(&self) -> usize {
        self.queued_bytes
    }

    /// The next bytes, as the slices of one write; returns the number of slices.
    pub(crate) fn fill_slices<'a>(&'a self, slices: &mut [IoSlice<'a>; MAX_WRITE_SLICES]) -> usize {
        let first = [&self.current, &self.pong, &self.ping].into_iter().filter(|frame| !frame.is_empty());
        let mut count = 0;
        for (slice, frame) in slices.iter_mut().zip(first.chain(&self.queue)) {
            *slice = IoSlice::new(frame);
            count += 1;
        }
        count
    }

    /// Records how many bytes were written.
    pub(crate) fn advance(&mut self, mut written: usize) {
        while written > 0 {
            let Some(mut frame) = self.next() else { return };
            let part = written.min(frame.len());
            frame.advance(part);
            written -= part;
            self.current = frame;
        }
    }

    fn next(&mut self) -> Option<Bytes> {
        for frame in [&mut self.current, &mut self.pong, &mut self.ping] {
            if !frame.is_empty() {
                return Some(std::mem::take(frame));
            }
        }
        let frame = self.queue.pop_front()?;
        self.queued_bytes -= frame.len();
        Some(frame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes up to `limit` bytes, as a socket would.
    fn write(outbox: &mut Outbox, limit: usize) -> Vec<u8> {
        let mut slices = [IoSlice::new(&[]); MAX_WRITE_SLICES];
        let count = outbox.fill_slices(&mut slices);
        let bytes: Vec<u8> = slices[..count].iter().flat_map(|slice| slice.iter().copied()).take(limit).collect();
        outbox.advance(bytes.len());
        bytes
    }

    fn outbox(frames: &[&'static str]) -> Outbox {
        let mut outbox = Outbox::default();
        frames.iter().for_each(|frame| outbox.push(Bytes::from_static(frame.as_bytes())));
        outbox
    }

    #[test]
    fn frames_are_written_in_order_with_any_write_size() {
        for limit in 1..20 {
            let mut outbox = outbox(&["one", "", "three", "4"]);
            let mut written = Vec::new();
            while !outbox.is_empty() {
                written.extend(write(&mut outbox, limit));
            }
            assert_eq!(written, b"onethree4");
            assert_eq!(outbox.queued_bytes(), 0);
        }
    }

    #[test]
    fn control_frames_overtake_queued_frames_but_not_a_partial_one() {
        let mut outbox = outbox(&["abc", "def"]);
        assert_eq!(write(&mut outbox, 1), b"a");
        outbox.set_pong(Bytes::from_static(b"(old)"));
        outbox.set_pong(Bytes::from_static(b"(pong)"));
        outbox.set_ping(Bytes::from_static(b"(ping)"));
        assert!(outbox.is_urgent());
        assert_eq!(write(&mut outbox, 4), b"bc(p");
        outbox.set_pong(Bytes::from_static(b"(next)"));
        assert_eq!(write(&mut outbox, 100), b"ong)(next)(ping)def");
        assert!(outbox.is_empty());
    }

    #[test]
    fn nothing_follows_a_close_and_queued_frames_can_be_dropped() {
        let mut outbox = outbox(&["abc", "def"]);
        assert_eq!(write(&mut outbox, 2), b"ab");
        outbox.close(Bytes::from_static(b"(close)"));
        outbox.push(Bytes::from_static(b"late"));
        outbox.set_pong(Bytes::from_static(b"late"));
        outbox.discard_queued();
        assert_eq!(outbox.queued_bytes(), 7);
        assert_eq!(write(&mut outbox, 100), b"c(close)");
        assert!(outbox.is_empty());
    }

    #[test]
    fn one_write_has_a_bounded_number_of_slices() {
        let mut outbox = outbox(&["x"; MAX_WRITE_SLICES + 5]);
        assert_eq!(write(&mut outbox, usize::MAX).len(), MAX_WRITE_SLICES);
        assert_eq!(write(&mut outbox, usize::MAX).len(), 5);
    }
}
