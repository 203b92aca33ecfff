//! Encodes PNG frames as one animated GIF with a common palette. A frame after the first contains only the rectangle
//! that changed, and pixels that did not change are transparent in it.

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};
use gif::{DisposalMethod, Encoder, Repeat};

/// Palette entries for colors; the entry after the last one is transparent.
const MAX_COLORS: usize = 255;

type Color = [u8; 3];

/// Image with one color per pixel.
struct Frame {
    width: u16,
    height: u16,
    pixels: Vec<Color>,
}

/// Encodes `0000.png`, `0001.png`, … of a directory; `delays.json` contains their display times in milliseconds.
pub(super) fn encode_directory(directory: &Path) -> Result<Vec<u8>> {
    let delays = std::fs::read(directory.join("delays.json")).context("failed to read delays.json")?;
    let delays: Vec<u64> = serde_json::from_slice(&delays).context("delays.json is not a list of numbers")?;
    let mut frames = Vec::new();
    for at in 0..delays.len() {
        let path = directory.join(format!("{at:04}.png"));
        frames.push(read_png(&path).with_context(|| format!("failed to read {}", path.display()))?);
    }
    encode(&frames, &delays)
}

fn read_png(path: &Path) -> Result<Frame> {
    let mut decoder = png::Decoder::new(std::io::BufReader::new(std::fs::File::open(path)?));
    decoder.set_transformations(png::Transformations::normalize_to_color8());
    let mut reader = decoder.read_info()?;
    let mut bytes = vec![0; reader.output_buffer_size().context("the image is too large")?];
    let info = reader.next_frame(&mut bytes)?;
    let samples = match info.color_type {
        png::ColorType::Rgb => 3,
        png::ColorType::Rgba => 4,
        other => bail!("unexpected color type {other:?}"),
    };
    let pixels = bytes.chunks_exact(samples).filter_map(|pixel| pixel.first_chunk().copied()).collect();
    Ok(Frame { width: u16::try_from(info.width)?, height: u16::try_from(info.height)?, pixels })
}

fn encode(frames: &[Frame], delays_ms: &[u64]) -> Result<Vec<u8>> {
    let first = frames.first().context("there are no frames")?;
    let (width, height) = (first.width, first.height);
    ensure!(frames.iter().all(|frame| (frame.width, frame.height) == (width, height)), "the frames differ in size");
    let palette = Palette::new(frames);
    let mut bytes = Vec::new();
    let mut encoder = Encoder::new(&mut bytes, width, height, &palette.to_bytes())?;
    encoder.set_repeat(Repeat::Infinite)?;
    let mut shown: Option<Vec<u8>> = None;
    for (frame, delay_ms) in frames.iter().zip(delays_ms) {
        let indices = palette.map(&frame.pixels);
        let area = shown.as_ref().map_or(Area::whole(width, height), |shown| Area::changed(shown, &indices, width));
        encoder.write_frame(&gif::Frame {
            // GIF counts in hundredths of a second.
            delay: u16::try_from(delay_ms / 10)?,
            dispose: DisposalMethod::Keep,
            transparent: Some(palette.transparent()),
            left: area.left,
            top: area.top,
            width: area.width,
            height: area.height,
            buffer: Cow::Owned(area.cut(shown.as_deref(), &indices, width, palette.transparent())),
            ..gif::Frame::default()
        })?;
        shown = Some(indices);
    }
    drop(encoder);
    Ok(bytes)
}

/// Colors of all frames.
struct Palette {
    colors: Vec<Color>,
    indices: HashMap<Color, u8>,
}

impl Palette {
    /// Takes the most frequent colors that differ visibly from each other. Areas of one color keep it exactly.
    fn new(frames: &[Frame]) -> Self {
        let mut counts = HashMap::<Color, usize>::new();
        for run in frames.iter().flat_map(|frame| frame.pixels.chunk_by(|a, b| a == b)) {
            if let Some(color) = run.first() {
                *counts.entry(*color).or_default() += run.len();
            }
        }
        let mut by_frequency: Vec<(Color, usize)> = counts.into_iter().collect();
        by_frequency.sort_unstable_by_key(|(color, count)| (std::cmp::Reverse(*count), *color));
        let all: Vec<Color> = by_frequency.into_iter().map(|(color, _)| color).collect();
        let colors = (0..).find_map(|step: u32| distinct_colors(&all, step * step)).unwrap_or_default();
        let indices = all.iter().map(|color| (*color, nearest(&colors, *color))).collect();
        Self { colors, indices }
    }

    fn map(&self, pixels: &[Color]) -> Vec<u8> {
        let mut mapped = Vec::with_capacity(pixels.len());
        for run in pixels.chunk_by(|a, b| a == b) {
            let index = run.first().and_then(|color| self.indices.get(color)).copied().unwrap_or_default();
            mapped.resize(mapped.len() + run.len(), index);
        }
        mapped
    }

    fn transparent(&self) -> u8 {
        u8::try_from(self.colors.len()).unwrap_or(u8::MAX)
    }

    fn to_bytes(&self) -> Vec<u8> {
        [self.colors.concat(), vec![0; 3]].concat()
    }
}

/// Returns the colors that have at least this squared distance from all more frequent ones, if they fit.
fn distinct_colors(by_frequency: &[Color], squared_distance: u32) -> Option<Vec<Color>> {
    let mut chosen: Vec<Color> = Vec::new();
    for color in by_frequency {
        if chosen.iter().all(|other| squared_difference(*color, *other) >= squared_distance) {
            if chosen.len() == MAX_COLORS {
                return None;
            }
            chosen.push(*color);
        }
    }
    Some(chosen)
}

fn nearest(colors: &[Color], wanted: Color) -> u8 {
    let nearest = colors.iter().enumerate().min_by_key(|(_, color)| squared_difference(**color, wanted));
    nearest.and_then(|(at, _)| u8::try_from(at).ok()).unwrap_or_default()
}

fn squared_difference(one: Color, other: Color) -> u32 {
    one.iter().zip(other).map(|(a, b)| u32::from(a.abs_diff(b)).pow(2)).sum()
}

/// Rectangle of a frame.
#[derive(Debug, PartialEq, Eq)]
struct Area {
    left: u16,
    top: u16,
    width: u16,
    height: u16,
}

impl Area {
    fn whole(width: u16, height: u16) -> Self {
        Self { left: 0, top: 0, width, height }
    }

    /// Returns the smallest rectangle with all changes; one pixel if nothing changed, because a frame is not empty.
    fn changed(before: &[u8], after: &[u8], width: u16) -> Self {
        let (mut left, mut right, mut top, mut bottom) = (u16::MAX, 0, u16::MAX, 0);
        let rows = before.chunks(width.into()).zip(after.chunks(width.into()));
        for (y, (old, new)) in (0_u16..).zip(rows) {
            for (x, _) in (0_u16..).zip(old.iter().zip(new)).filter(|(_, (old, new))| old != new) {
                (left, right) = (left.min(x), right.max(x));
                (top, bottom) = (top.min(y), bottom.max(y));
            }
        }
        if left > right {
            return Self::whole(1, 1);
        }
        Self { left, top, width: right - left + 1, height: bottom - top + 1 }
    }

    /// Returns the pixels of this rectangle; unchanged ones are transparent.
    fn cut(&self, before: Option<&[u8]>, after: &[u8], width: u16, transparent: u8) -> Vec<u8> {
        let mut pixels = Vec::with_capacity(usize::from(self.width) * usize::from(self.height));
        for y in self.top..self.top + self.height {
            for x in self.left..self.left + self.width {
                let at = usize::from(y) * usize::from(width) + usize::from(x);
                let new = after.get(at).copied();
                let is_same = before.is_some_and(|before| before.get(at).copied() == new);
                pixels.push(if is_same { transparent } else { new.unwrap_or(transparent) });
            }
        }
        pixels
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHITE: Color = [255; 3];
    const RED: Color = [200, 0, 0];

    fn frame(pixels: &[Color]) -> Frame {
        Frame { width: 3, height: 2, pixels: pixels.to_vec() }
    }

    /// Decodes an animation and draws its frames over each other.
    fn play(bytes: &[u8]) -> Vec<Vec<Color>> {
        let mut options = gif::DecodeOptions::new();
        options.set_color_output(gif::ColorOutput::RGBA);
        let mut decoder = options.read_info(bytes).unwrap();
        let (width, height) = (usize::from(decoder.width()), usize::from(decoder.height()));
        let (mut canvas, mut played) = (vec![[0; 3]; width * height], Vec::new());
        while let Some(frame) = decoder.read_next_frame().unwrap() {
            for (at, pixel) in frame.buffer.chunks(4).enumerate() {
                let (x, y) = (at % usize::from(frame.width), at / usize::from(frame.width));
                if pixel[3] > 0 {
                    let position = (y + usize::from(frame.top)) * width + x + usize::from(frame.left);
                    canvas[position] = [pixel[0], pixel[1], pixel[2]];
                }
            }
            played.push(canvas.clone());
        }
        played
    }

    #[test]
    fn decoded_animation_has_the_pixels_of_its_frames() {
        let mut second = [WHITE; 6];
        second[4] = RED;
        let frames = [frame(&[WHITE; 6]), frame(&second), frame(&second), frame(&[RED; 6])];
        let bytes = encode(&frames, &[100, 50, 50, 2_000]).unwrap();
        let expected: Vec<_> = frames.into_iter().map(|frame| frame.pixels).collect();
        assert_eq!(play(&bytes), expected);
    }

    #[test]
    fn only_the_changed_rectangle_is_encoded() {
        let (before, after) = ([0, 0, 0, 0, 0, 0], [0, 1, 0, 0, 0, 1]);
        let area = Area::changed(&before, &after, 3);
        assert_eq!(area, Area { left: 1, top: 0, width: 2, height: 2 });
        assert_eq!(area.cut(Some(&before), &after, 3, 9), [1, 9, 9, 1]);
        assert_eq!(Area::changed(&before, &before, 3), Area::whole(1, 1));
    }

    #[test]
    fn palette_keeps_frequent_colors_and_merges_similar_ones() {
        let shades: Vec<Color> = (0..=255).flat_map(|red| [[red, 0, 0], [red, 0, 1]]).collect();
        let width = u16::try_from(shades.len()).unwrap();
        let many = Frame { width, height: 1, pixels: shades };
        let plain = Frame { width, height: 1, pixels: vec![[7, 7, 7]; usize::from(width)] };
        let palette = Palette::new(&[many, plain]);
        assert!(palette.colors.len() <= MAX_COLORS);
        assert_eq!(palette.colors.first(), Some(&[7, 7, 7]), "the most frequent color is exact");
    }

    #[test]
    fn frames_of_different_sizes_are_an_error() {
        let other = Frame { width: 1, height: 1, pixels: vec![WHITE] };
        assert!(encode(&[frame(&[WHITE; 6]), other], &[10, 10]).is_err());
        assert!(encode(&[], &[]).is_err());
    }
}
