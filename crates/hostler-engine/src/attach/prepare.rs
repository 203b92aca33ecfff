//! The way of a message with attachments before its session's actor sees it.

use std::sync::Arc;

use ahp_types::StateAction;
use ahp_types::state::{Message, MessageAttachment};
use hostler_attachments::{Code, Plan, Refusal, Summary, decoded_pixels, plan};
use hostler_driver::{Driver, Prompt};
use tokio::sync::oneshot;

use super::resolve::{Echo, Resolver};
use super::sight::refuse_pictures;
use super::summary::{PlanSummary, held_back, refused};
use super::{Contents, Fetch, View, draft, echo, history_with_running_turn, message_mut};
use crate::actor::Input;
use crate::host::Host;
use crate::session::Dispatch;
use crate::uri;

/// Why nothing is sent.
struct Refused {
    /// What stands in the way of the message as a whole, with its code.
    whole: Option<(Code, String)>,
    /// Every file, as far as they were looked at.
    files: Vec<Summary>,
}

impl Refused {
    fn whole(code: Code, sentence: String) -> Self {
        Self { whole: Some((code, sentence)), files: Vec::new() }
    }

    /// One sentence for a person that names every file that stands in the way and why, with the codes that programs look
    /// for.
    fn reason(&self) -> String {
        let whole = self.whole.iter().map(|(code, sentence)| format!("{sentence} ({})", code.as_str()));
        let files = self.files.iter().filter_map(|file| {
            let (code, sentence) = (file.code?.as_str(), file.sentence.as_ref()?);
            Some(format!("{}: {sentence} ({code})", file.label))
        });
        format!("nothing was sent: {}", whole.chain(files).collect::<Vec<_>>().join("; "))
    }
}

/// Attachments that can all be sent.
struct Accepted {
    plan: Plan,
    echoes: Vec<Echo>,
}

impl Host {
    /// A session and one of its chats as they are now.
    pub(crate) async fn view(self: &Arc<Self>, channel: &str) -> Option<View> {
        let session = uri::session_of(channel)?;
        let handle = self.waken(&session).await?;
        let (reply, view) = oneshot::channel();
        handle.send(Input::View(channel.to_owned(), reply)).await.ok()?;
        view.await.ok()?
    }

    /// Replaces what a dispatch's message carries by names, and says why not otherwise. `None` if there is no such session.
    pub(crate) async fn prepare(
        self: &Arc<Self>,
        mut dispatch: Dispatch,
        fetch: &dyn Fetch,
    ) -> Option<Result<Dispatch, (Dispatch, String)>> {
        let Some(view) = self.view(&dispatch.channel).await else {
            let known = uri::session_of(&dispatch.channel).is_some_and(|session| self.sessions().knows(&session));
            return if known { Some(Err((dispatch, "there is no such chat".to_owned()))) } else { None };
        };
        let is_draft = matches!(dispatch.action, StateAction::ChatDraftChanged(_));
        let Some(message) = message_mut(&mut dispatch.action) else { return Some(Ok(dispatch)) };
        // The host's own turns show what came with them; no agent is sent it, so nothing is planned or refused for one.
        let prepared = match is_draft || self.local(&message.text).is_some() {
            true => self.keep_draft(message).await,
            false => {
                let accepted = self.plan_message(&view, message, fetch).await;
                accepted.map(|accepted| echo::rewrite(message, accepted.echoes, &accepted.plan))
            }
        };
        Some(match prepared {
            Ok(blobs) => {
                dispatch.contents = Contents::prepared(blobs);
                Ok(dispatch)
            }
            Err(refused) => {
                let reason = refused.reason();
                Err((dispatch, reason))
            }
        })
    }

    /// What would become of attachments, were they sent now. Keeps nothing.
    pub(crate) async fn plan_summary(
        self: &Arc<Self>,
        channel: &str,
        attached: Vec<MessageAttachment>,
        fetch: &dyn Fetch,
    ) -> Option<PlanSummary> {
        let view = self.view(channel).await?;
        let mut attached = attached;
        let blind = self.sightless(&view, None);
        let planned = self.plan(&view, String::new(), &mut attached, blind, fetch).await;
        Some(match planned {
            Ok(accepted) => PlanSummary { ok: true, reason: None, files: accepted.plan.summaries() },
            Err(refused) => {
                let reason = refused.whole.map(|(_, sentence)| sentence);
                PlanSummary { ok: false, reason, files: refused.files }
            }
        })
    }

    async fn keep_draft(&self, message: &mut Message) -> Result<Vec<hostler_store::Blob>, Refused> {
        let count = message.attachments.as_ref().map_or(0, Vec::len);
        if count > self.attachments.files {
            return Err(self.too_many(count));
        }
        let mut blobs = draft::rewrite(message, &self.attachments)
            .map_err(|refusals| Refused { whole: None, files: refusals.into_iter().filter_map(refused).collect() })?;
        // What an earlier message brought belongs to this session from now on as well.
        for hash in draft::named(message) {
            if let Ok(Some(blob)) = self.store.blob(&hash).await {
                blobs.push(blob);
            }
        }
        Ok(blobs)
    }

    fn too_many(&self, count: usize) -> Refused {
        let sentence = format!("a message can bring {} files, and this one has {count}", self.attachments.files);
        Refused::whole(Code::TooLarge, sentence)
    }

    async fn plan_message(
        self: &Arc<Self>,
        view: &View,
        message: &mut Message,
        fetch: &dyn Fetch,
    ) -> Result<Accepted, Refused> {
        let text = message.text.clone();
        let blind = self.sightless(view, message.model.as_ref().map(|model| &*model.id));
        let attached = message.attachments.as_deref_mut().unwrap_or_default();
        self.plan(view, text, attached, blind, fetch).await
    }

    async fn plan(
        self: &Arc<Self>,
        view: &View,
        text: String,
        attached: &mut [MessageAttachment],
        blind: Option<String>,
        fetch: &dyn Fetch,
    ) -> Result<Accepted, Refused> {
        let limits = self.attachments.clone();
        if attached.len() > limits.files {
            return Err(self.too_many(attached.len()));
        }
        let (mut items, mut echoes) = (Vec::new(), Vec::new());
        // In the user's order: why it is refused, or nothing if it is to be planned.
        let mut refusals: Vec<Option<Refusal>> = Vec::new();
        let mut resolver = Resolver { host: self, view, fetch, room: limits.total_bytes };
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
        let stopping = || Refused::whole(Code::TransportFailed, "the host is stopping".to_owned());
        let _place = self.planning.acquire().await.map_err(|_| stopping())?;
        let driver = self.drivers.get(&view.session.provider).map(Arc::clone);
        let history = history_with_running_turn(view);
        let failed = |error| {
            tracing::error!(%error, "attachments could not be planned");
            Refused::whole(Code::OptimizationFailed, "the files could not be looked at".to_owned())
        };
        let weigh = {
            let limits = limits.clone();
            move || (decoded_pixels(&items, &limits), items)
        };
        let (pixels, items) = tokio::task::spawn_blocking(weigh).await.map_err(failed)?;
        let pixels = self.pictures.take(pixels).await.ok_or_else(stopping)?;
        let work = move || {
            let plan = plan(items, &limits, history);
            drop(pixels);
            let too_long = plan.as_ref().ok().and_then(|plan| too_long(&*driver?, text, plan));
            (plan, too_long)
        };
        let (planned, too_long) = tokio::task::spawn_blocking(work).await.map_err(failed)?;
        let (mut looked_at, plan) = match planned {
            Ok(plan) => (plan.summaries(), Some(plan)),
            Err(rejection) => (rejection.files, None),
        };
        let unseen = blind.is_some_and(|model| refuse_pictures(&mut looked_at, &model));
        if let Some(plan) = plan
            && refusals.iter().all(Option::is_none)
            && too_long.is_none()
            && !unseen
        {
            return Ok(Accepted { plan, echoes });
        }
        let mut looked_at = looked_at.into_iter().map(held_back);
        let files = refusals.into_iter().filter_map(|refusal| match refusal {
            Some(refusal) => refused(refusal),
            None => looked_at.next(),
        });
        let whole = too_long.map(|sentence| (Code::PayloadTooLarge, sentence));
        Err(Refused { whole, files: files.collect() })
    }
}

/// Why a message is more than its agent takes at once.
fn too_long(driver: &dyn Driver, text: String, plan: &Plan) -> Option<String> {
    let prompt = Prompt::new(text).with_blocks(plan.blocks());
    let (size, most) = (driver.measure(&prompt), driver.longest_prompt());
    (size > most).then(|| {
        format!("the message would be {size} bytes for the agent, which takes {most}; send fewer or smaller files")
    })
}
