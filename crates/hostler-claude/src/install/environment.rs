//! The environments of npm and of the verification run.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::Path;

/// The environment that the program was started with, passed in by `main`.
#[derive(Clone, Default)]
pub(super) struct InstallEnvironment(BTreeMap<OsString, OsString>);

impl InstallEnvironment {
    pub(super) fn new(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        Self(variables.into_iter().collect())
    }

    pub(super) fn path(&self) -> &OsStr {
        self.0.get(OsStr::new("PATH")).map_or(OsStr::new(""), OsString::as_os_str)
    }

    /// npm needs the user's proxies, certificates and npm settings, but no model credentials.
    pub(super) fn for_npm(&self, node: &Path) -> BTreeMap<OsString, OsString> {
        let mut variables: BTreeMap<_, _> = self
            .0
            .iter()
            .filter(|(name, _)| !is_withheld(name))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        variables.insert("PATH".into(), self.path_with_node(node));
        variables
    }

    /// A verification run gets a home of its own and no other variables of the user.
    pub(super) fn for_verification(&self, scratch: &Path, node: &Path) -> BTreeMap<OsString, OsString> {
        let mut variables = BTreeMap::new();
        variables.insert("PATH".into(), self.path_with_node(node));
        for name in ["HOME", "USERPROFILE", "CLAUDE_CONFIG_DIR", "TMPDIR"] {
            variables.insert(name.into(), scratch.into());
        }
        variables.insert("DISABLE_AUTOUPDATER".into(), "1".into());
        variables.insert("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC".into(), "1".into());
        variables
    }

    /// npm is a script that looks up `node`: it must find the one that was found here.
    fn path_with_node(&self, node: &Path) -> OsString {
        let own = node.parent().map(Path::to_path_buf);
        let joined = std::env::join_paths(own.into_iter().chain(std::env::split_paths(self.path())));
        joined.unwrap_or_else(|_| self.path().to_owned())
    }
}

fn is_withheld(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    ["ANTHROPIC_", "CLAUDE", "HOSTLER_", "VSCODE_", "ELECTRON_", "OPENAI_", "COPILOT_", "GITHUB_COPILOT_"]
        .iter()
        .any(|prefix| name.starts_with(prefix))
        || name == "NODE_OPTIONS"
        || name.ends_with("_API_KEY")
}

impl std::fmt::Debug for InstallEnvironment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Environment({} variables)", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment() -> InstallEnvironment {
        let variables = [
            ("PATH", "/bin"),
            ("HOME", "/home/user"),
            ("HTTPS_PROXY", "http://proxy"),
            ("ANTHROPIC_API_KEY", "secret"),
            ("HOSTLER_UPSTREAM_KEY", "secret"),
            ("SOME_API_KEY", "secret"),
            ("NODE_OPTIONS", "--require=evil"),
        ];
        InstallEnvironment::new(variables.map(|(name, value)| (name.into(), value.into())))
    }

    #[test]
    fn npm_environment_has_proxies_but_no_credentials() {
        let seen = environment().for_npm(Path::new("/opt/node/bin/node"));
        let names: Vec<_> = seen.keys().map(|name| name.to_string_lossy()).collect();
        assert_eq!(names, ["HOME", "HTTPS_PROXY", "PATH"]);
        assert_eq!(seen.get(OsStr::new("PATH")), Some(&"/opt/node/bin:/bin".into()));
    }

    #[test]
    fn verification_environment_hides_the_users_home() {
        let seen = environment().for_verification(Path::new("/scratch"), Path::new("/opt/node/bin/node"));
        assert_eq!(seen.get(OsStr::new("HOME")), Some(&"/scratch".into()));
        assert!(!seen.contains_key(OsStr::new("HTTPS_PROXY")));
    }

    #[test]
    fn debug_shows_no_values() {
        assert_eq!(format!("{:?}", environment()), "Environment(7 variables)");
    }
}
