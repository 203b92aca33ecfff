//! Questions of the agent, one after the other.

use std::collections::HashMap;

use ahp_types::actions::{ChatInputCompletedAction, StateAction};
use ahp_types::state::{
    ChatInputAnswer, ChatInputAnswerValue, ChatInputAnswered, ChatInputBooleanAnswerValue, ChatInputNumberAnswerValue,
    ChatInputOption, ChatInputQuestion, ChatInputRequest, ChatInputResponseKind, ChatInputSelectedAnswerValue,
    ChatInputSelectedManyAnswerValue, ChatInputTextAnswerValue,
};

use super::{Reply, is_no, is_yes, number};
use crate::visible::{visible, visible_line};

/// A request, and the answers so far.
pub(super) struct Form {
    request: ChatInputRequest,
    at: usize,
    answers: HashMap<String, ChatInputAnswer>,
}

impl Form {
    pub(super) fn new(request: &ChatInputRequest) -> Self {
        Self { request: request.clone(), at: 0, answers: HashMap::new() }
    }

    pub(super) fn id(&self) -> &str {
        &self.request.id
    }

    pub(super) fn restart(&mut self) {
        (self.at, self.answers) = (0, HashMap::new());
    }

    fn question(&self) -> Option<&ChatInputQuestion> {
        self.request.questions.as_ref()?.get(self.at)
    }

    pub(super) fn prompt(&self) -> String {
        let mut text = "\n".to_owned();
        if self.at == 0 {
            let message = self.request.message.as_deref().map(visible);
            text.extend(message.map(|message| format!("{}\n", message.trim_end())));
            text.extend(self.request.url.as_deref().map(|url| format!("{}\n", visible_line(url))));
        }
        match self.question() {
            Some(question) => text + &asked(question),
            None => text + "Agree? y or n, an empty line skips it: ",
        }
    }

    pub(super) fn reply(&mut self, line: &str) -> Reply {
        let Some(question) = self.question() else {
            return match line {
                "" => self.complete(ChatInputResponseKind::Cancel),
                line if is_yes(line) => self.complete(ChatInputResponseKind::Accept),
                line if is_no(line) => self.complete(ChatInputResponseKind::Decline),
                _ => Reply::Again("y or n: ".to_owned()),
            };
        };
        if line.is_empty() {
            // Without what must be answered the rest is of no use.
            if facts(question).required {
                return self.complete(ChatInputResponseKind::Cancel);
            }
        } else {
            let id = facts(question).id.to_owned();
            match answer(question, line) {
                Ok(value) => drop(self.answers.insert(id, ChatInputAnswer::Submitted(ChatInputAnswered { value }))),
                Err(hint) => return Reply::Again(hint),
            }
        }
        self.at += 1;
        match self.question() {
            Some(_) => Reply::Again(self.prompt()),
            None if self.answers.is_empty() => self.complete(ChatInputResponseKind::Cancel),
            None => self.complete(ChatInputResponseKind::Accept),
        }
    }

    fn complete(&self, response: ChatInputResponseKind) -> Reply {
        let answers = (response == ChatInputResponseKind::Accept).then(|| self.answers.clone());
        let request_id = self.request.id.clone();
        let action = ChatInputCompletedAction { request_id, response, answers };
        Reply::Answer(Box::new(StateAction::ChatInputCompleted(action)))
    }
}

/// What all kinds of questions have.
struct Facts<'a> {
    id: &'a str,
    message: &'a str,
    required: bool,
    options: &'a [ChatInputOption],
    own_words: bool,
}

fn facts(question: &ChatInputQuestion) -> Facts<'_> {
    let (id, message, required, options, own_words) = match question {
        ChatInputQuestion::Text(q) => (&q.id, &q.message, q.required, &[][..], None),
        ChatInputQuestion::Number(q) | ChatInputQuestion::Integer(q) => (&q.id, &q.message, q.required, &[][..], None),
        ChatInputQuestion::Boolean(q) => (&q.id, &q.message, q.required, &[][..], None),
        ChatInputQuestion::SingleSelect(q) => (&q.id, &q.message, q.required, &*q.options, q.allow_freeform_input),
        ChatInputQuestion::MultiSelect(q) => (&q.id, &q.message, q.required, &*q.options, q.allow_freeform_input),
        ChatInputQuestion::Unknown(_) => {
            let message = "A question that this program does not know.";
            return Facts { id: "", message, required: true, options: &[], own_words: false };
        }
    };
    Facts { id, message, required: required == Some(true), options, own_words: own_words == Some(true) }
}

fn asked(question: &ChatInputQuestion) -> String {
    let facts = facts(question);
    let mut text = format!("? {}\n", visible(facts.message).trim_end());
    for (at, option) in facts.options.iter().enumerate() {
        let more = option.description.as_deref().map(|text| format!(": {}", visible_line(text))).unwrap_or_default();
        text.push_str(&format!("  {}  {}{more}\n", at + 1, visible_line(&option.label)));
    }
    format!("{text}{}, an empty line skips it: ", hint(question))
}

/// What can be typed.
fn hint(question: &ChatInputQuestion) -> &'static str {
    let own_words = facts(question).own_words;
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

/// What a line says to a question, or what to type instead.
fn answer(question: &ChatInputQuestion, line: &str) -> Result<ChatInputAnswerValue, String> {
    let again = || format!("{}: ", hint(question));
    let Facts { options, own_words, .. } = facts(question);
    let id = |at: usize| options.get(at).map(|option| option.id.clone());
    // Whoever types numbers means options.
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
            let (value, freeform_values) = match number(line, options.len()).and_then(id) {
                Some(id) => (id, None),
                None => (String::new(), Some(words()?)),
            };
            ChatInputAnswerValue::Selected(ChatInputSelectedAnswerValue { value, freeform_values })
        }
        ChatInputQuestion::MultiSelect(_) => {
            let chosen: Option<Vec<String>> =
                line.split(',').map(|part| number(part.trim(), options.len()).and_then(id)).collect();
            let (value, freeform_values) = match chosen {
                Some(ids) => (distinct(ids), None),
                None => (Vec::new(), Some(words()?)),
            };
            ChatInputAnswerValue::SelectedMany(ChatInputSelectedManyAnswerValue { value, freeform_values })
        }
        ChatInputQuestion::Boolean(_) | ChatInputQuestion::Unknown(_) => return Err(again()),
    })
}

fn distinct(ids: Vec<String>) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for id in ids {
        if !found.contains(&id) {
            found.push(id);
        }
    }
    found
}
