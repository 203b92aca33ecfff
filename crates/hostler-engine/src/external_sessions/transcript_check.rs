//! What is wrong with what the agents keep: every record is opened, one after the other, and nothing is changed.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use ahp_types::state::SessionStatus;
use hostler_driver::{TranscriptScan, TranscriptStore};
use uuid::Uuid;

use crate::engine::Engine;
use crate::host::Host;
use crate::{EngineError, session_restore};

/// How many findings are told; the others are counted.
const MAX_REPORTED_ISSUES: usize = 1000;

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TranscriptCheckReport {
    /// How many conversations were read.
    pub conversations: usize,
    /// What is wrong.
    pub issues: Vec<TranscriptIssue>,
    /// How many further findings there are.
    pub omitted_issues: usize,
}

/// Something that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TranscriptIssue {
    /// What kind of trouble it is.
    pub kind: TranscriptIssueKind,
    /// The session that it is about, if it is about one.
    pub session: Option<String>,
    /// The file that it is about, where only that is known.
    pub path: Option<PathBuf>,
    /// The trouble, in words.
    pub problem: String,
}

/// What can be wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TranscriptIssueKind {
    /// A record cannot be read.
    Unreadable,
    /// Parts of a record cannot be read, or do not belong together.
    Damaged,
    /// A session's record is gone.
    Missing,
    /// A deleted session's record is there.
    Deleted,
}

impl TranscriptIssueKind {
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

impl TranscriptCheckReport {
    fn add_session_issue(&mut self, kind: TranscriptIssueKind, session: &str, problem: String) {
        self.add_issue(TranscriptIssue { kind, session: Some(session.to_owned()), path: None, problem });
    }

    fn mentions_session(&self, session: &str) -> bool {
        self.issues.iter().any(|finding| finding.session.as_deref() == Some(session))
    }

    fn add_issue(&mut self, finding: TranscriptIssue) {
        if self.issues.len() < MAX_REPORTED_ISSUES {
            self.issues.push(finding);
        } else {
            self.omitted_issues += 1;
        }
    }
}

impl Engine {
    /// Reads everything that the agents keep, and says what is wrong with it.
    ///
    /// # Errors
    /// If the store cannot be read, or the host stops meanwhile.
    pub async fn check_transcripts(&self) -> Result<TranscriptCheckReport, EngineError> {
        self.host.stop.run_until_cancelled(self.host.check_transcripts()).await.unwrap_or(Err(EngineError::Stopping))
    }
}

impl Host {
    async fn check_transcripts(&self) -> Result<TranscriptCheckReport, EngineError> {
        let _alone = self.external_scanner.check_lock.lock().await;
        let mut checkup = TranscriptCheckReport::default();
        for (provider, archive) in self.external_scanner.transcript_stores() {
            let found = archive.scan().await;
            self.check_unreadable(provider, &found, &mut checkup);
            for conversation in &found.conversations {
                self.check_transcript(provider, archive, conversation.id, &mut checkup).await;
            }
            self.check_missing(provider, archive, &found, &mut checkup).await?;
        }
        Ok(checkup)
    }

    fn check_unreadable(&self, provider: &str, found: &TranscriptScan, checkup: &mut TranscriptCheckReport) {
        for (path, why) in &found.unreadable {
            let id = path.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| Uuid::try_parse(stem).ok());
            let session = id.map(|id| self.session_of_conversation(provider, id).0);
            let (path, problem) = (Some(path.clone()), format!("it cannot be read: {why}"));
            checkup.add_issue(TranscriptIssue { kind: TranscriptIssueKind::Unreadable, session, path, problem });
        }
    }

    /// The session that a conversation is, and whether a person has deleted it.
    fn session_of_conversation(&self, provider: &str, conversation: Uuid) -> (String, bool) {
        match self.sessions().conversation_owners.get(&conversation) {
            Some(Some(session)) => (session.to_string(), false),
            owner => (format!("{provider}:/{conversation}"), owner.is_some()),
        }
    }

    async fn check_transcript(
        &self,
        provider: &str,
        archive: &Arc<dyn TranscriptStore>,
        id: Uuid,
        checkup: &mut TranscriptCheckReport,
    ) {
        let (session, deleted) = self.session_of_conversation(provider, id);
        if deleted {
            let problem = "it was deleted here, but the agent's record of it is still there".to_owned();
            return checkup.add_session_issue(TranscriptIssueKind::Deleted, &session, problem);
        }
        checkup.conversations += 1;
        match archive.open_for_scan(id).await {
            Ok(chronicle) => {
                for damage in chronicle.describe_damage().await {
                    checkup.add_session_issue(TranscriptIssueKind::Damaged, &session, damage);
                }
            }
            // Somebody has deleted it since the look.
            Err(hostler_driver::TranscriptStoreError::Missing) => {}
            // Its file is named already.
            Err(_) if checkup.mentions_session(&session) => {}
            Err(error) => checkup.add_session_issue(TranscriptIssueKind::Unreadable, &session, error.to_string()),
        }
    }

    /// Sessions whose agents have written something that is not there any more.
    async fn check_missing(
        &self,
        provider: &str,
        archive: &Arc<dyn TranscriptStore>,
        found: &TranscriptScan,
        checkup: &mut TranscriptCheckReport,
    ) -> Result<(), EngineError> {
        let there: HashSet<Uuid> = found.conversations.iter().map(|conversation| conversation.id).collect();
        let mut absent: Vec<Arc<str>> = {
            let sessions = self.sessions();
            let owned = || sessions.conversation_owners.iter().filter_map(|(id, owner)| Some((id, owner.as_ref()?)));
            let present: HashSet<&Arc<str>> =
                owned().filter(|(id, _)| there.contains(id)).map(|(_, session)| session).collect();
            owned().map(|(_, session)| session).filter(|session| !present.contains(session)).cloned().collect()
        };
        absent.sort();
        absent.dedup();
        for session in absent {
            // One that works may not have written anything yet.
            let line = self
                .catalog
                .summary(&session)
                .filter(|line| line.provider == provider && line.status & SessionStatus::InProgress.bits() == 0);
            if line.is_none() {
                continue;
            }
            let stored = self.store.load_session(&session).await?;
            let token =
                session_restore::restore_session(&session, true, stored).and_then(|session| session.resume_token);
            if let Some(token) = token
                && !archive.has_transcript(&token).await
            {
                let problem = "the agent's record of it is gone: what was said can be read here, but not continued";
                checkup.add_session_issue(TranscriptIssueKind::Missing, &session, problem.to_owned());
            }
        }
        Ok(())
    }
}
