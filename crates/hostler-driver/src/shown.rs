//! How what an agent does is printed: by names, ids and lengths. What it says, what it is told and what is in files is for
//! the people of its session, and for no log.

use std::fmt::{Debug, Formatter, Result};

use hostler_redact::{Length, length};

use crate::{
    Answer, BackgroundTask, Choice, DriverEvent, FileEdit, FoundConversation, GatedCall, PermissionRequest,
    PlanRequest, Question, QuestionAnswer, QuestionRequest, ResumeToken, Said, SubAgentStart, ToolDisplay, TurnCause,
};

fn lengths(texts: &[String]) -> Vec<Length> {
    texts.iter().map(length).collect()
}

impl Debug for DriverEvent {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::TurnBegan(cause) => f.debug_tuple("TurnBegan").field(cause).finish(),
            Self::MessageStarted => f.write_str("MessageStarted"),
            Self::PartStarted { part, kind } => {
                f.debug_struct("PartStarted").field("part", part).field("kind", kind).finish()
            }
            Self::Delta { part, text } => {
                f.debug_struct("Delta").field("part", part).field("text", &length(text)).finish()
            }
            Self::ToolStarted { id, name, display } => {
                f.debug_struct("ToolStarted").field("id", id).field("name", name).field("display", display).finish()
            }
            Self::ToolInputDelta { id, json } => {
                f.debug_struct("ToolInputDelta").field("id", id).field("json", &length(json)).finish()
            }
            Self::ToolReady { id, input, display } => f
                .debug_struct("ToolReady")
                .field("id", id)
                .field("input", &length(input.get()))
                .field("display", display)
                .finish(),
            Self::ToolGated { id, gate } => f.debug_struct("ToolGated").field("id", id).field("gate", gate).finish(),
            Self::ToolProgress { id, elapsed } => {
                f.debug_struct("ToolProgress").field("id", id).field("elapsed", elapsed).finish()
            }
            Self::ToolFinished { id, outcome, output, edit } => f
                .debug_struct("ToolFinished")
                .field("id", id)
                .field("outcome", outcome)
                .field("output", &length(output))
                .field("edit", edit)
                .finish(),
            Self::PermissionRequested(request) => f.debug_tuple("PermissionRequested").field(request).finish(),
            Self::QuestionsAsked(request) => f.debug_tuple("QuestionsAsked").field(request).finish(),
            Self::PlanProposed(request) => f.debug_tuple("PlanProposed").field(request).finish(),
            Self::RequestWithdrawn(request) => f.debug_tuple("RequestWithdrawn").field(request).finish(),
            Self::Usage(usage) => f.debug_tuple("Usage").field(usage).finish(),
            Self::ResumeToken(token) => Debug::fmt(token, f),
            Self::PermissionModeChanged(mode) => f.debug_tuple("PermissionModeChanged").field(&length(mode)).finish(),
            Self::Retrying { attempt, max, delay, status, category } => f
                .debug_struct("Retrying")
                .field("attempt", attempt)
                .field("max", max)
                .field("delay", delay)
                .field("status", status)
                .field("category", category)
                .finish(),
            Self::Notice(text) => f.debug_tuple("Notice").field(&length(text)).finish(),
            Self::SteerInjected(steer) => f.debug_tuple("SteerInjected").field(steer).finish(),
            Self::SteerUndelivered(steer) => f.debug_tuple("SteerUndelivered").field(steer).finish(),
            Self::CompactionStarted => f.write_str("CompactionStarted"),
            Self::CompactionFinished { before, after } => {
                f.debug_struct("CompactionFinished").field("before", before).field("after", after).finish()
            }
            Self::CompactionFailed(why) => f.debug_tuple("CompactionFailed").field(&length(why)).finish(),
            Self::BackgroundChanged(task) => f.debug_tuple("BackgroundChanged").field(task).finish(),
            Self::BackgroundEnded { id } => f.debug_struct("BackgroundEnded").field("id", id).finish(),
            Self::SubAgent { agent, event } => {
                f.debug_struct("SubAgent").field("agent", agent).field("event", event).finish()
            }
            Self::TurnEnded(outcome) => f.debug_tuple("TurnEnded").field(outcome).finish(),
            Self::Gone { status, stderr } => {
                f.debug_struct("Gone").field("status", status).field("stderr", stderr).finish()
            }
        }
    }
}

impl Debug for TurnCause {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::Prompt => f.write_str("Prompt"),
            Self::Agent(reason) => f.debug_tuple("Agent").field(&length(reason)).finish(),
        }
    }
}

impl Debug for BackgroundTask {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.debug_struct("BackgroundTask")
            .field("id", &self.id)
            .field("kind", &self.kind)
            .field("description", &length(&self.description))
            .field("call", &self.call)
            .finish()
    }
}

impl Debug for SubAgentStart {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.debug_struct("SubAgentStart")
            .field("call", &self.call)
            .field("parent", &self.parent)
            .field("kind", &self.kind)
            .field("description", &length(&self.description))
            .field("prompt", &self.prompt)
            .finish()
    }
}

impl Debug for ToolDisplay {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.debug_struct("ToolDisplay").field("name", &self.name).field("kind", &self.kind).finish_non_exhaustive()
    }
}

impl Debug for FileEdit {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.debug_struct("FileEdit")
            .field("path", &self.path)
            .field("before", &self.before.as_ref().map(length))
            .field("after", &self.after.as_ref().map(length))
            .field("added", &self.added)
            .field("removed", &self.removed)
            .finish()
    }
}

impl Debug for GatedCall<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.debug_struct("GatedCall")
            .field("id", &self.id)
            .field("tool", &self.tool)
            .field("input", &length(self.input.get()))
            .field("sub_agent", &self.sub_agent)
            .field("cwd", &self.cwd)
            .finish()
    }
}

impl Debug for PermissionRequest {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.debug_struct("PermissionRequest")
            .field("request", &self.request)
            .field("call", &self.call)
            .field("tool", &self.tool)
            .field("input", &length(self.input.get()))
            .field("sub_agent", &self.sub_agent)
            .finish_non_exhaustive()
    }
}

impl Debug for QuestionRequest {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.debug_struct("QuestionRequest")
            .field("request", &self.request)
            .field("call", &self.call)
            .field("sub_agent", &self.sub_agent)
            .field("questions", &self.questions)
            .finish_non_exhaustive()
    }
}

impl Debug for Question {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        // An id may be the question itself.
        f.debug_struct("Question")
            .field("text", &length(&self.text))
            .field("kind", &self.kind)
            .field("required", &self.required)
            .finish_non_exhaustive()
    }
}

impl Debug for Choice {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.debug_struct("Choice").field("label", &length(&self.label)).finish_non_exhaustive()
    }
}

impl Debug for PlanRequest {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.debug_struct("PlanRequest")
            .field("request", &self.request)
            .field("call", &self.call)
            .field("plan", &self.plan.as_ref().map(length))
            .finish()
    }
}

impl Debug for Answer {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::Allow { input } => {
                let input = input.as_ref().map(|input| length(input.get()));
                f.debug_struct("Allow").field("input", &input).finish()
            }
            Self::Proceed { mode } => f.debug_struct("Proceed").field("mode", mode).finish(),
            Self::Deny { message } => f.debug_struct("Deny").field("message", &length(message)).finish(),
            Self::Answers(answers) => {
                f.debug_list().entries(answers.iter().map(|(question, answer)| (length(question), answer))).finish()
            }
            Self::Skip => f.write_str("Skip"),
        }
    }
}

impl Debug for QuestionAnswer {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::Chosen { options, free_text } => f
                .debug_struct("Chosen")
                .field("options", &lengths(options))
                .field("free_text", &lengths(free_text))
                .finish(),
            Self::Text(text) => f.debug_tuple("Text").field(&length(text)).finish(),
            Self::Number(_) => f.write_str("Number"),
            Self::YesOrNo(_) => f.write_str("YesOrNo"),
        }
    }
}

impl Debug for Said {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::Person { text, attached } => {
                f.debug_struct("Person").field("text", &length(text)).field("attached", attached).finish()
            }
            Self::Agent(reason) => f.debug_tuple("Agent").field(&length(reason)).finish(),
        }
    }
}

impl Debug for FoundConversation {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.debug_struct("FoundConversation")
            .field("id", &self.id)
            .field("title", &length(&self.title))
            .field("directory", &self.directory)
            .field("modified", &self.modified)
            .finish_non_exhaustive()
    }
}

impl Debug for ResumeToken {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.debug_tuple("ResumeToken").field(&length(&self.0)).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::SystemTime;

    use serde_json::value::RawValue;
    use uuid::Uuid;

    use super::*;
    use crate::{BackgroundKind, PartId, Prompt, QuestionKind, RequestId, SubAgentEvent, SubAgentId, ToolOutcome};

    const PLANTED: &str = "planted";

    fn words() -> String {
        PLANTED.to_owned()
    }

    fn json() -> Arc<RawValue> {
        RawValue::from_string(format!("{{\"command\":\"{PLANTED}\"}}")).unwrap().into()
    }

    fn display() -> ToolDisplay {
        ToolDisplay { present: words(), past: words(), intention: Some(words()), ..ToolDisplay::default() }
    }

    #[test]
    fn what_an_agent_does_is_printed_without_its_words() {
        let request = || RequestId("r1".to_owned());
        let id = || "c1".to_owned();
        let edit =
            FileEdit { path: "a.rs".to_owned(), before: Some(words()), after: Some(words()), added: 1, removed: 1 };
        let question = Question {
            id: words(),
            header: Some(words()),
            text: words(),
            kind: QuestionKind::Choice {
                options: vec![Choice { id: words(), label: words(), description: Some(words()) }],
                multiple: false,
                free_text: true,
            },
            required: true,
        };
        let task = BackgroundTask { id: id(), kind: BackgroundKind::Shell, description: words(), call: None };
        let start =
            SubAgentStart { call: id(), parent: None, kind: None, description: words(), prompt: Prompt::new(words()) };
        let events = [
            DriverEvent::TurnBegan(TurnCause::Agent(words())),
            DriverEvent::Delta { part: PartId(1), text: words() },
            DriverEvent::ToolStarted { id: id(), name: "Bash".to_owned(), display: display() },
            DriverEvent::ToolInputDelta { id: id(), json: words() },
            DriverEvent::ToolReady { id: id(), input: json(), display: display() },
            DriverEvent::ToolFinished { id: id(), outcome: ToolOutcome::Failed, output: words(), edit: Some(edit) },
            DriverEvent::PermissionRequested(PermissionRequest {
                request: request(),
                call: id(),
                tool: "Bash".to_owned(),
                input: json(),
                sub_agent: None,
                reason: Some(words()),
                display: display(),
            }),
            DriverEvent::QuestionsAsked(QuestionRequest {
                request: request(),
                call: None,
                sub_agent: None,
                title: Some(words()),
                questions: vec![question],
            }),
            DriverEvent::PlanProposed(PlanRequest { request: request(), call: id(), plan: Some(words()) }),
            DriverEvent::ResumeToken(ResumeToken(words())),
            DriverEvent::PermissionModeChanged(words()),
            DriverEvent::Notice(words()),
            DriverEvent::CompactionFailed(words()),
            DriverEvent::BackgroundChanged(task),
            DriverEvent::SubAgent { agent: SubAgentId("a1".to_owned()), event: SubAgentEvent::Started(start) },
        ];
        for event in events {
            let shown = format!("{event:?}");
            assert!(shown.contains(" bytes") || shown.contains("ToolStarted"), "{shown}");
            assert!(!shown.contains(PLANTED), "{shown}");
        }
    }

    #[test]
    fn what_people_say_is_printed_without_their_words() {
        let answers = QuestionAnswer::Chosen { options: vec![words()], free_text: vec![words()] };
        let found = FoundConversation {
            id: Uuid::nil(),
            token: ResumeToken(words()),
            title: words(),
            given_title: Some(words()),
            tag: crate::Tag::On(words()),
            directory: None,
            created: None,
            modified: SystemTime::UNIX_EPOCH,
        };
        let shown = [
            format!("{:?}", Answer::Allow { input: Some(json()) }),
            format!("{:?}", Answer::Deny { message: words() }),
            format!("{:?}", Answer::Answers(vec![(words(), answers), (words(), QuestionAnswer::Text(words()))])),
            format!("{:?}", Said::Person { text: words(), attached: 1 }),
            format!("{:?}", GatedCall { id: "c1", tool: "Bash", input: &json(), sub_agent: None, cwd: None }),
            format!("{found:?}"),
        ];
        for shown in shown {
            assert!(shown.contains(" bytes") && !shown.contains(PLANTED), "{shown}");
        }
    }
}
