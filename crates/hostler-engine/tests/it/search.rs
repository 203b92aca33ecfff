//! Search: in sessions of this host, and in external conversations.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{Listener, Options, Rig, SESSION, dispatch};
use ahp_types::StateAction;
use ahp_types::actions::{ChatTurnResumeAction, SessionTitleChangedAction};
use hostler_driver::{ApiErrorCategory, DriverEvent, ResumeToken, TurnFailure, TurnOutcome};
use hostler_engine::{
    EngineError, ExternalSessionFilter, SearchError, SearchRequest, SearchResults, SnapshotTurns, TextKind,
    default_chat_uri,
};
use hostler_testkit::clock::ManualClock;
use hostler_testkit::fake_driver::FakeAgent;
use hostler_testkit::fake_transcript_store::{FakeTranscriptStore, FakeTurn};
use uuid::Uuid;

const EXTERNAL_SESSION: &str = "claude:/0b9e3c5e-8f2b-4a36-9f61-0e8f2b4a3700";

fn options() -> Options {
    Options { search: true, ..Options::default() }
}

fn search_request(query: &str) -> SearchRequest {
    SearchRequest { query: query.to_owned(), limit: 20, wait_for_index: true, ..SearchRequest::default() }
}

/// Searches after everything is indexed.
async fn search(rig: &Rig, query: &str) -> SearchResults {
    rig.engine.search(search_request(query)).await.unwrap()
}

/// The matching sessions and turns.
async fn matching_turns(rig: &Rig, query: &str) -> Vec<(String, Vec<String>)> {
    let turn =
        |hit: &hostler_engine::SearchHit| hit.turn.as_ref().map_or("the title".to_owned(), |(_, turn)| turn.clone());
    let sessions = search(rig, query).await.sessions;
    sessions.iter().map(|session| (session.session.clone(), session.hits.iter().map(turn).collect())).collect()
}

async fn matches_in_one_session(rig: &Rig, query: &str) -> Vec<String> {
    let mut sessions = matching_turns(rig, query).await;
    assert!(sessions.len() <= 1, "{sessions:?}");
    let mut turns = sessions.pop().map(|(_, turns)| turns).unwrap_or_default();
    turns.sort();
    turns
}

/// A turn's end is published a moment before its row is written.
async fn until_found(rig: &Rig, query: &str, turns: &[&str]) {
    while matches_in_one_session(rig, query).await != turns {
        tokio::task::yield_now().await;
    }
}

async fn run_turn(
    rig: &mut Rig,
    listener: &mut Listener,
    agent: &mut Option<FakeAgent>,
    turn: &str,
    text: &str,
    answer: &str,
) {
    rig.send_message(SESSION, turn, text).await;
    if agent.is_none() {
        let opened = rig.starts.next_start().await.succeed();
        opened.emit(DriverEvent::ResumeToken(ResumeToken("tok".into()))).await;
        *agent = Some(opened);
    }
    let agent = agent.as_mut().unwrap();
    agent.next_prompt().await;
    let part: u64 = turn.trim_start_matches('t').parse().unwrap();
    agent.emit_answer(part, answer, "").await;
    listener.until("chat/turnComplete").await;
}

/// Starts a host with a session of two turns: about apples, and about pears.
async fn start_with_two_turns(options: Options) -> (Rig, Listener, Option<FakeAgent>) {
    let mut rig = Rig::start_with(options).await;
    rig.create(SESSION);
    let mut listener = rig.listen(SESSION).await;
    let mut agent = None;
    run_turn(&mut rig, &mut listener, &mut agent, "t1", "Where do apples grow?", "On trees.").await;
    run_turn(&mut rig, &mut listener, &mut agent, "t2", "And pears?", "On trees as well, my foo_bar.").await;
    if rig.options.search {
        until_found(&rig, "pears", &["t2"]).await;
    }
    (rig, listener, agent)
}

fn id() -> Uuid {
    Uuid::try_parse(EXTERNAL_SESSION.strip_prefix("claude:/").unwrap()).unwrap()
}

async fn start_with_external_conversation(turns: u32) -> (Rig, Arc<FakeTranscriptStore>) {
    let directory = std::env::temp_dir();
    let transcript_store = FakeTranscriptStore::new(&directory);
    transcript_store.add_conversation(id(), &directory, turns);
    let rig = Rig::start_with(Options { transcript_store: Some(Arc::clone(&transcript_store)), ..options() }).await;
    (rig, transcript_store)
}

#[tokio::test]
async fn completed_turn_is_found() {
    let (rig, _listener, _agent) = start_with_two_turns(options()).await;
    assert_eq!(matches_in_one_session(&rig, "grow").await, ["t1", "the title"]);
    assert_eq!(matches_in_one_session(&rig, "foo_bar").await, ["t2"]);
    assert_eq!(matches_in_one_session(&rig, "trees").await, ["t1", "t2"]);
    assert!(matches_in_one_session(&rig, "cherries").await.is_empty());
    let hit = search(&rig, "from:agent foo_bar").await.sessions.remove(0);
    assert_eq!(
        (hit.hits[0].kind, hit.hits[0].turn.clone()),
        (TextKind::Answer, Some((default_chat_uri(SESSION), "t2".to_owned())))
    );
    assert_eq!(hit.workspace.as_deref(), Some(rig.work.to_str().unwrap()));
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn renamed_session_is_found_by_its_new_title_only() {
    let (rig, mut listener, _agent) = start_with_two_turns(options()).await;
    let title = SessionTitleChangedAction { title: "Plums".to_owned() };
    let mut renamed = dispatch(SESSION, StateAction::SessionTitleChanged(title));
    renamed.channel = SESSION.to_owned();
    rig.engine.dispatch(renamed).await;
    listener.until("session/titleChanged").await;
    // The session list is updated a moment later; then the title is indexed.
    until_found(&rig, "plums", &["the title"]).await;
    assert_eq!(matches_in_one_session(&rig, "workspace:/ grow").await, ["t1"], "the old title is forgotten");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn deleted_session_is_not_found() {
    let (rig, _listener, _agent) = start_with_two_turns(options()).await;
    assert_eq!(matching_turns(&rig, "pears").await.len(), 1);
    rig.engine.dispose_session(SESSION).await.unwrap();
    assert!(matching_turns(&rig, "pears").await.is_empty() && matching_turns(&rig, "apples").await.is_empty());
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn turns_from_before_the_index_are_indexed_at_start() {
    // The first host has no index.
    let (mut rig, listener, agent) = start_with_two_turns(Options::default()).await;
    let refused = rig.engine.search(search_request("pears")).await.unwrap_err();
    assert!(matches!(refused, EngineError::Search(SearchError::Disabled)), "{refused}");
    assert!(!rig.state.join("search.db").exists());
    drop((listener, agent));
    rig.options.search = true;
    let rig = rig.restart().await;
    assert_eq!(matches_in_one_session(&rig, "pears").await, ["t2"]);
    assert_eq!(matches_in_one_session(&rig, "trees").await, ["t1", "t2"]);
    // The index survives the next start, whichever host wrote it.
    let rig = rig.restart().await;
    let known = rig.engine.search(SearchRequest { wait_for_index: false, ..search_request("pears") }).await.unwrap();
    assert_eq!(known.sessions.len(), 1);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn missing_or_damaged_index_is_rebuilt() {
    let (rig, listener, agent) = start_with_two_turns(options()).await;
    assert_eq!(matches_in_one_session(&rig, "pears").await, ["t2"]);
    drop((listener, agent));
    rig.engine.shutdown().await;
    std::fs::remove_file(rig.state.join("search.db")).unwrap();
    let rig = rig.crash().await;
    assert_eq!(matches_in_one_session(&rig, "pears").await, ["t2"]);
    rig.engine.shutdown().await;
    std::fs::write(rig.state.join("search.db"), "nothing".repeat(2_000)).unwrap();
    let rig = rig.crash().await;
    assert_eq!(matches_in_one_session(&rig, "pears").await, ["t2"]);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn unusable_index_is_reported_to_searches_only() {
    let mut rig = Rig::start().await;
    rig.engine.shutdown().await;
    std::fs::create_dir(rig.state.join("search.db")).unwrap();
    rig.options.search = true;
    let mut rig = rig.crash().await;
    rig.create(SESSION);
    let mut listener = rig.listen(SESSION).await;
    let mut agent = None;
    run_turn(&mut rig, &mut listener, &mut agent, "t1", "hello", "you").await;
    let refused = rig.engine.search(search_request("hello")).await.unwrap_err();
    assert!(matches!(refused, EngineError::Search(SearchError::NoAccess)), "{refused}");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn resumed_turn_is_reindexed() {
    let (rig, mut listener, mut agent) = start_with_two_turns(options()).await;
    rig.send_message(SESSION, "t3", "And cherries?").await;
    agent.as_mut().unwrap().next_prompt().await;
    let failure =
        TurnFailure { category: ApiErrorCategory::Overloaded, message: "Overloaded.".to_owned(), status: Some(529) };
    agent.as_ref().unwrap().end_turn(TurnOutcome::Failed(failure)).await;
    listener.until("chat/error").await;
    until_found(&rig, "cherries", &["t3"]).await;
    let resume = ChatTurnResumeAction { turn_id: "t3".to_owned() };
    rig.engine.dispatch(dispatch(SESSION, StateAction::ChatTurnResume(resume))).await;
    agent.as_mut().unwrap().next_prompt().await;
    agent.as_ref().unwrap().emit_answer(9, "In quinces.", "").await;
    listener.until("chat/turnComplete").await;
    until_found(&rig, "quinces", &["t3"]).await;
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn external_conversation_is_found_without_an_import() {
    let (rig, transcript_store) = start_with_external_conversation(100).await;
    let turn = |n: u128| Uuid::from_u128(n).to_string();
    assert_eq!(matching_turns(&rig, "\"answer 77\"").await, [(EXTERNAL_SESSION.to_owned(), vec![turn(77)])]);
    // Another process continues it, and its new contents are indexed.
    transcript_store.update_conversation(id(), |conversation| {
        conversation.listing.modified += Duration::from_secs(1);
        conversation.turns.push(FakeTurn::new(101, "And cherries?", "In gardens."));
    });
    assert_eq!(matching_turns(&rig, "cherries").await, [(EXTERNAL_SESSION.to_owned(), vec![turn(101)])]);
    transcript_store.remove_conversation(id());
    assert!(
        matching_turns(&rig, "cherries").await.is_empty() && matching_turns(&rig, "\"answer 77\"").await.is_empty()
    );
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn missing_conversation_stays_indexed_while_transcripts_are_unreadable() {
    let (rig, transcript_store) = start_with_external_conversation(3).await;
    assert_eq!(matching_turns(&rig, "\"answer 2\"").await.len(), 1);
    transcript_store.set_listing_enabled(false);
    transcript_store.add_unreadable_file(&std::env::temp_dir(), "the disk failed");
    transcript_store.remove_conversation(id());
    let rig = rig.restart().await;
    transcript_store.set_listing_enabled(true);
    assert_eq!(
        matching_turns(&rig, "\"answer 2\"").await.len(),
        1,
        "it is unknown whether the transcript still exists"
    );
    transcript_store.clear_unreadable_files();
    assert!(matching_turns(&rig, "\"answer 2\"").await.is_empty());
    rig.engine.shutdown().await;
}

/// Waits until the index has this many matching sessions, without requesting a scan.
async fn until_indexed(rig: &Rig, query: &str, sessions: usize) {
    let known = SearchRequest { wait_for_index: false, ..search_request(query) };
    while rig.engine.search(known.clone()).await.unwrap().sessions.len() != sessions {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn scanned_conversations_are_indexed_before_a_search() {
    let (rig, transcript_store) = start_with_external_conversation(3).await;
    until_indexed(&rig, "\"answer 2\"", 1).await;
    transcript_store.update_conversation(id(), |conversation| {
        conversation.turns.push(FakeTurn::new(4, "And cherries?", "In gardens."))
    });
    let other = Uuid::new_v4();
    transcript_store.add_conversation(other, &std::env::temp_dir(), 9);
    rig.engine.scan_external_sessions().await;
    until_indexed(&rig, "cherries", 1).await;
    until_indexed(&rig, "\"answer 9\"", 1).await;
    transcript_store.remove_conversation(other);
    rig.engine.scan_external_sessions().await;
    until_indexed(&rig, "\"answer 9\"", 0).await;
    // Deleted without an import.
    rig.engine.dispose_session(EXTERNAL_SESSION).await.unwrap();
    until_indexed(&rig, "cherries", 0).await;
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn imported_session_is_found_once() {
    let (rig, transcript_store) = start_with_external_conversation(10).await;
    let before = matching_turns(&rig, "\"answer 7\"").await;
    let mut viewer = Listener::new(EXTERNAL_SESSION);
    rig.engine
        .subscribe_with_turns(&default_chat_uri(EXTERNAL_SESSION), SnapshotTurns::All, &viewer.subscriber, 7)
        .await
        .unwrap();
    viewer.snapshot().await;
    assert_eq!(matching_turns(&rig, "\"answer 7\"").await, before);
    rig.engine.dispose_session(EXTERNAL_SESSION).await.unwrap();
    transcript_store.remove_conversation(id());
    assert!(matching_turns(&rig, "\"answer 7\"").await.is_empty());
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn older_turns_are_found_during_an_import() {
    let (rig, transcript_store) = start_with_external_conversation(300).await;
    let before = matching_turns(&rig, "\"answer 7\"").await;
    assert_eq!(before.len(), 1);
    // Only the last turns are loaded.
    transcript_store.allow_loads(1);
    let mut viewer = Listener::new(EXTERNAL_SESSION);
    rig.engine.subscribe(EXTERNAL_SESSION, &viewer.subscriber, 7).await.unwrap();
    viewer.snapshot().await;
    transcript_store.wait_for_loads().await;
    assert_eq!(matching_turns(&rig, "\"answer 7\"").await, before);
    assert_eq!(matching_turns(&rig, "\"answer 300\"").await.len(), 1);
    transcript_store.allow_loads(usize::MAX);
    rig.engine
        .subscribe_with_turns(&default_chat_uri(EXTERNAL_SESSION), SnapshotTurns::All, &viewer.subscriber, 8)
        .await
        .unwrap();
    viewer.snapshot().await;
    assert_eq!(matching_turns(&rig, "\"answer 7\"").await, before);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn running_external_turn_is_reindexed_periodically_and_at_once_for_waiting_searches() {
    const PAUSE: Duration = Duration::from_secs(10);
    let (clock, directory) = (ManualClock::new(), std::env::temp_dir());
    let transcript_store = FakeTranscriptStore::new(&directory);
    transcript_store.add_conversation(id(), &directory, 3);
    let goes_on = |length: usize, over: bool, answer: &str| {
        transcript_store.update_conversation(id(), |conversation| {
            let mut turn = FakeTurn::new(3, "message 3", answer);
            (turn.mark.record_count, turn.mark.is_complete) = (length, over);
            conversation.turns.splice(2.., [turn]);
        });
    };
    goes_on(1, false, "apples");
    let archived = Some(Arc::clone(&transcript_store));
    let rig =
        Rig::start_with(Options { transcript_store: archived, clock: Arc::new(clock.clone()), ..options() }).await;
    until_indexed(&rig, "apples", 1).await;
    goes_on(2, false, "apples and pears");
    rig.engine.scan_external_sessions().await;
    clock.wait_for_sleeper(PAUSE).await;
    let noted = rig.engine.search(SearchRequest { wait_for_index: false, ..search_request("pears") }).await.unwrap();
    assert!(noted.sessions.is_empty(), "it was read a moment ago");
    clock.advance(PAUSE);
    until_indexed(&rig, "pears", 1).await;
    goes_on(3, false, "apples and plums");
    assert_eq!(matching_turns(&rig, "plums").await.len(), 1, "a search that waits for the index includes it");
    goes_on(4, true, "apples and cherries");
    rig.engine.scan_external_sessions().await;
    until_indexed(&rig, "cherries", 1).await;
    // A turn whose end was never seen before the next one started.
    transcript_store.update_conversation(id(), |conversation| {
        let mut turn = FakeTurn::new(4, "message 4", "quinces");
        turn.mark.is_complete = false;
        conversation.turns.push(turn);
    });
    rig.engine.scan_external_sessions().await;
    until_indexed(&rig, "quinces", 1).await;
    transcript_store.update_conversation(id(), |conversation| {
        conversation.turns.splice(3.., [FakeTurn::new(4, "message 4", "medlars"), FakeTurn::new(5, "message 5", "")]);
    });
    rig.engine.scan_external_sessions().await;
    until_indexed(&rig, "medlars", 1).await;
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn unlisted_sessions_are_marked_or_excluded_by_the_filter() {
    let directory = std::env::temp_dir();
    let transcript_store = FakeTranscriptStore::new(&directory);
    for n in 0..3 {
        transcript_store.add_conversation(Uuid::from_u128(id().as_u128() + n), &directory, 2);
    }
    let start = async |show| {
        let transcript_store = Some(Arc::clone(&transcript_store));
        Rig::start_with(Options { transcript_store, show_external: Some(show), ..options() }).await
    };
    let rig = start(ExternalSessionFilter::Recent).await;
    let some = search(&rig, "\"answer 2\"").await;
    assert_eq!((some.sessions.len(), some.unlisted.len(), rig.listed().len()), (3, 1, 2));
    assert!(some.unlisted.iter().all(|hidden| !rig.listed().contains(hidden)));
    rig.engine.shutdown().await;

    let rig = start(ExternalSessionFilter::None).await;
    assert!(matching_turns(&rig, "\"answer 2\"").await.is_empty());
    let all = SearchRequest { include_unlisted: true, ..search_request("\"answer 2\"") };
    let hidden = rig.engine.search(all.clone()).await.unwrap();
    assert_eq!((hidden.sessions.len(), hidden.unlisted.len()), (3, 3));
    // An imported session is listed, whatever the filter for external ones.
    let mut viewer = Listener::new(EXTERNAL_SESSION);
    rig.engine.subscribe(EXTERNAL_SESSION, &viewer.subscriber, 7).await.unwrap();
    viewer.snapshot().await;
    assert_eq!(matching_turns(&rig, "\"answer 2\"").await.len(), 1);
    assert_eq!(rig.engine.search(all).await.unwrap().unlisted.len(), 2);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn index_that_rejects_writes_still_answers_and_reports_the_error() {
    let (mut rig, mut listener, mut agent) = start_with_two_turns(options()).await;
    let full = "CREATE TRIGGER full BEFORE INSERT ON turns BEGIN SELECT RAISE(ABORT, 'no room'); END";
    let index = rusqlite::Connection::open(rig.state.join("search.db")).unwrap();
    index.execute_batch(full).unwrap();
    run_turn(&mut rig, &mut listener, &mut agent, "t3", "And cherries?", "In gardens.").await;
    let known = loop {
        // A turn's end is published a moment before its row is written.
        let known = search(&rig, "pears").await;
        if known.index_error.is_some() {
            break known;
        }
    };
    assert_eq!(known.sessions.len(), 1);
    assert_eq!((known.index_error.as_deref(), known.pending_sessions), (Some("the search index failed: no room"), 1));
    index.execute_batch("DROP TRIGGER full").unwrap();
    until_found(&rig, "cherries", &["t3"]).await;
    let well = search(&rig, "pears").await;
    assert_eq!((well.index_error, well.pending_sessions), (None, 0));
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn unreadable_session_does_not_hide_others() {
    let directory = std::env::temp_dir();
    let transcript_store = FakeTranscriptStore::new(&directory);
    transcript_store.add_conversation(id(), &directory, 3);
    let (rig, listener, agent) =
        start_with_two_turns(Options { transcript_store: Some(transcript_store), ..options() }).await;
    drop((listener, agent));
    rig.engine.shutdown().await;
    std::fs::remove_file(rig.state.join("search.db")).unwrap();
    let store = rusqlite::Connection::open(rig.state.join("hostler.db")).unwrap();
    assert_eq!(store.execute("UPDATE turns SET body = x'ff' WHERE id = 't1'", []).unwrap(), 1);
    drop(store);
    let rig = rig.crash().await;
    let known = search(&rig, "\"answer 2\"").await;
    assert_eq!((known.sessions.len(), known.pending_sessions), (1, 1));
    let trouble = known.index_error.unwrap();
    assert!(trouble.starts_with("some sessions could not be indexed: "), "{trouble}");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn unreadable_conversation_is_found_by_its_title() {
    let (rig, transcript_store) = start_with_external_conversation(1).await;
    let broken = Uuid::new_v4();
    transcript_store.add_conversation(broken, &std::env::temp_dir(), 3);
    transcript_store.update_conversation(broken, |conversation| {
        conversation.listing.title = "Quinces".to_owned();
        conversation.read_error = Some(hostler_driver::TranscriptStoreError::Failed("it is torn".to_owned()));
    });
    assert_eq!(matching_turns(&rig, "quinces").await, [(format!("claude:/{broken}"), vec!["the title".to_owned()])]);
    assert_eq!(matching_turns(&rig, "\"answer 1\"").await.len(), 1);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn search_reports_pending_sessions() {
    let directory = std::env::temp_dir();
    let transcript_store = FakeTranscriptStore::new(&directory);
    transcript_store.add_conversation(id(), &directory, 3);
    transcript_store.allow_loads(0);
    let rig = Rig::start_with(Options { transcript_store: Some(Arc::clone(&transcript_store)), ..options() }).await;
    let known = SearchRequest { wait_for_index: false, ..search_request("\"answer 2\"") };
    loop {
        let found = rig.engine.search(known.clone()).await.unwrap();
        assert!(found.sessions.is_empty());
        if found.pending_sessions == 1 {
            break;
        }
        tokio::task::yield_now().await;
    }
    transcript_store.allow_loads(usize::MAX);
    assert_eq!(matching_turns(&rig, "\"answer 2\"").await.len(), 1);
    rig.engine.shutdown().await;
}
