//! Which entries of `anthropic-beta` reach an upstream.

use http::HeaderMap;

use crate::upstream::BetaPolicy;

/// What an upstream that takes only some betas is told, unless the configuration says otherwise.
pub const DEFAULT_ALLOWED_BETAS: [&str; 3] = ["interleaved-thinking", "context-management", "advanced-tool-use"];

/// The betas of a request that this upstream is told, in their order.
pub(crate) fn filter_for_upstream(headers: &HeaderMap, betas: BetaPolicy, allowed: &[String]) -> Vec<String> {
    let sent = headers
        .get_all("anthropic-beta")
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .filter(|beta| !beta.is_empty());
    let told = sent.filter(|beta| match betas {
        BetaPolicy::All => true,
        BetaPolicy::Allowed => allowed.iter().any(|prefix| is_dated_version_of(beta, prefix)),
        BetaPolicy::None => false,
    });
    told.map(str::to_owned).collect()
}

/// A beta is told with its edition only: the bare name says nothing about what is meant.
fn is_dated_version_of(beta: &str, allowed: &str) -> bool {
    beta.strip_prefix(allowed).and_then(|rest| rest.strip_prefix('-')).is_some_and(|edition| !edition.is_empty())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn the_beta_table() {
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
