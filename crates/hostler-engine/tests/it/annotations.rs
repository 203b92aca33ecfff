//! The annotations channel of a session.

use crate::common::{Rig, SESSION, dispatch_json};
use ahp::reducers::apply_action_to_annotations;
use ahp_types::state::AnnotationsState;
use hostler_engine::{ChannelState, Delivery, EngineError, Subscriber, annotations_uri};
use serde_json::{Value, json};

/// A subscriber of the annotations.
struct Reader {
    _subscriber: Subscriber,
    deliveries: hostler_engine::Deliveries,
    state: AnnotationsState,
}

impl Reader {
    async fn of(rig: &Rig) -> Self {
        let (subscriber, mut deliveries) = Subscriber::new(100);
        rig.engine.subscribe(&annotations_uri(SESSION), &subscriber, 1).await.unwrap();
        let Some(Delivery::Snapshot { snapshot, .. }) = deliveries.recv().await else { panic!("a snapshot") };
        assert_eq!(*snapshot.resource, *annotations_uri(SESSION));
        let ChannelState::Annotations(state) = snapshot.state else { panic!("no annotations") };
        Self { _subscriber: subscriber, deliveries, state: (*state).clone() }
    }

    /// Outcome of the next dispatch: `None`, or the reason of its rejection.
    async fn next(&mut self) -> Option<String> {
        let Some(Delivery::Envelope(item)) = self.deliveries.recv().await else { panic!("an envelope") };
        if item.rejection.is_none() {
            apply_action_to_annotations(&mut self.state, &item.action);
        }
        item.rejection.as_ref().map(ToString::to_string)
    }

    fn json(&self) -> Value {
        serde_json::to_value(&self.state).unwrap()
    }
}

fn set(id: &str, text: &str) -> Value {
    json!({"type": "annotations/set", "annotation": {"id": id, "origin": {"session": SESSION}, "resolved": false,
           "resource": "file:///w/main.rs", "entries": [{"id": "1", "text": text}]}})
}

#[tokio::test]
async fn annotations_exist_from_the_start_and_all_five_actions_apply() {
    let mut rig = Rig::start().await;
    rig.create(SESSION);
    let mut reader = Reader::of(&rig).await;
    assert_eq!(reader.json(), json!({"annotations": []}));
    let channel = annotations_uri(SESSION);
    for action in [
        set("a", "why?"),
        set("b", "hm"),
        json!({"type": "annotations/entrySet", "annotationId": "a", "entry": {"id": "2", "text": "because"}}),
        json!({"type": "annotations/updated", "annotationId": "a", "resolved": true}),
        json!({"type": "annotations/entryRemoved", "annotationId": "a", "entryId": "1"}),
        json!({"type": "annotations/removed", "annotationId": "b"}),
    ] {
        rig.engine.dispatch(dispatch_json(&channel, 0, action, None)).await;
        assert_eq!(reader.next().await, None);
    }
    let expected = json!({"annotations": [{"id": "a", "origin": {"session": SESSION}, "resolved": true,
        "resource": "file:///w/main.rs", "entries": [{"id": "2", "text": "because"}]}]});
    assert_eq!(reader.json(), expected);
    for (bad, reason) in [
        (json!({"type": "annotations/removed", "annotationId": "b"}), "no annotation"),
        (json!({"type": "annotations/entryRemoved", "annotationId": "a", "entryId": "2"}), "remove the annotation"),
    ] {
        rig.engine.dispatch(dispatch_json(&channel, 0, bad, None)).await;
        assert!(reader.next().await.unwrap().contains(reason));
    }
    // Annotations from before the first message are stored with it, and counted in the session list.
    rig.send_message(SESSION, "t1", "hi").await;
    let mut agent = rig.starts.next_start().await.succeed();
    agent.next_prompt().await;
    let crashed = rig.engine.clone();
    let rig = rig.crash().await;
    assert_eq!(Reader::of(&rig).await.json(), expected, "from the beginning's record");
    rig.engine.dispatch(dispatch_json(&channel, 0, set("c", "more"), None)).await;
    let rig = rig.restart().await;
    assert_eq!(Reader::of(&rig).await.json()["annotations"].as_array().unwrap().len(), 2);
    let summary = rig.engine.list_sessions(None, None).unwrap().summaries().remove(0).annotations.unwrap();
    assert_eq!((summary.resource, summary.annotation_count, summary.entry_count), (channel.clone(), 2, 2));
    rig.engine.dispose_session(SESSION).await.unwrap();
    let (subscriber, _deliveries) = Subscriber::new(10);
    let gone = rig.engine.subscribe(&channel, &subscriber, 1).await;
    assert!(matches!(gone, Err(EngineError::ChannelNotFound(_))));
    rig.engine.shutdown().await;
    crashed.shutdown().await;
}
