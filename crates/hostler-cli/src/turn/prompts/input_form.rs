//! Prompt for an agent's questions, one at a time.

use std::collections::HashMap;

use ahp_types::actions::{ChatInputCompletedAction, StateAction};
use ahp_types::state::{
    ChatInputAnswer, ChatInputAnswerValue, ChatInputAnswered, ChatInputBooleanAnswerValue, ChatInputNumberAnswerValue,
    ChatInputOption, ChatInputQuestion, ChatInputRequest, ChatInputResponseKind, ChatInputSelectedAnswerValue,
    ChatInputSelectedManyAnswerValue, ChatInputTextAnswerValue,
};

use super::{LineOutcome, is_no, is_yes, parse_option_number};
use crate::escape_text::{escape_invisible, escape_invisible_line};

/// Input request, and the answers so far.
pub(super) struct InputFormPrompt {
    request: ChatInputRequest,
    question_index: usize,
    answers: HashMap<String, ChatInputAnswer>,
}

impl InputFormPrompt {
    pub(super) fn new(request: &ChatInputRequest) -> Self {
        Self { request: request.clone(), question_index: 0, answers: HashMap::new() }
    }

    pub(super) fn id(&self) -> &str {
        &self.request.id
    }

    pub(super) fn restart(&mut self) {
        (self.question_index, self.answers) = (0, HashMap::new());
    }

    fn question(&self) -> Option<&ChatInputQuestion> {
        self.request.questions.as_ref()?.get(self.question_index)
    }

    pub(super) fn prompt(&self) -> String {
        let mut text = "\n".to_owned();
        if self.question_index == 0 {
            let message = self.request.message.as_deref().map(escape_invisible);
            text.extend(message.map(|message| format!("{}\n", message.trim_end())));
            text.extend(self.request.url.as_deref().map(|url| format!("{}\n", escape_invisible_line(url))));
        }
        match self.question() {
            Some(question) => text + &format_question(question),
            None => text + "Accept? Enter y or n, or an empty line to skip: ",
        }
    }

    pub(super) fn handle_line(&mut self, line: &str) -> LineOutcome {
        let Some(question) = self.question() else {
            return match line {
                "" => self.complete(ChatInputResponseKind::Cancel),
                line if is_yes(line) => self.complete(ChatInputResponseKind::Accept),
                line if is_no(line) => self.complete(ChatInputResponseKind::Decline),
                _ => LineOutcome::Reprompt("Enter y or n: ".to_owned()),
            };
        };
        if line.is_empty() {
            // Without an answer to a required question the others are of no use.
            if question_fields(question).required {
                return self.complete(ChatInputResponseKind::Cancel);
            }
        } else {
            let id = question_fields(question).id.to_owned();
            match parse_answer(question, line) {
                Ok(value) => drop(self.answers.insert(id, ChatInputAnswer::Submitted(ChatInputAnswered { value }))),
                Err(error) => return LineOutcome::Reprompt(error.to_string()),
            }
        }
        self.question_index += 1;
        match self.question() {
            Some(_) => LineOutcome::Reprompt(self.prompt()),
            None if self.answers.is_empty() => self.complete(ChatInputResponseKind::Cancel),
            None => self.complete(ChatInputResponseKind::Accept),
        }
    }

    fn complete(&self, response: ChatInputResponseKind) -> LineOutcome {
        let answers = (response == ChatInputResponseKind::Accept).then(|| self.answers.clone());
        let request_id = self.request.id.clone();
        let action = ChatInputCompletedAction { request_id, response, answers };
        LineOutcome::Answer(Box::new(StateAction::ChatInputCompleted(action)))
    }
}

/// Fields that all kinds of questions share.
struct QuestionFields<'a> {
    id: &'a str,
    message: &'a str,
    required: bool,
    options: &'a [ChatInputOption],
    allows_freeform: bool,
}

fn question_fields(question: &ChatInputQuestion) -> QuestionFields<'_> {
    let (id, message, required, options, freeform) = match question {
        ChatInputQuestion::Text(q) => (&q.id, &q.message, q.required, &[][..], None),
        ChatInputQuestion::Number(q) | ChatInputQuestion::Integer(q) => (&q.id, &q.message, q.required, &[][..], None),
        ChatInputQuestion::Boolean(q) => (&q.id, &q.message, q.required, &[][..], None),
        ChatInputQuestion::SingleSelect(q) => (&q.id, &q.message, q.required, &*q.options, q.allow_freeform_input),
        ChatInputQuestion::MultiSelect(q) => (&q.id, &q.message, q.required, &*q.options, q.allow_freeform_input),
        ChatInputQuestion::Unknown(_) => {
            let message = "This question is of an unsupported kind.";
            return QuestionFields { id: "", message, required: true, options: &[], allows_freeform: false };
        }
    };
    QuestionFields { id, message, required: required == Some(true), options, allows_freeform: freeform == Some(true) }
}

fn format_question(question: &ChatInputQuestion) -> String {
    let fields = question_fields(question);
    let mut text = format!("? {}\n", escape_invisible(fields.message).trim_end());
    for (at, option) in fields.options.iter().enumerate() {
        let more =
            option.description.as_deref().map(|text| format!(": {}", escape_invisible_line(text))).unwrap_or_default();
        text.push_str(&format!("  {}  {}{more}\n", at + 1, escape_invisible_line(&option.label)));
    }
    format!("{text}{}, or an empty line to skip: ", answer_hint(question))
}

/// Describes what can be typed.
fn answer_hint(question: &ChatInputQuestion) -> &'static str {
    let allows_freeform = question_fields(question).allows_freeform;
    match question {
        ChatInputQuestion::Text(_) => "Enter text",
        ChatInputQuestion::Number(_) => "Enter a number",
        ChatInputQuestion::Integer(_) => "Enter a whole number",
        ChatInputQuestion::Boolean(_) => "Enter y or n",
        ChatInputQuestion::SingleSelect(_) if allows_freeform => "Enter a number or your own text",
        ChatInputQuestion::SingleSelect(_) => "Enter a number",
        ChatInputQuestion::MultiSelect(_) if allows_freeform => "Enter numbers separated by commas, or your own text",
        ChatInputQuestion::MultiSelect(_) => "Enter numbers separated by commas",
        ChatInputQuestion::Unknown(_) => "This question cannot be answered here",
    }
}

/// Line that does not answer a question. The message is the prompt for another attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{hint}: ")]
struct InvalidAnswer {
    hint: &'static str,
}

/// Parses a line as an answer to a question.
fn parse_answer(question: &ChatInputQuestion, line: &str) -> Result<ChatInputAnswerValue, InvalidAnswer> {
    let invalid = || InvalidAnswer { hint: answer_hint(question) };
    let QuestionFields { options, allows_freeform, .. } = question_fields(question);
    let id = |at: usize| options.get(at).map(|option| option.id.clone());
    // A line of numbers selects options.
    let numeric = line.chars().all(|c| c.is_ascii_digit() || c == ',' || c.is_whitespace());
    let freeform = || if allows_freeform && !numeric { Ok(vec![line.to_owned()]) } else { Err(invalid()) };
    Ok(match question {
        ChatInputQuestion::Text(_) => ChatInputAnswerValue::Text(ChatInputTextAnswerValue { value: line.to_owned() }),
        ChatInputQuestion::Number(_) | ChatInputQuestion::Integer(_) => {
            let whole = matches!(question, ChatInputQuestion::Integer(_));
            let value = line.parse::<f64>().ok().filter(|value| value.is_finite() && (!whole || value.fract() == 0.0));
            ChatInputAnswerValue::Number(ChatInputNumberAnswerValue { value: value.ok_or_else(invalid)? })
        }
        ChatInputQuestion::Boolean(_) if is_yes(line) || is_no(line) => {
            ChatInputAnswerValue::Boolean(ChatInputBooleanAnswerValue { value: is_yes(line) })
        }
        ChatInputQuestion::SingleSelect(_) => {
            let (value, freeform_values) = match parse_option_number(line, options.len()).and_then(id) {
                Some(id) => (id, None),
                None => (String::new(), Some(freeform()?)),
            };
            ChatInputAnswerValue::Selected(ChatInputSelectedAnswerValue { value, freeform_values })
        }
        ChatInputQuestion::MultiSelect(_) => {
            let chosen: Option<Vec<String>> =
                line.split(',').map(|part| parse_option_number(part.trim(), options.len()).and_then(id)).collect();
            let (value, freeform_values) = match chosen {
                Some(ids) => (deduplicate(ids), None),
                None => (Vec::new(), Some(freeform()?)),
            };
            ChatInputAnswerValue::SelectedMany(ChatInputSelectedManyAnswerValue { value, freeform_values })
        }
        ChatInputQuestion::Boolean(_) | ChatInputQuestion::Unknown(_) => return Err(invalid()),
    })
}

fn deduplicate(ids: Vec<String>) -> Vec<String> {
    let mut unique: Vec<String> = Vec::new();
    for id in ids {
        if !unique.contains(&id) {
            unique.push(id);
        }
    }
    unique
}
