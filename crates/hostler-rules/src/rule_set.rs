//! A set of rules and its stored form.

use serde::{Deserialize, Serialize};

use crate::rule::{Effect, Rule, RuleError, RuleScope};

/// Rules in the order of insertion, without duplicates.
///
/// Its stored form, in JSON and TOML alike, contains a version, so that a host does not misinterpret the rules of a
/// newer one: `{"version": 1, "rules": [{"effect": "deny", "scope": "global", "rule": "Bash(rm:*)"}]}`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "StoredRuleSet", into = "StoredRuleSet")]
pub struct RuleSet {
    rules: Vec<Rule>,
}

/// Why rules cannot be added to a set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RuleSetError {
    /// A rule's text cannot be parsed. The error contains its position, not its text: an allowed command may contain a
    /// password.
    #[error("stored rule {number} is invalid: {problem} (at character {position})")]
    InvalidRule {
        /// The number of the rule, from 1.
        number: usize,
        /// Position in its text in characters, from 1.
        position: usize,
        /// How to fix it.
        problem: &'static str,
    },
    /// The stored rules have another version.
    #[error("stored rules have version {found}, but only version {RULE_SET_VERSION} is supported; update Hostler")]
    UnsupportedVersion {
        /// The stored version.
        found: u32,
    },
    /// The set holds the maximum number of rules.
    #[error("the limit of {MAX_RULES} rules is reached; remove rules that are no longer needed")]
    TooManyRules,
}

impl RuleSetError {
    /// The machine-readable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::InvalidRule { .. } => "invalidRule",
            Self::UnsupportedVersion { .. } => "unsupportedVersion",
            Self::TooManyRules => "tooManyRules",
        }
    }
}

const RULE_SET_VERSION: u32 = 1;
const MAX_RULES: usize = 4096;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredRuleSet {
    version: u32,
    #[serde(default)]
    rules: Vec<StoredRule>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredRule {
    effect: Effect,
    scope: RuleScope,
    rule: String,
}

impl RuleSet {
    /// The rules.
    pub fn iter(&self) -> std::slice::Iter<'_, Rule> {
        self.rules.iter()
    }

    /// The number of rules.
    pub fn len(&self) -> usize {
        self.rules.len()
    }

    /// Whether the set has no rules.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Adds a rule; returns whether it is new.
    ///
    /// # Errors
    /// If there are too many.
    pub fn add(&mut self, rule: Rule) -> Result<bool, RuleSetError> {
        if self.rules.contains(&rule) {
            return Ok(false);
        }
        if self.rules.len() >= MAX_RULES {
            return Err(RuleSetError::TooManyRules);
        }
        self.rules.push(rule);
        Ok(true)
    }

    /// Removes a rule; returns whether it was present.
    pub fn remove(&mut self, rule: &Rule) -> bool {
        let before = self.rules.len();
        self.rules.retain(|other| other != rule);
        self.rules.len() != before
    }

    /// Adds all rules of another set, for a decision over several scopes.
    ///
    /// # Errors
    /// If there are too many.
    pub fn merge(&mut self, other: &Self) -> Result<(), RuleSetError> {
        other.iter().try_for_each(|rule| self.add(rule.clone()).map(drop))
    }
}

impl<'a> IntoIterator for &'a RuleSet {
    type Item = &'a Rule;
    type IntoIter = std::slice::Iter<'a, Rule>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl TryFrom<StoredRuleSet> for RuleSet {
    type Error = RuleSetError;

    fn try_from(stored: StoredRuleSet) -> Result<Self, RuleSetError> {
        if stored.version != RULE_SET_VERSION {
            return Err(RuleSetError::UnsupportedVersion { found: stored.version });
        }
        if stored.rules.len() > MAX_RULES {
            return Err(RuleSetError::TooManyRules);
        }
        let mut set = Self::default();
        for (at, StoredRule { effect, scope, rule }) in stored.rules.into_iter().enumerate() {
            let rule = Rule::parse(effect, scope, &rule).map_err(|RuleError { position, problem, .. }| {
                RuleSetError::InvalidRule { number: at + 1, position, problem }
            })?;
            set.add(rule)?;
        }
        Ok(set)
    }
}

impl From<RuleSet> for StoredRuleSet {
    fn from(set: RuleSet) -> Self {
        let stored = |rule: Rule| StoredRule { effect: rule.effect, scope: rule.scope, rule: rule.to_string() };
        Self { version: RULE_SET_VERSION, rules: set.rules.into_iter().map(stored).collect() }
    }
}
