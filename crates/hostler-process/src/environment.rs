//! An agent's environment: explicit and ordered; its `Debug` shows no values.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::OsStrExt;

/// Environment variables for an agent, ordered by name. `Debug` shows names only, because values hold secrets.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Environment {
    vars: BTreeMap<OsString, OsString>,
}

impl Environment {
    /// Collects variables; of two with the same name the later one wins.
    pub fn from_vars(vars: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        Self { vars: vars.into_iter().collect() }
    }

    /// Sets a variable, replacing an earlier value.
    pub fn set(&mut self, name: impl Into<OsString>, value: impl Into<OsString>) {
        self.vars.insert(name.into(), value.into());
    }

    /// The value of a variable.
    pub fn get(&self, name: impl AsRef<OsStr>) -> Option<&OsStr> {
        self.vars.get(name.as_ref()).map(OsString::as_os_str)
    }

    /// Removes one variable.
    pub fn remove(&mut self, name: impl AsRef<OsStr>) {
        self.vars.remove(name.as_ref());
    }

    /// Removes every variable whose name begins with `prefix`.
    pub fn remove_prefix(&mut self, prefix: &str) {
        self.retain(|name, _| !name.as_bytes().starts_with(prefix.as_bytes()));
    }

    /// Retains the variables for which `is_retained` returns true.
    pub fn retain(&mut self, mut is_retained: impl FnMut(&OsStr, &OsStr) -> bool) {
        self.vars.retain(|name, value| is_retained(name, value));
    }

    /// All variables, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.vars.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str()))
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.vars.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Environment {
        Environment::from_vars([
            ("PATH".into(), "/bin".into()),
            ("ANTHROPIC_API_KEY".into(), "planted".into()),
            ("ANTHROPIC_MODEL".into(), "m".into()),
        ])
    }

    #[test]
    fn remove_prefix_removes_only_matching_variables() {
        let mut env = sample();
        env.remove_prefix("ANTHROPIC_");
        assert_eq!(env.iter().collect::<Vec<_>>(), [(OsStr::new("PATH"), OsStr::new("/bin"))]);
    }

    #[test]
    fn set_get_remove_and_retain_change_single_variables() {
        let mut env = sample();
        env.set("PATH", "/usr/bin");
        assert_eq!(env.get("PATH"), Some(OsStr::new("/usr/bin")));
        env.retain(|_, value| value != "planted");
        assert_eq!(env.get("ANTHROPIC_API_KEY"), None);
        env.remove("PATH");
        assert_eq!(env.get("PATH"), None);
        assert_eq!(env.iter().count(), 1);
    }

    #[test]
    fn debug_shows_names_without_values() {
        let shown = format!("{:?}", sample());
        assert!(shown.contains("ANTHROPIC_API_KEY"));
        assert!(!shown.contains("planted"));
    }
}
