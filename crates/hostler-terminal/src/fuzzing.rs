//! Properties that hold for any output. The fuzzer and the ordinary tests check the same ones.
#![allow(clippy::panic, reason = "a violated property panics")]

use crate::{ShellNonce, ShellOutput, ShellOutputParser};

/// Nonce of the simulated shells.
pub const NONCE: &str = "c0ffee";

/// Joins adjacent texts, because their boundaries depend on the reads.
fn join_texts(pieces: Vec<ShellOutput>) -> Vec<ShellOutput> {
    let mut joined: Vec<ShellOutput> = Vec::new();
    for piece in pieces {
        match (joined.last_mut(), piece) {
            (Some(ShellOutput::Text(before)), ShellOutput::Text(text)) => before.push_str(&text),
            (_, piece) => joined.push(piece),
        }
    }
    joined
}

/// All output except titles, which also remain in the text.
fn parse_chunks<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> Vec<ShellOutput> {
    let mut stream = ShellOutputParser::new(ShellNonce::fixed(NONCE));
    let mut all: Vec<ShellOutput> = chunks.into_iter().flat_map(|chunk| stream.push(chunk)).collect();
    all.extend(stream.finish());
    join_texts(all.into_iter().filter(|piece| !matches!(piece, ShellOutput::Title(_))).collect())
}

/// Parses all bytes in one chunk.
pub fn parse_whole(bytes: &[u8]) -> Vec<ShellOutput> {
    parse_chunks([bytes])
}

/// Chunk boundaries change nothing, and output without the nonce passes unchanged. The first byte selects the split.
///
/// # Panics
/// If a property does not hold.
pub fn terminal(data: &[u8]) {
    let Some((&split, bytes)) = data.split_first() else { return };
    let split = usize::from(split % 64) + 1;
    let at_once = parse_whole(bytes);
    let by_bytes = parse_chunks(bytes.chunks(1));
    let somewhere = parse_chunks(bytes.chunks(split));
    if at_once != by_bytes || at_once != somewhere {
        panic!("{at_once:?}\n{by_bytes:?}\n{somewhere:?}");
    }
    let spoofed = !bytes.windows(NONCE.len()).any(|window| window == NONCE.as_bytes());
    let plain = String::from_utf8_lossy(bytes).into_owned();
    let expected = if plain.is_empty() { Vec::new() } else { vec![ShellOutput::Text(plain)] };
    if spoofed && at_once != expected {
        panic!("{at_once:?} is not what was written: {expected:?}");
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use std::path::Path;

    use proptest::prelude::*;

    use super::*;

    /// Output that is likely to contain shell events, incomplete events and incomplete characters.
    fn output() -> impl Strategy<Value = Vec<u8>> {
        let parts = prop_oneof![
            Just(&b"\x1b]633;A;c0ffee\x07"[..]),
            Just(&b"\x1b]633;C;c0ffee;a\\x3b\x07"[..]),
            Just(&b"\x1b]633;D;c0ffee;7"[..]),
            Just(&b"\x1b]633;C;spoof\x07"[..]),
            Just(&b"\x1b"[..]),
            Just(&b"\x07"[..]),
            Just(&b"c0ffee"[..]),
            Just("\u{1F600}".as_bytes()),
            Just(&b"\xf0\x9f"[..]),
            Just(&b"\xff\r\n"[..]),
            Just(&b"\x1b]0;title\x1b\\"[..]),
        ];
        let some = prop_oneof![4 => parts.prop_map(<[u8]>::to_vec), 1 => proptest::collection::vec(any::<u8>(), 0..6)];
        proptest::collection::vec(some, 0..12).prop_map(|parts| parts.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, cases: 2000, ..ProptestConfig::default() })]

        #[test]
        fn chunk_boundaries_change_nothing_and_other_output_passes_unchanged(split: u8, bytes in output()) {
            terminal(&[&[split], bytes.as_slice()].concat());
        }
    }

    /// Runs the fuzzer's seeds in the ordinary tests, too.
    #[test]
    fn properties_hold_for_every_prefix_of_the_fuzz_seeds() {
        let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/terminal_output");
        let seeds: Vec<Vec<u8>> =
            std::fs::read_dir(seeds).unwrap().map(|seed| std::fs::read(seed.unwrap().path()).unwrap()).collect();
        assert!(seeds.len() > 2);
        for seed in seeds {
            (0..=seed.len()).for_each(|length| terminal(&seed[..length]));
        }
    }
}
