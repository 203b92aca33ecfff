//! Images with an orientation are rotated, and the orientation is removed.

use hostler_attachments::AttachmentBlock;
use image::{GenericImageView as _, ImageFormat, Rgb, RgbImage};

use crate::support::{encoded, exif, file, jpeg, png, position, sent, warnings, webp};

/// The upright image: red in the upper left corner, green in the upper right one, blue below.
fn upright() -> RgbImage {
    RgbImage::from_fn(64, 32, |x, y| match (x < 32, y < 16) {
        (true, true) => Rgb([255, 0, 0]),
        (false, true) => Rgb([0, 255, 0]),
        (_, false) => Rgb([0, 0, 255]),
    })
}

/// The image as a camera with this orientation stores it.
fn stored(orientation: u8) -> RgbImage {
    use image::imageops::{flip_horizontal, flip_vertical, rotate90, rotate180, rotate270};
    let upright = upright();
    match orientation {
        1 => upright,
        2 => flip_horizontal(&upright),
        3 => rotate180(&upright),
        4 => flip_vertical(&upright),
        5 => flip_horizontal(&rotate90(&upright)),
        6 => rotate270(&upright),
        7 => flip_horizontal(&rotate270(&upright)),
        8 => rotate90(&upright),
        other => panic!("there is no orientation {other}"),
    }
}

#[test]
fn every_orientation_is_applied_in_every_format() {
    for orientation in 1..=8 {
        let image = stored(orientation);
        let (width, height) = image.dimensions();
        let image = image.into();
        let jpeg_file = encoded(&image, ImageFormat::Jpeg);
        let png_file = encoded(&image, ImageFormat::Png);
        let webp_file = encoded(&image, ImageFormat::WebP);
        for (name, bytes) in [
            ("a.jpg", jpeg::with_segments(&jpeg_file, &jpeg::exif_segment(orientation))),
            ("a.png", png::with_chunks(&png_file, &png::chunk(b"eXIf", &exif(orientation)))),
            ("a.webp", webp::with_metadata(&webp_file, width, height, &exif(orientation))),
        ] {
            let sent = sent(file(name, bytes));
            let AttachmentBlock::Image { data, .. } = &sent.block else { panic!("an image") };
            let shown = image::load_from_memory(data).unwrap();
            assert_eq!(shown.dimensions(), (64, 32), "{name} with {orientation}");
            for ((x, y), expected) in [((8, 4), [255, 0, 0]), ((56, 4), [0, 255, 0]), ((8, 28), [0, 0, 255])] {
                let pixel = shown.get_pixel(x, y).0;
                let near = pixel.iter().zip(expected).all(|(is, should)| is.abs_diff(should) < 24);
                assert!(near, "{name} with {orientation}: {pixel:?} at {x}, {y}");
            }
            assert!(position(data, b"GPS").is_none(), "{name} with {orientation} reveals its place");
            assert!(!warnings(&sent).contains(&"shrunk"), "it is seen as it should be: {sent:?}");
        }
    }
}
