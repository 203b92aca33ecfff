//! A temporary directory in which a real bash runs a command line, and the detection of what the line did.
//!
//! The project contains links that point outside, a nested bare repository and a script; outside of it are a file with
//! a known text and a home directory. `PATH` contains the real read-only programs; every other program of the machine
//! is a trap that writes a marker. A read of a file outside is detected by its access time, so the output may be
//! encoded in any way. The sandbox does not know rules.

use std::collections::BTreeMap;
use std::fs::{self, File, FileTimes};
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

/// The text of every file outside the project, and of an environment variable.
const CANARY: &str = "canary-of-the-outside";

/// Programs that run for real: read-only ones, and those that run a given command. They look up that command in the
/// same `PATH`.
const REAL_PROGRAMS: &str = "[ arch awk b2sum base64 basename bash cat cksum cmp column comm cut date df diff dirname du echo egrep env expr \
    false fd fdfind fgrep file find fmt fold getconf git grep groups head hexdump hostname id jq join ls md5sum nice nl nohup nproc od \
    paste pathchk printenv printf ps pwd readlink realpath rev rg sed seq sh sha1sum sha224sum sha256sum sha384sum \
    sha512sum shasum sleep sort stat stdbuf strings sum tac tail test time timeout tr tree true tsort tty type uname unexpand expand \
    uniq uptime wc which whoami xargs xxd";

/// Programs that get a trap even if this machine does not have them.
const TRAPPED_PROGRAMS: &str = "rm touch cp mv tee dd ln parallel watch sudo doas ssh curl wget less more man vim vi nano \
    make node python python3 perl ruby deno cargo npm npx evil at crontab systemctl gpg setsid script kill chmod";

/// Every Git key that names a program which a read-only command could run.
const HOSTILE_CONFIG: &str = "
[core]
fsmonitor = TRAP
pager = TRAP
editor = TRAP
sshCommand = TRAP
askPass = TRAP
gitProxy = TRAP
[diff]
external = TRAP
[diff \"evil\"]
command = TRAP
textconv = TRAP
[filter \"evil\"]
clean = TRAP
smudge = TRAP
[merge \"evil\"]
driver = TRAP
[gpg]
program = TRAP
[sequence]
editor = TRAP
[interactive]
diffFilter = TRAP
[credential]
helper = TRAP
[uploadpack]
packObjectsHook = TRAP
[log]
showSignature = true
[pager]
status = true
log = true
[status]
submoduleSummary = true
[alias]
st = !TRAP
lg = !TRAP
ls = !TRAP
last = !TRAP
";

/// The kind of the project's Git directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RepositoryKind {
    /// As after a clone.
    Clean,
    /// Its configuration, attributes and hooks run programs on every occasion.
    Hostile,
    /// A `.git` file that names a Git directory outside.
    ExternalGitDirectory,
    /// A clean repository with a submodule whose own configuration runs programs.
    Submodule,
    /// A clean repository whose `core.worktree` is the directory outside.
    Worktree,
}

impl RepositoryKind {
    pub(super) const ALL: [Self; 5] =
        [Self::Clean, Self::Hostile, Self::ExternalGitDirectory, Self::Submodule, Self::Worktree];
}

/// A temporary directory; it is removed on drop.
#[derive(Debug)]
pub(super) struct Sandbox {
    base: PathBuf,
    repository: RepositoryKind,
    /// Whether the file system records access times.
    access_times: bool,
    baseline: BTreeMap<PathBuf, FileFingerprint>,
}

/// File mode, size, mtime and ctime: one of them changes with the file.
type FileFingerprint = (u32, u64, (i64, i64), (i64, i64));

impl Drop for Sandbox {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.base));
    }
}

impl Sandbox {
    pub(super) fn new(repository: RepositoryKind) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("hostler-rules-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let base = fs::canonicalize(std::env::temp_dir()).expect("a directory for temporary files").join(name);
        // Fails if the directory exists.
        fs::create_dir(&base).expect("a new directory");
        let mut sandbox = Self { base, repository, access_times: false, baseline: BTreeMap::new() };
        sandbox.build_programs();
        sandbox.build();
        sandbox.access_times = {
            sandbox.reset_access_times(&[]);
            drop(fs::read(sandbox.base.join("outside/passwd")));
            !sandbox.find_reads(&[]).is_empty()
        };
        sandbox.baseline = sandbox.snapshot();
        sandbox
    }

    /// The root of the project.
    pub(super) fn project(&self) -> PathBuf {
        self.base.join("project")
    }

    /// Whether the file system records access times.
    pub(super) fn records_access_times(&self) -> bool {
        self.access_times
    }

    /// The home directory of the user.
    pub(super) fn home(&self) -> PathBuf {
        self.base.join("home")
    }

    /// Whether a program of this name runs for real.
    #[cfg(test)]
    pub(super) fn has_program(&self, name: &str) -> bool {
        fs::read_link(self.base.join("bin").join(name)).is_ok_and(|target| !target.ends_with(".trap"))
    }

    /// Runs the line in a directory of the project, and waits for its background processes. Every item of the result is
    /// a violation: something that a read-only line does not do. `unread` lists files of the project that must not be
    /// read.
    pub(super) fn find_violations(&mut self, line: &str, directory: &str, unread: &[String]) -> Vec<String> {
        let mut found = self.run_and_collect(line, directory, unread);
        // Another process of the machine may have read a file here. A second run excludes that.
        if !found.is_empty() && found.iter().all(|found| found.starts_with("read ")) {
            found = self.run_and_collect(line, directory, unread);
        }
        if !found.is_empty() {
            for part in ["project", "outside", "home", "mark"] {
                let path = self.base.join(part);
                drop(fs::remove_file(&path).or_else(|_| fs::remove_dir_all(&path)));
            }
            self.build();
            self.baseline = self.snapshot();
        }
        found
    }

    fn run_and_collect(&self, line: &str, directory: &str, unread: &[String]) -> Vec<String> {
        self.reset_access_times(unread);
        // bash drops NUL characters from its input, and an argument cannot contain them.
        let output = self.run(&line.replace('\0', ""), directory);
        let mut found = self.find_reads(unread);
        let text = String::from_utf8_lossy(&output);
        let contents = |path: &Path| fs::read_to_string(path).unwrap_or_default();
        let first_user = contents(Path::new("/etc/passwd")).lines().next().unwrap_or("?").to_owned();
        let mut secrets = vec![CANARY.to_owned(), first_user];
        secrets.extend(unread.iter().map(|name| contents(&self.project().join(name)).trim().to_owned()));
        let printed = secrets.iter().filter(|secret| text.contains(secret.as_str()));
        found.extend(printed.map(|secret| format!("printed {secret:?}")));
        if let Ok(marks) = fs::read_to_string(self.mark_path()) {
            found.push(format!("ran {marks:?}"));
        }
        let after = self.snapshot();
        for (path, was) in &self.baseline {
            if after.get(path) != Some(was) {
                found.push(format!("changed {}", self.relative_path(path)));
            }
        }
        found.extend(
            after
                .keys()
                .filter(|path| !self.baseline.contains_key(*path))
                .map(|path| format!("made {}", self.relative_path(path))),
        );
        found
    }

    fn mark_path(&self) -> PathBuf {
        self.base.join("mark")
    }

    fn relative_path(&self, path: &Path) -> String {
        path.strip_prefix(&self.base).unwrap_or(path).display().to_string()
    }

    /// Both outputs, up to a limit. Background processes inherit the pipe as descriptor 9, so the run waits for them
    /// even if they closed their outputs.
    fn run(&self, line: &str, directory: &str) -> Vec<u8> {
        let script = "ulimit -v 4000000 -f 100000
            /bin/bash --norc --noprofile -c \"$1\" 2>&1 9>&1 </dev/null | /usr/bin/head -c 2000000";
        let mut command = Command::new("/usr/bin/timeout");
        command.args(["-s", "KILL", "2", "/bin/bash", "--norc", "--noprofile", "-c", script, "line", line]);
        command.current_dir(self.project().join(directory)).env_clear().process_group(0);
        for (name, value) in self.environment() {
            command.env(name, value);
        }
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("timeout and bash");
        let group = child.id();
        let output = child.wait_with_output().expect("its output");
        // A process that closed all descriptors may still be running.
        let mut kill = Command::new("/bin/kill");
        kill.args(["-KILL", "--", &format!("-{group}")])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        drop(kill.status());
        output.stdout
    }

    fn environment(&self) -> Vec<(String, String)> {
        let text = |path: PathBuf| path.display().to_string();
        vec![
            ("PATH".to_owned(), text(self.base.join("bin"))),
            ("HOME".to_owned(), text(self.home())),
            ("LANG".to_owned(), "C.UTF-8".to_owned()),
            ("TERM".to_owned(), "dumb".to_owned()),
            ("API_TOKEN".to_owned(), CANARY.to_owned()),
            ("GIT_CONFIG_GLOBAL".to_owned(), text(self.base.join("gitconfig"))),
        ]
    }

    fn build(&self) {
        self.build_outside();
        self.build_project();
        match self.repository {
            RepositoryKind::Clean => {}
            RepositoryKind::Hostile => self.make_hostile(&self.project().join(".git")),
            RepositoryKind::ExternalGitDirectory => {
                let git = self.project().join(".git");
                fs::rename(&git, self.base.join("outside/repo.git")).unwrap();
                self.write("project/.git", "gitdir: ../outside/repo.git\n");
            }
            RepositoryKind::Submodule => {
                let sub = self.project().join("sub");
                fs::create_dir(&sub).unwrap();
                self.write("project/sub/a.txt", "one\n");
                self.write("project/sub/.gitattributes", "* filter=evil diff=evil\n");
                self.commit(&sub);
                self.commit(&self.project());
                self.make_hostile(&sub.join(".git"));
                self.write("project/sub/a.txt", "two\n");
            }
            RepositoryKind::Worktree => {
                let mut config = File::options().append(true).open(self.project().join(".git/config")).unwrap();
                config.write_all(b"[core]\nworktree = ../../outside\n").unwrap();
            }
        }
    }

    fn build_programs(&self) {
        let bin = self.base.join("bin");
        fs::create_dir(&bin).unwrap();
        // Setting an access time changes ctime as well, and Git would read the file again.
        self.write("gitconfig", "[core]\ntrustctime = false\n");
        // The output that Git expects from a signing program.
        let signature = "-----BEGIN PGP SIGNATURE-----\\n\\n-----END PGP SIGNATURE-----\\n";
        self.script(
            "sign",
            &format!("cat >/dev/null; printf '\\n[GNUPG:] SIG_CREATED \\n' >&2; printf -- '{signature}'"),
        );
        self.script("trap", "echo \"$0 $*\" >> \"${0%/*}/mark\"");
        self.script("bin/.trap", "echo \"${0##*/} $*\" >> \"${0%/*}/../mark\"");
        let mut names: Vec<String> = TRAPPED_PROGRAMS.split_whitespace().map(str::to_owned).collect();
        for directory in ["/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin"] {
            for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
                let name = entry.file_name().to_string_lossy().into_owned();
                let target = if REAL_PROGRAMS.split_whitespace().any(|real| real == name) {
                    entry.path()
                } else {
                    bin.join(".trap")
                };
                drop(symlink(target, bin.join(&name)));
            }
        }
        // Debian installs `fd` under another name.
        for (name, other) in [("fd", "fdfind"), ("fdfind", "fd")] {
            if let (false, Ok(target)) = (bin.join(name).exists(), fs::read_link(bin.join(other))) {
                symlink(target, bin.join(name)).unwrap();
            }
        }
        names.retain(|name| !bin.join(name).exists());
        for name in names {
            symlink(bin.join(".trap"), bin.join(name)).unwrap();
        }
    }

    fn build_outside(&self) {
        for directory in ["outside/deep", "home/.ssh", "home/.config/hostler", "home/.local/state/hostler"] {
            fs::create_dir_all(self.base.join(directory)).unwrap();
        }
        for file in [
            "outside/passwd",
            "outside/a.txt",
            "outside/deep/a.txt",
            "home/.ssh/id_rsa",
            "home/.bashrc",
            "home/notes.txt",
            "home/.config/hostler/config.toml",
            "home/.local/state/hostler/token",
        ] {
            self.write(file, &format!("{CANARY}\n"));
        }
    }

    fn build_project(&self) {
        let project = self.project();
        for directory in ["src/deep", "docs/objects", "docs/refs", ".claude"] {
            fs::create_dir_all(project.join(directory)).unwrap();
        }
        for (file, text) in [
            ("a.txt", "one\ntwo\ntwo\nroot\n"),
            ("b.txt", "one\nthree\n"),
            ("log.txt", "1 error\n2 warning\n"),
            ("data.json", "{\"name\": \"x\", \"list\": [1, 2]}\n"),
            ("names.txt", "../outside/passwd\nln1/passwd\n"),
            ("names0", "../outside/passwd\0ln1/passwd\0"),
            ("secret.txt", "text-that-stays-unread\n"),
            ("with space.txt", "space\n"),
            ("--output=made", "option\n"),
            ("README.md", "# Title\n"),
            ("src/main.rs", "fn main() {}\n"),
            ("src/lib.rs", "pub fn root() {}\n"),
            ("src/deep/a.txt", "text below\n"),
            (".env", "KEY=value\n"),
            (".gitattributes", "*.txt diff=evil filter=evil merge=evil\n"),
            (".gitignore", "made\n"),
            (".claude/settings.json", "{}\n"),
            ("docs/readme.txt", "text\n"),
            ("docs/HEAD", "ref: refs/heads/main\n"),
        ] {
            self.write(&format!("project/{file}"), text);
        }
        self.write("project/pattern.sed", &format!("1w {}\n", project.join("made").display()));
        self.script("project/evil.sh", &format!("echo evil >> {}", self.mark_path().display()));
        let trap = self.base.join("trap");
        let bare = format!(
            "[core]\nrepositoryformatversion=0\nbare=false\nworktree=.\nfsmonitor={0}\npager={0}\n",
            trap.display()
        );
        self.write("project/docs/config", &bare);
        for (link, target) in [
            ("ln1", "../outside"),
            ("link.txt", "../outside/passwd"),
            ("up", ".."),
            ("x:y", "/"),
            ("self", "/proc/self"),
            ("src/escape", "../../outside"),
            ("src/inside.txt", "../a.txt"),
            ("-", "../outside"),
        ] {
            symlink(target, project.join(link)).unwrap();
        }
        self.commit(&project);
        // The bare repository has the same commits.
        let copied = Command::new("/bin/cp")
            .args(["-r", ".git/objects", ".git/refs", ".git/index", "docs"])
            .current_dir(&project)
            .status();
        assert!(copied.expect("cp").success(), "the buried repository could not be made");
        // One changed file, so that a diff is not empty.
        self.write("project/b.txt", "one\nfour\n");
    }

    /// Commits a repository. All files are older than the index, so that reading the status does not write it.
    fn commit(&self, directory: &Path) {
        if !directory.join(".git").exists() {
            self.git(directory, &["init", "-q", "-b", "main"]);
        }
        let long_ago = SystemTime::now() - Duration::from_secs(3_600);
        let is_tracked = |path: &PathBuf| !path.starts_with(directory.join(".git"));
        for path in walk(directory).into_iter().filter(is_tracked) {
            if fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.is_file()) {
                set_modified(&path, long_ago);
            }
        }
        self.git(directory, &["add", "-A"]);
        let sign = format!("gpg.program={}", self.base.join("sign").display());
        self.git(directory, &["-c", &sign, "commit", "-q", "-S", "-m", "first"]);
        set_modified(&directory.join(".git/index"), SystemTime::now() + Duration::from_secs(3_600));
    }

    /// Sets every key by which a repository runs a program.
    fn make_hostile(&self, git: &Path) {
        let trap = self.base.join("trap").display().to_string();
        let config = HOSTILE_CONFIG.replace("TRAP", &trap);
        let mut file = File::options().append(true).open(git.join("config")).unwrap();
        file.write_all(config.as_bytes()).unwrap();
        fs::create_dir_all(git.join("hooks")).unwrap();
        for hook in ["post-index-change", "post-checkout", "pre-commit", "reference-transaction", "fsmonitor-watchman"]
        {
            symlink(&trap, git.join("hooks").join(hook)).unwrap();
        }
    }

    fn git(&self, directory: &Path, arguments: &[&str]) {
        let mut git = Command::new("git");
        git.args(["-c", "core.hooksPath=/dev/null", "-c", "user.name=Me", "-c", "user.email=me@example.com"]);
        git.args(arguments).current_dir(directory).env_remove("GIT_DIR").env("HOME", self.base.join("empty"));
        git.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_TEMPLATE_DIR", "").stdin(Stdio::null());
        let answer = git.output().expect("git is needed for this test");
        assert!(answer.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&answer.stderr));
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.base.join(name), text).unwrap();
    }

    fn script(&self, name: &str, body: &str) {
        self.write(name, &format!("#!/bin/sh\n{body}\n"));
        fs::set_permissions(self.base.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Paths that must not be read: everything outside, and the files in `unread`.
    fn forbidden_paths(&self, unread: &[String]) -> Vec<PathBuf> {
        let mut paths = vec![self.base.clone()];
        for directory in ["outside", "home"] {
            paths.push(self.base.join(directory));
            paths.extend(walk(&self.base.join(directory)));
        }
        paths.extend(unread.iter().map(|name| self.project().join(name)));
        paths
    }

    /// Sets the access times to a date that they cannot have otherwise.
    fn reset_access_times(&self, unread: &[String]) {
        for path in self.forbidden_paths(unread) {
            let times = FileTimes::new().set_accessed(SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000));
            File::open(path).and_then(|file| file.set_times(times)).expect("the sandbox is ours");
        }
    }

    fn find_reads(&self, unread: &[String]) -> Vec<String> {
        let read = |path: &PathBuf| fs::metadata(path).is_ok_and(|metadata| metadata.atime() != 1_000_000);
        // All metadata is read first: listing a directory changes its access time.
        let mut found: Vec<PathBuf> = vec![self.base.clone(), self.base.join("outside"), self.base.join("home")];
        found.retain(read);
        found.extend(self.forbidden_paths(unread).iter().skip(1).filter(|path| path.is_file() && read(path)).cloned());
        found.iter().map(|path| format!("read {:?}", self.relative_path(path))).collect()
    }

    fn snapshot(&self) -> BTreeMap<PathBuf, FileFingerprint> {
        let mut seen = BTreeMap::new();
        for directory in ["project", "outside", "home"] {
            // Git rewrites the index when only timestamps changed.
            let is_index = |path: &PathBuf| path.ends_with(".git") || path.ends_with(".git/index");
            for path in walk(&self.base.join(directory)).into_iter().filter(|path| !is_index(path)) {
                let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
                let changed = match directory {
                    // Other files have their access times reset, which changes ctime.
                    "project" if !path.ends_with("secret.txt") => (metadata.ctime(), metadata.ctime_nsec()),
                    _ => (0, 0),
                };
                seen.insert(
                    path,
                    (metadata.mode(), metadata.len(), (metadata.mtime(), metadata.mtime_nsec()), changed),
                );
            }
        }
        seen
    }
}

fn set_modified(path: &Path, time: SystemTime) {
    File::open(path).and_then(|file| file.set_times(FileTimes::new().set_modified(time))).expect("the sandbox is ours");
}

/// All entries below a directory; links are not followed.
fn walk(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut waiting = vec![directory.to_owned()];
    while let Some(directory) = waiting.pop() {
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                waiting.push(entry.path());
            }
            found.push(entry.path());
        }
    }
    found
}
