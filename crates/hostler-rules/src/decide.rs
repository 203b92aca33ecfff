//! Decides on a tool call by rules and permission mode. A call that neither decides is undecided.

use serde::{Deserialize, Serialize};

use crate::matching::{RestrictionMatch, find_restrictions, match_allow_rules};
use crate::path::{CandidatePaths, PathResolver};
use crate::protected_paths::find_write_protection;
use crate::rule::{Effect, Matcher, Rule};
use crate::rule_set::RuleSet;
use crate::shell::{CommandKind, CommandLine, NON_LITERAL_OPTIONS};
use crate::tool_use::{DecisionContext, PathAccess, ToolTarget, ToolUse};

/// How a session treats calls that no rule decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PermissionMode {
    /// The agent's own permission flow decides, and asks a person where necessary.
    #[default]
    Default,
    /// Edits of files in the workspace are allowed.
    AcceptEdits,
    /// Nothing is written: a call that is not known to be read-only is denied.
    Plan,
    /// Every call is allowed that no rule denies or asks about.
    #[serde(rename = "bypassPermissions")]
    Bypass,
    /// There is no person to ask: a call that would be asked about is denied.
    DontAsk,
}

/// The outcome of a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DecisionOutcome {
    /// The call runs.
    Allow,
    /// A person is asked.
    Ask,
    /// The call does not run.
    Deny,
    /// Neither rules nor mode decide: the agent's own permission flow or the caller does.
    Undecided,
}

/// A decision with its reasons.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// The outcome.
    pub outcome: DecisionOutcome,
    /// The reasons, at least one.
    pub reasons: Vec<DecisionReason>,
}

impl Decision {
    /// Whether a rule is among the reasons.
    pub fn is_by_rule(&self) -> bool {
        self.reasons.iter().any(|why| matches!(why, DecisionReason::Rule { .. }))
    }
}

/// A reason for a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DecisionReason {
    /// A rule matched a part of the call.
    Rule {
        /// The rule.
        rule: Rule,
        /// The part, for example one command of a line.
        part: String,
        /// Whether the part is certain to match the rule. Otherwise it only may.
        is_certain: bool,
    },
    /// A part cannot be analyzed.
    Unanalyzable {
        /// The part.
        part: String,
        /// What makes it unanalyzable.
        reason: &'static str,
    },
    /// The mode decided.
    Mode {
        /// The mode.
        mode: PermissionMode,
        /// The reason, as the end of a sentence.
        reason: &'static str,
    },
    /// No rule matches these parts.
    NoRule {
        /// The parts.
        parts: Vec<String>,
    },
}

/// Decides on a call by rules and mode.
pub fn decide(rules: &RuleSet, mode: PermissionMode, call: &ToolUse, resolver: &dyn PathResolver) -> Decision {
    decide_in_context(rules, mode, &DecisionContext::new(call, resolver))
}

/// Decides on a call whose context already exists.
pub(crate) fn decide_in_context(rules: &RuleSet, mode: PermissionMode, scene: &DecisionContext<'_>) -> Decision {
    let decision = apply_rules_and_mode(rules, mode, scene);
    if mode == PermissionMode::DontAsk && decision.outcome == DecisionOutcome::Ask {
        let mut why = decision.reasons;
        why.push(DecisionReason::Mode { mode, reason: "calls that require approval are denied" });
        return Decision { outcome: DecisionOutcome::Deny, reasons: why };
    }
    decision
}

fn apply_rules_and_mode(rules: &RuleSet, mode: PermissionMode, scene: &DecisionContext<'_>) -> Decision {
    let denials = find_restrictions(scene, rules.iter(), Effect::Deny);
    let (certain, possible): (Vec<_>, Vec<_>) = denials.into_iter().partition(|objection| objection.is_certain);
    if !certain.is_empty() {
        return Decision { outcome: DecisionOutcome::Deny, reasons: rule_reasons(certain) };
    }
    if let (PermissionMode::Plan, Some(because)) = (mode, find_write_reason(scene)) {
        return Decision {
            outcome: DecisionOutcome::Deny,
            reasons: vec![DecisionReason::Mode { mode, reason: because }],
        };
    }
    // Plan mode denies calls that may match a denial, instead of asking: planning continues without them.
    if mode == PermissionMode::Plan && !possible.is_empty() {
        return Decision { outcome: DecisionOutcome::Deny, reasons: rule_reasons(possible) };
    }
    if let (PermissionMode::Bypass, Some(decision)) = (mode, decide_unanalyzable(rules, scene)) {
        return decision;
    }
    let questions = find_restrictions(scene, rules.iter(), Effect::Ask);
    if !questions.is_empty() || !possible.is_empty() {
        let mut why = rule_reasons(questions);
        why.extend(rule_reasons(possible));
        return Decision { outcome: DecisionOutcome::Ask, reasons: why };
    }
    let by_mode =
        |verdict, because| Decision { outcome: verdict, reasons: vec![DecisionReason::Mode { mode, reason: because }] };
    match mode {
        PermissionMode::Bypass => return by_mode(DecisionOutcome::Allow, "no rule denies it or asks about it"),
        PermissionMode::Plan if scene.call.is_mcp() => {
            return by_mode(DecisionOutcome::Ask, "the effects of an MCP tool are unknown");
        }
        PermissionMode::Plan => match &scene.target {
            ToolTarget::Shell(_) | ToolTarget::Files(..) => return by_mode(DecisionOutcome::Allow, "it only reads"),
            _ => {}
        },
        PermissionMode::Default | PermissionMode::AcceptEdits | PermissionMode::DontAsk => {}
    }
    let accepts = |spot: &CandidatePaths| {
        mode == PermissionMode::AcceptEdits
            && scene.is_in_workspace(spot)
            && find_write_protection(spot, scene.host_directories()).is_none()
    };
    let permission = match_allow_rules(scene, rules.iter(), &accepts);
    if permission.covers_all() {
        let granted = permission.granted.into_iter();
        let why =
            granted.map(|(rule, part)| DecisionReason::Rule { rule: rule.clone(), part, is_certain: true }).collect();
        return Decision { outcome: DecisionOutcome::Allow, reasons: why };
    }
    if !permission.unanalyzable.is_empty() {
        let opaque = permission.unanalyzable.into_iter();
        let why = opaque.map(|(part, because)| DecisionReason::Unanalyzable { part, reason: because }).collect();
        return Decision { outcome: DecisionOutcome::Ask, reasons: why };
    }
    if let ToolTarget::Files(PathAccess::Write, spots) = &scene.target
        && spots.iter().all(accepts)
    {
        return by_mode(DecisionOutcome::Allow, "it edits a file in the workspace");
    }
    let parts = if permission.unmatched.is_empty() { vec![scene.call.tool.clone()] } else { permission.unmatched };
    Decision { outcome: DecisionOutcome::Undecided, reasons: vec![DecisionReason::NoRule { parts }] }
}

fn rule_reasons(objections: Vec<RestrictionMatch<'_>>) -> Vec<DecisionReason> {
    let reason = |RestrictionMatch { rule, part, is_certain: certain }: RestrictionMatch<'_>| DecisionReason::Rule {
        rule: rule.clone(),
        part,
        is_certain: certain,
    };
    objections.into_iter().map(reason).collect()
}

/// Why a call is not known to be read-only; `None` if it is.
fn find_write_reason(scene: &DecisionContext<'_>) -> Option<&'static str> {
    match &scene.target {
        ToolTarget::Shell(line) => scene.read_analysis(line).unknown_reason(),
        ToolTarget::Files(PathAccess::Write, _) => Some("it writes a file"),
        ToolTarget::Files(PathAccess::Read | PathAccess::Search, _) | ToolTarget::Host(_) | ToolTarget::ToolOnly => {
            None
        }
        // These tools cannot write, whatever their input is.
        ToolTarget::Unanalyzable(_)
            if matches!(scene.call.tool.as_str(), "Read" | "Glob" | "Grep" | "LS" | "WebFetch") =>
        {
            None
        }
        ToolTarget::Unanalyzable(_) => Some("what it writes is unknown"),
    }
}

/// In bypass mode, an unanalyzable line is denied if a rule denies any command, because the line may run it. If rules
/// deny files only, it is asked about.
fn decide_unanalyzable(rules: &RuleSet, scene: &DecisionContext<'_>) -> Option<Decision> {
    let (part, because) = match &scene.target {
        ToolTarget::Shell(line) => find_unanalyzable(line)?,
        ToolTarget::Unanalyzable(because) if scene.call.tool == "Bash" => (scene.call.tool.clone(), *because),
        _ => return None,
    };
    let denies = |is: fn(&Matcher) -> bool| rules.iter().find(|rule| rule.effect == Effect::Deny && is(&rule.matcher));
    let command = denies(|matcher| matches!(matcher, Matcher::Command(_)));
    let file = || denies(|matcher| matches!(matcher, Matcher::Path { .. }));
    let (verdict, rule) = command
        .map(|rule| (DecisionOutcome::Deny, rule))
        .or_else(|| file().map(|rule| (DecisionOutcome::Ask, rule)))?;
    let named = DecisionReason::Rule { rule: rule.clone(), part: part.clone(), is_certain: false };
    Some(Decision { outcome: verdict, reasons: vec![named, DecisionReason::Unanalyzable { part, reason: because }] })
}

fn find_unanalyzable(line: &CommandLine) -> Option<(String, &'static str)> {
    line.all_commands().into_iter().find_map(|command| match command.kind {
        CommandKind::Unanalyzable(because) => Some((command.text.clone(), because)),
        CommandKind::Launcher(NON_LITERAL_OPTIONS) => Some((command.text.clone(), NON_LITERAL_OPTIONS)),
        _ => None,
    })
}
