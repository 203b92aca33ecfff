//! Prints rules. Parsing the result gives the same rule.

use std::fmt;

use crate::rule::{CommandPattern, DomainPattern, Effect, Matcher, Rule, RuleScope};

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.matcher.fmt(f)
    }
}

impl fmt::Display for Matcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Everything => f.write_str("*"),
            Self::Tool(name) => f.write_str(name),
            Self::Mcp { name, is_prefix: open } => write!(f, "{name}{}", if *open { "*" } else { "" }),
            Self::Command(pattern) => write!(f, "Bash({pattern})"),
            Self::Path { tool, pattern } => write!(f, "{tool}({pattern})"),
            Self::Domain(domain) => write!(f, "WebFetch({domain})"),
        }
    }
}

impl fmt::Display for CommandPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, word) in self.words.iter().enumerate() {
            if at > 0 {
                f.write_str(" ")?;
            }
            f.write_str(&quote_word(word))?;
        }
        f.write_str(if self.is_prefix { ":*" } else { "" })
    }
}

impl fmt::Display for DomainPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "domain:{}{}", if self.subdomains_only { "*." } else { "" }, self.host)
    }
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        })
    }
}

impl fmt::Display for RuleScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Global => "global",
            Self::Workspace => "workspace",
            Self::Session => "session",
        })
    }
}

/// Words that are keywords of the shell grammar.
const SHELL_KEYWORDS: [&str; 17] = [
    "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function", "if", "in", "select", "then",
    "time", "until", "while",
];

/// Quotes a word for a shell if necessary.
pub(crate) fn quote_word(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '@' | '%' | '+' | ':' | ',' | '.' | '/' | '-');
    if !word.is_empty() && word.chars().all(plain) && !SHELL_KEYWORDS.contains(&word) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}
