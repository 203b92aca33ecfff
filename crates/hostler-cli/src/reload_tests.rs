//! Tests of configuration reloads.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use super::*;
use crate::environment::HostEnvironment;

/// Configuration file and its watcher.
struct Fixture {
    _scratch: tempfile::TempDir,
    path: PathBuf,
    watcher: ConfigFileWatcher,
    applied: Mutex<Vec<GatewayOptions>>,
}

impl Fixture {
    fn new(text: &str, constraints: ReloadConstraints) -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("config.toml");
        std::fs::write(&path, text).unwrap();
        let environment = HostEnvironment::from_vars([], scratch.path().to_owned(), scratch.path().to_owned());
        let source = Arc::new(SettingsSource::new(Vec::new(), Some(Path::new("config.toml")), &environment));
        let settings = source.load().unwrap();
        let watcher = ConfigFileWatcher::new(&settings, constraints).unwrap();
        Self { _scratch: scratch, path, watcher, applied: Mutex::default() }
    }

    /// Writes the file and reloads it.
    fn write(&mut self, text: &str) -> Vec<ReloadNotice> {
        std::fs::write(&self.path, text).unwrap();
        self.read()
    }

    fn read(&mut self) -> Vec<ReloadNotice> {
        let (watcher, applied) = (&mut self.watcher, &self.applied);
        watcher.reload(&|options| {
            if options.upstreams.iter().any(|spec| spec.name == "impossible") {
                return Err(LaunchError::Other("That is impossible.".to_owned()));
            }
            applied.lock().unwrap().push(options);
            Ok(())
        })
    }

    fn applied(&self) -> Vec<String> {
        let of = |options: &GatewayOptions| {
            options.upstreams.iter().map(|spec| spec.name.as_str()).collect::<Vec<_>>().join(",")
        };
        self.applied.lock().unwrap().iter().map(of).collect()
    }
}

const SCRIPTED: &str = "upstream = 'scripted'\n";

#[test]
fn changed_file_is_applied_and_unchanged_file_is_not() {
    let mut fixture = Fixture::new(SCRIPTED, ReloadConstraints::default());
    assert_eq!(fixture.read(), []);
    let notices = fixture.write(&format!("{SCRIPTED}[upstreams.toy]\nkind = 'scripted'\n"));
    let text = format!("Reloaded {}. Upstreams: scripted, toy.", fixture.path.display());
    assert_eq!(notices, [ReloadNotice { text, is_warning: false }]);
    assert_eq!(fixture.read(), []);
    assert_eq!(fixture.applied(), ["scripted,toy"]);
}

#[test]
fn invalid_file_changes_nothing_and_is_reported() {
    let mut fixture = Fixture::new(SCRIPTED, ReloadConstraints::default());
    for (text, part) in [
        ("upstream = ", "line 1"),
        ("upstream = 'acme'", "must be one of"),
        ("upstream = 'impossible'\n[upstreams.impossible]\nkind = 'scripted'", "That is impossible."),
    ] {
        let notices = fixture.write(text);
        assert!(notices.len() == 1 && notices[0].is_warning, "{notices:?}");
        assert!(notices[0].text.contains(part), "{notices:?}");
        assert!(notices[0].text.ends_with("The configuration is unchanged."), "{notices:?}");
    }
    std::fs::remove_file(&fixture.path).unwrap();
    assert!(fixture.read()[0].text.contains("Failed to read the configuration file"));
    assert_eq!(fixture.applied(), Vec::<String>::new());
    assert_eq!(fixture.write(SCRIPTED), [], "the settings in force are back");
}

#[test]
fn restart_settings_are_reported_once() {
    let mut fixture = Fixture::new(SCRIPTED, ReloadConstraints::default());
    let changed = format!("{SCRIPTED}listen = '127.0.0.1:1'\nclaude = 'js'\nmodel = 'm'\n[agent.env]\nA = 'b'");
    let notices = fixture.write(&changed);
    let text = "Restart to apply changes of: agent.env, claude, listen.".to_owned();
    assert_eq!(notices, [ReloadNotice { text, is_warning: true }]);
    assert_eq!(fixture.read(), []);
    assert_eq!(fixture.applied(), Vec::<String>::new());
    let notices = fixture.write(&format!("{changed}\n[files]\ngrant = 'always'"));
    assert!(notices[0].text.contains(" files.grant."), "{notices:?}");
}

#[test]
fn variable_visible_to_agents_is_not_used_as_a_key() {
    let withheld = vec!["ANTHROPIC_API_KEY", "GITHUB_TOKEN", "OPENAI_API_KEY", "HOSTLER_UPSTREAM_KEY", "OLD"];
    let constraints = ReloadConstraints {
        withheld_variables: Some(withheld.into_iter().map(str::to_owned).collect()),
        has_no_ledger: false,
    };
    let mut fixture = Fixture::new(SCRIPTED, constraints);
    let table = |variable: &str| format!("{SCRIPTED}[upstreams.w]\nkind = 'anthropic'\nkey-env = '{variable}'");
    let notices = fixture.write(&table("NEW"));
    assert!(notices[0].is_warning && notices[0].text.contains("variable NEW"), "{notices:?}");
    assert_eq!(fixture.applied(), Vec::<String>::new());
    fixture.write(&table("OLD"));
    assert_eq!(fixture.applied(), ["scripted,w"]);
}

#[test]
fn limits_are_not_applied_without_a_ledger() {
    let mut fixture = Fixture::new(SCRIPTED, ReloadConstraints { withheld_variables: None, has_no_ledger: true });
    let notices = fixture.write(&format!("{SCRIPTED}[limits]\nday-requests = 1"));
    assert!(notices[0].is_warning && notices[0].text.contains("Restart the proxy"), "{notices:?}");
    assert_eq!(fixture.applied(), Vec::<String>::new());
}
