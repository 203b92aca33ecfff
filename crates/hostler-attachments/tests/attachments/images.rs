//! Images: sent unchanged if possible, otherwise changed as little as possible.

use hostler_attachments::{
    AttachmentBlock, AttachmentErrorCode, AttachmentKind, AttachmentLimits, ImageType, PlannedAttachment,
};
use image::{DynamicImage, GenericImageView as _, ImageFormat};

use crate::support::{
    encoded, exif, file, gif, gradient, jpeg, noise, plan_within, png, position, refused, sent, veiled, warnings, webp,
};

fn decoded(file: &PlannedAttachment) -> (ImageType, DynamicImage) {
    let AttachmentBlock::Image { image_type: media_type, data } = &file.block else { panic!("an image") };
    let format = match media_type {
        ImageType::Png => ImageFormat::Png,
        ImageType::Jpeg => ImageFormat::Jpeg,
        ImageType::Gif => ImageFormat::Gif,
        ImageType::WebP => ImageFormat::WebP,
    };
    let image = image::load_from_memory_with_format(data, format).unwrap();
    assert_eq!(
        file.kind,
        AttachmentKind::Image { width: image.width(), height: image.height() },
        "the summary states what is sent"
    );
    (*media_type, image)
}

fn data(file: &PlannedAttachment) -> &[u8] {
    match &file.block {
        AttachmentBlock::Image { data, .. } => data,
        other => panic!("{other:?}"),
    }
}

fn is_near(image: &DynamicImage, (x, y): (u32, u32), expected: [u8; 3]) -> bool {
    let pixel = image.get_pixel(x, y).0;
    pixel.iter().zip(expected).all(|(is, should)| is.abs_diff(should) < 24)
}

#[test]
fn an_image_within_the_limits_is_sent_unchanged() {
    let simple = gradient(40, 30);
    for (name, bytes) in [
        ("a.png", encoded(&simple, ImageFormat::Png)),
        ("a.jpg", encoded(&simple, ImageFormat::Jpeg)),
        ("a.gif", encoded(&simple, ImageFormat::Gif)),
        ("a.webp", encoded(&simple, ImageFormat::WebP)),
        ("veil.png", encoded(&veiled(40, 30), ImageFormat::Png)),
        ("one.png", encoded(&gradient(1, 1), ImageFormat::Png)),
        ("edge.png", encoded(&gradient(1568, 2), ImageFormat::Png)),
        ("film.gif", gif::animated(20, 20, 3)),
        ("film.webp", webp::animated(&encoded(&simple, ImageFormat::WebP), 40, 30, 3)),
    ] {
        let file = sent(file(name, bytes.clone()));
        assert_eq!(data(&file), bytes, "{name}");
        assert!(file.warnings.is_empty() && file.variant.is_none(), "{name}: {file:?}");
    }
}

#[test]
fn metadata_are_removed_and_encoded_pixels_are_unchanged() {
    let simple = gradient(40, 30);
    let text = png::chunk(b"tEXt", b"Location\0GPS 52.5200N");
    let png_file = encoded(&simple, ImageFormat::Png);
    let private = [text.clone(), png::chunk(b"eXIf", &exif(1)), png::chunk(b"prVt", b"GPS 52.5200N")].concat();
    let jpeg_file = encoded(&simple, ImageFormat::Jpeg);
    let segments = [jpeg::exif_segment(1), jpeg::segment(0xfe, b"GPS 52.5200N"), jpeg::segment(0xed, b"GPS 52.5200N")];
    let webp_file = encoded(&simple, ImageFormat::WebP);
    let gif_file = encoded(&simple, ImageFormat::Gif);
    let end = gif_file.len() - 1;
    let comment = b"\x21\xfe\x0cGPS 52.5200N\0";
    for (name, bare, bytes) in [
        ("a.png", png_file.clone(), png::with_chunks(&png_file, &private)),
        ("a.jpg", jpeg_file.clone(), jpeg::with_segments(&jpeg_file, &segments.concat())),
        (
            "a.webp",
            webp::riff(&[webp::extended(0, 40, 30), webp::pixels(&webp_file)]),
            webp::with_metadata(&webp_file, 40, 30, &exif(1)),
        ),
        ("a.gif", gif_file.clone(), [&gif_file[..end], comment, b";"].concat()),
    ] {
        assert!(position(&bytes, b"GPS 52.5200N").is_some(), "{name} holds a place");
        let file = sent(file(name, bytes.clone()));
        assert_eq!(data(&file), bare, "{name}");
        assert!(file.variant.is_some() && file.warnings.is_empty(), "{name}: {file:?}");
        assert_eq!(&*file.original.as_ref().unwrap().data, bytes, "the original is stored unchanged");
        decoded(&file);
    }
}

#[test]
fn an_image_that_is_too_wide_is_scaled_down_with_a_warning() {
    let wide = sent(file("wide.png", encoded(&gradient(2000, 100), ImageFormat::Png)));
    let (form, image) = decoded(&wide);
    assert_eq!((form, image.width(), image.height()), (ImageType::Png, 1568, 78));
    assert_eq!(warnings(&wide), ["shrunk"]);
    assert_eq!(wide.warnings[0].message, "resized from 2000 × 100 to 1568 × 78 pixels");

    let thin = sent(file("thin.jpg", encoded(&gradient(1, 4000), ImageFormat::Jpeg)));
    assert_eq!(decoded(&thin).1.dimensions(), (1, 1568));
}

#[test]
fn no_setting_exceeds_the_maximum_edge() {
    let generous = AttachmentLimits { image_edge_pixels: 8000, ..AttachmentLimits::default() };
    let wide = file("wide.png", encoded(&gradient(2600, 10), ImageFormat::Png));
    assert_eq!(decoded(&plan_within(wide, &generous).unwrap()).1.width(), AttachmentLimits::MAX_IMAGE_EDGE_PIXELS);
}

#[test]
fn an_opaque_png_that_is_too_large_becomes_jpeg() {
    let limits = AttachmentLimits { image_bytes: 400_000, ..AttachmentLimits::default() };
    let bytes = encoded(&noise(400, 400, false), ImageFormat::Png);
    assert!(bytes.len() > limits.image_bytes);
    let file = plan_within(file("noise.png", bytes), &limits).unwrap();
    let (form, image) = decoded(&file);
    assert_eq!((form, image.dimensions()), (ImageType::Jpeg, (400, 400)));
    assert_eq!(warnings(&file), ["converted", "compressed"]);
    assert!(data(&file).len() <= limits.image_bytes);
}

#[test]
fn a_jpeg_that_is_too_large_loses_quality_before_size() {
    let limits = AttachmentLimits { image_bytes: 60_000, ..AttachmentLimits::default() };
    let bytes = encoded(&noise(256, 256, false), ImageFormat::Jpeg);
    assert!(bytes.len() > limits.image_bytes);
    let file = plan_within(file("noise.jpg", bytes), &limits).unwrap();
    assert_eq!(decoded(&file).1.dimensions(), (256, 256));
    assert_eq!(warnings(&file), ["compressed"]);
}

#[test]
fn transparency_is_preserved() {
    let limits = AttachmentLimits { image_bytes: 40_000, ..AttachmentLimits::default() };
    let file = plan_within(file("veil.png", encoded(&noise(200, 200, true), ImageFormat::Png)), &limits).unwrap();
    let (form, image) = decoded(&file);
    assert!(matches!(form, ImageType::Png | ImageType::WebP) && image.color().has_alpha());
    assert!(image.width() < 200 && data(&file).len() <= limits.image_bytes);
    assert!(warnings(&file).contains(&"shrunk"));

    let wide = sent(crate::support::file("wide.png", encoded(&veiled(2000, 20), ImageFormat::Png)));
    let (form, image) = decoded(&wide);
    assert_eq!((form, image.width()), (ImageType::Png, 1568));
    assert!(image.get_pixel(10, 5).0[3] < 10 && image.get_pixel(1500, 5).0[3] > 230);
}

#[test]
fn an_unused_alpha_channel_is_dropped() {
    let screen = DynamicImage::ImageRgba8(gradient(2000, 100).into_rgba8());
    let file = sent(file("screen.png", encoded(&screen, ImageFormat::Png)));
    assert_eq!(decoded(&file).1.color(), image::ColorType::Rgb8);
}

#[test]
fn sixteen_bit_channels_become_eight_bit() {
    let deep = DynamicImage::ImageRgba16(veiled(30, 20).into_rgba16());
    let file = sent(file("deep.png", encoded(&deep, ImageFormat::Png)));
    let (form, image) = decoded(&file);
    assert_eq!((form, image.color()), (ImageType::Png, image::ColorType::Rgba8));
    assert_eq!(warnings(&file), ["converted"]);
    assert_eq!(image.get_pixel(20, 10), veiled(30, 20).get_pixel(20, 10));
}

#[test]
fn cmyk_is_converted_to_rgb() {
    // No cyan, full magenta and yellow: red.
    let file = sent(file("print.jpg", jpeg::cmyk(0xc0, 16, 8, [0, 255, 255, 0])));
    let (form, image) = decoded(&file);
    assert_eq!((form, image.dimensions()), (ImageType::Jpeg, (16, 8)));
    assert!(is_near(&image, (4, 4), [255, 0, 0]), "{:?}", image.get_pixel(4, 4));
    assert_eq!(warnings(&file), ["converted"]);
}

#[test]
fn an_animation_is_sent_unchanged_or_rejected() {
    let (code, sentence) = refused(file("film.gif", gif::animated(2001, 4, 2)));
    assert_eq!(code, AttachmentErrorCode::TooLarge);
    assert!(
        sentence.starts_with("the image is animated and one of its edges is longer than 2000 pixels"),
        "{sentence}"
    );

    // Between the two limits it cannot be scaled down, and need not be.
    assert!(sent(file("film.gif", gif::animated(1900, 4, 2))).warnings.is_empty());

    let small = AttachmentLimits { image_bytes: 200, ..AttachmentLimits::default() };
    for bytes in [gif::animated(40, 40, 9), webp::animated(&encoded(&gradient(40, 30), ImageFormat::WebP), 40, 30, 5)] {
        let refusal = plan_within(file("film", bytes), &small).unwrap_err();
        assert_eq!(refusal.code, AttachmentErrorCode::TooLarge);
        assert!(refusal.message.starts_with("the image is animated and larger than 200 bytes"), "{refusal}");
    }
}

#[test]
fn a_still_gif_can_be_scaled_down() {
    let file = sent(file("still.gif", encoded(&gradient(1700, 30), ImageFormat::Gif)));
    assert_eq!(decoded(&file).0, ImageType::Png);
    assert_eq!(warnings(&file), ["shrunk", "converted"]);
}

#[test]
fn trailing_data_of_a_photo_are_not_sent() {
    let photo = encoded(&gradient(40, 30), ImageFormat::Jpeg);
    let film = b"\0\0\0\x18ftypmp42\0\0\0\0mp42isom";
    let file = sent(file("motion.jpg", [&photo[..], film].concat()));
    assert_eq!(data(&file), photo);
    assert_eq!(warnings(&file), ["trimmed"]);
}

#[test]
fn equal_images_give_equal_bytes_and_variant_keys() {
    let bytes = encoded(&noise(1600, 60, true), ImageFormat::Png);
    let (one, two) = (sent(file("a.png", bytes.clone())), sent(file("b.png", bytes.clone())));
    assert_eq!(data(&one), data(&two));
    assert_eq!(one.variant, two.variant);
    let other = AttachmentLimits { image_edge_pixels: 1000, ..AttachmentLimits::default() };
    assert_ne!(plan_within(file("a.png", bytes), &other).unwrap().variant, one.variant);
    assert_eq!(one.variant.unwrap().to_string().len(), 64);
}

#[test]
fn a_limit_that_cannot_be_met_is_an_error() {
    let limits = AttachmentLimits { image_bytes: 40, ..AttachmentLimits::default() };
    let refusal = plan_within(file("a.png", encoded(&noise(64, 64, true), ImageFormat::Png)), &limits).unwrap_err();
    assert_eq!(refusal.code, AttachmentErrorCode::OptimizationFailed);
    assert!(refusal.message.contains("reduce its size and attach"), "{refusal}");
}
