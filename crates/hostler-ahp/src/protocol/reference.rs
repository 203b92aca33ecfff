//! Generates `docs/ahp.md` from the table.

use std::fmt::Write as _;

use super::notifications::NotificationSender;
use super::{
    AllowedSender, ChannelKind, HostSupport, SinceVersion, action_limits, actions, commands, deprecated, notifications,
};

const INTRODUCTION: &str = "\
# AHP as this host speaks it

This page is written from the table that the host itself uses (`crates/hostler-ahp/src/protocol`); a test fails when they differ.

The host speaks AHP 1.0 and 0.9. It picks the highest version that a client offers; a client without one of them is told which
ones there are, and the connection ends. What a version does not know is not sent to its clients: neither actions nor fields of
snapshots.

## Actions

A client's wish that is refused comes back as an envelope with a `rejectionReason`, a sentence; nothing changes. *Who* says whose
wishes are taken: *host* means that only the host says it, *itself* that a client speaks for itself only. *When* says what
must hold besides; *not offered* says what this host lacks. The host says only what it offers.
";

const HOST_REQUESTS_SECTION: &str = "
## Requests of the host

The host asks a client for files that only the client has: what its messages attach (`resourceRead`, `resourceResolve`, `resourceList`),
and whatever that client itself wants of URIs that begin with `vscode-agent-client://` and its id (all `resource*` commands, with
the parameters that they have above). They are on the root channel. `createResourceWatch` is not asked for.
";

/// The text of `docs/ahp.md`: which parts of the protocol this host supports.
pub fn protocol_reference() -> String {
    // Writing to a String cannot fail.
    let mut page = String::from(INTRODUCTION);
    write_actions(&mut page);
    let _ = writeln!(
        page,
        "\n### Sizes\n\nIds have 1 to {} bytes, titles 1 to 1000. A message has at most {} bytes of text and {} bytes of\n`_meta`; an order \
         names at most {} messages; any other action has at most {} bytes.",
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
        page.push_str("| action | who | since | here |\n|---|---|---|---|\n");
        for action in actions::ALL.iter().filter(|action| action.channels.contains(&kind)) {
            let who = match action.allowed_sender {
                AllowedSender::Host => "host",
                AllowedSender::Client => "client",
                AllowedSender::OwnClient => "itself",
                AllowedSender::ToolOwner => "host (no client runs tools here)",
            };
            let here = match (action.support, action.precondition) {
                (HostSupport::NotOffered(what), _) => format!("not offered: {what}"),
                (HostSupport::Offered, "") => "yes".to_owned(),
                (HostSupport::Offered, when) => format!("when {when}"),
            };
            let _ = writeln!(page, "| `{}` | {who} | {} | {here} |", action.name, format_version(action.since));
        }
    }
}

fn write_commands(page: &mut String) {
    page.push_str(
        "\n## Commands\n\nAll of them are part of 0.9 already, but for those whose names begin with `hostler/`, which are this host's own. \
         Unknown\nones are answered with -32601.\n\n",
    );
    page.push_str("| command | channel | parameters | result | errors | here |\n|---|---|---|---|---|---|\n");
    for command in commands::ALL {
        let errors: Vec<String> = command.errors.iter().map(ToString::to_string).collect();
        let here = describe_support(command.support);
        let (params, result) = (command.params, command.result);
        let errors = errors.join(", ");
        let _ =
            writeln!(page, "| `{}` | {} | {params} | {result} | {errors} | {here} |", command.name, command.channel);
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
    page.push_str("\n## Notifications\n\n| notification | from | since | what | here |\n|---|---|---|---|---|\n");
    for notification in notifications::ALL {
        let from = match notification.sender {
            NotificationSender::Host => "host",
            NotificationSender::Client => "client",
        };
        let (since, here) = (format_version(notification.since), describe_support(notification.support));
        let _ =
            writeln!(page, "| `{}` | {from} | {since} | {} | {here} |", notification.name, notification.description);
    }
}

fn describe_support(here: HostSupport) -> String {
    match here {
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
