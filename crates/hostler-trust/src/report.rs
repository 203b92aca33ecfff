//! JSON form of assessments and decisions, the same for `hostler trust --json` and the host's methods.

use std::path::{Path, PathBuf};

use hostler_driver::{ConfigurationItem, WorkspaceConfiguration};
use serde::Serialize;

use crate::{ConfigurationDifference, TrustAssessment, TrustDecision, TrustEntry, TrustState, TrustedBy};

/// The trust of one folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TrustReport<'a> {
    /// The folder's real path.
    pub directory: &'a Path,
    /// The name of the [`TrustState`].
    pub state: &'static str,
    /// `person`, `parent` or `configuration`, if the folder is trusted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trusted_by: Option<&'static str>,
    /// The parent folder from which the trust is inherited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inherited_from: Option<&'a Path>,
    /// Why the folder cannot be trusted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'a str>,
    /// The folder's configuration.
    pub configuration: &'a WorkspaceConfiguration,
    /// The difference since the decision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub difference: Option<&'a ConfigurationDifference>,
}

impl TrustAssessment {
    /// The assessment as JSON.
    pub fn report(&self) -> TrustReport<'_> {
        let mut report = TrustReport {
            directory: &self.directory,
            state: self.state.name(),
            trusted_by: None,
            inherited_from: None,
            reason: None,
            configuration: &self.configuration,
            difference: None,
        };
        match &self.state {
            TrustState::Trusted(TrustedBy::Person) => report.trusted_by = Some("person"),
            TrustState::Trusted(TrustedBy::Parent(parent)) => {
                (report.trusted_by, report.inherited_from) = (Some("parent"), Some(parent.as_path()));
            }
            TrustState::Trusted(TrustedBy::HostConfiguration) => report.trusted_by = Some("configuration"),
            TrustState::Changed(difference) => report.difference = Some(difference),
            TrustState::Refused(reason) => report.reason = Some(reason),
            TrustState::Empty | TrustState::Undecided | TrustState::Restricted => {}
        }
        report
    }
}

/// All decisions, and the folders that the host's configuration trusts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TrustListing<'a> {
    /// The decisions.
    pub items: Vec<TrustListingItem<'a>>,
    /// The folders that the host's configuration trusts.
    pub trusted_folders: &'a [PathBuf],
}

/// One decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TrustListingItem<'a> {
    /// The folder's real path.
    pub path: &'a Path,
    /// The decision itself.
    pub decision: TrustDecision,
    /// The parent folder from which the trust is inherited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inherited_from: Option<&'a Path>,
    /// The items that the decision is about.
    pub items: &'a [ConfigurationItem],
}

impl<'a> TrustListing<'a> {
    /// The listing as JSON.
    pub fn new(entries: &'a [TrustEntry], trusted_folders: &'a [PathBuf]) -> Self {
        let listed = |entry: &'a TrustEntry| TrustListingItem {
            path: &entry.path,
            decision: entry.decision,
            inherited_from: entry.inherited_from.as_deref(),
            items: &entry.items,
        };
        Self { items: entries.iter().map(listed).collect(), trusted_folders }
    }
}
