//! Filters the entries of `anthropic-beta` that are sent to an upstream.

use http::HeaderMap;

use crate::upstream::BetaPolicy;

/// Betas that are sent to an upstream with [`BetaPolicy::Allowed`], unless the configuration lists others; names
/// without dates.
pub const DEFAULT_ALLOWED_BETAS: [&str; 3] = ["interleaved-thinking", "context-management", "advanced-tool-use"];

/// Returns the betas of a request that are sent to this upstream, in their original order.
pub(crate) fn filter_for_upstream(headers: &HeaderMap, betas: BetaPolicy, allowed: &[String]) -> Vec<String> {
    let sent = headers
        .get_all("anthropic-beta")
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .filter(|beta| !beta.is_empty());
    let forwarded = sent.filter(|beta| match betas {
        BetaPolicy::All => true,
        BetaPolicy::Allowed => allowed.iter().any(|prefix| is_dated_version_of(beta, prefix)),
        BetaPolicy::None => false,
    });
    forwarded.map(str::to_owned).collect()
}

/// Whether `beta` is `allowed` plus a date. A name without a date does not identify a version and is not sent.
fn is_dated_version_of(beta: &str, allowed: &str) -> bool {
    beta.strip_prefix(allowed).and_then(|rest| rest.strip_prefix('-')).is_some_and(|edition| !edition.is_empty())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn betas_are_filtered_by_the_upstreams_policy() {
        let allowed = DEFAULT_ALLOWED_BETAS.map(str::to_owned);
        for (sent, all, some) in [
            (&[][..], "", ""),
            (
                &["interleaved-thinking-2025-05-14"],
                "interleaved-thinking-2025-05-14",
                "interleaved-thinking-2025-05-14",
            ),
            (&["interleaved-thinking"], "interleaved-thinking", ""),
            (&["interleaved-thinking-"], "interleaved-thinking-", ""),
            (&["interleaved-thinkingx-1"], "interleaved-thinkingx-1", ""),
            (
                &["claude-code-20250219, context-management-2025-06-27 ,,", "advanced-tool-use-2025-11-20"],
                "claude-code-20250219,context-management-2025-06-27,advanced-tool-use-2025-11-20",
                "context-management-2025-06-27,advanced-tool-use-2025-11-20",
            ),
            (&["oauth-2025-04-20"], "oauth-2025-04-20", ""),
        ] {
            let mut headers = HeaderMap::new();
            for value in sent {
                headers.append("anthropic-beta", HeaderValue::from_static(value));
            }
            assert_eq!(filter_for_upstream(&headers, BetaPolicy::All, &allowed).join(","), all, "{sent:?}");
            assert_eq!(filter_for_upstream(&headers, BetaPolicy::Allowed, &allowed).join(","), some, "{sent:?}");
            assert!(filter_for_upstream(&headers, BetaPolicy::None, &allowed).is_empty());
        }
    }
}
