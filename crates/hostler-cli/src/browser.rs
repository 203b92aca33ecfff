//! Opens the user's browser where there is a desktop.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::environment::HostEnvironment;

/// File that redirects to the address.
const REDIRECT_FILE: &str = "open.html";

/// Opens an address in the browser; returns whether there is a program that can open it.
///
/// The address contains a sign-in code, and every user of a machine can read the arguments of its programs. The
/// browser therefore gets a file in a private directory, which redirects to the address.
pub(crate) fn open_in_browser(address: &str, directory: &Path, environment: &HostEnvironment) -> io::Result<bool> {
    let Some(opener) = find_opener(environment) else { return Ok(false) };
    let page = directory.join(REDIRECT_FILE);
    let mut file = with_private_mode(OpenOptions::new().write(true).create_new(true)).open(&page)?;
    let address = address.replace('&', "&amp;").replace('"', "&quot;");
    writeln!(file, r#"<!doctype html><meta charset="utf-8"><title>Hostler</title>"#)?;
    writeln!(file, r#"<meta http-equiv="refresh" content="0;url={address}">"#)?;
    let mut command = tokio::process::Command::new(opener);
    command.arg(page).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // Some openers become the browser and keep running. The command does not wait for them; the runtime reaps them.
    command.spawn().map(|_| true)
}

/// Finds the program that opens the user's browser.
fn find_opener(environment: &HostEnvironment) -> Option<PathBuf> {
    if cfg!(target_os = "macos") {
        return environment.find_program("open");
    }
    let has_desktop = ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| environment.var(name).is_some());
    has_desktop.then(|| environment.find_program("xdg-open"))?
}

#[cfg(unix)]
fn with_private_mode(options: &mut OpenOptions) -> &mut OpenOptions {
    use std::os::unix::fs::OpenOptionsExt as _;
    options.mode(0o600)
}

#[cfg(not(unix))]
fn with_private_mode(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::time::Duration;

    use super::*;

    fn environment(vars: &[(&str, &Path)], dir: &Path) -> HostEnvironment {
        let vars = vars.iter().map(|(name, value)| ((*name).into(), value.as_os_str().to_owned()));
        HostEnvironment::from_vars(vars, dir.to_owned(), dir.to_owned())
    }

    #[tokio::test]
    async fn browser_gets_a_redirect_file_and_no_argument_contains_the_code() {
        let dir = tempfile::tempdir().unwrap();
        let (bin, opened_file) = (dir.path().join("bin"), dir.path().join("opened_file"));
        std::fs::create_dir(&bin).unwrap();
        let program = bin.join("xdg-open");
        let script = format!("#!/bin/sh\necho \"$*\" >{0}.new\nmv {0}.new {0}\n", opened_file.display());
        std::fs::write(&program, script).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).unwrap();
        let path = PathBuf::from(format!("{}:/usr/bin:/bin", bin.display()));
        let desktop = environment(&[("PATH", &path), ("DISPLAY", Path::new(":0"))], dir.path());
        assert!(open_in_browser("http://127.0.0.1:1/?a&b#link=s3cret", dir.path(), &desktop).unwrap());
        while !opened_file.exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let page = dir.path().join(REDIRECT_FILE);
        assert_eq!(std::fs::read_to_string(opened_file).unwrap().trim(), page.to_str().unwrap());
        assert!(std::fs::read_to_string(&page).unwrap().contains("0;url=http://127.0.0.1:1/?a&amp;b#link=s3cret\""));
        assert_eq!(std::fs::metadata(&page).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[tokio::test]
    async fn no_browser_is_opened_without_a_desktop() {
        let dir = tempfile::tempdir().unwrap();
        let shell = environment(&[("PATH", Path::new("/usr/bin:/bin"))], dir.path());
        assert!(!open_in_browser("http://127.0.0.1:1/#link=s3cret", dir.path(), &shell).unwrap());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
