//! The header of a command, skill, agent or output style, reduced to what describes it.

/// What a header may say. Everything else is left out: hooks, tool servers, permissions and whatever later builds run.
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
    /// The keys that were left out.
    pub(super) removed_keys: Vec<String>,
}

/// Reduces the header of a text. `None` if it begins one and does not end it.
///
/// A header is reduced line by line, without a parser of its own opinion: an entry begins where a line is not indented, and
/// belongs to a known key or is left out with everything below it. The header ends no earlier than readers say it does.
pub(super) fn reduce_header(text: &str) -> Option<ReducedText> {
    // Every character that some reader takes for the end of a line.
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
        // A line of dashes, or a header that only lenient readers see.
        return opening
            .trim_end()
            .chars()
            .all(|letter| letter == '-')
            .then(|| ReducedText { text: text.clone(), removed_keys: Vec::new() });
    }
    let mut header = String::from("---\n");
    let mut left_out = Vec::new();
    let mut keeps = false;
    let mut lines = rest.split('\n');
    loop {
        let line = lines.next()?;
        if line.trim_end() == "---" {
            break;
        }
        let continues = line.trim().is_empty() || line.starts_with([' ', '\t', '#']) || line.starts_with("- ");
        if !continues {
            let key = line.split_once(':').map_or(line, |(key, _)| key).trim_end();
            keeps = ALLOWED_KEYS.contains(&key) && !line.contains("---");
            if !keeps {
                left_out.push(key.chars().take(40).collect());
            }
        }
        if keeps {
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
    fn known_keys_stay_and_others_go_with_all_that_is_below_them() {
        let text =
            "---\nname: a\nhooks:\n  Stop:\n    - x\ntools:\n- Read\nmcpServers: {a: 1}\n---\nbody\nhooks: text\n";
        let reduced = reduce_header(text).unwrap();
        assert_eq!(reduced.text, "---\nname: a\ntools:\n- Read\n---\nbody\nhooks: text\n");
        assert_eq!(reduced.removed_keys, ["hooks", "mcpServers"]);
    }

    #[test]
    fn no_form_of_a_key_gets_through() {
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
    fn a_header_without_an_end_is_refused_and_a_text_without_a_header_stays() {
        assert_eq!(reduce_header("---\nhooks: x\nname: ---"), None);
        assert_eq!(reduce_header("--- hooks: x\n---\n"), None);
        assert_eq!(reduce_header("hello\n---\nhooks: x").unwrap().text, "hello\n---\nhooks: x");
        assert_eq!(reduce_header("-----\ntext").unwrap().text, "-----\ntext");
    }
}
