//! What contents are, by their own bytes, before anything is decoded.

mod claim;
mod foreign;
mod gif;
mod header;
mod jpeg;
mod png;
mod reader;
mod webp;

pub(crate) use header::Header;

use crate::fault::Fault;
use crate::text::Text;
use crate::{ImageType, Limits, Warning, fault, text};

/// Contents that can be sent, as far as can be seen from outside.
#[derive(Debug)]
pub(crate) enum Probed {
    Image(Header),
    Pdf,
    Text(Text),
}

/// Looks at contents. The name and the declared type are compared with what is found, and never believed.
pub(crate) fn probe(
    bytes: &[u8],
    name: &str,
    declared: Option<&str>,
    limits: &Limits,
) -> Result<(Probed, Option<Warning>), Fault> {
    let claims = claim::claims(name, declared);
    if let Some(form) = image_type(bytes) {
        let header = picture(bytes, form, limits)?;
        return Ok((Probed::Image(header), claim::mismatch(claims, form.media_type())));
    }
    if bytes.starts_with(PDF) {
        foreign::check_tail(bytes)?;
        return Ok((Probed::Pdf, claim::mismatch(claims, "application/pdf")));
    }
    match text::decode(bytes) {
        Ok(text) => match claims.into_iter().flatten().find(|claim| claim.is_picture_or_document()) {
            Some(claim) => Err(claim::broken(claim)),
            None => Ok((Probed::Text(text), None)),
        },
        Err(fault) => Err(match claims.into_iter().flatten().next() {
            Some(claim) if claim.is_picture_or_document() => claim::broken(claim),
            _ => foreign::unsupported(bytes).unwrap_or(fault),
        }),
    }
}

const PDF: &[u8] = b"%PDF-";

fn image_type(bytes: &[u8]) -> Option<ImageType> {
    if bytes.starts_with(png::MAGIC) {
        Some(ImageType::Png)
    } else if bytes.starts_with(jpeg::MAGIC) {
        Some(ImageType::Jpeg)
    } else if gif::MAGIC.iter().any(|magic| bytes.starts_with(magic)) {
        Some(ImageType::Gif)
    } else if webp::is_webp(bytes) {
        Some(ImageType::WebP)
    } else {
        None
    }
}

fn picture(bytes: &[u8], form: ImageType, limits: &Limits) -> Result<Header, Fault> {
    let header = match form {
        ImageType::Png => png::probe(bytes),
        ImageType::Jpeg => jpeg::probe(bytes),
        ImageType::Gif => gif::probe(bytes),
        ImageType::WebP => webp::probe(bytes),
    };
    let header =
        header.ok_or_else(|| Fault::corrupt("the picture is damaged or cut off; save it again and attach that"))?;
    if header.width == 0 || header.height == 0 {
        return Err(Fault::corrupt("the picture has no pixels; save it again and attach that"));
    }
    foreign::check_picture(bytes, &header)?;
    if header.decoded_pixels() > limits.pixels {
        return Err(Fault::too_large(format!(
            "the picture has {} × {} pixels, and at most {} million are taken; make it smaller",
            header.width,
            header.height,
            limits.pixels.checked_mul(4).map_or(0, |most| most / header.pixel_bytes.max(4)) / 1_000_000
        )));
    }
    Ok(header)
}

/// What is behind the end of a picture is not sent.
pub(crate) fn trimmed(header: &Header, bytes: &[u8]) -> Option<Warning> {
    let behind = bytes.len().saturating_sub(header.end);
    (behind > 0).then(|| {
        Warning::new(
            "trimmed",
            format!(
                "{} behind the end of the picture are not sent (a film or another picture, perhaps)",
                fault::readable(behind)
            ),
        )
    })
}
