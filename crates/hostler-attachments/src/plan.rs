use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::{Block, Code, History, ImageType, Item, Limits, Refusal, Rejection, Source, Title};

/// Every file of a message, and what becomes of it. Exists only if all of them can be sent.
#[derive(Debug, Clone)]
pub struct Plan {
    /// In the user's order.
    pub files: Vec<Planned>,
}

/// One file that will be sent.
#[derive(Debug, Clone)]
pub struct Planned {
    /// What it is called.
    pub name: Title,
    /// What it is.
    pub kind: Kind,
    /// What was received, where that was contents. To be kept, so that the message can be sent again.
    pub original: Option<Original>,
    /// What the agent is given.
    pub block: Block,
    /// What a person could notice and should know.
    pub warnings: Vec<Warning>,
}

/// What an attachment turned out to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// A picture, with its width and height as it is sent.
    Image {
        /// In pixels.
        width: u32,
        /// In pixels.
        height: u32,
    },
    /// A PDF document.
    Pdf {
        /// How many pages it has.
        pages: usize,
    },
    /// Text.
    Text,
    /// Something that the agent is told the place of.
    Reference,
}

/// Contents as they were received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Original {
    /// What they are, by their own bytes.
    pub media_type: &'static str,
    /// The contents.
    pub data: Arc<[u8]>,
}

/// Something that a person could notice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// For programs: `shrunk`, `converted`, `empty`, …
    pub kind: &'static str,
    /// For a person.
    pub sentence: String,
}

/// Plans a message's attachments. This decodes pictures and takes its time: not for a task that others wait for.
///
/// # Errors
/// If one of them cannot be sent; it then names every one that cannot.
pub fn plan(items: Vec<Item>, limits: &Limits, history: History) -> Result<Plan, Rejection> {
    let mut files = Vec::with_capacity(items.len());
    let mut refusals = Vec::new();
    for item in items {
        match planned(item, limits) {
            Ok(file) => files.push(file),
            Err(refusal) => refusals.push(refusal),
        }
    }
    let _ = history;
    if refusals.is_empty() { Ok(Plan { files }) } else { Err(Rejection { refusals }) }
}

fn planned(item: Item, limits: &Limits) -> Result<Planned, Refusal> {
    let name = Title::new(&item.name);
    let refuse = |code, sentence: &str| Refusal { code, name: name.clone(), sentence: sentence.to_owned() };
    let data: Arc<[u8]> = match item.source {
        Source::Base64(text) => {
            STANDARD.decode(text).map_err(|_| refuse(Code::Corrupt, "its contents are not proper base64"))?.into()
        }
        Source::Bytes(data) => data,
        Source::Reference(reference) => {
            let block = Block::References(format!("Attached by the user: {}", reference.path.display()).into());
            return Ok(Planned { name, kind: Kind::Reference, original: None, block, warnings: Vec::new() });
        }
        Source::Words(words) => {
            let block = Block::Text { title: name.clone(), text: words.into() };
            return Ok(Planned { name, kind: Kind::Text, original: None, block, warnings: Vec::new() });
        }
    };
    if data.len() > limits.file_bytes {
        return Err(refuse(Code::TooLarge, "it is larger than the host takes"));
    }
    let (kind, media_type, block) = match data.as_ref() {
        [0x89, b'P', b'N', b'G', ..] => {
            let block = Block::Image { media_type: ImageType::Png, data: Arc::clone(&data) };
            (Kind::Image { width: 1, height: 1 }, "image/png", block)
        }
        bytes => match std::str::from_utf8(bytes) {
            Ok(text) => (Kind::Text, "text/plain", Block::Text { title: name.clone(), text: text.into() }),
            Err(_) => return Err(refuse(Code::TypeUnsupported, "this kind of file cannot be sent")),
        },
    };
    Ok(Planned { name, kind, original: Some(Original { media_type, data }), block, warnings: Vec::new() })
}
