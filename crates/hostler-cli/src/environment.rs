//! The process's environment as a value.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

/// Environment of the process, read once in `main` and passed on; no other code reads it from the process.
#[derive(Clone)]
pub struct HostEnvironment {
    /// All variables. They contain secrets and are never printed.
    pub vars: BTreeMap<OsString, OsString>,
    /// Home directory of the user.
    pub home: PathBuf,
    /// `$XDG_STATE_HOME`, or its default below home.
    pub xdg_state: PathBuf,
    /// `$XDG_CONFIG_HOME`, or its default below home.
    pub xdg_config: PathBuf,
    /// `$XDG_CACHE_HOME`, or its default below home.
    pub xdg_cache: PathBuf,
    /// `$XDG_RUNTIME_DIR`, if set.
    pub xdg_runtime: Option<PathBuf>,
    /// Directory for temporary files.
    pub temp_dir: PathBuf,
    /// Working directory of the command.
    pub current_dir: PathBuf,
    /// Whether stdin is a terminal.
    pub stdin_is_terminal: bool,
    /// Whether stdout is a terminal.
    pub stdout_is_terminal: bool,
    /// Whether stderr is a terminal.
    pub stderr_is_terminal: bool,
    /// Width of stdout's terminal, if known.
    pub columns: Option<usize>,
}

impl HostEnvironment {
    /// Reads the process's environment. Called once, in `main`.
    pub fn from_process() -> Self {
        let current_dir = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
        let mut environment = Self::from_vars(std::env::vars_os(), current_dir, std::env::temp_dir());
        environment.stdin_is_terminal = std::io::stdin().is_terminal();
        environment.stdout_is_terminal = std::io::stdout().is_terminal();
        environment.stderr_is_terminal = std::io::stderr().is_terminal();
        environment.columns = terminal_size::terminal_size_of(std::io::stdout()).map(|(width, _)| width.0.into());
        environment
    }

    /// Creates an environment from values; no stream is a terminal.
    pub fn from_vars(
        vars: impl IntoIterator<Item = (OsString, OsString)>,
        current_dir: PathBuf,
        temp_dir: PathBuf,
    ) -> Self {
        let vars: BTreeMap<_, _> = vars.into_iter().collect();
        // The XDG specification requires relative paths to be ignored.
        let directory = |name: &str| vars.get(OsStr::new(name)).map(PathBuf::from).filter(|path| path.is_absolute());
        let home = directory("HOME").or_else(user_home_directory).unwrap_or_else(|| PathBuf::from("/"));
        let below_home = |name: &str, default: &str| directory(name).unwrap_or_else(|| home.join(default));
        Self {
            xdg_state: below_home("XDG_STATE_HOME", ".local/state"),
            xdg_config: below_home("XDG_CONFIG_HOME", ".config"),
            xdg_cache: below_home("XDG_CACHE_HOME", ".cache"),
            xdg_runtime: directory("XDG_RUNTIME_DIR"),
            home,
            vars,
            temp_dir,
            current_dir,
            stdin_is_terminal: false,
            stdout_is_terminal: false,
            stderr_is_terminal: false,
            columns: None,
        }
    }

    /// Returns a variable's value; empty counts as not set.
    pub fn var(&self, name: &str) -> Option<&OsStr> {
        self.vars.get(OsStr::new(name)).map(OsString::as_os_str).filter(|value| !value.is_empty())
    }

    /// Returns the directory of this user's locks. It is not created here.
    pub fn runtime_dir(&self) -> PathBuf {
        hostler_process::runtime_dir_path(self.xdg_runtime.as_deref())
    }

    /// Returns the directory of managed installs.
    pub fn cache_dir(&self) -> PathBuf {
        self.xdg_cache.join("hostler")
    }

    /// Returns the host's own directories: state, configuration, cache and locks.
    pub fn private_directories(&self, state_dir: &Path) -> Vec<PathBuf> {
        vec![state_dir.to_owned(), self.xdg_config.join("hostler"), self.cache_dir(), self.runtime_dir()]
    }

    /// Looks a program up on the PATH.
    pub fn find_program(&self, name: &str) -> Option<PathBuf> {
        hostler_process::find_program(name, self.var("PATH")?)
    }

    /// Resolves a path relative to the working directory of the command.
    pub fn resolve_path(&self, path: &Path) -> PathBuf {
        self.current_dir.join(path)
    }

    /// Returns whether the user asked for output without colors.
    pub(crate) fn is_color_disabled(&self) -> bool {
        self.var("NO_COLOR").is_some() || self.var("TERM").is_some_and(|term| term == "dumb")
    }
}

impl fmt::Debug for HostEnvironment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostEnvironment")
            .field("vars", &self.vars.len())
            .field("home", &self.home)
            .field("current_dir", &self.current_dir)
            .finish_non_exhaustive()
    }
}

fn user_home_directory() -> Option<PathBuf> {
    nix::unistd::User::from_uid(nix::unistd::getuid()).ok().flatten().map(|user| user.dir)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(vars: &[(&str, &str)]) -> HostEnvironment {
        let vars = vars.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
        HostEnvironment::from_vars(vars, PathBuf::from("/here"), PathBuf::from("/scratch"))
    }

    #[test]
    fn xdg_directories_default_to_paths_below_home() {
        let environment = environment(&[("HOME", "/home/ada")]);
        assert_eq!(environment.xdg_state, Path::new("/home/ada/.local/state"));
        assert_eq!(environment.xdg_config, Path::new("/home/ada/.config"));
        assert_eq!(environment.cache_dir(), Path::new("/home/ada/.cache/hostler"));
    }

    #[test]
    fn relative_xdg_directory_is_ignored() {
        let environment = environment(&[("HOME", "/home/ada"), ("XDG_STATE_HOME", "state"), ("XDG_CACHE_HOME", "/c")]);
        assert_eq!(environment.xdg_state, Path::new("/home/ada/.local/state"));
        assert_eq!(environment.xdg_cache, Path::new("/c"));
    }

    #[test]
    fn runtime_directory_does_not_depend_on_the_temporary_directory() {
        let expected = PathBuf::from(format!("/tmp/hostler-{}", nix::unistd::geteuid()));
        assert_eq!(environment(&[]).runtime_dir(), expected);
        assert_eq!(environment(&[("XDG_RUNTIME_DIR", "/gone/with/the/session")]).runtime_dir(), expected);
    }

    #[test]
    fn debug_output_contains_no_variables() {
        let text = format!("{:?}", environment(&[("HOME", "/h"), ("HOSTLER_UPSTREAM_KEY", "sk-planted")]));
        assert!(!text.contains("sk-planted"), "{text}");
    }
}
