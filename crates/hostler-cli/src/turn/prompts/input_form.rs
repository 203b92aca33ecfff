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
            None => text + "Agree? y or n, an empty line skips it: ",
        }
    }

    pub(super) fn handle_line(&mut self, line: &str) -> LineOutcome {
        let Some(question) = self.question() else {
            return match line {
                "" => self.complete(ChatInputResponseKind::Cancel),
                line if is_yes(line) => self.complete(ChatInputResponseKind::Accept),
                line if is_no(line) => self.complete(ChatInputResponseKind::Decline),
                _ => LineOutcome::Reprompt("y or n: ".to_owned()),
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
                Err(hint) => return LineOutcome::Reprompt(hint),
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
    let (id, message, required, options, own_words) = match question {
        ChatInputQuestion::Text(q) => (&q.id, &q.message, q.required, &[][..], None),
        ChatInputQuestion::Number(q) | ChatInputQuestion::Integer(q) => (&q.id, &q.message, q.required, &[][..], None),
        ChatInputQuestion::Boolean(q) => (&q.id, &q.message, q.required, &[][..], None),
        ChatInputQuestion::SingleSelect(q) => (&q.id, &q.message, q.required, &*q.options, q.allow_freeform_input),
        ChatInputQuestion::MultiSelect(q) => (&q.id, &q.message, q.required, &*q.options, q.allow_freeform_input),
        ChatInputQuestion::Unknown(_) => {
            let message = "A question that this program does not know.";
            return QuestionFields { id: "", message, required: true, options: &[], allows_freeform: false };
        }
    };
    QuestionFields { id, message, required: required == Some(true), options, allows_freeform: own_words == Some(true) }
}

fn format_question(question: &ChatInputQuestion) -> String {
    let facts = question_fields(question);
    let mut text = format!("? {}\n", escape_invisible(facts.message).trim_end());
    for (at, option) in facts.options.iter().enumerate() {
        let more =
            option.description.as_deref().map(|text| format!(": {}", escape_invisible_line(text))).unwrap_or_default();
        text.push_str(&format!("  {}  {}{more}\n", at + 1, escape_invisible_line(&option.label)));
    }
    format!("{text}{}, an empty line skips it: ", answer_hint(question))
}

/// Describes what can be typed.
fn answer_hint(question: &ChatInputQuestion) -> &'static str {
    let own_words = question_fields(question).allows_freeform;
    match question {
        ChatInputQuestion::Text(_) => "Text",
        ChatInputQuestion::Number(_) => "A number",
        ChatInputQuestion::Integer(_) => "A whole number",
        ChatInputQuestion::Boolean(_) => "y or n",
        ChatInputQuestion::SingleSelect(_) if own_words => "A number, or own words",
        ChatInputQuestion::SingleSelect(_) => "A number",
        ChatInputQuestion::MultiSelect(_) if own_words => "Numbers with commas between, or own words",
        ChatInputQuestion::MultiSelect(_) => "Numbers with commas between",
        ChatInputQuestion::Unknown(_) => "It cannot be answered here",
    }
}

/// Parses a line as an answer to a question, or returns what to type instead.
fn parse_answer(question: &ChatInputQuestion, line: &str) -> Result<ChatInputAnswerValue, String> {
    let again = || format!("{}: ", answer_hint(question));
    let QuestionFields { options, allows_freeform: own_words, .. } = question_fields(question);
    let id = |at: usize| options.get(at).map(|option| option.id.clone());
    // A line of numbers selects options.
    let numeric = line.chars().all(|c| c.is_ascii_digit() || c == ',' || c.is_whitespace());
    let words = || if own_words && !numeric { Ok(vec![line.to_owned()]) } else { Err(again()) };
    Ok(match question {
        ChatInputQuestion::Text(_) => ChatInputAnswerValue::Text(ChatInputTextAnswerValue { value: line.to_owned() }),
        ChatInputQuestion::Number(_) | ChatInputQuestion::Integer(_) => {
            let whole = matches!(question, ChatInputQuestion::Integer(_));
            let value = line.parse::<f64>().ok().filter(|value| value.is_finite() && (!whole || value.fract() == 0.0));
            ChatInputAnswerValue::Number(ChatInputNumberAnswerValue { value: value.ok_or_else(again)? })
        }
        ChatInputQuestion::Boolean(_) if is_yes(line) || is_no(line) => {
            ChatInputAnswerValue::Boolean(ChatInputBooleanAnswerValue { value: is_yes(line) })
        }
        ChatInputQuestion::SingleSelect(_) => {
            let (value, freeform_values) = match parse_option_number(line, options.len()).and_then(id) {
                Some(id) => (id, None),
                None => (String::new(), Some(words()?)),
            };
            ChatInputAnswerValue::Selected(ChatInputSelectedAnswerValue { value, freeform_values })
        }
        ChatInputQuestion::MultiSelect(_) => {
            let chosen: Option<Vec<String>> =
                line.split(',').map(|part| parse_option_number(part.trim(), options.len()).and_then(id)).collect();
            let (value, freeform_values) = match chosen {
                Some(ids) => (deduplicate(ids), None),
                None => (Vec::new(), Some(words()?)),
            };
            ChatInputAnswerValue::SelectedMany(ChatInputSelectedManyAnswerValue { value, freeform_values })
        }
        ChatInputQuestion::Boolean(_) | ChatInputQuestion::Unknown(_) => return Err(again()),
    })
}

fn deduplicate(ids: Vec<String>) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for id in ids {
        if !found.contains(&id) {
            found.push(id);
        }
    }
    found
}
