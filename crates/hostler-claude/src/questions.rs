//! Parses questions of Claude Code and MCP servers, and formats their answers.

use std::fmt;
use std::sync::Arc;

use hostler_driver::{Question, QuestionAnswer, QuestionKind, QuestionOption};
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::wire::Elicitation;

/// More than a person answers.
const MAX_QUESTIONS: usize = 64;

/// Questions, each with the key of its answer.
#[derive(Debug)]
pub(crate) struct QuestionForm(Vec<(String, Question)>);

#[derive(Deserialize)]
struct ToolInput {
    questions: Vec<ToolQuestion>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ToolQuestion {
    question: String,
    #[serde(default)]
    header: Option<String>,
    #[serde(default)]
    multi_select: bool,
    #[serde(default)]
    options: Vec<ToolOption>,
}

#[derive(Deserialize)]
struct ToolOption {
    label: String,
    #[serde(default)]
    description: Option<String>,
}

/// The questions of an `AskUserQuestion` call.
pub(crate) fn from_tool_input(input: &RawValue) -> Option<QuestionForm> {
    let input: ToolInput = serde_json::from_str(input.get()).ok()?;
    if input.questions.is_empty() || input.questions.len() > MAX_QUESTIONS {
        return None;
    }
    let questions = input.questions.into_iter().enumerate().map(|(at, asked)| {
        let options = asked.options.into_iter().map(|option| QuestionOption {
            id: option.label.clone(),
            label: option.label,
            description: option.description.filter(|text| !text.is_empty()),
        });
        let kind = match options.collect::<Vec<_>>() {
            options if options.is_empty() => QuestionKind::Text,
            options => QuestionKind::Choice { options, allows_multiple: asked.multi_select, allows_free_text: true },
        };
        let question = Question {
            id: format!("q{}", at + 1),
            header: asked.header.filter(|text| !text.is_empty()),
            text: asked.question.clone(),
            kind,
            required: false,
        };
        (asked.question, question)
    });
    Some(QuestionForm(questions.collect()))
}

/// The plan of an `ExitPlanMode` call. Newer builds store it in a file of their own.
pub(crate) fn plan_text(input: &RawValue) -> Option<String> {
    #[derive(Deserialize)]
    struct Input {
        #[serde(default)]
        plan: Option<String>,
    }
    let input: Input = serde_json::from_str(input.get()).ok()?;
    input.plan.filter(|plan| !plan.trim().is_empty())
}

#[derive(Deserialize)]
struct Schema {
    #[serde(default)]
    properties: OrderedFields,
    #[serde(default)]
    required: Vec<String>,
}

/// The fields of a form, in the server's order.
#[derive(Default)]
struct OrderedFields(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for OrderedFields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;

        impl<'de> Visitor<'de> for InOrder {
            type Value = OrderedFields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the fields of a form")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<OrderedFields, A::Error> {
                let mut fields: Vec<(String, Value)> = Vec::new();
                while let Some((name, field)) = map.next_entry::<String, Value>()? {
                    fields.retain(|(known, _)| *known != name);
                    fields.push((name, field));
                }
                Ok(OrderedFields(fields))
            }
        }

        deserializer.deserialize_map(InOrder)
    }
}

/// An MCP server's elicitation: a title and the fields of its schema. `None` if MCP does not allow the schema.
pub(crate) fn from_elicitation(asked: &Elicitation<'_>) -> Option<(String, QuestionForm)> {
    let server = asked.mcp_server_name.as_deref().unwrap_or("An MCP server");
    let mut title = format!("{server}: {}", asked.message.as_deref().unwrap_or_default());
    if let Some(url) = asked.url.as_deref() {
        title.push_str(&format!("\n{url}"));
    }
    let schema: Schema = match asked.requested_schema {
        Some(raw) => serde_json::from_str(raw.get()).ok()?,
        None => return Some((title, QuestionForm(Vec::new()))),
    };
    let Schema { properties: OrderedFields(fields), required } = schema;
    if fields.len() > MAX_QUESTIONS {
        return None;
    }
    let questions = fields.iter().map(|(name, field)| {
        let text = |key: &str| field.get(key).and_then(Value::as_str).map(str::to_owned);
        let question = Question {
            id: name.clone(),
            header: text("title"),
            text: text("description").or_else(|| text("title")).unwrap_or_else(|| name.clone()),
            kind: question_kind(field)?,
            required: required.contains(name),
        };
        Some((name.clone(), question))
    });
    Some((title, QuestionForm(questions.collect::<Option<Vec<_>>>()?)))
}

fn question_kind(field: &Value) -> Option<QuestionKind> {
    match field.get("type").and_then(Value::as_str)? {
        "string" => Some(match parse_options(field, "oneOf") {
            Some(options) => QuestionKind::Choice { options, allows_multiple: false, allows_free_text: false },
            None => QuestionKind::Text,
        }),
        "array" => {
            let options = parse_options(field.get("items")?, "anyOf")?;
            Some(QuestionKind::Choice { options, allows_multiple: true, allows_free_text: false })
        }
        "integer" => Some(QuestionKind::Number { is_integer: true }),
        "number" => Some(QuestionKind::Number { is_integer: false }),
        "boolean" => Some(QuestionKind::Boolean),
        _ => None,
    }
}

/// The options: plain values with or without a list of names, or values with their names.
fn parse_options(field: &Value, titled: &str) -> Option<Vec<QuestionOption>> {
    let choice = |id: &Value, label: Option<&Value>| {
        let id = id.as_str()?.to_owned();
        let label = label.and_then(Value::as_str).unwrap_or(&id).to_owned();
        Some(QuestionOption { id, label, description: None })
    };
    if let Some(values) = field.get("enum").and_then(Value::as_array) {
        let names = field.get("enumNames");
        let name = |at: usize| names.and_then(|names| names.get(at));
        return Some(values.iter().enumerate().filter_map(|(at, id)| choice(id, name(at))).collect());
    }
    let values = field.get(titled)?.as_array()?;
    Some(values.iter().filter_map(|value| choice(value.get("const")?, value.get("title"))).collect())
}

impl QuestionForm {
    pub(crate) fn questions(&self) -> Vec<Question> {
        self.0.iter().map(|(_, question)| question.clone()).collect()
    }

    /// The tool's input with the answers added, as the tool requires. Unanswered questions are omitted.
    pub(crate) fn input_with_answers(
        &self,
        asked: &RawValue,
        answers: &[(String, QuestionAnswer)],
    ) -> Option<Arc<RawValue>> {
        let mut input: Map<String, Value> = serde_json::from_str(asked.get()).ok()?;
        let mut texts = Map::new();
        for (key, _, answer) in self.match_answers(answers) {
            texts.insert(key.to_owned(), Value::String(answer_text(answer)));
        }
        input.insert("answers".to_owned(), Value::Object(texts));
        serde_json::value::to_raw_value(&input).ok().map(Arc::from)
    }

    /// The answers in the form of an MCP response.
    pub(crate) fn elicitation_content(&self, answers: &[(String, QuestionAnswer)]) -> Value {
        let mut content = Map::new();
        for (key, question, answer) in self.match_answers(answers) {
            content.insert(key.to_owned(), answer_value(question, answer));
        }
        Value::Object(content)
    }

    fn match_answers<'a>(
        &'a self,
        answers: &'a [(String, QuestionAnswer)],
    ) -> impl Iterator<Item = (&'a str, &'a Question, &'a QuestionAnswer)> {
        self.0.iter().filter_map(move |(key, question)| {
            let (_, answer) = answers.iter().find(|(id, _)| *id == question.id)?;
            Some((key.as_str(), question, answer))
        })
    }
}

fn answer_text(answer: &QuestionAnswer) -> String {
    match answer {
        QuestionAnswer::Selected { options, free_text } => {
            options.iter().chain(free_text).map(String::as_str).collect::<Vec<_>>().join(", ")
        }
        QuestionAnswer::Text(text) => text.clone(),
        QuestionAnswer::Number(number) => number.to_string(),
        QuestionAnswer::Boolean(yes) => if *yes { "Yes" } else { "No" }.to_owned(),
    }
}

fn answer_value(question: &Question, answer: &QuestionAnswer) -> Value {
    match (&question.kind, answer) {
        (QuestionKind::Choice { allows_multiple: true, .. }, QuestionAnswer::Selected { options, free_text }) => {
            options.iter().chain(free_text).cloned().map(Value::String).collect()
        }
        #[expect(clippy::cast_possible_truncation, reason = "the value is checked to be a whole number")]
        (QuestionKind::Number { is_integer: true }, QuestionAnswer::Number(number)) if number.fract() == 0.0 => {
            Value::from(*number as i64)
        }
        (_, QuestionAnswer::Number(number)) => Value::from(*number),
        (_, QuestionAnswer::Boolean(yes)) => Value::Bool(*yes),
        (_, answer) => Value::String(answer_text(answer)),
    }
}
