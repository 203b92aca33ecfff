//! How well a name fits what somebody has typed. Pure.

/// How well a path fits; the smallest is the best. `None` if it does not.
///
/// The letters of the query stand in the name in their order, whatever their case. A query with a slash is looked for in
/// the whole path, others in its last part.
pub(super) fn score_match(query: &str, path: &str) -> Option<MatchScore> {
    let query = query.to_lowercase();
    let path = path.to_lowercase();
    let base = path.rsplit('/').next().unwrap_or(&path);
    let name = if query.contains('/') { path.as_str() } else { base };
    let closeness = if name == query {
        MatchQuality::Exact
    } else if name.starts_with(&query) {
        MatchQuality::Prefix
    } else if has_word_prefix(name, &query) {
        MatchQuality::WordPrefix
    } else if name.contains(&query) {
        MatchQuality::Substring
    } else {
        MatchQuality::Subsequence(subsequence_span(name, &query)?)
    };
    Some(MatchScore(closeness, path.matches('/').count(), path.len()))
}

/// Closeness, then how deep and how long the path is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct MatchScore(MatchQuality, usize, usize);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum MatchQuality {
    Exact,
    Prefix,
    WordPrefix,
    Substring,
    /// Over how many letters the query's are spread.
    Subsequence(usize),
}

/// Whether some word of a name begins with the query.
fn has_word_prefix(name: &str, query: &str) -> bool {
    name.match_indices(query).any(|(place, _)| {
        let before = name.get(..place).and_then(|before| before.chars().next_back());
        before.is_none_or(|before| !before.is_alphanumeric())
    })
}

/// The letters from the first to the last one of the query.
fn subsequence_span(name: &str, query: &str) -> Option<usize> {
    let mut letters = name.chars().enumerate();
    let mut first = None;
    let mut last = 0;
    for wanted in query.chars() {
        let (place, _) = letters.find(|(_, letter)| *letter == wanted)?;
        first.get_or_insert(place);
        last = place;
    }
    Some(last - first.unwrap_or(last))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn best<'a>(query: &str, paths: &[&'a str]) -> Vec<&'a str> {
        let mut found: Vec<_> = paths.iter().filter_map(|path| Some((score_match(query, path)?, *path))).collect();
        found.sort();
        found.into_iter().map(|(_, path)| path).collect()
    }

    #[test]
    fn names_that_fit_better_come_first_whatever_their_case() {
        let paths = ["src/domain.rs", "docs/main", "src/MAIN.rs", "x/y/my_main.rs", "m/a/i/n.rs", "src/magic_inn.rs"];
        assert_eq!(
            best("main", &paths),
            ["docs/main", "src/MAIN.rs", "x/y/my_main.rs", "src/domain.rs", "src/magic_inn.rs"]
        );
        let whole = best("src/ma", &paths);
        assert_eq!(whole, ["src/MAIN.rs", "src/magic_inn.rs", "src/domain.rs"], "a slash looks at the whole path");
        assert_eq!(best("zz", &paths), [""; 0]);
    }

    #[test]
    fn nothing_fits_everything_and_what_is_nearer_comes_first() {
        assert_eq!(best("", &["a/b/c", "z", "a/y"]), ["z", "a/y", "a/b/c"]);
    }
}
