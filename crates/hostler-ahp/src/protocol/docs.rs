//! `docs/ahp.md`, written from the table.

use std::fmt::Write as _;

use super::notifications::From;
use super::{By, ChannelKind, Here, Since, actions, bounds, commands, notifications};

const HEAD: &str = "\
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

const REQUESTS: &str = "
## Requests of the host

The host asks a client for files that only the client has: what its messages attach (`resourceRead`, `resourceResolve`, `resourceList`),
and whatever that client itself wants of URIs that begin with `vscode-agent-client://` and its id (all `resource*` commands, with
the parameters that they have above). They are on the root channel. `createResourceWatch` is not asked for.
";

/// The page that says what this host makes of the protocol: `docs/ahp.md`.
pub fn reference() -> String {
    // Writing to a String cannot fail.
    let mut page = String::from(HEAD);
    page_of_actions(&mut page);
    let _ = writeln!(
        page,
        "\n### Sizes\n\nIds have 1 to {} bytes, titles 1 to 1000. A message has at most {} bytes of text and {} bytes of\n`_meta`; an order \
         names at most {} messages; any other action has at most {} bytes.",
        bounds::MAX_ID,
        bounds::MAX_TEXT,
        bounds::MAX_META,
        bounds::MAX_ORDER,
        bounds::MAX_ACTION
    );
    page_of_commands(&mut page);
    page.push_str(REQUESTS);
    page_of_notifications(&mut page);
    page
}

fn page_of_actions(page: &mut String) {
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
            let who = match action.by {
                By::Host => "host",
                By::Client => "client",
                By::Itself => "itself",
                By::ToolOwner => "host (no client runs tools here)",
            };
            let here = match (action.here, action.when) {
                (Here::Lacks(what), _) => format!("not offered: {what}"),
                (Here::Offered, "") => "yes".to_owned(),
                (Here::Offered, when) => format!("when {when}"),
            };
            let _ = writeln!(page, "| `{}` | {who} | {} | {here} |", action.name, version(action.since));
        }
    }
}

fn page_of_commands(page: &mut String) {
    page.push_str(
        "\n## Commands\n\nAll of them are part of 0.9 already, but for those whose names begin with `hostler/`, which are this host's own. \
         Unknown\nones are answered with -32601.\n\n",
    );
    page.push_str("| command | channel | parameters | result | errors | here |\n|---|---|---|---|---|---|\n");
    for command in commands::ALL {
        let errors: Vec<String> = command.errors.iter().map(ToString::to_string).collect();
        let here = here(command.here);
        let (params, result) = (command.params, command.result);
        let errors = errors.join(", ");
        let _ =
            writeln!(page, "| `{}` | {} | {params} | {result} | {errors} | {here} |", command.name, command.channel);
    }
}

fn page_of_notifications(page: &mut String) {
    page.push_str("\n## Notifications\n\n| notification | from | since | what | here |\n|---|---|---|---|---|\n");
    for notification in notifications::ALL {
        let from = match notification.from {
            From::Host => "host",
            From::Client => "client",
        };
        let (since, here) = (version(notification.since), here(notification.here));
        let _ = writeln!(page, "| `{}` | {from} | {since} | {} | {here} |", notification.name, notification.what);
    }
}

fn here(here: Here) -> String {
    match here {
        Here::Offered => "yes".to_owned(),
        Here::Lacks(what) => format!("not offered: {what}"),
    }
}

fn version(Since(major, minor, patch): Since) -> String {
    match patch {
        0 => format!("{major}.{minor}"),
        _ => format!("{major}.{minor}.{patch}"),
    }
}
