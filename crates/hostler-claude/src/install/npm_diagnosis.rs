//! Classifies npm's error output: bounded, and without registry names or credentials.

use std::path::Path;

use hostler_driver::InstallError;

use super::errors;
use super::pins::Build;
use super::platform::Platform;

/// Longer lines are truncated: npm prints whole stack traces and sometimes whole responses.
const MAX_LINE_BYTES: usize = 2048;
/// How many error lines the message contains.
const MAX_COMPLAINTS: usize = 3;

/// Codes: npm could not reach a registry.
const NETWORK_ERROR_CODES: [&str; 17] = [
    "ENOTFOUND",
    "ECONNREFUSED",
    "ECONNRESET",
    "ECONNABORTED",
    "EAI_AGAIN",
    "EAI_FAIL",
    "ETIMEDOUT",
    "ESOCKETTIMEDOUT",
    "ERR_SOCKET_TIMEOUT",
    "ENETUNREACH",
    "EHOSTUNREACH",
    "EPROTO",
    "FETCH_ERROR",
    "CERT_HAS_EXPIRED",
    "SELF_SIGNED_CERT_IN_CHAIN",
    "UNABLE_TO_GET_ISSUER_CERT_LOCALLY",
    "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
];

/// Codes: a registry answered but did not deliver the package.
const REGISTRY_ERROR_CODES: [&str; 9] =
    ["E401", "E403", "E404", "E407", "E429", "ETARGET", "ENOVERSIONS", "ENOTCACHED", "EINTEGRITY"];

/// npm's stderr, classified while it is read.
#[derive(Debug, Default)]
pub(super) struct NpmDiagnosis {
    /// The error code that npm reports, or the first one that is recognized.
    code: Option<String>,
    /// npm reports a full disk as a warning and then succeeds with half a package.
    disk_full: bool,
    complaints: Vec<String>,
}

impl NpmDiagnosis {
    /// Reads the next line of npm's stderr.
    pub(super) fn read_line(&mut self, line: &[u8]) {
        let line = String::from_utf8_lossy(line.get(..MAX_LINE_BYTES).unwrap_or(line));
        self.disk_full |= line.contains("ENOSPC") || line.contains("EDQUOT");
        let Some(complaint) = ["npm error", "npm ERR!"].iter().find_map(|prefix| line.strip_prefix(prefix)) else {
            return;
        };
        let complaint = complaint.trim();
        if let Some(code) = complaint.strip_prefix("code ") {
            self.code = Some(code.trim().to_owned());
        } else if self.code.is_none() {
            self.code = split_words(complaint).find(|word| NETWORK_ERROR_CODES.contains(word)).map(str::to_owned);
        }
        if !complaint.is_empty() && self.complaints.len() < MAX_COMPLAINTS && !complaint.starts_with("code ") {
            self.complaints.push(redact_line(complaint));
        }
    }

    /// Whether npm reported a full disk, whatever its exit status.
    pub(super) fn is_disk_full(&self) -> bool {
        self.disk_full
    }

    /// Why npm failed.
    pub(super) fn explain(&self, status: &str, context: &InstallContext<'_>) -> InstallError {
        let InstallContext { build, platform, spec, cache } = *context;
        if self.disk_full {
            return errors::disk_full(cache, build);
        }
        match self.code.as_deref() {
            Some("EBADPLATFORM") => errors::npm_platform_mismatch(platform, spec),
            Some(code) if NETWORK_ERROR_CODES.contains(&code) => errors::network(code, build),
            Some(code) if REGISTRY_ERROR_CODES.contains(&code) || is_server_error(code) => {
                errors::registry_refused(code, spec, build)
            }
            code => {
                let said = self.complaints.join("; ");
                let name = code.map(|code| format!("{code}, ")).unwrap_or_default();
                let said = if said.is_empty() { "no error output" } else { said.trim_end_matches('.') };
                errors::npm_failed(&format!("{name}{status}: {said}"), build)
            }
        }
    }
}

/// What an explanation refers to.
#[derive(Debug, Clone, Copy)]
pub(super) struct InstallContext<'a> {
    pub(super) build: Build,
    pub(super) platform: &'a Platform,
    pub(super) spec: &'a str,
    pub(super) cache: &'a Path,
}

fn split_words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
}

fn is_server_error(code: &str) -> bool {
    code.strip_prefix("E5").is_some_and(|rest| rest.len() == 2 && rest.bytes().all(|b| b.is_ascii_digit()))
}

/// Returns the explaining part of a line, without registry addresses and credentials.
fn redact_line(line: &str) -> String {
    line.split_whitespace().map(|word| if is_private(word) { "[hidden]" } else { word }).collect::<Vec<_>>().join(" ")
}

fn is_private(word: &str) -> bool {
    let lower = word.to_ascii_lowercase();
    let credential = ["_auth", "_password", "token", "bearer", "npm_"].iter().any(|mark| lower.contains(mark));
    credential || word.contains("//") || is_long_random(word) || is_host(&lower)
}

/// Long and mixed characters: possibly a secret, never prose. Package names and paths have separators.
fn is_long_random(word: &str) -> bool {
    let bare = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    bare.len() >= 24 && bare.bytes().all(|b| b.is_ascii_alphanumeric() || b"+=_-".contains(&b))
}

/// `registry.example.com`, `10.0.0.1:4873`, `localhost:4873`; not `2.1.325`, `package.json` or a path.
fn is_host(word: &str) -> bool {
    const FILES: [&str; 8] = ["js", "mjs", "cjs", "json", "md", "node", "ts", "log"];
    let bare = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    let name = bare.split(':').next().unwrap_or(bare);
    if name == "localhost" {
        return true;
    }
    let labels: Vec<&str> = name.split('.').collect();
    let is_label = |label: &&str| !label.is_empty() && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    if labels.len() < 2 || !labels.iter().all(is_label) {
        return false;
    }
    let last = labels.last().copied().unwrap_or_default();
    let is_address = labels.len() == 4 && labels.iter().all(|label| label.parse::<u8>().is_ok());
    is_address || (last.len() >= 2 && last.bytes().all(|b| b.is_ascii_alphabetic()) && !FILES.contains(&last))
}

#[cfg(test)]
mod tests {
    use hostler_driver::InstallErrorKind;

    use super::*;
    use crate::install::platform::{Arch, Libc, Os};

    fn explain(stderr: &str) -> InstallError {
        let mut diagnosis = NpmDiagnosis::default();
        stderr.lines().for_each(|line| diagnosis.read_line(line.as_bytes()));
        let platform = Platform { os: Os::Linux, arch: Arch::X64, libc: Libc::Glibc };
        let context = InstallContext {
            build: Build::Native,
            platform: &platform,
            spec: "some-package@1.2.3",
            cache: Path::new("cache"),
        };
        diagnosis.explain("exit code 1", &context)
    }

    #[test]
    fn known_npm_errors_are_classified() {
        let cases = [
            ("npm error code ENOTFOUND\nnpm error network request failed\n", InstallErrorKind::Network),
            ("npm ERR! code ECONNREFUSED\n", InstallErrorKind::Network),
            ("npm error code EAI_AGAIN", InstallErrorKind::Network),
            ("npm error code ETIMEDOUT\n", InstallErrorKind::Network),
            ("npm error network reason: getaddrinfo ENOTFOUND somewhere\n", InstallErrorKind::Network),
            ("npm error code E503\n", InstallErrorKind::Network),
            ("npm error code ETARGET\n", InstallErrorKind::Network),
            ("npm error code ENOSPC\n", InstallErrorKind::DiskFull),
            ("npm warn tar TAR_ENTRY_ERROR ENOSPC: no space left on device, write\n", InstallErrorKind::DiskFull),
            ("npm error code EBADPLATFORM\n", InstallErrorKind::Unsupported),
            ("npm error code EWHATEVER\nnpm error a strange thing\n", InstallErrorKind::Other),
            ("", InstallErrorKind::Other),
        ];
        for (stderr, kind) in cases {
            assert_eq!(explain(stderr).kind, kind, "{stderr}");
        }
    }

    #[test]
    fn unknown_errors_are_quoted_without_hosts_and_credentials() {
        let message = explain(concat!(
            "npm error code EODD\n",
            "npm error odd answer from https://user:pass@registry.example.com/pkg and registry.example.com:4873\n",
            "npm error _authToken=npm_abcdefghijklmnopqrstuvwxyz0123456789 in package.json at 10.1.2.3\n",
            "npm error abcdefghijklmnopqrstuvwxyz012345 some-package@1.2.3\n",
        ))
        .message;
        for private in ["example", "pass", "npm_abc", "10.1.2.3", "abcdefghij"] {
            assert!(!message.contains(private), "{message}");
        }
        for shown in ["EODD", "odd answer", "package.json", "some-package@1.2.3", "exit code 1"] {
            assert!(message.contains(shown), "{message}");
        }
    }

    #[test]
    fn diagnosis_is_bounded() {
        let mut diagnosis = NpmDiagnosis::default();
        for _ in 0..100 {
            diagnosis.read_line(&[&b"npm error "[..], &b"word ".repeat(10_000)].concat());
        }
        assert_eq!(diagnosis.complaints.len(), MAX_COMPLAINTS);
        assert!(diagnosis.complaints.iter().all(|complaint| complaint.len() <= MAX_LINE_BYTES));
    }
}
