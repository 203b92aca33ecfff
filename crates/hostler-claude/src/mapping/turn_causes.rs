//! Why turns start. Turns that the agent starts by itself (background work ended) are distinguished from answers to
//! prompts, with their cause.

use std::collections::VecDeque;

use hostler_driver::TurnCause;
use uuid::Uuid;

use crate::wire::{CommandLifecycle, InitMessage};

/// Reasons that may wait for their turn; beyond that, turns get a general one.
const MAX_ANNOUNCED: usize = 64;

/// Why turns start: the prompts that wait for a turn, and the agent's announced reasons.
///
/// Prompts are written so that the agent never folds them into a running turn, so each is answered by a turn that it
/// causes, alone or together with other prompts. Newer builds name the prompts of a turn. Older ones do not, but they
/// print the notification that wakes them right before the turn that follows from it.
#[derive(Debug, Default)]
pub(super) struct TurnCauses {
    waiting: Vec<WaitingPrompt>,
    names_prompts: bool,
    announced: VecDeque<String>,
    /// Requests to the model in the running turn.
    requests: u32,
}

#[derive(Debug)]
struct WaitingPrompt {
    id: Uuid,
    is_started: bool,
}

impl TurnCauses {
    pub(super) fn prompt_sent(&mut self, id: Uuid) {
        self.waiting.push(WaitingPrompt { id, is_started: false });
    }

    /// Whether a prompt waits for its turn.
    pub(super) fn has_waiting_prompts(&self) -> bool {
        !self.waiting.is_empty()
    }

    pub(super) fn on_lifecycle(&mut self, news: &CommandLifecycle<'_>) {
        self.names_prompts = true;
        let Ok(id) = Uuid::parse_str(&news.command_uuid) else { return };
        match &*news.state {
            "started" => self.waiting.iter_mut().filter(|waiting| waiting.id == id).for_each(|w| w.is_started = true),
            "cancelled" => self.waiting.retain(|waiting| waiting.id != id),
            _ => {}
        }
    }

    /// The agent announces a turn about something.
    pub(super) fn announce(&mut self, reason: String, in_turn: bool) {
        // Older builds announce nothing while a turn runs, except what is folded into it.
        if (self.names_prompts || !in_turn) && self.announced.len() < MAX_ANNOUNCED {
            self.announced.push_back(reason);
        }
    }

    /// The running turn calls the model. From the second call on, announced reasons are folded in.
    pub(super) fn on_request(&mut self) {
        if self.requests > 0 {
            self.announced.clear();
        }
        self.requests += 1;
    }

    /// A turn starts, with or without an init message.
    pub(super) fn start_turn(&mut self, init: Option<&InitMessage<'_>>) -> TurnCause {
        self.requests = 0;
        let named = init.and_then(|init| init.user_message_uuids.as_deref()).is_some_and(|ids| !ids.is_empty());
        self.names_prompts |= named || init.is_some_and(InitMessage::has_prompt_lifecycle);
        let by_prompt = match (self.names_prompts, init) {
            (true, Some(_)) => named,
            (true, None) => self.waiting.iter().any(|waiting| waiting.is_started),
            (false, _) => self.announced.is_empty() && self.has_waiting_prompts(),
        };
        if !by_prompt {
            let reason = self.announced.pop_front();
            return TurnCause::Agent(reason.unwrap_or_else(|| "The agent continues on its own.".to_owned()));
        }
        if !self.names_prompts {
            // The turn covers all prompts that were written before.
            self.waiting.clear();
        }
        TurnCause::Prompt
    }

    pub(super) fn on_prompts_answered(&mut self, prompts: Option<&[Uuid]>) {
        if let Some(prompts) = prompts {
            self.waiting.retain(|waiting| !prompts.contains(&waiting.id));
        }
    }
}
