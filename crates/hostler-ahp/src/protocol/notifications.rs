//! The notifications, one row each.

use hostler_engine::NoticeKind;

use super::Here::{self, Lacks, Offered};
use super::Since;

/// What is known about a notification.
#[derive(Debug)]
pub(crate) struct Notification {
    pub(crate) name: &'static str,
    pub(crate) from: From,
    pub(crate) since: Since,
    pub(crate) here: Here,
    pub(crate) what: &'static str,
}

/// Who sends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum From {
    Host,
    Client,
}

macro_rules! notifications {
    ($($row:ident $name:literal $from:ident $since:tt $here:expr, $what:literal;)+) => {
        /// All notifications.
        pub(crate) static ALL: &[&Notification] = &[$(&$row),+];
        $(pub(crate) static $row: Notification =
            Notification { name: $name, from: From::$from, since: Since $since, here: $here, what: $what };)+
    };
}

const TELEMETRY: Here = Lacks("telemetry beyond its log");

notifications! {
    DISPATCH_ACTION "dispatchAction" Client (0, 1, 0) Offered, "a wish to change something; the answer is an envelope";
    UNSUBSCRIBE "unsubscribe" Client (0, 1, 0) Offered, "the client no longer hears a channel";
    ACTION "action" Host (0, 1, 0) Offered, "an envelope";
    SESSION_ADDED "root/sessionAdded" Host (0, 1, 0) Offered, "a session is there";
    SESSION_REMOVED "root/sessionRemoved" Host (0, 1, 0) Offered, "a session is gone";
    SESSION_SUMMARY_CHANGED "root/sessionSummaryChanged" Host (0, 1, 0) Offered, "a session's line in the list has changed";
    PROGRESS "root/progress" Host (0, 5, 0) Offered, "how far something has come that this client waits for";
    AUTH_REQUIRED "auth/required" Host (0, 1, 0) Offered, "a sign-in is not good any more";
    EXPORT_LOGS "otlp/exportLogs" Host (0, 2, 0) Offered, "lines of the host's own log";
    EXPORT_TRACES "otlp/exportTraces" Host (0, 2, 0) TELEMETRY, "";
    EXPORT_METRICS "otlp/exportMetrics" Host (0, 2, 0) TELEMETRY, "";
}

/// The row of a catalogue event.
pub(crate) fn row(kind: &NoticeKind) -> &'static Notification {
    match kind {
        NoticeKind::SignInOver(_) => &AUTH_REQUIRED,
        NoticeKind::Progress(_) => &PROGRESS,
        NoticeKind::SessionAdded(_) => &SESSION_ADDED,
        NoticeKind::SessionRemoved(_) => &SESSION_REMOVED,
        NoticeKind::SessionSummaryChanged { .. } => &SESSION_SUMMARY_CHANGED,
    }
}
