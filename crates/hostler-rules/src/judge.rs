//! What becomes of a call in a host: nothing is left open.

use std::path::Path;

use serde_json::Value;

use crate::call::{Access, Call, Scene, Touched};
use crate::decide::{Decision, Mode, Verdict, Why, decide_scene};
use crate::path::{Resolver, Spot};
use crate::plan::plan_of;
use crate::protected::{Skips, guards_below, guards_reading};
use crate::set::RuleSet;

/// Tools that change nothing outside the agent: lists of their own, output of what runs already, and agents whose own
/// calls pass the gate one by one.
const HARMLESS: [&str; 14] = [
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
pub fn judge(rules: &RuleSet, mode: Mode, call: &Call, plans: Option<&Path>, resolver: &dyn Resolver) -> Decision {
    let scene = Scene::new(call, resolver);
    let decision = decide_scene(rules, mode, &scene);
    if mode == Mode::Plan
        && !decision.is_by_rule()
        && matches!(decision.verdict, Verdict::Allow | Verdict::Deny)
        && plans.is_some_and(|plans| plan_of(call, plans, resolver).is_some())
    {
        let because = "it is the agent's own plan";
        return Decision { verdict: Verdict::Allow, why: vec![Why::Mode { mode, because }] };
    }
    let open = match decision.verdict {
        Verdict::Leave => true,
        // Planning reads; where, is decided as in every session.
        Verdict::Allow => mode == Mode::Plan && !decision.is_by_rule(),
        Verdict::Ask | Verdict::Deny => false,
    };
    if !open {
        return decision;
    }
    let question = match question(&scene) {
        None => {
            let because = "it only reads in the working directory, or touches nothing";
            return Decision { verdict: Verdict::Allow, why: vec![Why::Mode { mode, because }] };
        }
        Some(question) => question,
    };
    let mut why = match decision.verdict {
        Verdict::Leave => decision.why,
        _ => vec![Why::NoRule { parts: vec![call.tool.clone()] }],
    };
    if !question.is_empty() {
        why.push(Why::Mode { mode, because: question });
    }
    if mode == Mode::DontAsk {
        why.push(Why::Mode { mode, because: "nobody is asked" });
        return Decision { verdict: Verdict::Deny, why };
    }
    Decision { verdict: Verdict::Ask, why }
}

/// Why a call that no rule decides needs a person; nothing if it only reads in the working directory, or touches nothing.
/// Empty where there is no more to say than that no rule decides it.
fn question(scene: &Scene<'_>) -> Option<&'static str> {
    if HARMLESS.contains(&scene.call.tool.as_str()) {
        return None;
    }
    match &scene.touched {
        Touched::Shell(line) => {
            let reading = scene.reading(line);
            if reading.is_automatic() { None } else { Some(reading.unknown().or(reading.asks()).unwrap_or_default()) }
        }
        Touched::Files(access @ (Access::Read | Access::Search), spots) => {
            spots.iter().find_map(|spot| question_about(scene, spot, *access == Access::Search))
        }
        Touched::Files(Access::Write, _) | Touched::Host(_) | Touched::Nothing | Touched::Opaque(_) => Some(""),
    }
}

fn question_about(scene: &Scene<'_>, spot: &Spot, below: bool) -> Option<&'static str> {
    if !scene.is_inside(spot) {
        return Some("it reads outside the working directory");
    }
    // The agent's search takes hidden files, and leaves repositories out unless its pattern takes them back.
    let skips = match scene.call.input.get("glob") {
        None | Some(Value::Null) => Skips::Repository,
        Some(Value::String(glob)) if !may_name_repository(glob) => Skips::Repository,
        Some(_) => Skips::Nothing,
    };
    let guarded = below && guards_below(spot, scene.own(), scene.home(), skips, scene.resolver);
    guards_reading(spot, scene.own()).or(guarded.then_some("files that need a question are below it"))
}

/// Could one of these patterns match `.git`? Endings as `*.rs` and `*.{ts,tsx}` and plain names do not.
fn may_name_repository(glob: &str) -> bool {
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
    use crate::path::Links;
    use crate::rule::{Effect, Rule, Scope};

    fn said(mode: Mode, call: &str) -> Vec<String> {
        let mut rules = RuleSet::default();
        rules.add(Rule::parse(Effect::Allow, Scope::Global, "Bash(make:*)").unwrap()).unwrap();
        let call = Call::parse(call, "/project").unwrap();
        explain(&judge(&rules, mode, &call, Some(Path::new("/plans")), &Links::default()))
    }

    #[test]
    fn nothing_is_left_open() {
        let reads = "it only reads in the working directory, or touches nothing.";
        for (mode, call, expected) in [
            (Mode::Default, "Bash(make all)", "Allowed: the global rule `Bash(make:*)` allows `make all`."),
            (Mode::Default, "Read(src/main.rs)", &*format!("Allowed: in the mode default, {reads}")),
            (Mode::Default, "Read(/etc/passwd)", "Asked: no rule speaks of `/etc/passwd`."),
            (Mode::Default, "Bash(touch x)", "Asked: no rule speaks of `touch x`."),
            (Mode::DontAsk, "Bash(touch x)", "Denied: no rule speaks of `touch x`."),
            (Mode::Plan, "Read(src/main.rs)", &*format!("Allowed: in the mode plan, {reads}")),
            (Mode::Plan, "Read(/etc/passwd)", "Asked: no rule speaks of `Read`."),
            (Mode::Plan, "Write(x)", "Denied: in the mode plan, it writes a file."),
            (Mode::Plan, "Write(/plans/mine.md)", "Allowed: in the mode plan, it is the agent's own plan."),
            (Mode::Plan, "Write(/plans/mine.sh)", "Denied: in the mode plan, it writes a file."),
            (Mode::Default, "Write(/plans/mine.md)", "Asked: no rule speaks of `/plans/mine.md`."),
        ] {
            let said = said(mode, call);
            assert_eq!(said.first().map(String::as_str), Some(expected), "{call} in {mode:?}: {said:?}");
        }
    }
}
