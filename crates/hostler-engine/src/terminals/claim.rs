//! Claims: which client or session holds a terminal, and which clients may transfer it. Pure.

use ahp_types::state::{TerminalClaim, TerminalClientClaim, TerminalSessionClaim};

use crate::uri;

/// Why a claim is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClaimError {
    /// A new terminal is claimed for another client.
    #[error("a client can claim a terminal for itself or for a session, not for another client")]
    OtherClient,
    /// Another connected client holds the terminal.
    #[error("another client holds the terminal; only that client can transfer it")]
    HeldByOtherClient,
    /// A client that does not hold the terminal transfers it to another one.
    #[error("a client that does not hold the terminal can only claim it for itself")]
    NotHolder,
    /// The new holder is unknown.
    #[error("this host does not know the client that the terminal is transferred to")]
    ClientUnknown,
    /// The session does not exist.
    #[error("session {session} does not exist")]
    SessionNotFound {
        /// The session's URI.
        session: String,
    },
    /// The chat is not one of the session's.
    #[error("the chat of the claim does not belong to the session")]
    ChatNotInSession,
    /// An id is too long.
    #[error("the IDs of a claim can have at most {max} bytes", max = uri::MAX_URI_BYTES)]
    IdTooLong,
}

impl ClaimError {
    /// The stable code for programs.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::OtherClient | Self::NotHolder => "claimForOtherClient",
            Self::HeldByOtherClient => "terminalHeld",
            Self::ClientUnknown => "clientUnknown",
            Self::SessionNotFound { .. } => "sessionNotFound",
            Self::ChatNotInSession => "chatNotInSession",
            Self::IdTooLong => "invalidId",
        }
    }
}

/// Facts about clients and sessions that the checks need.
pub(crate) trait ClaimContext {
    /// Whether such a client was connected recently.
    fn is_known_client(&self, client: &str) -> bool;
    /// Whether that client is disconnected now.
    fn is_client_away(&self, client: &str) -> bool;
    /// Whether the session exists.
    fn has_session(&self, session: &str) -> bool;
}

/// Checks whether a client may create a terminal with this claim.
pub(crate) fn check_new_claim(
    client: &str,
    claim: &TerminalClaim,
    others: &impl ClaimContext,
) -> Result<(), ClaimError> {
    match claim {
        TerminalClaim::Client(TerminalClientClaim { client_id }) if client_id != client => Err(ClaimError::OtherClient),
        TerminalClaim::Client(_) => Ok(()),
        TerminalClaim::Session(session) => check_session_claim(session, others),
    }
}

/// Checks whether a client may transfer a terminal. The holder may transfer it to a known client or an existing
/// session. Every client may take a terminal that a session or a disconnected client holds.
pub(crate) fn check_claim_transfer(
    client: &str,
    held: &TerminalClaim,
    next: &TerminalClaim,
    others: &impl ClaimContext,
) -> Result<(), ClaimError> {
    let holds = matches!(held, TerminalClaim::Client(holder) if holder.client_id == client);
    if let TerminalClaim::Client(holder) = held
        && !holds
        && !others.is_client_away(&holder.client_id)
    {
        return Err(ClaimError::HeldByOtherClient);
    }
    match next {
        TerminalClaim::Client(next) if next.client_id == client => Ok(()),
        TerminalClaim::Client(_) if !holds => Err(ClaimError::NotHolder),
        TerminalClaim::Client(next) if !others.is_known_client(&next.client_id) => Err(ClaimError::ClientUnknown),
        TerminalClaim::Client(_) => Ok(()),
        TerminalClaim::Session(session) => check_session_claim(session, others),
    }
}

fn check_session_claim(claim: &TerminalSessionClaim, others: &impl ClaimContext) -> Result<(), ClaimError> {
    if !others.has_session(&claim.session) {
        return Err(ClaimError::SessionNotFound { session: claim.session.clone() });
    }
    if uri::session_of(&claim.chat).as_deref() != Some(claim.session.as_str()) || claim.chat == claim.session {
        return Err(ClaimError::ChatNotInSession);
    }
    let long = |id: &Option<String>| id.as_ref().is_some_and(|id| id.len() > uri::MAX_URI_BYTES);
    if long(&claim.turn_id) || long(&claim.tool_call_id) {
        return Err(ClaimError::IdTooLong);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct FixedContext;

    impl ClaimContext for FixedContext {
        fn is_known_client(&self, client: &str) -> bool {
            client != "unknown"
        }
        fn is_client_away(&self, client: &str) -> bool {
            client == "gone"
        }
        fn has_session(&self, session: &str) -> bool {
            session == "claude:/s"
        }
    }

    fn client(id: &str) -> TerminalClaim {
        TerminalClaim::Client(TerminalClientClaim { client_id: id.into() })
    }

    fn session(session: &str, chat: &str) -> TerminalClaim {
        let (session, chat) = (session.into(), chat.into());
        TerminalClaim::Session(TerminalSessionClaim { session, chat, turn_id: None, tool_call_id: None })
    }

    #[test]
    fn claim_transfer_depends_on_the_holder() {
        let own = session("claude:/s", &uri::default_chat_uri("claude:/s"));
        let check = |held: &TerminalClaim, next: &TerminalClaim, fine: bool| {
            assert_eq!(check_claim_transfer("me", held, next, &FixedContext).is_ok(), fine, "{held:?} {next:?}");
        };
        check(&client("me"), &own, true);
        check(&client("me"), &client("me"), true);
        check(&client("me"), &client("you"), true);
        check(&client("me"), &client("unknown"), false);
        check(&client("you"), &client("me"), false);
        check(&client("you"), &own, false);
        check(&client("gone"), &client("me"), true);
        check(&client("gone"), &client("you"), false);
        check(&own, &client("me"), true);
        check(&own, &client("you"), false);
        check(&own, &own, true);
    }

    #[test]
    fn new_claim_names_the_client_itself_or_an_existing_session() {
        let fine = |claim: &TerminalClaim| check_new_claim("me", claim, &FixedContext).is_ok();
        assert!(fine(&client("me")) && !fine(&client("you")));
        assert!(fine(&session("claude:/s", &uri::default_chat_uri("claude:/s"))));
        assert!(!fine(&session("claude:/other", &uri::default_chat_uri("claude:/other"))));
        for chat in ["claude:/s", "ahp-chat:/x", "", &uri::default_chat_uri("claude:/other")] {
            assert!(!fine(&session("claude:/s", chat)), "{chat}");
        }
    }
}
