//! A query in the language of FTS5. Texts are always quoted, so that no text is ever taken for syntax.

use crate::document::Kind;
use crate::query::{From, Named, Query, Words};
use crate::signs;

impl Query {
    /// What a turn has to match; `None` if only filters of other kinds decide.
    pub(crate) fn wanted(&self) -> Option<String> {
        let mut all = self.terms();
        all.extend(self.within.iter().filter(|within| !within.without).map(|within| named(within.what, &within.words)));
        let wanted = (!all.is_empty()).then(|| all.join(" AND "))?;
        Some(match self.unwanted() {
            Some(unwanted) => format!("({wanted}) NOT ({unwanted})"),
            None => wanted,
        })
    }

    /// What a turn must not match.
    pub(crate) fn unwanted(&self) -> Option<String> {
        let words = self.without.iter().map(term);
        let named = self.within.iter().filter(|within| within.without).map(|within| named(within.what, &within.words));
        let any: Vec<String> = words.chain(named).collect();
        (!any.is_empty()).then(|| any.join(" OR "))
    }

    /// What is shown as a match: words, or if there are none, what the filters name.
    pub(crate) fn shown(&self) -> Option<String> {
        let terms = self.terms();
        if terms.is_empty() {
            let named = self.within.iter().filter(|within| !within.without);
            let named: Vec<String> = named.map(|within| self::named(within.what, &within.words)).collect();
            return (!named.is_empty()).then(|| named.join(" OR "));
        }
        Some(terms.join(" OR "))
    }

    fn terms(&self) -> Vec<String> {
        let of = |words: &Words| match self.from {
            None => term(words),
            Some(From::Person) => within(&[Kind::Person], words),
            Some(From::Agent) => {
                within(&[Kind::Answer, Kind::Files, Kind::Tool, Kind::Input, Kind::Output, Kind::Reasoning], words)
            }
        };
        self.words.iter().map(of).collect()
    }
}

fn named(what: Named, words: &Words) -> String {
    match what {
        Named::Tool => within(&[Kind::Tool], words),
        Named::File => within(&[Kind::Files], words),
    }
}

fn within(kinds: &[Kind], words: &Words) -> String {
    let names: Vec<_> = kinds.iter().map(|kind| kind.as_str()).collect();
    format!("{{{}}} : {}", names.join(" "), term(words))
}

fn term(words: &Words) -> String {
    let quoted = signs::parted(&words.text).replace('"', "\"\"");
    format!("\"{quoted}\"{}", if words.prefix { " *" } else { "" })
}
