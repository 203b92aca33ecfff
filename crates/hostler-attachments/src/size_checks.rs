//! Checks sizes against the limits of the message and of the conversation.

use std::io;

use crate::rejection_reason::{self, RejectionReason};
use crate::{
    AttachmentBlock, AttachmentError, AttachmentLimits, ConversationSize, MessagesApiBlock, PlannedAttachment,
};

/// Checks the number and the received sizes of attachments. A rejected attachment does not count towards the total.
pub(crate) fn check_received_sizes(sizes: &[usize], limits: &AttachmentLimits) -> Vec<Result<(), RejectionReason>> {
    let mut total = 0_usize;
    let admit = |(at, size): (usize, &usize)| {
        if at >= limits.files {
            let most = limits.files;
            return Err(RejectionReason::too_large(format!(
                "a message can have at most {most} files; send the others in another message"
            )));
        }
        if *size > limits.file_bytes {
            let (size, most) =
                (rejection_reason::format_bytes(*size), rejection_reason::format_bytes(limits.file_bytes));
            return Err(RejectionReason::too_large(format!(
                "the file has {size}, more than the maximum of {most}; {}",
                rejection_reason::ATTACH_PATH_HINT
            )));
        }
        if total.saturating_add(*size) > limits.total_bytes {
            let most = rejection_reason::format_bytes(limits.total_bytes);
            return Err(RejectionReason::too_large(format!(
                "the files of a message can have at most {most} in total; send this file in another message"
            )));
        }
        total += size;
        Ok(())
    };
    sizes.iter().enumerate().map(admit).collect()
}

/// Rejects attachments that would exceed the agent's line or a request to the provider, in the user's order.
pub(crate) fn check_payload_size(
    files: &mut [Result<PlannedAttachment, AttachmentError>],
    limits: &AttachmentLimits,
    history: ConversationSize,
) {
    let (mut images, mut bytes) = (history.images, 0_usize);
    for slot in files {
        let Ok(file) = slot else { continue };
        let more_images = images.saturating_add(file.image_count());
        let more_bytes = bytes.saturating_add(serialized_size(&file.block));
        let fault = if file.image_count() > 0 && more_images > limits.images_per_request {
            RejectionReason::payload_too_large(format!(
                "the conversation would contain more than {} images; compact it, remove images of earlier messages, or \
                 send fewer",
                limits.images_per_request
            ))
        } else if more_bytes > limits.agent_line_bytes {
            RejectionReason::payload_too_large("the message would be larger than the agent accepts; send it in parts")
        } else if more_bytes.saturating_add(history.bytes) > limits.request_bytes {
            RejectionReason::payload_too_large(
                "the conversation would be larger than the model provider accepts; compact it, remove images of \
                 earlier messages, or send less",
            )
        } else {
            (images, bytes) = (more_images, more_bytes);
            continue;
        };
        let name = file.name.clone();
        *slot = Err(fault.for_attachment(&name));
    }
}

/// Size of a block as serialized for the agent and the provider.
fn serialized_size(block: &AttachmentBlock) -> usize {
    let mut counter = ByteCounter(0);
    // Neither counting nor serializing a block can fail.
    let _ = serde_json::to_writer(&mut counter, &MessagesApiBlock(block));
    counter.0
}

struct ByteCounter(usize);

impl io::Write for ByteCounter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.saturating_add(bytes.len());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
