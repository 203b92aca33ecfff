//! Finds the last text that the user wrote in a Messages request.
//!
//! Agents add other content: reminders in tags, notes on images and interruptions, tool results in the user's name, and
//! earlier user messages without an answer, merged into the same message.

use std::borrow::Cow;

use serde::Deserialize;

/// The part of a request that the scripted model reads.
#[derive(Debug, Deserialize)]
pub(super) struct RequestConversation<'a> {
    #[serde(borrow)]
    messages: Vec<Message<'a>>,
}

#[derive(Debug, Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    role: Cow<'a, str>,
    #[serde(borrow)]
    content: Content<'a>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Content<'a> {
    Text(#[serde(borrow)] Cow<'a, str>),
    Blocks(#[serde(borrow)] Vec<Block<'a>>),
}

#[derive(Debug, Deserialize)]
struct Block<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    text: Cow<'a, str>,
    #[serde(borrow, default)]
    source: Option<Source<'a>>,
}

/// The contents of a block.
#[derive(Debug, Deserialize)]
struct Source<'a> {
    #[serde(borrow, default)]
    data: Cow<'a, str>,
}

/// The last user text, and the number of tool results since then.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct LastUserText {
    pub(super) text: String,
    pub(super) tool_results: usize,
}

impl<'a> RequestConversation<'a> {
    pub(super) fn parse(body: &'a [u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(body)
    }

    /// The base64 contents of all images that the user sent.
    pub(super) fn images(&self) -> Vec<&str> {
        let mut found = Vec::new();
        for message in self.messages.iter().filter(|message| message.role == "user") {
            if let Content::Blocks(blocks) = &message.content {
                let images = blocks.iter().filter(|block| block.kind == "image");
                found.extend(images.filter_map(|block| block.source.as_ref()).map(|source| source.data.as_ref()));
            }
        }
        found
    }

    pub(super) fn last_user_text(&self) -> LastUserText {
        let mut last = LastUserText::default();
        for message in self.messages.iter().filter(|message| message.role == "user") {
            match &message.content {
                Content::Text(text) => last.add_text(text),
                Content::Blocks(blocks) => {
                    for block in blocks {
                        match block.kind.as_ref() {
                            "text" => last.add_text(&block.text),
                            "tool_result" => last.tool_results += 1,
                            _ => {}
                        }
                    }
                }
            }
        }
        last
    }
}

impl LastUserText {
    fn add_text(&mut self, text: &str) {
        let own = strip_reminders(text);
        let own = own.trim();
        if !own.is_empty() && !AGENT_NOTE_PREFIXES.iter().any(|note| own.starts_with(note)) {
            *self = Self { text: own.to_owned(), tool_results: 0 };
        }
    }
}

/// Prefixes of texts that an agent writes in the user's name.
const AGENT_NOTE_PREFIXES: [&str; 6] = [
    "[Request interrupted by user",
    "[Image:",
    "[Image could not be processed",
    "<local-command-stdout>",
    "<local-command-stderr>",
    "<local-command-caveat>",
];

const REMINDER_TAGS: (&str, &str) = ("<system-reminder>", "</system-reminder>");

fn strip_reminders(text: &str) -> Cow<'_, str> {
    let Some((before, mut rest)) = text.split_once(REMINDER_TAGS.0) else {
        return Cow::Borrowed(text);
    };
    let mut own = before.to_owned();
    loop {
        // An unclosed reminder extends to the end of the text.
        let Some((_, after)) = rest.split_once(REMINDER_TAGS.1) else {
            return Cow::Owned(own);
        };
        match after.split_once(REMINDER_TAGS.0) {
            None => return Cow::Owned(own + after),
            Some((between, next)) => {
                own.push_str(between);
                rest = next;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(messages: &str, text: &str, results: usize) {
        let body = format!(r#"{{"model":"m","messages":{messages},"stream":true}}"#);
        let last = RequestConversation::parse(body.as_bytes()).unwrap().last_user_text();
        assert_eq!(last, LastUserText { text: text.to_owned(), tool_results: results }, "{messages}");
    }

    #[test]
    fn the_last_user_text_is_found() {
        check(r#"[{"role":"user","content":"hi"}]"#, "hi", 0);
        check(r#"[{"role":"user","content":[{"type":"text","text":" hi \n"}]}]"#, "hi", 0);
        check(
            r#"[{"role":"user","content":"one"},{"role":"assistant","content":[{"type":"text","text":"x"}]},{"role":"user","content":"two"}]"#,
            "two",
            0,
        );
        check("[]", "", 0);
    }

    #[test]
    fn texts_of_the_agent_are_not_the_user_text() {
        check(
            r#"[{"role":"user","content":[
                {"type":"text","text":"<system-reminder>\nToday is a day.\n</system-reminder>"},
                {"type":"text","text":"<system-reminder>a</system-reminder>hi<system-reminder>b</system-reminder> there<system-reminder>c"},
                {"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}},
                {"type":"text","text":"[Image: source: a.png]"}]},
               {"role":"system","content":[{"type":"text","text":"not the user"}]}]"#,
            "hi there",
            0,
        );
    }

    #[test]
    fn the_last_of_merged_messages_is_the_user_text() {
        check(
            r#"[{"role":"user","content":[{"type":"text","text":"!hang"},{"type":"text","text":"[Request interrupted by user]"},{"type":"text","text":"hi"}]}]"#,
            "hi",
            0,
        );
    }

    #[test]
    fn tool_results_since_the_text_are_counted() {
        check(
            r#"[{"role":"user","content":"run"},
               {"role":"assistant","content":[{"type":"tool_use","id":"a","name":"Bash","input":{}},{"type":"tool_use","id":"b","name":"Bash","input":{}}]},
               {"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[{"type":"text","text":"!say no"}]},{"type":"tool_result","tool_use_id":"b","content":"x"},
                 {"type":"text","text":"<system-reminder>The user sent a new message while you were working: faster</system-reminder>"}]},
               {"role":"assistant","content":[{"type":"tool_use","id":"c","name":"Bash","input":{}}]},
               {"role":"user","content":[{"type":"tool_result","tool_use_id":"c","is_error":true}]}]"#,
            "run",
            3,
        );
    }

    #[test]
    fn a_new_text_beside_a_tool_result_restarts_the_count() {
        check(
            r#"[{"role":"user","content":"run"},
               {"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"x"},{"type":"text","text":"next"}]}]"#,
            "next",
            0,
        );
    }

    #[test]
    fn images_of_the_user_are_found() {
        let seen = |messages: &str| {
            let body = format!(r#"{{"messages":{messages}}}"#);
            let conversation = RequestConversation::parse(body.as_bytes()).unwrap();
            conversation.images().into_iter().map(str::to_owned).collect::<Vec<_>>()
        };
        let image = |data: &str| format!(r#"{{"type":"image","source":{{"type":"base64","data":"{data}"}}}}"#);
        let (a, b) = (image("AAAA"), image("BBBB"));
        assert_eq!(
            seen(&format!(r#"[{{"role":"user","content":[{a},{{"type":"text","text":"x"}},{b}]}}]"#)),
            ["AAAA", "BBBB"]
        );
        assert_eq!(
            seen(&format!(r#"[{{"role":"assistant","content":[{a}]}},{{"role":"user","content":"x"}}]"#)),
            [""; 0]
        );
        let document = r#"{"type":"document","source":{"type":"text","data":"text"}}"#;
        let linked = r#"{"type":"image","source":{"type":"url","url":"https://example.com"}}"#;
        assert_eq!(seen(&format!(r#"[{{"role":"user","content":[{document},{linked}]}}]"#)), [""]);
    }
}
