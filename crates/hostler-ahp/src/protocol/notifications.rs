//! The notifications, one row each.

use hostler_engine::HostNotificationKind;

use super::HostSupport::{self, NotOffered, Offered};
use super::SinceVersion;

/// Properties of a notification.
#[derive(Debug)]
pub(crate) struct NotificationRow {
    pub(crate) name: &'static str,
    pub(crate) sender: NotificationSender,
    pub(crate) since: SinceVersion,
    pub(crate) support: HostSupport,
    pub(crate) description: &'static str,
}

/// Who sends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotificationSender {
    Host,
    Client,
}

macro_rules! notifications {
    ($($row:ident $name:literal $from:ident $since:tt $here:expr, $what:literal;)+) => {
        /// All notifications.
        pub(crate) static ALL: &[&NotificationRow] = &[$(&$row),+];
        $(pub(crate) static $row: NotificationRow =
            NotificationRow { name: $name, sender: NotificationSender::$from, since: SinceVersion $since, support: $here, description: $what };)+
    };
}

const TELEMETRY: HostSupport = NotOffered("telemetry beyond its log");

notifications! {
    DISPATCH_ACTION "dispatchAction" Client (0, 1, 0) Offered, "dispatches an action; the host answers with an envelope";
    UNSUBSCRIBE "unsubscribe" Client (0, 1, 0) Offered, "ends the subscription to a channel";
    ACTION "action" Host (0, 1, 0) Offered, "publishes an envelope";
    SESSION_ADDED "root/sessionAdded" Host (0, 1, 0) Offered, "a session was added to the list";
    SESSION_REMOVED "root/sessionRemoved" Host (0, 1, 0) Offered, "a session was removed from the list";
    SESSION_SUMMARY_CHANGED "root/sessionSummaryChanged" Host (0, 1, 0) Offered, "the summary of a session has changed";
    PROGRESS "root/progress" Host (0, 5, 0) Offered, "progress of a request of this client";
    AUTH_REQUIRED "auth/required" Host (0, 1, 0) Offered, "a sign-in has expired or was rejected";
    EXPORT_LOGS "otlp/exportLogs" Host (0, 2, 0) Offered, "records of the host's own log";
    EXPORT_TRACES "otlp/exportTraces" Host (0, 2, 0) TELEMETRY, "";
    EXPORT_METRICS "otlp/exportMetrics" Host (0, 2, 0) TELEMETRY, "";
}

/// The row of a session list notification.
pub(crate) fn row_for(kind: &HostNotificationKind) -> &'static NotificationRow {
    match kind {
        HostNotificationKind::SignInExpired(_) => &AUTH_REQUIRED,
        HostNotificationKind::Progress(_) => &PROGRESS,
        HostNotificationKind::SessionAdded(_) => &SESSION_ADDED,
        HostNotificationKind::SessionRemoved(_) => &SESSION_REMOVED,
        HostNotificationKind::SessionSummaryChanged { .. } => &SESSION_SUMMARY_CHANGED,
    }
}
