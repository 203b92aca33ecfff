//! Workspace trust: the folders whose own configuration may apply, as people decided.
//!
//! A folder is untrusted until a person trusts it. A decision names the folder's real path and the fingerprint of the
//! configuration that was displayed; when the configuration changes, the decision no longer applies and the difference
//! is displayed. A folder inherits trust from a parent only if the person included subfolders. The decisions are in one
//! file of the state directory ([`TrustStore`]), which `hostler trust` and every host read and change. A trust file
//! that cannot be read trusts nothing.
//!
//! Folders are identified by their real path, with links resolved. Nothing in a folder, such as a `.git` file that
//! names another repository, gives it another identity.
//!
//! The crate does not know sessions or clients, nor what a configuration means; drivers read it
//! ([`hostler_driver::Driver`]).

#![forbid(unsafe_code)]

mod assessment;
mod difference;
mod report;
mod store;

pub use assessment::{TrustAssessment, TrustState, TrustedBy};
pub use difference::ConfigurationDifference;
pub use report::{TrustListing, TrustListingItem, TrustReport};
pub use store::{TrustDecision, TrustEntry, TrustError, TrustOptions, TrustStore};
