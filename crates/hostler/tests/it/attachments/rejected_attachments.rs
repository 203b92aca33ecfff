//! Attachment failures have their own errors, and the session continues.

use serde_json::json;

use crate::attachments::image_delivery::{embedded, images, send_message};
use crate::common::session_fixture::{Rejection, SessionFixture};
use crate::common::{BUILDS, run_to_end, text};

const IMAGE_BLOCK_JSON: &str = "\"type\":\"image\"";

#[tokio::test(flavor = "multi_thread")]
async fn one_invalid_file_rejects_the_message_and_the_corrected_one_is_accepted() {
    for build in BUILDS {
        let mut bench = SessionFixture::start(build).await;
        let (good, data) = embedded("good.png", 8, 6);
        let mut bad = good.clone();
        (bad["label"], bad["data"]) = (json!("../bad\n.png"), json!("iVBORw0KGgoAAAA="));
        let Rejection(refusal) = send_message(&mut bench, "!say seen", &[good.clone(), bad]).await.unwrap_err();
        assert!(refusal.contains("attachment_corrupt") && refusal.contains("bad"), "{build}: {refusal}");
        assert!(!refusal.contains("../") && !refusal.contains('\n'), "{build}: {refusal}");
        assert!(bench.upstream.requests().is_empty() && bench.host.agents().is_empty(), "{build}: nothing was begun");
        send_message(&mut bench, "!say seen", &[good]).await.unwrap();
        bench.wait_for_turn_end().await;
        assert_eq!(images(&bench).last(), Some(&vec![data]), "{build}");
        bench.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rejected_image_can_be_removed_and_the_session_continues() {
    // The newer build removes the image by itself, if it recognizes the provider's error.
    let mut bench = SessionFixture::start("js").await;
    bench.upstream.reject_requests_containing(
        IMAGE_BLOCK_JSON,
        400,
        "messages.0.content.1.image.source.base64: Could not process image",
    );
    let (image, _) = embedded("odd.png", 8, 6);
    send_message(&mut bench, "!say seen", &[image]).await.unwrap();
    let error = bench.wait_for_turn_error().await;
    assert_eq!(error["errorType"], "attachment_provider_rejected", "{error:#}");
    bench.client.send_message(&bench.uris.chat, "!say stuck").await;
    assert_eq!(bench.wait_for_turn_error().await["errorType"], "attachment_provider_rejected");

    let dropped = run_to_end(bench.home.hostler_command(&["sessions", "remove-images", &bench.uris.session])).await;
    assert!(dropped.status.success(), "{}", text(&dropped.stderr));
    bench.client.send_message(&bench.uris.chat, "!say on we go").await;
    bench.wait_for_turn_end().await;
    assert_eq!(images(&bench).last(), Some(&Vec::new()), "the image is not sent again");
    bench.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn auth_errors_and_crashes_have_their_own_error_types_and_the_image_is_sent_again() {
    for build in BUILDS {
        let mut bench = SessionFixture::allowing_commands(build).await;
        bench.upstream.reject_requests_containing(IMAGE_BLOCK_JSON, 401, "invalid x-api-key");
        let (image, data) = embedded("small.png", 8, 6);
        send_message(&mut bench, "!say seen", std::slice::from_ref(&image)).await.unwrap();
        let kind = bench.wait_for_turn_error().await["errorType"].as_str().unwrap().to_owned();
        assert!(!kind.starts_with("attachment"), "{build}: {kind}");
        bench.upstream.reject_requests_containing("no request contains this", 401, "");

        let gate = bench.blocking_command("work");
        send_message(&mut bench, &format!("!tool Bash {}\n!say worked", gate.bash_input()), &[image]).await.unwrap();
        gate.wait_until_running().await;
        bench.kill_agent().await;
        assert_eq!(bench.wait_for_turn_error().await["errorType"], "agentExited", "{build}");
        bench.client.send_message(&bench.uris.chat, "!say still here").await;
        bench.wait_for_turn_end().await;
        let seen = images(&bench).pop().unwrap();
        assert!(seen.contains(&data), "{build}: it is part of the conversation");
        bench.stop().await;
    }
}
