//! What the gate remembers about recent calls: the directory, the analysis, the decision, and whether a person was
//! asked. Number and size are limited.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hostler_rules::ToolUse;

use super::{ExplainedDecision, PolicyVersion};

/// Maximum number of calls.
const MAX_RECENT_CALLS: usize = 256;

/// Maximum size of all inputs whose analysis is retained. An analysis takes a multiple of its input's size.
const MAX_ANALYZED_BYTES: usize = 256 * 1024;

/// Recent calls, the least recently used first.
#[derive(Debug, Default)]
pub(super) struct RecentCalls(VecDeque<RecentCall>);

#[derive(Debug, Default)]
struct RecentCall {
    id: String,
    /// The directory that the agent reported. Later requests about the call do not repeat it.
    directory: Option<PathBuf>,
    was_asked: bool,
    analyzed: Option<AnalyzedCall>,
}

#[derive(Debug)]
struct AnalyzedCall {
    /// The call with its analysis.
    call: Arc<ToolUse>,
    input_bytes: usize,
    /// The decision on it, and what it was made by.
    decision: Option<(PolicyVersion, ExplainedDecision)>,
}

impl RecentCalls {
    /// The call's entry, as the most recent one.
    fn entry(&mut self, id: &str) -> Option<&mut RecentCall> {
        let known = self.0.iter().position(|call| call.id == id).and_then(|at| self.0.remove(at));
        self.0.push_back(known.unwrap_or_else(|| RecentCall { id: id.to_owned(), ..RecentCall::default() }));
        if self.0.len() > MAX_RECENT_CALLS {
            self.0.pop_front();
        }
        self.0.back_mut()
    }

    /// The directory that was reported for a call.
    pub(super) fn directory(&self, id: &str) -> Option<&PathBuf> {
        self.0.iter().find(|call| call.id == id)?.directory.as_ref()
    }

    pub(super) fn set_directory(&mut self, id: &str, directory: &Path) {
        if let Some(call) = self.entry(id) {
            call.directory = Some(directory.to_owned());
        }
    }

    /// Marks that a person is asked about a call; returns whether it was marked before.
    pub(super) fn mark_asked(&mut self, id: &str) -> bool {
        self.entry(id).is_some_and(|call| std::mem::replace(&mut call.was_asked, true))
    }

    /// The call, with the analysis that it already has if nothing about it has changed.
    pub(super) fn share(&mut self, id: &str, call: ToolUse, bytes: usize) -> Arc<ToolUse> {
        let Some(known) = self.entry(id) else { return Arc::new(call) };
        let analyzed = known.analyzed.take().filter(|known| *known.call == call);
        let analyzed =
            analyzed.unwrap_or_else(|| AnalyzedCall { call: Arc::new(call), input_bytes: bytes, decision: None });
        let shared = Arc::clone(&analyzed.call);
        known.analyzed = (bytes <= MAX_ANALYZED_BYTES).then_some(analyzed);
        self.drop_old_analyses();
        shared
    }

    /// The remembered decision on a call, if rules and modes are still the same.
    pub(super) fn decision(&self, id: &str, call: &Arc<ToolUse>, version: PolicyVersion) -> Option<ExplainedDecision> {
        let known = self.0.iter().find(|known| known.id == id)?.analyzed.as_ref()?;
        let (made_by, decision) = known.decision.as_ref().filter(|_| Arc::ptr_eq(&known.call, call))?;
        (*made_by == version).then(|| decision.clone())
    }

    pub(super) fn set_decision(
        &mut self,
        id: &str,
        call: &Arc<ToolUse>,
        version: PolicyVersion,
        decision: ExplainedDecision,
    ) {
        let known = self.0.iter_mut().find(|known| known.id == id).and_then(|known| known.analyzed.as_mut());
        if let Some(known) = known.filter(|known| Arc::ptr_eq(&known.call, call)) {
            known.decision = Some((version, decision));
        }
    }

    fn drop_old_analyses(&mut self) {
        let mut total = 0_usize;
        for call in self.0.iter_mut().rev() {
            total = total.saturating_add(call.analyzed.as_ref().map_or(0, |analyzed| analyzed.input_bytes));
            if total > MAX_ANALYZED_BYTES {
                call.analyzed = None;
            }
        }
    }
}
