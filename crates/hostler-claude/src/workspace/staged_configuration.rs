//! The host's directory that one agent is started on, instead of the folder's configuration.
//!
//! It is in the runtime directory, which other users cannot read, under an unguessable name. The name contains its
//! conversation: the conversation's lock shows whether its agent still runs. Dropping it removes it.

use std::ffi::OsString;
use std::fs::{DirBuilder, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use hostler_process::ConversationLock;
use serde_json::{Map, Value, json};
use tempfile::TempDir;

use super::{ConfigurationSnapshot, instructions};

/// Prefix of all stage directories.
const STAGE_PREFIX: &str = "workspace-";

/// Length of the random part of a name.
const RANDOM_NAME_CHARS: usize = 22;

/// The plugin name of the folder's items with [`ConfigIsolation::UserOnly`]: `/project:deploy`.
const PLUGIN_NAME: &str = "project";

/// How a build is prevented from reading the folder's configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConfigIsolation {
    /// The build reads the folder's configuration from another directory. Newer builds support it.
    ConfigRoot,
    /// The build reads none, and gets instructions and commands in other ways. Every build supports it.
    UserOnly,
}

/// The flag of [`ConfigIsolation::ConfigRoot`].
pub(crate) const CONFIG_ROOT_FLAG: &str = "--project-config-root";

/// How an agent is started in a folder.
#[derive(Debug)]
pub(crate) struct StagedConfiguration {
    directory: TempDir,
    /// Arguments that select the configuration's source.
    pub(crate) arguments: Vec<OsString>,
    /// Variables for the agent only.
    pub(crate) environment: Vec<(OsString, OsString)>,
    /// Settings of the folder, and some of ours.
    pub(crate) settings: Map<String, Value>,
    /// Directories of the folder's settings.
    pub(crate) directories: Vec<PathBuf>,
    /// Whether the folder's configuration applies.
    pub(crate) is_applied: bool,
}

impl StagedConfiguration {
    /// Prepares a start. `applied` is the configuration that applies. Blocks; the caller holds the conversation's
    /// lock.
    pub(crate) fn prepare(
        runtime_dir: &Path,
        conversation: &str,
        recipe: ConfigIsolation,
        working_directory: &Path,
        config_directory: Option<&Path>,
        applied: Option<ConfigurationSnapshot>,
    ) -> io::Result<Self> {
        let prefix = format!("{STAGE_PREFIX}{conversation}.");
        remove_stages(runtime_dir, &prefix);
        let directory = tempfile::Builder::new()
            .prefix(&prefix)
            .rand_bytes(RANDOM_NAME_CHARS)
            .permissions(Permissions::from_mode(0o700))
            .tempdir_in(runtime_dir)?;
        let mut stage = Self {
            directory,
            arguments: Vec::new(),
            environment: Vec::new(),
            settings: Map::new(),
            directories: Vec::new(),
            is_applied: applied.is_some(),
        };
        match recipe {
            ConfigIsolation::ConfigRoot => stage.with_config_root(applied.as_ref())?,
            ConfigIsolation::UserOnly => stage.with_user_only(working_directory, config_directory, applied.as_ref())?,
        }
        if let Some(applied) = applied {
            stage.environment.extend(applied.environment.into_iter().map(|(name, value)| (name.into(), value.into())));
            stage.directories = applied.directories;
            // Settings that are pinned for this start take precedence.
            for (key, value) in applied.settings {
                stage.settings.entry(key).or_insert(value);
            }
        }
        Ok(stage)
    }

    /// The build reads everything but text from the given directory, and from its parents up to one with a `.git`.
    fn with_config_root(&mut self, applied: Option<&ConfigurationSnapshot>) -> io::Result<()> {
        let root = self.directory.path();
        create_directories(&root.join(".git"))?;
        if let Some(applied) = applied {
            applied.write_files(&root.join(".claude"))?;
        }
        self.arguments =
            vec!["--setting-sources=user,project,local".into(), path_flag(&format!("{CONFIG_ROOT_FLAG}="), root)];
        Ok(())
    }

    /// The build reads nothing from the folder. The folder's instructions come from a directory of the host, its
    /// commands from a plugin.
    fn with_user_only(
        &mut self,
        working_directory: &Path,
        config_directory: Option<&Path>,
        applied: Option<&ConfigurationSnapshot>,
    ) -> io::Result<()> {
        let memory = self.directory.path().join("memory");
        create_directories(&memory)?;
        let text = instructions::collect_instructions(working_directory, config_directory);
        write_file(&memory.join("CLAUDE.md"), text.as_bytes(), false)?;
        self.arguments = vec!["--setting-sources=user".into(), path_flag("--add-dir=", &memory)];
        self.environment = vec![("CLAUDE_CODE_ADDITIONAL_DIRECTORIES_CLAUDE_MD".into(), "1".into())];
        // Otherwise the agent runs `git status` at its start, and with it the filters of `.git/config`, which are not
        // part of what was trusted.
        self.settings.insert("includeGitInstructions".to_owned(), false.into());
        let Some(applied) = applied else { return Ok(()) };
        if applied.files.is_empty() {
            return Ok(());
        }
        let plugin = self.directory.path().join(PLUGIN_NAME);
        applied.write_files(&plugin)?;
        let manifest =
            json!({"name": PLUGIN_NAME, "version": "1.0.0", "description": "The folder's own configuration"});
        create_directories(&plugin.join(".claude-plugin"))?;
        write_file(&plugin.join(".claude-plugin/plugin.json"), manifest.to_string().as_bytes(), false)?;
        self.arguments.push(path_flag("--plugin-dir=", &plugin));
        let style = applied.settings.get("outputStyle").and_then(Value::as_str);
        if let Some(style) = style.filter(|style| applied.files.contains_key(&format!("output-styles/{style}.md"))) {
            self.settings.insert("outputStyle".to_owned(), format!("{PLUGIN_NAME}:{style}").into());
        }
        Ok(())
    }
}

impl ConfigurationSnapshot {
    fn write_files(&self, root: &Path) -> io::Result<()> {
        create_directories(root)?;
        for (name, file) in &self.files {
            let path = root.join(name);
            if let Some(parent) = path.parent() {
                create_directories(parent)?;
            }
            write_file(&path, &file.bytes, file.executable)?;
        }
        Ok(())
    }
}

/// Removes the stages of killed hosts. Those of running agents stay: their conversations are locked.
pub(crate) fn remove_stale_stages(runtime_dir: &Path, holder: &str) {
    for path in list_stages(runtime_dir, STAGE_PREFIX) {
        let name = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_prefix(STAGE_PREFIX));
        let conversation = name.and_then(|name| name.split_once('.')).map(|(conversation, _)| conversation);
        if let Some(Ok(_lock)) = conversation.map(|id| ConversationLock::acquire(runtime_dir, id, holder)) {
            remove_stage(&path);
        }
    }
}

fn remove_stages(runtime_dir: &Path, prefix: &str) {
    list_stages(runtime_dir, prefix).iter().for_each(|path| remove_stage(path));
}

fn list_stages(runtime_dir: &Path, prefix: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(runtime_dir).into_iter().flatten().flatten();
    let entries = entries.filter(|entry| entry.file_name().to_str().is_some_and(|name| name.starts_with(prefix)));
    entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path()).collect()
}

fn remove_stage(path: &Path) {
    if let Err(error) = std::fs::remove_dir_all(path) {
        tracing::warn!(%error, path = %path.display(), "failed to remove the configuration of an agent that has exited");
    }
}

fn path_flag(name: &str, path: &Path) -> OsString {
    let mut flag = OsString::from(name);
    flag.push(path);
    flag
}

fn create_directories(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

fn write_file(path: &Path, bytes: &[u8], executable: bool) -> io::Result<()> {
    let mode = if executable { 0o700 } else { 0o600 };
    OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?.write_all(bytes)
}
