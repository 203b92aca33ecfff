//! Client frames for the tests of this module and of the whole server.

/// Mask of the client frames.
pub(crate) const MASK: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];

/// A masked frame as a client sends it.
pub(crate) fn client_frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![first];
    match payload.len() {
        length @ 0..126 => frame.push(0x80 | length as u8),
        length @ 126..65_536 => {
            frame.push(0x80 | 126);
            frame.extend_from_slice(&(length as u16).to_be_bytes());
        }
        length => {
            frame.push(0x80 | 127);
            frame.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
    frame.extend_from_slice(&MASK);
    frame.extend(payload.iter().zip(MASK.into_iter().cycle()).map(|(byte, mask)| byte ^ mask));
    frame
}

/// Bytes that cannot be deflated.
pub(crate) fn incompressible_bytes(length: usize) -> Vec<u8> {
    let mut state = 1u64;
    let next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    };
    std::iter::repeat_with(next).take(length).collect()
}
