//! Builds PDF documents, object by object.

use std::fmt::Write as _;

use lopdf::{Dictionary, Document, Object, SaveOptions, Stream, dictionary};

/// A minimal document with this number of pages.
pub(crate) fn pages(count: usize) -> Vec<u8> {
    let kids: String = (0..count).fold(String::new(), |mut kids, at| {
        write!(kids, "{} 0 R ", at + 3).unwrap();
        kids
    });
    let mut objects = vec!["<< /Type /Catalog /Pages 2 0 R >>".to_owned()];
    objects.push(format!("<< /Type /Pages /Count {count} /Kids [{kids}] >>"));
    objects.extend((0..count).map(|_| "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 9 9] >>".to_owned()));
    written(&objects, "/Root 1 0 R")
}

/// Objects, numbered from 1, with a cross-reference table.
pub(crate) fn written(objects: &[String], trailer: &str) -> Vec<u8> {
    let mut file = "%PDF-1.7\n".to_owned();
    let mut table = format!("xref\n0 {}\n0000000000 65535 f \n", objects.len() + 1);
    for (at, object) in objects.iter().enumerate() {
        writeln!(table, "{:010} 00000 n ", file.len()).unwrap();
        write!(file, "{} 0 obj\n{object}\nendobj\n", at + 1).unwrap();
    }
    let start = file.len();
    let size = objects.len() + 1;
    write!(file, "{table}trailer\n<< /Size {size} {trailer} >>\nstartxref\n{start}\n%%EOF\n").unwrap();
    file.into_bytes()
}

/// A document as current programs write it, with object streams and a cross-reference stream.
pub(crate) fn modern(count: usize) -> Vec<u8> {
    let mut document = Document::with_version("1.7");
    let tree = document.new_object_id();
    let kids: Vec<Object> = (0..count)
        .map(|_| {
            let contents = document.add_object(Stream::new(Dictionary::new(), b"BT (1 0 obj endobj) Tj ET".to_vec()));
            document.add_object(dictionary! { "Type" => "Page", "Parent" => tree, "Contents" => contents }).into()
        })
        .collect();
    document.objects.insert(
        tree,
        dictionary! { "Type" => "Pages", "Count" => Object::Integer(count as i64), "Kids" => kids }.into(),
    );
    let root = document.add_object(dictionary! { "Type" => "Catalog", "Pages" => tree });
    document.trailer.set("Root", root);
    let mut file = Vec::new();
    let options = SaveOptions::builder().use_object_streams(true).use_xref_streams(true).build();
    document.save_with_options(&mut file, options).unwrap();
    file
}

/// A document whose object streams unpack to this many bytes.
pub(crate) fn bomb(bytes: usize, parts: usize) -> Vec<u8> {
    let data = super::png::packed_zeros(bytes);
    let mut file = pages(1);
    let tail = super::position(&file, b"xref\n").unwrap();
    let tail = file.split_off(tail);
    for part in 0..parts {
        let head = format!(
            "{} 0 obj\n<< /Type /ObjStm /N 1 /First 4 /Filter /FlateDecode /Length {} >>\nstream\n",
            part + 100,
            data.len()
        );
        file.extend(head.as_bytes());
        file.extend(&data);
        file.extend(b"\nendstream\nendobj\n");
    }
    file.extend(tail);
    file
}
