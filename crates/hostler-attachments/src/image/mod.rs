//! Pictures, made such that models take them, and no smaller than that needs.
//!
//! One picture is in memory at a time. The most that it takes is about ten bytes for each pixel that [`Limits::pixels`] allows:
//! its decoder's own tables and its pixels, or its pixels and a copy of them with transparency worked in.
//!
//! [`Limits::pixels`]: crate::Limits::pixels

mod decode;
mod encode;
mod shrink;
mod strip;

use std::sync::Arc;

use crate::fault::Fault;
use crate::probe::Header;
use crate::{ImageType, Limits, Warning, fault, probe};

/// A picture as it is sent.
pub(crate) struct Picture {
    pub(crate) form: ImageType,
    pub(crate) data: Arc<[u8]>,
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) warnings: Vec<Warning>,
}

/// Makes a picture deliverable: as it is where that will do, without its metadata if it has any, else decoded and written anew.
pub(crate) fn deliver(file: &Arc<[u8]>, header: &Header, limits: &Limits) -> Result<Picture, Fault> {
    let mut warnings: Vec<Warning> = probe::trimmed(header, file).into_iter().collect();
    let bare = if header.is_bare(file) { Arc::clone(file) } else { strip::strip(file, header).into() };
    if header.is_animated() {
        check_animation(header, bare.len(), limits)?;
    }
    if header.is_animated() || fits(header, bare.len(), limits) {
        decode::verify(&bare, header)?;
        let Header { form, width, height, .. } = *header;
        return Ok(Picture { form, data: bare, width, height, warnings });
    }
    let decoded = decode::decode(file, header)?;
    let shrunk = shrink::shrink(decoded, limits.edge())?;
    let mut upright = shrink::eight_bits(shrunk);
    upright.apply_orientation(header.orientation);
    let made = encode::encode(upright, header.lossless, limits.image_bytes)?;
    warnings.extend(changes(header, &made, bare.len() > limits.image_bytes));
    Ok(Picture { form: made.form, data: made.data.into(), width: made.width, height: made.height, warnings })
}

/// Whether it can be sent with the very pixels that it has.
fn fits(header: &Header, bytes: usize, limits: &Limits) -> bool {
    header.orientation == image::metadata::Orientation::NoTransforms
        && header.odd_colours.is_none()
        && header.width.max(header.height) <= limits.edge()
        && bytes <= limits.image_bytes
}

/// What moves is sent as it is or not at all: a single frame of it would be another picture.
fn check_animation(header: &Header, bytes: usize, limits: &Limits) -> Result<(), Fault> {
    let why = if header.width.max(header.height) > Limits::HARD_EDGE {
        format!("an edge of it is longer than {} pixels", Limits::HARD_EDGE)
    } else if bytes > limits.image_bytes {
        format!("it is larger than {}", fault::readable(limits.image_bytes))
    } else {
        return Ok(());
    };
    Err(Fault::too_large(format!(
        "it moves and {why}; made smaller it would stand still, so shrink it yourself or attach single frames"
    )))
}

/// What a person could notice.
fn changes(header: &Header, made: &encode::Encoded, was_too_large: bool) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let upright = {
        use image::metadata::Orientation::{Rotate90, Rotate90FlipH, Rotate270, Rotate270FlipH};
        match header.orientation {
            Rotate90 | Rotate270 | Rotate90FlipH | Rotate270FlipH => (header.height, header.width),
            _ => (header.width, header.height),
        }
    };
    let is_smaller = upright != (made.width, made.height);
    if is_smaller {
        let (width, height) = upright;
        let sentence = format!("it has {width} × {height} pixels and is sent with {} × {}", made.width, made.height);
        warnings.push(Warning::new("shrunk", sentence));
    }
    if let Some(colours) = header.odd_colours {
        warnings.push(Warning::new("converted", format!("it has {colours} and is sent with ordinary colours")));
    }
    if made.form != header.form {
        let (was, is) = (name(header.form), name(made.form));
        warnings.push(Warning::new("converted", format!("it is a {was} picture and is sent as {is}")));
    }
    if made.is_rough || was_too_large && !is_smaller && made.form == ImageType::Jpeg {
        warnings.push(Warning::new("compressed", "it is sent with less detail, since it was too large"));
    }
    warnings
}

fn name(form: ImageType) -> &'static str {
    match form {
        ImageType::Png => "PNG",
        ImageType::Jpeg => "JPEG",
        ImageType::Gif => "GIF",
        ImageType::WebP => "WebP",
    }
}
