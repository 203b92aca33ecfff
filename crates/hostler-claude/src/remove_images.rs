//! Removes images from a transcript, so that the agent no longer sends them.
//!
//! A provider rejects the whole conversation as long as one image in it cannot be processed, and older builds send it
//! again with every message. Lines without images and lines of an unknown kind stay unchanged byte for byte; in the
//! others only the images are replaced. Transcripts of sub-agents are not changed.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hostler_driver::{ImageSelection, OpenErrorKind, RemoveImagesError, ResumeToken};

use crate::driver::ClaudeConfig;
use crate::open;

mod image_blocks;

/// Prefix of the temporary file that replaces the transcript.
const TEMPORARY_FILE_PREFIX: &str = ".hostler-";

/// Rewrites the transcript of a resume token; returns how many images were removed.
pub(crate) async fn remove_images(
    config: Arc<ClaudeConfig>,
    token: ResumeToken,
    which: ImageSelection,
) -> Result<usize, RemoveImagesError> {
    let path = find_transcript(&config, &token)?;
    let conversation = path.file_stem().and_then(|stem| stem.to_str()).ok_or(RemoveImagesError::Missing)?.to_owned();
    // Held until the new file is in place: no process may append to the old one.
    let lock = open::lock_conversation(&config, &conversation).await.map_err(|error| match error.kind {
        OpenErrorKind::ConversationBusy => RemoveImagesError::Busy,
        _ => RemoveImagesError::Failed(error.message),
    })?;
    // The lock moves into the task, which continues after the caller drops its future.
    let rewritten = tokio::task::spawn_blocking(move || {
        let _lock = lock;
        rewrite_transcript(&path, which)
    })
    .await;
    match rewritten {
        Ok(Ok(count)) => Ok(count),
        Ok(Err(error)) if error.kind() == io::ErrorKind::NotFound => Err(RemoveImagesError::Missing),
        Ok(Err(error)) => Err(RemoveImagesError::Failed(error.to_string())),
        Err(error) => Err(RemoveImagesError::Failed(error.to_string())),
    }
}

/// A token is a transcript's path, or a conversation's id whose transcript is in some project's folder.
fn find_transcript(config: &ClaudeConfig, token: &ResumeToken) -> Result<PathBuf, RemoveImagesError> {
    let path = Path::new(&token.0);
    if path.is_absolute() {
        return Ok(path.to_owned());
    }
    let projects = config.config_directory().ok_or(RemoveImagesError::Missing)?.join("projects");
    let folders = std::fs::read_dir(projects).map_err(|_| RemoveImagesError::Missing)?;
    let name = format!("{}.jsonl", token.0);
    let mut found = folders.flatten().map(|folder| folder.path().join(&name)).filter(|path| path.is_file());
    found.next().ok_or(RemoveImagesError::Missing)
}

/// Writes the new contents beside the file and moves them into place.
fn rewrite_transcript(path: &Path, which: ImageSelection) -> io::Result<usize> {
    let before = std::fs::metadata(path)?;
    let mut holders = Vec::new();
    for_each_line(path, |number, line| {
        if !image_blocks::find_images(line).is_empty() {
            holders.push(number);
        }
        Ok(())
    })?;
    let first = match which {
        ImageSelection::All => holders.first(),
        ImageSelection::Last => holders.last(),
    };
    let Some(&first) = first else { return Ok(0) };

    let directory = path.parent().unwrap_or(Path::new("/"));
    let temporary = tempfile::Builder::new().prefix(TEMPORARY_FILE_PREFIX).tempfile_in(directory)?;
    temporary.as_file().set_permissions(before.permissions())?;
    let mut count = 0;
    let mut out = BufWriter::new(temporary.as_file());
    for_each_line(path, |number, line| {
        if number < first {
            return out.write_all(line);
        }
        let images = image_blocks::find_images(line);
        count += images.len();
        image_blocks::write_without_images(line, &images, &mut out)
    })?;
    out.flush()?;
    drop(out);
    temporary.as_file().sync_all()?;
    let now = std::fs::metadata(path)?;
    if (now.len(), now.modified()?) != (before.len(), before.modified()?) {
        return Err(io::Error::other("another process is writing to it"));
    }
    temporary.persist(path).map_err(|error| error.error)?;
    Ok(count)
}

/// Every line with its line feed, if it has one: the last line may be torn.
fn for_each_line(path: &Path, mut see: impl FnMut(usize, &[u8]) -> io::Result<()>) -> io::Result<()> {
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
