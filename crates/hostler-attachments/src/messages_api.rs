//! Serializes blocks in the format of Anthropic's Messages API, which Claude Code reads.

use base64::display::Base64Display;
use base64::engine::general_purpose::STANDARD;
use serde::ser::SerializeStruct as _;
use serde::{Serialize, Serializer};

use crate::AttachmentBlock;

/// A block in Claude Code's format. Serializing it copies its contents only into the output.
#[derive(Debug, Clone, Copy)]
pub struct MessagesApiBlock<'a>(pub &'a AttachmentBlock);

impl Serialize for MessagesApiBlock<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            AttachmentBlock::Image { image_type: media_type, data } => {
                let mut block = serializer.serialize_struct("block", 2)?;
                block.serialize_field("type", "image")?;
                block.serialize_field("source", &Base64Source { media_type: media_type.media_type(), data })?;
                block.end()
            }
            AttachmentBlock::Pdf { title, data } => {
                let mut block = serializer.serialize_struct("block", 3)?;
                block.serialize_field("type", "document")?;
                block.serialize_field("source", &Base64Source { media_type: "application/pdf", data })?;
                block.serialize_field("title", title.as_str())?;
                block.end()
            }
            AttachmentBlock::Text { title, text } => {
                let mut block = serializer.serialize_struct("block", 3)?;
                block.serialize_field("type", "document")?;
                block.serialize_field("source", &TextSource { data: text })?;
                block.serialize_field("title", title.as_str())?;
                block.end()
            }
            AttachmentBlock::References(text) => {
                let mut block = serializer.serialize_struct("block", 2)?;
                block.serialize_field("type", "text")?;
                block.serialize_field("text", text)?;
                block.end()
            }
        }
    }
}

struct Base64Source<'a> {
    media_type: &'static str,
    data: &'a [u8],
}

impl Serialize for Base64Source<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut source = serializer.serialize_struct("source", 3)?;
        source.serialize_field("type", "base64")?;
        source.serialize_field("media_type", self.media_type)?;
        source.serialize_field("data", &format_args!("{}", Base64Display::new(self.data, &STANDARD)))?;
        source.end()
    }
}

struct TextSource<'a> {
    data: &'a str,
}

impl Serialize for TextSource<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut source = serializer.serialize_struct("source", 3)?;
        source.serialize_field("type", "text")?;
        source.serialize_field("media_type", "text/plain")?;
        source.serialize_field("data", self.data)?;
        source.end()
    }
}
