//! What becomes of a call in a host: nothing is left open.

use std::path::Path;

use crate::call::Call;
use crate::decide::{Decision, Mode, Verdict, Why, decide};
use crate::path::Resolver;
use crate::plan::plan_of;
use crate::reading::is_harmless;
use crate::set::RuleSet;

/// Decides as [`decide`] does, and what that leaves open as well: what only looks around in the working directory passes,
/// the rest is asked, or denied where nobody is asked. The verdict is never [`Verdict::Leave`]. `plans` is where the agent
/// writes its own plans: in the mode for planning it may, as long as no rule speaks of it.
pub fn judge(rules: &RuleSet, mode: Mode, call: &Call, plans: Option<&Path>, resolver: &dyn Resolver) -> Decision {
    let decision = decide(rules, mode, call, resolver);
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
    if is_harmless(call, resolver) {
        let because = "it only reads in the working directory, or touches nothing";
        return Decision { verdict: Verdict::Allow, why: vec![Why::Mode { mode, because }] };
    }
    let mut why = match decision.verdict {
        Verdict::Leave => decision.why,
        _ => vec![Why::NoRule { parts: vec![call.tool.clone()] }],
    };
    if mode == Mode::DontAsk {
        why.push(Why::Mode { mode, because: "nobody is asked" });
        return Decision { verdict: Verdict::Deny, why };
    }
    Decision { verdict: Verdict::Ask, why }
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
