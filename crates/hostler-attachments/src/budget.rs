//! What fits into a message, and into the conversation with it.

use std::io;

use crate::fault::{self, Fault};
use crate::{Block, Claude, History, Limits, Planned, Refusal};

/// Which files may be looked at at all, by their number and their received sizes. A file that is refused here takes no room
/// from those behind it.
pub(crate) fn admit(sizes: &[usize], limits: &Limits) -> Vec<Result<(), Fault>> {
    let mut total = 0_usize;
    let admit = |(at, size): (usize, &usize)| {
        if at >= limits.files {
            let most = limits.files;
            return Err(Fault::too_large(format!(
                "a message takes at most {most} files; send the others in another one"
            )));
        }
        if *size > limits.file_bytes {
            let (size, most) = (fault::readable(*size), fault::readable(limits.file_bytes));
            return Err(Fault::too_large(format!("it has {size}, and at most {most} are taken; {}", fault::BY_PATH)));
        }
        if total.saturating_add(*size) > limits.total_bytes {
            let most = fault::readable(limits.total_bytes);
            return Err(Fault::too_large(format!(
                "the files of a message may have {most} together; send it in another one"
            )));
        }
        total += size;
        Ok(())
    };
    sizes.iter().enumerate().map(admit).collect()
}

/// Refuses what would make the agent's line or a request to the provider too large, in the user's order.
pub(crate) fn check(files: &mut [Result<Planned, Refusal>], limits: &Limits, history: History) {
    let (mut images, mut bytes) = (history.images, 0_usize);
    for slot in files {
        let Ok(file) = slot else { continue };
        let more_images = images.saturating_add(file.images());
        let more_bytes = bytes.saturating_add(written(&file.block));
        let fault = if file.images() > 0 && more_images > limits.images {
            Fault::payload(format!(
                "the conversation would hold more than {} pictures; compact it, drop pictures of earlier messages, or \
                 send fewer",
                limits.images
            ))
        } else if more_bytes > limits.line_bytes {
            Fault::payload("the message would be larger than the agent takes; send it in parts")
        } else if more_bytes.saturating_add(history.bytes) > limits.request_bytes {
            Fault::payload(
                "the conversation would be larger than the model's provider takes; compact it, drop pictures of earlier \
                 messages, or send less",
            )
        } else {
            (images, bytes) = (more_images, more_bytes);
            continue;
        };
        let name = file.name.clone();
        *slot = Err(fault.of(&name));
    }
}

/// How many bytes a block is on its way to the agent and to the provider.
fn written(block: &Block) -> usize {
    let mut counter = Counter(0);
    // Neither counting nor the forms of blocks can fail.
    let _ = serde_json::to_writer(&mut counter, &Claude(block));
    counter.0
}

struct Counter(usize);

impl io::Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.saturating_add(bytes.len());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
