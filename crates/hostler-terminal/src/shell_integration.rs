//! Shell integration: installs scripts that a shell reads in addition to the user's own, which are not changed.

use std::ffi::OsString;
use std::io;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::ShellNonce;

/// Path and content of each script.
const SCRIPTS: [(&str, &str); 4] = [
    ("bash.sh", include_str!("scripts/bash.sh")),
    ("zsh/.zshenv", include_str!("scripts/zsh/zshenv")),
    ("zsh/.zshrc", include_str!("scripts/zsh/zshrc")),
    ("fish.fish", include_str!("scripts/fish.fish")),
];

/// Environment variable that the scripts read and unset.
const NONCE_ENV: &str = "HOSTLER_TERMINAL_NONCE";
const USER_ZDOTDIR_ENV: &str = "HOSTLER_TERMINAL_ZDOTDIR";
const SCRIPT_ENV: &str = "HOSTLER_TERMINAL_SCRIPT";

/// Arguments and environment for starting a shell.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShellLaunch {
    /// Arguments.
    pub args: Vec<OsString>,
    /// Environment variables to set.
    pub env: Vec<(OsString, OsString)>,
}

/// The directory with the installed scripts.
#[derive(Debug, Clone)]
pub struct ShellIntegration {
    directory: PathBuf,
}

impl ShellIntegration {
    /// Writes missing or changed scripts into a directory. Files are replaced atomically.
    ///
    /// # Errors
    /// If a script cannot be written.
    pub fn install(directory: &Path) -> io::Result<Self> {
        for (name, script) in SCRIPTS {
            let path = directory.join(name);
            if fs_err::read_to_string(&path).is_ok_and(|there| there == script) {
                continue;
            }
            let place = path.parent().unwrap_or(directory);
            fs_err::create_dir_all(place)?;
            let mut file = NamedTempFile::new_in(place)?;
            file.write_all(script.as_bytes())?;
            file.persist(&path).map_err(|error| error.error)?;
        }
        Ok(Self { directory: directory.to_owned() })
    }

    /// How to start a shell so that it reports its commands. Other shells than bash, zsh and fish are started
    /// unchanged. `zdotdir` is the user's directory of zsh files, if it is not the home directory.
    pub fn launch_options(&self, shell: &Path, nonce: &ShellNonce, zdotdir: Option<OsString>) -> ShellLaunch {
        let script = |name: &str| self.directory.join(name).into_os_string();
        let mut launch = match shell.file_name().and_then(|name| name.to_str()) {
            Some("bash") => {
                ShellLaunch { args: vec!["--init-file".into(), script("bash.sh"), "-i".into()], env: Vec::new() }
            }
            Some("zsh") => {
                let users = zdotdir.map(|directory| (USER_ZDOTDIR_ENV.into(), directory));
                let env = users.into_iter().chain([("ZDOTDIR".into(), script("zsh"))]).collect();
                ShellLaunch { args: vec!["-i".into()], env }
            }
            Some("fish") => {
                let args = ["--init-command", "source $HOSTLER_TERMINAL_SCRIPT", "-i"].map(OsString::from).to_vec();
                ShellLaunch { args, env: vec![(SCRIPT_ENV.into(), script("fish.fish"))] }
            }
            _ => return ShellLaunch::default(),
        };
        launch.env.push((NONCE_ENV.into(), nonce.expose().into()));
        launch
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use super::*;

    #[test]
    fn scripts_are_written_once_and_repaired() {
        let home = tempfile::tempdir().unwrap();
        let place = home.path().join("a b");
        ShellIntegration::install(&place).unwrap();
        let written = |name: &str| fs_err::read_to_string(place.join(name)).unwrap();
        assert!(written("zsh/.zshrc").contains("precmd_functions"));
        fs_err::write(place.join("bash.sh"), "half").unwrap();
        ShellIntegration::install(&place).unwrap();
        assert_eq!(written("bash.sh"), SCRIPTS[0].1);
        assert_eq!(fs_err::read_dir(&place).unwrap().count(), 3, "nothing else is left there");
    }

    #[test]
    fn unsupported_shells_are_started_unchanged() {
        let integration = ShellIntegration { directory: "/scripts".into() };
        let nonce = ShellNonce::fixed("n");
        for shell in ["/bin/sh", "/usr/bin/dash", "nu", "/opt/bash-it"] {
            assert_eq!(integration.launch_options(Path::new(shell), &nonce, None), ShellLaunch::default(), "{shell}");
        }
        let zsh = integration.launch_options(Path::new("/bin/zsh"), &nonce, Some("/z".into()));
        assert!(zsh.env.contains(&("ZDOTDIR".into(), "/scripts/zsh".into())));
        assert!(zsh.env.contains(&(USER_ZDOTDIR_ENV.into(), "/z".into())));
    }
}
