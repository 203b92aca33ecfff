//! Lower bound of every fan-out: a thread that copies the bytes of one socket to others.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread::JoinHandle;

/// Approximate size of one action on the wire.
const FRAME_BYTES: usize = 220;

/// Relay that ends when its sender is dropped.
pub(crate) struct ByteRelay {
    /// Address for the readers, which connect after the sender.
    pub(crate) address: SocketAddr,
    speaker: TcpStream,
    thread: JoinHandle<()>,
}

impl ByteRelay {
    /// Starts a relay to this many readers.
    pub(crate) fn start(listeners: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let thread = std::thread::spawn(move || {
            let accept = || {
                let (stream, _) = listener.accept().expect("a connection");
                stream.set_nodelay(true).expect("a TCP socket");
                stream
            };
            let mut speaker = accept();
            let mut listeners: Vec<_> = (0..listeners).map(|_| accept()).collect();
            let mut frame = [0; 4 + FRAME_BYTES];
            while speaker.read_exact(&mut frame).is_ok() {
                listeners.iter_mut().for_each(|listener| listener.write_all(&frame).expect("the listener reads"));
            }
        });
        let speaker = TcpStream::connect(address).expect("the relay accepts");
        speaker.set_nodelay(true).expect("a TCP socket");
        Self { address, speaker, thread }
    }

    /// Sends one frame to all.
    pub(crate) fn send_frame(&mut self) {
        let mut frame = vec![0x81, 126, 0, FRAME_BYTES as u8];
        frame.resize(4 + FRAME_BYTES, b'x');
        self.speaker.write_all(&frame).expect("the relay reads");
    }

    pub(crate) fn stop(self) {
        drop(self.speaker);
        self.thread.join().expect("the relay ends well");
    }
}
