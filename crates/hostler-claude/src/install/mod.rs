//! Managed installs of Claude Code: the pinned builds, fetched by npm into the cache directory.
//!
//! A build is staged beside its final directory, verified by running it, and moved there in one step. A final
//! directory with a receipt is therefore always complete; everything else belongs to an installer that was stopped,
//! and the next one removes it. npm and its children run under a supervisor that holds the build's lock until they
//! are gone, so no install overlaps with a killed one.
//!
//! **Architecture Invariant:** versions and packages are in [`pins`] only; nothing here reads the process
//! environment.

mod environment;
mod errors;
mod layout;
mod lock;
mod npm;
mod npm_diagnosis;
pub mod pins;
mod platform;
mod program_runner;
mod verification;

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::future::BoxFuture;
use hostler_driver::{InstallError, InstallProgress, InstallProgressSink, InstalledBuild, Installer};
use hostler_process::{SupervisorCommand, find_program};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use self::pins::{Build, PinnedBuild};
pub use self::platform::{Arch, Libc, Os, Platform};

use self::environment::InstallEnvironment;
use self::layout::CacheLayout;
use self::lock::BuildLock;
use self::npm::NpmInstall;
use self::npm_diagnosis::InstallContext;
use self::program_runner::ProgramRunner;
use self::verification::Verification;

/// What an installer needs from its host.
#[derive(Clone)]
pub struct InstallerConfig {
    /// Hostler's cache directory, shared by all state directories.
    pub cache_dir: PathBuf,
    /// npm, if it was found.
    pub npm: Option<PathBuf>,
    /// Node.js, if it was found.
    pub node: Option<PathBuf>,
    /// The platform to install for.
    pub platform: Platform,
    /// The environment that the program was started with.
    pub env: Vec<(OsString, OsString)>,
    /// The supervisor of npm and of the verification run.
    pub supervisor: SupervisorCommand,
}

impl InstallerConfig {
    /// For this machine: npm and Node.js are looked up in the `PATH` of `env`.
    pub fn for_this_machine(cache_dir: PathBuf, env: Vec<(OsString, OsString)>, supervisor: SupervisorCommand) -> Self {
        let environment = InstallEnvironment::new(env.iter().cloned());
        let (npm, node) = (find_program("npm", environment.path()), find_program("node", environment.path()));
        Self { cache_dir, npm, node, platform: Platform::detect(Path::new("/")), env, supervisor }
    }
}

impl std::fmt::Debug for InstallerConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InstallerConfig")
            .field("cache_dir", &self.cache_dir)
            .field("npm", &self.npm)
            .field("node", &self.node)
            .field("platform", &self.platform)
            .finish_non_exhaustive()
    }
}

/// Installs the pinned builds of Claude Code.
#[derive(Debug, Clone)]
pub struct ClaudeInstaller(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    npm: Option<PathBuf>,
    node: Option<PathBuf>,
    platform: Platform,
    environment: InstallEnvironment,
    layout: CacheLayout,
    supervisor: SupervisorCommand,
    cancelled: CancellationToken,
    installs: TaskTracker,
}

impl ClaudeInstaller {
    /// An installer; does not touch the disk yet.
    pub fn new(config: InstallerConfig) -> Self {
        let InstallerConfig { cache_dir, npm, node, platform, env, supervisor } = config;
        let layout = CacheLayout::new(&cache_dir, platform.clone());
        Self(Arc::new(Inner {
            npm,
            node,
            platform,
            environment: InstallEnvironment::new(env),
            layout,
            supervisor,
            cancelled: CancellationToken::new(),
            installs: TaskTracker::new(),
        }))
    }
}

impl Installer for ClaudeInstaller {
    fn provider(&self) -> &'static str {
        "claude"
    }

    fn builds(&self) -> Vec<String> {
        Build::ALL.map(|build| build.as_str().to_owned()).into()
    }

    fn pinned_version(&self, build: &str) -> Option<String> {
        Build::from_name(build).map(|build| build.pin().version.to_owned())
    }

    fn installed_build(&self, build: &str) -> Option<InstalledBuild> {
        self.0.layout.installed(Build::from_name(build)?)
    }

    fn install(
        &self,
        build: &str,
        progress: InstallProgressSink,
    ) -> BoxFuture<'static, Result<InstalledBuild, InstallError>> {
        let (inner, name) = (Arc::clone(&self.0), build.to_owned());
        Box::pin(async move {
            let build = Build::from_name(&name).ok_or_else(|| errors::unknown_build(&name))?;
            let stopped = inner.cancelled.child_token();
            // A task of its own cleans up even if the caller drops its future.
            let install = inner.installs.spawn(Arc::clone(&inner).install(build, progress, stopped.clone()));
            let _stop_on_drop = stopped.drop_guard();
            install.await.unwrap_or_else(|error| Err(errors::task_failed(&error, build)))
        })
    }

    fn stop(&self) -> BoxFuture<'static, ()> {
        let inner = Arc::clone(&self.0);
        Box::pin(async move {
            inner.cancelled.cancel();
            inner.installs.close();
            inner.installs.wait().await;
        })
    }
}

impl Inner {
    async fn install(
        self: Arc<Self>,
        build: Build,
        progress: InstallProgressSink,
        stopped: CancellationToken,
    ) -> Result<InstalledBuild, InstallError> {
        if let Some(installed) = self.layout.installed(build) {
            return Ok(installed);
        }
        let pin = build.pin();
        let (Some(spec), Some(executable)) = (pin.spec(&self.platform), pin.executable(&self.platform)) else {
            return Err(errors::unsupported(&self.platform));
        };
        let npm = self.npm.as_deref().ok_or_else(|| errors::tool_missing("npm", build))?;
        let node = self.node.as_deref().ok_or_else(|| errors::tool_missing("Node.js (node)", build))?;

        let root = self.layout.root();
        let file = |what| move |error: io::Error| errors::file_error(what, &error, root, build);
        fs_err::create_dir_all(root).map_err(file("create the cache directory"))?;
        let lock_file = self.layout.lock_file(build);
        let lock = BuildLock::acquire(&lock_file, || progress(InstallProgress::Waiting));
        let lock = stopped.run_until_cancelled(lock).await.ok_or_else(|| errors::stopped(build))?;
        let lock = lock.map_err(file("lock the cache directory"))?;
        if let Some(installed) = self.layout.installed(build) {
            return Ok(installed);
        }

        let staging = self
            .run_blocking(move |layout| layout.remove_incomplete(build).and_then(|()| layout.create_staging(build)))
            .await
            .map_err(file("prepare the cache directory"))?;
        let custody = ProgramRunner { supervisor: &self.supervisor, lock: &lock, cancelled: &stopped };
        let fill = async {
            let tree = staging.tree();
            let context = InstallContext { build, platform: &self.platform, spec: &spec, cache: root };
            NpmInstall { npm, node, environment: &self.environment, prefix: &tree, runner: &custody, context }
                .run(|bytes| {
                    let total = pin.approximate_bytes;
                    progress(InstallProgress::Fetching { done_bytes: bytes.min(total), total_bytes: total });
                })
                .await?;
            progress(InstallProgress::Verifying);
            Verification {
                build,
                platform: &self.platform,
                executable: &tree.join(executable),
                node,
                scratch: &staging.scratch(),
                environment: &self.environment,
                runner: &custody,
            }
            .run()
            .await
        };
        if let Err(error) = fill.await {
            // The next installer removes what cannot be removed now.
            let _left = self.run_blocking(move |_| staging.remove()).await;
            return Err(error);
        }
        self.run_blocking(move |layout| layout.publish(build, &staging)).await.map_err(file("finish the installation"))
    }

    /// Runs slow file operations off the runtime's threads.
    async fn run_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&CacheLayout) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let layout = self.layout.clone();
        tokio::task::spawn_blocking(move || work(&layout)).await.map_err(io::Error::other)?
    }
}
