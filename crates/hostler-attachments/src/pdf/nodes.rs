//! The tree of a document's pages.

use std::collections::{BTreeMap, BTreeSet};

use lopdf::{Dictionary, Object};

use super::objects::{self, Packed};
use super::scan::{self, Found, Scanned};
use crate::fault::Fault;

/// What all packed parts of a document may unpack to.
const UNPACKED: usize = 64 << 20;

/// What the parts of the tree are called. Of all other texts only lists are parsed.
const SIGNS: [&[u8]; 4] = [b"/Page", b"/Kids", b"/Catalog", b"/Parent"];

enum Node {
    Catalog { pages: u32 },
    Branch(Kids),
    Page,
    List(Vec<u32>),
}

enum Kids {
    Here(Vec<u32>),
    At(u32),
}

/// The parts of the tree by their numbers, the latest of each.
pub(super) struct Nodes(BTreeMap<u32, Node>);

impl Nodes {
    pub(super) fn of(scanned: &Scanned<'_>) -> Result<Self, Fault> {
        let mut nodes = BTreeMap::new();
        let mut budget = UNPACKED;
        for found in &scanned.objects {
            match found {
                Found::Object { number, text } => {
                    nodes.extend(node(text).map(|node| (*number, node)));
                }
                Found::Packed { dictionary, data } => {
                    if let Some(packed) = Packed::unpack(dictionary, data, &mut budget)? {
                        nodes.extend(packed.objects().filter_map(|(number, text)| Some((number, node(text)?))));
                    }
                }
            }
        }
        Ok(Self(nodes))
    }

    /// How many pages can be reached from the root. None is counted twice.
    pub(super) fn pages(&self, root: Option<u32>) -> usize {
        let Some(Node::Catalog { pages }) = root.and_then(|root| self.0.get(&root)) else { return 0 };
        let mut seen = BTreeSet::from([*pages]);
        let mut waiting = vec![*pages];
        let mut count = 0;
        while let Some(number) = waiting.pop() {
            match self.0.get(&number) {
                Some(Node::Page) => count += 1,
                Some(Node::Branch(Kids::Here(kids)) | Node::List(kids)) => {
                    waiting.extend(kids.iter().filter(|kid| seen.insert(**kid)));
                }
                Some(Node::Branch(Kids::At(list))) => waiting.extend(seen.insert(*list).then_some(*list)),
                Some(Node::Catalog { .. }) | None => {}
            }
        }
        count
    }
}

fn node(text: &[u8]) -> Option<Node> {
    let is_list = text.trim_ascii_start().starts_with(b"[");
    if !is_list && !SIGNS.iter().any(|sign| scan::find(text, sign, 0).is_some()) {
        return None;
    }
    match objects::parse(text)? {
        Object::Dictionary(dictionary) => branch(&dictionary),
        Object::Array(list) => references(&list).map(Node::List),
        _ => None,
    }
}

fn branch(dictionary: &Dictionary) -> Option<Node> {
    if dictionary.has_type(b"Catalog") {
        let (pages, _) = dictionary.get(b"Pages").and_then(Object::as_reference).ok()?;
        return Some(Node::Catalog { pages });
    }
    match dictionary.get(b"Kids") {
        Ok(Object::Array(kids)) => references(kids).map(|kids| Node::Branch(Kids::Here(kids))),
        Ok(Object::Reference((list, _))) => Some(Node::Branch(Kids::At(*list))),
        // Not every writer says of a page that it is one.
        _ => (dictionary.has_type(b"Page") || dictionary.has(b"Parent")).then_some(Node::Page),
    }
}

/// The numbers in a list of nothing but references.
fn references(list: &[Object]) -> Option<Vec<u32>> {
    list.iter().map(|object| object.as_reference().ok().map(|(number, _)| number)).collect()
}
