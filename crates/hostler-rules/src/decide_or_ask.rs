//! The host's decision on a tool call: allow, ask or deny, never undecided.

use std::path::Path;

use serde_json::Value;

use crate::decide::{Decision, DecisionOutcome, DecisionReason, PermissionMode, decide_in_context};
use crate::path::{CandidatePaths, PathResolver};
use crate::plan_file::find_plan_file;
use crate::protected_paths::{SearchExclusion, find_read_protection, has_protected_below};
use crate::rule_set::RuleSet;
use crate::tool_use::{DecisionContext, PathAccess, ToolTarget, ToolUse};

/// Tools without effects outside the agent: its own lists, output of running commands, and sub-agents, whose own calls
/// are checked one by one.
const HARMLESS_TOOLS: [&str; 14] = [
    "Agent",
    "AgentOutput",
    "BashOutput",
    "EnterPlanMode",
    "KillShell",
    "Task",
    "TaskCreate",
    "TaskGet",
    "TaskList",
    "TaskOutput",
    "TaskStop",
    "TaskUpdate",
    "TodoWrite",
    "ToolSearch",
];

/// Decides like [`decide`](crate::decide()), and also on calls that remain undecided: reads in the working directory
/// are allowed, all others are asked about, or denied if the mode denies instead of asking. The outcome is never
/// [`DecisionOutcome::Undecided`]. `plans` is the directory of the agent's own plans: in plan mode the agent may write
/// there, unless a rule decides otherwise.
pub fn decide_or_ask(
    rules: &RuleSet,
    mode: PermissionMode,
    call: &ToolUse,
    plans: Option<&Path>,
    resolver: &dyn PathResolver,
) -> Decision {
    tracing::trace!(tool = call.tool, "evaluating a tool call");
    let scene = DecisionContext::new(call, resolver);
    let decision = decide_in_context(rules, mode, &scene);
    if mode == PermissionMode::Plan
        && !decision.is_by_rule()
        && matches!(decision.outcome, DecisionOutcome::Allow | DecisionOutcome::Deny)
        && plans.is_some_and(|plans| find_plan_file(call, plans, &scene.resolver).is_some())
    {
        let because = "it is the agent's plan file";
        return Decision {
            outcome: DecisionOutcome::Allow,
            reasons: vec![DecisionReason::Mode { mode, reason: because }],
        };
    }
    let open = match decision.outcome {
        DecisionOutcome::Undecided => true,
        // Plan mode allows reads in general; where they are allowed is decided as in every other mode.
        DecisionOutcome::Allow => mode == PermissionMode::Plan && !decision.is_by_rule(),
        DecisionOutcome::Ask | DecisionOutcome::Deny => false,
    };
    if !open {
        return decision;
    }
    let question = match find_reason_to_ask(&scene) {
        None => {
            let because = "it only reads in the working directory or has no side effects";
            return Decision {
                outcome: DecisionOutcome::Allow,
                reasons: vec![DecisionReason::Mode { mode, reason: because }],
            };
        }
        Some(question) => question,
    };
    let mut why = match decision.outcome {
        DecisionOutcome::Undecided => decision.reasons,
        _ => vec![DecisionReason::NoRule { parts: vec![call.tool.clone()] }],
    };
    if !question.is_empty() {
        why.push(DecisionReason::Mode { mode, reason: question });
    }
    if mode == PermissionMode::DontAsk {
        why.push(DecisionReason::Mode { mode, reason: "calls that require approval are denied" });
        return Decision { outcome: DecisionOutcome::Deny, reasons: why };
    }
    Decision { outcome: DecisionOutcome::Ask, reasons: why }
}

/// Why an undecided call needs a person; `None` if it only reads in the working directory or has no effect. Empty if
/// there is no other reason than that no rule matches.
fn find_reason_to_ask(scene: &DecisionContext<'_>) -> Option<&'static str> {
    if HARMLESS_TOOLS.contains(&scene.call.tool.as_str()) {
        return None;
    }
    match &scene.target {
        ToolTarget::Shell(line) => {
            let reading = scene.read_analysis(line);
            if reading.is_safe() {
                None
            } else {
                Some(reading.unknown_reason().or(reading.approval_reason()).unwrap_or_default())
            }
        }
        ToolTarget::Files(access @ (PathAccess::Read | PathAccess::Search), spots) => {
            spots.iter().find_map(|spot| find_reason_to_ask_about_path(scene, spot, *access == PathAccess::Search))
        }
        ToolTarget::Files(PathAccess::Write, _)
        | ToolTarget::Host(_)
        | ToolTarget::ToolOnly
        | ToolTarget::Unanalyzable(_) => Some(""),
    }
}

fn find_reason_to_ask_about_path(
    scene: &DecisionContext<'_>,
    spot: &CandidatePaths,
    below: bool,
) -> Option<&'static str> {
    if !scene.is_in_workspace(spot) {
        return Some("it reads outside the working directory");
    }
    // The agent's search includes hidden files. It excludes `.git`, unless its pattern includes it.
    let skips = match scene.call.input.get("glob") {
        None | Some(Value::Null) => SearchExclusion::GitDirectory,
        Some(Value::String(glob)) if !may_match_git_directory(glob) => SearchExclusion::GitDirectory,
        Some(_) => SearchExclusion::Nothing,
    };
    let guarded = below && has_protected_below(spot, scene.host_directories(), scene.home(), skips, &scene.resolver);
    find_read_protection(spot, scene.host_directories())
        .or(guarded.then_some("it searches files that require approval"))
}

/// Can one of these patterns match `.git`? Extensions such as `*.rs` and `*.{ts,tsx}` and plain names cannot.
fn may_match_git_directory(glob: &str) -> bool {
    glob.split(|c: char| c.is_whitespace() || c == ',').filter(|pattern| !pattern.is_empty()).any(|pattern| {
        let name = pattern.rsplit('/').next().unwrap_or_default();
        let name = name.trim_start_matches("*.").trim_start_matches('{').trim_end_matches('}');
        let is_plain = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
        !is_plain || name.to_ascii_lowercase().ends_with("git")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::explain;
    use crate::path::StaticLinks;
    use crate::rule::{Effect, Rule, RuleScope};

    fn said(mode: PermissionMode, call: &str) -> Vec<String> {
        let mut rules = RuleSet::default();
        rules.add(Rule::parse(Effect::Allow, RuleScope::Global, "Bash(make:*)").unwrap()).unwrap();
        let call = ToolUse::parse(call, "/project").unwrap();
        explain(&decide_or_ask(&rules, mode, &call, Some(Path::new("/plans")), &StaticLinks::default()))
    }

    #[test]
    fn decide_or_ask_never_returns_undecided() {
        let reads = "it only reads in the working directory or has no side effects";
        for (mode, call, expected) in [
            (PermissionMode::Default, "Bash(make all)", "Allowed: the global rule `Bash(make:*)` allows `make all`."),
            (PermissionMode::Default, "Read(src/main.rs)", &*format!("Allowed: {reads} (default mode).")),
            (PermissionMode::Default, "Read(/etc/passwd)", "Requires approval: no rule matches `/etc/passwd`."),
            (PermissionMode::Default, "Bash(touch x)", "Requires approval: no rule matches `touch x`."),
            (PermissionMode::DontAsk, "Bash(touch x)", "Denied: no rule matches `touch x`."),
            (PermissionMode::Plan, "Read(src/main.rs)", &*format!("Allowed: {reads} (plan mode).")),
            (PermissionMode::Plan, "Read(/etc/passwd)", "Requires approval: no rule matches `Read`."),
            (PermissionMode::Plan, "Write(x)", "Denied: it writes a file (plan mode)."),
            (PermissionMode::Plan, "Write(/plans/mine.md)", "Allowed: it is the agent's plan file (plan mode)."),
            (PermissionMode::Plan, "Write(/plans/mine.sh)", "Denied: it writes a file (plan mode)."),
            (PermissionMode::Default, "Write(/plans/mine.md)", "Requires approval: no rule matches `/plans/mine.md`."),
        ] {
            let said = said(mode, call);
            assert_eq!(said.first().map(String::as_str), Some(expected), "{call} in {mode:?}: {said:?}");
        }
    }
}
