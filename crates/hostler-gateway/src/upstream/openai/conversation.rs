//! The conversation: system prompt and messages.
//!
//! Both protocols tell the same story in different shapes. Here a tool call is a block of the assistant's message and
//! its result a block of the user's; there the calls hang on the assistant's message and each result is a message of
//! its own, which must follow directly. So results come first, whatever stood before them, and the rest of the user's
//! message after them. Messages of one role in a row are one message, as the Messages API has it.

use std::borrow::Cow;
use std::collections::HashSet;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::block::{Block, ToolResult, blocks};
use super::dialect::LaterSystem;
use super::fields::{Inexpressible, read};
use super::wire::{ChatMessage, FunctionCall, ImageUrl, PARAGRAPH, Part, ToolCall};

#[derive(Deserialize)]
#[serde(expecting = "a message with role and content")]
struct Turn<'a> {
    #[serde(borrow)]
    role: Cow<'a, str>,
    #[serde(borrow)]
    content: &'a RawValue,
}

/// A conversation in the form of chat completions, and what the rest of the translation needs to know about it.
pub(super) struct Conversation<'a> {
    pub(super) messages: Vec<ChatMessage<'a>>,
    /// The ids of all tool calls in it.
    pub(super) call_ids: HashSet<Cow<'a, str>>,
    /// The deferred tools that results have made known to the model.
    pub(super) referred_tools: HashSet<Cow<'a, str>>,
    later_system: LaterSystem,
    /// System messages that came between tool calls and their results.
    waiting: Vec<String>,
}

impl<'a> Conversation<'a> {
    pub(super) fn read(
        system: Option<&'a RawValue>,
        messages: &[&'a RawValue],
        later_system: LaterSystem,
    ) -> Result<Self, Inexpressible> {
        let mut conversation = Self {
            messages: Vec::with_capacity(messages.len() + 1),
            call_ids: HashSet::new(),
            referred_tools: HashSet::new(),
            later_system,
            waiting: Vec::new(),
        };
        if let Some(system) = system {
            let content = system_text("system", system)?;
            if !content.is_empty() {
                conversation.messages.push(ChatMessage::System { content });
            }
        }
        for (index, raw) in messages.iter().copied().enumerate() {
            let path = format!("messages.{index}");
            let turn: Turn<'a> = read(&path, raw)?;
            match turn.role.as_ref() {
                "user" => conversation.user(&path, turn.content)?,
                "assistant" => conversation.assistant(&path, turn.content)?,
                "system" => conversation.system(&path, turn.content)?,
                other => {
                    let reason = format!("{other:?} is none of user, assistant and system.");
                    return Err(Inexpressible::new(format!("{path}.role"), reason));
                }
            }
        }
        conversation.flush_waiting();
        match conversation.messages.last() {
            None | Some(ChatMessage::System { .. }) if messages.is_empty() => {
                Err(Inexpressible::new("messages", "at least one message is required."))
            }
            Some(ChatMessage::Assistant { .. }) => Err(Inexpressible::new(
                format!("messages.{}", messages.len().saturating_sub(1)),
                "chat completions cannot go on with a message that the assistant has begun; end with a user message.",
            )),
            _ => Ok(conversation),
        }
    }

    fn user(&mut self, path: &str, content: &'a RawValue) -> Result<(), Inexpressible> {
        let mut results = Vec::new();
        let mut images = Vec::new();
        let mut rest = Vec::new();
        for (path, block) in blocks(&format!("{path}.content"), content)? {
            match block {
                Block::Text(text) => rest.push(Part::Text { text: text.into_owned() }),
                Block::Image { url } => rest.push(Part::ImageUrl { image_url: ImageUrl { url } }),
                Block::ToolResult(result) => results.push((path.clone(), self.result(&path, result, &mut images)?)),
                other => return Err(misplaced(path, &other, "a user message")),
            }
        }
        if let Some((path, _)) = results.first() {
            let place = self.place_for_results().ok_or_else(|| {
                Inexpressible::new(path, "a tool_result must follow the assistant's message with its tool_use.")
            })?;
            self.messages.splice(place..place, results.into_iter().map(|(_, message)| message));
        }
        self.flush_waiting();
        self.say(images);
        self.say(rest);
        Ok(())
    }

    /// One result as a message. Its images go to `images`: a tool message holds text only.
    fn result(
        &mut self,
        path: &str,
        result: ToolResult<'a>,
        images: &mut Vec<Part>,
    ) -> Result<ChatMessage<'a>, Inexpressible> {
        let mut texts = Vec::new();
        if result.is_error {
            texts.push("[The tool reported an error.]".to_owned());
        }
        let content = match result.content {
            Some(content) => blocks(&format!("{path}.content"), content)?,
            None => Vec::new(),
        };
        for (path, block) in content {
            match block {
                Block::Text(text) => texts.push(text.into_owned()),
                Block::Image { url } => {
                    let number = images.len() / 2 + 1;
                    texts.push(format!("[Image {number}: in the next user message.]"));
                    let id = &result.tool_use_id;
                    images.push(Part::Text { text: format!("[Image {number}: from the result of {id}.]") });
                    images.push(Part::ImageUrl { image_url: ImageUrl { url } });
                }
                Block::ToolReference { name } => {
                    texts.push(format!("[The tool {name} can be called now.]"));
                    self.referred_tools.insert(name);
                }
                other => return Err(misplaced(path, &other, "a tool_result")),
            }
        }
        Ok(ChatMessage::Tool { tool_call_id: result.tool_use_id, content: texts.join(PARAGRAPH) })
    }

    /// Behind the last assistant's message and the results that it has already; nothing if it has called no tool.
    fn place_for_results(&self) -> Option<usize> {
        let calls = self.messages.iter().rposition(|message| matches!(message, ChatMessage::Assistant { .. }))?;
        let has_calls = matches!(self.messages.get(calls), Some(ChatMessage::Assistant { tool_calls, .. }) if !tool_calls.is_empty());
        let after = self.messages.iter().skip(calls + 1);
        let results = after.take_while(|message| matches!(message, ChatMessage::Tool { .. })).count();
        has_calls.then_some(calls + 1 + results)
    }

    fn assistant(&mut self, path: &str, content: &'a RawValue) -> Result<(), Inexpressible> {
        let mut texts = Vec::new();
        let mut calls = Vec::new();
        for (path, block) in blocks(&format!("{path}.content"), content)? {
            match block {
                Block::Text(text) => texts.push(text),
                Block::ToolUse { id, name, input } => {
                    self.call_ids.insert(id.clone());
                    let function = FunctionCall { name, arguments: input.get() };
                    calls.push(ToolCall { id, kind: "function", function });
                }
                // Thoughts belong to the model that had them.
                Block::Thinking => {}
                other => return Err(misplaced(path, &other, "an assistant message")),
            }
        }
        if texts.is_empty() && calls.is_empty() {
            return Ok(());
        }
        self.flush_waiting();
        if !matches!(self.messages.last(), Some(ChatMessage::Assistant { .. })) {
            self.messages.push(ChatMessage::Assistant { content: None, tool_calls: Vec::new() });
        }
        if let Some(ChatMessage::Assistant { content, tool_calls }) = self.messages.last_mut() {
            for text in texts {
                match content {
                    Some(content) => {
                        content.push_str(PARAGRAPH);
                        content.push_str(&text);
                    }
                    None => *content = Some(text.into_owned()),
                }
            }
            tool_calls.extend(calls);
        }
        Ok(())
    }

    fn system(&mut self, path: &str, content: &'a RawValue) -> Result<(), Inexpressible> {
        let text = system_text(&format!("{path}.content"), content)?;
        if text.is_empty() {
            return Ok(());
        }
        self.waiting.push(text);
        let results_follow =
            matches!(self.messages.last(), Some(ChatMessage::Assistant { tool_calls, .. }) if !tool_calls.is_empty());
        if !results_follow {
            self.flush_waiting();
        }
        Ok(())
    }

    fn flush_waiting(&mut self) {
        for content in std::mem::take(&mut self.waiting) {
            match self.later_system {
                LaterSystem::System => self.messages.push(ChatMessage::System { content }),
                LaterSystem::User => {
                    let text = format!("<system-reminder>\n{content}\n</system-reminder>");
                    self.say(vec![Part::Text { text }]);
                }
            }
        }
    }

    /// Adds to what the user says.
    fn say(&mut self, parts: Vec<Part>) {
        if parts.is_empty() {
            return;
        }
        match self.messages.last_mut() {
            Some(ChatMessage::User { content }) => content.extend(parts),
            _ => self.messages.push(ChatMessage::User { content: parts }),
        }
    }
}

fn system_text(path: &str, content: &RawValue) -> Result<String, Inexpressible> {
    let mut texts = Vec::new();
    for (path, block) in blocks(path, content)? {
        match block {
            Block::Text(text) => texts.push(text),
            other => return Err(misplaced(path, &other, "a system prompt")),
        }
    }
    Ok(texts.join(PARAGRAPH))
}

fn misplaced(path: String, block: &Block<'_>, place: &str) -> Inexpressible {
    Inexpressible::new(path, format!("{} does not belong into {place}.", block.name()))
}
