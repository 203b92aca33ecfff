//! Managed installs with a fake npm whose behavior each test defines.

use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hostler_claude::install::pins::{JS, NATIVE};
use hostler_claude::install::{Arch, ClaudeInstaller, InstallerConfig, Libc, Os, Platform};
use hostler_driver::{
    InstallError, InstallErrorKind, InstallProgress, InstallProgressSink, InstalledBuild, Installer as _,
};
use hostler_process::find_program;
use hostler_testkit::fake_agent;
use tempfile::TempDir;

/// An npm that installs a native build with the right version.
const GOOD: &str = r#"package claude '#!/bin/sh
echo "2.1.325 (Claude Code)"'"#;

/// An npm that writes its pid and then installs without end.
const WRITES: &str = r#"echo $$ >"$here/pid.new"; mv "$here/pid.new" "$here/pid"
n=0
while [ -d "$here" ]; do mkdir -p "$prefix/node_modules/a"; echo >"$prefix/node_modules/a/$((n += 1))"; done"#;

/// A cache directory, a fake npm and an installer.
struct Bench {
    root: TempDir,
}

impl Bench {
    fn new(behaviour: &str) -> Self {
        let root = tempfile::tempdir().unwrap();
        // A link to a file that is not written here: an executable that was just written may still be "busy".
        let fake = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/install/fake-npm");
        std::os::unix::fs::symlink(fake, root.path().join("npm")).unwrap();
        let bench = Self { root };
        bench.behave(behaviour);
        bench
    }

    fn behave(&self, behaviour: &str) {
        fs_err::write(self.path("behaviour"), behaviour).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn config(&self) -> InstallerConfig {
        config(self.root.path())
    }

    fn installer(&self) -> ClaudeInstaller {
        ClaudeInstaller::new(self.config())
    }

    async fn install(&self) -> Result<InstalledBuild, InstallError> {
        self.installer().install("native", silent()).await
    }

    /// Waits until npm has written its pid.
    async fn at_work(&self) -> String {
        until("it has started", || self.path("pid").exists()).await;
        fs_err::read_to_string(self.path("pid")).unwrap().trim().to_owned()
    }

    /// How often npm was started.
    fn npm_calls(&self) -> usize {
        fs_err::read_to_string(self.path("calls")).map_or(0, |calls| calls.lines().count())
    }

    /// Everything in the cache except the locks.
    fn cached(&self) -> Vec<String> {
        let Ok(entries) = fs_err::read_dir(self.path("cache/agents/claude")) else {
            return Vec::new();
        };
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.filter(|name| !name.ends_with(".lock")).collect();
        names.sort();
        names
    }

    async fn assert_fails(&self, kind: InstallErrorKind, part_of_the_sentence: &str) {
        let error = self.install().await.unwrap_err();
        assert_eq!(error.kind, kind, "{error}");
        assert!(error.message.contains(part_of_the_sentence), "{error}");
        assert_eq!(self.cached(), [""; 0], "a failed install leaves nothing");
        assert_eq!(self.installer().installed_build("native"), None);
    }
}

fn config(root: &Path) -> InstallerConfig {
    let path = std::env::var_os("PATH").unwrap();
    InstallerConfig {
        cache_dir: root.join("cache"),
        npm: Some(root.join("npm")),
        node: Some(find_program("sh", &path).unwrap()),
        platform: Platform { os: Os::Linux, arch: Arch::X64, libc: Libc::Glibc },
        env: vec![("PATH".into(), path), ("ANTHROPIC_API_KEY".into(), "planted".into())],
        supervisor: fake_agent::supervisor_command().unwrap(),
    }
}

fn exists(pid: &str) -> bool {
    Path::new("/proc").join(pid).exists()
}

fn silent() -> InstallProgressSink {
    Box::new(|_| {})
}

/// Waits for a condition; the deadline only keeps a broken test from hanging.
async fn until(what: &str, mut fact: impl FnMut() -> bool) {
    let wait = async {
        while !fact() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), wait).await.unwrap_or_else(|_| panic!("never happened: {what}"));
}

#[tokio::test]
async fn install_is_verified_and_found_again_without_npm() {
    let bench = Bench::new(GOOD);
    let first = bench.install().await.unwrap();
    assert!(first.newly_installed);
    assert_eq!((first.build.as_str(), first.version.as_str()), ("native", NATIVE.version));
    assert!(first.path.is_file());
    assert_eq!(bench.cached(), ["native-2.1.325"]);

    let mut without_npm = bench.config();
    without_npm.npm = None;
    without_npm.node = None;
    let again = ClaudeInstaller::new(without_npm).install("native", silent()).await.unwrap();
    assert_eq!(again, InstalledBuild { newly_installed: false, ..first });
    assert_eq!(bench.npm_calls(), 1);
}

#[tokio::test]
async fn js_build_is_run_by_node() {
    // `sh` replaces node here, so a script that only a shell understands proves which program ran it.
    let bench = Bench::new("package cli.js 'echo \"2.1.112 (Claude Code)\"'");
    let installed = bench.installer().install("js", silent()).await.unwrap();
    assert_eq!(installed.version, JS.version);
    assert!(installed.path.ends_with("node_modules/@anthropic-ai/claude-agent-sdk/cli.js"));
    assert_eq!(bench.cached(), ["js-2.1.112"]);
}

#[tokio::test]
async fn npm_and_verification_get_no_credentials_and_no_user_home() {
    let bench = Bench::new(
        r##"env >"$here/npm-env"
package claude "#!/bin/sh
env >'$here/claude-env'
echo '2.1.325 (Claude Code)'""##,
    );
    bench.install().await.unwrap();
    let seen = |name: &str| fs_err::read_to_string(bench.path(name)).unwrap();
    assert!(seen("npm-env").contains("PATH="));
    assert!(!seen("npm-env").contains("planted"));
    assert!(!seen("claude-env").contains("planted"));
    let home = seen("claude-env").lines().find_map(|line| line.strip_prefix("HOME=").map(str::to_owned)).unwrap();
    assert!(home.contains(".staging-native-"), "{home}");
    assert!(!Path::new(&home).exists(), "the scratch home is gone");
}

#[tokio::test]
async fn progress_counts_the_bytes_on_disk() {
    let bench = Bench::new(
        r#"mkdir -p "$prefix/node_modules"
head -c 100000 /dev/zero >"$prefix/node_modules/part"
until_exists seen
package claude '#!/bin/sh
echo "2.1.325 (Claude Code)"'"#,
    );
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (sink, release) = (Arc::clone(&seen), bench.path("seen"));
    let progress: InstallProgressSink = Box::new(move |step| {
        // npm continues only after its first bytes were reported.
        if matches!(step, InstallProgress::Fetching { done_bytes: 100_000.., .. }) {
            fs_err::write(&release, "").unwrap();
        }
        sink.lock().unwrap().push(step);
    });
    bench.installer().install("native", progress).await.unwrap();
    let seen = seen.lock().unwrap();
    assert_eq!(seen.last(), Some(&InstallProgress::Verifying));
    let total_bytes = NATIVE.approximate_bytes;
    assert!(seen.contains(&InstallProgress::Fetching { done_bytes: 100_000, total_bytes }), "{seen:?}");
}

#[tokio::test]
async fn missing_tools_are_reported() {
    for (tool, take) in [("npm was not found", 0), ("Node.js (node) was not found", 1)] {
        let bench = Bench::new(GOOD);
        let mut config = bench.config();
        if take == 0 {
            config.npm = None
        } else {
            config.node = None
        }
        let error = ClaudeInstaller::new(config).install("native", silent()).await.unwrap_err();
        assert_eq!(error.kind, InstallErrorKind::NpmMissing);
        assert!(error.message.contains(tool), "{error}");
        assert_eq!(bench.cached(), [""; 0]);
    }
}

#[tokio::test]
async fn unreachable_registry_is_a_network_error() {
    let bench = Bench::new(
        r#"mkdir -p "$prefix/node_modules/half"
echo "npm error code ENOTFOUND" >&2
echo "npm error network request to https://registry.example.com/x failed" >&2
exit 1"#,
    );
    bench.assert_fails(InstallErrorKind::Network, "ENOTFOUND").await;
    let error = bench.install().await.unwrap_err();
    assert!(!error.message.contains("example.com"), "{error}");
}

#[tokio::test]
async fn full_disk_is_detected_even_if_npm_succeeds() {
    let warning = "echo 'npm warn tar TAR_ENTRY_ERROR ENOSPC: no space left on device, write' >&2\n";
    let bench = Bench::new(&format!("{warning}{GOOD}"));
    bench.assert_fails(InstallErrorKind::DiskFull, "about 365 MB").await;
    bench.behave("echo 'npm error code ENOSPC' >&2\nexit 228");
    bench.assert_fails(InstallErrorKind::DiskFull, "The disk is full").await;
}

#[tokio::test]
async fn unsupported_platform_error_mentions_the_js_build() {
    let bench = Bench::new(GOOD);
    let mut config = bench.config();
    config.platform.arch = Arch::Other("riscv64".into());
    let error = ClaudeInstaller::new(config).install("native", silent()).await.unwrap_err();
    assert_eq!(error.kind, InstallErrorKind::Unsupported);
    assert!(error.message.contains("--build js"), "{error}");
    assert_eq!(bench.npm_calls(), 0);

    bench.behave("echo 'npm error code EBADPLATFORM' >&2\nexit 1");
    bench.assert_fails(InstallErrorKind::Unsupported, "Node.js was not built for Linux on x64").await;
}

#[tokio::test]
async fn executable_for_another_machine_is_removed() {
    // An ELF header for an unknown processor (e_machine 0xf00d).
    let foreign = Bench::new(
        r#"package claude ""
printf '\177ELF\002\001\001\000\000\000\000\000\000\000\000\000\002\000\015\360\001\000\000\000' >"$home/claude""#,
    );
    foreign.assert_fails(InstallErrorKind::Unsupported, "built for another system").await;

    let foreign_loader = Bench::new("package claude '#!/no/such/loader'");
    foreign_loader.assert_fails(InstallErrorKind::Unsupported, "built for another system").await;
}

#[tokio::test]
async fn wrong_version_is_removed() {
    let bench = Bench::new("package claude '#!/bin/sh\necho \"9.9.9 (Claude Code)\"'");
    bench.assert_fails(InstallErrorKind::VerificationFailed, "version 9.9.9, not 2.1.325").await;
    bench.behave("package claude '#!/bin/sh\necho broken >&2; exit 7'");
    bench.assert_fails(InstallErrorKind::VerificationFailed, "exit code 7 (broken)").await;
    bench.behave("package something-else ''");
    bench.assert_fails(InstallErrorKind::VerificationFailed, "does not contain the executable").await;
}

#[tokio::test]
async fn concurrent_installs_share_one_result() {
    let bench = Bench::new(&format!("until_exists waiting\n{GOOD}"));
    let release = bench.path("waiting");
    // npm continues only after the other installer reports that it waits.
    let report: Arc<dyn Fn(InstallProgress) + Send + Sync> = Arc::new(move |step| {
        if step == InstallProgress::Waiting {
            fs_err::write(&release, "").unwrap();
        }
    });
    let start = || {
        let report = Arc::clone(&report);
        bench.installer().install("native", Box::new(move |step| report(step)))
    };
    let (one, two) = tokio::join!(start(), start());
    let (one, two) = (one.unwrap(), two.unwrap());
    assert_eq!(one.path, two.path);
    assert!(one.newly_installed != two.newly_installed, "exactly one of them did the work");
    assert_eq!(bench.npm_calls(), 1);
    assert_eq!(bench.cached(), ["native-2.1.325"]);
}

#[tokio::test]
async fn cancelled_install_ends_npm_and_leaves_nothing() {
    let bench = Bench::new(WRITES);
    let installer = bench.installer();
    let install = tokio::spawn(installer.install("native", silent()));
    let pid = bench.at_work().await;
    install.abort();
    assert!(install.await.unwrap_err().is_cancelled());
    until("npm is gone", || !exists(&pid)).await;
    until("its files are gone", || bench.cached().is_empty()).await;

    // A stopped installer has nothing to wait for and starts nothing.
    installer.stop().await;
    let error = installer.install("native", silent()).await.unwrap_err();
    assert!(error.message.contains("was canceled"), "{error}");
    assert_eq!((bench.cached(), bench.npm_calls()), (Vec::new(), 1));
}

#[tokio::test]
async fn stop_waits_until_npm_has_ended() {
    let bench = Bench::new(WRITES);
    let installer = bench.installer();
    let install = tokio::spawn(installer.install("native", silent()));
    let pid = bench.at_work().await;
    installer.stop().await;
    assert!(!exists(&pid));
    assert_eq!(bench.cached(), [""; 0]);
    let error = install.await.unwrap().unwrap_err();
    assert!(error.message.contains("was canceled"), "{error}");
}

#[tokio::test]
async fn stopped_verification_leaves_nothing() {
    let bench = Bench::new(
        r##"package claude "#!/bin/sh
echo \$\$ >'$here/pid.new'; mv '$here/pid.new' '$here/pid'
exec sleep 1000""##,
    );
    let installer = bench.installer();
    let install = tokio::spawn(installer.install("native", silent()));
    let pid = bench.at_work().await;
    installer.stop().await;
    assert!(!exists(&pid));
    assert_eq!(bench.cached(), [""; 0]);
    install.await.unwrap().unwrap_err();
}

#[tokio::test]
async fn damaged_install_is_replaced() {
    let bench = Bench::new(GOOD);
    let first = bench.install().await.unwrap();
    fs_err::write(&first.path, "").unwrap();
    assert_eq!(bench.installer().installed_build("native"), None, "a truncated executable is not trusted");
    let second = bench.install().await.unwrap();
    assert!(second.newly_installed);
    assert_eq!(bench.npm_calls(), 2);
}

#[tokio::test]
async fn leftovers_of_killed_installers_are_removed() {
    let bench = Bench::new(GOOD);
    let stale = bench.path("cache/agents/claude/.staging-native-dead/tree/node_modules");
    let unmarked = bench.path("cache/agents/claude/native-2.1.325/node_modules");
    let other_build = bench.path("cache/agents/claude/.staging-js-alive");
    for directory in [&stale, &unmarked, &other_build] {
        fs_err::create_dir_all(directory).unwrap();
    }
    assert_eq!(bench.installer().installed_build("native"), None);
    assert!(bench.install().await.unwrap().newly_installed);
    assert_eq!(bench.cached(), [".staging-js-alive", "native-2.1.325"]);
}

#[tokio::test]
async fn killed_installer_is_awaited_and_its_files_are_not_used() {
    // An npm that ignores SIGTERM and writes until it is killed.
    let bench = Bench::new(&format!("trap '' TERM\n{WRITES}"));
    let mut victim = OtherProcess::install_into(bench.root.path());
    let pid = bench.at_work().await;
    let status = victim.kill();
    assert_eq!(status, Some(9));
    assert_eq!(bench.installer().installed_build("native"), None);

    // The next install does not start until it has exited.
    bench.behave(&format!("kill -0 {pid} 2>/dev/null && touch \"$here/both\"\n{GOOD}"));
    assert!(bench.install().await.unwrap().newly_installed);
    assert!(!exists(&pid) && !bench.path("both").exists());
    assert_eq!(bench.cached(), ["native-2.1.325"]);
}

/// Names the directory for [`installs_in_a_process_of_its_own`].
const OTHER_PROCESS_ROOT: &str = "INSTALL_TEST_ROOT";

/// An installer in another process, so that it can be killed.
struct OtherProcess(Child);

impl OtherProcess {
    fn install_into(root: &Path) -> Self {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "install::installs_in_a_process_of_its_own", "--ignored"])
            .env(OTHER_PROCESS_ROOT, root)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Self(child.unwrap())
    }

    fn kill(&mut self) -> Option<i32> {
        self.0.kill().unwrap();
        self.0.wait().unwrap().signal()
    }
}

impl Drop for OtherProcess {
    fn drop(&mut self) {
        let _gone_already = self.0.kill();
        let _reaped = self.0.wait();
    }
}

#[tokio::test]
#[ignore = "the other process of the test that kills it"]
async fn installs_in_a_process_of_its_own() {
    let root = std::env::var_os(OTHER_PROCESS_ROOT).expect("started by another test only");
    ClaudeInstaller::new(config(Path::new(&root))).install("native", silent()).await.unwrap();
}
