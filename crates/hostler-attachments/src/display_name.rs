//! Display names of attachments, sanitized for people and models.

use std::fmt;

/// Maximum length in characters.
const MAX_DISPLAY_NAME_CHARS: usize = 180;

/// A name that is safe to display: one line, without a path or invisible characters, and of limited length.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(transparent)]
pub struct DisplayName(String);

impl DisplayName {
    /// Sanitizes a name. An empty result becomes `attachment`.
    pub fn new(name: &str) -> Self {
        let last = name.rsplit(['/', '\\']).find(|part| !part.trim().is_empty()).unwrap_or_default();
        let shown: String = last.chars().filter(|c| is_displayable(*c)).take(MAX_DISPLAY_NAME_CHARS).collect();
        let shown = shown.trim();
        Self(if shown.is_empty() || shown == "." || shown == ".." { "attachment" } else { shown }.to_owned())
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Whether a character is visible and neither breaks a line nor changes the text direction.
fn is_displayable(c: char) -> bool {
    !c.is_control()
        && !matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

impl fmt::Display for DisplayName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_name_becomes_one_short_line_without_a_path() {
        for (name, shown) in [
            ("photo.png", "photo.png"),
            ("/home/me/secret/photo.png", "photo.png"),
            ("C:\\Users\\me\\photo.png", "photo.png"),
            ("../../etc/", "etc"),
            ("a\nb\r\tc\u{7}\u{0}.txt", "abc.txt"),
            ("evil\u{202e}gnp.exe", "evilgnp.exe"),
            ("\u{2066}x\u{2069}\u{200f}\u{feff}.md", "x.md"),
            ("line\u{2028}break", "linebreak"),
            ("Übersicht 漢字 👩\u{200d}🔬.md", "Übersicht 漢字 👩\u{200d}🔬.md"),
            ("", "attachment"),
            ("   ", "attachment"),
            ("/", "attachment"),
            ("..", "attachment"),
            ("/compact", "compact"),
        ] {
            assert_eq!(DisplayName::new(name).as_str(), shown, "{name:?}");
        }
        assert_eq!(DisplayName::new(&"ä".repeat(10_000)).as_str().chars().count(), MAX_DISPLAY_NAME_CHARS);
    }
}
