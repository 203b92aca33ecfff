//! Questions as AHP words them, and what their answers mean to the agent.

use ahp_types::state::{
    ChatInputAnswer, ChatInputAnswerValue, ChatInputAnswered, ChatInputBooleanQuestion, ChatInputMultiSelectQuestion,
    ChatInputNumberQuestion, ChatInputOption, ChatInputQuestion, ChatInputRequest, ChatInputResponseKind,
    ChatInputSingleSelectQuestion, ChatInputTextQuestion,
};
use hostler_driver::{Answer, Choice, Question, QuestionAnswer, QuestionKind};
use hostler_trust::{Assessment, Decision};

use super::{Refusal, folder};

/// The longest answer in own words.
const MAX_TEXT: usize = 64 * 1024;

const DECLINED: &str = "The user does not want to answer.";
const PLAN_DECLINED: &str = "The user does not want this plan to be carried out yet. Keep planning.";
const PLAN_UNSEEN: &str = "The agent proposes to carry out its plan.";

/// The one question about a plan, and its options.
const PLAN: &str = "plan";
const ACCEPT_EDITS: &str = "accept-edits";
const DEFAULT: &str = "default";
const REVISE: &str = "revise";

/// What is asked together.
#[derive(Debug)]
pub(crate) struct Form {
    message: Option<String>,
    questions: Vec<Question>,
    about: About,
}

/// Who asks, and about what.
#[derive(Debug)]
enum About {
    /// A tool or an MCP server.
    Agent,
    /// The agent, about its plan.
    Plan,
    /// The host, about the configuration of a folder.
    Folder(Box<Assessment>),
}

/// What the answers mean.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The agent is told.
    Answered(Answer),
    /// The plan is carried out, in this permission mode.
    Proceed(&'static str),
    /// What was decided about the folder. Nothing: it is ignored in this session, and not remembered.
    Folder(Option<Decision>),
}

impl Form {
    /// Questions of a tool or of an MCP server.
    pub(crate) fn new(message: Option<String>, questions: Vec<Question>) -> Self {
        Self { message, questions, about: About::Agent }
    }

    /// Whether the configuration of a folder may apply.
    pub(crate) fn folder(assessment: Assessment) -> Self {
        let message = Some(folder::message(&assessment));
        Self { message, questions: vec![folder::question()], about: About::Folder(Box::new(assessment)) }
    }

    /// The folder that is asked about, as it was when the question was made.
    pub(crate) fn assessment(&self) -> Option<&Assessment> {
        match &self.about {
            About::Folder(assessment) => Some(assessment),
            About::Agent | About::Plan => None,
        }
    }

    /// A plan that wants to be carried out.
    pub(crate) fn plan(plan: Option<String>) -> Self {
        let option = |id: &str, label: &str| Choice { id: id.to_owned(), label: label.to_owned(), description: None };
        let options = vec![
            option(ACCEPT_EDITS, "Carry it out, and edit files without asking"),
            option(DEFAULT, "Carry it out, and ask before changes"),
            option(REVISE, "Keep planning"),
        ];
        let question = Question {
            id: PLAN.to_owned(),
            header: Some("Plan".to_owned()),
            text: "Carry out this plan? Own words tell the agent what to change.".to_owned(),
            kind: QuestionKind::Choice { options, multiple: false, free_text: true },
            required: true,
        };
        let message = plan.unwrap_or_else(|| PLAN_UNSEEN.to_owned());
        Self { message: Some(message), questions: vec![question], about: About::Plan }
    }

    /// As clients see it.
    pub(crate) fn request(&self, id: String) -> ChatInputRequest {
        let questions = self.questions.iter().map(question).collect::<Vec<_>>();
        ChatInputRequest {
            id,
            message: self.message.clone(),
            url: None,
            questions: (!questions.is_empty()).then_some(questions),
            answers: None,
        }
    }

    /// What is done without an answer; nothing for questions, which have no yes. No folder is trusted without a person.
    pub(crate) fn unattended(&self, allowed: bool) -> Option<Outcome> {
        match self.about {
            About::Plan => allowed.then_some(Outcome::Proceed("default")),
            About::Folder(_) => Some(Outcome::Folder(None)),
            About::Agent => None,
        }
    }

    pub(super) fn has(&self, question: &str) -> bool {
        self.find(question).is_some()
    }

    fn find(&self, id: &str) -> Option<&Question> {
        self.questions.iter().find(|question| question.id == id)
    }

    pub(super) fn check_draft(&self, id: &str, answer: Option<&ChatInputAnswer>) -> Result<(), Refusal> {
        let question = self.find(id).ok_or_else(|| format!("there is no question {id:?}"))?;
        match answer {
            Some(answer) => meaning(question, answer).map(drop),
            None => Ok(()),
        }
    }

    /// What a client's answers mean.
    pub(crate) fn outcome(
        &self,
        response: ChatInputResponseKind,
        answer: impl Fn(&str) -> Option<ChatInputAnswer>,
    ) -> Result<Outcome, Refusal> {
        let denied = |message: &str| Ok(Outcome::Answered(Answer::Deny { message: message.to_owned() }));
        match (response, &self.about) {
            (ChatInputResponseKind::Accept, _) => {}
            (_, About::Folder(_)) => return Ok(Outcome::Folder(None)),
            (_, About::Plan) => return denied(PLAN_DECLINED),
            (ChatInputResponseKind::Cancel, About::Agent) => return Ok(Outcome::Answered(Answer::Skip)),
            (ChatInputResponseKind::Decline, About::Agent) => return denied(DECLINED),
        }
        let mut answers = Vec::new();
        for question in &self.questions {
            let given = answer(&question.id).map(|answer| meaning(question, &answer)).transpose()?.flatten();
            match given {
                Some(given) => answers.push((question.id.clone(), given)),
                None if question.required => return Err(format!("{:?} needs an answer", question.text)),
                None => {}
            }
        }
        match self.about {
            About::Plan => decision(&answers),
            About::Folder(_) => Ok(Outcome::Folder(Some(folder::decision(&answers)?))),
            About::Agent => Ok(Outcome::Answered(Answer::Answers(answers))),
        }
    }
}

/// What is to become of a plan.
fn decision(answers: &[(String, QuestionAnswer)]) -> Result<Outcome, Refusal> {
    let Some((_, QuestionAnswer::Chosen { options, free_text })) = answers.first() else {
        return Err("say what is to become of the plan".to_owned());
    };
    let words = free_text.join("\n");
    let chosen = options.first().map(String::as_str);
    match chosen {
        Some(ACCEPT_EDITS | DEFAULT) if !words.trim().is_empty() => {
            Err("a plan is carried out as it is; own words go with \"Keep planning\"".to_owned())
        }
        Some(ACCEPT_EDITS) => Ok(Outcome::Proceed("acceptEdits")),
        Some(DEFAULT) => Ok(Outcome::Proceed("default")),
        _ => {
            let message = if words.trim().is_empty() { PLAN_DECLINED.to_owned() } else { words };
            Ok(Outcome::Answered(Answer::Deny { message }))
        }
    }
}

/// What an answer says to a question; nothing if it leaves it open.
fn meaning(question: &Question, answer: &ChatInputAnswer) -> Result<Option<QuestionAnswer>, Refusal> {
    let value = match answer {
        ChatInputAnswer::Draft(ChatInputAnswered { value })
        | ChatInputAnswer::Submitted(ChatInputAnswered { value }) => value,
        ChatInputAnswer::Skipped(skipped) => {
            let words = own_words(question, skipped.freeform_values.as_deref())?;
            let said = !words.is_empty();
            return Ok(said.then_some(QuestionAnswer::Chosen { options: Vec::new(), free_text: words }));
        }
    };
    let wrong = || format!("the answer to {:?} is not of the kind that was asked for", question.text);
    match (&question.kind, value) {
        (QuestionKind::Text, ChatInputAnswerValue::Text(text)) => {
            bounded(&text.value)?;
            Ok((!text.value.is_empty()).then(|| QuestionAnswer::Text(text.value.clone())))
        }
        (QuestionKind::Number { whole }, ChatInputAnswerValue::Number(number)) => {
            let fits = number.value.is_finite() && (!whole || number.value.fract() == 0.0);
            if fits { Ok(Some(QuestionAnswer::Number(number.value))) } else { Err(wrong()) }
        }
        (QuestionKind::YesOrNo, ChatInputAnswerValue::Boolean(answer)) => {
            Ok(Some(QuestionAnswer::YesOrNo(answer.value)))
        }
        (QuestionKind::Choice { multiple: false, .. }, ChatInputAnswerValue::Selected(selected)) => {
            let ids = [selected.value.clone()].into_iter().filter(|id| !id.is_empty()).collect();
            chosen(question, ids, selected.freeform_values.as_deref())
        }
        (QuestionKind::Choice { multiple: true, .. }, ChatInputAnswerValue::SelectedMany(selected)) => {
            chosen(question, selected.value.clone(), selected.freeform_values.as_deref())
        }
        // Own words instead of a choice.
        (QuestionKind::Choice { .. }, ChatInputAnswerValue::Text(text)) => {
            chosen(question, Vec::new(), Some(std::slice::from_ref(&text.value)))
        }
        _ => Err(wrong()),
    }
}

fn chosen(question: &Question, ids: Vec<String>, words: Option<&[String]>) -> Result<Option<QuestionAnswer>, Refusal> {
    let QuestionKind::Choice { options, .. } = &question.kind else { return Ok(None) };
    for (at, id) in ids.iter().enumerate() {
        if !options.iter().any(|option| option.id == *id) {
            return Err(format!("{:?} has no option {id:?}", question.text));
        }
        if ids.iter().skip(at + 1).any(|other| other == id) {
            return Err(format!("the option {id:?} is chosen twice"));
        }
    }
    let free_text = own_words(question, words)?;
    let said = !(ids.is_empty() && free_text.is_empty());
    Ok(said.then_some(QuestionAnswer::Chosen { options: ids, free_text }))
}

fn own_words(question: &Question, words: Option<&[String]>) -> Result<Vec<String>, Refusal> {
    let words: Vec<_> = words.unwrap_or_default().iter().filter(|text| !text.trim().is_empty()).cloned().collect();
    if !words.is_empty() && !matches!(question.kind, QuestionKind::Choice { free_text: true, .. }) {
        return Err(format!("{:?} cannot be answered in own words", question.text));
    }
    words.iter().try_for_each(|text| bounded(text))?;
    Ok(words)
}

fn bounded(text: &str) -> Result<(), Refusal> {
    if text.len() > MAX_TEXT { Err(format!("an answer has at most {MAX_TEXT} bytes")) } else { Ok(()) }
}

fn question(question: &Question) -> ChatInputQuestion {
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
        QuestionKind::Number { whole } => {
            let question =
                ChatInputNumberQuestion { id, title, message, required, min: None, max: None, default_value: None };
            if *whole { ChatInputQuestion::Integer(question) } else { ChatInputQuestion::Number(question) }
        }
        QuestionKind::YesOrNo => {
            ChatInputQuestion::Boolean(ChatInputBooleanQuestion { id, title, message, required, default_value: None })
        }
        QuestionKind::Choice { options, multiple, free_text } => {
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
