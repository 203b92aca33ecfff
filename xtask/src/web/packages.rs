//! npm packages of the page. They are installed outside of the clone, once for each lockfile, and shared by all
//! clones:
//!
//! ```text
//! <cache>/tools/.staging-web-XXXXXX/   unfinished install
//! <cache>/tools/web-0123456789abcdef/  finished install; web/node_modules points into it
//! ```

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

/// Ensures that `node_modules` matches the lockfile.
pub(super) fn ensure_node_modules(web: &Path, tools: &Path) -> Result<()> {
    let link = web.join("node_modules");
    if link.is_dir() && !link.is_symlink() {
        // A developer uses npm in this directory; it is not replaced.
        return npm_install(web);
    }
    replace_symlink(&link, &ensure_install(web, tools)?.join("node_modules"))
}

/// Returns the directory with the packages of this lockfile; installs them if needed.
fn ensure_install(web: &Path, tools: &Path) -> Result<PathBuf> {
    let read = |directory: &Path| std::fs::read(directory.join("package-lock.json"));
    let lock = read(web).with_context(|| format!("{} has no package-lock.json", web.display()))?;
    let mut hasher = DefaultHasher::new();
    lock.hash(&mut hasher);
    let home = tools.join(format!("web-{:016x}", hasher.finish()));
    if read(&home).is_ok_and(|found| found == lock) {
        return Ok(home);
    }
    eprintln!("installing the npm packages of the web page (180 MB) …");
    std::fs::create_dir_all(tools).with_context(|| format!("failed to create {}", tools.display()))?;
    let staging = tempfile::Builder::new().prefix(".staging-web-").tempdir_in(tools)?;
    for name in ["package.json", "package-lock.json", ".npmrc"] {
        std::fs::copy(web.join(name), staging.path().join(name)).with_context(|| format!("{name} is missing"))?;
    }
    npm_install(staging.path())?;
    std::fs::write(staging.path().join("package-lock.json"), &lock)?;
    match std::fs::rename(staging.path(), &home) {
        // Another process may have installed them meanwhile.
        Err(error) if !read(&home).is_ok_and(|found| found == lock) => {
            Err(error).with_context(|| format!("failed to move the install to {}", home.display()))
        }
        _ => Ok(home),
    }
}

/// Installs from the lockfile. `npm ci` would require the binaries of all platforms to be in it, and a lockfile
/// that was made behind a registry with fewer of them does not have those; `npm install` then finds this machine's
/// own by the version in its package.
fn npm_install(directory: &Path) -> Result<()> {
    let mut npm = Command::new("npm");
    npm.args([
        "install",
        "--no-save",
        "--ignore-scripts",
        "--no-audit",
        "--no-fund",
        "--no-progress",
        "--no-update-notifier",
    ]);
    npm.args(["--global=false", "--loglevel=error", "--fetch-retries=2"]);
    npm.current_dir(directory).stdin(Stdio::null()).stdout(Stdio::null());
    let status = npm.status().context("failed to start npm")?;
    if !status.success() {
        bail!(
            "failed to install the npm packages of the web page: npm ended with {status} (see above). Check the network \
             connection and that npm works, then run this command again"
        );
    }
    Ok(())
}

/// Makes a link point to a path, whatever it pointed to before.
#[cfg(unix)]
fn replace_symlink(link: &Path, to: &Path) -> Result<()> {
    if std::fs::read_link(link).is_ok_and(|found| found == to) {
        return Ok(());
    }
    if link.is_symlink() {
        std::fs::remove_file(link).with_context(|| format!("failed to remove {}", link.display()))?;
    }
    std::os::unix::fs::symlink(to, link).with_context(|| format!("failed to create {}", link.display()))
}

#[cfg(not(unix))]
fn replace_symlink(link: &Path, _to: &Path) -> Result<()> {
    bail!(
        "{} cannot be a link on this system. Run `npm ci` in its directory, then run this command again",
        link.display()
    )
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn install_for_the_same_lockfile_is_reused() {
        let (web, tools) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::write(web.path().join("package-lock.json"), "one").unwrap();
        // The install fails: there is no package.json.
        assert!(ensure_node_modules(web.path(), tools.path()).is_err());
        assert_eq!(std::fs::read_dir(tools.path()).unwrap().count(), 0, "an unfinished install is removed");

        let mut hasher = DefaultHasher::new();
        b"one".to_vec().hash(&mut hasher);
        let home = tools.path().join(format!("web-{:016x}", hasher.finish()));
        std::fs::create_dir_all(home.join("node_modules")).unwrap();
        std::fs::write(home.join("package-lock.json"), "one").unwrap();
        ensure_node_modules(web.path(), tools.path()).unwrap();
        assert_eq!(std::fs::read_link(web.path().join("node_modules")).unwrap(), home.join("node_modules"));
    }

    #[test]
    fn link_to_an_older_install_is_replaced() {
        let web = tempfile::tempdir().unwrap();
        let link = web.path().join("node_modules");
        replace_symlink(&link, &web.path().join("gone")).unwrap();
        replace_symlink(&link, &web.path().join("new")).unwrap();
        assert_eq!(std::fs::read_link(&link).unwrap(), web.path().join("new"));
    }
}
