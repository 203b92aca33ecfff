//! Workspace trust in a session: decides what follows from an assessment of its folder.
//!
//! A component like the turn machine: no clock, no I/O, no channels; `folder_assessment.rs` carries out its effects. The
//! folder is assessed before an agent is opened and before a message reaches a live one. Where a person has to decide,
//! opening the agent waits for the answer. The decisions are in `hostler_trust`; one that is made elsewhere reaches the
//! session as another assessment.

use hostler_driver::{FolderConfiguration, FolderRule};
use hostler_trust::TrustAssessment;
use serde_json::{Value, json};

use crate::sessions::turn::TurnPhase;

#[cfg(test)]
mod tests;

/// The reason for an assessment.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum AssessmentPurpose {
    /// An agent is about to be opened.
    OpenAgent,
    /// A live agent is about to get the message of this turn.
    SendPrompt(String),
    /// A trust decision was made, here or elsewhere.
    TrustChanged,
}

/// The folder configuration that an agent is opened with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FolderSetup {
    pub(super) configuration: FolderConfiguration,
    /// The permission rules of the configuration, effective if it is applied.
    pub(super) rules: Vec<FolderRule>,
    /// The version of the trust decisions that it is based on.
    pub(super) trust_version: u64,
}

/// What the component reads.
#[derive(Debug, Clone, Copy)]
pub(super) struct FolderContext<'a> {
    pub(super) turn: &'a TurnPhase,
    /// Whether the event belongs to the current attempt to open an agent.
    pub(super) is_current: bool,
    /// Whether opening the agent waits.
    pub(super) is_waiting: bool,
    /// The configuration that the live agent was opened with.
    pub(super) live_configuration: Option<&'a FolderConfiguration>,
    /// The trust that clients see.
    pub(super) published: Option<&'a Value>,
    /// The assessment that a person is asked about.
    pub(super) asked: Option<&'a TrustAssessment>,
    /// The current version of the trust decisions.
    pub(super) trust_version: u64,
}

/// An event of the folder's trust.
#[derive(Debug)]
pub(super) enum FolderEvent {
    /// A trust decision was made, here or elsewhere.
    TrustChanged,
    /// The folder was assessed, based on this version of the decisions; `None` if that failed.
    Assessed { purpose: AssessmentPurpose, version: u64, assessment: Option<Box<TrustAssessment>> },
}

/// An effect that `step` carries out, in order.
#[derive(Debug, PartialEq)]
pub(super) enum FolderEffect {
    /// Publish whether the folder's configuration applies.
    Publish(Value),
    /// Assess the folder, then pass [`FolderEvent::Assessed`].
    Assess(AssessmentPurpose),
    /// Start the agent.
    StartAgent(FolderSetup),
    /// Do not prewarm an agent: a person has to decide first.
    AbandonPrewarm,
    /// Ask in the turn.
    Ask(TrustAssessment),
    /// Opening was cancelled at the same moment; no process exists.
    FinishClosing,
    /// Write the turn's prompt.
    SendPrompt(String),
    /// Reopen the agent for the turn: another configuration applies now.
    Reopen(String),
    /// The turn has ended; its prompt is not written.
    DropPrompt(String),
    /// Withdraw the question, because the folder has this state now, and restart opening.
    WithdrawQuestion(&'static str),
}

/// The component. See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct FolderTrust {
    /// A person has skipped the question: the configuration is ignored, and the question is not repeated.
    question_skipped: bool,
}

impl FolderTrust {
    /// Records that a person has skipped the question, or that it could not be displayed.
    pub(super) fn skip_question(&mut self) {
        self.question_skipped = true;
    }

    /// Applies an event and returns the effects that follow.
    pub(super) fn on(&self, event: FolderEvent, context: FolderContext<'_>) -> Vec<FolderEffect> {
        match event {
            FolderEvent::TrustChanged if context.published.is_some() || context.asked.is_some() => {
                vec![FolderEffect::Assess(AssessmentPurpose::TrustChanged)]
            }
            FolderEvent::TrustChanged => Vec::new(),
            FolderEvent::Assessed { purpose, version, assessment } => {
                let publication = assessment.as_ref().and_then(|assessment| self.publication(assessment, context));
                let mut effects = Vec::from_iter(publication.map(FolderEffect::Publish));
                effects.extend(self.decide(purpose, version, assessment.map(|assessment| *assessment), context));
                effects
            }
        }
    }

    fn decide(
        &self,
        purpose: AssessmentPurpose,
        version: u64,
        assessment: Option<TrustAssessment>,
        context: FolderContext<'_>,
    ) -> Option<FolderEffect> {
        let is_late = version != context.trust_version;
        Some(match purpose {
            AssessmentPurpose::TrustChanged if is_late => FolderEffect::Assess(purpose),
            AssessmentPurpose::TrustChanged => {
                let asked = context.asked?;
                if assessment.as_ref() == Some(asked) {
                    return None;
                }
                FolderEffect::WithdrawQuestion(assessment.map_or("unknown", |assessment| assessment.state.name()))
            }
            _ if !context.is_current => return None,
            AssessmentPurpose::OpenAgent if !context.is_waiting => FolderEffect::FinishClosing,
            AssessmentPurpose::OpenAgent | AssessmentPurpose::SendPrompt(_) if is_late => FolderEffect::Assess(purpose),
            AssessmentPurpose::OpenAgent => match assessment {
                Some(assessment) if self.asks(&assessment) => match context.turn {
                    TurnPhase::None => FolderEffect::AbandonPrewarm,
                    _ => FolderEffect::Ask(assessment),
                },
                Some(assessment) => FolderEffect::StartAgent(FolderSetup {
                    configuration: assessment.folder_configuration(),
                    rules: assessment.configuration.rules,
                    trust_version: version,
                }),
                None => FolderEffect::StartAgent(FolderSetup { trust_version: version, ..FolderSetup::default() }),
            },
            AssessmentPurpose::SendPrompt(turn) => {
                let applies = assessment.as_ref().map(TrustAssessment::folder_configuration).unwrap_or_default();
                let asks = assessment.is_some_and(|assessment| self.asks(&assessment));
                match context.turn {
                    TurnPhase::Running { turn: running, .. } if *running == turn => {
                        let is_same = context.live_configuration == Some(&applies);
                        if asks || !is_same { FolderEffect::Reopen(turn) } else { FolderEffect::SendPrompt(turn) }
                    }
                    _ => FolderEffect::DropPrompt(turn),
                }
            }
        })
    }

    /// Whether a person has to decide, and has not skipped the question before.
    fn asks(&self, assessment: &TrustAssessment) -> bool {
        assessment.needs_decision() && !self.question_skipped
    }

    /// What clients see of an assessment, if that has changed. A folder that never had a configuration is not mentioned.
    fn publication(&self, assessment: &TrustAssessment, context: FolderContext<'_>) -> Option<Value> {
        let skipped = assessment.needs_decision() && self.question_skipped;
        let trust = json!({
            "state": if skipped { "restricted" } else { assessment.state.name() },
            "directory": assessment.directory.display().to_string(),
            "items": assessment.configuration.items.len(),
        });
        let is_mentioned = context.published.is_some() || !assessment.configuration.is_empty();
        (is_mentioned && context.published != Some(&trust)).then_some(trust)
    }
}
