//! `hostler grants`: lists, allows and revokes grants beyond the sessions' directories.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::Io;
use crate::args::GrantsCommand;
use crate::console::{TextStyle, to_one_line};
use crate::escape_text::escape_invisible_line;
use crate::exit::{CommandFailure, Exit};
use crate::host::{self, HostConnection};
use crate::ports::Wiring;
use crate::settings::Settings;

/// Grant, as sent by the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GrantInfo {
    pub(crate) id: String,
    pub(crate) uri: String,
    pub(crate) write: bool,
    pub(crate) client: String,
    pub(crate) since: String,
    #[serde(rename = "waiting")]
    pub(crate) is_pending: bool,
}

/// Runs `hostler grants`.
pub(crate) async fn run_grants_command(
    command: &GrantsCommand,
    wiring: &Wiring,
    settings: &Settings,
    io: &mut Io,
) -> Result<Exit, CommandFailure> {
    let mut host = io.signals.run_or_interrupt(host::connect_or_start(wiring, settings)).await??;
    let result = execute(command, settings, &mut host, io).await;
    host.disconnect(&mut io.console, &mut io.signals).await;
    result.map(|()| Exit::Done)
}

async fn execute(
    command: &GrantsCommand,
    settings: &Settings,
    host: &mut HostConnection,
    io: &mut Io,
) -> Result<(), CommandFailure> {
    let grants = io.signals.run_or_interrupt(host.client.list_grants()).await??;
    match command {
        GrantsCommand::List { .. } if settings.json => {
            let text = serde_json::to_string_pretty(&grants).map_err(std::io::Error::other)?;
            io.console.write_out(&format!("{text}\n"))?;
        }
        GrantsCommand::List { .. } => print_grants(&grants, io)?,
        GrantsCommand::Allow { grant } => {
            let grant = find_grant(&grants, grant)?;
            io.signals.run_or_interrupt(host.client.change_grant("hostler/allowGrant", &grant.id)).await??;
            io.console.write_note(&format!("Allowed: {}.", describe_grant(grant)), TextStyle::Plain);
        }
        GrantsCommand::Revoke { grant } => {
            let grant = find_grant(&grants, grant)?;
            io.signals.run_or_interrupt(host.client.change_grant("hostler/revokeGrant", &grant.id)).await??;
            io.console.write_note(&format!("Revoked: {}.", describe_grant(grant)), TextStyle::Plain);
        }
    }
    Ok(())
}

fn print_grants(grants: &[GrantInfo], io: &mut Io) -> Result<(), CommandFailure> {
    if grants.is_empty() {
        io.console.write_note("No grants.", TextStyle::Dim);
    }
    for grant in grants {
        let id: String = grant.id.chars().take(8).collect();
        let style = if grant.is_pending { TextStyle::Yellow } else { TextStyle::Plain };
        let since = to_one_line(&grant.since);
        io.console.write_out_line(
            &format!("{id}  {}  ({}, {since})", describe_grant(grant), escape_invisible_line(&grant.client)),
            style,
        )?;
    }
    Ok(())
}

/// Describes a grant's target.
fn describe_grant(grant: &GrantInfo) -> String {
    let what = if grant.write { "read and write" } else { "read" };
    let pending = if grant.is_pending { ", pending" } else { "" };
    escape_invisible_line(&format!("{what} {}{pending}", grant.uri))
}

/// Finds one grant by its id, by a unique prefix of it, or by its path.
fn find_grant<'a>(grants: &'a [GrantInfo], name: &str) -> Result<&'a GrantInfo, CommandFailure> {
    let url = file_url(name).unwrap_or_default();
    let is_match = |grant: &&GrantInfo| {
        let uri = trim_trailing_slash(&grant.uri);
        !name.is_empty()
            && (grant.id.starts_with(name) || uri == trim_trailing_slash(name) || uri == trim_trailing_slash(&url))
    };
    let mut matches = grants.iter().filter(is_match);
    let name = to_one_line(name);
    match (matches.next(), matches.next()) {
        (Some(grant), None) => Ok(grant),
        (None, _) => Err(CommandFailure::new(
            Exit::Failed,
            "grantNotFound",
            format!("Grant not found: {name}. List all grants with `hostler grants list`."),
        )),
        (Some(_), Some(_)) => {
            let text = format!("{name} matches several grants. Pass a longer prefix of the id.");
            Err(CommandFailure::new(Exit::Usage, "ambiguousGrantId", text))
        }
    }
}

/// Converts a typed path to a URL: relative to the working directory, with or without a trailing slash.
fn file_url(path: &str) -> Option<String> {
    let path: PathBuf = std::path::absolute(path).ok()?.components().collect();
    url::Url::from_file_path(path).ok().map(String::from)
}

/// Removes the trailing slash, which does not change the target.
fn trim_trailing_slash(uri: &str) -> &str {
    uri.strip_suffix('/').unwrap_or(uri)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(id: &str, uri: &str) -> GrantInfo {
        let (client, since) = ("editor".to_owned(), "2026-11-15T08:00:00.000Z".to_owned());
        GrantInfo { id: id.to_owned(), uri: uri.to_owned(), write: false, client, since, is_pending: false }
    }

    #[test]
    fn grant_is_found_by_id_unique_prefix_or_path() {
        let here = file_url("here").unwrap();
        let grants = [grant("abc1", "file:///a"), grant("abd2", "file:///with%20space"), grant("eee3", &here)];
        for (name, expected) in [
            ("abc1", Ok("abc1")),
            ("abd", Ok("abd2")),
            ("file:///a", Ok("abc1")),
            ("/a", Ok("abc1")),
            ("/with space", Ok("abd2")),
            ("/with space/", Ok("abd2")),
            ("/a/.", Ok("abc1")),
            ("file:///a/", Ok("abc1")),
            ("here", Ok("eee3")),
            ("./here/", Ok("eee3")),
            ("ab", Err(Exit::Usage)),
            ("x", Err(Exit::Failed)),
            ("", Err(Exit::Failed)),
        ] {
            let found = find_grant(&grants, name).map(|grant| grant.id.as_str()).map_err(|failure| failure.exit);
            assert_eq!(found, expected, "{name:?}");
        }
    }
}
