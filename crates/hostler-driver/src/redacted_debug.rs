//! Redacted `Debug` for events, requests and answers: names, ids and lengths. Prompts, model output and file contents
//! never reach a log.

use std::fmt::{Debug, Formatter, Result};

use hostler_redact::{ByteLength, byte_length};

use crate::{
    Answer, BackgroundTask, DriverEvent, ExternalConversation, FileEdit, GatedCall, PermissionRequest, PlanRequest,
    Question, QuestionAnswer, QuestionOption, QuestionRequest, ResumeToken, SubAgentStart, ToolDisplay, TurnCause,
    TurnOrigin,
};

fn lengths(texts: &[String]) -> Vec<ByteLength> {
    texts.iter().map(byte_length).collect()
}

impl Debug for DriverEvent {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::TurnStarted(cause) => f.debug_tuple("TurnBegan").field(cause).finish(),
            Self::MessageStarted => f.write_str("MessageStarted"),
            Self::PartStarted { part, kind } => {
                f.debug_struct("PartStarted").field("part", part).field("kind", kind).finish()
            }
            Self::PartDelta { part, text } => {
                f.debug_struct("Delta").field("part", part).field("text", &byte_length(text)).finish()
            }
            Self::ToolStarted { id, name, display } => {
                f.debug_struct("ToolStarted").field("id", id).field("name", name).field("display", display).finish()
            }
            Self::ToolInputDelta { id, json } => {
                f.debug_struct("ToolInputDelta").field("id", id).field("json", &byte_length(json)).finish()
            }
            Self::ToolReady { id, input, display } => f
                .debug_struct("ToolReady")
                .field("id", id)
                .field("input", &byte_length(input.get()))
                .field("display", display)
                .finish(),
            Self::ToolDecided { id, decision: gate } => {
                f.debug_struct("ToolGated").field("id", id).field("gate", gate).finish()
            }
            Self::ToolProgress { id, elapsed } => {
                f.debug_struct("ToolProgress").field("id", id).field("elapsed", elapsed).finish()
            }
            Self::ToolFinished { id, outcome, output, edit } => f
                .debug_struct("ToolFinished")
                .field("id", id)
                .field("outcome", outcome)
                .field("output", &byte_length(output))
                .field("edit", edit)
                .finish(),
            Self::PermissionRequested(request) => f.debug_tuple("PermissionRequested").field(request).finish(),
            Self::QuestionsAsked(request) => f.debug_tuple("QuestionsAsked").field(request).finish(),
            Self::PlanProposed(request) => f.debug_tuple("PlanProposed").field(request).finish(),
            Self::RequestWithdrawn(request) => f.debug_tuple("RequestWithdrawn").field(request).finish(),
            Self::Usage(usage) => f.debug_tuple("Usage").field(usage).finish(),
            Self::ResumeToken(token) => Debug::fmt(token, f),
            Self::PermissionModeChanged(mode) => {
                f.debug_tuple("PermissionModeChanged").field(&byte_length(mode)).finish()
            }
            Self::Retrying { attempt, max_attempts: max, delay, status, category } => f
                .debug_struct("Retrying")
                .field("attempt", attempt)
                .field("max", max)
                .field("delay", delay)
                .field("status", status)
                .field("category", category)
                .finish(),
            Self::Notice(text) => f.debug_tuple("Notice").field(&byte_length(text)).finish(),
            Self::SteerInjected(steer) => f.debug_tuple("SteerInjected").field(steer).finish(),
            Self::SteerUndelivered(steer) => f.debug_tuple("SteerUndelivered").field(steer).finish(),
            Self::CompactionStarted => f.write_str("CompactionStarted"),
            Self::CompactionFinished { tokens_before: before, tokens_after: after } => {
                f.debug_struct("CompactionFinished").field("before", before).field("after", after).finish()
            }
            Self::CompactionFailed(why) => f.debug_tuple("CompactionFailed").field(&byte_length(why)).finish(),
            Self::BackgroundTaskChanged(task) => f.debug_tuple("BackgroundChanged").field(task).finish(),
            Self::BackgroundTaskEnded { id } => f.debug_struct("BackgroundEnded").field("id", id).finish(),
            Self::SubAgent { agent, event } => {
                f.debug_struct("SubAgent").field("agent", agent).field("event", event).finish()
            }
            Self::TurnEnded(outcome) => f.debug_tuple("TurnEnded").field(outcome).finish(),
            Self::ProcessExited { status, stderr } => {
                f.debug_struct("Gone").field("status", status).field("stderr", stderr).finish()
            }
        }
    }
}

impl Debug for TurnCause {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::Prompt => f.write_str("Prompt"),
            Self::Agent(reason) => f.debug_tuple("Agent").field(&byte_length(reason)).finish(),
        }
    }
}

impl Debug for BackgroundTask {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.debug_struct("BackgroundTask")
            .field("id", &self.id)
            .field("kind", &self.kind)
            .field("description", &byte_length(&self.description))
            .field("call", &self.call_id)
            .finish()
    }
}

impl Debug for SubAgentStart {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.debug_struct("SubAgentStart")
            .field("call", &self.call_id)
            .field("parent", &self.parent_id)
            .field("kind", &self.kind)
            .field("description", &byte_length(&self.description))
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
            .field("before", &self.before.as_ref().map(byte_length))
            .field("after", &self.after.as_ref().map(byte_length))
            .field("added", &self.added_lines)
            .field("removed", &self.removed_lines)
            .finish()
    }
}

impl Debug for GatedCall {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.debug_struct("GatedCall")
            .field("id", &self.call_id)
            .field("tool", &self.tool)
            .field("input", &byte_length(self.input.get()))
            .field("sub_agent", &self.sub_agent)
            .field("cwd", &self.cwd)
            .finish()
    }
}

impl Debug for PermissionRequest {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.debug_struct("PermissionRequest")
            .field("request", &self.request_id)
            .field("call", &self.call_id)
            .field("tool", &self.tool)
            .field("input", &byte_length(self.input.get()))
            .field("sub_agent", &self.sub_agent)
            .finish_non_exhaustive()
    }
}

impl Debug for QuestionRequest {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.debug_struct("QuestionRequest")
            .field("request", &self.request_id)
            .field("call", &self.call_id)
            .field("sub_agent", &self.sub_agent)
            .field("questions", &self.questions)
            .finish_non_exhaustive()
    }
}

impl Debug for Question {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        // An id may be the text of the question.
        f.debug_struct("Question")
            .field("text", &byte_length(&self.text))
            .field("kind", &self.kind)
            .field("required", &self.required)
            .finish_non_exhaustive()
    }
}

impl Debug for QuestionOption {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.debug_struct("Choice").field("label", &byte_length(&self.label)).finish_non_exhaustive()
    }
}

impl Debug for PlanRequest {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.debug_struct("PlanRequest")
            .field("request", &self.request_id)
            .field("call", &self.call_id)
            .field("plan", &self.plan.as_ref().map(byte_length))
            .finish()
    }
}

impl Debug for Answer {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::Allow { input } => {
                let input = input.as_ref().map(|input| byte_length(input.get()));
                f.debug_struct("Allow").field("input", &input).finish()
            }
            Self::AcceptPlan { mode } => f.debug_struct("Proceed").field("mode", mode).finish(),
            Self::Deny { message } => f.debug_struct("Deny").field("message", &byte_length(message)).finish(),
            Self::Answers(answers) => f
                .debug_list()
                .entries(answers.iter().map(|(question, answer)| (byte_length(question), answer)))
                .finish(),
            Self::Skip => f.write_str("Skip"),
        }
    }
}

impl Debug for QuestionAnswer {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::Selected { options, free_text } => f
                .debug_struct("Chosen")
                .field("options", &lengths(options))
                .field("free_text", &lengths(free_text))
                .finish(),
            Self::Text(text) => f.debug_tuple("Text").field(&byte_length(text)).finish(),
            Self::Number(_) => f.write_str("Number"),
            Self::Boolean(_) => f.write_str("YesOrNo"),
        }
    }
}

impl Debug for TurnOrigin {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::User { text, attachment_count: attached } => {
                f.debug_struct("Person").field("text", &byte_length(text)).field("attached", attached).finish()
            }
            Self::Agent(reason) => f.debug_tuple("Agent").field(&byte_length(reason)).finish(),
        }
    }
}

impl Debug for ExternalConversation {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.debug_struct("FoundConversation")
            .field("id", &self.id)
            .field("title", &byte_length(&self.title))
            .field("directory", &self.working_directory)
            .field("modified", &self.modified)
            .finish_non_exhaustive()
    }
}

impl Debug for ResumeToken {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.debug_tuple("ResumeToken").field(&byte_length(&self.0)).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::SystemTime;

    use serde_json::value::RawValue;
    use uuid::Uuid;

    use super::*;
    use crate::{
        AgentRequestId, BackgroundTaskKind, PartId, Prompt, QuestionKind, SubAgentEvent, SubAgentId, ToolOutcome,
    };

    const PLANTED: &str = "planted";

    fn secret_text() -> String {
        PLANTED.to_owned()
    }

    fn json() -> Arc<RawValue> {
        RawValue::from_string(format!("{{\"command\":\"{PLANTED}\"}}")).unwrap().into()
    }

    fn display() -> ToolDisplay {
        ToolDisplay {
            running_text: secret_text(),
            finished_text: secret_text(),
            intention: Some(secret_text()),
            ..ToolDisplay::default()
        }
    }

    #[test]
    fn debug_of_events_shows_no_content() {
        let request = || AgentRequestId("r1".to_owned());
        let id = || "c1".to_owned();
        let edit = FileEdit {
            path: "a.rs".to_owned(),
            before: Some(secret_text()),
            after: Some(secret_text()),
            added_lines: 1,
            removed_lines: 1,
        };
        let question = Question {
            id: secret_text(),
            header: Some(secret_text()),
            text: secret_text(),
            kind: QuestionKind::Choice {
                options: vec![QuestionOption {
                    id: secret_text(),
                    label: secret_text(),
                    description: Some(secret_text()),
                }],
                allows_multiple: false,
                allows_free_text: true,
            },
            required: true,
        };
        let task =
            BackgroundTask { id: id(), kind: BackgroundTaskKind::Shell, description: secret_text(), call_id: None };
        let start = SubAgentStart {
            call_id: id(),
            parent_id: None,
            kind: None,
            description: secret_text(),
            prompt: Prompt::new(secret_text()),
        };
        let events = [
            DriverEvent::TurnStarted(TurnCause::Agent(secret_text())),
            DriverEvent::PartDelta { part: PartId(1), text: secret_text() },
            DriverEvent::ToolStarted { id: id(), name: "Bash".to_owned(), display: display() },
            DriverEvent::ToolInputDelta { id: id(), json: secret_text() },
            DriverEvent::ToolReady { id: id(), input: json(), display: display() },
            DriverEvent::ToolFinished {
                id: id(),
                outcome: ToolOutcome::Failed,
                output: secret_text(),
                edit: Some(edit),
            },
            DriverEvent::PermissionRequested(PermissionRequest {
                request_id: request(),
                call_id: id(),
                tool: "Bash".to_owned(),
                input: json(),
                sub_agent: None,
                reason: Some(secret_text()),
                display: display(),
            }),
            DriverEvent::QuestionsAsked(QuestionRequest {
                request_id: request(),
                call_id: None,
                sub_agent: None,
                title: Some(secret_text()),
                questions: vec![question],
            }),
            DriverEvent::PlanProposed(PlanRequest { request_id: request(), call_id: id(), plan: Some(secret_text()) }),
            DriverEvent::ResumeToken(ResumeToken(secret_text())),
            DriverEvent::PermissionModeChanged(secret_text()),
            DriverEvent::Notice(secret_text()),
            DriverEvent::CompactionFailed(secret_text()),
            DriverEvent::BackgroundTaskChanged(task),
            DriverEvent::SubAgent { agent: SubAgentId("a1".to_owned()), event: SubAgentEvent::Started(start) },
        ];
        for event in events {
            let shown = format!("{event:?}");
            assert!(shown.contains(" bytes") || shown.contains("ToolStarted"), "{shown}");
            assert!(!shown.contains(PLANTED), "{shown}");
        }
    }

    #[test]
    fn debug_of_user_text_shows_no_content() {
        let answers = QuestionAnswer::Selected { options: vec![secret_text()], free_text: vec![secret_text()] };
        let found = ExternalConversation {
            id: Uuid::nil(),
            resume_token: ResumeToken(secret_text()),
            title: secret_text(),
            custom_title: Some(secret_text()),
            tag: Some(secret_text()),
            working_directory: None,
            created: None,
            modified: SystemTime::UNIX_EPOCH,
        };
        let shown = [
            format!("{:?}", Answer::Allow { input: Some(json()) }),
            format!("{:?}", Answer::Deny { message: secret_text() }),
            format!(
                "{:?}",
                Answer::Answers(vec![(secret_text(), answers), (secret_text(), QuestionAnswer::Text(secret_text()))])
            ),
            format!("{:?}", TurnOrigin::User { text: secret_text(), attachment_count: 1 }),
            format!(
                "{:?}",
                GatedCall { call_id: "c1".into(), tool: "Bash".into(), input: json(), sub_agent: None, cwd: None }
            ),
            format!("{found:?}"),
        ];
        for shown in shown {
            assert!(shown.contains(" bytes") && !shown.contains(PLANTED), "{shown}");
        }
    }
}
