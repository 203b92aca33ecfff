//! The agent's own plan file, which it may write in plan mode.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::path::{CandidatePaths, PathResolver};
use crate::tool_use::ToolUse;

/// The plan that a call reads or writes: a Markdown file in the plans directory. All candidate paths must resolve to
/// the same file.
pub fn find_plan_file(call: &ToolUse, plans: &Path, resolver: &dyn PathResolver) -> Option<PathBuf> {
    if !matches!(call.tool.as_str(), "Edit" | "MultiEdit" | "Read" | "Write") {
        return None;
    }
    let name = call.input.get("file_path").and_then(Value::as_str)?;
    let spot = CandidatePaths::new(name, &call.cwd, call.home.as_deref(), resolver).ok()?;
    let mut files = spot.paths.iter().map(|path| resolver.resolve(path));
    let file = files.next()?.ok()?;
    if files.any(|other| other.ok().as_ref() != Some(&file)) {
        return None;
    }
    let plans = resolver.resolve(plans).ok()?;
    (file.parent()? == plans && file.extension()? == "md").then_some(file)
}
