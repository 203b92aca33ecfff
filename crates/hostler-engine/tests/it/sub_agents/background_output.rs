//! Output of background work so far.

use super::stop_turn::{shell, start_with_background_work};
use super::*;
use hostler_engine::{BackgroundOnStop, BackgroundOutput};

/// The message of a refused request for output.
#[derive(Debug, PartialEq)]
struct OutputError(String);

impl std::fmt::Display for OutputError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::ops::Deref for OutputError {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

async fn output(rig: &Rig, id: &str) -> Result<BackgroundOutput, OutputError> {
    let answer = rig.engine.background_output(&default_chat_uri(SESSION), id).await;
    answer.map_err(|error| OutputError(error.to_string()))
}

#[tokio::test]
async fn end_of_the_reported_output_file_is_returned() {
    let (rig, mut listener, agent) = start_with_background_work(BackgroundOnStop::Keep).await;
    let tasks = rig.work.join("tasks");
    std::fs::create_dir(&tasks).unwrap();
    let file = tasks.join("b1.output");
    assert!(output(&rig, "b1").await.unwrap_err().contains("did not report an output file"));
    agent.set_task_output("b1", file.clone());
    assert!(output(&rig, "b1").await.unwrap_err().contains("no such file"));
    std::fs::write(&file, "so far").unwrap();
    assert_eq!(output(&rig, "b1").await, Ok(BackgroundOutput { output: "so far".into(), truncated: false }));
    let long = format!("{}the end", "ü".repeat(100_000));
    std::fs::write(&file, &long).unwrap();
    let shown = output(&rig, "b1").await.unwrap();
    assert!(shown.truncated && shown.output.ends_with("üthe end") && shown.output.len() <= 64 * 1024 + 2);

    assert!(output(&rig, "b7").await.unwrap_err().contains("no background work has the ID"));
    agent.emit(shell("b2")).await;
    listener.until("chat/backgroundWorkSet").await;
    agent.emit(DriverEvent::BackgroundTaskEnded { id: "b1".into() }).await;
    listener.until("chat/backgroundWorkRemoved").await;
    assert!(output(&rig, "b1").await.unwrap_err().contains("no background work has the ID"), "the work has ended");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn no_other_file_is_returned() {
    let (rig, _listener, agent) = start_with_background_work(BackgroundOnStop::Keep).await;
    let (tasks, other) = (rig.work.join("tasks"), rig.work.join("other"));
    std::fs::create_dir_all(&tasks).unwrap();
    std::fs::create_dir_all(&other).unwrap();
    std::fs::write(other.join("secret"), "hidden").unwrap();
    std::fs::write(other.join("b1.output"), "hidden").unwrap();
    std::fs::write(tasks.join("b2.output"), "of another one").unwrap();
    let file = tasks.join("b1.output");
    agent.set_task_output("b1", file.clone());
    for target in [other.join("secret"), other.join("b1.output"), tasks.join("b2.output")] {
        std::os::unix::fs::symlink(&target, &file).unwrap();
        let refused = output(&rig, "b1").await.unwrap_err();
        assert!(refused.contains("outside"), "{target:?}: {refused}");
        std::fs::remove_file(&file).unwrap();
    }
    // The directory itself is a link to another place.
    std::fs::remove_dir_all(&tasks).unwrap();
    std::os::unix::fs::symlink(&other, &tasks).unwrap();
    assert!(output(&rig, "b1").await.unwrap_err().contains("outside"));
    std::fs::remove_file(&tasks).unwrap();
    std::fs::create_dir_all(&file).unwrap();
    assert!(output(&rig, "b1").await.unwrap_err().contains("where a file is expected"));
    rig.engine.shutdown().await;
}
