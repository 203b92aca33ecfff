//! The decision about a call.

use serde::{Deserialize, Serialize};

use crate::call::{Access, Call, Scene, Touched};
use crate::matching::{Objection, objections, permission};
use crate::path::{Resolver, Spot};
use crate::protected::guards_writing;
use crate::rule::{Effect, Matcher, Rule};
use crate::set::RuleSet;
use crate::shell::{Kind, Line, UNSEEN_OPTIONS};

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
    decide_scene(rules, mode, &Scene::new(call, resolver))
}

/// Decides about a call that was looked at already.
pub(crate) fn decide_scene(rules: &RuleSet, mode: Mode, scene: &Scene<'_>) -> Decision {
    let decision = weigh(rules, mode, scene);
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
    // Nothing in these modes asks about what may be denied and cannot be seen: planning goes on without it.
    if mode == Mode::Plan && !possible.is_empty() {
        return Decision { verdict: Verdict::Deny, why: because(possible) };
    }
    if let (Mode::Bypass, Some(decision)) = (mode, unseen(rules, scene)) {
        return decision;
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
    let accepts =
        |spot: &Spot| mode == Mode::AcceptEdits && scene.is_inside(spot) && guards_writing(spot, scene.own()).is_none();
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
        Touched::Shell(line) => scene.reading(line).unknown(),
        Touched::Files(Access::Write, _) => Some("it writes a file"),
        Touched::Files(Access::Read | Access::Search, _) | Touched::Host(_) | Touched::Nothing => None,
        // Whatever it is: it belongs to a tool that can write.
        Touched::Opaque(_) if matches!(scene.call.tool.as_str(), "Read" | "Glob" | "Grep" | "LS" | "WebFetch") => None,
        Touched::Opaque(_) => Some("what it writes cannot be seen"),
    }
}

/// Where permissions are skipped, a line that cannot be seen through is denied as soon as a rule denies any command: it may
/// be that one. If rules deny files only, it is asked about.
fn unseen(rules: &RuleSet, scene: &Scene<'_>) -> Option<Decision> {
    let (part, because) = match &scene.touched {
        Touched::Shell(line) => hidden(line)?,
        Touched::Opaque(because) if scene.call.tool == "Bash" => (scene.call.tool.clone(), *because),
        _ => return None,
    };
    let denies = |is: fn(&Matcher) -> bool| rules.iter().find(|rule| rule.effect == Effect::Deny && is(&rule.matcher));
    let command = denies(|matcher| matches!(matcher, Matcher::Command(_)));
    let file = || denies(|matcher| matches!(matcher, Matcher::Path { .. }));
    let (verdict, rule) =
        command.map(|rule| (Verdict::Deny, rule)).or_else(|| file().map(|rule| (Verdict::Ask, rule)))?;
    let named = Why::Rule { rule: rule.clone(), part: part.clone(), certain: false };
    Some(Decision { verdict, why: vec![named, Why::Opaque { part, because }] })
}

fn hidden(line: &Line) -> Option<(String, &'static str)> {
    line.all().into_iter().find_map(|command| match command.kind {
        Kind::Hidden(because) => Some((command.text.clone(), because)),
        Kind::Runner(UNSEEN_OPTIONS) => Some((command.text.clone(), UNSEEN_OPTIONS)),
        _ => None,
    })
}
