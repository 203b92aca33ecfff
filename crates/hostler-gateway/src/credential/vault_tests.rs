//! Tests of the credential vault, with a keyring in memory.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;

use super::*;

/// A keyring in memory, or one that always fails.
#[derive(Default)]
struct MemoryKeyring {
    entries: Mutex<BTreeMap<String, String>>,
    lookups: Mutex<usize>,
    locked: bool,
}

impl MemoryKeyring {
    fn locked() -> Self {
        Self { locked: true, ..Self::default() }
    }

    fn open(&self) -> Result<(), CredentialError> {
        if self.locked { Err(locked()) } else { Ok(()) }
    }

    fn lookups(&self) -> usize {
        *self.lookups.lock().unwrap()
    }
}

impl Keyring for MemoryKeyring {
    fn get(&self, name: &str) -> Result<Option<SecretString>, CredentialError> {
        *self.lookups.lock().unwrap() += 1;
        self.open()?;
        Ok(self.entries.lock().unwrap().get(name).cloned().map(SecretString::from))
    }

    fn set(&self, name: &str, secret: &SecretString) -> Result<(), CredentialError> {
        self.open()?;
        self.entries.lock().unwrap().insert(name.to_owned(), secret.expose_secret().to_owned());
        Ok(())
    }

    fn delete(&self, name: &str) -> Result<bool, CredentialError> {
        self.open()?;
        Ok(self.entries.lock().unwrap().remove(name).is_some())
    }
}

fn locked() -> CredentialError {
    CredentialError::KeyringUnavailable { reason: "it is locked".to_owned() }
}

fn log_in() -> CredentialError {
    CredentialError::Missing { message: "log in".to_owned() }
}

fn secret(text: &str) -> SecretString {
    SecretString::from(text)
}

fn current(source: &StoredCredential) -> Result<Option<String>, CredentialError> {
    Ok(source.current()?.map(|secret| secret.expose_secret().to_owned()))
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn without_a_keyring_a_credential_is_stored_in_a_private_file() {
    let scratch = tempfile::tempdir().unwrap();
    let directory = scratch.path().join("state").join("credentials");
    let vault = CredentialVault::with_files(directory.clone());
    assert_eq!(vault.locate("work"), None);
    assert!(!directory.exists(), "a lookup creates no directory");

    let saved = vault.save("work", &secret("sk-1")).unwrap();
    assert_eq!(
        saved,
        SavedCredential { location: CredentialLocation::File(directory.join("work")), keyring_error: None }
    );
    assert_eq!((mode(&directory), mode(&directory.join("work"))), (0o700, 0o600));
    let source = vault.credential_source("work", false, None).unwrap();
    assert_eq!(current(&source), Ok(Some("sk-1".to_owned())));

    vault.save("work", &secret("sk-longer-2")).unwrap();
    assert_eq!(current(&source), Ok(Some("sk-longer-2".to_owned())), "a new credential applies at once");
    assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 1, "no temporary file remains");

    assert_eq!(vault.delete("work").unwrap(), [CredentialLocation::File(directory.join("work"))]);
    assert_eq!(current(&source), Ok(None));
    assert_eq!(vault.delete("work").unwrap(), []);
}

#[test]
fn save_restricts_a_directory_that_others_can_read() {
    let scratch = tempfile::tempdir().unwrap();
    std::fs::set_permissions(scratch.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    CredentialVault::with_files(scratch.path().to_owned()).save("a", &secret("sk")).unwrap();
    assert_eq!(mode(scratch.path()), 0o700);
}

#[test]
fn the_keyring_is_queried_once_and_only_for_entries_stored_there() {
    let scratch = tempfile::tempdir().unwrap();
    let keyring = Arc::new(MemoryKeyring::default());
    let vault =
        CredentialVault::with_keyring_or_files(scratch.path().to_owned(), Arc::clone(&keyring) as Arc<dyn Keyring>);
    let source = vault.credential_source("work", false, Some("log in".to_owned())).unwrap();
    assert_eq!(current(&source), Err(log_in()));
    assert_eq!(keyring.lookups(), 0, "no credential is stored yet");

    assert_eq!(vault.save("work", &secret("sk-1")).unwrap().location, CredentialLocation::Keyring);
    assert_eq!(vault.locate("work"), Some(CredentialLocation::Keyring));
    for file in std::fs::read_dir(scratch.path()).unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        assert!(!text.contains("sk-1"), "{text}");
    }
    for _ in 0..3 {
        assert_eq!(current(&source), Ok(Some("sk-1".to_owned())));
    }
    assert_eq!(keyring.lookups(), 1);

    // Another program changes the entry; that is detected when the upstream rejects the old one.
    keyring.set("work", &secret("sk-2")).unwrap();
    source.mark_rejected(&secret("sk-1"));
    assert_eq!(current(&source), Ok(Some("sk-2".to_owned())));
    assert_eq!(vault.delete("work").unwrap(), [CredentialLocation::Keyring]);
    assert_eq!(current(&source), Err(log_in()));
    assert!(keyring.entries.lock().unwrap().is_empty());
}

#[test]
fn an_expected_keyring_entry_of_another_program_is_used() {
    let scratch = tempfile::tempdir().unwrap();
    let keyring = Arc::new(MemoryKeyring::default());
    keyring.set("work", &secret("sk-theirs")).unwrap();
    let vault = CredentialVault::with_keyring_only(scratch.path().to_owned(), keyring);
    let source = vault.credential_source("work", true, None).unwrap();
    assert_eq!(current(&source), Ok(Some("sk-theirs".to_owned())));
}

#[test]
fn a_failing_keyring_falls_back_to_a_file_unless_it_is_required() {
    let scratch = tempfile::tempdir().unwrap();
    let directory = scratch.path().to_owned();
    let unavailable: Arc<dyn Keyring> = Arc::new(MemoryKeyring::locked());
    let vault = CredentialVault::with_keyring_or_files(directory.clone(), Arc::clone(&unavailable));
    let saved = vault.save("work", &secret("sk-1")).unwrap();
    assert_eq!(saved.location, CredentialLocation::File(directory.join("work")));
    assert_eq!(saved.keyring_error.as_deref(), Some("the system keyring is not available: it is locked"));

    let strict = CredentialVault::with_keyring_only(directory, unavailable);
    assert_eq!(strict.save("other", &secret("sk-1")).unwrap_err(), locked());
    assert_eq!(strict.locate("other"), None);
    let source = strict.credential_source("other", true, None).unwrap();
    assert_eq!(current(&source), Err(locked()));
}

#[test]
fn a_keyring_credential_without_keyring_access_is_an_error() {
    let scratch = tempfile::tempdir().unwrap();
    let keyring: Arc<dyn Keyring> = Arc::new(MemoryKeyring::default());
    CredentialVault::with_keyring_or_files(scratch.path().to_owned(), keyring).save("work", &secret("sk-1")).unwrap();
    let files = CredentialVault::with_files(scratch.path().to_owned());
    let source = files.credential_source("work", false, None).unwrap();
    assert_eq!(current(&source), Err(CredentialError::KeyringDisabled { name: "work".to_owned() }));
    assert!(files.delete("work").is_err());
    // A new login replaces it.
    files.save("work", &secret("sk-2")).unwrap();
    assert_eq!(current(&source), Ok(Some("sk-2".to_owned())));
}

#[test]
fn names_with_path_components_are_rejected() {
    let vault = CredentialVault::with_files(PathBuf::from("/nowhere"));
    for name in ["", "..", "a/b", "A", "a.keyring"] {
        assert!(vault.save(name, &secret("sk")).is_err(), "{name}");
        assert!(vault.credential_source(name, false, None).is_err(), "{name}");
        assert_eq!(vault.locate(name), None, "{name}");
    }
}
