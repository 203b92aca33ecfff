//! Tests of the output parser.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may panic")]

use hostler_terminal::{ShellEvent, ShellNonce, ShellOutput, ShellOutputParser};

const NONCE: &str = "c0ffee";

fn text(text: &str) -> ShellOutput {
    ShellOutput::Text(text.into())
}

fn at_once(bytes: &[u8]) -> Vec<ShellOutput> {
    let mut stream = ShellOutputParser::new(ShellNonce::fixed(NONCE));
    let mut pieces = stream.push(bytes);
    pieces.extend(stream.finish());
    pieces
}

#[test]
fn events_are_removed_and_other_output_is_unchanged() {
    let output = b"\x1b]633;A;c0ffee\x07$ ls\r\n\x1b]633;C;c0ffee;ls\x07\x1b[1ma\x1b[0m\r\n\x1b]633;D;c0ffee;0\x07";
    let expected = [
        ShellOutput::Event(ShellEvent::PromptShown),
        text("$ ls\r\n"),
        ShellOutput::Event(ShellEvent::CommandStarted("ls".into())),
        text("\x1b[1ma\x1b[0m\r\n"),
        ShellOutput::Event(ShellEvent::CommandFinished(Some(0))),
    ];
    assert_eq!(at_once(output), expected);
}

#[test]
fn events_without_the_nonce_are_text() {
    for spoof in [
        "\x1b]633;A\x07",
        "\x1b]633;C;ls\x07",
        "\x1b]633;C;c0ffef;ls\x07",
        "\x1b]633;C;c0ffee ;ls\x07",
        "\x1b]633;E;ls;c0ffee\x07",
        "\x1b]633;D;c0ffee\x1b\\",
        "\x1b]133;A\x07",
        "\x1b]633;C;c0ffee;never ended",
        "\x1b\x1b\x1b]6\x1b]",
    ] {
        let passed = at_once(spoof.as_bytes()).into_iter().map(|piece| match piece {
            ShellOutput::Text(text) => text,
            other => panic!("{other:?} of {spoof:?}"),
        });
        assert_eq!(passed.collect::<String>(), spoof);
    }
}

#[test]
fn output_that_mismatches_is_not_held_back() {
    let mut stream = ShellOutputParser::new(ShellNonce::fixed(NONCE));
    assert_eq!(stream.push(b"\x1b]633;C;other-nonce"), [text("\x1b]633;C;other-nonce")]);
    // An escape alone may start an event.
    assert_eq!(stream.push(b"a\x1b"), [text("a")]);
    assert_eq!(stream.push(b"[K"), [text("\x1b[K")]);
}

#[test]
fn characters_are_never_split() {
    let mut stream = ShellOutputParser::new(ShellNonce::fixed(NONCE));
    let smile = "\u{1F600}".as_bytes();
    assert_eq!(stream.push(&smile[..3]), []);
    assert_eq!(stream.push(&[&smile[3..], b"!"].concat()), [text("\u{1F600}!")]);
    // An incomplete character before an event and at the end.
    assert_eq!(
        stream.push(&[&smile[..2], b"\x1b]633;A;c0ffee\x07"].concat()),
        [text("\u{FFFD}"), ShellOutput::Event(ShellEvent::PromptShown)]
    );
    assert_eq!(stream.push(&smile[..2]), []);
    assert_eq!(stream.finish(), [text("\u{FFFD}")]);
}

#[test]
fn titles_are_detected_and_remain_in_the_text() {
    let titles = |bytes: &[u8], split: usize| -> Vec<String> {
        let mut stream = ShellOutputParser::new(ShellNonce::fixed(NONCE));
        let pieces = bytes.chunks(split).flat_map(|chunk| stream.push(chunk)).collect::<Vec<_>>();
        let title = |piece| match piece {
            ShellOutput::Title(title) => Some(title),
            _ => None,
        };
        pieces.into_iter().filter_map(title).collect()
    };
    for split in [1, 3, 1000] {
        assert_eq!(titles("\x1b]0;vim: \u{fc}\x07".as_bytes(), split), ["vim: \u{fc}"]);
        assert_eq!(titles(b"\x1b]2;top\x1b\\", split), ["top"]);
        let none = [
            &b"\x1b]1;icon\x07"[..],
            b"\x1b]0;\x07",
            b"\x1b]0;half",
            b"0;x\x07",
            &[b"\x1b]0;", &[b'a'; 600][..], b"\x07"].concat(),
        ];
        for none in none {
            assert_eq!(titles(none, split), [] as [String; 0], "{none:?}");
        }
    }
}
