//! Fake installer.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::BoxFuture;
use hostler_driver::{InstallError, InstallErrorKind, InstallProgress, InstallProgressSink, InstalledBuild, Installer};

/// Failure that the fake reports as a network error.
#[derive(Clone)]
pub(crate) struct FakeInstallFailure {
    message: String,
}

/// Installer that installs nothing.
#[derive(Clone)]
pub(crate) struct FakeInstaller {
    pub(crate) installed: Option<InstalledBuild>,
    /// The build, or the message of the failure.
    pub(crate) result: Result<InstalledBuild, FakeInstallFailure>,
    /// Whether it runs until it is cancelled.
    pub(crate) hangs: bool,
    pub(crate) stopped: Arc<AtomicBool>,
}

impl FakeInstaller {
    fn build(directory: &Path, fresh: bool) -> InstalledBuild {
        InstalledBuild {
            build: "native".into(),
            version: "2.1.325".into(),
            path: directory.join("claude"),
            newly_installed: fresh,
        }
    }

    pub(crate) fn installed(directory: &Path) -> Self {
        let installed = Self::build(directory, false);
        Self { installed: Some(installed.clone()), ..Self::with_result(Ok(installed)) }
    }

    pub(crate) fn missing(directory: &Path) -> Self {
        Self::with_result(Ok(Self::build(directory, true)))
    }

    pub(crate) fn failing(sentence: &str) -> Self {
        Self::with_result(Err(FakeInstallFailure { message: sentence.to_owned() }))
    }

    pub(crate) fn hanging(directory: &Path) -> Self {
        Self { hangs: true, ..Self::missing(directory) }
    }

    fn with_result(result: Result<InstalledBuild, FakeInstallFailure>) -> Self {
        Self { installed: None, result, hangs: false, stopped: Arc::default() }
    }
}

impl Installer for FakeInstaller {
    fn provider(&self) -> &str {
        "claude"
    }

    fn builds(&self) -> Vec<String> {
        vec!["native".into(), "js".into()]
    }

    fn pinned_version(&self, build: &str) -> Option<String> {
        self.builds().contains(&build.to_owned()).then(|| "2.1.325".to_owned())
    }

    fn installed_build(&self, build: &str) -> Option<InstalledBuild> {
        self.installed.clone().filter(|installed| installed.build == build)
    }

    fn install(
        &self,
        build: &str,
        progress: InstallProgressSink,
    ) -> BoxFuture<'static, Result<InstalledBuild, InstallError>> {
        let result = self.result.clone().map(|installed| InstalledBuild { build: build.to_owned(), ..installed });
        let hangs = self.hangs;
        Box::pin(async move {
            progress(InstallProgress::Fetching { done_bytes: 0, total_bytes: 10 });
            if hangs {
                std::future::pending::<()>().await;
            }
            tokio::task::yield_now().await;
            let installed =
                result.map_err(|failure| InstallError { kind: InstallErrorKind::Network, message: failure.message })?;
            progress(InstallProgress::Fetching { done_bytes: 10, total_bytes: 10 });
            progress(InstallProgress::Verifying);
            Ok(installed)
        })
    }

    fn stop(&self) -> BoxFuture<'static, ()> {
        self.stopped.store(true, Ordering::Relaxed);
        Box::pin(std::future::ready(()))
    }
}
