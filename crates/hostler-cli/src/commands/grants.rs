//! `hostler grants`: what clients were granted beyond the directories of the sessions, for people and scripts.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::Io;
use crate::args::GrantsCommand;
use crate::console::{Style, one_line};
use crate::exit::{Exit, Failure};
use crate::host::{self, Reached};
use crate::ports::Wiring;
use crate::settings::Settings;
use crate::visible::visible_line;

/// A grant, as the host tells it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Grant {
    pub(crate) id: String,
    pub(crate) uri: String,
    pub(crate) write: bool,
    pub(crate) client: String,
    pub(crate) since: String,
    pub(crate) waiting: bool,
}

/// Lists, allows and takes back grants.
pub(crate) async fn grants(
    command: &GrantsCommand,
    wiring: &Wiring,
    settings: &Settings,
    io: &mut Io,
) -> Result<Exit, Failure> {
    let mut host = io.signals.unless(host::reach(wiring, settings)).await??;
    let result = act(command, settings, &mut host, io).await;
    host.leave(&mut io.console, &mut io.signals).await;
    result.map(|()| Exit::Done)
}

async fn act(command: &GrantsCommand, settings: &Settings, host: &mut Reached, io: &mut Io) -> Result<(), Failure> {
    let grants = io.signals.unless(host.client.grants()).await??;
    match command {
        GrantsCommand::List { .. } if settings.json => {
            let text = serde_json::to_string_pretty(&grants).map_err(std::io::Error::other)?;
            io.console.out(&format!("{text}\n"))?;
        }
        GrantsCommand::List { .. } => list(&grants, io)?,
        GrantsCommand::Allow { grant } => {
            let grant = named(&grants, grant)?;
            io.signals.unless(host.client.change_grant("hostler/allowGrant", &grant.id)).await??;
            io.console.note(&format!("Allowed: {}.", told(grant)), Style::Plain);
        }
        GrantsCommand::Revoke { grant } => {
            let grant = named(&grants, grant)?;
            io.signals.unless(host.client.change_grant("hostler/revokeGrant", &grant.id)).await??;
            io.console.note(&format!("Revoked: {}.", told(grant)), Style::Plain);
        }
    }
    Ok(())
}

fn list(grants: &[Grant], io: &mut Io) -> Result<(), Failure> {
    if grants.is_empty() {
        io.console.note("Nothing is granted beyond the directories of the sessions.", Style::Dim);
    }
    for grant in grants {
        let id: String = grant.id.chars().take(8).collect();
        let style = if grant.waiting { Style::Yellow } else { Style::Plain };
        let since = one_line(&grant.since);
        io.console.out_line(&format!("{id}  {}  ({}, {since})", told(grant), visible_line(&grant.client)), style)?;
    }
    Ok(())
}

/// What a grant is about.
fn told(grant: &Grant) -> String {
    let what = if grant.write { "read and change" } else { "read" };
    let waits = if grant.waiting { ", waiting to be allowed" } else { "" };
    visible_line(&format!("{what} {}{waits}", grant.uri))
}

/// The one grant that is meant: by its id, by the beginning of one, or by what it is about.
fn named<'a>(grants: &'a [Grant], name: &str) -> Result<&'a Grant, Failure> {
    let url = file_url(name).unwrap_or_default();
    let is_meant = |grant: &&Grant| {
        let uri = bare(&grant.uri);
        !name.is_empty() && (grant.id.starts_with(name) || uri == bare(name) || uri == bare(&url))
    };
    let mut meant = grants.iter().filter(is_meant);
    let name = one_line(name);
    match (meant.next(), meant.next()) {
        (Some(grant), None) => Ok(grant),
        (None, _) => {
            Err(Failure::new(Exit::Failed, format!("There is no grant {name}: `hostler grants list` shows them.")))
        }
        (Some(_), Some(_)) => {
            Err(Failure::new(Exit::Usage, format!("{name} fits several grants: give more of the id.")))
        }
    }
}

/// The URL of a path, as a person types it: from here, and with a slash at its end or without.
fn file_url(path: &str) -> Option<String> {
    let path: PathBuf = std::path::absolute(path).ok()?.components().collect();
    url::Url::from_file_path(path).ok().map(String::from)
}

/// The slash at the end says nothing about what is meant.
fn bare(uri: &str) -> &str {
    uri.strip_suffix('/').unwrap_or(uri)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(id: &str, uri: &str) -> Grant {
        let (client, since) = ("editor".to_owned(), "2026-11-15T08:00:00.000Z".to_owned());
        Grant { id: id.to_owned(), uri: uri.to_owned(), write: false, client, since, waiting: false }
    }

    #[test]
    fn a_grant_is_found_by_what_is_unique_about_it() {
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
            let found = named(&grants, name).map(|grant| grant.id.as_str()).map_err(|failure| failure.exit);
            assert_eq!(found, expected, "{name:?}");
        }
    }
}
