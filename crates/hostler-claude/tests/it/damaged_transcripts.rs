//! Damaged transcripts: no crash, no blocking, no effect on other files, and every damage is reported.

use std::fs;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hostler_claude::transcripts::ClaudeTranscriptStore;
use hostler_driver::{
    DriverEvent, LoadedTurn, Transcript, TranscriptStore as _, TranscriptStoreError, TurnOrigin, TurnOutcome,
};
use nix::sys::stat::Mode;
use uuid::Uuid;

/// A configuration directory with one valid conversation, which must always be listed.
struct Place {
    home: tempfile::TempDir,
    store: ClaudeTranscriptStore,
}

const GOOD: Uuid = Uuid::from_u128(1);
const BAD: Uuid = Uuid::from_u128(2);

impl Place {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let store = ClaudeTranscriptStore::for_config_directory(home.path());
        let place = Self { home, store };
        fs::create_dir_all(place.project()).unwrap();
        fs::write(place.file(GOOD), turns(&["good"])).unwrap();
        place
    }

    fn project(&self) -> PathBuf {
        self.home.path().join("projects/-p")
    }

    fn file(&self, id: Uuid) -> PathBuf {
        self.project().join(format!("{id}.jsonl"))
    }

    /// The scan's result for the damaged file; `None` if it is skipped silently.
    async fn bad(&self) -> Option<ScannedFile> {
        let found = self.store.scan().await;
        assert!(found.conversations.iter().any(|one| one.id == GOOD && one.title == "good"), "{found:?}");
        let title =
            found.conversations.iter().find(|one| one.id == BAD).map(|one| ScannedFile::Listed(one.title.clone()));
        let path = self.file(BAD);
        title.or_else(|| {
            found.unreadable.into_iter().find(|(at, _)| *at == path).map(|(_, why)| ScannedFile::Unreadable(why))
        })
    }

    async fn open(&self) -> Arc<dyn Transcript> {
        self.store.open(BAD).await.unwrap()
    }
}

/// How the scan reports a file.
#[derive(Debug, PartialEq, Eq)]
enum ScannedFile {
    /// It is listed with this title.
    Listed(String),
    /// It cannot be read, for this reason.
    Unreadable(String),
}

fn prompt(name: &str, parent: &str, text: &str) -> String {
    let parent = if parent.is_empty() { "null".to_owned() } else { format!("\"{parent}\"") };
    format!(
        "{{\"type\":\"user\",\"uuid\":\"{name}\",\"parentUuid\":{parent},\"cwd\":\"/p\",\"timestamp\":\"2026-01-01T00:00:00Z\",\"message\":{{\"role\":\"user\",\"content\":\"{text}\"}}}}\n"
    )
}

fn answer(name: &str, parent: &str, text: &str) -> String {
    format!(
        "{{\"type\":\"assistant\",\"uuid\":\"{name}\",\"parentUuid\":\"{parent}\",\"message\":{{\"id\":\"{name}\",\"role\":\"assistant\",\"stop_reason\":\"end_turn\",\"content\":[{{\"type\":\"text\",\"text\":\"{text}\"}}]}}}}\n"
    )
}

/// A conversation with one turn per text.
fn turns(prompts: &[&str]) -> String {
    let mut text = String::new();
    for (at, word) in prompts.iter().enumerate() {
        let before = at.checked_sub(1).map(|before| format!("a{before}")).unwrap_or_default();
        text += &prompt(&format!("p{at}"), &before, word);
        text += &answer(&format!("a{at}"), &format!("p{at}"), &format!("{word}!"));
    }
    text
}

fn lines(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').collect()
}

/// Prompt and answer of each turn.
async fn load_texts(transcript: &Arc<dyn Transcript>) -> Vec<String> {
    let loaded = Arc::clone(transcript).load_turns(0..transcript.turns().len()).await.unwrap();
    assert_eq!(
        loaded.iter().map(|turn| turn.id).collect::<Vec<_>>(),
        transcript.turns().iter().map(|mark| mark.id).collect::<Vec<_>>()
    );
    loaded.iter().map(shown).collect()
}

fn shown(turn: &LoadedTurn) -> String {
    assert!(matches!(turn.events.last(), Some(DriverEvent::TurnEnded(_))), "{turn:?}");
    let mut shown = match &turn.origin {
        TurnOrigin::User { text, .. } | TurnOrigin::Agent(text) => format!("{text}:"),
    };
    for event in &turn.events {
        match event {
            DriverEvent::PartDelta { text, .. } => shown.extend([" ", text]),
            DriverEvent::Notice(notice) => shown.extend([" (", notice, ")"]),
            DriverEvent::TurnEnded(TurnOutcome::Completed { .. }) => {}
            DriverEvent::TurnEnded(_) => shown.push_str(" …"),
            _ => {}
        }
    }
    shown
}

/// Writes the file; returns the loaded turns and the reported damage.
async fn read(text: impl AsRef<[u8]>) -> (Vec<String>, Vec<String>) {
    let place = Place::new();
    fs::write(place.file(BAD), text).unwrap();
    assert!(matches!(place.bad().await, Some(ScannedFile::Listed(_))), "it is listed");
    let transcript = place.open().await;
    (load_texts(&transcript).await, transcript.describe_damage().await)
}

#[tokio::test]
async fn truncated_file_yields_its_complete_turns() {
    let text = turns(&["one", "two"]);
    let (turns, damage) = read(&text.as_bytes()[..text.len() - 20]).await;
    assert_eq!(turns, ["one: one!", "two: …"]);
    assert_eq!(damage.len(), 1);
    assert!(damage[0].ends_with("bytes at the end are an incomplete record"), "{damage:?}");
}

#[tokio::test]
async fn invalid_lines_are_reported_by_number() {
    let text = turns(&["one", "two"]);
    let lines = lines(&text);
    let deep = format!("{}{}", "[".repeat(200_000), "]".repeat(200_000));
    let deep_record = format!("{{\"type\":\"user\",\"uuid\":\"x\",\"message\":{{\"content\":{deep}}}}}");
    for (noise, why) in [
        (&b"\xff\xfe\x00\x01binary"[..], "is not a record (column 1)"),
        (b"\0\0\0\0\0\0\0\0", "is not a record (column 1)"),
        (b"{\"type\":\"user\",\"uuid\":\"x\",", "is not a record (column 26)"),
        (b"{\"type\":\"user\",\"uuid\":\"caf\xe9\"}", "is not a record (column 27)"),
        (b"{\"type\":\"user\",\"type\":\"user\",\"uuid\":\"x\"}", "is not a record (column 21)"),
        (b"{\"type\":\"user\",\"uuid\":1e999}", "is not a record (column 27)"),
        (
            b"{\"type\":\"user\",\"uuid\":\"x\",\"message\":{\"content\":123456789012345678901234567890}}",
            "is a message in an unknown format",
        ),
        (b"[1,2,3]", "is not a record (column 7)"),
        (deep.as_bytes(), "is not a record (column 400000)"),
        (deep_record.as_bytes(), "is a message in an unknown format"),
    ] {
        let text =
            [lines[0].as_bytes(), lines[1].as_bytes(), noise, b"\n", lines[2].as_bytes(), lines[3].as_bytes()].concat();
        let (turns, damage) = read(text).await;
        assert_eq!(turns, ["one: one!", "two: two!"], "{why}");
        let shown: Vec<&str> = damage.iter().map(String::as_str).collect();
        assert!(matches!(shown[..], [one] if one.starts_with("line 3 is")), "{why}: {shown:?}");
        assert!(shown[0].ends_with(why) || why.contains("column"), "{why}: {shown:?}");
    }
}

#[tokio::test]
async fn other_encodings_are_reported_or_read() {
    let text = turns(&["one", "two"]);
    let crlf = text.replace('\n', "\r\n");
    for same in [format!("\u{feff}{text}"), crlf.clone(), format!("\u{feff}{crlf}"), format!("\n\n{text}\n \n")] {
        assert_eq!(read(same).await, (vec!["one: one!".to_owned(), "two: two!".to_owned()], vec![]));
    }
    let utf16: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let place = Place::new();
    for noise in [utf16, b"\x7fELF\0\0\0".to_vec(), vec![0; 4096], b"not a transcript".to_vec()] {
        fs::write(place.file(BAD), noise).unwrap();
        for _ in 0..2 {
            assert_eq!(
                place.bad().await,
                Some(ScannedFile::Unreadable("the file contains no conversation records".to_owned()))
            );
        }
        let noise = TranscriptStoreError::Failed(format!(
            "{}: the file contains no conversation records",
            place.file(BAD).display()
        ));
        assert_eq!(place.store.open(BAD).await.err(), Some(noise));
    }
}

#[tokio::test]
async fn missing_parents_cycles_and_duplicate_ids_are_loaded_and_reported() {
    let gap =
        [prompt("p0", "", "one"), answer("a0", "p0", "one!"), prompt("p1", "gone", "two"), answer("a1", "p1", "two!")];
    assert_eq!(
        read(gap.concat()).await,
        (vec!["one: one!".into(), "two: two!".into()], vec!["line 3 has a parent record that does not exist".into()])
    );
    let circle =
        [prompt("p0", "a1", "one"), answer("a0", "p0", "one!"), prompt("p1", "a0", "two"), answer("a1", "p1", "two!")];
    assert_eq!(
        read(circle.concat()).await,
        (
            vec!["one: one!".into(), "two: two!".into()],
            vec!["the records form a cycle, so the first turns are missing".into()]
        )
    );
    let doubled = turns(&["one", "two"]) + &answer("a0", "p1", "again");
    let (turns, damage) = read(doubled).await;
    assert_eq!(damage, ["line 5 has the same id as another record"]);
    assert_eq!(turns.len(), 2, "{turns:?}");
    assert_eq!(turns[0], "one: one!");
}

#[tokio::test]
async fn invalid_fields_affect_only_their_record() {
    let strange = [
        r#"{"type":"user","uuid":"not a uuid","parentUuid":"a1","timestamp":"yesterday","message":{"content":"three"}}"#,
        r#"{"type":"assistant","uuid":"","parentUuid":"not a uuid","timestamp":"-1","message":{"id":"","stop_reason":"end_turn","content":[{"type":"text","text":"three!"}],"usage":{"input_tokens":99999999999999999999}}}"#,
    ];
    let text = format!("{}{}\n{}\n", turns(&["one", "two"]), strange[0], strange[1]);
    let (turns, damage) = read(text).await;
    assert_eq!((&turns[..2], damage.len()), (&["one: one!".to_owned(), "two: two!".to_owned()][..], 0), "{damage:?}");
    assert!(turns[2].starts_with("three:"), "{turns:?}");
    // A part of an answer that cannot be displayed is reported.
    assert!(turns[2].contains("three!") || turns[2].contains("could not be read"), "{turns:?}");
}

#[tokio::test]
async fn empty_or_bookkeeping_files_are_not_conversations() {
    let place = Place::new();
    for text in ["", "{\"type\":\"queue-operation\",\"operation\":\"enqueue\"}\n"] {
        fs::write(place.file(BAD), text).unwrap();
        assert_eq!(place.bad().await, None, "{text}");
        assert_eq!(place.store.open(BAD).await.err(), Some(TranscriptStoreError::Missing));
    }
}

/// A test may run as root, which permissions do not stop; these files stop root too.
#[tokio::test]
async fn irregular_files_are_reported_without_blocking() {
    let place = Place::new();
    let path = place.file(BAD);
    let check = async |why: &str| {
        let bad = place.bad().await;
        let Some(ScannedFile::Unreadable(said)) = &bad else { panic!("{why}: {bad:?}") };
        assert!(said.contains(why), "{said}");
        let refused = place.store.open(BAD).await.err();
        assert!(matches!(&refused, Some(TranscriptStoreError::Failed(said)) if said.contains(why)), "{refused:?}");
    };
    fs::create_dir(&path).unwrap();
    check("not a regular file").await;
    fs::remove_dir(&path).unwrap();
    nix::unistd::mkfifo(&path, Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
    check("not a regular file").await;
    fs::remove_file(&path).unwrap();
    for (target, why) in
        [("/dev/zero", "not a regular file"), ("nowhere", "No such file"), (path.to_str().unwrap(), "symbolic links")]
    {
        symlink(target, &path).unwrap();
        check(why).await;
        fs::remove_file(&path).unwrap();
    }
}

/// It was a regular file when it was listed.
#[tokio::test]
async fn file_replaced_by_a_pipe_is_refused() {
    let place = Place::new();
    let path = place.file(BAD);
    fs::write(&path, turns(&["one"])).unwrap();
    let sub_agents = path.with_extension("").join("subagents");
    fs::create_dir_all(&sub_agents).unwrap();
    nix::unistd::mkfifo(&sub_agents.join("agent-a1.jsonl"), Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
    assert!(matches!(place.bad().await, Some(ScannedFile::Listed(_))));
    fs::remove_file(&path).unwrap();
    nix::unistd::mkfifo(&path, Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
    assert_eq!(place.store.open(BAD).await.err(), Some(TranscriptStoreError::Failed("not a regular file".to_owned())));
}

#[tokio::test]
async fn vanishing_or_looping_directories_do_not_hide_others() {
    let place = Place::new();
    fs::create_dir(place.home.path().join("projects/-gone")).unwrap();
    symlink("-loop", place.home.path().join("projects/-loop")).unwrap();
    fs::write(place.home.path().join("projects/loose"), "x").unwrap();
    let found = place.store.scan().await;
    assert_eq!(found.conversations.len(), 1, "{found:?}");
    assert!(found.unreadable.iter().all(|(path, _)| path.ends_with("-loop")), "{found:?}");
    fs::remove_dir_all(place.home.path().join("projects")).unwrap();
    let found = place.store.scan().await;
    assert!(found.conversations.is_empty() && found.unreadable.is_empty(), "{found:?}");
    assert_eq!(place.store.open(GOOD).await.err(), Some(TranscriptStoreError::Missing));
}

#[tokio::test]
async fn changes_during_loading_are_reported_in_their_turn() {
    let place = Place::new();
    let text = turns(&["one", "two", "three"]);
    let path = place.file(BAD);
    fs::write(&path, &text).unwrap();
    assert!(matches!(place.bad().await, Some(ScannedFile::Listed(_))));
    let transcript = place.open().await;
    // One record is replaced by another one of the same length; the last two are cut off.
    let lines = lines(&text);
    let mut file = fs::File::options().write(true).open(&path).unwrap();
    file.seek(SeekFrom::Start(lines[0].len() as u64)).unwrap();
    file.write_all(lines[1].replace("\"a0\"", "\"b0\"").as_bytes()).unwrap();
    file.set_len(lines[..5].concat().len() as u64).unwrap();
    assert_eq!(
        load_texts(&transcript).await,
        [
            "one: (A record of this turn could not be read.) …",
            "two: two!",
            "three: (A record of this turn could not be read.) …"
        ]
    );
    // An open file stays readable after it was unlinked.
    fs::remove_file(&path).unwrap();
    assert_eq!(load_texts(&transcript).await[1], "two: two!");
    assert_eq!(place.store.open(BAD).await.err(), Some(TranscriptStoreError::Missing));
}

#[tokio::test]
async fn grown_shrunk_or_replaced_file_is_read_in_its_current_state() {
    let place = Place::new();
    let path = place.file(BAD);
    let text = turns(&["one", "two", "three"]);
    let all = lines(&text);
    fs::write(&path, all[..3].concat()).unwrap();
    place.bad().await;
    let transcript = place.open().await;
    assert_eq!(transcript.turns().iter().map(|mark| mark.is_complete).collect::<Vec<_>>(), [true, false]);
    let mut file = fs::File::options().append(true).open(&path).unwrap();
    file.write_all(all[3..].concat().as_bytes()).unwrap();
    assert_eq!(load_texts(&place.open().await).await, ["one: one!", "two: two!", "three: three!"]);
    assert_eq!(load_texts(&transcript).await, ["one: one!", "two: …"], "as it was when it was opened");
    // The same file with other, longer contents.
    fs::write(&path, turns(&["four", "five", "six", "seven", "eight"])).unwrap();
    assert_eq!(load_texts(&place.open().await).await.len(), 5);
    fs::write(&path, turns(&["nine"])).unwrap();
    assert_eq!(load_texts(&place.open().await).await, ["nine: nine!"]);
}

#[tokio::test]
async fn large_files_and_lines_take_bounded_memory() {
    let place = Place::new();
    let path = place.file(BAD);
    let text = turns(&["one", "two"]);
    let all = lines(&text);
    // A sparse hole of 200 MB, and a line that is longer than the limit.
    let mut file = fs::File::create(&path).unwrap();
    file.write_all(all[..2].concat().as_bytes()).unwrap();
    let hole = file.stream_position().unwrap() + 200 * 1024 * 1024;
    file.seek(SeekFrom::Start(hole)).unwrap();
    file.write_all(format!("\n{}", all[2..].concat()).as_bytes()).unwrap();
    drop(file);
    assert!(matches!(place.bad().await, Some(ScannedFile::Listed(_))));
    let transcript = place.open().await;
    assert_eq!(load_texts(&transcript).await, ["one: one!", "two: two!"]);
    assert_eq!(transcript.describe_damage().await, ["line 3 has 209715200 bytes, more than the limit of 67108864"]);
}

/// Only the number of records is large.
#[tokio::test]
async fn two_hundred_megabytes_of_small_records_are_read() {
    const SIZE: u64 = 200 * 1024 * 1024;
    let place = Place::new();
    let mut file = std::io::BufWriter::new(fs::File::create(place.file(BAD)).unwrap());
    let content = "hay and oats, ".repeat(150);
    let (mut written, mut count) = (0, 0);
    while written < SIZE {
        let before = if count == 0 { String::new() } else { format!("a{}", count - 1) };
        let (said, answered) = (format!("p{count}"), format!("a{count}"));
        let turn = prompt(&said, &before, &content) + &answer(&answered, &said, &content);
        file.write_all(turn.as_bytes()).unwrap();
        written += turn.len() as u64;
        count += 1;
        if count == 1000 {
            file.write_all(b"noise\n").unwrap();
        }
    }
    file.flush().unwrap();
    assert!(matches!(place.bad().await, Some(ScannedFile::Listed(_))));
    let transcript = place.open().await;
    assert_eq!(transcript.turns().len(), count);
    assert_eq!(Arc::clone(&transcript).describe_damage().await, ["line 2001 is not a record (column 2)"]);
    let last = Arc::clone(&transcript).load_turns(count - 3..count).await.unwrap();
    assert!(last.iter().all(|turn| shown(turn) == format!("{}: {content}", content.trim_end())), "{last:?}");
}

#[tokio::test]
async fn damaged_sub_agent_affects_only_itself() {
    let place = Place::new();
    let path = place.file(BAD);
    let call = r#"{"type":"assistant","uuid":"c","parentUuid":"p0","message":{"id":"m","stop_reason":"tool_use","content":[{"type":"tool_use","id":"t1","name":"Agent","input":{"prompt":"look"}}]}}"#;
    let result = r#"{"type":"user","uuid":"r","parentUuid":"c","message":{"content":[{"type":"tool_result","tool_use_id":"t1","content":"done"}]},"toolUseResult":{"agentId":"a1","prompt":"look"}}"#;
    let text = format!("{}{call}\n{result}\n{}", prompt("p0", "", "go"), answer("e", "r", "well"));
    fs::write(&path, text).unwrap();
    place.bad().await;
    let sub_agents = path.with_extension("").join("subagents");
    fs::create_dir_all(&sub_agents).unwrap();
    let file = sub_agents.join("agent-a1.jsonl");
    let own = turns(&["look"]).replace("\"uuid\"", "\"isSidechain\":true,\"uuid\"");
    for damaged in
        [&own.as_bytes()[..own.len() - 9], b"", b"\0\0\0", b"\xff\xfe", &[own.as_bytes(), b"noise\n"].concat()]
    {
        fs::write(&file, damaged).unwrap();
        assert_eq!(load_texts(&place.open().await).await, ["go: well"]);
        let named = place.open().await.describe_damage().await;
        assert_eq!(named.is_empty(), damaged.is_empty(), "{named:?}");
        assert!(named.iter().all(|one| one.starts_with("sub-agent a1: ")), "{named:?}");
    }
    fs::remove_file(&file).unwrap();
    nix::unistd::mkfifo(&file, Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
    let notice = "(The work of a sub-agent cannot be shown: failed to read its transcript: not a regular file.)";
    assert_eq!(load_texts(&place.open().await).await, [format!("go: {notice} well")]);
}

#[tokio::test]
async fn sub_agent_of_an_interrupted_call_is_loaded_at_its_call() {
    let place = Place::new();
    let path = place.file(BAD);
    let turn = |name: &str, before: &str, message: &str| {
        let call = format!(
            r#"{{"type":"assistant","uuid":"c{name}","parentUuid":"p{name}","message":{{"id":"m{name}","stop_reason":"tool_use","content":[{{"type":"tool_use","id":"t{name}","name":"Agent","input":{{"description":"d","prompt":"look"}}}}]}}}}"#
        );
        let began =
            prompt(&format!("p{name}"), before, "go").replacen('{', &format!("{{\"promptId\":\"{message}\","), 1);
        let stop = prompt(&format!("s{name}"), &format!("c{name}"), "[Request interrupted by user]");
        format!("{began}{call}\n{stop}")
    };
    fs::write(&path, turn("0", "", "m0") + &turn("1", "s0", "m1") + &turn("2", "s1", "m2")).unwrap();
    let sub_agents = path.with_extension("").join("subagents");
    fs::create_dir_all(&sub_agents).unwrap();
    let own = turns(&["look"]).replacen('{', "{\"promptId\":\"m1\",", 1);
    fs::write(sub_agents.join("agent-a1.jsonl"), own.replace("\"uuid\"", "\"isSidechain\":true,\"uuid\"")).unwrap();
    place.bad().await;
    let transcript = place.open().await;
    for places in [&[(0, 3)][..], &[(2, 3), (1, 2), (0, 1)]] {
        let mut with = Vec::new();
        for (first, end) in places {
            for (at, turn) in Arc::clone(&transcript).load_turns(*first..*end).await.unwrap().iter().enumerate() {
                let started = |event: &&DriverEvent| {
                    matches!(event, DriverEvent::SubAgent { event: hostler_driver::SubAgentEvent::Started(_), .. })
                };
                with.extend(turn.events.iter().filter(started).map(|_| first + at));
            }
        }
        assert_eq!(with, [1]);
    }
}

/// A title after a truncated record is found.
#[tokio::test]
async fn title_after_a_truncated_record_applies() {
    let place = Place::new();
    let mut text = turns(&["one", "two"]);
    text.truncate(text.len() - 20);
    let title = r#"{"type":"custom-title","customTitle":"mine"}"#;
    fs::write(place.file(BAD), format!("{text}\n{title}\n")).unwrap();
    assert_eq!(place.bad().await, Some(ScannedFile::Listed("mine".to_owned())));
}

fn real(build: &str) -> String {
    let project =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/transcripts").join(build).join("projects/troubles");
    let file = fs::read_dir(project).unwrap().map(|entry| entry.unwrap().path()).find(|path| path.is_file()).unwrap();
    fs::read_to_string(file).unwrap()
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig { cases: 48, ..Default::default() })]

    /// Whatever happens to bytes of a real transcript, it is read, and undamaged lines are found.
    #[test]
    fn damaged_bytes_affect_only_their_own_lines(
        native: bool,
        harm in proptest::collection::vec((0usize..30_000, proptest::prelude::any::<u8>()), 1..6),
    ) {
        let text = real(if native { "native" } else { "js" });
        let mut bytes = text.clone().into_bytes();
        let length = bytes.len();
        for (at, byte) in harm {
            bytes[at % length] = byte;
        }
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let place = Place::new();
            fs::write(place.file(BAD), &bytes).unwrap();
            if let Some(ScannedFile::Listed(_)) = place.bad().await {
                load_texts(&place.open().await).await;
            }
        });
        let index = |bytes: &[u8]| hostler_claude::transcripts::TranscriptIndex::read(&mut std::io::Cursor::new(bytes)).unwrap();
        let (before, after) = (index(text.as_bytes()), index(&bytes));
        for link in before.records {
            let place = usize::try_from(link.byte_range.start).unwrap()..usize::try_from(link.byte_range.end).unwrap();
            let unharmed = text.as_bytes()[place.clone()] == bytes[place.clone()]
                && place.start.checked_sub(1).is_none_or(|at| bytes[at] == b'\n')
                && bytes.get(place.end).is_none_or(|byte| *byte == b'\n');
            let found = after.records.iter().any(|other| (other.id, other.kind, &other.byte_range) == (link.id, link.kind, &link.byte_range));
            proptest::prop_assert!(!unharmed || found, "line {}", link.line_number);
        }
    }
}
