//! Prepares a message with attachments before its session's actor receives it: plans them, or rejects the message.

use std::sync::Arc;

use ahp_types::StateAction;
use ahp_types::state::{Message, MessageAttachment};
use hostler_attachments::{
    AttachmentError, AttachmentErrorCode, AttachmentPlan, AttachmentSummary, max_decoded_pixels, plan_attachments,
};
use hostler_driver::{Driver, Prompt};
use tokio::sync::oneshot;

use super::resolve::{AttachmentEcho, AttachmentResolver};
use super::summary::{AttachmentPlanSummary, refused_file, withheld_file};
use super::vision::refuse_images;
use super::{
    AttachmentContents, AttachmentRejection, ChatView, ClientFileReader, action_message_mut,
    attachment_history_with_active_turn, draft, published_message,
};
use crate::host::Host;
use crate::sessions::actor::SessionInput;
use crate::sessions::rejection::ActionRejection;
use crate::sessions::session::Dispatch;
use crate::uri;

/// Why a message is rejected.
struct PlanRefusal {
    /// The reason that concerns the whole message, with its code.
    message_reason: Option<(AttachmentErrorCode, String)>,
    /// The files that were checked.
    files: Vec<AttachmentSummary>,
}

impl PlanRefusal {
    fn of_message(code: AttachmentErrorCode, sentence: String) -> Self {
        Self { message_reason: Some((code, sentence)), files: Vec::new() }
    }

    /// One text for a person that names every rejected file with its reason, and the codes for programs.
    fn to_rejection(&self) -> AttachmentRejection {
        let codes = self.message_reason.iter().map(|(code, _)| *code);
        let code = codes.chain(self.files.iter().filter_map(|file| file.code)).next();
        let whole = self.message_reason.iter().map(|(code, sentence)| format!("{sentence} ({})", code.as_str()));
        let files = self.files.iter().filter_map(|file| {
            let (code, sentence) = (file.code?.as_str(), file.message.as_ref()?);
            Some(format!("{}: {sentence} ({code})", file.label))
        });
        let message = format!("the message was not sent: {}", whole.chain(files).collect::<Vec<_>>().join("; "));
        AttachmentRejection { code: code.unwrap_or(AttachmentErrorCode::TransportFailed), message }
    }
}

/// A plan in which all attachments can be sent.
struct AcceptedPlan {
    plan: AttachmentPlan,
    echoes: Vec<AttachmentEcho>,
}

impl Host {
    /// The current state of a session and one of its chats.
    pub(crate) async fn chat_view(self: &Arc<Self>, channel: &str) -> Option<ChatView> {
        let session = uri::session_of(channel)?;
        let handle = self.load_session(&session).await?;
        let (reply, view) = oneshot::channel();
        handle.send(SessionInput::ViewChat(channel.to_owned(), reply)).await.ok()?;
        view.await.ok()?
    }

    /// Replaces the contents of a dispatch's message by references, or returns why it is rejected. `None` if there is
    /// no such session.
    pub(crate) async fn prepare_dispatch(
        self: &Arc<Self>,
        mut dispatch: Dispatch,
        fetch: &dyn ClientFileReader,
    ) -> Option<Result<Dispatch, (Dispatch, ActionRejection)>> {
        let Some(view) = self.chat_view(&dispatch.channel).await else {
            let known =
                uri::session_of(&dispatch.channel).is_some_and(|session| self.catalog.sessions().contains(&session));
            return if known { Some(Err((dispatch, ActionRejection::ChatNotFound))) } else { None };
        };
        let is_draft = matches!(dispatch.action, StateAction::ChatDraftChanged(_));
        let Some(message) = action_message_mut(&mut dispatch.action) else { return Some(Ok(dispatch)) };
        // Local turns display their attachments; no agent receives them, so they are neither planned nor rejected.
        let prepared = match is_draft || self.local_command(&message.text).is_some() {
            true => self.store_draft(message).await,
            false => {
                let accepted = self.plan_message(&view, message, fetch).await;
                accepted.map(|accepted| published_message::rewrite_message(message, accepted.echoes, &accepted.plan))
            }
        };
        Some(match prepared {
            Ok(blobs) => {
                dispatch.attachment_contents = AttachmentContents::prepared(blobs);
                Ok(dispatch)
            }
            Err(refused) => Err((dispatch, refused.to_rejection().into())),
        })
    }

    /// The plan for attachments that would be sent now. Stores nothing.
    pub(crate) async fn plan_summary(
        self: &Arc<Self>,
        channel: &str,
        attached: Vec<MessageAttachment>,
        fetch: &dyn ClientFileReader,
    ) -> Option<AttachmentPlanSummary> {
        let view = self.chat_view(channel).await?;
        let mut attached = attached;
        let blind = self.model_without_vision(&view, None);
        let planned = self.plan_attachments(&view, String::new(), &mut attached, blind, fetch).await;
        Some(match planned {
            Ok(accepted) => AttachmentPlanSummary { ok: true, reason: None, files: accepted.plan.summaries() },
            Err(refused) => {
                let reason = refused.message_reason.map(|(_, sentence)| sentence);
                AttachmentPlanSummary { ok: false, reason, files: refused.files }
            }
        })
    }

    async fn store_draft(&self, message: &mut Message) -> Result<Vec<hostler_store::Blob>, PlanRefusal> {
        let count = message.attachments.as_ref().map_or(0, Vec::len);
        if count > self.attachments.limits().files {
            return Err(self.too_many_files(count));
        }
        let mut blobs = draft::rewrite_draft(message, self.attachments.limits()).map_err(|refusals| PlanRefusal {
            message_reason: None,
            files: refusals.into_iter().filter_map(refused_file).collect(),
        })?;
        // Contents of an earlier message belong to this session from now on as well.
        for hash in draft::referenced_hashes(message) {
            if let Ok(Some(blob)) = self.store.blob(&hash).await {
                blobs.push(blob);
            }
        }
        Ok(blobs)
    }

    fn too_many_files(&self, count: usize) -> PlanRefusal {
        let sentence =
            format!("a message can have at most {} files, and this one has {count}", self.attachments.limits().files);
        PlanRefusal::of_message(AttachmentErrorCode::TooLarge, sentence)
    }

    async fn plan_message(
        self: &Arc<Self>,
        view: &ChatView,
        message: &mut Message,
        fetch: &dyn ClientFileReader,
    ) -> Result<AcceptedPlan, PlanRefusal> {
        let text = message.text.clone();
        let blind = self.model_without_vision(view, message.model.as_ref().map(|model| &*model.id));
        let attached = message.attachments.as_deref_mut().unwrap_or_default();
        self.plan_attachments(view, text, attached, blind, fetch).await
    }

    async fn plan_attachments(
        self: &Arc<Self>,
        view: &ChatView,
        text: String,
        attached: &mut [MessageAttachment],
        blind: Option<String>,
        fetch: &dyn ClientFileReader,
    ) -> Result<AcceptedPlan, PlanRefusal> {
        let limits = self.attachments.limits().clone();
        if attached.len() > limits.files {
            return Err(self.too_many_files(attached.len()));
        }
        let (mut items, mut echoes) = (Vec::new(), Vec::new());
        // In the user's order: the refusal of an attachment, or `None` if it is planned.
        let mut refusals: Vec<Option<AttachmentError>> = Vec::new();
        let mut resolver =
            AttachmentResolver { host: self, view, client_files: fetch, remaining_bytes: limits.total_bytes };
        for attachment in attached {
            let resolved = resolver.resolve(attachment).await;
            refusals.push(match resolved {
                Ok(resolved) => {
                    items.push(resolved.item);
                    echoes.push(resolved.echo);
                    None
                }
                Err(refusal) => Some(refusal),
            });
        }
        let stopping =
            || PlanRefusal::of_message(AttachmentErrorCode::TransportFailed, "the host is stopping".to_owned());
        let _place = self.attachments.plan_slots.acquire().await.map_err(|_| stopping())?;
        let driver = self.agents.driver(&view.session.provider).map(Arc::clone);
        let history = attachment_history_with_active_turn(view);
        let failed = |error| {
            tracing::error!(%error, "failed to plan attachments");
            PlanRefusal::of_message(
                AttachmentErrorCode::OptimizationFailed,
                "the files could not be processed; try again".to_owned(),
            )
        };
        let weigh = {
            let limits = limits.clone();
            move || (max_decoded_pixels(&items, &limits), items)
        };
        let (pixels, items) = tokio::task::spawn_blocking(weigh).await.map_err(failed)?;
        let pixels = self.attachments.pixel_budget.acquire(pixels).await.ok_or_else(stopping)?;
        let work = move || {
            let plan = plan_attachments(items, &limits, history);
            drop(pixels);
            let too_long = plan.as_ref().ok().and_then(|plan| oversized_prompt_reason(&*driver?, text, plan));
            (plan, too_long)
        };
        let (planned, too_long) = tokio::task::spawn_blocking(work).await.map_err(failed)?;
        let (mut looked_at, plan) = match planned {
            Ok(plan) => (plan.summaries(), Some(plan)),
            Err(rejection) => (rejection.summaries, None),
        };
        let unseen = blind.is_some_and(|model| refuse_images(&mut looked_at, &model));
        if let Some(plan) = plan
            && refusals.iter().all(Option::is_none)
            && too_long.is_none()
            && !unseen
        {
            return Ok(AcceptedPlan { plan, echoes });
        }
        let mut looked_at = looked_at.into_iter().map(withheld_file);
        let files = refusals.into_iter().filter_map(|refusal| match refusal {
            Some(refusal) => refused_file(refusal),
            None => looked_at.next(),
        });
        let whole = too_long.map(|sentence| (AttachmentErrorCode::PayloadTooLarge, sentence));
        Err(PlanRefusal { message_reason: whole, files: files.collect() })
    }
}

/// Why a message exceeds the agent's limit.
fn oversized_prompt_reason(driver: &dyn Driver, text: String, plan: &AttachmentPlan) -> Option<String> {
    let prompt = Prompt::new(text).with_blocks(plan.blocks());
    let (size, most) = (driver.measure_prompt_bytes(&prompt), driver.max_prompt_bytes());
    (size > most).then(|| {
        format!(
            "the message would have {size} bytes, and the agent accepts at most {most}; send fewer or smaller files"
        )
    })
}
