//! Parses search queries. Every text is a valid query: parts that are no valid filter are searched literally.

use jiff::Zoned;

use crate::time_expression;

/// Maximum number of terms and filters; further ones are ignored.
const MAX_QUERY_PARTS: usize = 32;

/// A parsed query.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SearchQuery {
    /// All of them must be in one turn.
    pub(crate) terms: Vec<SearchTerm>,
    /// None of them may be.
    pub(crate) excluded_terms: Vec<SearchTerm>,
    /// Names of called tools and touched files.
    pub(crate) name_filters: Vec<NameFilter>,
    /// Only texts of this author count.
    pub(crate) author: Option<AuthorFilter>,
    pub(crate) workspaces: Vec<String>,
    pub(crate) sessions: Vec<String>,
    /// From this time on (milliseconds since the epoch).
    pub(crate) after: Option<i64>,
    /// Up to this time.
    pub(crate) before: Option<i64>,
    /// Restricts the search to these sessions, as a JSON array: there may be thousands.
    pub(crate) only_sessions: Option<String>,
}

/// A term, or several consecutive ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SearchTerm {
    pub(crate) text: String,
    /// Whether the last one is a prefix.
    pub(crate) is_prefix: bool,
}

/// Terms in the names of tools or files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NameFilter {
    pub(crate) kind: NameFilterKind,
    pub(crate) term: SearchTerm,
    pub(crate) is_excluded: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NameFilterKind {
    Tool,
    File,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AuthorFilter {
    User,
    Agent,
}

impl SearchQuery {
    /// Parses a query: terms, `"phrases"`, `begin*`, `-without`, and the filters `workspace:`, `tool:`, `file:`,
    /// `before:`, `after:`, `from:`, `session:`. Times are relative to `now`, days are those of its time zone.
    pub fn parse(text: &str, now: &Zoned) -> Self {
        let mut query = Self::default();
        let mut rest = text;
        for _ in 0..MAX_QUERY_PARTS {
            rest = rest.trim_start();
            if rest.is_empty() {
                break;
            }
            rest = query.parse_next(rest, now);
        }
        query
    }

    /// Restricts the search to these sessions.
    #[must_use]
    pub fn only_sessions(mut self, sessions: &[impl AsRef<str>]) -> Self {
        self.only_sessions = Some(serde_json::Value::from_iter(sessions.iter().map(AsRef::as_ref)).to_string());
        self
    }

    /// Whether the query is empty.
    pub fn is_empty(&self) -> bool {
        *self == Self { only_sessions: self.only_sessions.clone(), ..Self::default() }
    }

    /// Parses one term or filter at the start; returns the remaining text.
    fn parse_next<'a>(&mut self, text: &'a str, now: &Zoned) -> &'a str {
        let (without, text) = match text.strip_prefix('-') {
            Some(rest) if !rest.starts_with(char::is_whitespace) && !rest.is_empty() => (true, rest),
            _ => (false, text),
        };
        if let Some((name, value)) = text.split_once(':').filter(|(name, _)| is_filter(name)) {
            let (term, rest) = parse_value(value);
            if !term.text.is_empty() && self.add_filter(name, &term, without, now) {
                return rest;
            }
        }
        let (term, rest) = parse_value(text);
        if crate::segmentation::has_words(&term.text) {
            if without { self.excluded_terms.push(term) } else { self.terms.push(term) }
        }
        rest
    }

    /// Whether it was a filter.
    fn add_filter(&mut self, name: &str, term: &SearchTerm, without: bool, now: &Zoned) -> bool {
        let text = term.text.clone();
        match (name, without) {
            ("tool" | "file", _) if crate::segmentation::has_words(&text) => {
                let what = if name == "tool" { NameFilterKind::Tool } else { NameFilterKind::File };
                self.name_filters.push(NameFilter { kind: what, term: term.clone(), is_excluded: without });
            }
            ("workspace", false) => self.workspaces.push(text),
            ("session", false) => self.sessions.push(text),
            ("from", false) => match text.as_str() {
                "person" => self.author = Some(AuthorFilter::User),
                "agent" => self.author = Some(AuthorFilter::Agent),
                _ => return false,
            },
            ("after", false) => match time_expression::parse_time(&text, now) {
                Some(at) => self.after = Some(self.after.map_or(at, |other| other.max(at))),
                None => return false,
            },
            ("before", false) => match time_expression::parse_time(&text, now) {
                Some(at) => self.before = Some(self.before.map_or(at, |other| other.min(at))),
                None => return false,
            },
            _ => return false,
        }
        true
    }
}

fn is_filter(name: &str) -> bool {
    ["workspace", "tool", "file", "before", "after", "from", "session"].contains(&name)
}

/// The value at the start: in quotation marks, if there are two of them, or up to the next space.
fn parse_value(text: &str) -> (SearchTerm, &str) {
    if let Some((phrase, rest)) = text.strip_prefix('"').and_then(|rest| rest.split_once('"')) {
        return match rest.strip_prefix('*') {
            Some(rest) => (SearchTerm { text: phrase.to_owned(), is_prefix: true }, rest),
            None => (SearchTerm { text: phrase.to_owned(), is_prefix: false }, rest),
        };
    }
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    match word.strip_suffix('*') {
        Some(begin) => (SearchTerm { text: begin.to_owned(), is_prefix: begin.ends_with(char::is_alphanumeric) }, rest),
        None => (SearchTerm { text: word.to_owned(), is_prefix: false }, rest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> SearchQuery {
        SearchQuery::parse(text, &"2026-11-16T00:00:00[UTC]".parse().unwrap())
    }

    fn texts(terms: &[SearchTerm]) -> Vec<&str> {
        terms.iter().map(|term| term.text.as_str()).collect()
    }

    #[test]
    fn terms_phrases_prefixes_and_exclusions_are_parsed() {
        let query = read(r#"fix "the login" -test -"in vain" conf* "a b"* -x*"#);
        assert_eq!(texts(&query.terms), ["fix", "the login", "conf", "a b"]);
        assert_eq!(query.terms.iter().map(|term| term.is_prefix).collect::<Vec<_>>(), [false, false, true, true]);
        assert_eq!(texts(&query.excluded_terms), ["test", "in vain", "x"]);
    }

    #[test]
    fn filters_are_not_search_terms() {
        let query = read(r#"workspace:"/home/me/my project" tool:Bash -tool:Read file:src/*.rs from:agent session:1f"#);
        assert!(query.terms.is_empty() && query.excluded_terms.is_empty());
        assert_eq!((query.workspaces, query.sessions), (vec!["/home/me/my project".to_owned()], vec!["1f".to_owned()]));
        assert_eq!(query.author, Some(AuthorFilter::Agent));
        let within: Vec<_> =
            query.name_filters.iter().map(|within| (within.term.text.as_str(), within.is_excluded)).collect();
        assert_eq!(within, [("Bash", false), ("Read", true), ("src/*.rs", false)]);
    }

    #[test]
    fn the_narrowest_of_several_times_applies() {
        let query = read("after:2026-01 after:2026-03 before:2026-06 before:2026-09");
        assert_eq!((query.after, query.before), (Some(1_772_323_200_000), Some(1_780_272_000_000)));
    }

    #[test]
    fn invalid_filters_are_searched_literally() {
        assert_eq!(texts(&read(r#"an "open quote"#).terms), ["an", "\"open", "quote"]);
        assert_eq!(
            texts(&read("after:lunch from:unknown https://x.y tool:").terms),
            ["after:lunch", "from:unknown", "https://x.y", "tool:"]
        );
        assert_eq!(texts(&read("a - b").terms), ["a", "b"]);
        assert_eq!(texts(&read("-from:person").excluded_terms), ["from:person"]);
        for nothing in ["", "  ", "-", "*", "\"\"", "++ ()", "--"] {
            assert!(read(nothing).is_empty(), "{nothing:?}");
        }
    }
}
