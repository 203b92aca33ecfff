use serde::Deserialize;
use serde_json::value::RawValue;

use super::Text;

/// A request of the agent to us. It stays open until we answer it.
#[derive(Debug)]
pub struct ControlAsk<'a> {
    /// What the answer must name.
    pub request_id: Text<'a>,
    /// What is asked.
    pub body: ControlBody<'a>,
}

/// What the agent asks.
#[derive(Debug)]
pub enum ControlBody<'a> {
    /// May this tool run?
    CanUseTool {
        /// The call.
        tool_use_id: Option<Text<'a>>,
    },
    /// One of our hooks fires.
    Hook {
        /// The call that the hook is about.
        tool_use_id: Option<Text<'a>>,
        /// Where the conversation is stored.
        transcript_path: Option<Text<'a>>,
    },
    /// A request that we cannot serve, or cannot read.
    Other {
        /// Its subtype, where it has one.
        subtype: Option<Text<'a>>,
    },
}

/// An answer of the agent to a request of ours.
#[derive(Debug)]
pub struct ControlAnswer<'a> {
    /// The request.
    pub request_id: Text<'a>,
    /// The answer's body, or the sentence of the refusal.
    pub outcome: Result<Option<&'a RawValue>, Text<'a>>,
}

#[derive(Deserialize)]
struct AskFields<'a> {
    #[serde(borrow)]
    subtype: Text<'a>,
    #[serde(borrow, default)]
    tool_use_id: Option<Text<'a>>,
    #[serde(borrow, default)]
    input: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct HookInput<'a> {
    #[serde(borrow, default)]
    transcript_path: Option<Text<'a>>,
    #[serde(borrow, default)]
    tool_use_id: Option<Text<'a>>,
}

#[derive(Deserialize)]
struct AnswerFields<'a> {
    #[serde(borrow)]
    subtype: Text<'a>,
    #[serde(borrow)]
    request_id: Text<'a>,
    #[serde(borrow, default)]
    response: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<Text<'a>>,
}

impl<'a> ControlAsk<'a> {
    /// Never fails: a request that we cannot read must still get an answer.
    pub(super) fn parse(request_id: Text<'a>, raw: &'a RawValue) -> Self {
        let body = match serde_json::from_str::<AskFields<'a>>(raw.get()) {
            Ok(fields) => fields.named(),
            Err(_) => ControlBody::Other { subtype: None },
        };
        Self { request_id, body }
    }
}

impl<'a> AskFields<'a> {
    fn named(self) -> ControlBody<'a> {
        match &*self.subtype {
            "can_use_tool" => ControlBody::CanUseTool { tool_use_id: self.tool_use_id },
            "hook_callback" => {
                let input: Option<HookInput<'a>> = self.input.and_then(|raw| serde_json::from_str(raw.get()).ok());
                let (transcript_path, inner_id) =
                    input.map_or((None, None), |input| (input.transcript_path, input.tool_use_id));
                ControlBody::Hook { tool_use_id: self.tool_use_id.or(inner_id), transcript_path }
            }
            _ => ControlBody::Other { subtype: Some(self.subtype) },
        }
    }
}

impl<'a> ControlAnswer<'a> {
    pub(super) fn parse(raw: &'a RawValue) -> Result<Self, serde_json::Error> {
        let fields: AnswerFields<'a> = serde_json::from_str(raw.get())?;
        let outcome = match &*fields.subtype {
            "success" => Ok(fields.response),
            _ => Err(fields.error.unwrap_or(Text("no reason given".into()))),
        };
        Ok(Self { request_id: fields.request_id, outcome })
    }
}
