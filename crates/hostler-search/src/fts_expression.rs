//! Converts a query to FTS5 syntax. Texts are always quoted, so that they are never parsed as syntax.

use crate::document::TextKind;
use crate::query::{AuthorFilter, NameFilterKind, SearchQuery, SearchTerm};
use crate::segmentation;

impl SearchQuery {
    /// What a turn has to match; `None` if only filters of other kinds apply.
    pub(crate) fn match_expression(&self) -> Option<String> {
        let mut all = self.term_expressions();
        all.extend(
            self.name_filters
                .iter()
                .filter(|within| !within.is_excluded)
                .map(|within| name_expression(within.kind, &within.term)),
        );
        let wanted = (!all.is_empty()).then(|| all.join(" AND "))?;
        Some(match self.exclude_expression() {
            Some(unwanted) => format!("({wanted}) NOT ({unwanted})"),
            None => wanted,
        })
    }

    /// What a turn must not match.
    pub(crate) fn exclude_expression(&self) -> Option<String> {
        let terms = self.excluded_terms.iter().map(term_expression);
        let named = self
            .name_filters
            .iter()
            .filter(|within| within.is_excluded)
            .map(|within| name_expression(within.kind, &within.term));
        let any: Vec<String> = terms.chain(named).collect();
        (!any.is_empty()).then(|| any.join(" OR "))
    }

    /// What is highlighted as a match: terms or, if there are none, the names in the filters.
    pub(crate) fn highlight_expression(&self) -> Option<String> {
        let terms = self.term_expressions();
        if terms.is_empty() {
            let named = self.name_filters.iter().filter(|within| !within.is_excluded);
            let named: Vec<String> = named.map(|within| self::name_expression(within.kind, &within.term)).collect();
            return (!named.is_empty()).then(|| named.join(" OR "));
        }
        Some(terms.join(" OR "))
    }

    fn term_expressions(&self) -> Vec<String> {
        let of = |term: &SearchTerm| match self.author {
            None => term_expression(term),
            Some(AuthorFilter::User) => column_expression(&[TextKind::User], term),
            Some(AuthorFilter::Agent) => column_expression(
                &[
                    TextKind::Answer,
                    TextKind::Files,
                    TextKind::ToolName,
                    TextKind::ToolInput,
                    TextKind::ToolOutput,
                    TextKind::Reasoning,
                ],
                term,
            ),
        };
        self.terms.iter().map(of).collect()
    }
}

fn name_expression(what: NameFilterKind, term: &SearchTerm) -> String {
    match what {
        NameFilterKind::Tool => column_expression(&[TextKind::ToolName], term),
        NameFilterKind::File => column_expression(&[TextKind::Files], term),
    }
}

fn column_expression(kinds: &[TextKind], term: &SearchTerm) -> String {
    let names: Vec<_> = kinds.iter().map(|kind| kind.as_str()).collect();
    format!("{{{}}} : {}", names.join(" "), term_expression(term))
}

fn term_expression(term: &SearchTerm) -> String {
    let quoted = segmentation::segment(&term.text).replace('"', "\"\"");
    format!("\"{quoted}\"{}", if term.is_prefix { " *" } else { "" })
}
