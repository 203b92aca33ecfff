//! The gate of a session: decides on every tool call, at once, from the rules, the permission mode and the directory.
//!
//! What it knows can be changed at any moment and holds from the next call on. While a change of the mode is under way
//! the strictest of all modes that have to do with it holds.

mod summary;

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use hostler_driver::{Clock, FolderRule, Gate, GatedCall, Gatekeeper};
use hostler_rules::{
    Call, Decision, Disk, Effect, Mode, Page, Rule, RuleBook, RuleSet, RuleSetError, Scope, Suggestion, Verdict, Why,
    explain, judge, plan_of, suggest_beside,
};
use hostler_store::AuditEntry;
use serde_json::Value;
use tokio::sync::mpsc;

pub(crate) use self::summary::summary;
use crate::clock::ClockExt as _;

/// How many decisions may wait to be written down. When the log is that far behind, nothing runs.
pub(crate) const UNWRITTEN: usize = 1024;

/// How many questions are remembered, so that asking about one call twice is one line in the log.
const REMEMBERED: usize = 256;

const UNREADABLE: &str = "The host could not read the call's input, so it did not run.";
const UNWRITABLE: &str = "The host cannot write down what is decided, so nothing may run; try again later.";

/// What the gate of a session decides by.
#[derive(Debug)]
struct Policy {
    mode: Mode,
    /// The mode that a person chose last. What the agent does on its own is never looser than this.
    chosen: Mode,
    /// The modes that are about to hold, one after the other.
    next: VecDeque<Mode>,
    /// The session's own rules.
    rules: RuleSet,
    /// The rules of the folder, if its configuration is applied.
    folder: Result<RuleSet, RuleSetError>,
    /// All rules that hold, and for which page of the book that is true.
    joined: Option<(u64, Result<Arc<RuleSet>, RuleSetError>)>,
}

/// Where a session works.
#[derive(Debug, Clone, Default)]
pub(crate) struct Places {
    /// The working directory.
    pub(crate) directory: PathBuf,
    /// The user's home directory.
    pub(crate) home: Option<PathBuf>,
    /// Where the agent writes its own plans.
    pub(crate) plans: Option<PathBuf>,
    /// The host's own directories, which no mode but bypass touches without a question.
    pub(crate) own: Vec<PathBuf>,
}

/// The gate. Shared by the session's actor and the driver.
#[derive(Debug)]
pub(crate) struct SessionGate {
    places: Places,
    book: Arc<RuleBook>,
    policy: RwLock<Policy>,
    log: mpsc::Sender<AuditEntry>,
    clock: Arc<dyn Clock>,
    asked: Mutex<VecDeque<String>>,
    /// The directories that recent calls run in, by the calls' ids. Later questions about a call do not name it again.
    directories: Mutex<VecDeque<(String, PathBuf)>>,
    /// The plan that was written last.
    plan: Mutex<Option<PathBuf>>,
}

/// A decision, and by whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ruling {
    pub(crate) gate: Gate,
    /// `rule` or `mode`.
    pub(crate) who: &'static str,
    /// The reasons, in sentences.
    pub(crate) why: String,
}

impl SessionGate {
    /// A gate, and where its decisions arrive to be written down.
    pub(crate) fn new(
        places: Places,
        book: Arc<RuleBook>,
        mode: Mode,
        rules: RuleSet,
        clock: Arc<dyn Clock>,
    ) -> (Arc<Self>, mpsc::Receiver<AuditEntry>) {
        let (log, decisions) = mpsc::channel(UNWRITTEN);
        let folder = Ok(RuleSet::default());
        let policy = RwLock::new(Policy { mode, chosen: mode, next: VecDeque::new(), rules, folder, joined: None });
        let (asked, plan, directories) = (Mutex::default(), Mutex::default(), Mutex::default());
        (Arc::new(Self { places, book, policy, log, clock, asked, directories, plan }), decisions)
    }

    fn change<T>(&self, change: impl FnOnce(&mut Policy) -> T) -> T {
        change(&mut self.policy.write().unwrap_or_else(PoisonError::into_inner))
    }

    /// A person has chosen another mode. Changes that are under way go on.
    pub(crate) fn set_mode(&self, mode: Mode) {
        self.change(|policy| (policy.mode, policy.chosen) = (mode, mode));
    }

    /// The agent works under another mode on its own. The stricter of this mode and the chosen one holds.
    pub(crate) fn follow(&self, mode: Mode) {
        self.change(|policy| policy.mode = mode);
    }

    /// The mode that a person chose last.
    pub(crate) fn chosen_mode(&self) -> Mode {
        self.policy.read().unwrap_or_else(PoisonError::into_inner).chosen
    }

    /// From now on the strictest of the session's mode and all that are about to hold holds.
    pub(crate) fn begin_change(&self, mode: Mode) {
        self.change(|policy| policy.next.push_back(mode));
    }

    /// The change that began first has come about.
    pub(crate) fn finish_change(&self) {
        self.change(|policy| {
            if let Some(mode) = policy.next.pop_front() {
                (policy.mode, policy.chosen) = (mode, mode);
            }
        });
    }

    /// The change that began first does not come about.
    pub(crate) fn abandon_change(&self) {
        self.change(|policy| policy.next.pop_front());
    }

    /// Adds rules of the session.
    ///
    /// # Errors
    /// If there are too many.
    pub(crate) fn add_rules(&self, rules: &[Rule]) -> Result<(), RuleSetError> {
        self.change(|policy| {
            policy.joined = None;
            rules.iter().try_for_each(|rule| policy.rules.add(rule.clone()).map(drop))
        })
    }

    /// These are the rules of the folder from now on. If there are too many, every call is asked about.
    pub(crate) fn set_folder_rules(&self, rules: &[FolderRule]) {
        let parsed = rules.iter().filter_map(|rule| {
            let effect = match rule.effect.as_str() {
                "allow" => Effect::Allow,
                "ask" => Effect::Ask,
                "deny" => Effect::Deny,
                _ => return None,
            };
            let parsed = Rule::parse(effect, Scope::Workspace, &rule.pattern);
            parsed.inspect_err(|error| tracing::warn!(%error, "a permission rule of a folder was left out")).ok()
        });
        let mut set = RuleSet::default();
        let folder = parsed.into_iter().try_for_each(|rule| set.add(rule).map(drop)).map(|()| set);
        self.change(|policy| (policy.folder, policy.joined) = (folder, None));
    }

    /// What the gate says about a call, without writing it down. A call without an id runs in the session's directory.
    pub(crate) fn ruling(&self, id: Option<&str>, tool: &str, input: &str) -> Ruling {
        match self.call(id, tool, input) {
            Some(call) => self.rule_on(&call),
            None => Ruling { gate: Gate::Deny(UNREADABLE.to_owned()), who: "host", why: UNREADABLE.to_owned() },
        }
    }

    /// The narrow rules that would have let a call pass.
    pub(crate) fn suggestions(&self, id: &str, tool: &str, input: &str, scope: Scope) -> Vec<Suggestion> {
        let Some(call) = self.call(Some(id), tool, input) else { return Vec::new() };
        match self.rules(&self.book.page()).0 {
            Some(Ok(rules)) => suggest_beside(&rules, &call, scope, &Disk),
            Some(Err(_)) | None => Vec::new(),
        }
    }

    /// The directory that the session works in.
    pub(crate) fn directory(&self) -> &Path {
        &self.places.directory
    }

    /// The plan that the agent wrote last, if it wrote one.
    pub(crate) fn plan(&self) -> Option<PathBuf> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Notes the directory that a call runs in.
    fn note_directory(&self, call: &GatedCall<'_>) {
        let Some(directory) = call.cwd else { return };
        let mut known = self.directories.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|(id, _)| id != call.id);
        known.push_back((call.id.to_owned(), directory.to_owned()));
        if known.len() > REMEMBERED {
            known.pop_front();
        }
    }

    fn directory_of(&self, id: Option<&str>) -> PathBuf {
        let known = self.directories.lock().unwrap_or_else(PoisonError::into_inner);
        let found = known.iter().find(|(known, _)| Some(known.as_str()) == id);
        found.map_or_else(|| self.places.directory.clone(), |(_, directory)| directory.clone())
    }

    fn call(&self, id: Option<&str>, tool: &str, input: &str) -> Option<Call> {
        let input: Value = serde_json::from_str(input).ok().filter(Value::is_object)?;
        let call = Call::new(tool, input, self.directory_of(id))
            .in_workspace(&self.places.directory)
            .with_own_directories(self.places.own.iter().cloned());
        Some(match &self.places.home {
            Some(home) => call.with_home(home),
            None => call,
        })
    }

    /// Why not even a person may do it: a rule denies it, or could deny what it turns out to be, or nobody knows the rules.
    pub(crate) fn forbids(&self, tool: &str, input: &str) -> Option<String> {
        let Some(call) = self.call(None, tool, input) else { return Some(UNREADABLE.to_owned()) };
        let page = self.book.page();
        let rules = match self.rules(&page).0 {
            Some(Ok(rules)) => rules,
            Some(Err(error)) => return Some(error.to_string()),
            None => return Some("The rules are not known.".to_owned()),
        };
        // Of all modes this one adds nothing of its own.
        let decision = judge(&rules, Mode::Bypass, &call, None, &Disk);
        let denies = |why: &Why| matches!(why, Why::Rule { rule, .. } if rule.effect == Effect::Deny);
        if decision.why.iter().any(denies) { Some(told(&decision)) } else { page.broken }
    }

    /// What a page and the session itself say, and the modes that hold.
    fn rules(&self, page: &Page) -> (Option<Result<Arc<RuleSet>, RuleSetError>>, Vec<Mode>) {
        self.change(|policy| {
            let fresh = policy.joined.as_ref().is_some_and(|(version, _)| *version == page.version);
            if !fresh {
                let joined = page.rules_for(&self.places.directory).and_then(|mut rules| {
                    rules.join(policy.folder.as_ref().map_err(Clone::clone)?)?;
                    rules.join(&policy.rules)?;
                    Ok(Arc::new(rules))
                });
                policy.joined = Some((page.version, joined));
            }
            let followed = (policy.chosen != policy.mode).then_some(policy.chosen);
            let modes = std::iter::once(policy.mode).chain(followed).chain(policy.next.iter().copied()).collect();
            (policy.joined.as_ref().map(|(_, rules)| rules.clone()), modes)
        })
    }

    fn rule_on(&self, call: &Call) -> Ruling {
        let page = self.book.page();
        let (rules, modes) = self.rules(&page);
        let rules = match rules {
            Some(Ok(rules)) => rules,
            Some(Err(error)) => return asks(error.to_string()),
            None => return asks("The rules are not known.".to_owned()),
        };
        let plans = self.places.plans.as_deref();
        let rulings = modes.into_iter().map(|mode| by(&rules, mode, call, plans));
        let strictest = rulings.max_by_key(|ruling| severity(&ruling.gate));
        let ruling = strictest.unwrap_or_else(|| asks("The mode is not known.".to_owned()));
        match page.broken {
            Some(problem) if ruling.gate == Gate::Allow => asks(problem),
            _ => ruling,
        }
    }

    /// The file of the agent's own plans that a call is about.
    fn plan_of(&self, call: &Call) -> Option<PathBuf> {
        plan_of(call, self.places.plans.as_ref()?, &Disk)
    }

    /// `false` if the log is too far behind.
    fn write_down(&self, call: &GatedCall<'_>, ruling: &Ruling) -> bool {
        if ruling.gate == Gate::Ask {
            let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
            if asked.iter().any(|known| known == call.id) {
                return true;
            }
            asked.push_back(call.id.to_owned());
            if asked.len() > REMEMBERED {
                asked.pop_front();
            }
        }
        let entry = AuditEntry {
            at_ms: self.clock.now_ms(),
            who: ruling.who.to_owned(),
            call: call.id.to_owned(),
            tool: call.tool.to_owned(),
            input: summary(call.input.get()),
            sub_agent: call.sub_agent.map(str::to_owned),
            decision: decision(&ruling.gate).to_owned(),
            why: Some(ruling.why.clone()),
        };
        self.log.try_send(entry).is_ok()
    }
}

impl Gatekeeper for SessionGate {
    fn decide(&self, call: &GatedCall<'_>) -> Gate {
        self.note_directory(call);
        let ruling = self.ruling(Some(call.id), call.tool, call.input.get());
        if !self.write_down(call, &ruling) {
            tracing::error!("the audit log is too far behind; a call was refused");
            return Gate::Deny(UNWRITABLE.to_owned());
        }
        if ruling.gate == Gate::Allow
            && call.tool != "Read"
            && let Some(file) =
                self.call(Some(call.id), call.tool, call.input.get()).and_then(|call| self.plan_of(&call))
        {
            *self.plan.lock().unwrap_or_else(PoisonError::into_inner) = Some(file);
        }
        ruling.gate
    }
}

/// The decision in one mode.
fn by(rules: &RuleSet, mode: Mode, call: &Call, plans: Option<&Path>) -> Ruling {
    let decision = judge(rules, mode, call, plans, &Disk);
    let who = if decision.is_by_rule() { "rule" } else { "mode" };
    let why = told(&decision);
    match decision.verdict {
        Verdict::Allow => Ruling { gate: Gate::Allow, who, why },
        Verdict::Ask | Verdict::Leave => Ruling { gate: Gate::Ask, who, why },
        Verdict::Deny => Ruling { gate: Gate::Deny(why.clone()), who, why },
    }
}

/// The reasons, in sentences. What no rule speaks of is told by the call itself, and not repeated.
fn told(decision: &Decision) -> String {
    let unspoken = decision.why.iter().any(|why| matches!(why, Why::NoRule { .. }));
    match decision.verdict {
        Verdict::Deny if unspoken => "Nobody is asked in this session, and no rule allows it.".to_owned(),
        _ if unspoken => "No rule decides it.".to_owned(),
        _ => explain(decision).join(" "),
    }
}

fn asks(why: String) -> Ruling {
    Ruling { gate: Gate::Ask, who: "mode", why }
}

fn severity(gate: &Gate) -> u8 {
    match gate {
        Gate::Allow => 0,
        Gate::Ask => 1,
        Gate::Deny(_) => 2,
    }
}

fn decision(gate: &Gate) -> &'static str {
    match gate {
        Gate::Allow => "allow",
        Gate::Ask => "ask",
        Gate::Deny(_) => "deny",
    }
}

#[cfg(test)]
mod tests;
