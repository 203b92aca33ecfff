//! The rules that outlive sessions: one file in the state directory, for people and for this host to write.
//!
//! It is looked at before every decision, so that a rule that somebody adds by hand holds from the next call on. A file
//! that cannot be understood allows nothing: until it is repaired people are asked.

use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use hostler_rules::{Rule, RuleSet, RuleSetError};
use serde::{Deserialize, Serialize};

/// The file's name within the state directory.
const FILE: &str = "rules.toml";

/// A file that is larger was not written by anybody who means well.
const MAX_FILE: u64 = 4 * 1024 * 1024;

/// Why rules could not be read or kept.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RuleBookError {
    /// The file is not what it should be.
    #[error("the rules in {path} cannot be understood: {problem}; repair or remove the file")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// The file cannot be written.
    #[error("the rule cannot be stored in {path}: {problem}")]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// Why not.
        problem: String,
    },
    /// There are too many rules.
    #[error(transparent)]
    Set(#[from] RuleSetError),
}

/// The file's form: rules for all sessions, and rules for the sessions of one working directory.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    #[serde(default)]
    global: RuleSet,
    #[serde(default)]
    workspace: Vec<Workspace>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Workspace {
    directory: PathBuf,
    rules: RuleSet,
}

/// The file's identity: another one means that somebody has written it.
type Stamp = Option<(SystemTime, u64)>;

#[derive(Debug)]
struct State {
    stamp: Stamp,
    version: u64,
    stored: Arc<Stored>,
    broken: Option<String>,
}

/// The host's rules. Looked up by all sessions.
#[derive(Debug)]
pub(crate) struct RuleBook {
    path: PathBuf,
    state: Mutex<State>,
}

/// What the book says at a moment.
#[derive(Debug, Clone)]
pub(crate) struct Page {
    /// Grows with every change of the file.
    pub(crate) version: u64,
    stored: Arc<Stored>,
    /// Why nothing is allowed at the moment.
    pub(crate) broken: Option<String>,
}

impl Page {
    /// The rules for sessions in a working directory.
    pub(crate) fn rules_for(&self, directory: &Path) -> Result<RuleSet, RuleSetError> {
        let mut rules = self.stored.global.clone();
        for workspace in self.stored.workspace.iter().filter(|workspace| workspace.directory == directory) {
            rules.join(&workspace.rules)?;
        }
        Ok(rules)
    }
}

impl RuleBook {
    /// Opens the book of a state directory.
    ///
    /// # Errors
    /// If there is one that cannot be understood: a host does not start with rules that it does not know.
    pub(crate) fn open(state_dir: &Path) -> Result<Self, RuleBookError> {
        let path = state_dir.join(FILE);
        let (stamp, stored) = read(&path)?;
        Ok(Self { path, state: Mutex::new(State { stamp, version: 0, stored: Arc::new(stored), broken: None }) })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the book says now.
    pub(crate) fn page(&self) -> Page {
        let mut state = self.lock();
        if stamp(&self.path) != state.stamp {
            self.turn(&mut state);
        }
        Page { version: state.version, stored: Arc::clone(&state.stored), broken: state.broken.clone() }
    }

    fn turn(&self, state: &mut State) {
        state.version += 1;
        match read(&self.path) {
            Ok((stamp, stored)) => {
                *state = State { stamp, version: state.version, stored: Arc::new(stored), broken: None };
            }
            Err(error) => {
                tracing::error!(%error, "nothing is allowed without a question until the rules are repaired");
                // Denials that were known stay in force.
                state.stamp = stamp(&self.path);
                state.broken = Some(error.to_string());
            }
        }
    }

    /// Adds rules for the sessions of a working directory, on disk and for the next decision. Blocks.
    ///
    /// # Errors
    /// If the file cannot be understood or written; then nothing has changed.
    pub(crate) fn add(&self, directory: &Path, rules: &[Rule]) -> Result<(), RuleBookError> {
        let mut state = self.lock();
        let (_, mut stored) = read(&self.path)?;
        let at = match stored.workspace.iter().position(|workspace| workspace.directory == directory) {
            Some(at) => at,
            None => {
                stored.workspace.push(Workspace { directory: directory.to_owned(), rules: RuleSet::default() });
                stored.workspace.len() - 1
            }
        };
        if let Some(workspace) = stored.workspace.get_mut(at) {
            for rule in rules {
                workspace.rules.add(rule.clone())?;
            }
        }
        write(&self.path, &stored).map_err(|problem| RuleBookError::Unwritable { path: self.path.clone(), problem })?;
        let version = state.version + 1;
        *state = State { stamp: stamp(&self.path), version, stored: Arc::new(stored), broken: None };
        Ok(())
    }
}

fn stamp(path: &Path) -> Stamp {
    let facts = fs_err::metadata(path).ok()?;
    Some((facts.modified().ok()?, facts.len()))
}

fn read(path: &Path) -> Result<(Stamp, Stored), RuleBookError> {
    let unreadable = |problem: String| RuleBookError::Unreadable { path: path.to_owned(), problem };
    // Before the contents: what is written in between is read again.
    let stamp = stamp(path);
    let mut text = String::new();
    let read = fs_err::File::open(path).and_then(|file| file.take(MAX_FILE + 1).read_to_string(&mut text));
    match read {
        Ok(_) if text.len() as u64 > MAX_FILE => Err(unreadable("it is too large".to_owned())),
        Ok(_) => Ok((stamp, toml::from_str(&text).map_err(|error| unreadable(error.message().to_owned()))?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok((None, Stored::default())),
        Err(error) => Err(unreadable(error.to_string())),
    }
}

/// Writes beside the file and puts it in its place: whoever reads sees the old one or the new one.
fn write(path: &Path, stored: &Stored) -> Result<(), String> {
    let text = toml::to_string_pretty(stored).map_err(|error| error.to_string())?;
    let directory = path.parent().ok_or("it has no directory")?;
    let attempt = || -> io::Result<()> {
        // Made for its owner alone.
        let mut file = tempfile::Builder::new().prefix(".rules-").tempfile_in(directory)?;
        file.write_all(text.as_bytes())?;
        file.as_file().sync_all()?;
        file.persist(path)?;
        fs_err::File::open(directory)?.sync_all()
    };
    attempt().map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hostler_rules::{Effect, Scope};

    fn rule(text: &str) -> Rule {
        Rule::parse(Effect::Allow, Scope::Workspace, text).unwrap()
    }

    fn texts(book: &RuleBook, directory: &str) -> Vec<String> {
        let rules = book.page().rules_for(Path::new(directory)).unwrap();
        rules.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_rule_is_there_for_its_directory_and_after_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let book = RuleBook::open(dir.path()).unwrap();
        book.add(Path::new("/a"), &[rule("Bash(git status)")]).unwrap();
        book.add(Path::new("/a"), &[rule("Bash(git status)"), rule("Bash(ls)")]).unwrap();
        assert_eq!(texts(&book, "/a"), ["Bash(git status)", "Bash(ls)"]);
        assert!(texts(&book, "/b").is_empty());
        let again = RuleBook::open(dir.path()).unwrap();
        assert_eq!(texts(&again, "/a"), ["Bash(git status)", "Bash(ls)"]);
    }

    #[test]
    fn what_somebody_else_writes_holds_from_the_next_look_on() {
        let dir = tempfile::tempdir().unwrap();
        let book = RuleBook::open(dir.path()).unwrap();
        let text = "[global]\nversion = 1\nrules = [{ effect = \"deny\", scope = \"global\", rule = \"Read\" }]\n";
        std::fs::write(dir.path().join(FILE), text).unwrap();
        assert_eq!(texts(&book, "/a"), ["Read"]);
        std::fs::remove_file(dir.path().join(FILE)).unwrap();
        assert!(texts(&book, "/a").is_empty());
    }

    #[test]
    fn a_broken_file_allows_nothing_keeps_what_was_known_and_can_be_repaired() {
        let dir = tempfile::tempdir().unwrap();
        let book = RuleBook::open(dir.path()).unwrap();
        book.add(Path::new("/a"), &[rule("Bash(ls)")]).unwrap();
        std::fs::write(dir.path().join(FILE), "nonsense = [").unwrap();
        assert!(book.page().broken.is_some());
        assert_eq!(texts(&book, "/a"), ["Bash(ls)"]);
        assert!(matches!(book.add(Path::new("/a"), &[rule("Bash(w)")]), Err(RuleBookError::Unreadable { .. })));
        assert!(RuleBook::open(dir.path()).is_err(), "a host does not start with it");
        std::fs::remove_file(dir.path().join(FILE)).unwrap();
        assert!(book.page().broken.is_none());
    }

    #[test]
    fn the_example_in_the_documentation_is_understood() {
        let page = include_str!("../../../docs/permissions.md");
        let example = page.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(FILE), example).unwrap();
        let book = RuleBook::open(dir.path()).unwrap();
        assert_eq!(texts(&book, "/home/ada/project"), ["Read(~/secrets/**)", "Bash(npm run lint)"]);
        assert_eq!(texts(&book, "/elsewhere"), ["Read(~/secrets/**)"]);
    }

    #[cfg(unix)]
    #[test]
    fn the_file_is_its_owners_alone_and_nothing_is_left_beside_it() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        RuleBook::open(dir.path()).unwrap().add(Path::new("/a"), &[rule("Bash(ls)")]).unwrap();
        let mode = std::fs::metadata(dir.path().join(FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
