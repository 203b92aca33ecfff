//! The permission gate of a session: decides on every tool call from the rules, the permission mode and the working
//! directory.
//!
//! The gate decides at once and never waits for a person, because hooks time out and one build runs the tool after a
//! timeout. Tool calls of sub-agents pass it as well. Each decision is written to the audit log; if the log cannot be
//! written, the call is refused. A deny rule overrides a person's approval.
//!
//! A change of rules or mode applies from the next call. While a mode change is in progress, the strictest of the old
//! and new modes applies.
//!
//! A call is evaluated once for its hook, its permission request and its display, unless rules, mode, folder trust,
//! input or directory change meanwhile. The rules file's modification time is read each time. Links, Git
//! configurations and other files are read again only if the earlier decision was an approval, so that a link that was
//! replaced since is noticed, and when a person approves the call, because any time may have passed.

mod input_summary;
mod recent_calls;

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hostler_driver::{Clock, FolderRule, GateDecision, GatedCall, PermissionGate};
use hostler_rules::{
    Decision, DecisionOutcome, DecisionReason, DiskResolver, Effect, PermissionMode, Rule, RuleScope, RuleSet,
    RuleSetError, RuleStore, RuleStoreSnapshot, RuleSuggestion, ToolUse, decide_or_ask, explain, find_plan_file,
    suggest_additional_rules,
};
use hostler_store::AuditEntry;
use serde_json::Value;
use tokio::sync::mpsc;

pub(crate) use self::input_summary::summarize_input;
use self::recent_calls::RecentCalls;
use crate::clock::ClockExt as _;

/// Maximum number of decisions that wait to be written to the audit log. When it is reached, calls are refused.
pub(crate) const MAX_UNWRITTEN_DECISIONS: usize = 1024;

const UNREADABLE_INPUT_REASON: &str = "Denied: the host could not read the input of the call.";
const AUDIT_UNAVAILABLE_REASON: &str = "Denied: the host cannot write its audit log. Try again later.";

/// What the gate decides by.
#[derive(Debug)]
struct GatePolicy {
    mode: PermissionMode,
    /// The mode that a person chose last. The agent's own mode is never applied if it is looser.
    chosen_mode: PermissionMode,
    /// Modes that are about to apply, in order.
    pending_modes: VecDeque<PermissionMode>,
    /// The session's own rules.
    session_rules: RuleSet,
    /// The folder's rules, if its configuration applies.
    folder_rules: Result<RuleSet, RuleSetError>,
    /// All rules that apply, with the version of the rule store that they were merged from.
    merged_rules: Option<(u64, Result<Arc<RuleSet>, RuleSetError>)>,
    /// Increases with every change of the above.
    revision: u64,
}

impl GatePolicy {
    fn merge_rules(&self, stored: &RuleStoreSnapshot, directory: &Path) -> Result<Arc<RuleSet>, RuleSetError> {
        let mut rules = stored.rules_for(directory)?;
        rules.merge(self.folder_rules.as_ref().map_err(Clone::clone)?)?;
        rules.merge(&self.session_rules)?;
        Ok(Arc::new(rules))
    }
}

/// Rules and modes at one moment.
struct AppliedPolicy {
    rules: Result<Arc<RuleSet>, RuleSetError>,
    modes: Vec<PermissionMode>,
    version: PolicyVersion,
    /// Why the stored rules cannot be read.
    read_error: Option<String>,
}

/// Identifies the rules and modes that a decision was made by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PolicyVersion {
    gate: u64,
    rule_store: u64,
}

/// Directories of a session.
#[derive(Debug, Clone, Default)]
pub(crate) struct GateDirectories {
    /// The working directory.
    pub(crate) working_directory: PathBuf,
    /// The user's home directory.
    pub(crate) home: Option<PathBuf>,
    /// Where the agent writes its plans.
    pub(crate) plans_directory: Option<PathBuf>,
    /// The host's own directories; every mode except bypass asks before touching them.
    pub(crate) host_directories: Vec<PathBuf>,
}

/// The permission gate. Shared by the session's actor and the driver.
#[derive(Debug)]
pub(crate) struct SessionGate {
    gate_directories: GateDirectories,
    rule_store: Arc<RuleStore>,
    policy: Mutex<GatePolicy>,
    audit_log: mpsc::Sender<AuditEntry>,
    clock: Arc<dyn Clock>,
    recent_calls: Mutex<RecentCalls>,
    /// The plan file that was written last.
    last_plan: Mutex<Option<PathBuf>>,
}

/// A decision, with its source and reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ExplainedDecision {
    pub(crate) decision: GateDecision,
    /// `rule` or `mode`.
    pub(crate) decided_by: &'static str,
    /// The reason, as text.
    pub(crate) reason: String,
}

impl SessionGate {
    /// Creates a gate, and the receiver of its decisions for the audit log.
    pub(crate) fn new(
        places: GateDirectories,
        book: Arc<RuleStore>,
        mode: PermissionMode,
        rules: RuleSet,
        clock: Arc<dyn Clock>,
    ) -> (Arc<Self>, mpsc::Receiver<AuditEntry>) {
        let (log, decisions) = mpsc::channel(MAX_UNWRITTEN_DECISIONS);
        let folder = Ok(RuleSet::default());
        let policy = Mutex::new(GatePolicy {
            mode,
            chosen_mode: mode,
            pending_modes: VecDeque::new(),
            session_rules: rules,
            folder_rules: folder,
            merged_rules: None,
            revision: 0,
        });
        (
            Arc::new(Self {
                gate_directories: places,
                rule_store: book,
                policy,
                audit_log: log,
                clock,
                recent_calls: Mutex::default(),
                last_plan: Mutex::default(),
            }),
            decisions,
        )
    }

    fn policy(&self) -> MutexGuard<'_, GatePolicy> {
        self.policy.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn update_policy<T>(&self, change: impl FnOnce(&mut GatePolicy) -> T) -> T {
        let mut policy = self.policy();
        policy.revision += 1;
        change(&mut policy)
    }

    /// Sets the mode that a person chose. Mode changes in progress continue.
    pub(crate) fn set_mode(&self, mode: PermissionMode) {
        self.update_policy(|policy| (policy.mode, policy.chosen_mode) = (mode, mode));
    }

    /// Follows a mode that the agent changed to by itself. The stricter of this mode and the chosen one applies.
    pub(crate) fn follow_agent_mode(&self, mode: PermissionMode) {
        self.update_policy(|policy| policy.mode = mode);
    }

    /// The mode that a person chose last.
    pub(crate) fn chosen_mode(&self) -> PermissionMode {
        self.policy().chosen_mode
    }

    /// Starts a mode change: from now on the strictest of the current mode and all pending ones applies.
    pub(crate) fn begin_mode_change(&self, mode: PermissionMode) {
        self.update_policy(|policy| policy.pending_modes.push_back(mode));
    }

    /// Completes the oldest pending mode change.
    pub(crate) fn finish_mode_change(&self) {
        self.update_policy(|policy| {
            if let Some(mode) = policy.pending_modes.pop_front() {
                (policy.mode, policy.chosen_mode) = (mode, mode);
            }
        });
    }

    /// Drops the oldest pending mode change.
    pub(crate) fn abandon_mode_change(&self) {
        self.update_policy(|policy| policy.pending_modes.pop_front());
    }

    /// Adds rules of the session.
    ///
    /// # Errors
    /// If there are too many.
    pub(crate) fn add_session_rules(&self, rules: &[Rule]) -> Result<(), RuleSetError> {
        self.update_policy(|policy| {
            policy.merged_rules = None;
            rules.iter().try_for_each(|rule| policy.session_rules.add(rule.clone()).map(drop))
        })
    }

    /// Replaces the folder's rules. If there are too many, every call asks.
    pub(crate) fn set_folder_rules(&self, rules: &[FolderRule]) {
        let parsed = rules.iter().filter_map(|rule| {
            let effect = match rule.effect.as_str() {
                "allow" => Effect::Allow,
                "ask" => Effect::Ask,
                "deny" => Effect::Deny,
                _ => return None,
            };
            let parsed = Rule::parse(effect, RuleScope::Workspace, &rule.pattern);
            parsed.inspect_err(|error| tracing::warn!(%error, "ignored an invalid permission rule of a folder")).ok()
        });
        let mut set = RuleSet::default();
        let folder = parsed.into_iter().try_for_each(|rule| set.add(rule).map(drop)).map(|()| set);
        self.update_policy(|policy| (policy.folder_rules, policy.merged_rules) = (folder, None));
    }

    /// The decision on a call, without writing to the audit log. It may be the one that its hook received.
    pub(crate) fn evaluate(&self, id: &str, tool: &str, input: &str) -> ExplainedDecision {
        self.evaluate_readable(Some(id), self.find_call(Some(id), tool, input, None).as_ref())
    }

    /// The decision on a call as the disk is now, without writing to the audit log. A call without an id runs in the
    /// session's directory.
    pub(crate) fn evaluate_anew(&self, id: Option<&str>, tool: &str, input: &str) -> ExplainedDecision {
        self.evaluate_readable(None, self.find_call(id, tool, input, None).as_ref())
    }

    fn evaluate_readable(&self, id: Option<&str>, call: Option<&Arc<ToolUse>>) -> ExplainedDecision {
        let Some(call) = call else {
            return ExplainedDecision {
                decision: GateDecision::Deny(UNREADABLE_INPUT_REASON.to_owned()),
                decided_by: "host",
                reason: UNREADABLE_INPUT_REASON.to_owned(),
            };
        };
        let policy = self.applied_policy();
        if let Some(known) = id.and_then(|id| self.recent_calls().decision(id, call, policy.version)) {
            return known;
        }
        let decision = self.evaluate_call(&policy, call);
        // Links and files may change before the next request: an approval is not repeated without reading them.
        if let Some(id) = id.filter(|_| decision.decision != GateDecision::Allow) {
            self.recent_calls().set_decision(id, call, policy.version, decision.clone());
        }
        decision
    }

    /// The narrow rules of the session that would have allowed a call.
    pub(crate) fn suggest_rules(&self, id: &str, tool: &str, input: &str) -> Vec<RuleSuggestion> {
        let Some(call) = self.find_call(Some(id), tool, input, None) else { return Vec::new() };
        match self.applied_policy().rules {
            Ok(rules) => suggest_additional_rules(&rules, &call, RuleScope::Session, &DiskResolver),
            Err(_) => Vec::new(),
        }
    }

    /// The session's working directory.
    pub(crate) fn working_directory(&self) -> &Path {
        &self.gate_directories.working_directory
    }

    /// The plan file that the agent wrote last, if any.
    pub(crate) fn last_plan(&self) -> Option<PathBuf> {
        self.last_plan.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn recent_calls(&self) -> MutexGuard<'_, RecentCalls> {
        self.recent_calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The call with its analysis, which later requests about it share. `None` if its input is unreadable. Without
    /// `cwd`, it runs in the directory that was reported for it before, or in the session's directory.
    fn find_call(&self, id: Option<&str>, tool: &str, input: &str, cwd: Option<&Path>) -> Option<Arc<ToolUse>> {
        let fields = serde_json::from_str(input).ok().filter(Value::is_object);
        let mut recent = self.recent_calls();
        if let (Some(id), Some(cwd)) = (id, cwd) {
            recent.set_directory(id, cwd);
        }
        let directories = &self.gate_directories;
        let cwd = id.and_then(|id| recent.directory(id)).unwrap_or(&directories.working_directory);
        let mut call = ToolUse::new(tool, fields?, cwd)
            .with_workspace(&directories.working_directory)
            .with_host_directories(directories.host_directories.iter().cloned());
        if let Some(home) = &directories.home {
            call = call.with_home(home);
        }
        Some(match id {
            Some(id) => recent.share(id, call, input.len()),
            None => Arc::new(call),
        })
    }

    /// Why even a person may not run it: a rule denies it, or might deny what it runs, or the rules are unknown.
    pub(crate) fn user_command_denial(&self, tool: &str, input: &str) -> Option<String> {
        let Some(call) = self.find_call(None, tool, input, None) else {
            return Some(UNREADABLE_INPUT_REASON.to_owned());
        };
        let policy = self.applied_policy();
        let rules = match policy.rules {
            Ok(rules) => rules,
            Err(error) => return Some(error.to_string()),
        };
        // Bypass is the only mode that adds no checks of its own.
        let decision = decide_or_ask(&rules, PermissionMode::Bypass, &call, None, &DiskResolver);
        let denies =
            |why: &DecisionReason| matches!(why, DecisionReason::Rule { rule, .. } if rule.effect == Effect::Deny);
        if decision.reasons.iter().any(denies) { Some(explain_decision(&decision)) } else { policy.read_error }
    }

    /// The rules of the store, the folder and the session, and the modes that apply.
    fn applied_policy(&self) -> AppliedPolicy {
        let stored = self.rule_store.snapshot();
        let mut policy = self.policy();
        let merged = policy.merged_rules.clone().filter(|(version, _)| *version == stored.version);
        let (_, rules) = merged.unwrap_or_else(|| {
            let rules = policy.merge_rules(&stored, &self.gate_directories.working_directory);
            policy.merged_rules = Some((stored.version, rules.clone()));
            (stored.version, rules)
        });
        let followed = (policy.chosen_mode != policy.mode).then_some(policy.chosen_mode);
        let modes = std::iter::once(policy.mode).chain(followed).chain(policy.pending_modes.iter().copied()).collect();
        let version = PolicyVersion { gate: policy.revision, rule_store: stored.version };
        AppliedPolicy { rules, modes, version, read_error: stored.read_error }
    }

    fn evaluate_call(&self, policy: &AppliedPolicy, call: &ToolUse) -> ExplainedDecision {
        let rules = match &policy.rules {
            Ok(rules) => rules,
            Err(error) => return ask_because(error.to_string()),
        };
        let plans = self.gate_directories.plans_directory.as_deref();
        let rulings = policy.modes.iter().map(|mode| evaluate_in_mode(rules, *mode, call, plans));
        let strictest = rulings.max_by_key(|ruling| severity(&ruling.decision));
        let ruling = strictest.unwrap_or_else(|| ask_because("The permission mode is not available.".to_owned()));
        match &policy.read_error {
            Some(problem) if ruling.decision == GateDecision::Allow => ask_because(problem.clone()),
            _ => ruling,
        }
    }

    /// The agent's plan file that a call writes, if any.
    fn plan_file(&self, call: &ToolUse) -> Option<PathBuf> {
        find_plan_file(call, self.gate_directories.plans_directory.as_ref()?, &DiskResolver)
    }

    /// Queues a decision for the audit log; `false` if too many are waiting.
    fn write_audit(&self, call: &GatedCall<'_>, ruling: &ExplainedDecision) -> bool {
        // Repeated requests about one call are one line.
        if ruling.decision == GateDecision::Ask && self.recent_calls().mark_asked(call.call_id) {
            return true;
        }
        let entry = AuditEntry {
            at_ms: self.clock.now_ms(),
            decided_by: ruling.decided_by.to_owned(),
            tool_call_id: call.call_id.to_owned(),
            tool: call.tool.to_owned(),
            input: summarize_input(call.input.get()),
            sub_agent: call.sub_agent.map(str::to_owned),
            decision: decision_name(&ruling.decision).to_owned(),
            reason: Some(ruling.reason.clone()),
        };
        self.audit_log.try_send(entry).is_ok()
    }
}

impl PermissionGate for SessionGate {
    fn decide(&self, call: &GatedCall<'_>) -> GateDecision {
        let readable = self.find_call(Some(call.call_id), call.tool, call.input.get(), call.cwd);
        let ruling = self.evaluate_readable(Some(call.call_id), readable.as_ref());
        if !self.write_audit(call, &ruling) {
            tracing::error!("the audit log is too far behind; denied a tool call");
            return GateDecision::Deny(AUDIT_UNAVAILABLE_REASON.to_owned());
        }
        if ruling.decision == GateDecision::Allow
            && call.tool != "Read"
            && let Some(file) = readable.and_then(|call| self.plan_file(&call))
        {
            *self.last_plan.lock().unwrap_or_else(PoisonError::into_inner) = Some(file);
        }
        ruling.decision
    }
}

/// The decision in one mode.
fn evaluate_in_mode(rules: &RuleSet, mode: PermissionMode, call: &ToolUse, plans: Option<&Path>) -> ExplainedDecision {
    let decision = decide_or_ask(rules, mode, call, plans, &DiskResolver);
    let who = if decision.is_by_rule() { "rule" } else { "mode" };
    let why = explain_decision(&decision);
    match decision.outcome {
        DecisionOutcome::Allow => ExplainedDecision { decision: GateDecision::Allow, decided_by: who, reason: why },
        DecisionOutcome::Ask | DecisionOutcome::Undecided => {
            ExplainedDecision { decision: GateDecision::Ask, decided_by: who, reason: why }
        }
        DecisionOutcome::Deny => {
            ExplainedDecision { decision: GateDecision::Deny(why.clone()), decided_by: who, reason: why }
        }
    }
}

/// The reason as text. Parts that no rule matches are omitted, because the call itself displays them.
fn explain_decision(decision: &Decision) -> String {
    let unspoken = decision.reasons.iter().any(|why| matches!(why, DecisionReason::NoRule { .. }));
    match decision.outcome {
        DecisionOutcome::Deny if unspoken => {
            "No rule allows it, and the permission mode denies instead of asking.".to_owned()
        }
        _ if unspoken => "No rule applies.".to_owned(),
        _ => explain(decision).join(" "),
    }
}

fn ask_because(why: String) -> ExplainedDecision {
    ExplainedDecision { decision: GateDecision::Ask, decided_by: "mode", reason: why }
}

fn severity(gate: &GateDecision) -> u8 {
    match gate {
        GateDecision::Allow => 0,
        GateDecision::Ask => 1,
        GateDecision::Deny(_) => 2,
    }
}

fn decision_name(gate: &GateDecision) -> &'static str {
    match gate {
        GateDecision::Allow => "allow",
        GateDecision::Ask => "ask",
        GateDecision::Deny(_) => "deny",
    }
}

#[cfg(test)]
mod tests;
