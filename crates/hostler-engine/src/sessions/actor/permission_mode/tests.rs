//! Tests of the permission mode: events in, effects out. A client's change is its name.

use super::*;

use ModeEffect::{Abandon, Accept, BeginInGate, CloseAgent, Follow, Send, SetAgentMode, Settle};
use PermissionMode::{AcceptEdits, Bypass, Default as Ask, Plan};

type Modes = ModeChanges<&'static str>;

/// A live agent in this mode, and a session in `Ask`.
fn live(agent_mode: &str) -> ModeContext<'_> {
    ModeContext { agent_mode: Some(agent_mode), is_live: true, configured: Ask, chosen: Ask }
}

fn request(change: &'static str, mode: PermissionMode) -> ModeEvent<&'static str> {
    ModeEvent::Requested { change, mode }
}

fn answer(mode: &'static str) -> ModeEvent<&'static str> {
    ModeEvent::Answered { mode, result: Ok(()), is_current: true }
}

const SETTLED: ModeEvent<&str> = ModeEvent::Settled { resync: true, is_current: true };

#[test]
fn change_without_an_agent_is_accepted_at_once() {
    let absent = ModeContext { agent_mode: None, is_live: false, ..live("default") };
    let starting = ModeContext { is_live: false, ..live("default") };
    for context in [absent, starting] {
        let effects = Modes::default().on(request("a", Plan), context);
        assert_eq!(effects, [BeginInGate(Plan), Accept("a")]);
    }
}

#[test]
fn change_waits_for_the_live_agent() {
    let mut modes = Modes::default();
    assert_eq!(modes.on(request("a", Plan), live("default")), [BeginInGate(Plan), Send("plan")]);
    let effects = modes.on(answer("plan"), live("default"));
    assert_eq!(effects, [SetAgentMode("plan".to_owned()), Accept("a"), Settle { resync: true, is_current: true }]);
}

#[test]
fn mode_that_the_agent_has_already_is_not_sent() {
    assert_eq!(Modes::default().on(request("a", Bypass), live("default")), [BeginInGate(Bypass), Accept("a")]);
}

#[test]
fn further_changes_wait_and_are_carried_out_in_order() {
    let mut modes = Modes::default();
    modes.on(request("a", Plan), live("default"));
    assert_eq!(modes.on(request("b", Ask), live("default")), [BeginInGate(Ask)]);
    assert_eq!(modes.on(request("c", Bypass), live("default")), [BeginInGate(Bypass)]);
    assert_eq!(modes.pending().copied().collect::<Vec<_>>(), ["a", "b", "c"]);
    let effects = modes.on(answer("plan"), live("default"));
    let plan = || SetAgentMode("plan".to_owned());
    assert_eq!(effects, [plan(), Accept("a"), Send("default"), Settle { resync: false, is_current: true }]);
    let effects = modes.on(answer("default"), live("plan"));
    let ask = SetAgentMode("default".to_owned());
    assert_eq!(effects, [ask, Accept("b"), Accept("c"), Settle { resync: true, is_current: true }]);
}

#[test]
fn number_of_waiting_changes_is_limited() {
    let mut modes = Modes::default();
    for _ in 0..MAX_PENDING_MODE_CHANGES {
        assert!(!modes.is_full());
        modes.on(request("a", Plan), live("default"));
    }
    assert!(modes.is_full());
}

#[test]
fn agent_that_does_not_accept_the_mode_is_closed() {
    let mut modes = Modes::default();
    modes.on(request("a", Plan), live("default"));
    modes.on(request("b", Ask), live("default"));
    let refused = || ConnectionError::Refused("no".to_owned());
    let answer = ModeEvent::Answered { mode: "plan", result: Err(refused()), is_current: true };
    let effects = modes.on(answer, live("default"));
    assert_eq!(effects, [Abandon("a", refused()), Abandon("b", refused()), CloseAgent(refused())]);
}

#[test]
fn answer_of_an_ended_agent_accepts_the_change() {
    let mut modes = Modes::default();
    modes.on(request("a", Plan), live("default"));
    let answer = ModeEvent::Answered { mode: "plan", result: Err(ConnectionError::Exited(None)), is_current: false };
    let gone = ModeContext { agent_mode: None, is_live: false, ..live("default") };
    assert_eq!(modes.on(answer, gone), [Accept("a"), Settle { resync: true, is_current: false }]);
}

#[test]
fn change_that_was_not_stored_resets_the_agent() {
    let mut modes = Modes::default();
    modes.on(request("a", Plan), live("default"));
    modes.on(answer("plan"), live("default"));
    assert_eq!(modes.on(SETTLED, live("plan")), [Send("default")]);
    let stored = ModeContext { configured: Plan, ..live("plan") };
    assert_eq!(modes.on(SETTLED, stored), []);
}

#[test]
fn agent_that_opened_under_an_earlier_mode_gets_the_current_one() {
    let configured = ModeContext { configured: Plan, ..live("default") };
    assert_eq!(Modes::default().on(ModeEvent::AgentOpened, configured), [Send("plan")]);
    assert_eq!(Modes::default().on(ModeEvent::AgentOpened, live("default")), []);
}

#[test]
fn session_follows_a_stricter_mode_of_the_agent() {
    let effects = Modes::default().on(ModeEvent::Reported("plan".to_owned()), live("default"));
    assert_eq!(effects, [SetAgentMode("plan".to_owned()), Follow("plan", Plan)]);
    let effects = Modes::default().on(ModeEvent::Reported("default".to_owned()), live("plan"));
    assert_eq!(effects, [SetAgentMode("default".to_owned())], "the configured mode");
}

#[test]
fn agent_with_a_looser_mode_is_set_back() {
    let effects = Modes::default().on(ModeEvent::Reported("acceptEdits".to_owned()), live("default"));
    assert_eq!(effects, [SetAgentMode("acceptEdits".to_owned()), Send("default")]);
}

#[test]
fn report_during_a_change_counts_after_it() {
    let mut modes = Modes::default();
    modes.on(request("a", AcceptEdits), live("default"));
    assert_eq!(modes.on(ModeEvent::Reported("plan".to_owned()), live("default")), []);
    modes.on(answer("acceptEdits"), live("default"));
    let stored = ModeContext { configured: AcceptEdits, chosen: AcceptEdits, ..live("acceptEdits") };
    assert_eq!(modes.on(SETTLED, stored), [SetAgentMode("plan".to_owned()), Follow("plan", Plan)]);
    assert_eq!(modes.on(SETTLED, stored), [], "once");
}

#[test]
fn report_of_an_ended_agent_is_dropped() {
    let mut modes = Modes::default();
    modes.on(request("a", Plan), live("default"));
    modes.on(ModeEvent::Reported("plan".to_owned()), live("default"));
    modes.on(ModeEvent::Answered { mode: "plan", result: Ok(()), is_current: false }, live("default"));
    let settled = ModeEvent::Settled { resync: false, is_current: false };
    assert_eq!(modes.on(settled, live("default")), []);
    assert_eq!(modes.on(SETTLED, live("default")), []);
}
