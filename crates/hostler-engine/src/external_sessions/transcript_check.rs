//! Checks the agents' transcripts: opens each one, and changes nothing.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use ahp_types::state::SessionStatus;
use hostler_driver::{TranscriptScan, TranscriptStore};
use uuid::Uuid;

use crate::EngineError;
use crate::engine::Engine;
use crate::host::Host;
use crate::sessions::restore;

/// Maximum number of reported issues; further ones are counted.
const MAX_REPORTED_ISSUES: usize = 1000;

/// The result of a check.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TranscriptCheckReport {
    /// Number of conversations that were read.
    pub conversations: usize,
    /// The reported issues.
    pub issues: Vec<TranscriptIssue>,
    /// Number of further issues.
    pub omitted_issues: usize,
}

/// A problem of a transcript.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TranscriptIssue {
    /// Its kind.
    pub kind: TranscriptIssueKind,
    /// The session that it concerns, if known.
    pub session: Option<String>,
    /// The file that it concerns, if only that is known.
    pub path: Option<PathBuf>,
    /// The problem, as text for a person.
    pub problem: String,
}

/// The kinds of problems.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TranscriptIssueKind {
    /// A transcript cannot be read.
    Unreadable,
    /// Parts of a transcript cannot be read, or are inconsistent.
    Damaged,
    /// A session's transcript is missing.
    Missing,
    /// A deleted session's transcript still exists.
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
    /// Reads all transcripts and reports their problems.
    ///
    /// # Errors
    /// If the store cannot be read, or the host stops meanwhile.
    pub async fn check_transcripts(&self) -> Result<TranscriptCheckReport, EngineError> {
        self.host.tasks.run_until_stopped(self.host.check_transcripts()).await.unwrap_or(Err(EngineError::Stopping))
    }
}

impl Host {
    async fn check_transcripts(&self) -> Result<TranscriptCheckReport, EngineError> {
        let _alone = self.external.scanner.check_lock.lock().await;
        let mut checkup = TranscriptCheckReport::default();
        for (provider, transcript_store) in self.external.scanner.transcript_stores() {
            let found = transcript_store.scan().await;
            self.check_unreadable(provider, &found, &mut checkup);
            for conversation in &found.conversations {
                self.check_transcript(provider, transcript_store, conversation.id, &mut checkup).await;
            }
            self.check_missing(provider, transcript_store, &found, &mut checkup).await?;
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

    /// The session of a conversation, and whether a person has deleted it.
    fn session_of_conversation(&self, provider: &str, conversation: Uuid) -> (String, bool) {
        match self.catalog.sessions().conversation_owner(conversation) {
            Some(Some(session)) => (session.to_string(), false),
            owner => (format!("{provider}:/{conversation}"), owner.is_some()),
        }
    }

    async fn check_transcript(
        &self,
        provider: &str,
        transcript_store: &Arc<dyn TranscriptStore>,
        id: Uuid,
        checkup: &mut TranscriptCheckReport,
    ) {
        let (session, deleted) = self.session_of_conversation(provider, id);
        if deleted {
            let problem = "the session was deleted, but its transcript still exists".to_owned();
            return checkup.add_session_issue(TranscriptIssueKind::Deleted, &session, problem);
        }
        checkup.conversations += 1;
        match transcript_store.open_for_scan(id).await {
            Ok(transcript) => {
                for damage in transcript.describe_damage().await {
                    checkup.add_session_issue(TranscriptIssueKind::Damaged, &session, damage);
                }
            }
            // It was deleted since the scan.
            Err(hostler_driver::TranscriptStoreError::Missing) => {}
            // Its file is reported already.
            Err(_) if checkup.mentions_session(&session) => {}
            Err(error) => checkup.add_session_issue(TranscriptIssueKind::Unreadable, &session, error.to_string()),
        }
    }

    /// Checks for sessions whose transcripts no longer exist.
    async fn check_missing(
        &self,
        provider: &str,
        transcript_store: &Arc<dyn TranscriptStore>,
        found: &TranscriptScan,
        checkup: &mut TranscriptCheckReport,
    ) -> Result<(), EngineError> {
        let there: HashSet<Uuid> = found.conversations.iter().map(|conversation| conversation.id).collect();
        let mut absent: Vec<Arc<str>> = {
            let sessions = self.catalog.sessions();
            let present: HashSet<&Arc<str>> = sessions
                .owned_conversations()
                .filter(|(id, _)| there.contains(id))
                .map(|(_, session)| session)
                .collect();
            let owners = sessions.owned_conversations().map(|(_, session)| session);
            owners.filter(|session| !present.contains(session)).cloned().collect()
        };
        absent.sort();
        absent.dedup();
        for session in absent {
            // A running session may not have written anything yet.
            let line = self
                .catalog
                .summary(&session)
                .filter(|line| line.provider == provider && line.status & SessionStatus::InProgress.bits() == 0);
            if line.is_none() {
                continue;
            }
            let stored = self.store.load_session(&session).await?;
            let token = restore::restore_session(&session, true, stored).and_then(|session| session.resume_token);
            if let Some(token) = token
                && !transcript_store.has_transcript(&token).await
            {
                let problem = "the transcript is missing: the session can be read, but not continued";
                checkup.add_session_issue(TranscriptIssueKind::Missing, &session, problem.to_owned());
            }
        }
        Ok(())
    }
}
