//! The session's actor: the single writer of a session.
//!
//! One loop, one [`SessionInput`], one `match`. It checks preconditions at the moment of reducing, passes events to its
//! components and carries out their effects. It knows nothing of connections, JSON-RPC or protocol versions.
//!
//! | component | decides | effects are carried out in |
//! |---|---|---|
//! | `turn::TurnMachine` | turns and the agent's process | `turn_lifecycle` |
//! | [`PendingMessages`] | queue and steering slot | `message_delivery` |
//! | [`ModeChanges`] | changes of the permission mode | `agent_settings` |
//! | [`FolderTrust`] | trust in the folder | `folder_assessment` |
//! | [`BackgroundTasks`] | background work after a stop | `background_tasks` |
//! | `IdleTimer` of [`SessionAgent`] | when an unused agent closes | `agent` |
//! | [`ImageRemoval`] | when the transcript may be changed | `agent` |
//! | [`BudgetView`] | display of usage and limits | `budget_view` |
//!
//! A component owns its state and gets what it reads as a parameter. What it decides has no clock, I/O, channel or host.
//! What all of them share (state, publication, gate, tasks, the running turn) is in [`SessionContext`].

mod agent;
mod agent_events;
mod agent_requests;
mod agent_settings;
mod agent_start;
mod answers;
mod background_tasks;
mod background_work;
mod budget_view;
mod completion_context;
mod context;
mod dispatch;
mod effect;
mod external_sync;
mod external_turns;
mod folder_assessment;
mod folder_trust;
mod idle_timer;
mod image_removal;
mod importer;
mod input;
mod local_turns;
mod message_delivery;
mod pending_messages;
mod permission_mode;
mod presence;
mod publishing;
mod session_change;
mod session_handle;
mod sub_agent_ends;
mod sub_agents;
mod transcript_metadata;
mod turn_failure;
mod turn_lifecycle;
mod turn_resume;
mod unconfirmed_commands;
mod unload;

use std::collections::VecDeque;
use std::sync::Arc;

use futures::StreamExt as _;
use hostler_driver::CloseMode;
use hostler_store::AuditEntry;
use tokio::sync::{mpsc, oneshot};

use self::agent::SessionAgent;
pub use self::background_tasks::BackgroundOutput;
use self::background_work::{BackgroundEvent, BackgroundTasks};
use self::budget_view::{BudgetEvent, BudgetView};
use self::context::SessionContext;
pub(crate) use self::context::build_catalog_put;
use self::effect::SessionEffect;
use self::external_sync::ExternalSync;
use self::folder_trust::FolderTrust;
pub use self::image_removal::ImageRemovalError;
use self::image_removal::{ImageRemoval, ImageRemovalEvent, ImageRemovalFacts, ImageRemovalResult};
use self::importer::Importer;
pub(crate) use self::input::{SessionInput, SubscribeOutcome, SubscribeRequest};
use self::local_turns::LocalCommandRun;
use self::pending_messages::PendingMessages;
use self::permission_mode::ModeChanges;
pub(crate) use self::session_handle::{SessionHandle, SessionSource};
use self::sub_agents::ActiveSubAgents;
use self::unload::Quiescence;
pub(crate) use self::unload::{DisposeFailure, DisposedSession};
use crate::clients::completion::CompletionContext;
use crate::host::Host;
use crate::permissions::pending_requests::PendingRequests;
use crate::sessions::action_mapper::TurnErrorDetails;
use crate::sessions::record::SessionRecord;
use crate::sessions::session::Dispatch;
use crate::sessions::turn::{TurnEffect, TurnInput, TurnMachine, TurnPhase};

/// How often a stopping session tries to store the end of its turn.
const MAX_SHUTDOWN_STORE_ATTEMPTS: u32 = 3;

async fn run_session(host: Arc<Host>, origin: SessionSource, mut inputs: mpsc::Receiver<SessionInput>) {
    let (session, transcript) = match origin.open(&host).await {
        Ok(opened) => opened,
        Err(error) => return unload::unload_unopened(&host, inputs, origin, &error).await,
    };
    let mut rules = host.permissions.rule_changes();
    let mut trust = host.permissions.trust_changes();
    let mut budget_changes = host.gateway.budget_changes(&session.uri).fuse();
    let restored = !matches!(origin, SessionSource::Provisional(_));
    let head = session.queued_messages().first().map(|message| message.id.clone());
    let (ctx, decisions) = SessionContext::new(host, session);
    let mut actor = SessionActor {
        ctx,
        unwritten_decisions: decisions,
        pending_requests: PendingRequests::default(),
        background_tasks: BackgroundTasks::default(),
        sub_agents: ActiveSubAgents::default(),
        folder_trust: FolderTrust::default(),
        pending_messages: PendingMessages::default(),
        image_removal: ImageRemoval::default(),
        external_sync: ExternalSync::default(),
        importer: Importer::default(),
        title_set_beside_agent: false,
        tag_set_beside_agent: false,
        unwritten_records: Vec::new(),
        mode_changes: ModeChanges::default(),
        machine: TurnMachine::restored(head),
        agent: SessionAgent::default(),
        local_commands: Vec::new(),
        budget_view: BudgetView::default(),
    };
    if restored {
        actor.ctx.summary.published = Some(actor.ctx.session.summary());
        actor.step_background(BackgroundEvent::AgentEnded).await;
        actor.end_interrupted_sub_agents().await;
        actor.end_interrupted_turn().await;
        actor.sync_on_open(transcript.clone()).await;
        actor.resume_metadata_writes();
        actor.publish_queue_paused().await;
        actor.start_reconnect_timeouts().await;
    }
    actor.budget_view.start(&mut actor.ctx).await;
    actor.ctx.read_git_branch();
    actor.import_older_turns(transcript);
    let mut calm = Quiescence::default();
    calm.record_input(&actor);
    loop {
        let input = tokio::select! {
            Some(input) = inputs.recv() => input,
            input = actor.agent.next_input() => input,
            Some(entry) = actor.unwritten_decisions.recv() => SessionInput::GateDecided(entry),
            Ok(()) = rules.changed() => SessionInput::RulesChanged,
            Ok(()) = trust.changed() => SessionInput::TrustChanged,
            Some(()) = budget_changes.next() => SessionInput::BudgetChanged,
            () = calm.elapsed() => {
                if calm.restart_if_quiet(&actor) && actor.try_unload(&inputs).await {
                    break;
                }
                continue;
            }
            Some(done) = actor.ctx.tasks.join_next(), if !actor.ctx.tasks.is_empty() => match done {
                Ok(input) => input,
                Err(error) => {
                    tracing::error!(%error, "a task of a session panicked");
                    continue;
                }
            },
            else => break,
        };
        let moved = input.is_activity();
        if actor.handle_input(input).await.is_break() {
            break;
        }
        actor.write_unwritten_records().await;
        actor.retire_stale_agent().await;
        actor.update_idle_timer(moved).await;
        calm.record_input(&actor);
    }
    // Readers that wait for missing turns need not wait any longer.
    actor.ctx.host.unimported_turns.set_missing(&actor.ctx.session.chat_uri, 0);
}

pub(super) struct SessionActor {
    ctx: SessionContext,
    machine: TurnMachine,
    agent: SessionAgent,
    /// Decisions of the gate that are not in the audit log yet.
    unwritten_decisions: mpsc::Receiver<AuditEntry>,
    /// Requests that wait for a person.
    pending_requests: PendingRequests,
    /// The agent's background work, and the question about it after a turn was stopped.
    background_tasks: BackgroundTasks,
    /// The running sub-agents.
    sub_agents: ActiveSubAgents,
    /// Trust in the session's folder.
    folder_trust: FolderTrust,
    /// The queue and the steering slot.
    pending_messages: PendingMessages,
    /// The removal of images from the transcript.
    image_removal: ImageRemoval<oneshot::Sender<ImageRemovalResult>>,
    /// Changes of the permission mode.
    mode_changes: ModeChanges<Box<Dispatch>>,
    /// The sync with turns of other processes.
    external_sync: ExternalSync,
    /// The import of older turns.
    importer: Importer,
    /// The title was set while an agent was running that may know an older one.
    title_set_beside_agent: bool,
    /// The same for the tag.
    tag_set_beside_agent: bool,
    /// Host records about sent commands that are not written yet.
    unwritten_records: Vec<SessionRecord>,
    /// The running local commands.
    local_commands: Vec<LocalCommandRun>,
    budget_view: BudgetView,
}

type LoopControl = std::ops::ControlFlow<()>;

impl SessionActor {
    async fn handle_input(&mut self, input: SessionInput) -> LoopControl {
        match input {
            SessionInput::Dispatch(dispatch) => self.handle_dispatch(*dispatch).await,
            SessionInput::Subscribe(subscribe) => {
                self.resume_import();
                self.retry_sync_on_open();
                self.handle_subscribe(subscribe).await;
            }
            SessionInput::HasChannel(channel, reply) => {
                let chat = self.ctx.session.chat_by_uri(&channel).is_some();
                let _ = reply.send(
                    chat || channel == *self.ctx.session.uri || self.ctx.session.is_annotations_channel(&channel),
                );
            }
            SessionInput::ViewChat(channel, reply) => {
                self.resume_import();
                let _ = reply.send(self.view_chat(&channel));
            }
            SessionInput::PublishSummary => self.ctx.publish_summary().await,
            SessionInput::ClientReconnectTimeout(client) => self.handle_reconnect_timeout(&client).await,
            SessionInput::ClientLeft(client) => self.remove_active_client(&client).await,
            SessionInput::AgentEvent(event) => self.handle_agent_events(event).await,
            SessionInput::AgentTask(news) => self.handle_agent_task(news).await,
            SessionInput::GateDecided(entry) => self.write_gate_decisions(entry).await,
            SessionInput::RulesChanged => self.reevaluate_pending_calls().await,
            SessionInput::TrustChanged => self.handle_trust_changed().await,
            SessionInput::IdleTimer(event) => self.step_idle_timer(event).await,
            SessionInput::RequestPrepared(prepared) => self.handle_request_prepared(*prepared).await,
            SessionInput::RequestTimedOut(request) => self.handle_unanswered(&request).await,
            SessionInput::BudgetChanged => self.budget_view.step(BudgetEvent::Changed, &mut self.ctx).await,
            SessionInput::PublishBudget => self.budget_view.step(BudgetEvent::PublishDue, &mut self.ctx).await,
            SessionInput::RetryQueue => self.perform(vec![SessionEffect::QueueChanged { resume: false }]).await,
            SessionInput::RetryTurnEnd(turn, end) => self.retry_turn_end(turn, end).await,
            SessionInput::RetrySubAgentEnds => self.retry_sub_agent_ends().await,
            SessionInput::StopBackgroundTask(id, reply) => self.stop_background_task(id, reply),
            SessionInput::ReadBackgroundOutput(id, reply) => self.read_background_output(&id, reply),
            SessionInput::RemoveImages(images, requester) => {
                let event = ImageRemovalEvent::Requested { images, requester };
                self.perform(vec![SessionEffect::ImageRemoval(event)]).await;
            }
            SessionInput::CompletionContext(channel, reply) => {
                drop(reply.send(CompletionContext::new(&self.ctx.session, &channel)));
            }
            SessionInput::LocalCommand(news) => self.handle_local_command_event(news).await,
            SessionInput::PollTranscript => self.poll_transcript(),
            SessionInput::TranscriptOpened(read) => self.handle_transcript_opened(read).await,
            SessionInput::OlderTurnsLoaded(loaded) => self.handle_older_turns(loaded).await,
            SessionInput::RetryImport => self.retry_import(),
            SessionInput::TranscriptChanged(record) => self.handle_transcript_metadata(*record).await,
            SessionInput::TagChanged(tag) => self.handle_tag_changed(tag).await,
            SessionInput::GitBranchRead(branch) => self.ctx.publish_git_branch(branch).await,
            SessionInput::Dispose(reply) => {
                let began = self.agent.has_process();
                self.stop_session().await;
                let _ = reply.send(self.dispose_session(began).await);
                return LoopControl::Break(());
            }
            SessionInput::Shutdown(reply) => {
                self.stop_session().await;
                let _ = reply.send(());
                return LoopControl::Break(());
            }
        }
        LoopControl::Continue(())
    }

    // ── Effects ───────────────────────────────────────────────────────────────────────────────────────────────────

    /// Carries out effects and what follows from them, until none remains.
    async fn perform(&mut self, effects: Vec<SessionEffect>) {
        let mut queue = VecDeque::from(effects);
        while let Some(effect) = queue.pop_front() {
            let publishes_queue = effect.is_turn_input()
                && !queue
                    .front()
                    .is_some_and(|next| next.is_turn_input() || matches!(next, SessionEffect::PublishQueuePaused));
            if publishes_queue {
                queue.push_front(SessionEffect::PublishQueuePaused);
            }
            for next in self.carry_out(effect).await.into_iter().rev() {
                queue.push_front(next);
            }
        }
    }

    /// Carries out an effect, and returns what follows from it.
    async fn carry_out(&mut self, effect: SessionEffect) -> Vec<SessionEffect> {
        match effect {
            SessionEffect::Turn(input) => {
                let mut next = Vec::new();
                for effect in self.machine.step(input) {
                    next.extend(self.carry_out_turn_effect(effect).await);
                }
                return next;
            }
            SessionEffect::QueueChanged { resume } => {
                return vec![SessionEffect::Turn(self.queue_changed_input(resume))];
            }
            SessionEffect::PublishQueuePaused => self.publish_queue_paused().await,
            SessionEffect::ImageRemoval(event) => {
                let facts = ImageRemovalFacts {
                    machine: &self.machine,
                    has_background_work: !self.background_tasks.is_empty(),
                    has_process: self.agent.has_process(),
                };
                return self.image_removal.step(event, &mut self.ctx, facts).await;
            }
        }
        Vec::new()
    }

    /// Carries out an effect of the turn machine.
    async fn carry_out_turn_effect(&mut self, effect: TurnEffect<TurnErrorDetails>) -> Vec<SessionEffect> {
        match effect {
            TurnEffect::StartQueued(message) => return self.start_queued_turn(&message).await,
            TurnEffect::StartAgentTurn(reason) => {
                return vec![SessionEffect::Turn(self.start_agent_turn(reason).await)];
            }
            TurnEffect::NoteAgentWork(reason) => self.note_agent_work(reason).await,
            TurnEffect::OpenAgent => self.open_agent().await,
            TurnEffect::ApplySettings => self.apply_settings(),
            TurnEffect::SendPrompt(turn) => match self.use_prewarmed_agent().await {
                Ok(()) => self.assess_and_send(turn),
                Err(failure) => return vec![SessionEffect::Turn(TurnInput::AbortAndClose(failure))],
            },
            TurnEffect::RunLocal(turn) => {
                if self.run_local_turn(&turn).await {
                    return vec![SessionEffect::Turn(TurnInput::LocalFinished(turn))];
                }
            }
            TurnEffect::StopLocal => self.stop_local_commands(),
            TurnEffect::PublishOutput | TurnEffect::DiscardOutput => {}
            TurnEffect::Interrupt => self.interrupt_agent(),
            TurnEffect::CloseNow => self.close_agent(CloseMode::Now),
            TurnEffect::CloseGracefully => self.close_agent(CloseMode::Graceful),
            TurnEffect::EndTurn(turn, end) => return self.end_turn(turn, end).await,
        }
        Vec::new()
    }

    /// Passes an input to the turn machine.
    async fn drive(&mut self, input: TurnInput<TurnErrorDetails>) {
        self.perform(vec![SessionEffect::Turn(input)]).await;
    }

    // ── Shutdown ──────────────────────────────────────────────────────────────────────────────────────────────────

    /// Ends the turn as cancelled, and the agent with its whole process tree.
    async fn stop_session(&mut self) {
        self.drive(TurnInput::Stop).await;
        if self.ctx.summary.is_scheduled {
            self.ctx.publish_summary().await;
        }
        let mut tries = MAX_SHUTDOWN_STORE_ATTEMPTS;
        while self.agent.has_process()
            || !self.local_commands.is_empty()
            || (tries > 0 && matches!(self.machine.turn_phase(), TurnPhase::Ending(_)))
        {
            let Some(done) = self.ctx.tasks.join_next().await else { break };
            match done {
                Ok(SessionInput::AgentTask(news)) => self.handle_agent_task(news).await,
                Ok(SessionInput::LocalCommand(news)) => self.handle_local_command_event(news).await,
                Ok(SessionInput::RetryTurnEnd(turn, end)) => {
                    tries = tries.saturating_sub(1);
                    self.retry_turn_end(turn, end).await;
                }
                _ => {}
            }
        }
        self.retry_sub_agent_ends().await;
        self.ctx.tasks.shutdown().await;
        if let Ok(entry) = self.unwritten_decisions.try_recv() {
            self.write_gate_decisions(entry).await;
        }
    }
}
