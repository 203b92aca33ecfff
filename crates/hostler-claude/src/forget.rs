//! Takes pictures out of a transcript, so that the agent no longer sends them.
//!
//! A provider refuses the whole conversation as long as one picture in it cannot be processed, and older builds send it
//! again with every message. A line without pictures, or of a kind that we do not know, stays as it is, byte for byte; in
//! the others only the pictures are replaced. Sub-agents have files of their own, which are left alone.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hostler_driver::{DropError, Images, OpenErrorKind, ResumeToken};

use crate::driver::ClaudeConfig;
use crate::open;

mod line;

/// What stands in a transcript's place while it is written anew.
const UNFINISHED: &str = ".hostler-";

/// Rewrites the transcript that a token leads to; says how many pictures there were.
pub(crate) async fn drop_images(
    config: Arc<ClaudeConfig>,
    token: ResumeToken,
    which: Images,
) -> Result<usize, DropError> {
    let path = find(&config, &token)?;
    let conversation = path.file_stem().and_then(|stem| stem.to_str()).ok_or(DropError::Missing)?.to_owned();
    // Held until the new file is in its place: nothing may append to the old one.
    let lock = open::lock(&config, &conversation).await.map_err(|error| match error.kind {
        OpenErrorKind::ConversationBusy => DropError::Busy,
        _ => DropError::Failed(error.message),
    })?;
    // It stays with the work, which goes on when nobody waits for it any more.
    let rewritten = tokio::task::spawn_blocking(move || {
        let _lock = lock;
        rewrite(&path, which)
    })
    .await;
    match rewritten {
        Ok(Ok(count)) => Ok(count),
        Ok(Err(error)) if error.kind() == io::ErrorKind::NotFound => Err(DropError::Missing),
        Ok(Err(error)) => Err(DropError::Failed(error.to_string())),
        Err(error) => Err(DropError::Failed(error.to_string())),
    }
}

/// A token is a transcript's path, or a conversation's id, whose transcript lies in some project's folder.
fn find(config: &ClaudeConfig, token: &ResumeToken) -> Result<PathBuf, DropError> {
    let path = Path::new(&token.0);
    if path.is_absolute() {
        return Ok(path.to_owned());
    }
    let projects = config.config_directory().ok_or(DropError::Missing)?.join("projects");
    let folders = std::fs::read_dir(projects).map_err(|_| DropError::Missing)?;
    let name = format!("{}.jsonl", token.0);
    let mut found = folders.flatten().map(|folder| folder.path().join(&name)).filter(|path| path.is_file());
    found.next().ok_or(DropError::Missing)
}

/// Writes the file anew beside itself and moves it into its place.
fn rewrite(path: &Path, which: Images) -> io::Result<usize> {
    let before = std::fs::metadata(path)?;
    let mut holders = Vec::new();
    each_line(path, |number, line| {
        if !line::pictures(line).is_empty() {
            holders.push(number);
        }
        Ok(())
    })?;
    let first = match which {
        Images::All => holders.first(),
        Images::Last => holders.last(),
    };
    let Some(&first) = first else { return Ok(0) };

    let directory = path.parent().unwrap_or(Path::new("/"));
    let temporary = tempfile::Builder::new().prefix(UNFINISHED).tempfile_in(directory)?;
    temporary.as_file().set_permissions(before.permissions())?;
    let mut count = 0;
    let mut out = BufWriter::new(temporary.as_file());
    each_line(path, |number, line| {
        if number < first {
            return out.write_all(line);
        }
        let pictures = line::pictures(line);
        count += pictures.len();
        line::without(line, &pictures, &mut out)
    })?;
    out.flush()?;
    drop(out);
    temporary.as_file().sync_all()?;
    let now = std::fs::metadata(path)?;
    if (now.len(), now.modified()?) != (before.len(), before.modified()?) {
        return Err(io::Error::other("something still writes to it"));
    }
    temporary.persist(path).map_err(|error| error.error)?;
    Ok(count)
}

/// Every line with its line feed, if it has one: the last one may be torn.
fn each_line(path: &Path, mut see: impl FnMut(usize, &[u8]) -> io::Result<()>) -> io::Result<()> {
    let mut lines = BufReader::new(File::open(path)?);
    let mut line = Vec::new();
    let mut number = 0;
    while lines.read_until(b'\n', &mut line)? > 0 {
        see(number, &line)?;
        line.clear();
        number += 1;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
