//! The Claude Code builds that Hostler is tested with. Versions and packages are named only here.

use super::platform::{Os, Platform};

/// A kind of Claude Code executable that can be managed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Build {
    /// The self-contained executable; the default.
    Native,
    /// The last `cli.js` that runs on Node.js.
    Js,
}

impl Build {
    /// All builds, the default first.
    pub const ALL: [Self; 2] = [Self::Native, Self::Js];

    /// The name in configuration and commands: `native`, `js`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Js => "js",
        }
    }

    /// The build with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|build| build.as_str() == name)
    }

    /// The pinned version and package of this build.
    pub fn pin(self) -> &'static PinnedBuild {
        match self {
            Self::Native => &NATIVE,
            Self::Js => &JS,
        }
    }
}

/// One pinned build.
#[derive(Debug, PartialEq, Eq)]
pub struct PinnedBuild {
    /// The version that `--version` prints.
    pub version: &'static str,
    /// The npm package; a native build adds its platform's suffix.
    package: &'static str,
    /// The npm package's own version.
    package_version: &'static str,
    /// The file to execute within the package, without a platform's extension.
    executable: &'static str,
    /// Whether there is one package per platform.
    per_platform: bool,
    /// Approximate size of a finished install on disk.
    pub approximate_bytes: u64,
}

/// The default build.
pub const NATIVE: PinnedBuild = PinnedBuild {
    version: "2.1.325",
    package: "@anthropic-ai/claude-code",
    package_version: "2.1.325",
    executable: "claude",
    per_platform: true,
    approximate_bytes: 365_900_000,
};

/// The JavaScript build, which ships inside the agent SDK's package.
pub const JS: PinnedBuild = PinnedBuild {
    version: "2.1.112",
    package: "@anthropic-ai/claude-agent-sdk",
    package_version: "0.2.112",
    executable: "cli.js",
    per_platform: false,
    approximate_bytes: 92_500_000,
};

impl PinnedBuild {
    /// The npm package for a platform; `None` if there is no build for it.
    pub fn package(&self, platform: &Platform) -> Option<String> {
        if self.per_platform {
            Some(format!("{}-{}", self.package, platform.native_suffix()?))
        } else {
            Some(self.package.to_owned())
        }
    }

    /// The npm package with its pinned version, as an npm argument.
    pub fn spec(&self, platform: &Platform) -> Option<String> {
        Some(format!("{}@{}", self.package(platform)?, self.package_version))
    }

    /// The executable's path below the directory that npm installs into.
    pub fn executable(&self, platform: &Platform) -> Option<String> {
        let extension = if self.per_platform && platform.os == Os::Windows { ".exe" } else { "" };
        Some(format!("node_modules/{}/{}{extension}", self.package(platform)?, self.executable))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::install::platform::{Arch, Libc};

    #[test]
    fn native_build_has_one_package_per_platform() {
        let cases = [
            (Os::Linux, Arch::X64, Libc::Glibc, "@anthropic-ai/claude-code-linux-x64"),
            (Os::Linux, Arch::Arm64, Libc::Glibc, "@anthropic-ai/claude-code-linux-arm64"),
            (Os::Linux, Arch::X64, Libc::Musl, "@anthropic-ai/claude-code-linux-x64-musl"),
            (Os::Linux, Arch::Arm64, Libc::Musl, "@anthropic-ai/claude-code-linux-arm64-musl"),
            (Os::MacOs, Arch::X64, Libc::Glibc, "@anthropic-ai/claude-code-darwin-x64"),
            (Os::MacOs, Arch::Arm64, Libc::Glibc, "@anthropic-ai/claude-code-darwin-arm64"),
            (Os::Windows, Arch::X64, Libc::Glibc, "@anthropic-ai/claude-code-win32-x64"),
            (Os::Windows, Arch::Arm64, Libc::Glibc, "@anthropic-ai/claude-code-win32-arm64"),
        ];
        for (os, arch, libc, package) in cases {
            let platform = Platform { os, arch, libc };
            assert_eq!(NATIVE.package(&platform).as_deref(), Some(package));
        }
    }

    #[test]
    fn js_build_has_one_package_for_all_platforms() {
        let strange = Platform { os: Os::Other("plan9".into()), arch: Arch::Other("mips".into()), libc: Libc::Glibc };
        assert_eq!(JS.spec(&strange).as_deref(), Some("@anthropic-ai/claude-agent-sdk@0.2.112"));
        assert_eq!(JS.executable(&strange).as_deref(), Some("node_modules/@anthropic-ai/claude-agent-sdk/cli.js"));
        assert_eq!(NATIVE.spec(&strange), None);
    }

    #[test]
    fn windows_executable_has_its_extension() {
        let windows = Platform { os: Os::Windows, arch: Arch::X64, libc: Libc::Glibc };
        let executable = NATIVE.executable(&windows).unwrap();
        assert!(executable.ends_with("claude-code-win32-x64/claude.exe"), "{executable}");
    }

    #[test]
    fn build_names_round_trip() {
        for build in Build::ALL {
            assert_eq!(Build::from_name(build.as_str()), Some(build));
        }
        assert_eq!(Build::from_name("wasm"), None);
    }
}
