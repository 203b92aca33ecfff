//! Workspace trust, for surfaces and sessions: assesses folders and stores decisions on blocking threads.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hostler_trust::{TrustAssessment, TrustDecision, TrustEntry, TrustError, TrustState};
use url::Url;

use super::Engine;
use crate::host::Host;
use crate::{EngineError, InvalidParams};

/// All decisions, and the folders that the host's configuration trusts.
#[derive(Debug, Clone)]
pub struct TrustedFolders {
    /// People's decisions.
    pub entries: Vec<TrustEntry>,
    /// The folders that the host's own configuration trusts.
    pub configured: Vec<PathBuf>,
}

impl Host {
    /// Whether the configuration of a folder applies to a provider's agents now.
    pub(crate) async fn assess_folder(
        &self,
        provider: &str,
        directory: PathBuf,
    ) -> Result<TrustAssessment, EngineError> {
        let driver = self.agents.driver(provider).cloned();
        let driver = driver.ok_or_else(|| EngineError::ProviderNotFound(provider.to_owned()))?;
        let trust = Arc::clone(self.permissions.trust());
        run_blocking(move || trust.assess(&directory, |directory| driver.workspace_configuration(directory))).await
    }

    /// Assesses a folder before a session uses it. A state inherited from a parent folder is stored, so that a change
    /// is noticed; if that fails, the folder is not trusted.
    pub(crate) async fn assess_folder_for_session(
        &self,
        provider: &str,
        directory: PathBuf,
    ) -> Result<TrustAssessment, EngineError> {
        let mut assessment = self.assess_folder(provider, directory).await?;
        if assessment.is_inherited() {
            let trust = Arc::clone(self.permissions.trust());
            assessment = run_blocking(move || {
                if let Err(error) = trust.record_inherited(&assessment) {
                    assessment.state = TrustState::Refused(error.to_string());
                }
                Ok(assessment)
            })
            .await?;
        }
        Ok(assessment)
    }

    /// Stores a decision and notifies all sessions.
    pub(crate) async fn decide_folder_trust(
        &self,
        assessment: TrustAssessment,
        decision: TrustDecision,
    ) -> Result<(), EngineError> {
        let trust = Arc::clone(self.permissions.trust());
        run_blocking(move || trust.decide(&assessment, decision, false)).await?;
        self.permissions.notify_trust_changes();
        Ok(())
    }
}

impl Engine {
    /// All decisions about folders.
    ///
    /// # Errors
    /// If the trust file cannot be read.
    pub async fn list_trust(&self) -> Result<TrustedFolders, EngineError> {
        let trust = Arc::clone(self.host.permissions.trust());
        run_blocking(move || {
            Ok(TrustedFolders { entries: trust.entries()?, configured: trust.trusted_folders().to_vec() })
        })
        .await
    }

    /// Whether the configuration of a folder applies, and its contents. The folder is an absolute path or a file URI.
    ///
    /// # Errors
    /// If there is no such folder or provider.
    pub async fn check_trust(&self, directory: &str, provider: Option<&str>) -> Result<TrustAssessment, EngineError> {
        let provider = provider.unwrap_or(&self.host.settings.default_provider);
        self.host.assess_folder(provider, parse_folder(directory)?).await
    }

    /// Stores a decision about a folder whose configuration has this fingerprint.
    ///
    /// # Errors
    /// If the configuration has changed, cannot be trusted, or the decision cannot be written.
    pub async fn set_trust(
        &self,
        directory: &str,
        provider: Option<&str>,
        decision: TrustDecision,
        fingerprint: &str,
    ) -> Result<TrustAssessment, EngineError> {
        let assessment = self.check_trust(directory, provider).await?;
        if assessment.configuration.fingerprint != fingerprint {
            return Err(TrustError::Changed { path: assessment.directory }.into());
        }
        self.host.decide_folder_trust(assessment, decision).await?;
        self.check_trust(directory, provider).await
    }

    /// Deletes the decision about a folder; returns whether there was one.
    ///
    /// # Errors
    /// If the decisions cannot be written.
    pub async fn remove_trust(&self, directory: &str) -> Result<bool, EngineError> {
        let (trust, directory) = (Arc::clone(self.host.permissions.trust()), parse_folder(directory)?);
        let removed = run_blocking(move || trust.remove(&directory)).await?;
        self.host.permissions.notify_trust_changes();
        Ok(removed)
    }
}

/// The path that a client names.
fn parse_folder(directory: &str) -> Result<PathBuf, EngineError> {
    let named = Url::parse(directory).ok().filter(|url| url.scheme() == "file").and_then(|url| url.to_file_path().ok());
    let path = named.unwrap_or_else(|| PathBuf::from(directory));
    let absolute = Path::is_absolute(&path);
    absolute.then_some(path).ok_or_else(|| InvalidParams::RelativePath(directory.into()).into())
}

async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, TrustError> + Send + 'static,
) -> Result<T, EngineError> {
    let done = tokio::task::spawn_blocking(work).await;
    Ok(done.map_err(|error| EngineError::TaskFailed(error.to_string()))??)
}
