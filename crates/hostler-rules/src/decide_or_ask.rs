//! What becomes of a call in a host: nothing is left open.

use std::path::Path;

use serde_json::Value;

use crate::decide::{Decision, DecisionOutcome, DecisionReason, PermissionMode, decide_in_context};
use crate::path::{CandidatePaths, PathResolver};
use crate::plan_file::find_plan_file;
use crate::protected_paths::{SearchExclusion, find_read_protection, has_protected_below};
use crate::rule_set::RuleSet;
use crate::tool_use::{DecisionContext, PathAccess, ToolTarget, ToolUse};

/// Tools that change nothing outside the agent: lists of their own, output of what runs already, and agents whose own
/// calls pass the gate one by one.
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

/// Decides as [`decide`](crate::decide()) does, and what that leaves open as well: what only looks around in the working directory passes,
/// the rest is asked, or denied where nobody is asked. The verdict is never [`Verdict::Leave`]. `plans` is where the agent
/// writes its own plans: in the mode for planning it may, as long as no rule speaks of it.
pub fn decide_or_ask(
    rules: &RuleSet,
    mode: PermissionMode,
    call: &ToolUse,
    plans: Option<&Path>,
    resolver: &dyn PathResolver,
) -> Decision {
    let scene = DecisionContext::new(call, resolver);
    let decision = decide_in_context(rules, mode, &scene);
    if mode == PermissionMode::Plan
        && !decision.is_by_rule()
        && matches!(decision.outcome, DecisionOutcome::Allow | DecisionOutcome::Deny)
        && plans.is_some_and(|plans| find_plan_file(call, plans, resolver).is_some())
    {
        let because = "it is the agent's own plan";
        return Decision {
            outcome: DecisionOutcome::Allow,
            reasons: vec![DecisionReason::Mode { mode, reason: because }],
        };
    }
    let open = match decision.outcome {
        DecisionOutcome::Undecided => true,
        // Planning reads; where, is decided as in every session.
        DecisionOutcome::Allow => mode == PermissionMode::Plan && !decision.is_by_rule(),
        DecisionOutcome::Ask | DecisionOutcome::Deny => false,
    };
    if !open {
        return decision;
    }
    let question = match find_reason_to_ask(&scene) {
        None => {
            let because = "it only reads in the working directory, or touches nothing";
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
        why.push(DecisionReason::Mode { mode, reason: "nobody is asked" });
        return Decision { outcome: DecisionOutcome::Deny, reasons: why };
    }
    Decision { outcome: DecisionOutcome::Ask, reasons: why }
}

/// Why a call that no rule decides needs a person; nothing if it only reads in the working directory, or touches nothing.
/// Empty where there is no more to say than that no rule decides it.
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
    // The agent's search takes hidden files, and leaves repositories out unless its pattern takes them back.
    let skips = match scene.call.input.get("glob") {
        None | Some(Value::Null) => SearchExclusion::GitDirectory,
        Some(Value::String(glob)) if !may_match_git_directory(glob) => SearchExclusion::GitDirectory,
        Some(_) => SearchExclusion::Nothing,
    };
    let guarded = below && has_protected_below(spot, scene.host_directories(), scene.home(), skips, scene.resolver);
    find_read_protection(spot, scene.host_directories())
        .or(guarded.then_some("files that need a question are below it"))
}

/// Could one of these patterns match `.git`? Endings as `*.rs` and `*.{ts,tsx}` and plain names do not.
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
        let reads = "it only reads in the working directory, or touches nothing.";
        for (mode, call, expected) in [
            (PermissionMode::Default, "Bash(make all)", "Allowed: the global rule `Bash(make:*)` allows `make all`."),
            (PermissionMode::Default, "Read(src/main.rs)", &*format!("Allowed: in the mode default, {reads}")),
            (PermissionMode::Default, "Read(/etc/passwd)", "Asked: no rule speaks of `/etc/passwd`."),
            (PermissionMode::Default, "Bash(touch x)", "Asked: no rule speaks of `touch x`."),
            (PermissionMode::DontAsk, "Bash(touch x)", "Denied: no rule speaks of `touch x`."),
            (PermissionMode::Plan, "Read(src/main.rs)", &*format!("Allowed: in the mode plan, {reads}")),
            (PermissionMode::Plan, "Read(/etc/passwd)", "Asked: no rule speaks of `Read`."),
            (PermissionMode::Plan, "Write(x)", "Denied: in the mode plan, it writes a file."),
            (PermissionMode::Plan, "Write(/plans/mine.md)", "Allowed: in the mode plan, it is the agent's own plan."),
            (PermissionMode::Plan, "Write(/plans/mine.sh)", "Denied: in the mode plan, it writes a file."),
            (PermissionMode::Default, "Write(/plans/mine.md)", "Asked: no rule speaks of `/plans/mine.md`."),
        ] {
            let said = said(mode, call);
            assert_eq!(said.first().map(String::as_str), Some(expected), "{call} in {mode:?}: {said:?}");
        }
    }
}
