//! From what a client says to what can be planned: where the contents of each attachment are.

use std::sync::Arc;

use ahp_types::state::{
    MessageAnnotationsAttachment, MessageAttachment, MessageChatAttachment, MessageResourceAttachment,
    SimpleMessageAttachment,
};
use hostler_attachments::{Code, Item, Refusal, Source, Title};
use url::Url;

use super::fetch::{FetchError, Listing};
use super::files::{self, Why};
use super::{Fetch, View, label};
use crate::host::Host;
use crate::transcript::content_hash;
use crate::{annotations, uri};

/// The longest attachment, contents aside, in bytes of JSON.
const MAX_SAID: usize = 256 * 1024;

/// What clients call an attachment that is a directory.
const DIRECTORY: &str = "directory";

/// How much of a client's directory is listed.
const MAX_LISTED: usize = 2_000;

/// An attachment whose contents are known.
pub(super) struct Resolved {
    pub(super) item: Item,
    pub(super) echo: Echo,
}

/// How an accepted attachment is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Echo {
    /// As the client has sent it.
    AsSent,
    /// As a resource of this host, by its contents' name.
    Kept,
    /// With the last turn that is part of it.
    Through(Option<String>),
}

/// Resolves attachments one after the other, as long as there is room for them.
pub(super) struct Resolver<'a> {
    pub(super) host: &'a Arc<Host>,
    pub(super) view: &'a View,
    pub(super) fetch: &'a dyn Fetch,
    /// How many bytes the message may still bring.
    pub(super) room: usize,
}

impl Resolver<'_> {
    /// Contents that the attachment carries are taken out of it: there are many of them.
    pub(super) async fn resolve(&mut self, attachment: &mut MessageAttachment) -> Result<Resolved, Refusal> {
        let name = label(attachment).to_owned();
        let declared = match attachment {
            MessageAttachment::EmbeddedResource(embedded) => Some(embedded.content_type.clone()),
            MessageAttachment::Resource(resource) => resource.content_type.clone(),
            _ => None,
        };
        let found = match attachment {
            MessageAttachment::EmbeddedResource(embedded) => {
                Ok((Source::Base64(std::mem::take(&mut embedded.data)), Echo::Kept))
            }
            MessageAttachment::Resource(resource) => self.resource(resource).await,
            MessageAttachment::Simple(simple) => Ok((words(simple), Echo::AsSent)),
            MessageAttachment::Chat(chat) => self.chat(chat).await,
            MessageAttachment::Annotations(attached) => self.annotations(attached),
            MessageAttachment::Unknown(_) => unsupported("this host does not know this kind of attachment"),
        };
        let found = found.and_then(|found| said_briefly(attachment).map(|()| found));
        let found = found.and_then(|(source, echo)| self.take_room(&source).map(|()| (source, echo)));
        match found {
            Ok((source, echo)) => Ok(Resolved { item: Item { declared, ..Item::new(name, source) }, echo }),
            Err((code, sentence)) => Err(Refusal { code, name: Title::new(&name), sentence }),
        }
    }

    async fn resource(&self, resource: &MessageResourceAttachment) -> Result<(Source, Echo), Why> {
        if let Some(hash) = content_hash(&resource.uri) {
            return self.stored(hash).await.map(|source| (source, Echo::Kept));
        }
        let Ok(uri) = Url::parse(&resource.uri) else {
            return unsupported("its address is no URI");
        };
        if uri.scheme() == "file" {
            return self.file(&uri, resource).await.map(|source| (source, Echo::AsSent));
        }
        let most = self.room.min(self.host.attachments.file_bytes);
        let failed = |error: FetchError| (error.code(), error.to_string());
        // Clients say what is a directory; what it holds is all that can be told of it, since it is on another machine.
        if resource.display_kind.as_deref() == Some(DIRECTORY)
            && let Some(listing) = self.fetch.list(&resource.uri, MAX_LISTED).await.map_err(failed)?
        {
            let text = listed(&resource.label, listing);
            let fits = text.len() <= most;
            return if fits {
                Ok((Source::Bytes(text.into_bytes().into()), Echo::Kept))
            } else {
                Err(failed(FetchError::TooLarge))
            };
        }
        let fetched = self.fetch.fetch(&resource.uri, most).await.and_then(|contents| match contents.len() > most {
            true => Err(FetchError::TooLarge),
            false => Ok(contents),
        });
        let contents = fetched.map_err(failed)?;
        Ok((Source::Bytes(contents.into()), Echo::Kept))
    }

    /// What an earlier message brought, or a draft.
    async fn stored(&self, hash: &str) -> Result<Source, Why> {
        match self.host.store.blob(hash).await {
            Ok(Some(blob)) => Ok(Source::Bytes(blob.body().into())),
            Ok(None) => Err((Code::ArtifactMissing, "this host no longer has it; attach it again".to_owned())),
            Err(_) => Err((Code::TransportFailed, "the host's store cannot be read; try again".to_owned())),
        }
    }

    async fn file(&self, uri: &Url, resource: &MessageResourceAttachment) -> Result<Source, Why> {
        let Some(path) = files::path(uri) else { return unsupported("its address is no path of this machine") };
        let (roots, selection) =
            (files::roots(&self.view.session, &self.host.shelf.session_roots), resource.selection.clone());
        let most = self.room.min(self.host.attachments.file_bytes);
        let looked = move || files::source(&roots, &path, selection.as_ref(), most);
        let stopped = |_| (Code::TransportFailed, "it could not be looked at; try again".to_owned());
        tokio::task::spawn_blocking(looked).await.map_err(stopped)?
    }

    async fn chat(&self, attached: &MessageChatAttachment) -> Result<(Source, Echo), Why> {
        let missing = |sentence: &str| (Code::ArtifactMissing, sentence.to_owned());
        let own = attached.resource == self.view.chat.resource;
        let view = match own {
            true => Some(self.view.clone()),
            false => self.host.view(&attached.resource).await,
        };
        let view = view.ok_or_else(|| missing("there is no such chat on this host"))?;
        let unread = |_| (Code::TransportFailed, "the host's store cannot be read; try again".to_owned());
        let excerpt = self.host.excerpt(&view, attached.end_turn.as_deref()).await.map_err(unread)?;
        let excerpt = excerpt.ok_or_else(|| missing("the chat has no such turn that is over"))?;
        Ok((Source::Words(excerpt.text), Echo::Through(excerpt.end_turn)))
    }

    /// Annotations of this session, as a document.
    fn annotations(&self, attached: &MessageAnnotationsAttachment) -> Result<(Source, Echo), Why> {
        let missing = |sentence: String| (Code::ArtifactMissing, sentence);
        let session = uri::session_of(&self.view.chat.resource);
        if session.as_deref() != uri::annotated(&attached.resource) {
            return Err(missing("these are not the annotations of this session".to_owned()));
        }
        let text = annotations::document(&self.view.annotations, attached.annotation_ids.as_deref());
        Ok((Source::Words(text.map_err(missing)?), Echo::AsSent))
    }

    fn take_room(&mut self, source: &Source) -> Result<(), Why> {
        let size = match source {
            Source::Base64(text) => text.len() / 4 * 3,
            Source::Bytes(bytes) => bytes.len(),
            Source::Words(words) => words.len(),
            Source::Reference(_) => 0,
        };
        match self.room.checked_sub(size) {
            Some(room) => {
                self.room = room;
                Ok(())
            }
            None => {
                let most = self.host.attachments.total_bytes;
                Err((
                    Code::TooLarge,
                    format!("with it the message would bring more than {most} bytes; send fewer files"),
                ))
            }
        }
    }
}

/// What stays in the state is bounded, contents aside.
pub(super) fn said_briefly(attachment: &MessageAttachment) -> Result<(), Why> {
    let said = serde_json::to_string(attachment).map_or(usize::MAX, |json| json.len());
    if said <= MAX_SAID {
        return Ok(());
    }
    Err((Code::TooLarge, format!("what is said about it has more than {MAX_SAID} bytes; attach it as a file")))
}

fn words(simple: &SimpleMessageAttachment) -> Source {
    let only_its_name =
        || format!("The user attached {:?}, of which only the name is known.", Title::new(&simple.label).as_str());
    Source::Words(simple.model_representation.clone().unwrap_or_else(only_its_name))
}

fn unsupported<T>(sentence: &str) -> Result<T, Why> {
    Err((Code::TypeUnsupported, sentence.to_owned()))
}

/// A directory of the client's, as a text.
fn listed(label: &str, listing: Listing) -> String {
    let plain =
        |name: &str| name.chars().map(|sign| if sign.is_control() { '\u{fffd}' } else { sign }).collect::<String>();
    let Listing { mut entries, more } = listing;
    entries.sort();
    let mut text = format!("What is in the directory {} on the user's machine:\n", plain(label));
    for entry in &entries {
        text.push_str(&plain(&entry.name));
        text.push_str(if entry.directory { "/\n" } else { "\n" });
    }
    if more {
        text.push_str("… and more\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attach::fetch::Listed;

    #[test]
    fn a_listing_is_sorted_and_one_entry_is_one_line() {
        let entry = |name: &str, directory| Listed { name: name.to_owned(), directory };
        let entries = vec![entry("src", true), entry("two\nlines", false), entry("a file", false)];
        let text = listed("proj\nect", Listing { entries, more: true });
        let expected = "What is in the directory proj\u{fffd}ect on the user's machine:\na file\nsrc/\ntwo\u{fffd}lines\n… and more\n";
        assert_eq!(text, expected);
    }
}
