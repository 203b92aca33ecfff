//! Claude Code that is installed when it is first needed, and not before.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use hostler_driver::{
    Archive, Driver, DropError, Images, InstallError, Installer, OpenError, OpenErrorKind, OpenSpec, Opened,
    ProgressSink, Prompt, ProviderInfo, ResumeToken, StderrTail, ToolDisplay, WorkspaceConfiguration,
};
use serde_json::value::RawValue;

use crate::{ClaudeConfig, ClaudeDriver, Executable};

/// Drives a managed build that may not be installed yet.
pub struct OnDemandDriver(Arc<Inner>);

struct Inner {
    installer: Arc<dyn Installer>,
    build: String,
    /// What can be said without an executable; its own is none that could be run.
    blank: ClaudeDriver,
    /// The configuration of a driver, for the executable that was installed.
    config: Box<dyn Fn(Executable) -> ClaudeConfig + Send + Sync>,
    /// Makes an executable of what was installed.
    executable: Box<dyn Fn(PathBuf) -> Executable + Send + Sync>,
    ready: OnceLock<ClaudeDriver>,
}

impl OnDemandDriver {
    /// A driver of one managed build. `config` is asked for the configuration once the executable is known.
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
            blank,
            config: Box::new(config),
            executable: Box::new(executable),
            ready: OnceLock::new(),
        }))
    }
}

impl Inner {
    /// Whatever can be said about an agent is the same before and after its installation.
    fn driver(&self) -> &ClaudeDriver {
        self.ready.get().unwrap_or(&self.blank)
    }

    /// The driver of what is installed; installs it first if need be. Several at once wait for one of them.
    async fn ready(&self, progress: ProgressSink) -> Result<&ClaudeDriver, InstallError> {
        if let Some(ready) = self.ready.get() {
            return Ok(ready);
        }
        let installed = self.installer.install(&self.build, progress).await?;
        Ok(self.ready.get_or_init(|| ClaudeDriver::new((self.config)((self.executable)(installed.path)))))
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

    fn display(&self, tool: &str, input: &RawValue, working_directory: &Path) -> ToolDisplay {
        self.0.driver().display(tool, input, working_directory)
    }

    fn measure(&self, prompt: &Prompt) -> usize {
        self.0.driver().measure(prompt)
    }

    fn longest_prompt(&self) -> usize {
        self.0.driver().longest_prompt()
    }

    fn drop_images(&self, token: &ResumeToken, which: Images) -> BoxFuture<'static, Result<usize, DropError>> {
        self.0.driver().drop_images(token, which)
    }

    fn archive(&self) -> Option<Arc<dyn Archive>> {
        self.0.driver().archive()
    }

    fn prepare(&self, progress: ProgressSink) -> Option<BoxFuture<'static, Result<(), InstallError>>> {
        let inner = Arc::clone(&self.0);
        let there = inner.ready.get().is_some() || inner.installer.installed(&inner.build).is_some();
        (!there).then(|| async move { inner.ready(progress).await.map(|_| ()) }.boxed())
    }

    fn open(&self, spec: OpenSpec) -> BoxFuture<'static, Result<Opened, OpenError>> {
        let inner = Arc::clone(&self.0);
        async move {
            let ready = inner.ready(Box::new(|_| {})).await.map_err(|error| OpenError {
                kind: OpenErrorKind::ExecutableMissing,
                message: error.message,
                stderr: StderrTail::default(),
            })?;
            ready.open(spec).await
        }
        .boxed()
    }
}
