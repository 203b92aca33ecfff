//! Source of settings: the inputs to load them from, and the check whether the file has changed.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{ConfigFile, SettingKey, SettingValue, Settings, SettingsError, resolve_settings};
use crate::environment::HostEnvironment;

/// Flags, environment and configuration file.
pub(crate) struct SettingsSource {
    flags: Vec<(SettingKey, SettingValue)>,
    environment: HostEnvironment,
    path: PathBuf,
    /// Whether the user named the file, so that it must exist.
    is_path_explicit: bool,
}

/// File metadata that changes with the contents, without reading them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ConfigFileStamp {
    modified: (i64, i64),
    length: u64,
    /// Changes when the file is replaced.
    device_and_inode: (u64, u64),
}

impl SettingsSource {
    pub(crate) fn new(
        flags: Vec<(SettingKey, SettingValue)>,
        config: Option<&Path>,
        environment: &HostEnvironment,
    ) -> Self {
        let named = config.or_else(|| environment.var("HOSTLER_CONFIG").map(Path::new));
        let path = match named {
            Some(path) => environment.resolve_path(path),
            None => environment.xdg_config.join("hostler").join("config.toml"),
        };
        Self { flags, environment: environment.clone(), path, is_path_explicit: named.is_some() }
    }

    /// Path of the configuration file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the current stamp; `None` if the file does not exist.
    pub(crate) fn stamp(&self) -> Option<ConfigFileStamp> {
        let about = std::fs::metadata(&self.path).ok()?;
        Some(ConfigFileStamp {
            modified: (about.mtime(), about.mtime_nsec()),
            length: about.len(),
            device_and_inode: (about.dev(), about.ino()),
        })
    }

    /// Reads the configuration file and resolves all settings.
    pub(crate) fn load(self: &Arc<Self>) -> Result<Settings, SettingsError> {
        self.read(self.is_path_explicit)
    }

    /// Does the same for a file that existed, or has just been created.
    pub(crate) fn reload(self: &Arc<Self>) -> Result<Settings, SettingsError> {
        self.read(true)
    }

    fn read(self: &Arc<Self>, must_exist: bool) -> Result<Settings, SettingsError> {
        // Stamped first: a change during the read causes another read.
        let stamp = self.stamp();
        let file = match std::fs::read_to_string(&self.path) {
            Ok(text) => ConfigFile::parse(&text, &self.path)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound && !must_exist => ConfigFile::default(),
            Err(source) => return Err(SettingsError::Unreadable { path: self.path.clone(), source }),
        };
        let settings = resolve_settings(self.flags.clone(), &self.environment, file)?;
        Ok(Settings { source: Some(Arc::clone(self)), config_stamp: stamp, ..settings })
    }
}
