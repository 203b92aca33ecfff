//! What others did, appended to the chat as if it had happened here: in groups, each with how far the record was heard.

use std::sync::Arc;

use hostler_driver::{ArchiveError, Chronicle, DriverEvent, ToldTurn, TurnMark};
use uuid::Uuid;

use super::Actor;
use super::change::{Change, Home};
use crate::clock::ClockExt as _;
use crate::found::retell;
use crate::record::{Others, Record};

const FORGETS: &str =
    "This goes on from an earlier turn. From here on the agent does not remember what was said between.";

const MEANWHILE: &str = "Somebody else said this while a turn ran here. The agent remembers only one of the two.";

const GONE_ON: &str = "This turn went on after it was taken over. This is all of it.";

/// What others did.
#[derive(Debug, Clone, Copy)]
pub(super) enum News {
    /// The turn at this place.
    Turn(usize),
    /// The turn at this place, which was told before it was over.
    GoneOn(usize),
    /// The turn at this place of those that the conversation has left.
    Stray(usize),
}

impl News {
    pub(super) async fn tell(self, chronicle: &Arc<dyn Chronicle>) -> Result<Option<ToldTurn>, ArchiveError> {
        let chronicle = Arc::clone(chronicle);
        match self {
            Self::Turn(place) | Self::GoneOn(place) => Ok(chronicle.tell(place..place + 1).await?.pop()),
            Self::Stray(place) => chronicle.tell_stray(place).await,
        }
    }

    /// Where it stands in the conversation, if it is part of it.
    fn mark(self, chronicle: &Arc<dyn Chronicle>) -> Option<TurnMark> {
        match self {
            Self::Turn(place) | Self::GoneOn(place) => chronicle.turns().get(place).copied(),
            Self::Stray(_) => None,
        }
    }
}

/// Turns that are stored together.
#[derive(Default)]
struct Group {
    change: Change,
    /// The last of them that is part of the conversation, by its mark and its id here.
    heard: Option<(TurnMark, String)>,
    turns: usize,
}

impl Actor {
    /// Appends what others did. `false` if not all of it could be: then a later look does it.
    pub(super) async fn append(&mut self, chronicle: &Arc<dyn Chronicle>, news: &[News], mut forgets: bool) -> bool {
        let mut group = Group::default();
        for new in news {
            let mut told = match new.tell(chronicle).await {
                Ok(Some(told)) => told,
                Ok(None) => continue,
                Err(error) => {
                    tracing::warn!(session = &*self.session.uri, %error, "what others did could not be read");
                    self.store_group(group).await;
                    return false;
                }
            };
            let mark = new.mark(chronicle);
            let note = match new {
                News::Turn(_) if std::mem::take(&mut forgets) => Some(FORGETS),
                News::Turn(_) => self.is_meanwhile(&told).then_some(MEANWHILE),
                News::Stray(_) => Some(MEANWHILE),
                News::GoneOn(_) => {
                    // As another one: what was stored is not changed, and nothing is missing.
                    told.id = mark.map_or(told.id, |mark| Uuid::new_v5(&mark.id, &mark.length.to_be_bytes()));
                    Some(GONE_ON)
                }
            };
            told.events.splice(0..0, note.map(|note| DriverEvent::Notice(note.to_owned())));
            // Its sub-agents become chats of the session, which the next turn has to find there.
            let alone = told.events.iter().any(|event| matches!(event, DriverEvent::SubAgent { .. }));
            if alone && !self.store_group(std::mem::take(&mut group)).await {
                return false;
            }
            self.gather(&mut group, told, mark);
            if alone && !self.store_group(std::mem::take(&mut group)).await {
                return false;
            }
        }
        let stored = self.store_group(group).await;
        self.mark_unread().await;
        stored
    }

    /// Puts a turn to those that are stored together; its mark, where it is part of the conversation.
    fn gather(&self, group: &mut Group, told: ToldTurn, mark: Option<TurnMark>) {
        let turn = told.id.to_string();
        let retold = retell(&self.session, told, &self.host.clock.now_text());
        let mut change = std::mem::take(&mut group.change).blobs(retold.blobs);
        for (channel, action) in retold.actions {
            let home = match channel {
                channel if channel == self.session.chat_uri => Home::Chat,
                channel if channel == self.session.uri => Home::Session,
                channel => Home::Worker(channel),
            };
            change = change.on(home, action, None);
        }
        group.change = change;
        group.heard = mark.map(|mark| (mark, turn)).or_else(|| group.heard.take());
        group.turns += 1;
    }

    /// Stores turns together with how far the record was heard.
    async fn store_group(&mut self, group: Group) -> bool {
        let Group { mut change, heard, turns } = group;
        if turns == 0 {
            return true;
        }
        if let Some((mark, turn)) = &heard {
            // The agent has the message: should the turn be taken up again, it must not get it twice.
            let heard = Record::Heard { turn: mark.id, length: Some(mark.length) };
            change = change.record(heard).record(Record::Delivered { turn: turn.clone(), prompt: None });
        }
        if let Err(error) = self.commit(change).await {
            tracing::error!(session = &*self.session.uri, %error, "what others did could not be stored yet");
            return false;
        }
        if let Some((mark, turn)) = heard {
            (self.session.heard, self.session.delivered) = (Some(mark.id), Some(turn));
            self.session.delivered_as = None;
            self.session.others = Some(Others { turn: mark.id, length: mark.length });
        }
        self.host.workers_begun.send_modify(|begun| *begun += 1);
        true
    }
}
