//! The resume token of the running conversation.

use std::path::PathBuf;

use hostler_driver::{DriverEvent, ResumeToken};

/// Continues the conversation: by its transcript's path if that is known to exist, otherwise by its id.
///
/// The path is better: the JavaScript build finds an id only from the directory in which the conversation started.
#[derive(Debug, Default)]
pub(super) struct ResumeTracker {
    session: Option<String>,
    transcript: Option<(String, PathBuf)>,
    reported: Option<String>,
}

impl ResumeTracker {
    pub(super) fn set_session(&mut self, session: Option<&str>) {
        if let Some(session) = session.filter(|session| self.session.as_deref() != Some(session)) {
            self.session = Some(session.to_owned());
        }
    }

    pub(super) fn set_transcript(&mut self, session: &str, path: PathBuf) {
        self.transcript = Some((session.to_owned(), path));
    }

    /// The token at the start of a turn, if it has changed. Before the end of the conversation's first turn the id
    /// alone is not reported: an agent that dies until then may have stored nothing that the id could resume.
    pub(super) fn token_at_turn_start(&mut self) -> Option<DriverEvent> {
        if self.path().is_none() && self.reported.is_none() {
            return None;
        }
        self.token_at_turn_end()
    }

    /// The token at the end of a turn, if it has changed.
    pub(super) fn token_at_turn_end(&mut self) -> Option<DriverEvent> {
        let token = self.path().or(self.session.as_deref())?.to_owned();
        if self.reported.as_deref() == Some(&*token) {
            return None;
        }
        self.reported = Some(token.clone());
        Some(DriverEvent::ResumeToken(ResumeToken(token)))
    }

    fn path(&self) -> Option<&str> {
        let (_, path) = self.transcript.as_ref().filter(|(of, _)| Some(of) == self.session.as_ref())?;
        path.to_str()
    }
}
