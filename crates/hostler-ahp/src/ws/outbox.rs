//! What is still to be written to a socket, and in which order. Frames are never copied, only counted down.

use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::{Buf as _, Bytes};

/// How many frames one system call writes at most.
pub(crate) const MAX_WRITE_SLICES: usize = 128;

/// Frames on their way out. Control frames overtake those that wait, but not the one that is half written.
#[derive(Default)]
pub(crate) struct Outbox {
    /// What is left of a frame that was written in part.
    current: Bytes,
    /// Only the newest ping needs an answer, so a flood of them fills nothing.
    pong: Bytes,
    ping: Bytes,
    queue: VecDeque<Bytes>,
    /// The bytes of the queue.
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

    /// Answers a ping, in place of an answer that still waits.
    pub(crate) fn set_pong(&mut self, frame: Bytes) {
        if !self.closed {
            self.pong = frame;
        }
    }

    /// Asks for a sign of life.
    pub(crate) fn set_ping(&mut self, frame: Bytes) {
        if !self.closed {
            self.ping = frame;
        }
    }

    /// Ends with this frame, after all that waits.
    pub(crate) fn close(&mut self, frame: Bytes) {
        self.push(frame);
        self.closed = true;
    }

    /// Forgets what waits. A frame that is half written stays: cut off, it would be garbage. So does a close frame.
    pub(crate) fn discard_queued(&mut self) {
        let close = if self.closed { self.queue.pop_back() } else { None };
        self.queue.clear();
        (self.pong, self.ping) = (Bytes::new(), Bytes::new());
        self.queued_bytes = close.as_ref().map_or(0, Bytes::len);
        self.queue.extend(close);
    }

    /// Whether something waits that should not wait for more.
    pub(crate) fn is_urgent(&self) -> bool {
        !(self.pong.is_empty() && self.ping.is_empty())
    }

    /// Whether everything is written.
    pub(crate) fn is_empty(&self) -> bool {
        self.current.is_empty() && !self.is_urgent() && self.queue.is_empty()
    }

    /// How many bytes of frames wait behind the current one.
    pub(crate) fn queued_bytes(&self) -> usize {
        self.queued_bytes
    }

    /// The next bytes, as the slices of one write; says how many there are.
    pub(crate) fn fill_slices<'a>(&'a self, slices: &mut [IoSlice<'a>; MAX_WRITE_SLICES]) -> usize {
        let first = [&self.current, &self.pong, &self.ping].into_iter().filter(|frame| !frame.is_empty());
        let mut count = 0;
        for (slice, frame) in slices.iter_mut().zip(first.chain(&self.queue)) {
            *slice = IoSlice::new(frame);
            count += 1;
        }
        count
    }

    /// So many bytes were written.
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

    /// Writes up to so many bytes, as a socket would.
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
    fn all_is_written_in_order_however_little_the_socket_takes() {
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
    fn control_frames_overtake_but_do_not_cut_in() {
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
    fn nothing_follows_a_close_and_what_waits_can_be_forgotten() {
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
