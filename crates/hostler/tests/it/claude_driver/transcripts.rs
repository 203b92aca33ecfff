//! Transcripts of the real agent, as the transcript store reads them.

use hostler_claude::transcripts::ClaudeTranscriptStore;
use hostler_driver::{CloseMode, DriverEvent, Prompt, SteeringMessage, SteeringMessageId, TranscriptStore as _};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::claude_driver::attachment_blocks::png;
use crate::claude_driver::driver_fixture::{DriverFixture, wait_for};
use crate::common::BUILDS;

fn transcript_store(bed: &DriverFixture) -> ClaudeTranscriptStore {
    ClaudeTranscriptStore::for_config_directory(&bed.environment.home.path("claude"))
}

/// Returns the transcript's records, once the agent has written the last one: one build writes with a delay.
async fn records(bed: &DriverFixture) -> Vec<Value> {
    bed.opened.connection.close(CloseMode::Graceful).await;
    let found = transcript_store(bed).scan().await;
    let path = &found.conversations.first().expect("a transcript").resume_token.0;
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Recognizable prompt ids are of use only if the agent stores them.
#[tokio::test(flavor = "multi_thread")]
async fn prompt_id_is_the_id_of_its_record() {
    for build in BUILDS {
        let mut bed = DriverFixture::open(build).await;
        let ids = [Uuid::new_v4(), Uuid::new_v4(), Uuid::new_v4()];
        let image_prompt = Prompt::new("!say seen").with_blocks(vec![png(4, 4)]);
        for (prompt, id) in [Prompt::new("!say hello"), image_prompt, Prompt::new("/compact")].into_iter().zip(ids) {
            assert_eq!(bed.opened.connection.send(prompt.with_id(id)).await.ok(), Some(id), "{build}");
            bed.wait_for_turn_end().await;
        }
        records(&bed).await;
        let book = transcript_store(&bed).open(bed.conversation).await.unwrap();
        let began: Vec<_> = book.turns().iter().map(|mark| mark.message_id).collect();
        // The older build gives its own commands another id.
        let unchanged = if build == "js" { 2 } else { 3 };
        assert_eq!(began.len(), 3, "{build}: {began:?}");
        assert_eq!(began[..unchanged], ids.map(Some)[..unchanged], "{build}");
        assert_eq!(
            began[2] == Some(ids[2]),
            unchanged == 3,
            "{build}: the id of a compaction is the same in one build only"
        );
    }
}

/// A steer with attachments is a separate message, folded into the running turn. Its record has another id and
/// refers to the steer's.
#[tokio::test(flavor = "multi_thread")]
async fn id_of_a_folded_message_is_stored() {
    for build in BUILDS {
        let mut bed = DriverFixture::open(build).await;
        let call = json!({ "command": wait_for("go", 0), "description": "waits" });
        bed.send(&format!("!tool Bash {call}\n!say after")).await;
        bed.wait_for_gate().await;
        let id = Uuid::new_v4();
        let prompt = Prompt::new("and this").with_blocks(vec![png(4, 4)]).with_id(id);
        bed.opened.connection.steer(SteeringMessage { id: SteeringMessageId("one".to_owned()), prompt });
        std::fs::write(bed.file("go"), "").unwrap();
        let events = bed.wait_for_turn_end().await;
        assert!(events.iter().any(|event| matches!(event, DriverEvent::SteerInjected(_))), "{build}: {events:#?}");
        let records = records(&bed).await;
        let folded = records.iter().find(|record| record["attachment"]["type"] == "queued_command");
        let folded = folded.unwrap_or_else(|| panic!("{build}: {records:#?}"));
        assert_eq!(folded["attachment"]["source_uuid"], id.to_string(), "{build}");
    }
}
