//! Reduces the header of a command, skill, agent or output style to descriptive keys.

/// The keys that a header may have. All others are removed: hooks, MCP servers, permissions and keys that later
/// builds may execute.
const ALLOWED_KEYS: &[&str] = &[
    "name",
    "description",
    "argument-hint",
    "arguments",
    "when_to_use",
    "model",
    "effort",
    "tools",
    "disallowedTools",
    "disallowed-tools",
    "color",
    "skills",
    "context",
    "agent",
    "background",
    "disable-model-invocation",
    "user-invocable",
    "keep-coding-instructions",
    "version",
    "license",
    "metadata",
];

/// A text with a reduced header.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ReducedText {
    pub(super) text: String,
    /// The keys that were removed.
    pub(super) removed_keys: Vec<String>,
}

/// Reduces the header of a text. `None` if the header has no end.
///
/// A header is reduced line by line, without a parser that could disagree with the agent's: an entry starts at a line
/// that is not indented, and has a known key or is removed with everything below it. The header ends no earlier than
/// in any reader.
pub(super) fn reduce_header(text: &str) -> Option<ReducedText> {
    // Every character that some reader treats as a line end.
    let text = text
        .trim_start_matches('\u{feff}')
        .replace("\r\n", "\n")
        .replace(['\r', '\u{85}', '\u{2028}', '\u{2029}'], "\n");
    let trimmed = text.trim_start();
    if !trimmed.starts_with("---") {
        return Some(ReducedText { text, removed_keys: Vec::new() });
    }
    let (opening, rest) = trimmed.split_once('\n')?;
    if opening.trim_end() != "---" {
        // A line of dashes, or a header that only lenient readers recognize.
        return opening
            .trim_end()
            .chars()
            .all(|letter| letter == '-')
            .then(|| ReducedText { text: text.clone(), removed_keys: Vec::new() });
    }
    let mut header = String::from("---\n");
    let mut left_out = Vec::new();
    let mut is_allowed = false;
    let mut lines = rest.split('\n');
    loop {
        let line = lines.next()?;
        if line.trim_end() == "---" {
            break;
        }
        let continues = line.trim().is_empty() || line.starts_with([' ', '\t', '#']) || line.starts_with("- ");
        if !continues {
            let key = line.split_once(':').map_or(line, |(key, _)| key).trim_end();
            is_allowed = ALLOWED_KEYS.contains(&key) && !line.contains("---");
            if !is_allowed {
                left_out.push(key.chars().take(40).collect());
            }
        }
        if is_allowed {
            header.push_str(line);
            header.push('\n');
        }
    }
    header.push_str("---\n");
    header.push_str(&lines.collect::<Vec<_>>().join("\n"));
    Some(ReducedText { text: header, removed_keys: left_out })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use super::*;

    #[test]
    fn unknown_keys_are_removed_with_their_contents() {
        let text =
            "---\nname: a\nhooks:\n  Stop:\n    - x\ntools:\n- Read\nmcpServers: {a: 1}\n---\nbody\nhooks: text\n";
        let reduced = reduce_header(text).unwrap();
        assert_eq!(reduced.text, "---\nname: a\ntools:\n- Read\n---\nbody\nhooks: text\n");
        assert_eq!(reduced.removed_keys, ["hooks", "mcpServers"]);
    }

    #[test]
    fn every_form_of_an_unknown_key_is_removed() {
        for header in [
            "\"hooks\": x",
            "'hooks': x",
            "? hooks\n: x",
            "{hooks: x}",
            "  hooks: x",
            "<<: {hooks: x}",
            "name: a\rhooks: x",
            "name: a\u{2028}hooks: x",
            "hooks : x",
            "!!str hooks: x",
            "&a hooks: x",
        ] {
            for start in ["---\n", "\u{feff}---\n", "\n ---  \n", "---\r\n"] {
                let reduced = reduce_header(&format!("{start}{header}\n---\nbody")).unwrap();
                assert!(!reduced.text.contains("hooks"), "{header}: {reduced:?}");
            }
        }
    }

    #[test]
    fn unterminated_header_is_refused_and_text_without_a_header_is_unchanged() {
        assert_eq!(reduce_header("---\nhooks: x\nname: ---"), None);
        assert_eq!(reduce_header("--- hooks: x\n---\n"), None);
        assert_eq!(reduce_header("hello\n---\nhooks: x").unwrap().text, "hello\n---\nhooks: x");
        assert_eq!(reduce_header("-----\ntext").unwrap().text, "-----\ntext");
    }
}
