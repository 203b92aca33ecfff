//! Tests of background work: events in, effects out.

use std::sync::Arc;

use super::*;

struct Fixture {
    tasks: BackgroundTasks,
    session: Session,
    on_stop: BackgroundOnStop,
    is_interrupting: bool,
}

impl Fixture {
    fn new(on_stop: BackgroundOnStop) -> Self {
        let session = Session::provisional(
            "ahp-session:/test/1".into(),
            "test".to_owned(),
            Vec::new(),
            None,
            "2026-01-01T00:00:00Z".to_owned(),
        );
        Self { tasks: BackgroundTasks::default(), session, on_stop, is_interrupting: false }
    }

    /// Carries out the published actions, and returns the other effects.
    fn on(&mut self, event: BackgroundEvent) -> Vec<BackgroundEffect> {
        let sub_agent_chat = |agent: &str| (agent == "agent").then(|| "ahp-chat:/agent".to_owned());
        let context = BackgroundContext {
            session: &self.session,
            on_stop: self.on_stop,
            is_interrupting: self.is_interrupting,
            now: "2026-01-01T00:00:01Z".to_owned(),
            sub_agent_chat: &sub_agent_chat,
        };
        let mut others = Vec::new();
        for effect in self.tasks.on(event, &context) {
            let (channel, action) = match effect {
                BackgroundEffect::PublishInChat(action) => (Arc::clone(&self.session.chat_uri), action),
                BackgroundEffect::PublishInSession(action) => (Arc::clone(&self.session.uri), action),
                other => {
                    others.push(other);
                    continue;
                }
            };
            self.session.apply(&channel, &action);
        }
        others
    }

    fn displayed(&self) -> Vec<&str> {
        self.session.chat.background_work.iter().flatten().filter_map(work_id).collect()
    }

    /// The options of the displayed question.
    fn options(&self) -> Option<Vec<String>> {
        background_on_stop::has_stop_question(&self.session.session).then(|| self.tasks.tasks.keys().cloned().collect())
    }
}

fn task(id: &str, kind: BackgroundTaskKind) -> BackgroundEvent {
    BackgroundEvent::Changed(BackgroundTask {
        id: id.to_owned(),
        kind,
        description: format!("work {id}"),
        call_id: None,
    })
}

fn shell(id: &str) -> BackgroundEvent {
    task(id, BackgroundTaskKind::Shell)
}

fn moved(id: &str) -> BackgroundEffect {
    BackgroundEffect::MoveToBackground(id.to_owned())
}

#[test]
fn work_is_displayed_until_it_ends() {
    let mut fixture = Fixture::new(BackgroundOnStop::Keep);
    assert_eq!(fixture.on(shell("a")), [moved("a")]);
    fixture.on(task("agent", BackgroundTaskKind::SubAgent));
    fixture.on(task("hidden", BackgroundTaskKind::SubAgent));
    assert_eq!(fixture.displayed(), ["a", "agent"], "a sub-agent without a chat is not displayed");
    assert!(fixture.tasks.contains("hidden"));
    fixture.on(BackgroundEvent::Ended("a".to_owned()));
    assert_eq!((fixture.displayed(), fixture.tasks.contains("a")), (vec!["agent"], false));
}

#[test]
fn changed_work_retains_its_start_time() {
    let mut fixture = Fixture::new(BackgroundOnStop::Keep);
    fixture.on(shell("a"));
    let work = fixture.session.chat.background_work.clone();
    Arc::make_mut(&mut fixture.session.chat).background_work = work.map(|mut work| {
        if let Some(BackgroundWork::Shell(shell)) = work.first_mut() {
            shell.started_at = "2025-01-01T00:00:00Z".to_owned();
        }
        work
    });
    fixture.on(shell("a"));
    let work = fixture.session.chat.background_work.as_deref().unwrap_or_default();
    assert!(matches!(work, [BackgroundWork::Shell(shell)] if shell.started_at == "2025-01-01T00:00:00Z"), "{work:?}");
}

#[test]
fn stopped_turn_keeps_or_stops_the_work() {
    let mut fixture = Fixture::new(BackgroundOnStop::Keep);
    fixture.on(shell("a"));
    assert_eq!(fixture.on(BackgroundEvent::TurnStopped), []);
    let mut fixture = Fixture::new(BackgroundOnStop::Stop);
    assert_eq!(fixture.on(BackgroundEvent::TurnStopped), [], "no work");
    fixture.on(shell("b"));
    fixture.on(shell("a"));
    let both = vec!["a".to_owned(), "b".to_owned()];
    assert_eq!(fixture.on(BackgroundEvent::TurnStopped), [BackgroundEffect::Stop(both)]);
}

#[test]
fn work_that_starts_while_the_turn_is_stopped_follows_the_policy() {
    let mut fixture = Fixture::new(BackgroundOnStop::Stop);
    fixture.on(shell("a"));
    fixture.is_interrupting = true;
    assert_eq!(fixture.on(shell("b")), [moved("b"), BackgroundEffect::Stop(vec!["b".to_owned()])]);
    assert_eq!(fixture.on(shell("b")), [moved("b")], "only new work");
    let mut fixture = Fixture { is_interrupting: true, ..Fixture::new(BackgroundOnStop::Ask) };
    fixture.on(shell("a"));
    assert_eq!(fixture.options(), Some(vec!["a".to_owned()]));
}

#[test]
fn question_lists_the_current_work_and_ends_with_it() {
    let mut fixture = Fixture::new(BackgroundOnStop::Ask);
    fixture.on(BackgroundEvent::TurnStopped);
    assert_eq!(fixture.options(), None, "no work");
    fixture.on(shell("a"));
    fixture.on(shell("b"));
    fixture.on(BackgroundEvent::TurnStopped);
    fixture.on(BackgroundEvent::Ended("a".to_owned()));
    assert_eq!(fixture.options(), Some(vec!["b".to_owned()]));
    fixture.on(BackgroundEvent::Ended("b".to_owned()));
    assert_eq!(fixture.options(), None);
}

#[test]
fn answer_selects_the_work_to_stop() {
    let mut fixture = Fixture::new(BackgroundOnStop::Ask);
    fixture.on(shell("a"));
    fixture.on(BackgroundEvent::TurnStopped);
    let request_id = fixture.tasks.question.as_ref().unwrap().id.clone();
    let declined = ChatInputCompletedAction { request_id, response: ChatInputResponseKind::Decline, answers: None };
    assert_eq!(fixture.tasks.chosen_tasks(&declined).unwrap().unwrap(), Vec::<String>::new());
    let other = ChatInputCompletedAction { request_id: "other".to_owned(), ..declined };
    assert!(fixture.tasks.chosen_tasks(&other).is_none());
    let chosen = vec!["a".to_owned()];
    assert_eq!(fixture.on(BackgroundEvent::Answered(chosen.clone())), [BackgroundEffect::Stop(chosen)]);
    assert!(fixture.tasks.question.is_none());
}

#[test]
fn end_of_the_process_ends_all_work_and_the_question() {
    let mut fixture = Fixture::new(BackgroundOnStop::Ask);
    fixture.on(shell("a"));
    fixture.on(BackgroundEvent::TurnStopped);
    assert_eq!(fixture.on(BackgroundEvent::AgentEnded), [BackgroundEffect::EndSubAgents]);
    assert_eq!((fixture.displayed(), fixture.options(), fixture.tasks.is_empty()), (Vec::new(), None, true));
}

#[test]
fn number_of_tracked_pieces_is_limited() {
    let mut fixture = Fixture::new(BackgroundOnStop::Keep);
    for id in 0..MAX_BACKGROUND_TASKS {
        fixture.on(shell(&id.to_string()));
    }
    assert_eq!(fixture.on(shell("more")), []);
    assert!(!fixture.tasks.contains("more"));
}
