//! The session's actor: the single writer of a session.
//!
//! One loop that passes inputs to components and routes the effects between them. It knows no connection and no protocol.
//!
//! | component | decides | in |
//! |---|---|---|
//! | `turn::TurnMachine` | turns and the agent's process | `turn_lifecycle`, `turn_end`, `turn_resume` |
//! | [`PendingMessages`] | queue and steering slot | `message_delivery` |
//! | [`SessionAgent`] | the agent's connection, with idle timer and permission mode | `agent`, `agent_*` |
//! | [`FolderTrust`] | trust in the folder | `folder_assessment` |
//! | [`PendingRequests`] | the agent's requests and their answers | `agent_requests`, `answers` |
//! | [`BackgroundTasks`], [`SubAgents`] | work beside the turn | `background_tasks`, `sub_agents`, `sub_agent_ends` |
//! | [`LocalCommands`] | commands that the host runs itself | `local_turns` |
//! | [`ImageRemoval`] | when the transcript may be changed | `image_removal` |
//! | [`SyncedTranscript`], [`Importer`] | turns of other processes | `external_sync`, `external_turns`, `importer` |
//! | [`BudgetView`] | display of usage and limits | `budget_view` |
//!
//! A component owns its state and gets what it reads as a parameter. Its decisions have no clock, I/O, channel or host. It
//! publishes through the [`SessionContext`], which all share, and returns a [`SessionEffect`] for each other component.

mod agent;
mod agent_events;
mod agent_prompts;
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
mod naming;
mod pending_messages;
mod permission_mode;
mod presence;
mod publishing;
mod session_change;
mod session_handle;
mod sub_agent_ends;
mod sub_agents;
mod transcript_metadata;
mod turn_end;
mod turn_lifecycle;
mod turn_resume;
mod unload;

use std::collections::VecDeque;
use std::sync::Arc;

use ahp_types::StateAction;
use futures::StreamExt as _;
use hostler_driver::{CloseMode, DriverEvent, Transcript};
use tokio::sync::{mpsc, oneshot};

use self::agent::SessionAgent;
use self::agent_events::{MAX_MERGED_EVENTS, route_event};
pub use self::background_tasks::BackgroundOutput;
use self::background_work::{BackgroundEvent, BackgroundTasks};
use self::budget_view::{BudgetEvent, BudgetView};
use self::context::{SessionContext, next_task_input};
use self::effect::SessionEffect;
pub(crate) use self::external_sync::EXTERNAL_SYNC_POLL_INTERVAL;
use self::external_sync::SyncEvent;
use self::external_turns::SyncedTranscript;
use self::folder_assessment::FolderFacts;
use self::folder_trust::{FolderEvent, FolderTrust};
use self::idle_timer::IdleTimerEvent;
pub use self::image_removal::ImageRemovalError;
use self::image_removal::{ImageRemoval, ImageRemovalEvent, ImageRemovalFacts, ImageRemovalResult};
use self::importer::Importer;
pub(crate) use self::input::{SessionInput, SubscribeOutcome, SubscribeRequest};
use self::local_turns::LocalCommands;
use self::pending_messages::{MessageEvent, PendingMessages};
use self::session_handle::OpenedSession;
pub(crate) use self::session_handle::{SessionHandle, SessionSource};
use self::sub_agents::SubAgents;
use self::turn_end::{MAX_SHUTDOWN_STORE_ATTEMPTS, TurnEnd};
use self::unload::Quiescence;
pub(crate) use self::unload::{DisposeFailure, DisposedSession};
use crate::clients::completion::CompletionContext;
use crate::host::Host;
use crate::permissions::pending_requests::PendingRequests;
use crate::sessions::action_mapper::{ActionBuffer, TurnErrorDetails};
use crate::sessions::rejection::ActionRejection;
use crate::sessions::session::{Dispatch, Session};
use crate::sessions::turn::{AgentPhase, TurnEffect, TurnEndReason, TurnInput, TurnMachine, TurnPhase};

/// Runs a session that is open. `is_restored` if it existed before.
async fn run_session(
    host: Arc<Host>,
    (session, transcript): OpenedSession,
    is_restored: bool,
    mut inputs: mpsc::Receiver<SessionInput>,
) {
    let mut rules = host.permissions.rule_changes();
    let mut trust = host.permissions.trust_changes();
    let mut budget_changes = host.agents.gateway().budget_changes(&session.uri).fuse();
    let mut actor = SessionActor::new(host, session);
    if is_restored {
        actor.restore(transcript.clone()).await;
    }
    actor.budget_view.start(&mut actor.ctx).await;
    actor.ctx.read_git_branch();
    actor.importer.import_older_turns(transcript, &mut actor.ctx);
    let mut calm = Quiescence::default();
    calm.record_input(&actor.machine, &actor.ctx);
    loop {
        let input = tokio::select! {
            Some(input) = inputs.recv() => input,
            input = actor.agent.next_input() => input,
            Some(entry) = actor.ctx.unwritten_decisions.recv() => SessionInput::GateDecided(entry),
            Ok(()) = rules.changed() => SessionInput::RulesChanged,
            Ok(()) = trust.changed() => SessionInput::TrustChanged,
            Some(()) = budget_changes.next() => SessionInput::BudgetChanged,
            () = calm.elapsed() => {
                if calm.restart_if_quiet(&actor.ctx) && actor.is_quiescent() && actor.ctx.try_unload(&inputs).await {
                    break;
                }
                continue;
            }
            input = next_task_input(&mut actor.ctx.tasks) => input,
        };
        let is_activity = input.is_activity();
        match input {
            SessionInput::Dispose(reply) => {
                let began = actor.agent.has_process();
                actor.stop().await;
                let _ = reply.send(actor.ctx.dispose_session(began).await);
                break;
            }
            SessionInput::Shutdown(reply) => {
                actor.stop().await;
                let _ = reply.send(());
                break;
            }
            input => actor.handle(input).await,
        }
        let effects = actor.agent.retire_if_stale(&actor.machine);
        actor.perform(effects).await;
        let now = actor.ctx.host.clock.monotonic();
        let is_busy = actor.machine.agent_phase() == AgentPhase::Busy;
        let effects = actor.step_idle_timer(IdleTimerEvent::InputHandled { now, is_activity, is_busy }).await;
        actor.perform(effects).await;
        calm.record_input(&actor.machine, &actor.ctx);
    }
    // Readers that wait for missing turns need not wait any longer.
    actor.ctx.host.external.set_unimported(&actor.ctx.session.chat_uri, 0);
}

pub(super) struct SessionActor {
    ctx: SessionContext,
    machine: TurnMachine,
    agent: SessionAgent,
    pending_requests: PendingRequests,
    background_tasks: BackgroundTasks,
    sub_agents: SubAgents,
    folder_trust: FolderTrust,
    pending_messages: PendingMessages,
    image_removal: ImageRemoval<oneshot::Sender<ImageRemovalResult>>,
    external: SyncedTranscript,
    importer: Importer,
    local_commands: LocalCommands,
    budget_view: BudgetView,
}

impl SessionActor {
    fn new(host: Arc<Host>, session: Session) -> Self {
        let head = session.queued_messages().first().map(|message| message.id.clone());
        Self {
            ctx: SessionContext::new(host, session),
            machine: TurnMachine::restored(head),
            agent: SessionAgent::default(),
            pending_requests: PendingRequests::default(),
            background_tasks: BackgroundTasks::default(),
            sub_agents: SubAgents::default(),
            folder_trust: FolderTrust::default(),
            pending_messages: PendingMessages::default(),
            image_removal: ImageRemoval::default(),
            external: SyncedTranscript::default(),
            importer: Importer::default(),
            local_commands: LocalCommands::default(),
            budget_view: BudgetView::default(),
        }
    }

    /// Ends what was running when the host stopped, and syncs with the transcript.
    async fn restore(&mut self, transcript: Option<Arc<dyn Transcript>>) {
        self.ctx.summary.published = Some(self.ctx.session.summary());
        self.perform(vec![SessionEffect::Background(BackgroundEvent::AgentEnded)]).await;
        self.sub_agents.end_interrupted(&mut self.ctx).await;
        self.turn_end().end_interrupted().await;
        self.external.transcript = transcript;
        self.perform(vec![SessionEffect::Sync(SyncEvent::Changed.into())]).await;
        for input in self.external.wait_for_pass(&mut self.ctx).await {
            self.handle(input).await;
        }
        self.ctx.publish_queue_paused(self.machine.is_queue_paused()).await;
        self.ctx.start_reconnect_timeouts().await;
    }

    async fn handle(&mut self, input: SessionInput) {
        let effects = self.route_input(input).await;
        self.perform(effects).await;
    }

    async fn route_input(&mut self, input: SessionInput) -> Vec<SessionEffect> {
        let Self { ctx, machine, agent, pending_requests, background_tasks, sub_agents, .. } = self;
        match input {
            SessionInput::Dispatch(dispatch) => match self.external.hold(*dispatch, ctx).await {
                Ok(dispatch) => return self.accept_dispatch(dispatch).await,
                Err(effects) => return effects,
            },
            SessionInput::Subscribe(subscribe) => {
                self.importer.resume(ctx);
                let mut effects = self.external.sync(SyncEvent::Opened, ctx).await;
                if ctx.subscribe_client(subscribe).await {
                    effects.extend(agent.prewarm(machine, ctx));
                }
                return effects;
            }
            SessionInput::HasChannel(channel, reply) => drop(reply.send(ctx.session.has_channel(&channel))),
            SessionInput::ViewChat(channel, reply) => {
                self.importer.resume(ctx);
                let _ = reply.send(ctx.view_chat(&channel));
            }
            SessionInput::CompletionContext(channel, reply) => {
                drop(reply.send(CompletionContext::new(&ctx.session, &channel)));
            }
            SessionInput::PublishSummary => ctx.publish_summary().await,
            SessionInput::ClientReconnectTimeout(client) => ctx.handle_reconnect_timeout(client).await,
            SessionInput::ClientLeft(client) => ctx.remove_active_client(client).await,
            SessionInput::AgentEvent(event) => self.handle_agent_events(event).await,
            SessionInput::AgentTask(event) => return agent.finish_task(event, machine, ctx).await,
            SessionInput::IdleTimer(event) => return self.step_idle_timer(event).await,
            SessionInput::GateDecided(entry) => ctx.write_gate_decisions(entry).await,
            SessionInput::RulesChanged => return vec![SessionEffect::ReevaluateCalls],
            SessionInput::TrustChanged => return vec![SessionEffect::Folder(agent.attempt, FolderEvent::TrustChanged)],
            SessionInput::RequestPrepared(prepared) => {
                return pending_requests.display_prepared(*prepared, sub_agents, ctx).await;
            }
            SessionInput::RequestTimedOut(request) => {
                let config = agent.pending_config_values(&ctx.session);
                return pending_requests.answer_unattended(&request, &config, sub_agents, ctx).await;
            }
            SessionInput::AnswerRulesStored(stored) => {
                return pending_requests.apply_stored_answer(*stored, sub_agents, ctx).await;
            }
            SessionInput::FolderDecisionStored(stored) => {
                return self.folder_trust.apply_stored(*stored, pending_requests, ctx).await;
            }
            SessionInput::BudgetChanged => self.budget_view.step(BudgetEvent::Changed, ctx).await,
            SessionInput::PublishBudget => self.budget_view.step(BudgetEvent::PublishDue, ctx).await,
            SessionInput::RetryQueue => return vec![SessionEffect::QueueChanged { resume: false }],
            SessionInput::RetryTurnEnd(turn, end) => {
                if matches!(machine.turn_phase(), TurnPhase::Ending(ending) if *ending == turn) {
                    return self.end_turn(turn, end).await;
                }
            }
            SessionInput::RetrySubAgentEnds => sub_agents.retry_ends(ctx).await,
            SessionInput::StopBackgroundTask(id, reply) => background_tasks.stop_task(id, agent, ctx, reply),
            SessionInput::ReadBackgroundOutput(id, reply) => background_tasks.read_output(id, agent, ctx, reply),
            SessionInput::RemoveImages(images, requester) => {
                return vec![SessionEffect::ImageRemoval(ImageRemovalEvent::Requested { images, requester })];
            }
            SessionInput::LocalCommand(event) => return self.local_commands.step(event, machine, ctx).await,
            SessionInput::Sync(event) => return self.external.step(*event, ctx).await,
            SessionInput::SyncPassed(pass) => return self.external.finish_pass(*pass, ctx).await,
            SessionInput::OlderTurnsLoaded(loaded) => self.importer.finish_loading(loaded, ctx).await,
            SessionInput::RetryImport => self.importer.retry(ctx),
            SessionInput::TranscriptChanged(conversation) => {
                self.importer.restart(conversation.id, ctx);
                return ctx.adopt_metadata(*conversation).await;
            }
            SessionInput::SetTag(tag, reply) => {
                ctx.set_tag(tag).await;
                let _ = reply.send(Ok(()));
            }
            SessionInput::GitBranchRead(branch) => ctx.publish_git_branch(branch).await,
            SessionInput::Dispose(_) | SessionInput::Shutdown(_) => {}
        }
        Vec::new()
    }

    /// Handles an event of the agent and all events that are available already. It does not wait for events in order to
    /// merge them.
    async fn handle_agent_events(&mut self, first: DriverEvent) {
        let mut output = ActionBuffer::default();
        let mut next = Some(first);
        let mut remaining = MAX_MERGED_EVENTS;
        while let Some(event) = next {
            match route_event(event, &self.ctx) {
                Ok(effects) => {
                    self.ctx.publish_output(&mut output).await;
                    self.perform(effects).await;
                }
                Err(event) => {
                    let finished = self.pending_requests.finished_call(&event);
                    if self.machine.is_output_visible()
                        && let Some(mapper) = self.ctx.turn.mapper.as_mut()
                    {
                        mapper.map_event(event, &mut output);
                    }
                    if let Some(call) = finished {
                        self.ctx.publish_output(&mut output).await;
                        self.perform(vec![SessionEffect::CloseFinishedCall(call)]).await;
                    }
                }
            }
            remaining -= 1;
            next = if remaining > 0 { self.agent.try_next_event() } else { None };
        }
        self.ctx.publish_output(&mut output).await;
    }

    async fn step_idle_timer(&mut self, event: IdleTimerEvent) -> Vec<SessionEffect> {
        let (background, requests) = (!self.background_tasks.is_empty(), !self.pending_requests.is_empty());
        let activity = self.agent.activity(&self.machine, background, requests);
        self.agent.step_idle_timer(event, activity, &mut self.ctx).await
    }

    // ── Clients' actions ──────────────────────────────────────────────────────────────────────────────────────────

    async fn accept_dispatch(&mut self, dispatch: Dispatch) -> Vec<SessionEffect> {
        // Checked in the session's single writer, so that a repetition cannot overtake the original.
        if self.ctx.host.answer_repeated_dispatch(&dispatch) {
            return Vec::new();
        }
        match self.route_dispatch(&dispatch).await {
            Ok(effects) => effects,
            Err(rejection) => {
                self.ctx.host.publication.reject(dispatch, rejection).await;
                Vec::new()
            }
        }
    }

    async fn route_dispatch(&mut self, dispatch: &Dispatch) -> Result<Vec<SessionEffect>, ActionRejection> {
        let Self { ctx, pending_requests, sub_agents, background_tasks, .. } = self;
        let is_chat = ctx.is_default_chat(dispatch);
        let is_sub_agent = ctx.is_sub_agent_chat(dispatch)?;
        match &dispatch.action {
            StateAction::ChatToolCallConfirmed(action) if is_chat || is_sub_agent => {
                pending_requests.confirm_call(dispatch, action, sub_agents, ctx).await
            }
            StateAction::ChatTurnCancelled(action) if is_sub_agent => {
                sub_agents.cancel(dispatch, action.clone(), background_tasks, ctx).await
            }
            _ if is_sub_agent => ctx.handle_sub_agent_action(dispatch).await.map(|()| Vec::new()),
            StateAction::ChatTurnStarted(action) if is_chat => {
                ctx.check_turn_start(dispatch, action, &self.machine)?;
                self.external.check_not_active_elsewhere()?;
                self.ctx.begin_client_turn(dispatch, action.clone()).await?;
                let accepted = self.agent.accepted_input(action.turn_id.clone(), &action.message.text, &self.ctx);
                Ok(vec![SessionEffect::Turn(accepted), SessionEffect::QueueChanged { resume: false }])
            }
            StateAction::ChatTurnCancelled(action) if is_chat => {
                self.turn_end().cancel(dispatch, action.clone()).await?;
                self.clear_turn().await;
                self.ctx.finish_cancelled_turn().await;
                Ok(vec![
                    SessionEffect::Sync(SyncEvent::TurnEnded.into()),
                    SessionEffect::Turn(TurnInput::Cancelled(action.turn_id.clone())),
                    SessionEffect::Background(BackgroundEvent::TurnStopped),
                    SessionEffect::QueueChanged { resume: false },
                ])
            }
            StateAction::ChatTurnResume(action) if is_chat => {
                ctx.check_no_turn(&self.machine)?;
                self.external.check_not_active_elsewhere()?;
                let has_process = self.agent.has_process();
                let delivered = self.external.delivered_prompt;
                let turn = self.ctx.resume_turn(dispatch.origin(), action.clone(), has_process, delivered).await?;
                let preparation = self.agent.preparation(&self.ctx);
                Ok(vec![SessionEffect::Turn(TurnInput::Accepted { turn, preparation })])
            }
            StateAction::ChatPendingMessageSet(action) if is_chat => {
                ctx.check_pending_message(dispatch, action)?;
                let is_active_elsewhere = self.external.check_not_active_elsewhere().is_err();
                let event = ctx.pending_message_event(dispatch, action.clone(), is_active_elsewhere);
                self.step_messages(event).await
            }
            StateAction::ChatPendingMessageRemoved(action) if is_chat => {
                self.step_messages(MessageEvent::Removed { action: action.clone(), origin: dispatch.origin() }).await
            }
            StateAction::ChatQueuedMessagesReordered(action) if is_chat => {
                self.step_messages(MessageEvent::Reordered { action: action.clone(), origin: dispatch.origin() }).await
            }
            StateAction::ChatInputAnswerChanged(action) if is_chat => {
                pending_requests.change_draft(action.clone(), dispatch.origin(), ctx).await.map(|()| Vec::new())
            }
            StateAction::ChatInputCompleted(action) if is_chat => {
                match background_tasks.answer_stop_question(action, dispatch.origin(), sub_agents, ctx).await {
                    Some(answered) => answered,
                    None => {
                        let config = self.agent.pending_config_values(&ctx.session);
                        pending_requests.complete_input(dispatch, action.clone(), &config, ctx).await
                    }
                }
            }
            StateAction::SessionConfigChanged(action) if !is_chat => {
                self.agent.change_config(dispatch, action, ctx).await
            }
            StateAction::SessionTitleChanged(action) => {
                ctx.change_title(dispatch, action.title.clone()).await.map(|()| Vec::new())
            }
            _ => ctx.handle_plain_action(dispatch).await.map(|()| Vec::new()),
        }
    }

    async fn step_messages(&mut self, event: MessageEvent) -> Result<Vec<SessionEffect>, ActionRejection> {
        self.pending_messages.step(event, &mut self.ctx, &self.machine, &self.agent).await
    }

    // ── Effects ───────────────────────────────────────────────────────────────────────────────────────────────────

    /// Carries out effects and what follows from them, until none remains.
    async fn perform(&mut self, effects: Vec<SessionEffect>) {
        let mut queue = VecDeque::from(effects);
        while let Some(effect) = queue.pop_front() {
            let is_followed = queue
                .front()
                .is_some_and(|next| next.is_turn_input() || matches!(next, SessionEffect::PublishQueuePaused));
            if effect.is_turn_input() && !is_followed {
                queue.push_front(SessionEffect::PublishQueuePaused);
            }
            for next in self.carry_out(effect).await.into_iter().rev() {
                queue.push_front(next);
            }
        }
    }

    /// Carries out an effect, and returns what follows from it.
    async fn carry_out(&mut self, effect: SessionEffect) -> Vec<SessionEffect> {
        let Self { ctx, machine, agent, pending_requests, background_tasks, sub_agents, folder_trust, .. } = self;
        match effect {
            SessionEffect::Turn(input) => {
                let mut next = Vec::new();
                for effect in machine.step(input) {
                    next.extend(self.carry_out_turn_effect(effect).await);
                }
                return next;
            }
            SessionEffect::QueueChanged { resume } => return vec![SessionEffect::Turn(ctx.queue_changed(resume))],
            SessionEffect::PublishQueuePaused => ctx.publish_queue_paused(machine.is_queue_paused()).await,
            SessionEffect::Messages(event) => {
                return self.pending_messages.step_agent_event(event, ctx, machine, agent).await;
            }
            SessionEffect::UpdateSummaries => ctx.update_summaries().await,
            SessionEffect::Agent(event) => return agent.step(event, machine, ctx).await,
            SessionEffect::ResumeToken(token) => ctx.update_resume_token(token).await,
            SessionEffect::AcceptModeChange(dispatch) => return ctx.accept_mode_change(dispatch).await,
            SessionEffect::ImageRemoval(event) => {
                let facts = ImageRemovalFacts::new(machine, agent, background_tasks);
                return self.image_removal.step(event, ctx, facts).await;
            }
            SessionEffect::Folder(attempt, event) => {
                let facts = FolderFacts { turn: machine.turn_phase(), agent, attempt };
                return folder_trust.step(event, facts, pending_requests, ctx).await;
            }
            SessionEffect::DecideFolder(answer) => return folder_trust.answer(answer, pending_requests, ctx).await,
            SessionEffect::DisplayRequest(request) => {
                return pending_requests.display_request(request, machine.is_output_visible(), sub_agents, ctx).await;
            }
            SessionEffect::WithdrawRequest(request) => {
                pending_requests.withdraw_request(&request, sub_agents, ctx).await
            }
            SessionEffect::ReevaluateCalls => return pending_requests.reevaluate(sub_agents, ctx).await,
            SessionEffect::CloseFinishedCall(call) => return pending_requests.close_finished_call(&call, ctx).await,
            SessionEffect::WithdrawSubAgentRequests(agent) => {
                return pending_requests.withdraw_sub_agent(&agent, ctx).await;
            }
            SessionEffect::Background(event) => {
                let is_interrupting = machine.agent_phase() == AgentPhase::Interrupting;
                return background_tasks.step(event, is_interrupting, sub_agents, ctx).await;
            }
            SessionEffect::StopTasks(ids) => background_tasks::stop_tasks(ids, agent, ctx),
            SessionEffect::SubAgent(id, event) => {
                return sub_agents.step(id, event, machine.is_output_visible(), ctx).await;
            }
            SessionEffect::Sync(event) => return self.external.sync(*event, ctx).await,
            SessionEffect::StartSyncPass => self.external.start_pass(ctx),
            SessionEffect::SetQueueReleased(is_released) => self.external.is_queue_released = is_released,
            SessionEffect::AcceptDispatch(dispatch) => return self.accept_dispatch(*dispatch).await,
        }
        Vec::new()
    }

    /// Carries out an effect of the turn machine.
    async fn carry_out_turn_effect(&mut self, effect: TurnEffect<TurnErrorDetails>) -> Vec<SessionEffect> {
        let Self { ctx, machine, agent, local_commands, .. } = self;
        match effect {
            TurnEffect::StartQueued(message) => return self.start_queued_turn(&message).await,
            TurnEffect::StartAgentTurn(reason) => return vec![SessionEffect::Turn(ctx.start_agent_turn(reason).await)],
            TurnEffect::NoteAgentWork(reason) => ctx.note_agent_work(reason).await,
            TurnEffect::OpenAgent => agent.open(machine, ctx).await,
            TurnEffect::ApplySettings => agent.apply_settings(ctx),
            TurnEffect::SendPrompt(turn) => return agent.send_turn_prompt(turn, ctx).await,
            TurnEffect::RunLocal(turn) => return local_commands.run(turn, ctx).await,
            TurnEffect::StopLocal => local_commands.stop(),
            TurnEffect::PublishOutput | TurnEffect::DiscardOutput => {}
            TurnEffect::Interrupt => agent.interrupt(ctx),
            TurnEffect::CloseNow => agent.close(CloseMode::Now, ctx),
            TurnEffect::CloseGracefully => agent.close(CloseMode::Graceful, ctx),
            TurnEffect::EndTurn(turn, end) => return self.end_turn(turn, end).await,
        }
        Vec::new()
    }

    /// Starts a turn with the head of the queue, once the transcript is synced and no other process runs a turn.
    async fn start_queued_turn(&mut self, message: &str) -> Vec<SessionEffect> {
        if let Err(effects) = self.external.check_queue(&mut self.ctx).await {
            return effects;
        }
        let Some((turn, text)) = self.ctx.begin_queued_turn(message).await else {
            return vec![SessionEffect::Turn(TurnInput::StartFailed)];
        };
        // The machine starts no other turn until this one is accepted.
        let accepted = SessionEffect::Turn(self.agent.accepted_input(turn, &text, &self.ctx));
        vec![SessionEffect::QueueChanged { resume: false }, accepted]
    }

    /// Ends a turn. If the store fails, it is retried later.
    async fn end_turn(&mut self, turn: String, end: TurnEndReason<TurnErrorDetails>) -> Vec<SessionEffect> {
        if !self.turn_end().end(turn, end).await {
            return Vec::new();
        }
        self.clear_turn().await;
        self.ctx.finish_turn().await;
        vec![
            SessionEffect::Sync(SyncEvent::TurnEnded.into()),
            SessionEffect::QueueChanged { resume: false },
            SessionEffect::Turn(TurnInput::EndStored),
        ]
    }

    fn turn_end(&mut self) -> TurnEnd<'_> {
        let Self { ctx, machine, agent, pending_messages: messages, pending_requests: requests, sub_agents, .. } = self;
        TurnEnd { ctx, machine, agent, messages, requests, sub_agents }
    }

    async fn clear_turn(&mut self) {
        self.ctx.turn.mapper = None;
        self.ctx.read_git_branch();
        self.budget_view.step(BudgetEvent::TurnEnded, &mut self.ctx).await;
    }

    // ── Unload and shutdown ───────────────────────────────────────────────────────────────────────────────────────

    /// Whether the actor has neither work nor users.
    fn is_quiescent(&self) -> bool {
        self.ctx.is_quiescent()
            && self.machine.agent_phase() == AgentPhase::Absent
            && !self.agent.has_process()
            && *self.machine.turn_phase() == TurnPhase::None
            && self.external.sync.is_idle()
            && self.pending_requests.is_empty()
            && self.background_tasks.is_empty()
            && self.local_commands.is_empty()
    }

    /// Ends the turn as cancelled, and the agent with its whole process tree.
    async fn stop(&mut self) {
        self.perform(vec![SessionEffect::Turn(TurnInput::Stop)]).await;
        if self.ctx.summary.is_scheduled {
            self.ctx.publish_summary().await;
        }
        let mut tries = MAX_SHUTDOWN_STORE_ATTEMPTS;
        while self.agent.has_process()
            || !self.local_commands.is_empty()
            || (tries > 0 && matches!(self.machine.turn_phase(), TurnPhase::Ending(_)))
        {
            let Some(done) = self.ctx.tasks.join_next().await else { break };
            let Ok(input) = done else { continue };
            if matches!(input, SessionInput::RetryTurnEnd(..)) {
                tries = tries.saturating_sub(1);
            } else if !matches!(input, SessionInput::AgentTask(_) | SessionInput::LocalCommand(_)) {
                continue;
            }
            self.handle(input).await;
        }
        self.sub_agents.retry_ends(&mut self.ctx).await;
        self.ctx.tasks.shutdown().await;
        if let Ok(entry) = self.ctx.unwritten_decisions.try_recv() {
            self.ctx.write_gate_decisions(entry).await;
        }
    }
}
