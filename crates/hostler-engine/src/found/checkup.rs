//! What is wrong with what the agents keep: every record is opened, one after the other, and nothing is changed.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use ahp_types::state::SessionStatus;
use hostler_driver::{Archive, Found};
use uuid::Uuid;

use crate::engine::Engine;
use crate::host::Host;
use crate::{EngineError, restore};

/// How many findings are told; the others are counted.
const TOLD: usize = 1000;

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Checkup {
    /// How many conversations were read.
    pub conversations: usize,
    /// What is wrong.
    pub findings: Vec<Finding>,
    /// How many further findings there are.
    pub more: usize,
}

/// Something that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What kind of trouble it is.
    pub kind: FindingKind,
    /// The session that it is about, if it is about one.
    pub session: Option<String>,
    /// The file that it is about, where only that is known.
    pub path: Option<PathBuf>,
    /// The trouble, in words.
    pub problem: String,
}

/// What can be wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FindingKind {
    /// A record cannot be read.
    Unreadable,
    /// Parts of a record cannot be read, or do not belong together.
    Damaged,
    /// A session's record is gone.
    Missing,
    /// A deleted session's record is there.
    Deleted,
}

impl FindingKind {
    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unreadable => "unreadable",
            Self::Damaged => "damaged",
            Self::Missing => "missing",
            Self::Deleted => "deleted",
        }
    }
}

impl Checkup {
    fn find(&mut self, kind: FindingKind, session: &str, problem: String) {
        self.put(Finding { kind, session: Some(session.to_owned()), path: None, problem });
    }

    fn names(&self, session: &str) -> bool {
        self.findings.iter().any(|finding| finding.session.as_deref() == Some(session))
    }

    fn put(&mut self, finding: Finding) {
        if self.findings.len() < TOLD {
            self.findings.push(finding);
        } else {
            self.more += 1;
        }
    }
}

impl Engine {
    /// Reads everything that the agents keep, and says what is wrong with it.
    ///
    /// # Errors
    /// If the store cannot be read, or the host stops meanwhile.
    pub async fn check_up(&self) -> Result<Checkup, EngineError> {
        self.host.stop.run_until_cancelled(self.host.check_up()).await.unwrap_or(Err(EngineError::Stopping))
    }
}

impl Host {
    async fn check_up(&self) -> Result<Checkup, EngineError> {
        let _alone = self.finder.examining.lock().await;
        let mut checkup = Checkup::default();
        for (provider, archive) in self.finder.archives() {
            let found = archive.look().await;
            self.check_unreadable(provider, &found, &mut checkup);
            for conversation in &found.conversations {
                self.check_record(provider, archive, conversation.id, &mut checkup).await;
            }
            self.check_missing(provider, archive, &found, &mut checkup).await?;
        }
        Ok(checkup)
    }

    fn check_unreadable(&self, provider: &str, found: &Found, checkup: &mut Checkup) {
        for (path, why) in &found.unreadable {
            let id = path.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| Uuid::try_parse(stem).ok());
            let session = id.map(|id| self.session_of(provider, id).0);
            let (path, problem) = (Some(path.clone()), format!("it cannot be read: {why}"));
            checkup.put(Finding { kind: FindingKind::Unreadable, session, path, problem });
        }
    }

    /// The session that a conversation is, and whether a person has deleted it.
    fn session_of(&self, provider: &str, conversation: Uuid) -> (String, bool) {
        match self.sessions().conversations.get(&conversation) {
            Some(Some(session)) => (session.to_string(), false),
            owner => (format!("{provider}:/{conversation}"), owner.is_some()),
        }
    }

    async fn check_record(&self, provider: &str, archive: &Arc<dyn Archive>, id: Uuid, checkup: &mut Checkup) {
        let (session, deleted) = self.session_of(provider, id);
        if deleted {
            let problem = "it was deleted here, but the agent's record of it is still there".to_owned();
            return checkup.find(FindingKind::Deleted, &session, problem);
        }
        checkup.conversations += 1;
        match archive.open_in_passing(id).await {
            Ok(chronicle) => {
                for damage in chronicle.damage().await {
                    checkup.find(FindingKind::Damaged, &session, damage);
                }
            }
            // Somebody has deleted it since the look.
            Err(hostler_driver::ArchiveError::Missing) => {}
            // Its file is named already.
            Err(_) if checkup.names(&session) => {}
            Err(error) => checkup.find(FindingKind::Unreadable, &session, error.to_string()),
        }
    }

    /// Sessions whose agents have written something that is not there any more.
    async fn check_missing(
        &self,
        provider: &str,
        archive: &Arc<dyn Archive>,
        found: &Found,
        checkup: &mut Checkup,
    ) -> Result<(), EngineError> {
        let there: HashSet<Uuid> = found.conversations.iter().map(|conversation| conversation.id).collect();
        let mut absent: Vec<Arc<str>> = {
            let sessions = self.sessions();
            let owned = || sessions.conversations.iter().filter_map(|(id, owner)| Some((id, owner.as_ref()?)));
            let present: HashSet<&Arc<str>> =
                owned().filter(|(id, _)| there.contains(id)).map(|(_, session)| session).collect();
            owned().map(|(_, session)| session).filter(|session| !present.contains(session)).cloned().collect()
        };
        absent.sort();
        absent.dedup();
        for session in absent {
            // One that works may not have written anything yet.
            let line = self
                .catalogue
                .summary(&session)
                .filter(|line| line.provider == provider && line.status & SessionStatus::InProgress.bits() == 0);
            if line.is_none() {
                continue;
            }
            let stored = self.store.session(&session).await?;
            let token = restore::session(&session, true, stored).and_then(|session| session.token);
            if let Some(token) = token
                && !archive.keeps(&token).await
            {
                let problem = "the agent's record of it is gone: what was said can be read here, but not continued";
                checkup.find(FindingKind::Missing, &session, problem.to_owned());
            }
        }
        Ok(())
    }
}
