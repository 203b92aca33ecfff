//! Contents are stored as blobs only, and the path of a file is not disclosed.

use ahp_types::state::PendingMessageKind;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::attachments::helpers::{embedded, pending, starts, with};
use crate::common::Rig;
use crate::common::log::Log;

const SECRET: &str = "c0nfid3ntial-contents-of-a-file-that-must-not-appear-anywhere";

#[tokio::test]
async fn contents_are_not_in_journal_snapshot_envelope_or_log() {
    let (log, _guard) = Log::begin();
    tracing::trace!("the log works");

    let secret = embedded("h1dden-directory/file.txt", SECRET.as_bytes());
    let broken = embedded("broken.bin", &[SECRET.as_bytes(), &[0xff, 0x00, 0xfe]].concat());
    let (mut rig, mut listener) = Rig::begun_with(std::slice::from_ref(&secret)).await;
    let mut agent = rig.starts.next_start().await.succeed();
    agent.next_prompt().await;
    rig.attach(pending(PendingMessageKind::Queued, "q", with("next", std::slice::from_ref(&secret)))).await;
    listener.until("chat/pendingMessageSet").await;
    rig.attach(pending(PendingMessageKind::Queued, "r", with("bad", &[secret, broken.clone()]))).await;
    let reason = listener.refusal().await;
    assert!(reason.contains("broken.bin") && !reason.contains("h1dden"), "{reason}");
    agent.emit_answer(1, "a", "b").await;
    agent.next_prompt().await;
    agent.emit_answer(2, "a", "b").await;
    listener.until("chat/turnComplete").await;
    listener.until("chat/turnComplete").await;
    rig.attach(starts("t9", with("", &[broken]))).await;
    listener.refusal().await;
    rig.engine.shutdown().await;

    let encoded = STANDARD.encode(SECRET);
    // The start of the encoding does not depend on what follows.
    let encoded = encoded.get(..40).unwrap();
    let store = rusqlite::Connection::open(rig.state.join("hostler.db")).unwrap();
    let stored: i64 = store.query_row("SELECT count(*) FROM blobs", [], |row| row.get(0)).unwrap();
    assert_eq!(stored, 1, "equal contents are stored once, and refused ones not at all");
    let tables: Vec<String> = store
        .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND name <> 'blobs'")
        .unwrap()
        .query_map([], |row| row.get(0))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    let mut rows = 0;
    for table in tables {
        let mut query = store.prepare(&format!("SELECT * FROM \"{table}\"")).unwrap();
        let columns = query.column_count();
        let mut cursor = query.query([]).unwrap();
        while let Some(row) = cursor.next().unwrap() {
            rows += 1;
            for column in 0..columns {
                let text = format!(
                    "{:?}",
                    row.get_ref(column).unwrap().as_bytes_or_null().ok().flatten().map(String::from_utf8_lossy)
                );
                assert!(!text.contains(SECRET) && !text.contains(encoded), "{table}");
            }
        }
    }
    assert!(rows > 5);
    let published = serde_json::to_string(&listener.chat).unwrap() + &listener.events.join("\n") + &listener.actions;
    assert!(!published.contains(SECRET) && !published.contains(encoded));
    assert!(listener.actions.contains("ahp-content:/"), "envelopes were looked at");
    let logged = log.text();
    assert!(logged.contains("the log works"));
    for secret in [SECRET, encoded, "h1dden-directory", "file.txt", "broken.bin"] {
        assert!(!logged.contains(secret), "{secret} was logged");
    }
}
