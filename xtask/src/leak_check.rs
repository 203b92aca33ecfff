//! Finds processes and temporary files that outlive a test run.
//!
//! Processes are recognized by a value in their environment that is unique to the run. It is passed under two
//! names, because agents do not inherit any `HOSTLER_…` variable. Files are recognized by their location in the
//! run's own temporary directory.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use uuid::Uuid;

/// How long a process may take to end after its test.
const PROCESS_EXIT_GRACE: Duration = Duration::from_secs(5);

/// Mark of everything that a test run starts or writes.
#[derive(Debug)]
pub(crate) struct TestRun {
    id: String,
    temp_dir: PathBuf,
}

impl TestRun {
    /// Starts a run below the directory for temporary files.
    pub(crate) fn begin(temporary: &Path) -> Result<Self> {
        let id = Uuid::new_v4().simple().to_string();
        // Short: sockets are created here, and their paths are limited to about a hundred bytes.
        let temporary = temporary.join(format!("hostler-test-{}", id.get(..8).unwrap_or(&id)));
        std::fs::create_dir(&temporary).with_context(|| format!("failed to create {}", temporary.display()))?;
        Ok(Self { id, temp_dir: temporary })
    }

    /// Marks a command as part of this run.
    pub(crate) fn mark_command<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.env("HOSTLER_TEST_RUN", &self.id).env("TEST_RUN", &self.id).env("TMPDIR", &self.temp_dir)
    }

    /// Fails if processes or files of the run remain; removes its files either way.
    pub(crate) fn check_for_leaks(&self) -> Result<()> {
        if !Path::new("/proc/self").exists() {
            eprintln!("warning: this system has no /proc, so leaked processes are not checked");
        }
        let mut leaks: Vec<String> =
            self.leaked_processes().iter().map(|process| format!("process {process}")).collect();
        leaks.extend(self.leaked_files()?.iter().map(|file| format!("file {}", file.display())));
        if leaks.is_empty() {
            return Ok(());
        }
        bail!("the tests leaked:\n  {}", leaks.join("\n  "))
    }

    fn leaked_processes(&self) -> Vec<String> {
        let deadline = Instant::now() + PROCESS_EXIT_GRACE;
        loop {
            let leaked = self.marked_processes();
            if leaked.is_empty() || Instant::now() >= deadline {
                return leaked;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Returns `pid: command line` of every live process with the mark. Works on Linux only.
    fn marked_processes(&self) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir("/proc") else {
            return Vec::new();
        };
        entries
            .flatten()
            .filter(|entry| entry.file_name().to_string_lossy().bytes().all(|byte| byte.is_ascii_digit()))
            .filter(|entry| {
                let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
                String::from_utf8_lossy(&environment).contains(&self.id)
            })
            .map(|entry| {
                let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
                let line = String::from_utf8_lossy(&line).replace('\0', " ");
                format!("{}: {}", entry.file_name().to_string_lossy(), line.trim())
            })
            .collect()
    }

    fn leaked_files(&self) -> Result<Vec<PathBuf>> {
        let entries = std::fs::read_dir(&self.temp_dir).context("failed to read the temporary directory of the run")?;
        Ok(entries.flatten().map(|entry| entry.path()).filter(|path| !is_expected_file(path)).collect())
    }
}

impl Drop for TestRun {
    fn drop(&mut self) {
        let _gone_already = std::fs::remove_dir_all(&self.temp_dir);
    }
}

/// Locks of conversations remain by design; caches belong to Claude Code or Node.js.
fn is_expected_file(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let is_lock_directory = name.strip_prefix("hostler-").is_some_and(|uid| uid.parse::<u32>().is_ok());
    is_lock_directory
        || ["claude-", "node-compile-cache", "v8-compile-cache"].iter().any(|known| name.starts_with(known))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::process::Stdio;

    use super::*;

    #[test]
    fn clean_run_passes_and_removes_its_directory() {
        let root = tempfile::tempdir().unwrap();
        let run = TestRun::begin(root.path()).unwrap();
        std::fs::create_dir(run.temp_dir.join("hostler-1000")).unwrap();
        run.check_for_leaks().unwrap();
        let directory = run.temp_dir.clone();
        drop(run);
        assert!(!directory.exists());
    }

    #[test]
    fn leaked_file_is_found() {
        let root = tempfile::tempdir().unwrap();
        let run = TestRun::begin(root.path()).unwrap();
        std::fs::write(run.temp_dir.join("forgotten"), "").unwrap();
        let error = run.check_for_leaks().unwrap_err().to_string();
        assert!(error.contains("forgotten"), "{error}");
    }

    #[test]
    fn leaked_process_is_found_by_either_mark_variable() {
        for hidden in ["HOSTLER_TEST_RUN", "TEST_RUN"] {
            let root = tempfile::tempdir().unwrap();
            let run = TestRun::begin(root.path()).unwrap();
            let mut command = Command::new("cat");
            command.stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut child = run.mark_command(&mut command).env_remove(hidden).spawn().unwrap();
            // The echo proves that the process runs: before that, its environment may not be readable.
            child.stdin.as_mut().unwrap().write_all(b"x").unwrap();
            child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
            let found = run.marked_processes();
            child.kill().unwrap();
            child.wait().unwrap();
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(run.marked_processes().is_empty());
        }
    }
}
