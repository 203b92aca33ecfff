use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::{
    Block, Code, History, ImageType, Item, Kind, Limits, Original, Plan, Planned, Refusal, Rejection, Source, Title,
    references,
};

/// Plans a message's attachments. This decodes pictures and takes its time: not for a task that others wait for.
///
/// # Errors
/// If one of them cannot be sent; it then names every one that cannot.
pub fn plan(items: Vec<Item>, limits: &Limits, history: History) -> Result<Plan, Rejection> {
    // Nobody abandons it.
    plan_unless(items, limits, history, &|| false).unwrap_or(Ok(Plan { files: Vec::new() }))
}

/// Plans like [`plan`], and asks before each file whether anybody still wants to know; `None` if nobody does.
pub fn plan_unless(
    items: Vec<Item>,
    limits: &Limits,
    history: History,
    abandoned: &dyn Fn() -> bool,
) -> Option<Result<Plan, Rejection>> {
    let mut files = Vec::with_capacity(items.len());
    let mut refusals = Vec::new();
    for item in items {
        if abandoned() {
            return None;
        }
        match planned(item, limits) {
            Ok(file) => files.push(file),
            Err(refusal) => refusals.push(refusal),
        }
    }
    let _ = history;
    Some(if refusals.is_empty() { Ok(Plan { files }) } else { Err(Rejection { refusals, files: Vec::new() }) })
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
            let block = references::block([&reference]);
            return Ok(Planned {
                name,
                kind: Kind::Reference,
                original: None,
                variant: None,
                block,
                warnings: Vec::new(),
                reference: Some(reference),
            });
        }
        Source::Words(words) => {
            let block = Block::Text { title: name.clone(), text: words.into() };
            return Ok(Planned {
                name,
                kind: Kind::Text,
                original: None,
                variant: None,
                block,
                warnings: Vec::new(),
                reference: None,
            });
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
    Ok(Planned {
        name,
        kind,
        original: Some(Original { media_type, data }),
        variant: None,
        block,
        warnings: Vec::new(),
        reference: None,
    })
}
