//! Questions, plans and folder trust as AHP input requests, and what a client's answers mean for the agent. Pure.
//! Does not know who answers or when.

use ahp_types::state::{
    ChatInputAnswer, ChatInputAnswerValue, ChatInputAnswered, ChatInputBooleanQuestion, ChatInputMultiSelectQuestion,
    ChatInputNumberQuestion, ChatInputOption, ChatInputQuestion, ChatInputRequest, ChatInputResponseKind,
    ChatInputSingleSelectQuestion, ChatInputTextQuestion,
};
use hostler_driver::{Answer, Question, QuestionAnswer, QuestionKind, QuestionOption};
use hostler_trust::{TrustAssessment, TrustDecision};

use super::{AnswerError, folder_trust_form};

/// Maximum length of a free-text answer.
const MAX_ANSWER_BYTES: usize = 64 * 1024;

const DECLINED_MESSAGE: &str = "The user does not want to answer.";
const PLAN_DECLINED_MESSAGE: &str = "The user did not accept this plan yet. Keep planning.";
const PLAN_WITHOUT_TEXT_MESSAGE: &str = "The agent proposes to carry out its plan.";

/// Id of the only question about a plan, and of its options.
const PLAN_QUESTION_ID: &str = "plan";
const PLAN_QUESTION_TEXT: &str = "Carry out this plan? To request changes, describe them.";
const ACCEPT_EDITS_OPTION: &str = "accept-edits";
const DEFAULT_OPTION: &str = "default";
const REVISE_OPTION: &str = "revise";

/// Questions that are answered together.
#[derive(Debug)]
pub(crate) struct InputForm {
    message: Option<String>,
    questions: Vec<Question>,
    subject: FormSubject,
}

/// What the form is about.
#[derive(Debug)]
enum FormSubject {
    /// Questions of a tool or an MCP server.
    Agent,
    /// The agent's plan.
    Plan,
    /// The configuration of a folder; the host asks.
    Folder(Box<TrustAssessment>),
}

/// What the answers mean.
#[derive(Debug)]
pub(crate) enum FormOutcome {
    /// The agent receives this answer.
    AnswerAgent(Answer),
    /// The plan is carried out, in this permission mode.
    AcceptPlan(&'static str),
    /// The decision about the folder. `None`: its configuration is ignored in this session, and nothing is stored.
    DecideFolder(Option<TrustDecision>),
}

impl InputForm {
    /// Creates a form for questions of a tool or of an MCP server.
    pub(crate) fn new(message: Option<String>, questions: Vec<Question>) -> Self {
        Self { message, questions, subject: FormSubject::Agent }
    }

    /// Creates a form that asks whether the configuration of a folder applies.
    pub(crate) fn for_folder(assessment: TrustAssessment) -> Self {
        let message = Some(folder_trust_form::describe_configuration(&assessment));
        Self {
            message,
            questions: vec![folder_trust_form::trust_question()],
            subject: FormSubject::Folder(Box::new(assessment)),
        }
    }

    /// The folder in question, as it was when the question was created.
    pub(crate) fn assessment(&self) -> Option<&TrustAssessment> {
        match &self.subject {
            FormSubject::Folder(assessment) => Some(assessment),
            FormSubject::Agent | FormSubject::Plan => None,
        }
    }

    /// Creates a form that asks whether to carry out a plan.
    pub(crate) fn for_plan(plan: Option<String>) -> Self {
        let option =
            |id: &str, label: &str| QuestionOption { id: id.to_owned(), label: label.to_owned(), description: None };
        let options = vec![
            option(ACCEPT_EDITS_OPTION, "Carry it out, and edit files without asking"),
            option(DEFAULT_OPTION, "Carry it out, and ask before changes"),
            option(REVISE_OPTION, "Keep planning"),
        ];
        let question = Question {
            id: PLAN_QUESTION_ID.to_owned(),
            header: Some("Plan".to_owned()),
            text: PLAN_QUESTION_TEXT.to_owned(),
            kind: QuestionKind::Choice { options, allows_multiple: false, allows_free_text: true },
            required: true,
        };
        let message = plan.unwrap_or_else(|| PLAN_WITHOUT_TEXT_MESSAGE.to_owned());
        Self { message: Some(message), questions: vec![question], subject: FormSubject::Plan }
    }

    /// Returns the request that clients receive.
    pub(crate) fn to_request(&self, id: String) -> ChatInputRequest {
        let questions = self.questions.iter().map(to_ahp_question).collect::<Vec<_>>();
        ChatInputRequest {
            id,
            message: self.message.clone(),
            url: None,
            questions: (!questions.is_empty()).then_some(questions),
            answers: None,
        }
    }

    /// Outcome without a person; `None` for questions, which have no default answer, and for a plan that is not
    /// allowed. No folder is trusted without a person.
    pub(crate) fn unattended_outcome(&self, allowed: bool) -> Option<FormOutcome> {
        match self.subject {
            FormSubject::Plan => allowed.then_some(FormOutcome::AcceptPlan("default")),
            FormSubject::Folder(_) => Some(FormOutcome::DecideFolder(None)),
            FormSubject::Agent => None,
        }
    }

    pub(super) fn has_question(&self, question: &str) -> bool {
        self.find_question(question).is_some()
    }

    fn find_question(&self, id: &str) -> Option<&Question> {
        self.questions.iter().find(|question| question.id == id)
    }

    pub(super) fn check_draft(&self, id: &str, answer: Option<&ChatInputAnswer>) -> Result<(), AnswerError> {
        let question =
            self.find_question(id).ok_or_else(|| AnswerError::UnknownQuestion { question: id.to_owned() })?;
        match answer {
            Some(answer) => parse_answer(question, answer).map(drop),
            None => Ok(()),
        }
    }

    /// Returns what a client's answers mean.
    pub(crate) fn evaluate(
        &self,
        response: ChatInputResponseKind,
        answer: impl Fn(&str) -> Option<ChatInputAnswer>,
    ) -> Result<FormOutcome, AnswerError> {
        let denied = |message: &str| Ok(FormOutcome::AnswerAgent(Answer::Deny { message: message.to_owned() }));
        match (response, &self.subject) {
            (ChatInputResponseKind::Accept, _) => {}
            (_, FormSubject::Folder(_)) => return Ok(FormOutcome::DecideFolder(None)),
            (_, FormSubject::Plan) => return denied(PLAN_DECLINED_MESSAGE),
            (ChatInputResponseKind::Cancel, FormSubject::Agent) => return Ok(FormOutcome::AnswerAgent(Answer::Skip)),
            (ChatInputResponseKind::Decline, FormSubject::Agent) => return denied(DECLINED_MESSAGE),
        }
        let mut answers = Vec::new();
        for question in &self.questions {
            let given = answer(&question.id).map(|answer| parse_answer(question, &answer)).transpose()?.flatten();
            match given {
                Some(given) => answers.push((question.id.clone(), given)),
                None if question.required => {
                    return Err(AnswerError::AnswerRequired { question: question.text.clone() });
                }
                None => {}
            }
        }
        match self.subject {
            FormSubject::Plan => plan_outcome(&answers),
            FormSubject::Folder(_) => Ok(FormOutcome::DecideFolder(Some(folder_trust_form::parse_decision(&answers)?))),
            FormSubject::Agent => Ok(FormOutcome::AnswerAgent(Answer::Answers(answers))),
        }
    }
}

/// Returns what a person decided about a plan.
fn plan_outcome(answers: &[(String, QuestionAnswer)]) -> Result<FormOutcome, AnswerError> {
    let Some((_, QuestionAnswer::Selected { options, free_text })) = answers.first() else {
        return Err(AnswerError::AnswerRequired { question: PLAN_QUESTION_TEXT.to_owned() });
    };
    let free_text_values = free_text.join("\n");
    let chosen = options.first().map(String::as_str);
    match chosen {
        Some(ACCEPT_EDITS_OPTION | DEFAULT_OPTION) if !free_text_values.trim().is_empty() => {
            Err(AnswerError::CommentOnAcceptedPlan)
        }
        Some(ACCEPT_EDITS_OPTION) => Ok(FormOutcome::AcceptPlan("acceptEdits")),
        Some(DEFAULT_OPTION) => Ok(FormOutcome::AcceptPlan("default")),
        _ => {
            let message =
                if free_text_values.trim().is_empty() { PLAN_DECLINED_MESSAGE.to_owned() } else { free_text_values };
            Ok(FormOutcome::AnswerAgent(Answer::Deny { message }))
        }
    }
}

/// Parses the answer to a question; `None` if it is left open.
fn parse_answer(question: &Question, answer: &ChatInputAnswer) -> Result<Option<QuestionAnswer>, AnswerError> {
    let value = match answer {
        ChatInputAnswer::Draft(ChatInputAnswered { value })
        | ChatInputAnswer::Submitted(ChatInputAnswered { value }) => value,
        ChatInputAnswer::Skipped(skipped) => {
            let free_text_values = parse_free_text(question, skipped.freeform_values.as_deref())?;
            let said = !free_text_values.is_empty();
            return Ok(said.then_some(QuestionAnswer::Selected { options: Vec::new(), free_text: free_text_values }));
        }
    };
    let wrong = || AnswerError::WrongType { question: question.text.clone() };
    match (&question.kind, value) {
        (QuestionKind::Text, ChatInputAnswerValue::Text(text)) => {
            check_answer_length(&text.value)?;
            Ok((!text.value.is_empty()).then(|| QuestionAnswer::Text(text.value.clone())))
        }
        (QuestionKind::Number { is_integer: whole }, ChatInputAnswerValue::Number(number)) => {
            let fits = number.value.is_finite() && (!whole || number.value.fract() == 0.0);
            if fits { Ok(Some(QuestionAnswer::Number(number.value))) } else { Err(wrong()) }
        }
        (QuestionKind::Boolean, ChatInputAnswerValue::Boolean(answer)) => {
            Ok(Some(QuestionAnswer::Boolean(answer.value)))
        }
        (QuestionKind::Choice { allows_multiple: false, .. }, ChatInputAnswerValue::Selected(selected)) => {
            let ids = [selected.value.clone()].into_iter().filter(|id| !id.is_empty()).collect();
            parse_choice(question, ids, selected.freeform_values.as_deref())
        }
        (QuestionKind::Choice { allows_multiple: true, .. }, ChatInputAnswerValue::SelectedMany(selected)) => {
            parse_choice(question, selected.value.clone(), selected.freeform_values.as_deref())
        }
        // Free text instead of an option.
        (QuestionKind::Choice { .. }, ChatInputAnswerValue::Text(text)) => {
            parse_choice(question, Vec::new(), Some(std::slice::from_ref(&text.value)))
        }
        _ => Err(wrong()),
    }
}

fn parse_choice(
    question: &Question,
    ids: Vec<String>,
    free_text_values: Option<&[String]>,
) -> Result<Option<QuestionAnswer>, AnswerError> {
    let QuestionKind::Choice { options, .. } = &question.kind else { return Ok(None) };
    for (at, id) in ids.iter().enumerate() {
        if !options.iter().any(|option| option.id == *id) {
            return Err(AnswerError::UnknownChoice { question: question.text.clone(), option: id.clone() });
        }
        if ids.iter().skip(at + 1).any(|other| other == id) {
            return Err(AnswerError::DuplicateChoice { option: id.clone() });
        }
    }
    let free_text = parse_free_text(question, free_text_values)?;
    let said = !(ids.is_empty() && free_text.is_empty());
    Ok(said.then_some(QuestionAnswer::Selected { options: ids, free_text }))
}

fn parse_free_text(question: &Question, free_text_values: Option<&[String]>) -> Result<Vec<String>, AnswerError> {
    let free_text_values: Vec<_> =
        free_text_values.unwrap_or_default().iter().filter(|text| !text.trim().is_empty()).cloned().collect();
    if !free_text_values.is_empty() && !matches!(question.kind, QuestionKind::Choice { allows_free_text: true, .. }) {
        return Err(AnswerError::FreeTextNotAllowed { question: question.text.clone() });
    }
    free_text_values.iter().try_for_each(|text| check_answer_length(text))?;
    Ok(free_text_values)
}

fn check_answer_length(text: &str) -> Result<(), AnswerError> {
    if text.len() > MAX_ANSWER_BYTES { Err(AnswerError::TooLong { max_bytes: MAX_ANSWER_BYTES }) } else { Ok(()) }
}

fn to_ahp_question(question: &Question) -> ChatInputQuestion {
    let (id, title, message) = (question.id.clone(), question.header.clone(), question.text.clone());
    let required = Some(question.required);
    match &question.kind {
        QuestionKind::Text => ChatInputQuestion::Text(ChatInputTextQuestion {
            id,
            title,
            message,
            required,
            format: None,
            min: None,
            max: None,
            default_value: None,
        }),
        QuestionKind::Number { is_integer: whole } => {
            let question =
                ChatInputNumberQuestion { id, title, message, required, min: None, max: None, default_value: None };
            if *whole { ChatInputQuestion::Integer(question) } else { ChatInputQuestion::Number(question) }
        }
        QuestionKind::Boolean => {
            ChatInputQuestion::Boolean(ChatInputBooleanQuestion { id, title, message, required, default_value: None })
        }
        QuestionKind::Choice { options, allows_multiple: multiple, allows_free_text: free_text } => {
            let options = options.iter().map(|option| ChatInputOption {
                id: option.id.clone(),
                label: option.label.clone(),
                description: option.description.clone(),
                recommended: None,
            });
            let (options, allow_freeform_input) = (options.collect(), Some(*free_text));
            if *multiple {
                ChatInputQuestion::MultiSelect(ChatInputMultiSelectQuestion {
                    id,
                    title,
                    message,
                    required,
                    options,
                    allow_freeform_input,
                    min: None,
                    max: None,
                })
            } else {
                ChatInputQuestion::SingleSelect(ChatInputSingleSelectQuestion {
                    id,
                    title,
                    message,
                    required,
                    options,
                    allow_freeform_input,
                })
            }
        }
    }
}
