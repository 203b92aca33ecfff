//! Harmless and harmful Git configurations and repositories.

use std::process::Command;

use super::*;
use crate::path::DiskResolver;

#[test]
fn git_config_is_harmless_only_if_every_key_is() {
    let fresh = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\tlogallrefupdates = true\n";
    let cloned = "[remote \"origin\"]\n\turl = https://x/y\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n[branch \"main\"]\n\
                  \tremote = origin\n\tmerge = refs/heads/main\n[user] name = me\n; a comment\n# another\n";
    assert!(is_harmless_config("") && is_harmless_config(fresh) && is_harmless_config(&format!("{fresh}{cloned}")));
    assert!(is_harmless_config("[core]\nfsmonitor = false"));
    for config in [
        "[core]\nfsmonitor = ./x",
        "[core] fsmonitor = ./x",
        "[core]\nfsmonitor",
        "[CORE]\nFSMonitor = true",
        "[core]\nbare = true",
        "[core]\nworktree = /",
        "[core]\npager = ./x",
        "[core]\nhooksPath = x",
        "[core]\nsshCommand = x",
        "[core]\nattributesFile = x",
        "[include]\npath = x",
        "[includeIf \"gitdir:/\"]\npath = x",
        "[alias]\nstatus = !x",
        "[diff]\nexternal = x",
        "[diff \"x\"]\ntextconv = x",
        "[diff \"x\"]\ncommand = x",
        "[filter \"x\"]\nclean = x",
        "[filter \"x\"]\nprocess = x",
        "[pager]\nstatus = x",
        "[gpg]\nprogram = x",
        "[log]\nshowSignature = true",
        "[remote \"origin\"]\npromisor = true",
        "[remote \"origin\"]\nuploadpack = x",
        "[extensions]\nworktreeConfig = true",
        "[user]\nname = a\\\n[core]\nfsmonitor = x",
        "[branch \"]\"]\n[core]\nfsmonitor = x",
        "[branch \"x\"",
        "fsmonitor = x",
        "[core]\nfilemode = true\n \u{b}fsmonitor = x",
    ] {
        assert!(!is_harmless_config(config), "{config}");
    }
}

fn git(directory: &Path, arguments: &[&str]) {
    let identity = [
        "-c",
        "user.name=a",
        "-c",
        "user.email=a@b",
        "-c",
        "protocol.file.allow=always",
        "-c",
        "init.defaultBranch=main",
    ];
    let mut git = Command::new("git");
    git.args(identity).args(arguments).current_dir(directory).env("GIT_CONFIG_GLOBAL", "/dev/null");
    let output = git.env("GIT_CONFIG_NOSYSTEM", "1").output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
}

/// Replaces a part of the repository by a link.
fn link(top: &Path, part: &str, to: &str) {
    std::fs::rename(top.join(".git").join(part), top.join(to)).unwrap();
    std::os::unix::fs::symlink(top.join(to), top.join(".git").join(part)).unwrap();
}

fn repository() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    git(dir.path(), &["init", "-q"]);
    std::fs::create_dir_all(dir.path().join("sub/deep")).unwrap();
    std::fs::write(dir.path().join("sub/deep/a file"), "x").unwrap();
    std::fs::write(dir.path().join("b"), "x").unwrap();
    git(dir.path(), &["add", "."]);
    git(dir.path(), &["commit", "-qm", "x"]);
    dir
}

#[test]
fn ordinary_repository_is_harmless_and_found_from_subdirectories() {
    let dir = repository();
    let top = dir.path().canonicalize().unwrap();
    for directory in [top.clone(), top.join("sub/deep")] {
        assert_eq!(find_harmless_repository(&directory, &DiskResolver), Ok(top.clone()));
    }
    for version in ["2", "3", "4"] {
        git(&top, &["update-index", "--index-version", version]);
        assert_eq!(find_harmless_repository(&top, &DiskResolver), Ok(top.clone()), "index of version {version}");
    }
}

#[test]
fn repositories_that_run_programs_or_share_parts_are_detected() {
    type Change = fn(&Path);
    let changes: &[(&str, Change)] = &[
        ("configuration", |top| git(top, &["config", "core.fsmonitor", "./x"])),
        ("worktree-specific", |top| std::fs::write(top.join(".git/config.worktree"), "").unwrap()),
        ("read-only commands can run", |top| std::fs::write(top.join(".git/hooks/post-index-change"), "").unwrap()),
        ("shares", |top| std::fs::write(top.join(".git/commondir"), "/x").unwrap()),
        ("shares", |top| std::fs::write(top.join(".git/objects/info/alternates"), "/x").unwrap()),
        ("another directory", |top| {
            std::fs::rename(top.join(".git"), top.join("moved")).unwrap();
            std::fs::write(top.join(".git"), "gitdir: moved").unwrap();
        }),
        ("another directory", |top| {
            std::fs::rename(top.join(".git"), top.join("moved")).unwrap();
            std::os::unix::fs::symlink("moved", top.join(".git")).unwrap();
        }),
        ("bare", |top| {
            std::fs::rename(top.join(".git"), top.join("moved")).unwrap();
            for name in ["HEAD", "objects", "refs", "config"] {
                std::fs::rename(top.join("moved").join(name), top.join(name)).unwrap();
            }
        }),
        ("bare", |top| {
            std::fs::rename(top.join(".git"), top.join("moved")).unwrap();
            for name in ["HEAD", "objects", "refs", "config"] {
                std::fs::rename(top.join("moved").join(name), top.join(name)).unwrap();
            }
            std::fs::create_dir(top.join(".git")).unwrap();
        }),
        ("incomplete", |top| std::fs::write(top.join(".git/HEAD"), "").unwrap()),
        ("incomplete", |top| std::fs::rename(top.join(".git/refs"), top.join("refs")).unwrap()),
        ("incomplete", |top| {
            std::fs::rename(top.join(".git/objects"), top.join("objects")).unwrap();
        }),
        ("incomplete", |top| link(top, "HEAD", "moved")),
        ("shares", |top| link(top, "logs", "moved")),
        ("shares", |top| link(top, "logs/HEAD", "moved")),
        ("shares", |top| link(top, "refs/heads", "moved")),
        ("shares", |top| link(top, "refs/heads/main", "moved")),
        ("shares", |top| link(top, "objects/pack", "moved")),
        ("shares", |top| {
            git(top, &["pack-refs", "--all"]);
            link(top, "packed-refs", "moved");
        }),
        ("shares", |top| std::os::unix::fs::symlink("/x", top.join(".git/objects/pack/a.pack")).unwrap()),
        ("is a symbolic link", |top| {
            std::fs::rename(top.join("sub/deep"), top.join("moved")).unwrap();
            std::os::unix::fs::symlink("../moved", top.join("sub/deep")).unwrap();
        }),
        ("outside the repository", |top| {
            let index = std::fs::read(top.join(".git/index")).unwrap();
            let at = index.windows(10).position(|bytes| bytes == b"sub/deep/a").unwrap();
            let changed = [index.get(..at).unwrap(), b"../", index.get(at + 3..).unwrap()].concat();
            std::fs::write(top.join(".git/index"), changed).unwrap();
        }),
        ("submodules", |top| {
            git(top, &["init", "-q", "sub/own"]);
            git(&top.join("sub/own"), &["commit", "-q", "--allow-empty", "-m", "x"]);
            git(top, &["add", "sub/own"]);
        }),
    ];
    for (why, change) in changes {
        let dir = repository();
        let top = dir.path().canonicalize().unwrap();
        change(&top);
        let found = find_harmless_repository(&top, &DiskResolver);
        assert!(found.as_ref().is_err_and(|error| error.contains(why)), "{why}: {found:?}");
    }
    let empty = tempfile::tempdir().unwrap();
    assert!(find_harmless_repository(empty.path(), &DiskResolver).is_err());
}
