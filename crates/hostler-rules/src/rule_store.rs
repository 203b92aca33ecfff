//! The rules that outlive sessions: one file in the state directory, which people, `hostler rules` and hosts edit.
//!
//! The file is checked before every decision, so a new rule applies from the next call on. A file that cannot be parsed
//! allows nothing: until it is repaired, people are asked. A writer locks the directory, so no concurrent change is
//! lost.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hostler_statefile::{StateFile, StateFileContents, StateFileError};
use serde::{Deserialize, Serialize};

use crate::rule::Rule;
use crate::rule_set::{RuleSet, RuleSetError};

/// The file's name within the state directory.
const RULES_FILE_NAME: &str = "rules.toml";

/// Why rules could not be read or stored.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RuleStoreError {
    /// The file is invalid, or cannot be written.
    #[error("permission rules are unavailable: {0}")]
    File(#[from] StateFileError),
    /// There are too many rules.
    #[error(transparent)]
    Set(#[from] RuleSetError),
}

impl RuleStoreError {
    /// The machine-readable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::File(StateFileError::Unreadable { .. }) => "stateFileUnreadable",
            Self::File(StateFileError::Unwritable { .. }) => "stateFileUnwritable",
            Self::Set(error) => error.code(),
        }
    }
}

/// The file's format: rules for all sessions, and rules for the sessions of one working directory.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleStoreFile {
    #[serde(default)]
    global: RuleSet,
    #[serde(default)]
    workspace: Vec<WorkspaceRules>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WorkspaceRules {
    directory: PathBuf,
    rules: RuleSet,
}

/// The host's stored rules, shared by all sessions.
#[derive(Debug)]
pub struct RuleStore {
    file: StateFile<RuleStoreFile>,
}

/// The stored rules at one moment.
#[derive(Debug, Clone)]
pub struct RuleStoreSnapshot {
    /// Increases with every change of the file.
    pub version: u64,
    stored: Arc<RuleStoreFile>,
    /// Why the file cannot be read. Callers then ask instead of allowing.
    pub read_error: Option<String>,
}

impl RuleStoreSnapshot {
    /// The rules for sessions in a working directory.
    ///
    /// # Errors
    /// If there are too many.
    pub fn rules_for(&self, directory: &Path) -> Result<RuleSet, RuleSetError> {
        let mut rules = self.stored.global.clone();
        for workspace in self.stored.workspace.iter().filter(|workspace| workspace.directory == directory) {
            rules.merge(&workspace.rules)?;
        }
        Ok(rules)
    }

    /// All rules with their working directory. Rules for all sessions have none and come first.
    pub fn iter(&self) -> impl Iterator<Item = (Option<&Path>, &Rule)> {
        let global = self.stored.global.iter().map(|rule| (None, rule));
        global.chain(
            self.stored
                .workspace
                .iter()
                .flat_map(|workspace| workspace.rules.iter().map(|rule| (Some(workspace.directory.as_path()), rule))),
        )
    }
}

impl RuleStore {
    /// Opens the rules file of a state directory.
    ///
    /// # Errors
    /// If the file exists and is invalid: a host does not start with rules that it cannot read.
    pub fn open(state_dir: &Path) -> Result<Self, RuleStoreError> {
        Ok(Self { file: StateFile::open(state_dir.join(RULES_FILE_NAME))? })
    }

    /// The current rules. While the file cannot be read, the last known rules with the error, so that denials remain in
    /// force.
    pub fn snapshot(&self) -> RuleStoreSnapshot {
        let StateFileContents { version, value, read_error: broken } = self.file.current();
        RuleStoreSnapshot { version, stored: value, read_error: broken }
    }

    /// Adds rules for the sessions of a working directory, or for all sessions, to the file; they apply from the next
    /// decision on. Returns whether one of them is new. Blocks.
    ///
    /// # Errors
    /// If the file cannot be read or written. Nothing has changed then.
    pub fn add(&self, directory: Option<&Path>, rules: &[Rule]) -> Result<bool, RuleStoreError> {
        self.change(|stored| {
            stored.edit(directory, |set| {
                rules.iter().try_fold(false, |changed, rule| Ok(set.add(rule.clone())? || changed))
            })
        })
    }

    /// Removes a rule for the sessions of a working directory, or for all sessions. Returns whether it was present.
    /// Blocks.
    ///
    /// # Errors
    /// If the file cannot be read or written. Nothing has changed then.
    pub fn remove(&self, directory: Option<&Path>, rule: &Rule) -> Result<bool, RuleStoreError> {
        self.change(|stored| {
            let sets: Vec<&mut RuleSet> = match directory {
                None => vec![&mut stored.global],
                Some(directory) => {
                    let here = stored.workspace.iter_mut().filter(|workspace| workspace.directory == directory);
                    here.map(|workspace| &mut workspace.rules).collect()
                }
            };
            // The section of the file determines where a rule applies, so its stored scope is ignored.
            let same = |other: &&Rule| (other.effect, &other.matcher) == (rule.effect, &rule.matcher);
            let mut changed = false;
            for set in sets {
                let found: Vec<Rule> = set.iter().filter(same).cloned().collect();
                for rule in &found {
                    changed |= set.remove(rule);
                }
            }
            Ok(changed)
        })
    }

    fn change(
        &self,
        change: impl FnOnce(&mut RuleStoreFile) -> Result<bool, RuleStoreError>,
    ) -> Result<bool, RuleStoreError> {
        self.file.change(|stored| {
            let changed = change(stored)?;
            stored.workspace.retain(|workspace| !workspace.rules.is_empty());
            Ok(changed)
        })
    }
}

impl RuleStoreFile {
    /// Changes the rules of a working directory, or those for all sessions.
    fn edit<T>(&mut self, directory: Option<&Path>, edit: impl FnOnce(&mut RuleSet) -> T) -> T {
        let Some(directory) = directory else { return edit(&mut self.global) };
        if let Some(known) = self.workspace.iter_mut().find(|workspace| workspace.directory == directory) {
            return edit(&mut known.rules);
        }
        let mut rules = RuleSet::default();
        let edited = edit(&mut rules);
        self.workspace.push(WorkspaceRules { directory: directory.to_owned(), rules });
        edited
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::{Effect, RuleScope};

    fn rule(text: &str) -> Rule {
        Rule::parse(Effect::Allow, RuleScope::Workspace, text).unwrap()
    }

    fn texts(store: &RuleStore, directory: &str) -> Vec<String> {
        let rules = store.snapshot().rules_for(Path::new(directory)).unwrap();
        rules.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn rule_applies_to_its_directory_and_survives_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let store = RuleStore::open(dir.path()).unwrap();
        store.add(Some(Path::new("/a")), &[rule("Bash(git status)")]).unwrap();
        store.add(Some(Path::new("/a")), &[rule("Bash(git status)"), rule("Bash(ls)")]).unwrap();
        assert_eq!(texts(&store, "/a"), ["Bash(git status)", "Bash(ls)"]);
        assert!(texts(&store, "/b").is_empty());
        let again = RuleStore::open(dir.path()).unwrap();
        assert_eq!(texts(&again, "/a"), ["Bash(git status)", "Bash(ls)"]);
    }

    #[test]
    fn external_file_changes_apply_at_the_next_snapshot() {
        let dir = tempfile::tempdir().unwrap();
        let store = RuleStore::open(dir.path()).unwrap();
        let text = "[global]\nversion = 1\nrules = [{ effect = \"deny\", scope = \"global\", rule = \"Read\" }]\n";
        std::fs::write(dir.path().join(RULES_FILE_NAME), text).unwrap();
        assert_eq!(texts(&store, "/a"), ["Read"]);
        std::fs::remove_file(dir.path().join(RULES_FILE_NAME)).unwrap();
        assert!(texts(&store, "/a").is_empty());
    }

    #[test]
    fn broken_file_reports_an_error_and_retains_the_last_rules_until_repaired() {
        let dir = tempfile::tempdir().unwrap();
        let store = RuleStore::open(dir.path()).unwrap();
        store.add(Some(Path::new("/a")), &[rule("Bash(ls)")]).unwrap();
        std::fs::write(dir.path().join(RULES_FILE_NAME), "nonsense = [").unwrap();
        assert!(store.snapshot().read_error.is_some());
        assert_eq!(texts(&store, "/a"), ["Bash(ls)"]);
        assert!(matches!(store.add(Some(Path::new("/a")), &[rule("Bash(w)")]), Err(RuleStoreError::File(_))));
        assert!(RuleStore::open(dir.path()).is_err(), "a host does not start with it");
        std::fs::remove_file(dir.path().join(RULES_FILE_NAME)).unwrap();
        assert!(store.snapshot().read_error.is_none());
    }

    #[test]
    fn read_errors_do_not_quote_rules() {
        let rules = |rule: &str| format!("[global]\nversion = 1\n\n[[global.rules]]\n{rule}\n");
        for (text, expected) in [
            (rules("effect = \"allow\"\nscope = \"planted\"\nrule = \"Read\""), "unknown variant, expected "),
            (rules("effect = \"allow\"\nscope = \"global\"\nrule = [\"planted\"]"), "invalid type: sequence, expected"),
            (
                rules("effect = \"allow\"\nscope = \"global\"\nrule = \"Bash(planted\""),
                "stored rule 1 is invalid: the closing parenthesis",
            ),
            (rules("planted = \"planted"), "line 5"),
        ] {
            let dir = tempfile::tempdir().unwrap();
            std::fs::write(dir.path().join(RULES_FILE_NAME), text).unwrap();
            let error = RuleStore::open(dir.path()).unwrap_err();
            let said = format!("{error} {error:?}");
            assert!(said.contains(expected) && !said.contains("planted"), "{said}");
        }
    }

    #[test]
    fn global_and_directory_rules_are_listed_and_removed_separately() {
        let dir = tempfile::tempdir().unwrap();
        let store = RuleStore::open(dir.path()).unwrap();
        let (a, ls) = (Some(Path::new("/a")), rule("Bash(ls)"));
        let everywhere = Rule { scope: RuleScope::Global, ..ls.clone() };
        assert!(store.add(None, std::slice::from_ref(&everywhere)).unwrap());
        assert!(!store.add(None, std::slice::from_ref(&everywhere)).unwrap(), "it is there already");
        assert!(store.add(a, std::slice::from_ref(&ls)).unwrap());
        assert_eq!(store.snapshot().iter().collect::<Vec<_>>(), [(None, &everywhere), (a, &ls)]);
        assert!(!store.remove(Some(Path::new("/b")), &ls).unwrap());
        let denied = Rule { effect: Effect::Deny, ..ls.clone() };
        assert!(!store.remove(a, &denied).unwrap());
        assert!(store.remove(a, &ls).unwrap());
        assert_eq!(store.snapshot().iter().collect::<Vec<_>>(), [(None, &everywhere)]);
        let text = std::fs::read_to_string(dir.path().join(RULES_FILE_NAME)).unwrap();
        assert!(!text.contains("/a"), "a directory without rules is not stored: {text}");
    }

    #[test]
    fn concurrent_writers_lose_no_change() {
        let dir = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for writer in 0..4 {
                // Each thread has its own store, like separate processes.
                let store = RuleStore::open(dir.path()).unwrap();
                scope.spawn(move || {
                    for n in 0..8 {
                        assert!(store.add(None, &[rule(&format!("Bash(run {writer} {n})"))]).unwrap());
                    }
                });
            }
        });
        assert_eq!(RuleStore::open(dir.path()).unwrap().snapshot().iter().count(), 32);
    }

    #[test]
    fn documentation_example_is_valid() {
        let page = include_str!("../../../docs/permissions.md");
        let example = page.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(RULES_FILE_NAME), example).unwrap();
        let store = RuleStore::open(dir.path()).unwrap();
        assert_eq!(texts(&store, "/home/ada/project"), ["Read(~/secrets/**)", "Bash(npm run lint)"]);
        assert_eq!(texts(&store, "/elsewhere"), ["Read(~/secrets/**)"]);
    }

    #[cfg(unix)]
    #[test]
    fn rules_file_is_private_and_no_temporary_file_remains() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        RuleStore::open(dir.path()).unwrap().add(Some(Path::new("/a")), &[rule("Bash(ls)")]).unwrap();
        let mode = std::fs::metadata(dir.path().join(RULES_FILE_NAME)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
