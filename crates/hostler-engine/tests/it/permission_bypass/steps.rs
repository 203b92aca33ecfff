//! The steps that can happen.

use proptest::prelude::*;

use crate::permission_bypass::expected_policy::{MODES, RulesFile, TestCall};

/// Few ids, so that they collide.
pub(crate) const IDS: u8 = 8;

#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// The model writes a call.
    Call { call: u8, test_call: TestCall },
    /// The agent requests permission, whether or not the call was reported, and whether or not the gate would let it
    /// ask.
    Ask { request: u8, call: u8, test_call: TestCall, sub_agent: bool },
    /// The agent asks the gate.
    Gate { call: u8, test_call: TestCall, sub_agent: bool },
    /// The agent withdraws a request.
    Withdraw { request: u8 },
    /// The agent reports the end of a call.
    Finish { call: u8, success: bool },
    /// A client answers a call.
    Answer(ClientAnswer),
    /// Two clients answer at the same time.
    Both(ClientAnswer, ClientAnswer),
    /// The last answer is sent again, as after a lost connection.
    Repeat,
    /// The mode changes; optionally followed by an answer to a call.
    Mode { mode: &'static str, answer: Option<ClientAnswer> },
    /// The rules file changes.
    Rules(RulesFile),
    /// The agent ends the turn.
    End,
    /// A client cancels the turn; the agent obeys or has to be closed.
    Cancel { obeys: bool },
    /// The agent crashes.
    Crash,
    /// The next message is sent.
    Turn,
}

/// A client's answer to a call.
#[derive(Debug, Clone)]
pub(crate) struct ClientAnswer {
    pub(crate) call: u8,
    /// Whether it targets a pending call, if there is one, rather than any call.
    pub(crate) aimed: bool,
    pub(crate) approved: bool,
    pub(crate) option: Option<&'static str>,
    pub(crate) edit: Edit,
    /// Whether it names the running turn.
    pub(crate) right_turn: bool,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Edit {
    None,
    /// The input is replaced by that of this call, if the tool is the same.
    TestCall(TestCall),
    Broken,
}

fn id() -> impl Strategy<Value = u8> {
    0..IDS
}

fn test_call() -> impl Strategy<Value = TestCall> {
    prop::sample::select(TestCall::ALL.to_vec())
}

fn client_answer() -> impl Strategy<Value = ClientAnswer> {
    let yes = ["allow-once", "allow-session", "allow-always-1"].map(Some);
    let no = ["deny", "deny-with-feedback"].map(Some);
    // Mostly valid answers, and sometimes contradictory ones.
    let decision = prop_oneof![
        4 => (Just(true), Just(None)),
        6 => (Just(true), prop::sample::select(yes.to_vec())),
        3 => (Just(false), prop::sample::select(no.to_vec())),
        1 => (any::<bool>(), prop::sample::select([yes.as_slice(), &no, &[Some("nonsense")]].concat())),
    ];
    let edit = prop_oneof![8 => Just(Edit::None), 2 => test_call().prop_map(Edit::TestCall), 1 => Just(Edit::Broken)];
    let aimed = prop::bool::weighted(0.7);
    (id(), aimed, decision, edit, prop::bool::weighted(0.9)).prop_map(
        |(call, aimed, (approved, option), edit, right_turn)| ClientAnswer {
            call,
            aimed,
            approved,
            option,
            edit,
            right_turn,
        },
    )
}

pub(crate) fn any_step() -> impl Strategy<Value = Step> {
    let sub_agent = || prop::bool::weighted(0.3);
    prop_oneof![
        3 => (id(), test_call()).prop_map(|(call, test_call)| Step::Call { call, test_call }),
        12 => (id(), id(), test_call(), sub_agent())
            .prop_map(|(request, call, test_call, sub_agent)| Step::Ask { request, call, test_call, sub_agent }),
        3 => (id(), test_call(), sub_agent()).prop_map(|(call, test_call, sub_agent)| Step::Gate { call, test_call, sub_agent }),
        3 => id().prop_map(|request| Step::Withdraw { request }),
        4 => (id(), any::<bool>()).prop_map(|(call, success)| Step::Finish { call, success }),
        12 => client_answer().prop_map(Step::Answer),
        4 => (client_answer(), client_answer()).prop_map(|(one, other)| Step::Both(one, other)),
        2 => Just(Step::Repeat),
        3 => (prop::sample::select(MODES.to_vec()), prop::option::of(client_answer()))
            .prop_map(|(mode, answer)| Step::Mode { mode, answer }),
        3 => prop::sample::select(RulesFile::ALL.to_vec()).prop_map(Step::Rules),
        1 => Just(Step::End),
        1 => prop::bool::weighted(0.8).prop_map(|obeys| Step::Cancel { obeys }),
        1 => Just(Step::Crash),
        3 => Just(Step::Turn),
    ]
}
