//! Detects the platform that an install is for.

use std::fmt;
use std::path::Path;

/// A platform, as far as it selects a package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Platform {
    /// The operating system.
    pub os: Os,
    /// The processor.
    pub arch: Arch,
    /// The C library; matters on Linux only.
    pub libc: Libc,
}

/// An operating system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Os {
    /// Linux.
    Linux,
    /// macOS.
    MacOs,
    /// Windows.
    Windows,
    /// Another one, without a native build, by Rust's name.
    Other(String),
}

/// A processor architecture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Arch {
    /// x86-64.
    X64,
    /// 64-bit ARM.
    Arm64,
    /// Another one, without a native build, by Rust's name.
    Other(String),
}

/// A C library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Libc {
    /// glibc, or the system's library outside Linux.
    Glibc,
    /// musl, as on Alpine.
    Musl,
}

impl Platform {
    /// The platform that this program runs on; the C library is looked up below `root` (`/`).
    pub fn detect(root: &Path) -> Self {
        let os = match std::env::consts::OS {
            "linux" => Os::Linux,
            "macos" => Os::MacOs,
            "windows" => Os::Windows,
            other => Os::Other(other.to_owned()),
        };
        let arch = match std::env::consts::ARCH {
            "x86_64" => Arch::X64,
            "aarch64" => Arch::Arm64,
            other => Arch::Other(other.to_owned()),
        };
        let libc = Libc::detect(root);
        Self { os, arch, libc }
    }

    /// The platform's suffix in npm package names of native builds.
    pub(super) fn native_suffix(&self) -> Option<String> {
        let os = match self.os {
            Os::Linux => "linux",
            Os::MacOs => "darwin",
            Os::Windows => "win32",
            Os::Other(_) => return None,
        };
        let arch = match self.arch {
            Arch::X64 => "x64",
            Arch::Arm64 => "arm64",
            Arch::Other(_) => return None,
        };
        let libc = if self.os == Os::Linux && self.libc == Libc::Musl { "-musl" } else { "" };
        Some(format!("{os}-{arch}{libc}"))
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let os = match &self.os {
            Os::Linux => "Linux",
            Os::MacOs => "macOS",
            Os::Windows => "Windows",
            Os::Other(name) => name,
        };
        let arch = match &self.arch {
            Arch::X64 => "x64",
            Arch::Arm64 => "arm64",
            Arch::Other(name) => name,
        };
        write!(f, "{os} on {arch}")
    }
}

impl Libc {
    /// Looks at the disk, not at the compile target: a static build of ours runs on either.
    fn detect(root: &Path) -> Self {
        const GLIBC: [&str; 2] = ["lib64/ld-linux-x86-64.so.2", "lib/ld-linux-aarch64.so.1"];
        const MUSL: [&str; 2] = ["lib/ld-musl-x86_64.so.1", "lib/ld-musl-aarch64.so.1"];
        let any = |loaders: [&str; 2]| loaders.iter().any(|loader| root.join(loader).exists());
        if any(MUSL) && !any(GLIBC) { Self::Musl } else { Self::Glibc }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn libc_with(loaders: &[&str]) -> Libc {
        let root = tempfile::tempdir().unwrap();
        for loader in loaders {
            let path = root.path().join(loader);
            fs_err::create_dir_all(path.parent().unwrap()).unwrap();
            fs_err::write(path, "").unwrap();
        }
        Platform::detect(root.path()).libc
    }

    #[test]
    fn musl_is_selected_only_without_glibc() {
        assert_eq!(libc_with(&[]), Libc::Glibc);
        assert_eq!(libc_with(&["lib/ld-musl-x86_64.so.1"]), Libc::Musl);
        assert_eq!(libc_with(&["lib/ld-musl-aarch64.so.1"]), Libc::Musl);
        assert_eq!(libc_with(&["lib/ld-musl-x86_64.so.1", "lib64/ld-linux-x86-64.so.2"]), Libc::Glibc);
    }

    #[test]
    fn platform_without_a_native_build_has_no_suffix() {
        let riscv = Platform { os: Os::Linux, arch: Arch::Other("riscv64".into()), libc: Libc::Glibc };
        assert_eq!(riscv.native_suffix(), None);
        assert_eq!(riscv.to_string(), "Linux on riscv64");
    }
}
