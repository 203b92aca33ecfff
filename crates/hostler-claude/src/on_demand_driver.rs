//! A driver that installs its managed build when the first agent is opened.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use hostler_driver::{
    Driver, ImageSelection, InstallError, InstallProgressSink, Installer, OpenError, OpenErrorKind, OpenSpec,
    OpenedConnection, Prompt, ProviderInfo, RemoveImagesError, ResumeToken, StderrTail, ToolDisplay, TranscriptStore,
    WorkspaceConfiguration,
};
use serde_json::value::RawValue;

use crate::{ClaudeConfig, ClaudeDriver, Executable};

/// Runs a managed build that may not be installed yet.
pub struct OnDemandDriver(Arc<Inner>);

struct Inner {
    installer: Arc<dyn Installer>,
    build: String,
    /// Answers everything that needs no executable; its own executable cannot be run.
    uninstalled: ClaudeDriver,
    /// Creates a driver's configuration for the installed executable.
    config: Box<dyn Fn(Executable) -> ClaudeConfig + Send + Sync>,
    /// Creates an executable from the installed path.
    executable: Box<dyn Fn(PathBuf) -> Executable + Send + Sync>,
    installed_driver: OnceLock<ClaudeDriver>,
}

impl OnDemandDriver {
    /// A driver for one managed build. `config` is called once the executable is known.
    pub fn new(
        installer: Arc<dyn Installer>,
        build: &str,
        executable: impl Fn(PathBuf) -> Executable + Send + Sync + 'static,
        config: impl Fn(Executable) -> ClaudeConfig + Send + Sync + 'static,
    ) -> Self {
        let blank = ClaudeDriver::new(config(Executable::from_path(PathBuf::from(build))));
        Self(Arc::new(Inner {
            installer,
            build: build.to_owned(),
            uninstalled: blank,
            config: Box::new(config),
            executable: Box::new(executable),
            installed_driver: OnceLock::new(),
        }))
    }
}

impl Inner {
    /// The driver for questions whose answer does not depend on the install.
    fn driver(&self) -> &ClaudeDriver {
        self.installed_driver.get().unwrap_or(&self.uninstalled)
    }

    /// The driver of the installed build; installs it first if necessary. Concurrent callers wait for one install.
    async fn ensure_installed(&self, progress: InstallProgressSink) -> Result<&ClaudeDriver, InstallError> {
        if let Some(ready) = self.installed_driver.get() {
            return Ok(ready);
        }
        let installed = self.installer.install(&self.build, progress).await?;
        Ok(self.installed_driver.get_or_init(|| ClaudeDriver::new((self.config)((self.executable)(installed.path)))))
    }
}

impl Driver for OnDemandDriver {
    fn describe(&self) -> ProviderInfo {
        self.0.driver().describe()
    }

    fn settings_fingerprint(&self, working_directory: &Path) -> String {
        self.0.driver().settings_fingerprint(working_directory)
    }

    fn workspace_configuration(&self, working_directory: &Path) -> WorkspaceConfiguration {
        self.0.driver().workspace_configuration(working_directory)
    }

    fn tool_display(&self, tool: &str, input: &RawValue, working_directory: &Path) -> ToolDisplay {
        self.0.driver().tool_display(tool, input, working_directory)
    }

    fn measure_prompt_bytes(&self, prompt: &Prompt) -> usize {
        self.0.driver().measure_prompt_bytes(prompt)
    }

    fn max_prompt_bytes(&self) -> usize {
        self.0.driver().max_prompt_bytes()
    }

    fn remove_images(
        &self,
        token: &ResumeToken,
        which: ImageSelection,
    ) -> BoxFuture<'static, Result<usize, RemoveImagesError>> {
        self.0.driver().remove_images(token, which)
    }

    fn transcript_store(&self) -> Option<Arc<dyn TranscriptStore>> {
        self.0.driver().transcript_store()
    }

    fn prepare(&self, progress: InstallProgressSink) -> Option<BoxFuture<'static, Result<(), InstallError>>> {
        let inner = Arc::clone(&self.0);
        let there = inner.installed_driver.get().is_some() || inner.installer.installed_build(&inner.build).is_some();
        (!there).then(|| async move { inner.ensure_installed(progress).await.map(|_| ()) }.boxed())
    }

    fn open(&self, spec: OpenSpec) -> BoxFuture<'static, Result<OpenedConnection, OpenError>> {
        let inner = Arc::clone(&self.0);
        async move {
            let ready = inner.ensure_installed(Box::new(|_| {})).await.map_err(|error| OpenError {
                kind: OpenErrorKind::ExecutableMissing,
                message: error.message,
                stderr: StderrTail::default(),
            })?;
            ready.open(spec).await
        }
        .boxed()
    }
}
