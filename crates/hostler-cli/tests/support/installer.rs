use std::path::Path;

use futures::future::BoxFuture;
use hostler_driver::{InstallError, InstallErrorKind, InstallProgress, Installed, Installer, ProgressSink};

/// An installer that pretends.
#[derive(Clone)]
pub(crate) struct FakeInstaller {
    pub(crate) installed: Option<Installed>,
    pub(crate) result: Result<Installed, String>,
}

impl FakeInstaller {
    fn build(directory: &Path, fresh: bool) -> Installed {
        Installed { build: "native".into(), version: "2.1.325".into(), path: directory.join("claude"), fresh }
    }

    pub(crate) fn installed(directory: &Path) -> Self {
        let installed = Self::build(directory, false);
        Self { installed: Some(installed.clone()), result: Ok(installed) }
    }

    pub(crate) fn missing(directory: &Path) -> Self {
        Self { installed: None, result: Ok(Self::build(directory, true)) }
    }

    pub(crate) fn failing(sentence: &str) -> Self {
        Self { installed: None, result: Err(sentence.to_owned()) }
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
        Box::pin(async move {
            progress(InstallProgress::Fetching { done: 0, total: 10 });
            tokio::task::yield_now().await;
            let installed = result.map_err(|message| InstallError { kind: InstallErrorKind::Network, message })?;
            progress(InstallProgress::Fetching { done: 10, total: 10 });
            progress(InstallProgress::Verifying);
            Ok(installed)
        })
    }
}
