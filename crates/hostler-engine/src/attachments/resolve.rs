//! Resolves attachments: locates and loads the contents of each one, so that they can be planned.

use std::sync::Arc;

use ahp_types::state::{
    MessageAnnotationsAttachment, MessageAttachment, MessageChatAttachment, MessageResourceAttachment,
    SimpleMessageAttachment,
};
use hostler_attachments::{AttachmentError, AttachmentErrorCode, AttachmentSource, DisplayName, ReceivedAttachment};
use url::Url;

use super::client_files::{ClientFileError, DirectoryListing};
use super::host_files::{self, RefusalReason};
use super::{ChatView, ClientFileReader, attachment_label};
use crate::host::Host;
use crate::sessions::action_mapper::content_hash;
use crate::sessions::annotations;
use crate::uri;

/// Maximum size of an attachment without its contents, in bytes of JSON.
const MAX_ATTACHMENT_JSON_BYTES: usize = 256 * 1024;

/// The display kind by which clients mark directories.
const DIRECTORY_DISPLAY_KIND: &str = "directory";

/// Maximum number of listed entries of a client's directory.
const MAX_LISTED_ENTRIES: usize = 2_000;

/// An attachment whose contents are known.
pub(super) struct ResolvedAttachment {
    pub(super) item: ReceivedAttachment,
    pub(super) echo: AttachmentEcho,
}

/// How an accepted attachment is displayed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum AttachmentEcho {
    /// As the client sent it.
    AsSent,
    /// As a resource of this host, by the URI of its contents.
    Stored,
    /// With the last turn that it includes.
    WithEndTurn(Option<String>),
}

/// Resolves attachments one after the other, within the message's size limit.
pub(super) struct AttachmentResolver<'a> {
    pub(super) host: &'a Arc<Host>,
    pub(super) view: &'a ChatView,
    pub(super) client_files: &'a dyn ClientFileReader,
    /// How many bytes the message may still add.
    pub(super) remaining_bytes: usize,
}

impl AttachmentResolver<'_> {
    /// Inline contents are moved out of the attachment, because they can be large.
    pub(super) async fn resolve(
        &mut self,
        attachment: &mut MessageAttachment,
    ) -> Result<ResolvedAttachment, AttachmentError> {
        let name = attachment_label(attachment).to_owned();
        let declared = match attachment {
            MessageAttachment::EmbeddedResource(embedded) => Some(embedded.content_type.clone()),
            MessageAttachment::Resource(resource) => resource.content_type.clone(),
            _ => None,
        };
        let found = match attachment {
            MessageAttachment::EmbeddedResource(embedded) => {
                Ok((AttachmentSource::Base64(std::mem::take(&mut embedded.data)), AttachmentEcho::Stored))
            }
            MessageAttachment::Resource(resource) => self.resolve_resource(resource).await,
            MessageAttachment::Simple(simple) => Ok((simple_source(simple), AttachmentEcho::AsSent)),
            MessageAttachment::Chat(chat) => self.resolve_chat(chat).await,
            MessageAttachment::Annotations(attached) => self.resolve_annotations(attached),
            MessageAttachment::Unknown(_) => unsupported("this host does not support this type of attachment"),
        };
        let found = found.and_then(|found| check_attachment_size(attachment).map(|()| found));
        let found = found.and_then(|(source, echo)| self.reserve_bytes(&source).map(|()| (source, echo)));
        match found {
            Ok((source, echo)) => Ok(ResolvedAttachment {
                item: ReceivedAttachment { declared_media_type: declared, ..ReceivedAttachment::new(name, source) },
                echo,
            }),
            Err((code, sentence)) => Err(AttachmentError { code, name: DisplayName::new(&name), message: sentence }),
        }
    }

    async fn resolve_resource(
        &self,
        resource: &MessageResourceAttachment,
    ) -> Result<(AttachmentSource, AttachmentEcho), RefusalReason> {
        if let Some(hash) = content_hash(&resource.uri) {
            return self.load_stored(hash).await.map(|source| (source, AttachmentEcho::Stored));
        }
        let Ok(uri) = Url::parse(&resource.uri) else {
            return unsupported("its address is not a URI");
        };
        if uri.scheme() == "file" {
            return self.load_file(&uri, resource).await.map(|source| (source, AttachmentEcho::AsSent));
        }
        let most = self.remaining_bytes.min(self.host.attachments.limits().file_bytes);
        let failed = |error: ClientFileError| (error.attachment_code(), error.to_string());
        // Clients mark directories; a client's directory is on another machine, so only its listing is sent.
        if resource.display_kind.as_deref() == Some(DIRECTORY_DISPLAY_KIND)
            && let Some(listing) = self.client_files.list(&resource.uri, MAX_LISTED_ENTRIES).await.map_err(failed)?
        {
            let text = format_listing(&resource.label, listing);
            let fits = text.len() <= most;
            return if fits {
                Ok((AttachmentSource::Bytes(text.into_bytes().into()), AttachmentEcho::Stored))
            } else {
                Err(failed(ClientFileError::TooLarge))
            };
        }
        let fetched =
            self.client_files.read(&resource.uri, most).await.and_then(|contents| match contents.len() > most {
                true => Err(ClientFileError::TooLarge),
                false => Ok(contents),
            });
        let contents = fetched.map_err(failed)?;
        Ok((AttachmentSource::Bytes(contents.into()), AttachmentEcho::Stored))
    }

    /// Loads contents of an earlier message or a draft.
    async fn load_stored(&self, hash: &str) -> Result<AttachmentSource, RefusalReason> {
        match self.host.store.blob(hash).await {
            Ok(Some(blob)) => Ok(AttachmentSource::Bytes(blob.body().into())),
            Ok(None) => Err((
                AttachmentErrorCode::ArtifactMissing,
                "it is no longer stored on this host; attach it again".to_owned(),
            )),
            Err(_) => {
                Err((AttachmentErrorCode::TransportFailed, "the host's store cannot be read; try again".to_owned()))
            }
        }
    }

    async fn load_file(
        &self,
        uri: &Url,
        resource: &MessageResourceAttachment,
    ) -> Result<AttachmentSource, RefusalReason> {
        let Some(path) = host_files::file_path(uri) else {
            return unsupported("its address is not a path on this host");
        };
        let (roots, selection) = (
            host_files::attachment_roots(&self.view.session, self.host.resources.session_roots()),
            resource.selection.clone(),
        );
        let most = self.remaining_bytes.min(self.host.attachments.limits().file_bytes);
        let looked = move || host_files::load_source(&roots, &path, selection.as_ref(), most);
        let stopped = |_| (AttachmentErrorCode::TransportFailed, "it could not be read; try again".to_owned());
        tokio::task::spawn_blocking(looked).await.map_err(stopped)?
    }

    async fn resolve_chat(
        &self,
        attached: &MessageChatAttachment,
    ) -> Result<(AttachmentSource, AttachmentEcho), RefusalReason> {
        let missing = |sentence: &str| (AttachmentErrorCode::ArtifactMissing, sentence.to_owned());
        let own = attached.resource == self.view.chat.resource;
        let view = match own {
            true => Some(self.view.clone()),
            false => self.host.chat_view(&attached.resource).await,
        };
        let view = view.ok_or_else(|| missing("the chat does not exist on this host"))?;
        let unread =
            |_| (AttachmentErrorCode::TransportFailed, "the host's store cannot be read; try again".to_owned());
        let excerpt = self.host.chat_excerpt(&view, attached.end_turn.as_deref()).await.map_err(unread)?;
        let excerpt = excerpt.ok_or_else(|| missing("the chat has no such completed turn"))?;
        Ok((AttachmentSource::Text(excerpt.text), AttachmentEcho::WithEndTurn(excerpt.end_turn)))
    }

    /// The session's annotations as a document.
    fn resolve_annotations(
        &self,
        attached: &MessageAnnotationsAttachment,
    ) -> Result<(AttachmentSource, AttachmentEcho), RefusalReason> {
        let missing = |sentence: String| (AttachmentErrorCode::ArtifactMissing, sentence);
        let session = uri::session_of(&self.view.chat.resource);
        if session.as_deref() != uri::annotated_session(&attached.resource) {
            return Err(missing("the annotations belong to another session".to_owned()));
        }
        let text = annotations::format_document(&self.view.annotations, attached.annotation_ids.as_deref());
        Ok((AttachmentSource::Text(text.map_err(|error| missing(error.to_string()))?), AttachmentEcho::AsSent))
    }

    fn reserve_bytes(&mut self, source: &AttachmentSource) -> Result<(), RefusalReason> {
        let size = match source {
            AttachmentSource::Base64(text) => text.len() / 4 * 3,
            AttachmentSource::Bytes(bytes) => bytes.len(),
            AttachmentSource::Text(text) => text.len(),
            AttachmentSource::Reference(_) => 0,
        };
        match self.remaining_bytes.checked_sub(size) {
            Some(room) => {
                self.remaining_bytes = room;
                Ok(())
            }
            None => {
                let most = self.host.attachments.limits().total_bytes;
                Err((
                    AttachmentErrorCode::TooLarge,
                    format!("with it, the message would exceed {most} bytes; send fewer files"),
                ))
            }
        }
    }
}

/// Checks the size of the part that remains in the state, without contents.
pub(super) fn check_attachment_size(attachment: &MessageAttachment) -> Result<(), RefusalReason> {
    let said = serde_json::to_string(attachment).map_or(usize::MAX, |json| json.len());
    if said <= MAX_ATTACHMENT_JSON_BYTES {
        return Ok(());
    }
    Err((
        AttachmentErrorCode::TooLarge,
        format!("its description has more than {MAX_ATTACHMENT_JSON_BYTES} bytes; attach it as a file"),
    ))
}

fn simple_source(simple: &SimpleMessageAttachment) -> AttachmentSource {
    let only_its_name =
        || format!("The user attached {:?}; only its name is known.", DisplayName::new(&simple.label).as_str());
    AttachmentSource::Text(simple.model_representation.clone().unwrap_or_else(only_its_name))
}

fn unsupported<T>(sentence: &str) -> Result<T, RefusalReason> {
    Err((AttachmentErrorCode::TypeUnsupported, sentence.to_owned()))
}

/// Formats the listing of a client's directory.
fn format_listing(label: &str, listing: DirectoryListing) -> String {
    let plain =
        |name: &str| name.chars().map(|sign| if sign.is_control() { '\u{fffd}' } else { sign }).collect::<String>();
    let DirectoryListing { mut entries, is_truncated: more } = listing;
    entries.sort();
    let mut text = format!("Contents of the directory {} on the user's machine:\n", plain(label));
    for entry in &entries {
        text.push_str(&plain(&entry.name));
        text.push_str(if entry.is_directory { "/\n" } else { "\n" });
    }
    if more {
        text.push_str("… and more\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attachments::client_files::ClientDirectoryEntry;

    #[test]
    fn listing_is_sorted_with_one_line_per_entry() {
        let entry = |name: &str, directory| ClientDirectoryEntry { name: name.to_owned(), is_directory: directory };
        let entries = vec![entry("src", true), entry("two\nlines", false), entry("a file", false)];
        let text = format_listing("proj\nect", DirectoryListing { entries, is_truncated: true });
        let expected = "Contents of the directory proj\u{fffd}ect on the user's machine:\na file\nsrc/\ntwo\u{fffd}lines\n… and more\n";
        assert_eq!(text, expected);
    }
}
