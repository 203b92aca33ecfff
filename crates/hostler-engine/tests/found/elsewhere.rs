//! The same conversation, led from here and from elsewhere.

use ahp_types::state::ResponsePart;
use hostler_driver::{DriverEvent, Lead, ResumeToken, TurnMark};
use hostler_engine::default_chat_uri;
use hostler_testkit::fake_archive::{FakeArchive, FakeTurn};
use hostler_testkit::fake_driver::FakeAgent;
use serde_json::json;
use uuid::Uuid;

use super::{FOUND, expected, found, id, turns};
use crate::common::{Listener, Rig, wish};

fn somebody(archive: &FakeArchive, number: u32) {
    let turn = FakeTurn::new(number, &format!("message {number}"), &format!("answer {number}"));
    archive.change(id(), |conversation| conversation.turns.push(turn));
}

/// Says something here, and writes it into the record as the agent does.
async fn we_say(
    rig: &mut Rig,
    archive: &FakeArchive,
    listener: &mut Listener,
    agent: Option<FakeAgent>,
    n: u32,
) -> FakeAgent {
    rig.say(FOUND, &format!("t{n}"), &format!("message {n}")).await;
    let mut agent = match agent {
        Some(agent) => agent,
        None => rig.starts.next().await.succeed(),
    };
    let sent = agent.whole_prompt().await.id();
    let turn = FakeTurn::new(n, &format!("message {n}"), &format!("answer {n}"));
    archive.change(id(), |conversation| conversation.turns.push(turn.of(sent)));
    agent.answer(u64::from(n), "answer ", &n.to_string()).await;
    while !turns(listener).last().is_some_and(|last| last.starts_with(&format!("message {n}:"))) {
        listener.until("chat/turnComplete").await;
    }
    agent
}

#[tokio::test]
async fn what_somebody_else_says_is_appended_as_it_happens() {
    let (rig, archive) = found(2, 3).await;
    let mut listener = rig.listen(FOUND).await;
    somebody(&archive, 4);
    rig.engine.look_at_archives().await;
    listener.until("chat/turnComplete").await;
    listener.until("session/isReadChanged").await;
    assert_eq!(turns(&listener), expected(1..=4));
    assert_eq!(listener.chat.as_ref().unwrap().modified_at, "2026-01-01T00:04:02.000Z");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn what_was_said_here_is_not_said_again_and_what_others_said_is_said_once() {
    let (mut rig, archive) = found(2, 3).await;
    let mut listener = rig.listen(FOUND).await;
    let agent = we_say(&mut rig, &archive, &mut listener, None, 4).await;
    // The agent went on by itself: that was ours, too.
    archive.change(id(), |conversation| conversation.turns.push(FakeTurn::new(5, "background", "done").of(None)));
    rig.engine.look_at_archives().await;
    somebody(&archive, 6);
    rig.engine.look_at_archives().await;
    listener.until("chat/turnComplete").await;
    agent.closed().await;
    let said = [expected(1..=4), expected(6..=6)].concat();
    assert_eq!(turns(&listener), said);
    // Not even in another life, and not by somebody who dies in between.
    rig.engine.look_at_archives().await;
    let rig = rig.crash().await;
    assert_eq!(turns(&rig.listen(FOUND).await), said);
    let mut rig = rig.restart().await;
    somebody(&archive, 7);
    let mut listener = rig.listen(FOUND).await;
    let said = [said, expected(7..=7)].concat();
    assert_eq!(turns(&listener), said, "it is there when the session is opened");
    we_say(&mut rig, &archive, &mut listener, None, 8).await;
    assert_eq!(turns(&listener), [said, expected(8..=8)].concat());
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn a_message_is_said_after_what_others_said_although_nobody_has_told_of_it() {
    let (mut rig, archive) = found(2, 3).await;
    let mut listener = rig.listen(FOUND).await;
    somebody(&archive, 4);
    we_say(&mut rig, &archive, &mut listener, None, 5).await;
    assert_eq!(turns(&listener), expected(1..=5));
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn while_somebody_else_is_in_the_middle_of_a_turn_nothing_is_said_here() {
    let (mut rig, archive) = found(2, 3).await;
    let now = jiff::Timestamp::now().to_string();
    let mut turn = FakeTurn::new(4, "message 4", "answer 4");
    turn.mark = TurnMark { over: false, ..turn.mark };
    (turn.began, turn.ended) = (Some(now.clone()), Some(now));
    archive.change(id(), |conversation| conversation.turns.push(turn));
    let mut listener = rig.listen(FOUND).await;
    assert_eq!(turns(&listener), expected(1..=3));
    assert_eq!(listener.chat.as_ref().unwrap().activity.as_deref(), Some("Continued elsewhere"));
    rig.say(FOUND, "t5", "message 5").await;
    listener.until("chat/turnStarted rejected: the conversation is being continued elsewhere").await;
    archive.change(id(), |conversation| conversation.turns[3].mark.over = true);
    rig.engine.look_at_archives().await;
    listener.until("chat/turnComplete").await;
    assert_eq!(listener.chat.as_ref().unwrap().activity, None);
    we_say(&mut rig, &archive, &mut listener, None, 5).await;
    assert_eq!(turns(&listener), expected(1..=5));
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn a_turn_that_nobody_has_finished_long_ago_keeps_nobody_from_going_on() {
    let (mut rig, archive) = found(2, 3).await;
    archive.change(id(), |conversation| conversation.turns[2].mark.over = false);
    let mut listener = rig.listen(FOUND).await;
    assert_eq!(turns(&listener), expected(1..=3));
    we_say(&mut rig, &archive, &mut listener, None, 4).await;
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn what_a_process_says_of_itself_counts_more_than_the_age_of_its_words() {
    let (mut rig, archive) = found(2, 3).await;
    archive.change(id(), |conversation| {
        conversation.turns[2].mark.over = false;
        conversation.lead = Some(Lead::Busy);
    });
    let mut listener = rig.listen(FOUND).await;
    assert_eq!(turns(&listener), expected(1..=2));
    rig.say(FOUND, "t4", "message 4").await;
    listener.until("chat/turnStarted rejected").await;
    archive.change(id(), |conversation| conversation.lead = Some(Lead::Idle));
    we_say(&mut rig, &archive, &mut listener, None, 4).await;
    assert_eq!(turns(&listener), expected(1..=4), "it was left as it was");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn a_turn_says_that_somebody_else_went_on_meanwhile() {
    let (mut rig, archive) = found(2, 3).await;
    let mut listener = rig.listen(FOUND).await;
    rig.say(FOUND, "t4", "message 4").await;
    let mut agent = rig.starts.next().await.succeed();
    agent.prompt().await;
    somebody(&archive, 5);
    rig.engine.look_at_archives().await;
    listener.until("chat/responsePart systemNotification").await;
    agent.answer(1, "answer ", "4").await;
    listener.until("chat/turnComplete").await;
    listener.until("chat/turnComplete").await;
    assert_eq!(turns(&listener).last().unwrap(), "message 5: answer 5");
    agent.closed().await;
    rig.engine.shutdown().await;
}

/// Queues a message.
async fn queue(rig: &Rig, id: &str, text: &str) {
    let action = json!({ "type": "chat/pendingMessageSet", "kind": "queued", "id": id,
        "message": { "text": text, "origin": { "kind": "user" } } });
    rig.engine.dispatch(wish(&default_chat_uri(FOUND), 1, action, None)).await;
}

/// Begins to say something here, and to write it into the record.
async fn we_begin(rig: &mut Rig, archive: &FakeArchive, n: u32) -> FakeAgent {
    rig.say(FOUND, &format!("t{n}"), &format!("message {n}")).await;
    let mut agent = rig.starts.next().await.succeed();
    let sent = agent.whole_prompt().await.id();
    let turn = FakeTurn::new(n, &format!("message {n}"), &format!("answer {n}"));
    archive.change(id(), |conversation| conversation.turns.push(turn.of(sent)));
    agent
}

#[tokio::test]
async fn a_queued_message_is_said_after_what_others_said_meanwhile() {
    let (mut rig, archive) = found(2, 3).await;
    let mut listener = rig.listen(FOUND).await;
    let agent = we_begin(&mut rig, &archive, 4).await;
    queue(&rig, "q", "message 6").await;
    listener.until("chat/pendingMessageSet").await;
    somebody(&archive, 5);
    agent.answer(4, "answer ", "4").await;
    // The agent knows nothing of it, so another one is asked.
    let (_, next) = tokio::join!(agent.closed(), rig.starts.next());
    let mut next = next.succeed();
    assert_eq!(next.prompt().await, "message 6");
    next.answer(6, "answer ", "6").await;
    while turns(&listener).len() < 6 {
        listener.until("chat/turnComplete").await;
    }
    assert_eq!(turns(&listener), expected(1..=6));
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn a_queued_message_waits_until_somebody_else_is_done() {
    let (mut rig, archive) = found(2, 3).await;
    let mut listener = rig.listen(FOUND).await;
    let agent = we_begin(&mut rig, &archive, 4).await;
    queue(&rig, "q", "message 6").await;
    listener.until("chat/pendingMessageSet").await;
    somebody(&archive, 5);
    archive.change(id(), |conversation| conversation.lead = Some(Lead::Busy));
    agent.answer(4, "answer ", "4").await;
    while listener.chat.as_ref().unwrap().activity.as_deref() != Some("Continued elsewhere") {
        listener.next().await;
    }
    let chat = listener.chat.as_ref().unwrap();
    assert_eq!((chat.active_turn.is_some(), chat.queued_messages.as_ref().unwrap().len()), (false, 1));
    assert_eq!(turns(&listener), expected(1..=4));
    archive.change(id(), |conversation| conversation.lead = Some(Lead::Idle));
    rig.engine.look_at_archives().await;
    let (_, next) = tokio::join!(agent.closed(), rig.starts.next());
    let mut next = next.succeed();
    assert_eq!(next.prompt().await, "message 6");
    next.answer(6, "answer ", "6").await;
    while turns(&listener).len() < 6 {
        listener.until("chat/turnComplete").await;
    }
    assert_eq!(turns(&listener), expected(1..=6));
    assert_eq!(listener.chat.as_ref().unwrap().activity, None);
    rig.engine.shutdown().await;
}

/// What a turn says before its answer.
fn note(listener: &Listener, turn: usize) -> String {
    match &listener.chat.as_ref().unwrap().turns[turn].response_parts[0] {
        ResponsePart::SystemNotification(part) => format!("{:?}", part.content),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn what_somebody_else_said_while_our_turn_ran_is_shown_though_the_conversation_went_on_from_ours() {
    let (mut rig, archive) = found(2, 3).await;
    let mut listener = rig.listen(FOUND).await;
    let agent = we_begin(&mut rig, &archive, 4).await;
    agent.answer(4, "answer ", "4").await;
    listener.until("chat/turnComplete").await;
    let theirs = FakeTurn::new(5, "message 5", "answer 5");
    let on = FakeTurn::new(6, "background", "done").of(None);
    // A command is what the agent makes of somebody's wish; and long ago somebody has led their own turns back.
    let mut command = FakeTurn::new(7, "/model another", "set");
    command.mark.command = true;
    let before = FakeTurn::new(8, "message 8", "answer 8");
    archive.change(id(), |conversation| {
        conversation.strays = vec![(before, 1), (theirs.clone(), 3), (on, 3), (command, 3)];
    });
    rig.engine.look_at_archives().await;
    listener.until("chat/turnComplete").await;
    listener.until("chat/turnComplete").await;
    assert_eq!(turns(&listener)[..4], expected(1..=4));
    assert!(note(&listener, 4).contains("remembers only one of the two"));
    assert!(turns(&listener)[5].starts_with("background"));
    // Their agent goes on from there: ours is left.
    archive.change(id(), |conversation| {
        let ours = conversation.turns.pop().unwrap();
        conversation.turns.push(theirs);
        conversation.turns.push(FakeTurn::new(9, "message 9", "answer 9"));
        conversation.strays = vec![(ours, 3)];
    });
    rig.engine.look_at_archives().await;
    listener.until("chat/turnComplete").await;
    agent.closed().await;
    assert_eq!(turns(&listener).len(), 7);
    assert!(note(&listener, 6).contains("does not remember what was said between"));
    let said = turns(&listener);
    let rig = rig.crash().await;
    let mut listener = rig.listen(FOUND).await;
    assert_eq!(turns(&listener), said);
    somebody(&archive, 10);
    rig.engine.look_at_archives().await;
    listener.until("chat/turnComplete").await;
    assert_eq!(turns(&listener), [said, expected(10..=10)].concat(), "it is said once");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn a_turn_that_was_begun_while_ours_ran_says_so() {
    let (mut rig, archive) = found(2, 3).await;
    let mut listener = rig.listen(FOUND).await;
    let agent = we_begin(&mut rig, &archive, 4).await;
    let mut theirs = FakeTurn::new(5, "message 5", "answer 5");
    theirs.began = Some(jiff::Timestamp::now().to_string());
    agent.answer(4, "answer ", "4").await;
    listener.until("chat/turnComplete").await;
    // Our agent has not written all of it down yet.
    archive.change(id(), |conversation| conversation.turns.push(theirs));
    rig.engine.look_at_archives().await;
    listener.until("chat/turnComplete").await;
    assert!(note(&listener, 4).contains("remembers only one of the two"));
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn a_turn_of_ours_that_others_do_not_know_is_said_to_be_forgotten() {
    let (mut rig, archive) = found(2, 3).await;
    let mut listener = rig.listen(FOUND).await;
    let agent = we_say(&mut rig, &archive, &mut listener, None, 4).await;
    // Somebody whose agent was there all the time goes on from the turn before; nobody has looked since.
    archive.change(id(), |conversation| {
        let ours = conversation.turns.pop().unwrap();
        conversation.turns.push(FakeTurn::new(5, "message 5", "answer 5"));
        conversation.strays = vec![(ours, 3)];
    });
    let (_, next) = tokio::join!(agent.closed(), we_say(&mut rig, &archive, &mut listener, None, 6));
    assert_eq!(turns(&listener).len(), 6);
    assert!(note(&listener, 4).contains("does not remember what was said between"));
    assert_eq!(turns(&listener)[5..], expected(6..=6));
    drop(next);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn somebody_who_is_at_work_beside_ours_is_waited_for() {
    let (mut rig, archive) = found(2, 3).await;
    let mut listener = rig.listen(FOUND).await;
    let agent = we_say(&mut rig, &archive, &mut listener, None, 4).await;
    let mut theirs = FakeTurn::new(5, "message 5", "answer 5");
    theirs.mark.over = false;
    archive.change(id(), |conversation| {
        conversation.strays = vec![(theirs, 3)];
        conversation.lead = Some(Lead::Busy);
    });
    rig.say(FOUND, "t6", "message 6").await;
    listener.until("chat/turnStarted rejected: the conversation is being continued elsewhere").await;
    archive.change(id(), |conversation| {
        conversation.strays[0].0.mark.over = true;
        conversation.lead = None;
    });
    let agent = we_say(&mut rig, &archive, &mut listener, Some(agent), 6).await;
    assert!(note(&listener, 4).contains("remembers only one of the two"));
    assert_eq!(turns(&listener)[5..], expected(6..=6), "the agent knows the conversation");
    drop(agent);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn what_others_say_in_a_session_at_rest_is_heard_without_anybody_opening_it() {
    let (rig, archive) = found(2, 3).await;
    drop(rig.listen(FOUND).await);
    let rig = rig.restart().await;
    rig.engine.look_at_archives().await;
    let (root, mut told) = hostler_engine::Subscriber::new(100);
    rig.engine.subscribe(hostler_engine::ROOT, &root, 1).await.unwrap();
    somebody(&archive, 4);
    rig.engine.look_at_archives().await;
    let last = |rig: &Rig| rig.engine.list_sessions(None, None).unwrap().summaries()[0].modified_at.clone();
    while last(&rig) != "2026-01-01T00:04:02.000Z" {
        told.recv().await.unwrap();
    }
    assert_eq!(turns(&rig.listen(FOUND).await), expected(1..=4));
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn whoever_opens_a_session_does_not_wait_for_what_others_said() {
    let (mut rig, archive) = found(2, 3).await;
    drop(rig.listen(FOUND).await);
    rig = rig.restart().await;
    (4..=60).for_each(|n| somebody(&archive, n));
    archive.let_open(false);
    let mut listener = rig.listen(FOUND).await;
    assert_eq!(turns(&listener), expected(1..=3));
    archive.let_open(true);
    while turns(&listener).len() < 60 {
        listener.until("chat/turnComplete").await;
    }
    assert_eq!(turns(&listener), expected(1..=60));
    // But whoever says something says it after all of it.
    (61..=100).for_each(|n| somebody(&archive, n));
    we_say(&mut rig, &archive, &mut listener, None, 101).await;
    assert_eq!(turns(&listener), expected(1..=101));
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn a_command_that_somebody_else_gives_behind_what_was_said_here_is_theirs() {
    let (mut rig, archive) = found(2, 3).await;
    let mut listener = rig.listen(FOUND).await;
    let agent = we_say(&mut rig, &archive, &mut listener, None, 4).await;
    let mut command = FakeTurn::new(5, "/compact", "done");
    command.mark.command = true;
    archive.change(id(), |conversation| conversation.turns.push(command));
    rig.engine.look_at_archives().await;
    listener.until("chat/turnComplete").await;
    agent.closed().await;
    assert_eq!(turns(&listener), [expected(1..=4), vec!["/compact: done".into()]].concat());
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn a_command_of_ours_is_known_in_another_life_and_long_after() {
    let (mut rig, archive) = found(1, 3).await;
    let mut listener = rig.listen(FOUND).await;
    rig.say(FOUND, "t4", "/compact  now").await;
    let mut agent = rig.starts.next().await.succeed();
    agent.prompt().await;
    agent.answer(1, "a", "b").await;
    listener.until("chat/turnComplete").await;
    let mut rig = rig.restart().await;
    let mut listener = rig.listen(FOUND).await;
    for n in 5..=6 {
        rig.say(FOUND, &format!("t{n}"), &format!("message {n}")).await;
        if n == 5 {
            agent = rig.starts.next().await.succeed();
        }
        agent.prompt().await;
        agent.answer(n, "answer ", &n.to_string()).await;
        listener.until("chat/turnComplete").await;
    }
    // Only now it is written down; and once more by somebody else.
    for (n, answer) in [(7, "ab"), (8, "theirs")] {
        let mut command = FakeTurn::new(n, "/compact now", answer);
        command.mark.command = true;
        archive.change(id(), |conversation| conversation.turns.push(command));
    }
    rig.engine.look_at_archives().await;
    listener.until("chat/turnComplete").await;
    assert_eq!(turns(&listener)[6..], ["/compact now: theirs"]);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn a_command_that_the_agent_gave_another_id_is_known_by_its_words() {
    let (mut rig, archive) = found(2, 3).await;
    let mut listener = rig.listen(FOUND).await;
    rig.say(FOUND, "t4", "/compact").await;
    let mut agent = rig.starts.next().await.succeed();
    agent.prompt().await;
    agent.answer(1, "a", "b").await;
    listener.until("chat/turnComplete").await;
    let command = FakeTurn::new(4, "/compact", "").of(Some(Uuid::new_v4()));
    archive.change(id(), |conversation| conversation.turns.push(command));
    // The same words, said once more by somebody else.
    archive.change(id(), |conversation| conversation.turns.push(FakeTurn::new(5, "/compact", "c")));
    rig.engine.look_at_archives().await;
    listener.until("chat/turnComplete").await;
    assert_eq!(turns(&listener), [expected(1..=3), vec!["/compact: ab".into(), "/compact: c".into()]].concat());
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn a_session_of_an_earlier_version_is_not_told_what_it_said_itself() {
    let (mut rig, archive) = found(2, 0).await;
    // The session is made here; its record is what an earlier version would have left.
    archive.remove(id());
    let (mut listener, agent) = {
        rig.create(crate::common::SESSION);
        let listener = rig.listen(crate::common::SESSION).await;
        rig.say(crate::common::SESSION, "t1", "message 1").await;
        (listener, rig.starts.next().await.succeed())
    };
    let session = Uuid::try_parse(crate::common::SESSION.strip_prefix("claude:/").unwrap()).unwrap();
    agent.emit(DriverEvent::ResumeToken(ResumeToken(format!("record-{session}")))).await;
    agent.answer(1, "answer ", "1").await;
    listener.until("chat/turnComplete").await;
    rig.engine.shutdown().await;
    let database = rusqlite::Connection::open(rig.state.join("hostler.db")).unwrap();
    database.execute("UPDATE snapshots SET body = json_remove(body, '$.heard')", []).unwrap();
    drop(database);
    archive.put(session, &rig.work, 3);
    let rig = rig.restart().await;
    let mut listener = rig.listen(crate::common::SESSION).await;
    assert_eq!(turns(&listener), ["message 1: answer 1"]);
    let next = FakeTurn::new(4, "message 4", "answer 4");
    archive.change(session, |conversation| conversation.turns.push(next));
    rig.engine.look_at_archives().await;
    listener.until("chat/turnComplete").await;
    assert_eq!(turns(&listener), ["message 1: answer 1", "message 4: answer 4"]);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn a_record_that_cannot_be_read_is_tried_again_when_it_is_opened_again() {
    let (rig, archive) = found(2, 3).await;
    let failed = hostler_driver::ArchiveError::Failed("the disk is on fire".to_owned());
    archive.change(id(), |conversation| conversation.broken = Some(failed));
    let listener = Listener::new(FOUND);
    let refused = rig.engine.subscribe(FOUND, &listener.subscriber, 1).await.unwrap_err();
    assert!(refused.to_string().contains("the disk is on fire"), "{refused}");
    archive.change(id(), |conversation| conversation.broken = None);
    assert_eq!(turns(&rig.listen(FOUND).await), expected(1..=3));
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn a_turn_that_goes_on_after_it_was_taken_in_is_told_as_a_whole() {
    let (rig, archive) = found(2, 3).await;
    archive.change(id(), |conversation| conversation.turns[2].mark.over = false);
    let mut listener = rig.listen(FOUND).await;
    assert_eq!(turns(&listener), expected(1..=3));
    // Longer, though by nothing that another look would not find again.
    let go_on = |length, answer: &str| {
        let told = FakeTurn::new(3, "message 3", answer);
        let mark = TurnMark { length, ..told.mark };
        archive.change(id(), |conversation| conversation.turns[2] = FakeTurn { mark, ..told });
    };
    go_on(4, "answer 3, and more");
    rig.engine.look_at_archives().await;
    listener.until("chat/turnComplete").await;
    let all = turns(&listener);
    assert_eq!(all[..3], expected(1..=3));
    assert!(all[3].contains("This turn went on") && all[3].ends_with("answer 3, and more"), "{all:?}");
    // Once; also by a host that has died since.
    let rig = rig.crash().await;
    let mut listener = rig.listen(FOUND).await;
    assert_eq!(turns(&listener), all);
    go_on(5, "answer 3, and still more");
    somebody(&archive, 4);
    rig.engine.look_at_archives().await;
    listener.until("chat/turnComplete").await;
    listener.until("chat/turnComplete").await;
    assert!(turns(&listener)[4].ends_with("answer 3, and still more"));
    assert_eq!(turns(&listener)[5..], expected(4..=4));
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn what_our_own_agent_adds_to_others_turn_is_not_told_again() {
    let (mut rig, archive) = found(2, 3).await;
    let mut listener = rig.listen(FOUND).await;
    we_say(&mut rig, &archive, &mut listener, None, 4).await;
    archive.change(id(), |conversation| conversation.turns[2].mark.length = 2);
    rig.engine.look_at_archives().await;
    somebody(&archive, 5);
    rig.engine.look_at_archives().await;
    listener.until("chat/turnComplete").await;
    assert_eq!(turns(&listener), expected(1..=5));
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn a_turn_that_looks_as_if_it_were_over_waits_for_a_process_that_is_busy() {
    let (mut rig, archive) = found(2, 2).await;
    let mut listener = rig.listen(FOUND).await;
    archive.change(id(), |conversation| conversation.lead = Some(Lead::Busy));
    somebody(&archive, 3);
    rig.say(FOUND, "t4", "message 4").await;
    listener.until("chat/turnStarted rejected: the conversation is being continued elsewhere").await;
    assert_eq!(turns(&listener), expected(1..=2));
    // One that does not say what it does does not hold up what is over.
    archive.change(id(), |conversation| conversation.lead = Some(Lead::Silent));
    we_say(&mut rig, &archive, &mut listener, None, 4).await;
    assert_eq!(turns(&listener), expected(1..=4));
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn a_process_that_says_nothing_is_at_an_unfinished_turn_however_old_it_is() {
    let (mut rig, archive) = found(2, 3).await;
    archive.change(id(), |conversation| {
        conversation.turns[2].mark.over = false;
        conversation.lead = Some(Lead::Silent);
    });
    let mut listener = rig.listen(FOUND).await;
    assert_eq!(turns(&listener), expected(1..=2));
    rig.say(FOUND, "t4", "message 4").await;
    listener.until("chat/turnStarted rejected").await;
    archive.change(id(), |conversation| conversation.lead = None);
    we_say(&mut rig, &archive, &mut listener, None, 4).await;
    assert_eq!(turns(&listener), expected(1..=4));
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn nobody_goes_on_in_a_record_that_is_gone() {
    let (mut rig, archive) = found(2, 3).await;
    archive.change(id(), |conversation| {
        conversation.turns[2].mark.over = false;
        conversation.lead = Some(Lead::Busy);
    });
    let mut listener = rig.listen(FOUND).await;
    assert_eq!(listener.chat.as_ref().unwrap().activity.as_deref(), Some("Continued elsewhere"));
    let failed = hostler_driver::ArchiveError::Failed("the disk is away".to_owned());
    archive.change(id(), |conversation| conversation.broken = Some(failed));
    rig.say(FOUND, "t4", "message 4").await;
    listener.until("chat/turnStarted rejected").await;
    archive.remove(id());
    rig.say(FOUND, "t5", "message 5").await;
    let mut agent = rig.starts.next().await.succeed();
    assert_eq!(agent.prompt().await, "message 5");
    agent.answer(1, "a", "b").await;
    listener.until("chat/turnComplete").await;
    assert_eq!(listener.chat.as_ref().unwrap().activity, None);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn an_agent_that_waits_does_not_keep_a_message_from_following_what_others_said() {
    let (mut rig, archive) = found(2, 3).await;
    let mut listener = rig.listen(FOUND).await;
    let agent = we_say(&mut rig, &archive, &mut listener, None, 4).await;
    // Nobody has told of it.
    somebody(&archive, 5);
    let (_, agent) = tokio::join!(agent.closed(), we_say(&mut rig, &archive, &mut listener, None, 6));
    assert_eq!(turns(&listener), expected(1..=6));
    drop(agent);
    rig.engine.shutdown().await;
}
