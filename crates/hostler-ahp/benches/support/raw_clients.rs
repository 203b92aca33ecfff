//! Clients with minimal cost: they count bytes and do not decode frames.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

const HEAD_END: &[u8] = b"\r\n\r\n";

/// A connection after the handshake.
pub(crate) struct RawConnection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl RawConnection {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        let mut stream = TcpStream::connect(address).await.expect("the server accepts");
        stream.set_nodelay(true).expect("a TCP socket");
        stream.write_all(b"GET / HTTP/1.1\r\n\r\n").await.expect("written");
        read_head(&mut stream).await;
        Self { stream, buffer: vec![0; 256 * 1024] }
    }

    pub(crate) async fn write(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.expect("written");
    }

    /// Reads this many bytes.
    pub(crate) async fn read_bytes(&mut self, mut bytes: usize) {
        while bytes > 0 {
            let limit = self.buffer.len().min(bytes);
            let count = self.stream.read(&mut self.buffer[..limit]).await.expect("read");
            assert!(count > 0, "the server closed the connection");
            bytes -= count;
        }
    }

    /// Writes `bytes` this many times, while it reads `expected` bytes.
    pub(crate) async fn exchange(&mut self, bytes: &[u8], times: usize, mut expected: usize) {
        let (mut reading, mut writing) = self.stream.split();
        let write = async {
            for _ in 0..times {
                writing.write_all(bytes).await.expect("written");
            }
        };
        let read = async {
            while expected > 0 {
                let count = reading.read(&mut self.buffer).await.expect("read");
                assert!(count > 0, "the server closed the connection");
                expected = expected.checked_sub(count).expect("not more than expected");
            }
        };
        tokio::join!(write, read);
    }
}

/// Reads up to the end of a head. The other side sends nothing after it.
pub(crate) async fn read_head(stream: &mut TcpStream) {
    let mut head = Vec::new();
    while !head.ends_with(HEAD_END) {
        let count = stream.read_buf(&mut head).await.expect("read");
        assert!(count > 0, "the connection was closed");
    }
}

/// A masked text frame with a payload of this length.
pub(crate) fn masked_frame(bytes: usize) -> Vec<u8> {
    const MASK: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];
    let mut frame = vec![0x81];
    match u16::try_from(bytes) {
        Ok(length @ ..126) => frame.push(0x80 | length.to_be_bytes()[1]),
        Ok(length) => {
            frame.push(0x80 | 126);
            frame.extend(length.to_be_bytes());
        }
        Err(_) => {
            frame.push(0x80 | 127);
            frame.extend((bytes as u64).to_be_bytes());
        }
    }
    frame.extend(MASK);
    frame.extend(MASK.iter().cycle().take(bytes).map(|mask| mask ^ b'x'));
    frame
}
