//! Tests of the folder's trust: assessments in, effects out.

use std::path::PathBuf;

use hostler_driver::WorkspaceConfiguration;
use hostler_trust::{TrustState, TrustedBy};

use super::*;

static NO_TURN: TurnPhase = TurnPhase::None;
static PUBLISHED: Value = Value::Null;

/// A folder with a configuration in this state.
fn assessment(state: TrustState) -> TrustAssessment {
    let problem = Some("a configuration".to_owned());
    let configuration = WorkspaceConfiguration { fingerprint: "1".to_owned(), problem, ..Default::default() };
    TrustAssessment { directory: PathBuf::from("/work"), configuration, state }
}

fn undecided() -> TrustAssessment {
    assessment(TrustState::Undecided)
}

fn trusted() -> TrustAssessment {
    assessment(TrustState::Trusted(TrustedBy::Person))
}

fn running() -> TurnPhase {
    TurnPhase::Running { turn: "turn".to_owned(), agent_initiated: false }
}

/// A session that is opening its agent, and whose trust is published already.
fn context(turn: &TurnPhase) -> FolderContext<'_> {
    FolderContext {
        turn,
        is_current: true,
        is_waiting: true,
        live_configuration: None,
        published: Some(&PUBLISHED),
        asked: None,
        trust_version: 7,
    }
}

/// The effects without publications.
fn on(
    folder: &FolderTrust,
    purpose: AssessmentPurpose,
    assessment: Option<TrustAssessment>,
    context: FolderContext<'_>,
) -> Vec<FolderEffect> {
    let event = FolderEvent::Assessed { purpose, version: 7, assessment: assessment.map(Box::new) };
    let effects = folder.on(event, context).into_iter();
    effects.filter(|effect| !matches!(effect, FolderEffect::Publish(_))).collect()
}

fn setup(configuration: FolderConfiguration) -> FolderEffect {
    FolderEffect::StartAgent(FolderSetup { configuration, rules: Vec::new(), trust_version: 7 })
}

fn prompt() -> AssessmentPurpose {
    AssessmentPurpose::SendPrompt("turn".to_owned())
}

#[test]
fn agent_starts_with_the_configuration_that_applies() {
    let (folder, turn) = (FolderTrust::default(), running());
    let context = context(&turn);
    let applied = trusted().folder_configuration();
    assert!(matches!(applied, FolderConfiguration::Applied { .. }));
    assert_eq!(on(&folder, AssessmentPurpose::OpenAgent, Some(trusted()), context), [setup(applied)]);
    let restricted = assessment(TrustState::Restricted);
    for ignored in [Some(restricted), None] {
        let effects = on(&folder, AssessmentPurpose::OpenAgent, ignored, context);
        assert_eq!(effects, [setup(FolderConfiguration::Ignored)]);
    }
}

#[test]
fn undecided_folder_is_asked_about_in_a_turn_and_until_the_question_is_skipped() {
    let (mut folder, turn) = (FolderTrust::default(), running());
    let in_turn = context(&turn);
    let open = || AssessmentPurpose::OpenAgent;
    assert_eq!(on(&folder, open(), Some(undecided()), in_turn), [FolderEffect::Ask(undecided())]);
    let prewarming = context(&NO_TURN);
    assert_eq!(on(&folder, open(), Some(undecided()), prewarming), [FolderEffect::AbandonPrewarm]);
    folder.skip_question();
    assert_eq!(on(&folder, open(), Some(undecided()), in_turn), [setup(FolderConfiguration::Ignored)]);
}

#[test]
fn assessment_of_a_cancelled_or_earlier_attempt_opens_nothing() {
    let (folder, turn) = (FolderTrust::default(), running());
    let cancelled = FolderContext { is_waiting: false, ..context(&turn) };
    let effects = on(&folder, AssessmentPurpose::OpenAgent, Some(trusted()), cancelled);
    assert_eq!(effects, [FolderEffect::FinishClosing]);
    let earlier = FolderContext { is_current: false, ..context(&turn) };
    assert_eq!(on(&folder, AssessmentPurpose::OpenAgent, Some(trusted()), earlier), []);
    assert_eq!(on(&folder, prompt(), Some(trusted()), earlier), []);
}

#[test]
fn assessment_is_repeated_if_a_decision_was_made_meanwhile() {
    let (folder, turn) = (FolderTrust::default(), running());
    let later = FolderContext { trust_version: 8, ..context(&turn) };
    let purposes: [fn() -> AssessmentPurpose; 3] =
        [|| AssessmentPurpose::OpenAgent, prompt, || AssessmentPurpose::TrustChanged];
    for purpose in purposes {
        assert_eq!(on(&folder, purpose(), Some(trusted()), later), [FolderEffect::Assess(purpose())]);
    }
}

#[test]
fn prompt_reaches_only_an_agent_with_the_configuration_that_applies() {
    let (folder, turn) = (FolderTrust::default(), running());
    let applied = trusted().folder_configuration();
    let same = FolderContext { live_configuration: Some(&applied), ..context(&turn) };
    assert_eq!(on(&folder, prompt(), Some(trusted()), same), [FolderEffect::SendPrompt("turn".to_owned())]);
    for other in [Some(assessment(TrustState::Restricted)), Some(undecided()), None] {
        assert_eq!(on(&folder, prompt(), other, same), [FolderEffect::Reopen("turn".to_owned())]);
    }
    let ended = FolderContext { turn: &NO_TURN, ..same };
    assert_eq!(on(&folder, prompt(), Some(trusted()), ended), [FolderEffect::DropPrompt("turn".to_owned())]);
}

#[test]
fn question_is_withdrawn_if_another_assessment_applies() {
    let (folder, turn, asked) = (FolderTrust::default(), running(), undecided());
    let asking = FolderContext { asked: Some(&asked), ..context(&turn) };
    let changed = || AssessmentPurpose::TrustChanged;
    assert_eq!(on(&folder, changed(), Some(undecided()), asking), []);
    assert_eq!(on(&folder, changed(), Some(trusted()), asking), [FolderEffect::WithdrawQuestion("trusted")]);
    assert_eq!(on(&folder, changed(), None, asking), [FolderEffect::WithdrawQuestion("unknown")]);
    assert_eq!(on(&folder, changed(), Some(trusted()), FolderContext { asked: None, ..asking }), []);
}

#[test]
fn trust_is_published_when_it_changes() {
    let (mut folder, turn) = (FolderTrust::default(), running());
    let publish = |folder: &FolderTrust, assessment: TrustAssessment, published: Option<&Value>| {
        let purpose = AssessmentPurpose::TrustChanged;
        let event = FolderEvent::Assessed { purpose, version: 7, assessment: Some(Box::new(assessment)) };
        let context = FolderContext { published, ..context(&turn) };
        folder.on(event, context).into_iter().find_map(|effect| match effect {
            FolderEffect::Publish(trust) => Some(trust),
            _ => None,
        })
    };
    let empty = TrustAssessment { configuration: WorkspaceConfiguration::default(), ..assessment(TrustState::Empty) };
    assert_eq!(publish(&folder, empty, None), None, "a folder without a configuration is not mentioned");
    let published = publish(&folder, undecided(), None).unwrap();
    assert_eq!(published["state"], undecided().state.name());
    assert_eq!(publish(&folder, undecided(), Some(&published)), None);
    folder.skip_question();
    assert_eq!(publish(&folder, undecided(), Some(&published)).unwrap()["state"], "restricted");
}

#[test]
fn decision_elsewhere_matters_only_to_a_session_that_mentions_the_folder() {
    let (folder, turn) = (FolderTrust::default(), running());
    let mentioned = context(&turn);
    let assess = [FolderEffect::Assess(AssessmentPurpose::TrustChanged)];
    assert_eq!(folder.on(FolderEvent::TrustChanged, mentioned), assess);
    let unmentioned = FolderContext { published: None, ..mentioned };
    assert_eq!(folder.on(FolderEvent::TrustChanged, unmentioned), []);
}
