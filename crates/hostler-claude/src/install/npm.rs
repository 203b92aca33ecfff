//! Runs npm and watches how much has arrived.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use hostler_driver::InstallError;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::Command;

use super::child::{OwnedChild, describe};
use super::diagnosis::{Context, Diagnosis};
use super::environment::Environment;
use super::failure;
use super::layout::bytes_below;
use super::lock::BuildLock;

/// How often the bytes on disk are counted.
const COUNT_EVERY: Duration = Duration::from_millis(200);
/// How long npm's last words are waited for once it has ended.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// One `npm install`.
pub(super) struct NpmInstall<'a> {
    pub(super) npm: &'a Path,
    pub(super) node: &'a Path,
    pub(super) environment: &'a Environment,
    pub(super) prefix: &'a Path,
    pub(super) lock: &'a BuildLock,
    pub(super) context: Context<'a>,
}

impl NpmInstall<'_> {
    /// Runs to the end; `arrived` hears how many bytes are on disk.
    pub(super) async fn run(self, arrived: impl Fn(u64)) -> Result<(), InstallError> {
        let Context { build, spec, cache, .. } = self.context;
        let mut command = Command::new(self.npm);
        command
            .arg("install")
            .arg("--prefix")
            .arg(self.prefix)
            .args(FLAGS)
            .arg(spec)
            .current_dir(self.prefix)
            .env_clear()
            .envs(self.environment.for_npm(self.node))
            .stdin(self.lock.as_stdin().map_err(|error| failure::file("pass on its lock", &error, cache, build))?)
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut child = OwnedChild::spawn(&mut command)
            .map_err(|error| failure::npm_failed(&format!("it could not be started ({error})"), build))?;

        let mut stderr = child.inner().stderr.take();
        let mut diagnosis = Diagnosis::default();
        let mut count = tokio::time::interval(COUNT_EVERY);
        let status = loop {
            tokio::select! {
                status = child.inner().wait() => break status,
                read = listen(&mut stderr, &mut diagnosis) => if !read { stderr = None },
                _ = count.tick() => arrived(count_bytes(self.prefix).await),
            }
        };
        // A grandchild that keeps stderr open must not keep us.
        if stderr.is_some() {
            let last_words = async { while listen(&mut stderr, &mut diagnosis).await {} };
            let _too_long = tokio::time::timeout(LAST_WORDS, last_words).await;
        }
        diagnosis.finish();
        arrived(count_bytes(self.prefix).await);

        let status = status.map_err(|error| failure::npm_failed(&format!("it was lost ({error})"), build))?;
        if status.success() && !diagnosis.disk_full() {
            Ok(())
        } else {
            Err(diagnosis.explain(&describe(status), &self.context))
        }
    }
}

/// Everything that a user's npm settings could change to our harm is said explicitly: flags beat settings.
const FLAGS: [&str; 17] = [
    "--ignore-scripts",
    "--no-audit",
    "--no-fund",
    "--no-save",
    "--no-package-lock",
    "--no-progress",
    "--no-color",
    "--no-update-notifier",
    "--global=false",
    "--workspaces=false",
    "--install-strategy=hoisted",
    // A full disk shows as a warning only.
    "--loglevel=warn",
    // Without a network npm would think about it for minutes.
    "--fetch-retries=2",
    "--fetch-retry-mintimeout=1000",
    "--fetch-retry-maxtimeout=5000",
    "--fetch-timeout=120000",
    "--",
];

/// Takes the next piece of stderr; `false` at its end. Pends for ever once it has ended, as `select!` wants it.
async fn listen(stderr: &mut Option<impl AsyncRead + Unpin>, diagnosis: &mut Diagnosis) -> bool {
    let Some(stderr) = stderr else {
        return std::future::pending().await;
    };
    let mut piece = [0; 4096];
    match stderr.read(&mut piece).await {
        Ok(length @ 1..) => {
            diagnosis.feed(piece.get(..length).unwrap_or_default());
            true
        }
        Ok(0) | Err(_) => false,
    }
}

async fn count_bytes(directory: &Path) -> u64 {
    let directory = directory.to_owned();
    tokio::task::spawn_blocking(move || bytes_below(&directory)).await.unwrap_or(0)
}
