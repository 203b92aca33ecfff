//! Rejects images for models without vision.

use hostler_attachments::{AttachmentDisposition, AttachmentErrorCode, AttachmentSummary};

use super::ChatView;
use crate::host::Host;
use crate::sessions::config;

impl Host {
    /// The name of the message's model, if that model is known to accept no images.
    pub(super) fn model_without_vision(&self, view: &ChatView, wanted: Option<&str>) -> Option<String> {
        let configured = || view.session.config.as_ref()?.values.get(config::MODEL)?.as_str();
        let said = || view.chat.turns.iter().rev().find_map(|turn| Some(&*turn.message.model.as_ref()?.id));
        let earlier = || view.evicted_turns.last_model.as_deref();
        let models = self.agents.gateway().models();
        let id = wanted.or_else(configured).or_else(said).or_else(earlier).or_else(|| Some(&*models.first()?.id))?;
        let model = models.iter().find(|model| model.id == id)?;
        (model.supports_vision == Some(false)).then(|| model.name.clone())
    }
}

/// Rejects the images among files that could be sent. Returns whether there are any.
pub(super) fn refuse_images(files: &mut [AttachmentSummary], model: &str) -> bool {
    let mut any = false;
    for file in files.iter_mut().filter(|file| file.width.is_some() && file.decision != AttachmentDisposition::Reject) {
        any = true;
        file.decision = AttachmentDisposition::Reject;
        file.code = Some(AttachmentErrorCode::ModelUnsupported);
        file.message = Some(format!("{model} does not support images; choose another model, or remove the image"));
    }
    any
}
