//! Workspace trust: which folders' own configuration may apply, as people decided.
//!
//! A folder is untrusted until a person trusts it. A decision names the fingerprint of the configuration that the person was
//! shown; when the configuration changes, the decision no longer holds and the difference is shown. A folder inherits trust
//! from a parent only where the person said so. The decisions are one file of the state directory ([`TrustStore`]), which
//! `hostler trust` and every host read and change.
//!
//! Folders are identified by their real path, links resolved. Nothing in a folder, such as a `.git` file that names another
//! repository, makes it another folder.
//!
//! It does not know sessions, clients or what a configuration means; drivers read it ([`hostler_driver::Driver`]).

#![forbid(unsafe_code)]

mod assessment;
mod difference;
mod report;
mod store;

pub use assessment::{TrustAssessment, TrustState, TrustedBy};
pub use difference::ConfigurationDifference;
pub use report::{TrustListing, TrustListingItem, TrustReport};
pub use store::{TrustDecision, TrustEntry, TrustError, TrustOptions, TrustStore};
