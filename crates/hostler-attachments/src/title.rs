use std::fmt;

/// The longest title, in characters.
const LONGEST: usize = 180;

/// A name that can be shown to people and models: one line, no path, no control characters, not too long.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Title(String);

impl Title {
    /// Makes any name one that can be shown. What is left of nothing is `attachment`.
    pub fn new(name: &str) -> Self {
        let last = name.rsplit(['/', '\\']).find(|part| !part.trim().is_empty()).unwrap_or_default();
        let shown: String = last.chars().filter(|c| !c.is_control()).take(LONGEST).collect();
        let shown = shown.trim();
        Self(if shown.is_empty() || shown == "." || shown == ".." { "attachment" } else { shown }.to_owned())
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Title {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
