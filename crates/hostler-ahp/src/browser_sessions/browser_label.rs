//! A label for a browser, from its `User-Agent`: enough to recognize one's own browser in a short list.

/// Markers that identify browsers, the specific ones first: most browsers also claim to be older ones.
const BROWSER_MARKERS: [(&str, &str); 9] = [
    ("Edg", "Edge"),
    ("OPR/", "Opera"),
    ("SamsungBrowser/", "Samsung Internet"),
    ("FxiOS/", "Firefox"),
    ("Firefox/", "Firefox"),
    ("CriOS/", "Chrome"),
    ("Chromium/", "Chromium"),
    ("Chrome/", "Chrome"),
    ("Safari/", "Safari"),
];

const SYSTEM_MARKERS: [(&str, &str); 8] = [
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Android", "Android"),
    ("CrOS", "ChromeOS"),
    ("Windows", "Windows"),
    ("Mac OS X", "macOS"),
    ("Macintosh", "macOS"),
    ("Linux", "Linux"),
];

/// A short label; contains no text that the browser chose.
pub(super) fn browser_label(user_agent: &str) -> String {
    let find = |markers: &[(&str, &'static str)]| {
        markers.iter().find(|(marker, _)| user_agent.contains(marker)).map(|(_, name)| *name)
    };
    match (find(&BROWSER_MARKERS), find(&SYSTEM_MARKERS)) {
        (Some(browser), Some(system)) => format!("{browser} on {system}"),
        (Some(browser), None) => browser.to_owned(),
        (None, Some(system)) => format!("A browser on {system}"),
        (None, None) => "A browser".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn browsers_are_labeled_by_their_common_names() {
        for (user_agent, expected) in [
            ("Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0", "Firefox on Linux"),
            (
                "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 Chrome/140.0.0.0 Safari/537.36 Edg/140.0",
                "Edge on Windows",
            ),
            (
                "Mozilla/5.0 (Linux; Android 15; K) AppleWebKit/537.36 Chrome/140.0.0.0 Mobile Safari/537.36",
                "Chrome on Android",
            ),
            (
                "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) Version/18.5 Mobile/15E148 Safari/604.1",
                "Safari on iPhone",
            ),
            ("Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) Version/18.5 Safari/605.1.15", "Safari on macOS"),
            ("curl/8", "A browser"),
            ("\u{1b}[2J", "A browser"),
            ("", "A browser"),
        ] {
            assert_eq!(browser_label(user_agent), expected, "{user_agent}");
        }
    }
}
