//! The steps that can happen.

use proptest::prelude::*;

use crate::expected_policy::{Book, Deed, MODES};

/// Few ids, so that they collide.
pub(crate) const IDS: u8 = 8;

#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// The model writes a call.
    Call { call: u8, deed: Deed },
    /// The agent requests permission, whether or not the call was reported, and whether or not the gate would let it
    /// ask.
    Ask { request: u8, call: u8, deed: Deed, sub_agent: bool },
    /// The agent asks the gate.
    Gate { call: u8, deed: Deed, sub_agent: bool },
    /// The agent withdraws a request.
    Withdraw { request: u8 },
    /// The agent reports the end of a call.
    Finish { call: u8, success: bool },
    /// A client answers a call.
    Say(Word),
    /// Two clients answer at the same time.
    Both(Word, Word),
    /// The last answer is sent again, as after a lost connection.
    Repeat,
    /// The mode changes; optionally followed by an answer to a call.
    Mode { mode: &'static str, word: Option<Word> },
    /// The rules file changes.
    Rules(Book),
    /// The agent ends the turn.
    End,
    /// A client cancels the turn; the agent obeys or has to be closed.
    Cancel { obeys: bool },
    /// The agent crashes.
    Die,
    /// The next message is sent.
    Turn,
}

/// A client's answer to a call.
#[derive(Debug, Clone)]
pub(crate) struct Word {
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
    Deed(Deed),
    Broken,
}

fn id() -> impl Strategy<Value = u8> {
    0..IDS
}

fn deed() -> impl Strategy<Value = Deed> {
    prop::sample::select(Deed::ALL.to_vec())
}

fn word() -> impl Strategy<Value = Word> {
    let yes = ["allow-once", "allow-session", "allow-always-1"].map(Some);
    let no = ["deny", "deny-tell"].map(Some);
    // Mostly valid answers, and sometimes contradictory ones.
    let said = prop_oneof![
        4 => (Just(true), Just(None)),
        6 => (Just(true), prop::sample::select(yes.to_vec())),
        3 => (Just(false), prop::sample::select(no.to_vec())),
        1 => (any::<bool>(), prop::sample::select([yes.as_slice(), &no, &[Some("nonsense")]].concat())),
    ];
    let edit = prop_oneof![8 => Just(Edit::None), 2 => deed().prop_map(Edit::Deed), 1 => Just(Edit::Broken)];
    let aimed = prop::bool::weighted(0.7);
    (id(), aimed, said, edit, prop::bool::weighted(0.9)).prop_map(
        |(call, aimed, (approved, option), edit, right_turn)| Word { call, aimed, approved, option, edit, right_turn },
    )
}

pub(crate) fn any_step() -> impl Strategy<Value = Step> {
    let sub_agent = || prop::bool::weighted(0.3);
    prop_oneof![
        3 => (id(), deed()).prop_map(|(call, deed)| Step::Call { call, deed }),
        12 => (id(), id(), deed(), sub_agent())
            .prop_map(|(request, call, deed, sub_agent)| Step::Ask { request, call, deed, sub_agent }),
        3 => (id(), deed(), sub_agent()).prop_map(|(call, deed, sub_agent)| Step::Gate { call, deed, sub_agent }),
        3 => id().prop_map(|request| Step::Withdraw { request }),
        4 => (id(), any::<bool>()).prop_map(|(call, success)| Step::Finish { call, success }),
        12 => word().prop_map(Step::Say),
        4 => (word(), word()).prop_map(|(one, other)| Step::Both(one, other)),
        2 => Just(Step::Repeat),
        3 => (prop::sample::select(MODES.to_vec()), prop::option::of(word()))
            .prop_map(|(mode, word)| Step::Mode { mode, word }),
        3 => prop::sample::select(Book::ALL.to_vec()).prop_map(Step::Rules),
        1 => Just(Step::End),
        1 => prop::bool::weighted(0.8).prop_map(|obeys| Step::Cancel { obeys }),
        1 => Just(Step::Die),
        3 => Just(Step::Turn),
    ]
}
