use std::sync::Arc;

use crate::fault::{self, Fault};
use crate::probe::{Header, Probed};
use crate::text::Text;
use crate::{
    Block, Decision, History, Item, Kind, Limits, Original, Plan, Planned, Reference, Refusal, Rejection, Source,
    Summary, Title, VariantKey, Warning,
};
use crate::{base64, budget, image, pdf, probe, references};

/// Plans a message's attachments. This decodes pictures and takes its time: not for a task that others wait for.
///
/// # Errors
/// If one of them cannot be sent; it then names every one that cannot.
pub fn plan(items: Vec<Item>, limits: &Limits, history: History) -> Result<Plan, Rejection> {
    // Nobody abandons it.
    plan_unless(items, limits, history, &|| false).unwrap_or(Ok(Plan { files: Vec::new() }))
}

/// Plans like [`plan`], and asks before each file whether nobody wants to know any more; then there is `None`.
///
/// One file is looked at after the other. Beside what was received and what is to be sent, only one picture is in memory at a
/// time: about ten bytes for each of its pixels, of which [`Limits::pixels`] is the most.
pub fn plan_unless(
    items: Vec<Item>,
    limits: &Limits,
    history: History,
    abandoned: &dyn Fn() -> bool,
) -> Option<Result<Plan, Rejection>> {
    let sizes: Vec<usize> = items.iter().map(received).collect();
    let admitted = budget::admit(&sizes, limits);
    let mut files = Vec::with_capacity(items.len());
    for (item, admitted) in items.into_iter().zip(admitted) {
        if abandoned() {
            return None;
        }
        let name = Title::new(&item.name);
        let file = admitted.and_then(|()| planned(item, &name, limits));
        files.push(file.map_err(|fault| fault.of(&name)));
    }
    budget::check(&mut files, limits, history);
    let outcome = decided(files, &sizes);
    match &outcome {
        Ok(plan) => tracing::debug!(diagnostics = ?plan.diagnostics(), "attachments are planned"),
        Err(rejection) => tracing::debug!(diagnostics = ?rejection.diagnostics(), "attachments are refused"),
    }
    Some(outcome)
}

/// The most pixels that planning these items has in memory at a time, in pixels of four bytes. Nothing is decoded for it, and an
/// item that cannot be sent counts nothing.
#[must_use]
pub fn decoded_pixels(items: &[Item], limits: &Limits) -> u64 {
    let sizes: Vec<usize> = items.iter().map(received).collect();
    let admitted = items.iter().zip(budget::admit(&sizes, limits)).filter(|(_, admitted)| admitted.is_ok());
    let pixels = admitted.filter_map(|(item, _)| {
        let data = match &item.source {
            Source::Base64(text) => base64::decode(text).ok()?.into(),
            Source::Bytes(data) => Arc::clone(data),
            Source::Reference(_) | Source::Words(_) => return None,
        };
        match probe::probe(&data, &item.name, item.declared.as_deref(), limits).ok()?.0 {
            Probed::Image(header) => Some(header.decoded_pixels()),
            Probed::Pdf | Probed::Text(_) => None,
        }
    });
    pixels.max().unwrap_or(0)
}

/// All or nothing.
fn decided(files: Vec<Result<Planned, Refusal>>, sizes: &[usize]) -> Result<Plan, Rejection> {
    if files.iter().all(Result::is_ok) {
        return Ok(Plan { files: files.into_iter().flatten().collect() });
    }
    let summary = |(file, size): (&Result<Planned, Refusal>, &usize)| match file {
        Ok(file) => Summary::planned(file, Decision::WouldSend),
        Err(refusal) => Summary::refused(refusal, Some(*size)),
    };
    let summaries = files.iter().zip(sizes).map(summary).collect();
    Err(Rejection { refusals: files.into_iter().filter_map(Result::err).collect(), files: summaries })
}

/// How many bytes somebody sent us, before anything is decoded.
fn received(item: &Item) -> usize {
    match &item.source {
        Source::Base64(text) => base64::size(text),
        Source::Bytes(bytes) => bytes.len(),
        Source::Words(words) => words.len(),
        Source::Reference(Reference { selection, .. }) => {
            selection.as_ref().and_then(|selection| selection.text.as_ref()).map_or(0, String::len)
        }
    }
}

fn planned(item: Item, name: &Title, limits: &Limits) -> Result<Planned, Fault> {
    let Item { name: full_name, declared, size_hint, source } = item;
    let data: Arc<[u8]> = match source {
        Source::Base64(text) => base64::decode(&text)?.into(),
        Source::Bytes(data) => data,
        Source::Reference(reference) => return Ok(place(name, reference)),
        Source::Words(words) => return Ok(words_of(name, words)),
    };
    if size_hint.is_some_and(|hint| hint != data.len() as u64) {
        return Err(Fault::corrupt(format!(
            "it has {} and not the size that it was announced with; send it again",
            fault::readable(data.len())
        )));
    }
    let (probed, warning) = probe::probe(&data, &full_name, declared.as_deref(), limits)?;
    let mut file = match probed {
        Probed::Image(header) => picture(name, data, &header, limits)?,
        Probed::Pdf => document(name, data, limits)?,
        Probed::Text(text) => text_of(name, data, text),
    };
    file.warnings.splice(0..0, warning);
    Ok(file)
}

fn picture(name: &Title, data: Arc<[u8]>, header: &Header, limits: &Limits) -> Result<Planned, Fault> {
    let picture = image::deliver(&data, header, limits)?;
    let variant = (picture.data != data).then(|| VariantKey::for_model(&data, limits));
    Ok(Planned {
        name: name.clone(),
        kind: Kind::Image { width: picture.width, height: picture.height },
        original: Some(Original { media_type: header.form.media_type(), data }),
        variant,
        block: Block::Image { media_type: picture.form, data: picture.data },
        warnings: picture.warnings,
        reference: None,
    })
}

fn document(name: &Title, data: Arc<[u8]>, limits: &Limits) -> Result<Planned, Fault> {
    let pages = pdf::pages(&data, limits)?;
    let block = Block::Pdf { title: name.clone(), data: Arc::clone(&data) };
    let original = Original { media_type: "application/pdf", data };
    Ok(Planned { original: Some(original), ..without_original(name, Kind::Pdf { pages }, block) })
}

fn text_of(name: &Title, data: Arc<[u8]>, Text { text, from_utf16 }: Text) -> Planned {
    let mut file = words_of(name, text);
    if from_utf16 {
        file.warnings.push(Warning::new("decoded", "it is UTF-16 text and is sent as UTF-8"));
    }
    file.original = Some(Original { media_type: "text/plain", data });
    file
}

fn words_of(name: &Title, words: String) -> Planned {
    let is_empty = words.is_empty();
    let mut file = without_original(name, Kind::Text, Block::Text { title: name.clone(), text: words.into() });
    if is_empty {
        file.warnings.push(Warning::new("empty", "it is empty"));
    }
    file
}

fn place(name: &Title, reference: Reference) -> Planned {
    let block = references::block([&reference]);
    Planned { reference: Some(reference), ..without_original(name, Kind::Reference, block) }
}

fn without_original(name: &Title, kind: Kind, block: Block) -> Planned {
    Planned { name: name.clone(), kind, original: None, variant: None, block, warnings: Vec::new(), reference: None }
}
