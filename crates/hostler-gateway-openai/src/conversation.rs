//! Translates the conversation: system prompt and messages.
//!
//! In the Messages API, a tool call is a block of the assistant's message and its result a block of the user's message.
//! In chat completions, calls belong to the assistant's message and each result is a message of its own, which must
//! follow directly. So results come first, regardless of the blocks before them, followed by the rest of the user's
//! message. Consecutive messages of one role are merged, as in the Messages API.

use std::borrow::Cow;
use std::collections::HashSet;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::chat_completions::{ChatMessage, ChatToolCall, FunctionCall, ImageUrl, PARAGRAPH_BREAK, UserContentPart};
use crate::dialect::LateSystemRole;
use crate::input_block::{InputBlock, ToolResultBlock, parse_blocks};
use crate::request_body_fields::{UnsupportedRequest, decode_field};

#[derive(Deserialize)]
#[serde(expecting = "a message with role and content")]
struct InputMessage<'a> {
    #[serde(borrow)]
    role: Cow<'a, str>,
    #[serde(borrow)]
    content: &'a RawValue,
}

/// A conversation in the form of chat completions, with what the rest of the translation needs from it.
pub(super) struct ChatConversation<'a> {
    pub(super) messages: Vec<ChatMessage<'a>>,
    /// The ids of all tool calls in it.
    pub(super) call_ids: HashSet<Cow<'a, str>>,
    /// Deferred tools that tool results have referenced.
    pub(super) referenced_tools: HashSet<Cow<'a, str>>,
    late_system_role: LateSystemRole,
    /// System messages between tool calls and their results.
    deferred_system_texts: Vec<String>,
}

impl<'a> ChatConversation<'a> {
    pub(super) fn translate(
        system: Option<&'a RawValue>,
        messages: &[&'a RawValue],
        later_system: LateSystemRole,
    ) -> Result<Self, UnsupportedRequest> {
        let mut conversation = Self {
            messages: Vec::with_capacity(messages.len() + 1),
            call_ids: HashSet::new(),
            referenced_tools: HashSet::new(),
            late_system_role: later_system,
            deferred_system_texts: Vec::new(),
        };
        if let Some(system) = system {
            let content = system_text("system", system)?;
            if !content.is_empty() {
                conversation.messages.push(ChatMessage::System { content });
            }
        }
        for (index, raw) in messages.iter().copied().enumerate() {
            let path = format!("messages.{index}");
            let turn: InputMessage<'a> = decode_field(&path, raw)?;
            match turn.role.as_ref() {
                "user" => conversation.add_user_message(&path, turn.content)?,
                "assistant" => conversation.add_assistant_message(&path, turn.content)?,
                "system" => conversation.add_system_message(&path, turn.content)?,
                other => {
                    let reason = format!("unexpected role {other:?}; use user, assistant or system.");
                    return Err(UnsupportedRequest::new(format!("{path}.role"), reason));
                }
            }
        }
        conversation.flush_deferred_system_texts();
        match conversation.messages.last() {
            None | Some(ChatMessage::System { .. }) if messages.is_empty() => {
                Err(UnsupportedRequest::new("messages", "at least one message is required."))
            }
            Some(ChatMessage::Assistant { .. }) => Err(UnsupportedRequest::new(
                format!("messages.{}", messages.len().saturating_sub(1)),
                "the Chat Completions API does not support prefilling the assistant message; end with a user message.",
            )),
            _ => Ok(conversation),
        }
    }

    fn add_user_message(&mut self, path: &str, content: &'a RawValue) -> Result<(), UnsupportedRequest> {
        let mut results = Vec::new();
        let mut images = Vec::new();
        let mut rest = Vec::new();
        for (path, block) in parse_blocks(&format!("{path}.content"), content)? {
            match block {
                InputBlock::Text(text) => rest.push(UserContentPart::Text { text: text.into_owned() }),
                InputBlock::Image { url } => rest.push(UserContentPart::ImageUrl { image_url: ImageUrl { url } }),
                InputBlock::ToolResult(result) => {
                    results.push((path.clone(), self.convert_tool_result(&path, result, &mut images)?))
                }
                other => return Err(misplaced_block(path, &other, "a user message")),
            }
        }
        if let Some((path, _)) = results.first() {
            let place = self.tool_results_index().ok_or_else(|| {
                UnsupportedRequest::new(
                    path,
                    "a tool_result must follow the assistant message that contains its tool_use.",
                )
            })?;
            self.messages.splice(place..place, results.into_iter().map(|(_, message)| message));
        }
        self.flush_deferred_system_texts();
        self.push_user_parts(images);
        self.push_user_parts(rest);
        Ok(())
    }

    /// Converts one result to a message. Its images are added to `images`, because a tool message contains only text.
    fn convert_tool_result(
        &mut self,
        path: &str,
        result: ToolResultBlock<'a>,
        images: &mut Vec<UserContentPart>,
    ) -> Result<ChatMessage<'a>, UnsupportedRequest> {
        let mut texts = Vec::new();
        if result.is_error {
            texts.push("[The tool reported an error.]".to_owned());
        }
        let content = match result.content {
            Some(content) => parse_blocks(&format!("{path}.content"), content)?,
            None => Vec::new(),
        };
        for (path, block) in content {
            match block {
                InputBlock::Text(text) => texts.push(text.into_owned()),
                InputBlock::Image { url } => {
                    let number = images.len() / 2 + 1;
                    texts.push(format!("[Image {number}: in the next user message.]"));
                    let id = &result.tool_use_id;
                    images.push(UserContentPart::Text { text: format!("[Image {number}: from the result of {id}.]") });
                    images.push(UserContentPart::ImageUrl { image_url: ImageUrl { url } });
                }
                InputBlock::ToolReference { name } => {
                    texts.push(format!("[The tool {name} can be called now.]"));
                    self.referenced_tools.insert(name);
                }
                other => return Err(misplaced_block(path, &other, "a tool_result")),
            }
        }
        Ok(ChatMessage::Tool { tool_call_id: result.tool_use_id, content: texts.join(PARAGRAPH_BREAK) })
    }

    /// The index after the last assistant message and its results; `None` if that message has no tool calls.
    fn tool_results_index(&self) -> Option<usize> {
        let calls = self.messages.iter().rposition(|message| matches!(message, ChatMessage::Assistant { .. }))?;
        let has_calls = matches!(self.messages.get(calls), Some(ChatMessage::Assistant { tool_calls, .. }) if !tool_calls.is_empty());
        let after = self.messages.iter().skip(calls + 1);
        let results = after.take_while(|message| matches!(message, ChatMessage::Tool { .. })).count();
        has_calls.then_some(calls + 1 + results)
    }

    fn add_assistant_message(&mut self, path: &str, content: &'a RawValue) -> Result<(), UnsupportedRequest> {
        let mut texts = Vec::new();
        let mut calls = Vec::new();
        for (path, block) in parse_blocks(&format!("{path}.content"), content)? {
            match block {
                InputBlock::Text(text) => texts.push(text),
                InputBlock::ToolUse { id, name, input } => {
                    self.call_ids.insert(id.clone());
                    let function = FunctionCall { name, arguments: input.get() };
                    calls.push(ChatToolCall { id, kind: "function", function });
                }
                // Thinking is not sent to another model.
                InputBlock::Thinking => {}
                other => return Err(misplaced_block(path, &other, "an assistant message")),
            }
        }
        if texts.is_empty() && calls.is_empty() {
            return Ok(());
        }
        self.flush_deferred_system_texts();
        if !matches!(self.messages.last(), Some(ChatMessage::Assistant { .. })) {
            self.messages.push(ChatMessage::Assistant { content: None, tool_calls: Vec::new() });
        }
        if let Some(ChatMessage::Assistant { content, tool_calls }) = self.messages.last_mut() {
            for text in texts {
                match content {
                    Some(content) => {
                        content.push_str(PARAGRAPH_BREAK);
                        content.push_str(&text);
                    }
                    None => *content = Some(text.into_owned()),
                }
            }
            tool_calls.extend(calls);
        }
        Ok(())
    }

    fn add_system_message(&mut self, path: &str, content: &'a RawValue) -> Result<(), UnsupportedRequest> {
        let text = system_text(&format!("{path}.content"), content)?;
        if text.is_empty() {
            return Ok(());
        }
        self.deferred_system_texts.push(text);
        let results_follow =
            matches!(self.messages.last(), Some(ChatMessage::Assistant { tool_calls, .. }) if !tool_calls.is_empty());
        if !results_follow {
            self.flush_deferred_system_texts();
        }
        Ok(())
    }

    fn flush_deferred_system_texts(&mut self) {
        for content in std::mem::take(&mut self.deferred_system_texts) {
            match self.late_system_role {
                LateSystemRole::System => self.messages.push(ChatMessage::System { content }),
                LateSystemRole::User => {
                    let text = format!("<system-reminder>\n{content}\n</system-reminder>");
                    self.push_user_parts(vec![UserContentPart::Text { text }]);
                }
            }
        }
    }

    /// Appends to the user's message.
    fn push_user_parts(&mut self, parts: Vec<UserContentPart>) {
        if parts.is_empty() {
            return;
        }
        match self.messages.last_mut() {
            Some(ChatMessage::User { content }) => content.extend(parts),
            _ => self.messages.push(ChatMessage::User { content: parts }),
        }
    }
}

fn system_text(path: &str, content: &RawValue) -> Result<String, UnsupportedRequest> {
    let mut texts = Vec::new();
    for (path, block) in parse_blocks(path, content)? {
        match block {
            InputBlock::Text(text) => texts.push(text),
            other => return Err(misplaced_block(path, &other, "a system prompt")),
        }
    }
    Ok(texts.join(PARAGRAPH_BREAK))
}

fn misplaced_block(path: String, block: &InputBlock<'_>, place: &str) -> UnsupportedRequest {
    UnsupportedRequest::new(path, format!("{} is not allowed in {place}.", block.description()))
}
