//! Attachment blocks for tests.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hostler_attachments::{AttachmentBlock, DisplayName, ImageType};
use serde_json::Value;

const ADLER32_MODULUS: u32 = 65_521;

pub(crate) fn image(media_type: ImageType, data: &[u8]) -> AttachmentBlock {
    AttachmentBlock::Image { image_type: media_type, data: data.into() }
}

pub(crate) fn pdf(title: &str, data: &[u8]) -> AttachmentBlock {
    AttachmentBlock::Pdf { title: DisplayName::new(title), data: data.into() }
}

pub(crate) fn text(title: &str, text: &str) -> AttachmentBlock {
    AttachmentBlock::Text { title: DisplayName::new(title), text: text.into() }
}

/// Returns an uncompressed image, as large as its pixels.
pub(crate) fn png(width: u32, height: u32) -> AttachmentBlock {
    let mut noise = 7_u32;
    let row = width * 3 + 1;
    let pixel = |at: u32| {
        noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        // Every row starts with its filter byte: none.
        if at.is_multiple_of(row) { 0 } else { noise.to_be_bytes()[0] }
    };
    let pixels: Vec<u8> = (0..row * height).map(pixel).collect();
    let (a, b) = pixels.iter().fold((1, 0), |(a, b), byte| {
        let a = (a + u32::from(*byte)) % ADLER32_MODULUS;
        (a, (b + a) % ADLER32_MODULUS)
    });
    let mut stream = vec![0x78, 0x01];
    let chunks = pixels.chunks(0xffff).len();
    for (number, chunk) in pixels.chunks(0xffff).enumerate() {
        let length = u16::try_from(chunk.len()).unwrap();
        stream.push(u8::from(number + 1 == chunks));
        stream.extend(length.to_le_bytes());
        stream.extend((!length).to_le_bytes());
        stream.extend(chunk);
    }
    stream.extend((b << 16 | a).to_be_bytes());
    let mut header = [width.to_be_bytes(), height.to_be_bytes()].concat();
    header.extend([8, 2, 0, 0, 0]);
    let mut file = b"\x89PNG\r\n\x1a\n".to_vec();
    for (name, data) in [(b"IHDR", &header), (b"IDAT", &stream), (b"IEND", &Vec::new())] {
        let body = [&name[..], data].concat();
        file.extend(u32::try_from(data.len()).unwrap().to_be_bytes());
        file.extend(&body);
        file.extend(crc(&body).to_be_bytes());
    }
    AttachmentBlock::Image { image_type: ImageType::Png, data: file.into() }
}

/// Returns a PDF document with one empty page.
pub(crate) fn one_page_pdf() -> Vec<u8> {
    let objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 72 72] >>",
    ];
    let mut file = "%PDF-1.4\n".to_owned();
    let mut table = "xref\n0 4\n0000000000 65535 f \n".to_owned();
    for (number, object) in (1..).zip(objects) {
        table.push_str(&format!("{:010} 00000 n \n", file.len()));
        file.push_str(&format!("{number} 0 obj\n{object}\nendobj\n"));
    }
    let place = file.len();
    file.push_str(&format!("{table}trailer\n<< /Size 4 /Root 1 0 R >>\nstartxref\n{place}\n%%EOF\n"));
    file.into_bytes()
}

fn crc(bytes: &[u8]) -> u32 {
    let table: Vec<u32> = (0..256_u32)
        .map(|byte| (0..8).fold(byte, |crc, _| if crc & 1 == 1 { 0xedb8_8320 ^ (crc >> 1) } else { crc >> 1 }))
        .collect();
    !bytes.iter().fold(!0_u32, |crc, byte| table[usize::from(crc.to_le_bytes()[0] ^ byte)] ^ (crc >> 8))
}

/// Returns the contents of a block, as encoded in a request.
pub(crate) fn base64_contents(block: &AttachmentBlock) -> String {
    match block {
        AttachmentBlock::Image { data, .. } | AttachmentBlock::Pdf { data, .. } => STANDARD.encode(Arc::clone(data)),
        AttachmentBlock::Text { text, .. } | AttachmentBlock::References(text) => text.to_string(),
    }
}

/// Returns type, contents and title of a request's block; `None` for the agent's own text.
pub(crate) fn request_block_contents(block: &Value) -> Option<(String, String, Option<String>)> {
    let string = |value: &Value| value.as_str().map(str::to_owned);
    let (kind, contents) = match block["type"].as_str()? {
        "text" => ("text".to_owned(), string(&block["text"])?.trim_end().to_owned()),
        _ => (string(&block["source"]["media_type"])?, string(&block["source"]["data"])?),
    };
    let of_agent = contents.starts_with("<system-reminder>") || contents.starts_with("[Image: ");
    (!of_agent).then(|| (kind, contents, string(&block["title"])))
}
