//! The page tree of a document.

use std::collections::{BTreeMap, BTreeSet};

use lopdf::{Dictionary, Object};

use super::objects::{self, UnpackedObjects};
use super::scan::{self, ScannedObject, ScannedPdf};
use crate::rejection_reason::RejectionReason;

/// Maximum unpacked size of all object streams of a document.
const MAX_TOTAL_UNPACKED_BYTES: usize = 64 << 20;

/// Keys of page tree nodes. Of other objects only arrays are parsed.
const PAGE_TREE_KEYS: [&[u8]; 4] = [b"/Page", b"/Kids", b"/Catalog", b"/Parent"];

enum Node {
    Catalog { pages: u32 },
    Branch(Kids),
    Page,
    List(Vec<u32>),
}

enum Kids {
    Inline(Vec<u32>),
    Indirect(u32),
}

/// Page tree nodes by object number, the latest revision of each.
pub(super) struct PageTree(BTreeMap<u32, Node>);

impl PageTree {
    pub(super) fn build(scanned: &ScannedPdf<'_>) -> Result<Self, RejectionReason> {
        let mut nodes = BTreeMap::new();
        let mut budget = MAX_TOTAL_UNPACKED_BYTES;
        for found in &scanned.objects {
            match found {
                ScannedObject::Plain { number, text } => {
                    nodes.extend(parse_node(text).map(|node| (*number, node)));
                }
                ScannedObject::ObjectStream { dictionary, data } => {
                    if let Some(packed) = UnpackedObjects::unpack(dictionary, data, &mut budget)? {
                        nodes.extend(packed.objects().filter_map(|(number, text)| Some((number, parse_node(text)?))));
                    }
                }
            }
        }
        Ok(Self(nodes))
    }

    /// Counts the pages that are reachable from the root, each once.
    pub(super) fn count_pages(&self, root: Option<u32>) -> usize {
        let Some(Node::Catalog { pages }) = root.and_then(|root| self.0.get(&root)) else { return 0 };
        let mut seen = BTreeSet::from([*pages]);
        let mut waiting = vec![*pages];
        let mut count = 0;
        while let Some(number) = waiting.pop() {
            match self.0.get(&number) {
                Some(Node::Page) => count += 1,
                Some(Node::Branch(Kids::Inline(kids)) | Node::List(kids)) => {
                    waiting.extend(kids.iter().filter(|kid| seen.insert(**kid)));
                }
                Some(Node::Branch(Kids::Indirect(list))) => waiting.extend(seen.insert(*list).then_some(*list)),
                Some(Node::Catalog { .. }) | None => {}
            }
        }
        count
    }
}

fn parse_node(text: &[u8]) -> Option<Node> {
    let is_list = text.trim_ascii_start().starts_with(b"[");
    if !is_list && !PAGE_TREE_KEYS.iter().any(|sign| scan::find_bytes(text, sign, 0).is_some()) {
        return None;
    }
    match objects::parse(text)? {
        Object::Dictionary(dictionary) => parse_dictionary_node(&dictionary),
        Object::Array(list) => object_numbers(&list).map(Node::List),
        _ => None,
    }
}

fn parse_dictionary_node(dictionary: &Dictionary) -> Option<Node> {
    if dictionary.has_type(b"Catalog") {
        let (pages, _) = dictionary.get(b"Pages").and_then(Object::as_reference).ok()?;
        return Some(Node::Catalog { pages });
    }
    match dictionary.get(b"Kids") {
        Ok(Object::Array(kids)) => object_numbers(kids).map(|kids| Node::Branch(Kids::Inline(kids))),
        Ok(Object::Reference((list, _))) => Some(Node::Branch(Kids::Indirect(*list))),
        // Some writers omit the type of pages.
        _ => (dictionary.has_type(b"Page") || dictionary.has(b"Parent")).then_some(Node::Page),
    }
}

/// The object numbers of an array that contains only references.
fn object_numbers(list: &[Object]) -> Option<Vec<u32>> {
    list.iter().map(|object| object.as_reference().ok().map(|(number, _)| number)).collect()
}
