use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::BoxFuture;
use hostler_driver::{InstallError, InstallErrorKind, InstallProgress, Installed, Installer, ProgressSink};

/// An installer that pretends.
#[derive(Clone)]
pub(crate) struct FakeInstaller {
    pub(crate) installed: Option<Installed>,
    pub(crate) result: Result<Installed, String>,
    /// Whether it has to be stopped.
    pub(crate) hangs: bool,
    pub(crate) stopped: Arc<AtomicBool>,
}

impl FakeInstaller {
    fn build(directory: &Path, fresh: bool) -> Installed {
        Installed { build: "native".into(), version: "2.1.325".into(), path: directory.join("claude"), fresh }
    }

    pub(crate) fn installed(directory: &Path) -> Self {
        let installed = Self::build(directory, false);
        Self { installed: Some(installed.clone()), ..Self::ending(Ok(installed)) }
    }

    pub(crate) fn missing(directory: &Path) -> Self {
        Self::ending(Ok(Self::build(directory, true)))
    }

    pub(crate) fn failing(sentence: &str) -> Self {
        Self::ending(Err(sentence.to_owned()))
    }

    pub(crate) fn hanging(directory: &Path) -> Self {
        Self { hangs: true, ..Self::missing(directory) }
    }

    fn ending(result: Result<Installed, String>) -> Self {
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

    fn pinned(&self, build: &str) -> Option<String> {
        self.builds().contains(&build.to_owned()).then(|| "2.1.325".to_owned())
    }

    fn installed(&self, build: &str) -> Option<Installed> {
        self.installed.clone().filter(|installed| installed.build == build)
    }

    fn install(&self, build: &str, progress: ProgressSink) -> BoxFuture<'static, Result<Installed, InstallError>> {
        let result = self.result.clone().map(|installed| Installed { build: build.to_owned(), ..installed });
        let hangs = self.hangs;
        Box::pin(async move {
            progress(InstallProgress::Fetching { done: 0, total: 10 });
            if hangs {
                std::future::pending::<()>().await;
            }
            tokio::task::yield_now().await;
            let installed = result.map_err(|message| InstallError { kind: InstallErrorKind::Network, message })?;
            progress(InstallProgress::Fetching { done: 10, total: 10 });
            progress(InstallProgress::Verifying);
            Ok(installed)
        })
    }

    fn stop(&self) -> BoxFuture<'static, ()> {
        self.stopped.store(true, Ordering::Relaxed);
        Box::pin(std::future::ready(()))
    }
}
