//! Parses the text of rules.

use crate::path_pattern::PathPattern;
use crate::rule::{CommandPattern, DomainPattern, Effect, Matcher, Rule, RuleError, RuleScope};
use crate::shell;

const MAX_RULE_BYTES: usize = 8 * 1024;

impl Rule {
    /// Parses the text of a rule: `Bash(git status)`, `Edit(src/**)`, `mcp__github`.
    ///
    /// # Errors
    /// If the text is not a rule, with the position and a fix.
    pub fn parse(effect: Effect, scope: RuleScope, text: &str) -> Result<Self, RuleError> {
        Ok(Self { effect, matcher: text.parse()?, scope })
    }
}

impl std::str::FromStr for Matcher {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        let refuse = |position: usize, problem: &'static str| RuleError {
            text: shell::truncate_for_display(text),
            position: position + 1,
            problem,
        };
        if text.len() > MAX_RULE_BYTES {
            return Err(refuse(0, "it is longer than 8 KiB"));
        }
        if text == "*" {
            return Ok(Self::Everything);
        }
        let (name, content) = match text.split_once('(') {
            None => (text, None),
            Some((name, rest)) => match rest.strip_suffix(')') {
                Some(content) => (name, Some(content)),
                None => return Err(refuse(text.chars().count(), "the closing parenthesis is missing")),
            },
        };
        let is_name_char = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        let (bare, open) = match name.strip_suffix('*') {
            Some(bare) => (bare, true),
            None => (name, false),
        };
        if name.is_empty() {
            return Err(refuse(0, "a rule starts with a tool name, such as `Bash` or `Edit`"));
        }
        if let Some(at) = bare.chars().position(|c| !is_name_char(c)) {
            return Err(refuse(at, "a tool name can contain only letters, digits, `_` and `-`"));
        }
        if bare.starts_with("mcp__") {
            return match content {
                None => Ok(Self::Mcp { name: bare.to_owned(), is_prefix: open }),
                Some(_) => Err(refuse(name.chars().count(), "rules for MCP tools cannot have parentheses")),
            };
        }
        if open {
            let at = bare.chars().count();
            return Err(refuse(at, "only names that start with `mcp__` can end with `*`; use `*` alone for all tools"));
        }
        let offset = name.chars().count() + 1;
        match (name, content) {
            (_, None) | ("Bash", Some("*")) => Ok(Self::Tool(name.to_owned())),
            ("Bash", Some(content)) => {
                parse_command_pattern(content).map(Self::Command).map_err(|problem| refuse(offset, problem))
            }
            (
                "Read" | "Glob" | "Grep" | "LS" | "NotebookRead" | "Edit" | "MultiEdit" | "Write" | "NotebookEdit",
                Some(content),
            ) => match PathPattern::parse(content) {
                Ok(pattern) => Ok(Self::Path { tool: name.to_owned(), pattern }),
                Err((at, problem)) => Err(refuse(offset + at, problem)),
            },
            ("WebFetch", Some(content)) => {
                parse_domain_pattern(content).map(Self::Domain).map_err(|problem| refuse(offset, problem))
            }
            _ => Err(refuse(
                offset - 1,
                "rules for this tool cannot have parentheses; only Bash, file tools and WebFetch can",
            )),
        }
    }
}

fn parse_command_pattern(content: &str) -> Result<CommandPattern, &'static str> {
    let closed = content.strip_suffix(":*").or_else(|| content.strip_suffix(" *"));
    let (text, open) = closed.map_or((content, false), |text| (text, true));
    if text.trim().is_empty() {
        return Err("the parentheses are empty; add a command or remove them");
    }
    let words = shell::parse_single_command(text)?;
    let known: Option<Vec<String>> = words.iter().map(|word| word.as_literal().map(str::to_owned)).collect();
    match known {
        Some(words) if words.is_empty() => Err("the parentheses are empty; add a command or remove them"),
        Some(words) => Ok(CommandPattern { words, is_prefix: open }),
        None => {
            Err("a rule cannot contain shell expansions; quote them, and end with `:*` if more arguments may follow")
        }
    }
}

fn parse_domain_pattern(content: &str) -> Result<DomainPattern, &'static str> {
    let name = content.strip_prefix("domain:").ok_or("specify a domain, as in `WebFetch(domain:example.com)`")?;
    let (name, below) = name.strip_prefix("*.").map_or((name, false), |name| (name, true));
    let host = url::Host::parse(name).map_err(|_| "this is not a valid host name")?;
    Ok(DomainPattern { host: host.to_string().trim_end_matches('.').to_owned(), subdomains_only: below })
}
