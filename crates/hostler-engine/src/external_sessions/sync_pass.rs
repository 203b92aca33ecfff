//! One pass of the transcript sync: finds the turns that other processes added, and loads a batch of them. Runs off the
//! actor; the actor stores the result.
//!
//! Turns are synced in the order in which they start in the file, whatever their branch; the active branch is the
//! conversation. The id of its message identifies the owner of a turn. A turn that the agent started by itself belongs
//! to the process that ran the turn before it. Some builds store commands under ids of their own: the next commands
//! belong to this host, as many as it has sent.

use std::sync::Arc;
use std::time::Duration;

use hostler_driver::{AbandonedTurn, LoadedTurn, Transcript, TranscriptStore, TranscriptStoreError, TurnIndexEntry};
use uuid::Uuid;

use super::importer::{is_active_elsewhere, is_recent};
use crate::clock::ClockExt as _;
use crate::host::Host;
use crate::sessions::actor::EXTERNAL_SYNC_POLL_INTERVAL;
use crate::sessions::session::Session;

/// Interval of checks for a turn that looks complete: only the process shows that it continues.
const FINISHED_TURN_POLL_INTERVAL: Duration = Duration::from_secs(2);

/// Maximum number of turns that one pass loads.
const MAX_PASS_TURNS: usize = 16;

/// Maximum delay with which an agent writes its records.
const OWN_AGENT_WRITE_DELAY: Duration = Duration::from_millis(250);

/// How often a transcript is read again that has changed meanwhile.
const MAX_REPEATED_READS: usize = 4;

/// A pass.
pub(crate) struct SyncPassRequest {
    pub(crate) host: Arc<Host>,
    /// The session at the start of the pass.
    pub(crate) session: Session,
    pub(crate) transcript_store: Arc<dyn TranscriptStore>,
    /// The conversation of the transcript.
    pub(crate) conversation: Uuid,
    /// Number of commands that this host's agent has received and that no pass has found.
    pub(crate) own_commands: usize,
}

/// The result of a pass.
pub(crate) struct SyncPass {
    pub(crate) transcript: Arc<dyn Transcript>,
    /// New turns, in order.
    pub(crate) turns: Vec<NewTurn>,
    /// The last turn that is synced when the new ones are stored.
    pub(crate) synced_through: Option<Uuid>,
    /// The chat's turns, new ones included, that are not on the active branch.
    pub(crate) abandoned: Vec<String>,
    /// The interval of checks while another process is running a turn.
    pub(crate) poll_interval: Option<Duration>,
    /// Whether no turns remain for another pass.
    pub(crate) is_complete: bool,
    /// Number of own commands that remain to be found.
    pub(crate) own_commands: usize,
    /// Whether the transcript contains the last delivered prompt.
    pub(crate) has_delivered_prompt: bool,
}

/// A turn of another process.
pub(crate) struct NewTurn {
    pub(crate) entry: TurnIndexEntry,
    pub(crate) kind: NewTurnKind,
    pub(crate) loaded: LoadedTurn,
}

/// The position of a new turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NewTurnKind {
    /// It continues the conversation.
    Active,
    /// It was stored before it was complete.
    Extended,
    /// It is on an abandoned branch.
    Abandoned,
}

impl SyncPassRequest {
    /// Runs the pass, on the transcript that an earlier pass has opened or in its current state.
    pub(crate) async fn run(
        self,
        mut transcript: Option<Arc<dyn Transcript>>,
    ) -> Result<SyncPass, TranscriptStoreError> {
        let mut pass = self.read(transcript.take()).await?;
        for _ in 0..MAX_REPEATED_READS {
            if pass.turns.is_empty() || self.session.delivered_prompt_id.is_none() {
                break;
            }
            // The own agent writes its turn with a delay: until then, another process's turn seems to be on the active
            // branch.
            let before = turns_in_file_order(&pass.transcript);
            tokio::time::sleep(OWN_AGENT_WRITE_DELAY).await;
            pass = self.read(None).await?;
            if turns_in_file_order(&pass.transcript) == before {
                break;
            }
        }
        Ok(pass)
    }

    async fn read(&self, transcript: Option<Arc<dyn Transcript>>) -> Result<SyncPass, TranscriptStoreError> {
        let transcript = match transcript {
            Some(transcript) => transcript,
            None => self.transcript_store.open(self.conversation).await?,
        };
        let entries = transcript.turns();
        let delivered = self.session.delivered_prompt_id;
        let mut pass = SyncPass {
            transcript: Arc::clone(&transcript),
            turns: Vec::new(),
            synced_through: self.session.synced_through,
            abandoned: Vec::new(),
            poll_interval: None,
            is_complete: true,
            own_commands: self.own_commands,
            has_delivered_prompt: entries.iter().any(|entry| entry.message_id == delivered),
        };
        match pass.synced_through {
            Some(synced_through) => self.find_turns(synced_through, &mut pass).await?,
            // The session is from an earlier version, whose prompt ids do not identify the owner.
            None => pass.synced_through = Some(entries.last().map_or(Uuid::nil(), |entry| entry.id)),
        }
        Ok(pass)
    }

    async fn find_turns(&self, synced_through: Uuid, pass: &mut SyncPass) -> Result<(), TranscriptStoreError> {
        let transcript = Arc::clone(&pass.transcript);
        let entries = transcript.turns();
        let abandoned: Vec<_> = transcript.abandoned_turns().iter().map(|abandoned| abandoned.turn).collect();
        if let Some(place) = self.extended_turn(entries) {
            if place + 1 == entries.len() {
                pass.poll_interval = self.poll_interval(&transcript, place).await;
            }
            if pass.poll_interval.is_none() {
                self.add_turn(pass, place, NewTurnKind::Extended).await?;
            }
        }
        let turns = turns_in_file_order(&transcript);
        let first = self.first_unsynced_turn(&turns, synced_through).await;
        for (at, (entry, place)) in turns.iter().enumerate().skip(first) {
            let (is_ours, kind) = match place.checked_sub(entries.len()) {
                None if entry.is_command && pass.own_commands > 0 => {
                    pass.own_commands -= 1;
                    (true, NewTurnKind::Active)
                }
                None => (self.is_own_turn(entries, *place), NewTurnKind::Active),
                // The own agent writes a model change beside the conversation.
                Some(place) => (entry.is_command || self.is_own_turn(&abandoned, place), NewTurnKind::Abandoned),
            };
            if !is_ours {
                if at + 1 == turns.len() {
                    pass.poll_interval = self.poll_interval(&transcript, *place).await;
                    if pass.poll_interval.is_some() {
                        break;
                    }
                }
                if !self.is_stored(entry.id).await && !self.add_turn(pass, *place, kind).await? {
                    break;
                }
            }
            pass.synced_through = Some(entry.id);
        }
        for turn in abandoned {
            let own = self.session.prompt_turns.iter().find(|(prompt_id, _)| turn.message_id == Some(*prompt_id));
            if let Some((_, own)) = own {
                pass.abandoned.push(own.clone());
            } else if pass.turns.iter().any(|new| new.entry.id == turn.id) || self.is_stored(turn.id).await {
                pass.abandoned.push(turn.id.to_string());
            }
        }
        Ok(())
    }

    /// Adds a turn to the pass. `false` if the pass is full.
    async fn add_turn(
        &self,
        pass: &mut SyncPass,
        place: usize,
        kind: NewTurnKind,
    ) -> Result<bool, TranscriptStoreError> {
        pass.is_complete = pass.turns.len() < MAX_PASS_TURNS;
        if pass.is_complete {
            match load_turn(&pass.transcript, place).await {
                Ok(Some((entry, loaded))) => pass.turns.push(NewTurn { entry, kind, loaded }),
                Ok(None) => {}
                Err(error) if pass.turns.is_empty() => return Err(error),
                // The loaded ones are stored first; the next pass reports the error.
                Err(_) => pass.is_complete = false,
            }
        }
        Ok(pass.is_complete)
    }

    /// Index of the first turn that is not synced.
    async fn first_unsynced_turn(&self, turns: &[(TurnIndexEntry, usize)], synced_through: Uuid) -> usize {
        if let Some(at) = turns.iter().position(|(entry, _)| entry.id == synced_through) {
            return at + 1;
        }
        // Nothing is synced yet, or the transcript was rewritten.
        for (at, (entry, _)) in turns.iter().enumerate().rev().filter(|_| !synced_through.is_nil()) {
            if entry.message_id.is_some_and(|id| self.is_own_prompt(id)) || self.is_stored(entry.id).await {
                return at + 1;
            }
        }
        0
    }

    /// Index of the last external turn, if it was stored before it was complete. After a turn of this host, further
    /// output is the own agent's.
    fn extended_turn(&self, entries: &[TurnIndexEntry]) -> Option<usize> {
        let last = self.session.last_external_turn?;
        let place = entries.iter().rposition(|entry| entry.id == last.turn && entry.record_count > last.length)?;
        (place + 1 >= entries.len() || !self.is_own_turn(entries, place + 1)).then_some(place)
    }

    fn is_own_prompt(&self, message: Uuid) -> bool {
        self.host.external.is_own_prompt(self.session.conversation, message)
    }

    fn is_own_turn(&self, entries: &[TurnIndexEntry], place: usize) -> bool {
        let owner = |(at, entry): (usize, &TurnIndexEntry)| match entry.message_id {
            Some(id) if self.is_own_prompt(id) => Some(true),
            // A command before the turn does not identify its owner.
            Some(_) => (at == place || !entry.is_command).then_some(false),
            None => None,
        };
        entries.iter().enumerate().take(place + 1).rev().find_map(owner).unwrap_or(false)
    }

    /// Whether a turn is stored here by an import or a sync.
    async fn is_stored(&self, turn: Uuid) -> bool {
        let id = turn.to_string();
        // A store that cannot be read must not count as empty.
        self.session.has_turn(&id)
            || self.host.store.find_turn(&self.session.uri, &id).await.map_or(true, |found| found.is_some())
    }

    /// The interval of checks for the last turn, if another process is still running it.
    async fn poll_interval(&self, transcript: &Arc<dyn Transcript>, place: usize) -> Option<Duration> {
        let is_complete = entry_at(transcript, place)?.is_complete;
        let is_active = match is_active_elsewhere(&*self.transcript_store, self.conversation, is_complete).await {
            Some(is_active) => is_active,
            None => {
                let loaded = load_turn(transcript, place).await.ok().flatten();
                loaded.is_some_and(|(_, turn)| is_recent(&turn, self.host.clock.now_ms()))
            }
        };
        is_active.then_some(if is_complete { FINISHED_TURN_POLL_INTERVAL } else { EXTERNAL_SYNC_POLL_INTERVAL })
    }
}

/// All turns in the order in which they start, each with its index. The indices of abandoned turns follow those of the
/// active branch.
fn turns_in_file_order(transcript: &Arc<dyn Transcript>) -> Vec<(TurnIndexEntry, usize)> {
    let (active, abandoned) = (transcript.turns(), transcript.abandoned_turns());
    let mut all: Vec<_> = active.iter().enumerate().map(|(place, entry)| (*entry, place)).collect();
    for (place, AbandonedTurn { turn, turns_before }) in abandoned.iter().enumerate() {
        all.insert((turns_before + place).min(all.len()), (*turn, active.len() + place));
    }
    all
}

/// The index entry of a turn by its index.
fn entry_at(transcript: &Arc<dyn Transcript>, place: usize) -> Option<TurnIndexEntry> {
    let active = transcript.turns();
    let abandoned = || transcript.abandoned_turns().get(place - active.len()).map(|abandoned| abandoned.turn);
    active.get(place).copied().or_else(abandoned)
}

async fn load_turn(
    transcript: &Arc<dyn Transcript>,
    place: usize,
) -> Result<Option<(TurnIndexEntry, LoadedTurn)>, TranscriptStoreError> {
    let loaded = Arc::clone(transcript).load_turns(place..place + 1).await?.pop();
    Ok(entry_at(transcript, place).zip(loaded))
}
