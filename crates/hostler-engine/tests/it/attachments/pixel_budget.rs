//! Decoding images needs memory per pixel: all sessions share one budget.

use futures::future::join_all;
use hostler_engine::{AttachmentLimits, NoClientFiles, default_chat_uri};

use crate::attachments::helpers::{embedded, png};
use crate::common::{Options, Rig, SESSION};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrently_planned_images_share_one_budget() {
    // The budget equals the largest allowed image: one pixel here.
    let attachments = AttachmentLimits { image_pixels: 1, ..AttachmentLimits::default() };
    let rig = Rig::start_with(Options { attachments, ..Options::default() }).await;
    rig.create(SESSION);
    let plans = (0..24).map(|_| {
        let engine = rig.engine.clone();
        let attached = vec![serde_json::from_value(embedded("a.png", &png())).unwrap(); 3];
        let plan = async move { engine.plan_attachments(&default_chat_uri(SESSION), attached, &NoClientFiles).await };
        tokio::spawn(plan)
    });
    for plan in join_all(plans).await {
        assert!(plan.unwrap().unwrap().ok);
    }
    assert_eq!(rig.engine.decoded_pixels_peak(), (1, 1));
    rig.engine.shutdown().await;
}
