//! Fuzzy matching of names for completions. Pure.

/// Scores a path; the smallest score is the best match. `None` if it does not match.
///
/// A name matches if it contains the letters of the query in order, regardless of case. A query with a slash is matched
/// against the whole path, others against its last segment.
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

/// Quality of the match, then depth and length of the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct MatchScore(MatchQuality, usize, usize);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum MatchQuality {
    Exact,
    Prefix,
    WordPrefix,
    Substring,
    /// The number of letters that the match spans.
    Subsequence(usize),
}

/// Whether a word of a name starts with the query.
fn has_word_prefix(name: &str, query: &str) -> bool {
    name.match_indices(query).any(|(place, _)| {
        let before = name.get(..place).and_then(|before| before.chars().next_back());
        before.is_none_or(|before| !before.is_alphanumeric())
    })
}

/// The number of letters from the first to the last match.
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
    fn better_matches_rank_first_regardless_of_case() {
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
    fn empty_query_matches_all_with_shallow_paths_first() {
        assert_eq!(best("", &["a/b/c", "z", "a/y"]), ["z", "a/y", "a/b/c"]);
    }
}
