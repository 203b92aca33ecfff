//! Chats with evicted turns, which clients cannot distinguish from chats without.

use crate::common::{Listener, Options, Rig, SESSION, dispatch};
use ahp_types::StateAction;
use ahp_types::actions::ChatTurnResumeAction;
use ahp_types::state::ChatState;
use hostler_driver::{DriverEvent, ResumeToken};
use hostler_engine::{Engine, EngineError, SnapshotTurns, default_chat_uri};
use hostler_testkit::fake_driver::FakeAgent;
use proptest::prelude::*;
use serde_json::Value;

const OTHER: &str = "claude:/1b9e3c5e-8f2b-4a36-9f61-0e8f2b4a369f";

fn chat() -> String {
    default_chat_uri(SESSION)
}

/// Starts a host with this turn window, and a session with this many turns.
async fn host(turns_in_memory: usize, turns: usize) -> (Rig, Listener, Conversation) {
    let rig = Rig::start_with(Options { turns_in_memory, ..Options::default() }).await;
    rig.create(SESSION);
    let mut conversation = Conversation { rig: Some(rig), ..Conversation::default() };
    let mut listener = conversation.rig().listen(SESSION).await;
    for _ in 0..turns {
        conversation.complete(&mut listener).await;
    }
    let rig = conversation.rig.take().unwrap();
    (rig, listener, conversation)
}

/// The turns of a chat, one after the other.
#[derive(Default)]
struct Conversation {
    rig: Option<Rig>,
    agent: Option<FakeAgent>,
    turns: usize,
}

impl Conversation {
    fn rig(&mut self) -> &mut Rig {
        self.rig.as_mut().unwrap()
    }

    /// Starts a turn, whose message the agent receives.
    async fn begin(&mut self) -> String {
        self.turns += 1;
        let (turn, text) = (format!("t{}", self.turns), format!("message {}", self.turns));
        self.rig().send_message(SESSION, &turn, &text).await;
        self.receive_prompt().await;
        turn
    }

    /// Receives the message as the agent, or as a new one: an agent that is slow to stop is closed.
    async fn receive_prompt(&mut self) {
        let starts = &mut self.rig.as_mut().unwrap().starts;
        if let Some(agent) = &mut self.agent {
            tokio::select! {
                Some(_) = agent.prompts.recv() => return,
                start = starts.next_start() => self.agent = Some(start.succeed()),
            }
        } else {
            self.agent = Some(starts.next_start().await.succeed());
        }
        let agent = self.agent.as_mut().unwrap();
        agent.emit(DriverEvent::ResumeToken(ResumeToken("tok".into()))).await;
        agent.next_prompt().await;
    }

    async fn complete(&mut self, listener: &mut Listener) {
        self.begin().await;
        self.answer(listener).await;
    }

    async fn answer(&mut self, listener: &mut Listener) {
        let part = self.turns as u64;
        self.agent.as_ref().unwrap().emit_answer(part, "an ", "answer").await;
        listener.until("chat/turnComplete").await;
    }

    async fn cancel(&mut self, listener: &mut Listener) {
        let turn = self.begin().await;
        self.rig().cancel(SESSION, &turn).await;
        listener.until("chat/turnCancelled").await;
        let agent = self.agent.take().unwrap();
        agent.wait_interrupted().await;
        agent.end_turn(hostler_driver::TurnOutcome::Interrupted).await;
        self.agent = Some(agent);
    }

    /// The agent crashes during a turn, which is resumed.
    async fn fail_and_resume(&mut self, listener: &mut Listener) {
        let turn = self.begin().await;
        self.agent.take().unwrap().exit("exit status: 1", "").await;
        listener.until("chat/error").await;
        let resume = ChatTurnResumeAction { turn_id: turn };
        self.rig().engine.dispatch(dispatch(SESSION, StateAction::ChatTurnResume(resume))).await;
        listener.until("chat/turnResume").await;
        self.receive_prompt().await;
        self.answer(listener).await;
    }

    async fn restart(&mut self) -> Listener {
        self.agent = None;
        let rig = self.rig.take().unwrap().restart().await;
        let listener = rig.listen(SESSION).await;
        self.rig = Some(rig);
        listener
    }

    /// The host crashes during a turn; another one replaces it.
    async fn crash(&mut self, dead: &mut Vec<(Engine, FakeAgent)>) -> Listener {
        self.begin().await;
        let rig = self.rig.take().unwrap();
        // It receives no more events, so it does nothing.
        dead.push((rig.engine.clone(), self.agent.take().unwrap()));
        let rig = rig.crash().await;
        let listener = rig.listen(SESSION).await;
        self.rig = Some(rig);
        listener
    }
}

/// Subscribes a client to the last turns of the chat.
async fn viewer(rig: &Rig, extent: SnapshotTurns) -> Listener {
    let mut viewer = Listener::new(SESSION);
    rig.engine.subscribe_with_turns(&chat(), extent, &viewer.subscriber, 7).await.unwrap();
    viewer.snapshot().await;
    viewer
}

async fn fetch(rig: &Rig, viewer: &mut Listener) {
    let cursor = viewer.chat.as_ref().unwrap().turns_next_cursor.clone();
    rig.engine.fetch_turns(&chat(), cursor.as_deref(), &viewer.subscriber, 8).await.unwrap();
    viewer.until("chat/turnsLoaded").await;
}

async fn fetch_all(rig: &Rig, viewer: &mut Listener) {
    while viewer.chat.as_ref().unwrap().turns_next_cursor.is_some() {
        fetch(rig, viewer).await;
    }
}

fn ids(listener: &Listener) -> Vec<&str> {
    listener.chat.as_ref().unwrap().turns.iter().map(|turn| &*turn.id).collect()
}

fn numbered(from: usize, until: usize) -> Vec<String> {
    (from..=until).map(|turn| format!("t{turn}")).collect()
}

async fn refusal(rig: &Rig, viewer: &Listener, cursor: Option<&str>) -> String {
    match rig.engine.fetch_turns(&chat(), cursor, &viewer.subscriber, 8).await {
        Err(EngineError::InvalidParams(error)) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn snapshot_has_the_last_turns_and_pages_go_to_the_requesting_client() {
    let (rig, listener, _talk) = host(3, 250).await;
    let whole = listener.chat.clone().unwrap();
    for wanted in [1, 2, 3, 4, 100, 249] {
        let mut viewer = viewer(&rig, SnapshotTurns::Last(wanted)).await;
        assert_eq!(ids(&viewer), numbered(251 - wanted, 250));
        let mut steps = Vec::new();
        while viewer.chat.as_ref().unwrap().turns_next_cursor.is_some() {
            let before = ids(&viewer).len();
            fetch(&rig, &mut viewer).await;
            steps.push(ids(&viewer).len() - before);
        }
        assert!(steps.iter().all(|step| (1..=100).contains(step)), "{steps:?}");
        assert_eq!(viewer.chat.as_ref().unwrap(), &whole, "{wanted}");
        // There are no more turns, and another request does no harm.
        fetch(&rig, &mut viewer).await;
        assert_eq!(viewer.chat.as_ref().unwrap(), &whole);
    }
    for extent in [SnapshotTurns::All, SnapshotTurns::Last(250), SnapshotTurns::Last(usize::MAX)] {
        let viewer = viewer(&rig, extent).await;
        assert_eq!(viewer.chat.as_ref().unwrap(), &whole, "{extent:?}");
    }
    assert_eq!(ids(&viewer(&rig, SnapshotTurns::Last(0)).await), ["t250"], "the last turn can be resumed");
    assert!(!listener.events.iter().any(|event| event.starts_with("chat/turnsLoaded")));
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn cursor_stays_valid_while_turns_are_added() {
    let (rig, mut listener, mut conversation) = host(2, 9).await;
    let (mut few, mut more) = (viewer(&rig, SnapshotTurns::Last(2)).await, viewer(&rig, SnapshotTurns::Last(5)).await);
    fetch(&rig, &mut more).await;
    conversation.rig = Some(rig);
    conversation.complete(&mut listener).await;
    conversation.begin().await;
    let rig = conversation.rig.take().unwrap();
    for viewer in [&mut few, &mut more] {
        viewer.until("chat/turnComplete").await;
        viewer.until("chat/turnStarted").await;
        fetch_all(&rig, viewer).await;
    }
    listener.until("chat/turnStarted").await;
    assert_eq!(ids(&few), numbered(1, 10));
    assert_eq!(few.chat, more.chat);
    assert_eq!(few.chat, listener.chat);
    assert!(few.chat.as_ref().unwrap().active_turn.is_some());
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn stale_cursors_are_refused_with_a_reason() {
    let (rig, _listener, _talk) = host(2, 250).await;
    let mut viewer = viewer(&rig, SnapshotTurns::Last(1)).await;
    let first = viewer.chat.as_ref().unwrap().turns_next_cursor.clone().unwrap();
    for garbage in ["", "garbage", "Mg"] {
        assert!(refusal(&rig, &viewer, Some(garbage)).await.contains("not issued by this host"));
    }
    fetch(&rig, &mut viewer).await;
    assert!(refusal(&rig, &viewer, Some(&first)).await.contains("turnsNextCursor"), "it was used");

    // A cursor of another snapshot, which starts elsewhere.
    let mut wide = Listener::new(SESSION);
    rig.engine.subscribe_with_turns(&chat(), SnapshotTurns::Last(200), &wide.subscriber, 7).await.unwrap();
    wide.snapshot().await;
    let of_another = wide.chat.as_ref().unwrap().turns_next_cursor.clone();
    assert!(refusal(&rig, &viewer, of_another.as_deref()).await.contains("turnsNextCursor"));

    // A cursor of another chat, and of a chat without a subscription.
    rig.create(OTHER);
    let mut other = Listener::new(OTHER);
    let elsewhere = default_chat_uri(OTHER);
    let unsubscribed = rig.engine.fetch_turns(&elsewhere, None, &other.subscriber, 8).await;
    assert!(matches!(unsubscribed, Err(EngineError::InvalidParams(error)) if error.to_string().contains("subscribe")));
    rig.engine.subscribe(&elsewhere, &other.subscriber, 7).await.unwrap();
    other.snapshot().await;
    let foreign = rig.engine.fetch_turns(&elsewhere, of_another.as_deref(), &other.subscriber, 8).await;
    assert!(matches!(foreign, Err(EngineError::InvalidParams(error)) if error.to_string().contains("for this chat")));
    let nowhere = rig.engine.fetch_turns("ahp-chat:/nowhere", None, &other.subscriber, 8).await;
    assert!(matches!(nowhere, Err(EngineError::ChannelNotFound(_))));

    // The chat was created again under its URI.
    rig.engine.dispose_session(SESSION).await.unwrap();
    rig.create(SESSION);
    let again = rig.listen(SESSION).await;
    assert!(refusal(&rig, &again, of_another.as_deref()).await.contains("turnsNextCursor"));
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn turns_loaded_before_a_reconnect_remain() {
    let (rig, _listener, _talk) = host(2, 30).await;
    let presence = rig.engine.connect_client("me", "").await;
    let mut gone = viewer(&rig, SnapshotTurns::Last(4)).await;
    rig.engine.attach("me", &gone.subscriber);
    let had = gone.chat.clone();
    let channels = [chat()];

    // A page is sent that never arrives. Missed envelopes are replayed, and the client's cursor is still valid; the
    // client has to send it, because only the client knows which page arrived.
    fetch(&rig, &mut gone).await;
    drop(presence);
    let mut back = Listener::new(SESSION);
    back.chat = had;
    rig.engine.reconnect("me", rig.engine.current_seq(), &channels, &back.subscriber, 1).await.unwrap();
    assert!(back.replayed().await);
    assert!(refusal(&rig, &back, None).await.contains("needs a cursor"));
    fetch_all(&rig, &mut back).await;
    assert_eq!(ids(&back), numbered(1, 30));

    // It gets snapshots that reach back as far as its turns did.
    let again = Listener::new(SESSION);
    let shown = viewer(&rig, SnapshotTurns::Last(4)).await;
    rig.engine.attach("me", &shown.subscriber);
    rig.engine.reconnect("me", u64::MAX, &channels, &again.subscriber, 1).await.unwrap();
    let mut again = again;
    rig.engine.subscribe_with_turns(&chat(), SnapshotTurns::SameAsBefore, &again.subscriber, 2).await.unwrap();
    again.snapshot().await;
    assert_eq!(ids(&again), numbered(27, 30));

    // An unknown client gets all turns.
    let stranger = viewer(&rig, SnapshotTurns::SameAsBefore).await;
    assert_eq!(ids(&stranger), numbered(1, 30));
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn used_turn_id_is_refused_also_after_eviction() {
    let (rig, mut listener, _talk) = host(1, 5).await;
    let rig = rig.restart().await;
    listener = {
        drop(listener);
        rig.listen(SESSION).await
    };
    for turn in ["t1", "t4", "t5"] {
        rig.send_message(SESSION, turn, "again").await;
        let event = listener.next().await;
        assert!(event.starts_with("chat/turnStarted rejected") && event.contains("already in use"), "{turn}: {event}");
    }
    rig.send_message(SESSION, "t6", "new").await;
    assert_eq!(listener.next().await, "chat/turnStarted");
    rig.engine.shutdown().await;
}

/// An event in a chat.
#[derive(Debug, Clone, Copy)]
enum Event {
    Complete,
    Cancel,
    FailAndResume,
    Restart,
    Crash,
}

/// A chat without the values that depend on the clock.
fn without_times(chat: &ChatState) -> Value {
    fn strip(value: &mut Value) {
        match value {
            Value::Object(members) => {
                members.retain(|key, _| key != "duration" && key != "modifiedAt");
                members.values_mut().for_each(strip);
            }
            Value::Array(items) => items.iter_mut().for_each(strip),
            _ => {}
        }
    }
    let mut value = serde_json::to_value(chat).unwrap();
    strip(&mut value);
    value
}

/// All states of a chat over a sequence of events: as seen by a permanent subscriber, by a client that subscribes to
/// all turns after each event, and by a client that subscribes to some turns and pages back.
async fn run_events(turns_in_memory: usize, events: &[(Event, usize)]) -> Vec<[Value; 3]> {
    let (rig, mut listener, mut conversation) = host(turns_in_memory, 1).await;
    conversation.rig = Some(rig);
    let (mut seen, mut dead) = (Vec::new(), Vec::new());
    for (event, view) in events {
        match event {
            Event::Complete => conversation.complete(&mut listener).await,
            Event::Cancel => conversation.cancel(&mut listener).await,
            Event::FailAndResume => conversation.fail_and_resume(&mut listener).await,
            Event::Restart => listener = conversation.restart().await,
            Event::Crash => listener = conversation.crash(&mut dead).await,
        }
        let whole = viewer(conversation.rig(), SnapshotTurns::All).await;
        let mut part = viewer(conversation.rig(), SnapshotTurns::Last(*view)).await;
        fetch_all(conversation.rig(), &mut part).await;
        seen.push([&listener, &whole, &part].map(|seen| without_times(seen.chat.as_ref().unwrap())));
    }
    conversation.rig().engine.shutdown().await;
    for (engine, _agent) in dead {
        engine.shutdown().await;
    }
    seen
}

fn event() -> impl Strategy<Value = (Event, usize)> {
    let event = prop_oneof![
        6 => Just(Event::Complete),
        2 => Just(Event::Cancel),
        2 => Just(Event::FailAndResume),
        1 => Just(Event::Restart),
        1 => Just(Event::Crash),
    ];
    (event, 1..6_usize)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, max_shrink_iters: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn evicting_turns_is_invisible_to_clients(
        window in 1..4_usize,
        events in prop::collection::vec(event(), 1..14),
    ) {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let (few, all) = runtime.block_on(async { tokio::join!(run_events(window, &events), run_events(usize::MAX, &events)) });
        for (few, all) in few.iter().zip(&all) {
            let [there, whole, part] = few;
            prop_assert_eq!(whole, &all[1]);
            prop_assert_eq!(part, whole);
            prop_assert_eq!(there, whole);
            prop_assert_eq!(&all[2], &all[1]);
        }
    }
}
