use std::path::PathBuf;

use hostler_driver::{DriverEvent, ResumeToken};

/// How the conversation is continued: by its transcript's path where that is known to exist, else by its id.
///
/// The path is better: the JavaScript build finds an id only from the directory that the conversation began in.
#[derive(Debug, Default)]
pub(super) struct Resume {
    session: Option<String>,
    transcript: Option<(String, PathBuf)>,
    reported: Option<String>,
}

impl Resume {
    pub(super) fn session_named(&mut self, session: Option<&str>) {
        if let Some(session) = session.filter(|session| self.session.as_deref() != Some(session)) {
            self.session = Some(session.to_owned());
        }
    }

    pub(super) fn transcript_found(&mut self, session: &str, path: PathBuf) {
        self.transcript = Some((session.to_owned(), path));
    }

    /// The token, if it is not the one that was reported last.
    pub(super) fn news(&mut self) -> Option<DriverEvent> {
        let session = self.session.as_ref()?;
        let path = self.transcript.as_ref().filter(|(of, _)| of == session).and_then(|(_, path)| path.to_str());
        let token = path.unwrap_or(session);
        if self.reported.as_deref() == Some(token) {
            return None;
        }
        self.reported = Some(token.to_owned());
        Some(DriverEvent::ResumeToken(ResumeToken(token.to_owned())))
    }
}
