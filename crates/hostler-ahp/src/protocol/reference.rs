//! Generates `docs/ahp.md` from the table.

use std::fmt::Write as _;

use super::notifications::NotificationSender;
use super::{
    AllowedSender, ChannelKind, HostSupport, SinceVersion, action_limits, actions, commands, deprecated, notifications,
};

const INTRODUCTION: &str = "\
# AHP support

Read this page if you write a client. It lists the actions, commands and notifications of the Agent Host Protocol (AHP) that this
host supports. The page is generated from the table that the host uses (`crates/hostler-ahp/src/protocol`); a test fails if they
differ.

The host supports AHP 1.0 and 0.9 and selects the highest version that a client offers. If a client offers neither, the host answers
with the supported versions and closes the connection. Clients do not receive actions or fields of snapshots that their version
does not define.

## Actions

A rejected action changes nothing. The host answers it with an envelope that has a `rejectionReason`, a message for people, and
`_meta.hostler.code`, a stable code for programs.

*Sender* is who can dispatch an action: only the *host*, any *client*, or only the client that the action names (*own client*).
*Support* is *yes*, a condition, or the feature that the host does not offer. The host does not dispatch actions of features that it
does not offer.
";

const HOST_REQUESTS_SECTION: &str = "
## Requests of the host

The host sends requests to a client for files that only this client has: attachments of its messages (`resourceRead`,
`resourceResolve`, `resourceList`), and files that the client itself requests with URIs that begin with `vscode-agent-client://` and
its id (all `resource*` commands, with the parameters above). The requests are on the root channel. The host does not send
`createResourceWatch`.
";

/// The text of `docs/ahp.md`: which parts of the protocol this host supports.
pub fn protocol_reference() -> String {
    // Writing to a String cannot fail.
    let mut page = String::from(INTRODUCTION);
    write_actions(&mut page);
    let _ = writeln!(
        page,
        "\n### Sizes\n\nIds have 1 to {} bytes, titles 1 to 1000. A message has at most {} bytes of text and {} bytes of\n`_meta`; `order` \
         has at most {} messages; any other action has at most {} bytes.",
        action_limits::MAX_ID_BYTES,
        action_limits::MAX_MESSAGE_TEXT_BYTES,
        action_limits::MAX_META_BYTES,
        action_limits::MAX_REORDERED_MESSAGES,
        action_limits::MAX_ACTION_BYTES
    );
    write_commands(&mut page);
    write_deprecated_names(&mut page);
    page.push_str(HOST_REQUESTS_SECTION);
    write_notifications(&mut page);
    page
}

fn write_actions(page: &mut String) {
    let kinds = [
        ChannelKind::Root,
        ChannelKind::Session,
        ChannelKind::Chat,
        ChannelKind::Terminal,
        ChannelKind::Changeset,
        ChannelKind::Annotations,
        ChannelKind::ResourceWatch,
        ChannelKind::Canvas,
        ChannelKind::Automations,
        ChannelKind::AutomationRun,
    ];
    for kind in kinds {
        let _ = writeln!(page, "\n### Channel: {}\n", kind.name());
        page.push_str("| action | sender | since | support |\n|---|---|---|---|\n");
        for action in actions::ALL.iter().filter(|action| action.channels.contains(&kind)) {
            let sender = match action.allowed_sender {
                AllowedSender::Host => "host",
                AllowedSender::Client => "client",
                AllowedSender::OwnClient => "own client",
                AllowedSender::ToolOwner => "host (clients cannot run tools)",
            };
            let support = match (action.support, action.precondition) {
                (HostSupport::NotOffered(what), _) => format!("not offered: {what}"),
                (HostSupport::Offered, "") => "yes".to_owned(),
                (HostSupport::Offered, condition) => format!("if {condition}"),
            };
            let _ = writeln!(page, "| `{}` | {sender} | {} | {support} |", action.name, format_version(action.since));
        }
    }
}

fn write_commands(page: &mut String) {
    page.push_str(
        "\n## Commands\n\nAll commands are part of AHP 0.9, except those that begin with `hostler/`, which are Hostler's own. Unknown \
         commands are\nanswered with -32601. An error has a stable code for programs in `error.data.code`.\n\n",
    );
    page.push_str("| command | channel | parameters | result | errors | support |\n|---|---|---|---|---|---|\n");
    for command in commands::ALL {
        let errors: Vec<String> = command.errors.iter().map(ToString::to_string).collect();
        let support = describe_support(command.support);
        let (params, result) = (command.params, command.result);
        let errors = errors.join(", ");
        let _ =
            writeln!(page, "| `{}` | {} | {params} | {result} | {errors} | {support} |", command.name, command.channel);
    }
}

fn write_deprecated_names(page: &mut String) {
    page.push_str(
        "\n## Deprecated names\n\nThe host accepts these former names of its own methods and parameters. Results and `_meta` have the \
         current\nnames only.\n\n| deprecated method | use |\n|---|---|\n",
    );
    for (former, current) in deprecated::METHODS {
        let _ = writeln!(page, "| `{former}` | `{current}` |");
    }
    page.push_str("\n| deprecated parameter | method | use |\n|---|---|---|\n");
    for (method, former, current) in deprecated::PARAMS {
        let _ = writeln!(page, "| `{former}` | `{method}` | `{current}` |");
    }
}

fn write_notifications(page: &mut String) {
    page.push_str(
        "\n## Notifications\n\n| notification | sender | since | purpose | support |\n|---|---|---|---|---|\n",
    );
    for notification in notifications::ALL {
        let sender = match notification.sender {
            NotificationSender::Host => "host",
            NotificationSender::Client => "client",
        };
        let (since, support) = (format_version(notification.since), describe_support(notification.support));
        let _ = writeln!(
            page,
            "| `{}` | {sender} | {since} | {} | {support} |",
            notification.name, notification.description
        );
    }
}

fn describe_support(support: HostSupport) -> String {
    match support {
        HostSupport::Offered => "yes".to_owned(),
        HostSupport::NotOffered(what) => format!("not offered: {what}"),
    }
}

fn format_version(SinceVersion(major, minor, patch): SinceVersion) -> String {
    match patch {
        0 => format!("{major}.{minor}"),
        _ => format!("{major}.{minor}.{patch}"),
    }
}
