//! Output of background work so far.

use super::stop_turn::{beside, shell};
use super::*;
use hostler_engine::{BackgroundOnStop, BackgroundOutput};

async fn output(rig: &Rig, id: &str) -> Result<BackgroundOutput, String> {
    rig.engine.background_output(&default_chat_uri(SESSION), id).await.map_err(|error| error.to_string())
}

#[tokio::test]
async fn end_of_the_reported_output_file_is_returned() {
    let (rig, mut listener, agent) = beside(BackgroundOnStop::Keep).await;
    let tasks = rig.work.join("tasks");
    std::fs::create_dir(&tasks).unwrap();
    let file = tasks.join("b1.output");
    assert!(output(&rig, "b1").await.unwrap_err().contains("does not say"));
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
    assert!(output(&rig, "b1").await.unwrap_err().contains("no background work has the ID"), "it is over");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn no_other_file_is_returned() {
    let (rig, _listener, agent) = beside(BackgroundOnStop::Keep).await;
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
    assert!(output(&rig, "b1").await.unwrap_err().contains("not of the kind"));
    rig.engine.shutdown().await;
}
