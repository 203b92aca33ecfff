//! All or nothing, within every limit, and with a reason for each file.

use std::cell::Cell;
use std::sync::Arc;

use hostler_attachments::{Code, Decision, History, Item, Limits, Plan, Rejection, Source, plan, plan_unless};
use image::ImageFormat;

use crate::support::{encoded, file, gif, gradient, pdf};

fn codes(outcome: &Result<Plan, Rejection>) -> Vec<Option<Code>> {
    match outcome {
        Ok(plan) => plan.files.iter().map(|_| None).collect(),
        Err(rejection) => rejection.files.iter().map(|file| file.code).collect(),
    }
}

fn texts(count: usize, bytes: usize) -> Vec<Item> {
    (0..count).map(|at| file(&format!("{at}.txt"), "x".repeat(bytes))).collect()
}

fn picture() -> Item {
    file("a.png", encoded(&gradient(4, 4), ImageFormat::Png))
}

const TOO_LARGE: Option<Code> = Some(Code::TooLarge);
const PAYLOAD: Option<Code> = Some(Code::PayloadTooLarge);

#[test]
fn one_bad_file_and_nothing_is_sent_but_all_are_listed() {
    let items = vec![file("a.txt", "x"), file("b.zip", *b"PK\x03\x04\x14\0"), picture(), file("c.bin", [0])];
    let rejection = plan(items, &Limits::default(), History::default()).unwrap_err();
    let decisions: Vec<_> = rejection.files.iter().map(|file| (file.label.as_str(), file.decision)).collect();
    use Decision::{Refuse, WouldSend};
    assert_eq!(decisions, [("a.txt", WouldSend), ("b.zip", Refuse), ("a.png", WouldSend), ("c.bin", Refuse)]);
    let names: Vec<_> = rejection.refusals.iter().map(|refusal| refusal.name.as_str()).collect();
    assert_eq!(names, ["b.zip", "c.bin"]);
    let told = rejection.to_string();
    assert!(told.starts_with("b.zip: it is an archive") && told.contains("; c.bin: it is binary"), "{told}");
    assert!(rejection.refusals.iter().all(|refusal| !refusal.code.is_retryable()));
}

#[test]
fn nothing_is_planned_for_nothing() {
    assert!(plan(Vec::new(), &Limits::default(), History::default()).unwrap().blocks().is_empty());
}

#[test]
fn files_sizes_and_their_sum_are_limited() {
    let limits = Limits { files: 3, file_bytes: 10, total_bytes: 22, ..Limits::default() };
    let of = |items| codes(&plan(items, &limits, History::default()));
    assert_eq!(of(texts(3, 7)), [None; 3]);
    assert_eq!(of(texts(4, 1)), [None, None, None, TOO_LARGE]);
    assert_eq!(of(texts(1, 11)), [TOO_LARGE]);
    assert_eq!(of(texts(3, 8)), [None, None, TOO_LARGE]);
    let carried = Item::new("a.txt", Source::Base64("A".repeat(16)));
    assert_eq!(of(vec![carried]), [TOO_LARGE], "twelve bytes, of which none was decoded");
    let exactly = Item::new("a.txt", Source::Base64("eHh4eHh4eHh4eA==".to_owned()));
    assert_eq!(of(vec![exactly]), [None]);
    assert_eq!(of(vec![Item::new("words", Source::Words("x".repeat(11)))]), [TOO_LARGE]);

    let rejection = plan(texts(4, 11), &limits, History::default()).unwrap_err();
    assert_eq!(
        rejection.refusals[0].sentence.split(';').next(),
        Some("it has 11 bytes, and at most 10 bytes are taken")
    );
    assert_eq!(rejection.refusals[3].sentence.split(';').next(), Some("a message takes at most 3 files"));
}

#[test]
fn pictures_of_the_conversation_count() {
    let limits = Limits { images: 3, ..Limits::default() };
    let of = |images, items| codes(&plan(items, &limits, History { images, bytes: 0 }));
    assert_eq!(of(2, vec![picture()]), [None]);
    assert_eq!(of(2, vec![picture(), file("a.txt", "x"), picture()]), [None, None, PAYLOAD]);
    assert_eq!(of(3, vec![file("a.txt", "x")]), [None], "words are no pictures");
    let rejection = plan(vec![picture()], &limits, History { images: 3, bytes: 0 }).unwrap_err();
    let sentence = &rejection.refusals[0].sentence;
    assert!(sentence.contains("more than 3 pictures; compact it, drop pictures"), "{sentence}");
}

#[test]
fn among_many_pictures_none_is_longer_than_the_hard_edge() {
    let many = History { images: 20, bytes: 0 };
    let film = vec![file("film.gif", gif::animated(2001, 2, 2))];
    assert_eq!(codes(&plan(film, &Limits::default(), many)), [TOO_LARGE]);
    let wide = vec![file("wide.png", encoded(&gradient(2400, 2), ImageFormat::Png))];
    let sent = plan(wide, &Limits { edge: 4000, ..Limits::default() }, many).unwrap();
    assert_eq!(sent.summaries()[0].width, Some(Limits::HARD_EDGE));
}

#[test]
fn the_conversation_and_the_line_are_limited_as_they_are_written() {
    let full = History { images: 0, bytes: 31_999_000 };
    let rejection = plan(vec![file("a.txt", "x".repeat(1000))], &Limits::default(), full).unwrap_err();
    assert_eq!(rejection.refusals[0].code, Code::PayloadTooLarge);
    let sentence = &rejection.refusals[0].sentence;
    assert!(sentence.contains("compact it, drop pictures of earlier messages"), "{sentence}");
    assert!(plan(vec![file("a.txt", "x".repeat(100))], &Limits::default(), full).is_ok());

    // Escaped characters and base64 take more room than what they stand for.
    let line = Limits { line_bytes: 3000, ..Limits::default() };
    let of = |item| codes(&plan(vec![item], &line, History::default()));
    assert_eq!(of(file("a.txt", "x".repeat(2500))), [None]);
    assert_eq!(of(file("a.txt", "\n".repeat(2500))), [PAYLOAD]);
    let mut document = pdf::pages(1);
    document.splice(9..9, [&b"%"[..], &[b'x'; 1500], b"\n"].concat());
    assert_eq!(of(file("a.pdf", document)), [None]);
    let mut document = pdf::pages(1);
    document.splice(9..9, [&b"%"[..], &[b'x'; 2000], b"\n"].concat());
    assert_eq!(of(file("a.pdf", document)), [PAYLOAD]);
}

#[test]
fn planning_can_be_abandoned_between_files() {
    let asked = Cell::new(0);
    let abandoned = || {
        asked.set(asked.get() + 1);
        asked.get() > 2
    };
    assert!(plan_unless(texts(5, 1), &Limits::default(), History::default(), &abandoned).is_none());
    assert_eq!(asked.get(), 3);
    assert!(plan_unless(texts(5, 1), &Limits::default(), History::default(), &|| false).unwrap().is_ok());
}

#[test]
fn what_is_sent_unchanged_is_not_copied() {
    let bytes: Arc<[u8]> = encoded(&gradient(4, 4), ImageFormat::Png).into();
    let item = Item::new("a.png", Source::Bytes(Arc::clone(&bytes)));
    let plan = plan(vec![item], &Limits::default(), History::default()).unwrap();
    let hostler_attachments::Block::Image { data, .. } = &plan.files[0].block else { panic!("a picture") };
    assert!(Arc::ptr_eq(data, &bytes));
}
