//! The decision about a call.

use std::path::Component;

use serde::{Deserialize, Serialize};

use crate::call::{Access, Call, Scene, Touched};
use crate::matching::{Objection, objections, permission};
use crate::path::{Resolver, Spot};
use crate::rule::{Effect, Rule};
use crate::set::RuleSet;
use crate::shell::readonly::only_reads;

/// How a session handles what no rule decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Mode {
    /// The agent's own flow decides, which asks a person where it matters.
    #[default]
    Default,
    /// Files in the workspace are edited without a question.
    AcceptEdits,
    /// Nothing is written: whatever is not known to only read is denied.
    Plan,
    /// Everything is allowed that no rule denies or asks about.
    #[serde(rename = "bypassPermissions")]
    Bypass,
    /// Nobody is there to be asked: what would be asked is denied.
    DontAsk,
}

/// What is to be done about a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// Let it run.
    Allow,
    /// Ask a person.
    Ask,
    /// Do not let it run.
    Deny,
    /// Rules and mode say nothing: the agent's own flow decides, or whoever asked.
    Leave,
}

/// A decision with its reasons.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// What is to be done.
    pub verdict: Verdict,
    /// Why. There is at least one reason.
    pub why: Vec<Why>,
}

impl Decision {
    /// Whether a rule has a part in it.
    pub fn is_by_rule(&self) -> bool {
        self.why.iter().any(|why| matches!(why, Why::Rule { .. }))
    }
}

/// A reason for a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    /// A rule matched a part of the call.
    Rule {
        /// The rule.
        rule: Rule,
        /// The part, such as one command of a line.
        part: String,
        /// Whether the part is what the rule names, or only could be.
        certain: bool,
    },
    /// A part cannot be seen through.
    Opaque {
        /// The part.
        part: String,
        /// What hides it.
        because: &'static str,
    },
    /// The mode decided.
    Mode {
        /// The mode.
        mode: Mode,
        /// What it says about the call, as the end of a sentence.
        because: &'static str,
    },
    /// No rule speaks of these parts.
    NoRule {
        /// The parts.
        parts: Vec<String>,
    },
}

/// Decides about a call.
pub fn decide(rules: &RuleSet, mode: Mode, call: &Call, resolver: &dyn Resolver) -> Decision {
    let scene = Scene::new(call, resolver);
    let decision = weigh(rules, mode, &scene);
    if mode == Mode::DontAsk && decision.verdict == Verdict::Ask {
        let mut why = decision.why;
        why.push(Why::Mode { mode, because: "nobody is asked" });
        return Decision { verdict: Verdict::Deny, why };
    }
    decision
}

fn weigh(rules: &RuleSet, mode: Mode, scene: &Scene<'_>) -> Decision {
    let denials = objections(scene, rules.iter(), Effect::Deny);
    let (certain, possible): (Vec<_>, Vec<_>) = denials.into_iter().partition(|objection| objection.certain);
    if !certain.is_empty() {
        return Decision { verdict: Verdict::Deny, why: because(certain) };
    }
    if let (Mode::Plan, Some(because)) = (mode, writes(scene)) {
        return Decision { verdict: Verdict::Deny, why: vec![Why::Mode { mode, because }] };
    }
    let questions = objections(scene, rules.iter(), Effect::Ask);
    if !questions.is_empty() || !possible.is_empty() {
        let mut why = because(questions);
        why.extend(because(possible));
        return Decision { verdict: Verdict::Ask, why };
    }
    let by_mode = |verdict, because| Decision { verdict, why: vec![Why::Mode { mode, because }] };
    match mode {
        Mode::Bypass => return by_mode(Verdict::Allow, "no rule is against it"),
        Mode::Plan if scene.call.is_mcp() => return by_mode(Verdict::Ask, "what a tool of a server does is not known"),
        Mode::Plan => match &scene.touched {
            Touched::Shell(_) | Touched::Files(..) => return by_mode(Verdict::Allow, "it only reads"),
            _ => {}
        },
        Mode::Default | Mode::AcceptEdits | Mode::DontAsk => {}
    }
    let accepts = |spot: &Spot| mode == Mode::AcceptEdits && scene.is_inside(spot) && !is_sensitive(spot);
    let permission = permission(scene, rules.iter(), &accepts);
    if permission.is_full() {
        let granted = permission.granted.into_iter();
        let why = granted.map(|(rule, part)| Why::Rule { rule: rule.clone(), part, certain: true }).collect();
        return Decision { verdict: Verdict::Allow, why };
    }
    if !permission.opaque.is_empty() {
        let opaque = permission.opaque.into_iter();
        let why = opaque.map(|(part, because)| Why::Opaque { part, because }).collect();
        return Decision { verdict: Verdict::Ask, why };
    }
    if let Touched::Files(Access::Write, spots) = &scene.touched
        && spots.iter().all(accepts)
    {
        return by_mode(Verdict::Allow, "it edits a file in the workspace");
    }
    let parts = if permission.open.is_empty() { vec![scene.call.tool.clone()] } else { permission.open };
    Decision { verdict: Verdict::Leave, why: vec![Why::NoRule { parts }] }
}

fn because(objections: Vec<Objection<'_>>) -> Vec<Why> {
    let reason = |Objection { rule, part, certain }: Objection<'_>| Why::Rule { rule: rule.clone(), part, certain };
    objections.into_iter().map(reason).collect()
}

/// Why a call is not known to only read, if so.
fn writes(scene: &Scene<'_>) -> Option<&'static str> {
    match &scene.touched {
        Touched::Shell(line) if only_reads(line) => None,
        Touched::Shell(_) => Some("the command line is not known to only read"),
        Touched::Files(Access::Write, _) => Some("it writes a file"),
        Touched::Files(Access::Read | Access::Search, _) | Touched::Host(_) | Touched::Nothing => None,
        // Whatever it is: it belongs to a tool that can write.
        Touched::Opaque(_) if matches!(scene.call.tool.as_str(), "Read" | "Glob" | "Grep" | "LS" | "WebFetch") => None,
        Touched::Opaque(_) => Some("what it writes cannot be seen"),
    }
}

/// Files that make other programs run something; editing them is more than editing.
fn is_sensitive(spot: &Spot) -> bool {
    const DIRECTORIES: [&str; 6] = [".claude", ".git", ".husky", ".idea", ".vscode", ".devcontainer"];
    const FILES: [&str; 7] = [".bashrc", ".envrc", ".gitconfig", ".gitmodules", ".mcp.json", ".profile", ".zshrc"];
    spot.paths.iter().any(|path| {
        path.components().any(|component| match component {
            Component::Normal(name) => {
                DIRECTORIES.iter().chain(&FILES).any(|sensitive| name.eq_ignore_ascii_case(sensitive))
            }
            _ => false,
        })
    })
}
