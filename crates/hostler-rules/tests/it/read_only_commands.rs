//! Lines that are allowed as read-only, and lines that only look read-only: on a real disk with a real repository.

use std::path::{Path, PathBuf};
use std::process::Command;

use hostler_rules::{
    DecisionOutcome, DiskResolver, Effect, PermissionMode, Rule, RuleScope, RuleSet, ToolUse, decide_or_ask,
};
use serde_json::json;

/// A home directory with secrets, a repository in it, and links that point outside of the repository.
struct Bed {
    directory: tempfile::TempDir,
}

impl Bed {
    fn new() -> Self {
        let bed = Self { directory: tempfile::tempdir().unwrap() };
        let work = bed.work();
        for directory in ["src", "sub/deep", "secret", ".claude/commands"] {
            std::fs::create_dir_all(work.join(directory)).unwrap();
        }
        for file in [
            "a.txt",
            "b.txt",
            "x",
            "src/a.rs",
            "secret/key",
            "sub/.env",
            "d.json",
            ".claude/settings.json",
            "README.md",
        ] {
            std::fs::write(work.join(file), "x\n").unwrap();
        }
        for directory in [".ssh", "state/hostler", "outside"] {
            std::fs::create_dir_all(bed.home().join(directory)).unwrap();
        }
        std::fs::write(bed.home().join("outside/passwd"), "x\n").unwrap();
        std::os::unix::fs::symlink("../outside", work.join("lnk")).unwrap();
        std::os::unix::fs::symlink("/", work.join("x:y")).unwrap();
        std::os::unix::fs::symlink("../outside", work.join("-")).unwrap();
        std::os::unix::fs::symlink("secret/key", work.join("alias")).unwrap();
        bed.git(&["init", "-q"]);
        bed.git(&["add", "src", "a.txt"]);
        bed.git(&["commit", "-qm", "x"]);
        bed
    }

    fn home(&self) -> PathBuf {
        self.directory.path().canonicalize().unwrap()
    }

    fn work(&self) -> PathBuf {
        self.home().join("work")
    }

    fn git(&self, arguments: &[&str]) {
        std::fs::create_dir_all(self.work()).unwrap();
        let mut git = Command::new("git");
        git.args(["-c", "user.name=a", "-c", "user.email=a@b"]).args(arguments).current_dir(self.work());
        let output = git.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1").output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
    }

    fn verdict_in(&self, rules: &RuleSet, mode: PermissionMode, call: ToolUse) -> DecisionOutcome {
        let call =
            call.with_workspace(self.work()).with_home(self.home()).with_host_directories([self.home().join("state")]);
        decide_or_ask(rules, mode, &call, None, &DiskResolver).outcome
    }

    fn line(&self, mode: PermissionMode, line: &str) -> DecisionOutcome {
        self.verdict_in(&RuleSet::default(), mode, ToolUse::shell(line, self.work()))
    }

    fn with(&self, effect: Effect, rule: &str, mode: PermissionMode, line: &str) -> DecisionOutcome {
        let mut rules = RuleSet::default();
        rules.add(Rule::parse(effect, RuleScope::Global, rule).unwrap()).unwrap();
        self.verdict_in(&rules, mode, ToolUse::shell(line, self.work()))
    }
}

const ORDINARY: &[&str] = &[
    "ls -1 src",
    "cat <<'EOF'\n$x\nEOF",
    "ls",
    "ls -la",
    "ls src sub",
    "ls -R .",
    "ls 2>/dev/null",
    "cat src/a.rs",
    "cat 'src/a.rs' \"a.txt\"",
    "cat -n a.txt | head -5",
    "git status",
    "git status --short",
    "git status && git diff",
    "git log --oneline -5",
    "git log -n 3 --stat",
    "git log --format='%h %s' -3",
    "git diff HEAD~1 -- src",
    "git diff --stat",
    "git show HEAD",
    "git show HEAD:src/a.rs",
    "git branch -a",
    "git branch --show-current",
    "git rev-parse HEAD",
    "git ls-files src",
    "git blame src/a.rs",
    "git grep -n foo",
    "git stash list",
    "git remote -v",
    "git -C sub status",
    "git --no-pager log -1",
    "git --version",
    "grep -rn foo src",
    "grep -rn 'foo bar' src",
    "rg -t rust foo",
    "rg foo -g '*.rs' -g '!target'",
    "grep -n foo a.txt b.txt",
    "grep -rn foo src --include '*.rs'",
    "grep -c x < a.txt",
    "find . -name '*.rs'",
    "find src -type f -maxdepth 2",
    "find . \\( -name a -o -name b \\) -print",
    "find . -name '*.rs' -not -path './target/*' | head -20",
    "rg foo",
    "rg -n foo src",
    "rg --files -g '*.rs'",
    "head -20 x | wc -l",
    "head -n 20 x",
    "tail -n +5 a.txt",
    "cd sub && ls",
    "cd sub && cat ../a.txt",
    "cd sub && git status",
    "wc -l a.txt b.txt",
    "sed -n 1,20p x",
    "sed -n '/foo/p' x",
    "sed 's/a/b/g' x",
    "jq . d.json",
    "jq -r '.a | keys[]' d.json",
    "sort a.txt | uniq -c | sort -rn",
    "cut -d: -f1 a.txt",
    "tr -d '\\n' < a.txt",
    "diff a.txt b.txt",
    "echo done",
    "ls missing; echo $?",
    "pwd && whoami && date",
    "[ -f a.txt ] && head a.txt",
    "test -d src && echo yes",
    "timeout 5 ls",
    "timeout 5 env LANG=C ls",
    "printf '%s: %d%%\\n' x 5",
    "printf 'a\\377\\000b'",
    "printf -- '%-5s\\n' a b",
    "[ 1 -eq 1 ] && ls",
    "find . -name '{}' 2>/dev/null",
    "NO_COLOR=1 rg foo",
    "which cargo",
    "tree -L 2 src",
    "tree -L2 -a -P '*.rs' src",
    "xxd -b -l 5 a.txt",
    "xxd -c8 a.txt",
    "git show HEAD~1 -- a.txt",
    "du -sh src",
    "ps aux | grep node",
];

#[test]
fn safe_reads_are_allowed_in_every_mode() {
    let bed = Bed::new();
    for line in ORDINARY {
        for mode in
            [PermissionMode::Default, PermissionMode::AcceptEdits, PermissionMode::Plan, PermissionMode::DontAsk]
        {
            assert_eq!(bed.line(mode, line), DecisionOutcome::Allow, "{line} in {mode:?}");
        }
    }
}

/// Lines that were once classified as read-only although they write, run or read elsewhere, and variants of them.
const NOT_ONLY_READING: &[&str] = &[
    "timeout 5 env PATH=sub ls",
    "command env PATH=sub ls",
    "nice env PATH=sub ls",
    "nice -n 5 env GIT_DIR=docs git status",
    "timeout 9 env GIT_EXTERNAL_DIFF=evil git diff",
    "time timeout 5 env env PATH=sub ls",
    "printf 'abc%n' PATH; ls",
    "printf -- 'abc%5n' PATH; ls",
    "command printf %n PATH",
    "printf %d 'a[$(touch x)]'",
    "printf '%s %*d' x 'a[$(touch x)]' 1",
    "printf $x PATH",
    "[ 'a[$(touch x)]' -eq 1 ]",
    "command test 1 -lt 'a[$(touch x)]'",
    "test -t 'a[$(touch x)]'",
    ": {PATH}<a.txt; ls",
    "echo {PATH}>/dev/null; ls",
    "ls {a[1]}<a.txt",
    "echo {\\\nPATH}</dev/null; ls",
    "{ ls; } {PATH}<a.txt",
    "exec {PATH}<a.txt; ls",
    "[[ -n x ]] {PATH}<a.txt; ls",
    "while false; do ls; done {PATH}<a.txt; ls",
    "f() { ls; } {PATH}<a.txt; f; ls",
    ">/dev/null {PATH}<a.txt true; ls",
    "if ls {PATH}<a.txt; then ls; fi",
    "ls {PATH}<<<x",
    "ls {PATH}>&1",
    "printf '%(%s)T' 'a[$(touch x)]'",
    "coproc PATH { cat; }; ls",
    "coproc cat",
    "file -p a.txt",
    "git log --format=%+GG",
    "env --chdir=docs ls",
    "env TZ=:/etc/passwd date",
    "echo '[core] fsmonitor = ./x' | uniq - .git/config",
    "uniq a.txt b.txt",
    "uniq *",
    "uniq a.txt -c",
    "git stash list --format=%gs --output=.git/config",
    "git log --output=out",
    "git diff --outpu=out",
    "env -C docs git status",
    "env -a ls rm -rf a.txt",
    "env -S 'ls x'",
    "env -i ls",
    "find docs/HEAD -execdir git diff ';'",
    "find a.txt -exec sort + -o out2 {} ';'",
    "find . -exec rg + -F --pre sh {} ';'",
    "find . -exec cat {} +",
    "find . -ok cat {} ';'",
    "find . -delete",
    "find . -fprint out",
    "find . -fls out",
    "find -L . -name x",
    "find . -follow",
    "parallel --joblog ls rm ::: a.txt",
    "parallel cat ::: a.txt",
    "watch ls",
    "echo cssap/cte/ | rev | xargs cat",
    "xargs cat < a.txt",
    "sort -o out a.txt",
    "sort --outp=out a.txt",
    "sort --compress-program=sh a.txt",
    "sort -T . a.txt",
    "tree -o out",
    "tree -l",
    "tree -R",
    "rg --pre sh x",
    "rg -z x",
    "rg -L x",
    "rg --follow x",
    "xxd a.txt out",
    "xxd -bl a.txt out",
    "xxd -bl /etc/passwd",
    "xxd -pc a.txt out",
    "xxd -cx a.txt",
    "tree -Po x out",
    "tree -Pl x .",
    "tree -aI x out",
    "tree -Lo 2 out",
    "tree -P1 x out",
    "file -C -m x",
    "sed -i s/a/b/ x",
    "sed 's/a/b/w out' x",
    "sed -n 'w out' x",
    "sed 's/a/b/e' x",
    "jq -n env",
    "jq -n '$ENV.HOME'",
    "jq -n 'include \"x\"; y'",
    "awk '{print}' a.txt",
    "date -s now",
    "date 010203",
    "git -c core.pager=x log",
    "git --git-dir=docs status",
    "git --work-tree=/ status",
    "git diff --ext-diff",
    "git diff --no-index a.txt b.txt",
    "git log --show-signature",
    "git log --format=%G?",
    "git grep -O x",
    "git branch new",
    "git stash",
    "git config --list",
    "GIT_DIR=docs git status",
    "LD_PRELOAD=./x ls",
    "./ls",
    "/tmp/ls",
    "sudo ls",
    "bash -c ls",
    "set",
    "export -p",
    "declare -x",
    "printenv",
    "env",
    "ls > out",
    "echo a >> a.txt",
    "cat a.txt | tee out",
    "ls $(touch out)",
];

#[test]
fn lines_not_known_to_be_read_only_are_asked_about_and_denied_in_plan_mode() {
    let bed = Bed::new();
    for line in NOT_ONLY_READING {
        assert_eq!(bed.line(PermissionMode::Default, line), DecisionOutcome::Ask, "{line}");
        assert_eq!(bed.line(PermissionMode::AcceptEdits, line), DecisionOutcome::Ask, "{line}");
        assert_eq!(bed.line(PermissionMode::DontAsk, line), DecisionOutcome::Deny, "{line}");
        assert_eq!(bed.line(PermissionMode::Plan, line), DecisionOutcome::Deny, "{line}");
    }
}

/// Read-only lines whose reads are uncertain, outside the project, or require approval.
const ASKED: &[&str] = &[
    "cd sub && until cat outside/passwd; do cd ..; done",
    "until cat outside/passwd; do cd ..; done",
    "cd +1 && ls",
    "grep -rn 'foo bar' .",
    "grep -r url .git",
    "rg --hidden foo",
    "rg -. foo",
    "rg -uu foo",
    "rg -g '*' foo",
    "rg -g .npmrc foo",
    "rg -t json foo",
    "rg foo .git",
    "ls -R -",
    "ls -I ../outside",
    "ls -w ../outside",
    "strings @a.txt",
    "cat < -",
    "cat <<EOF\n$API_TOKEN\nEOF",
    "cat <<< $API_TOKEN",
    "set -x; x=$API_TOKEN",
    "[[ $API_TOKEN ]] && ls",
    "TZ=$API_TOKEN date",
    "TZ=:/etc/passwd date",
    "command -v $API_TOKEN",
    "for f in *; do ls; done",
    "cat .''./outside/passwd",
    "cat ../outside/passwd",
    "cat ln?/passwd",
    "cat lnk/passwd",
    "cat x:y/etc/passwd",
    "cat lnk",
    "ls lnk/",
    "grep -R root .",
    "grep -r root lnk",
    "grep root *.txt",
    "grep -f../outside/passwd x",
    "grep --file=../outside/passwd x",
    "cat *.txt",
    "cat ./*.txt",
    "cat {a,b}.txt",
    "cat $HOME/x",
    "cat ~/outside/passwd",
    "cat '~/../a' ~",
    "cat < ../outside/passwd",
    "cat <(ls)",
    "echo $ANTHROPIC_API_KEY",
    "ls -L",
    "ls --col",
    "du -L .",
    "wc --files0-from=a.txt",
    "sha256sum -c a.txt",
    "cat /etc/passwd",
    "cat /proc/self/environ",
    "cat /proc/1/environ",
    "ps e",
    "ps auxe",
    "ps -auxe",
    "cd .. && ls",
    "cd && ls",
    "cd - && ls",
    "cd ~ && ls",
    "cd lnk && cat passwd",
    "cd sub; cat ../../outside/passwd",
    "for i in 1 2 3; do cd ..; cat x; done",
    "diff src sub",
    "cat .git/config",
    "cat .git/hooks/post-index-change",
    "cat .claude/settings.json",
    "ls ~/.ssh",
    "cat ~/state/hostler/token",
    "git diff ../outside/passwd a.txt",
    "pushd sub && ls",
    "tail -f a.txt",
    "cd sub && cat ../../outside/passwd",
    "cat a.txt ../outside/passwd",
];

#[test]
fn reads_of_uncertain_or_outside_paths_are_asked_about() {
    let bed = Bed::new();
    for line in ASKED {
        for mode in [PermissionMode::Default, PermissionMode::AcceptEdits] {
            assert_eq!(bed.line(mode, line), DecisionOutcome::Ask, "{line} in {mode:?}");
        }
        assert_ne!(bed.line(PermissionMode::Plan, line), DecisionOutcome::Allow, "{line}");
        assert_eq!(bed.line(PermissionMode::DontAsk, line), DecisionOutcome::Deny, "{line}");
    }
}

#[test]
fn current_directory_of_the_shell_decides() {
    let bed = Bed::new();
    let line = |cwd: &Path, line: &str| {
        bed.verdict_in(&RuleSet::default(), PermissionMode::Default, ToolUse::shell(line, cwd))
    };
    assert_eq!(line(&bed.work().join("sub"), "cat ../a.txt"), DecisionOutcome::Allow);
    assert_eq!(line(&bed.work(), "cat ../a.txt"), DecisionOutcome::Ask);
    assert_eq!(line(&bed.home().join("outside"), "cat passwd"), DecisionOutcome::Ask);
    assert_eq!(line(&bed.home().join("outside"), "ls"), DecisionOutcome::Ask);
    assert_eq!(line(&bed.home(), "cat work/a.txt"), DecisionOutcome::Allow);
    assert_eq!(line(Path::new("relative"), "cat a.txt"), DecisionOutcome::Ask);
}

#[test]
fn git_is_asked_about_if_its_configuration_can_run_programs() {
    let bed = Bed::new();
    // A nested bare repository, as a clone can contain it.
    bed.git(&["init", "-q", "--bare", "docs"]);
    let buried = || {
        for line in ["cd docs && git status", "git -C docs status", "git -C docs log -1"] {
            assert_eq!(bed.line(PermissionMode::Default, line), DecisionOutcome::Ask, "{line}");
            assert_eq!(bed.line(PermissionMode::Plan, line), DecisionOutcome::Deny, "{line}");
        }
    };
    buried();
    // Git ignores a directory that is not a repository.
    std::fs::create_dir(bed.work().join("docs/.git")).unwrap();
    buried();
    std::fs::write(bed.work().join("docs/.git/HEAD"), "").unwrap();
    buried();
    assert_eq!(bed.line(PermissionMode::Default, "git status"), DecisionOutcome::Allow);
    bed.git(&["config", "core.fsmonitor", "./x"]);
    for line in ["git status", "cd sub && git status", "ls && git diff", "git log -1"] {
        assert_eq!(bed.line(PermissionMode::Default, line), DecisionOutcome::Ask, "{line}");
        assert_eq!(bed.line(PermissionMode::Plan, line), DecisionOutcome::Deny, "{line}");
    }
}

#[test]
fn git_is_asked_about_if_links_point_outside_the_repository() {
    let bed = Bed::new();
    assert_eq!(bed.line(PermissionMode::Default, "git grep x"), DecisionOutcome::Allow);
    std::fs::rename(bed.work().join("src"), bed.home().join("src")).unwrap();
    std::os::unix::fs::symlink("../src", bed.work().join("src")).unwrap();
    assert_eq!(bed.line(PermissionMode::Default, "git grep x"), DecisionOutcome::Ask);
    let bed = Bed::new();
    std::fs::rename(bed.work().join(".git/refs/heads"), bed.home().join("heads")).unwrap();
    std::os::unix::fs::symlink("../../../heads", bed.work().join(".git/refs/heads")).unwrap();
    assert_eq!(bed.line(PermissionMode::Default, "git log -1"), DecisionOutcome::Ask);
}

#[test]
fn search_that_reaches_a_protected_file_is_asked_about() {
    let bed = Bed::new();
    let grep = |path: &str| {
        let call = ToolUse::new("Grep", json!({ "pattern": "tok", "path": path }), bed.work());
        bed.verdict_in(&RuleSet::default(), PermissionMode::Default, call)
    };
    let line = |line: &str| bed.line(PermissionMode::Default, line);
    // The agent's settings exist; only a search through `.git` reaches a protected file.
    assert_eq!(
        (grep("."), grep("src"), grep(".git")),
        (DecisionOutcome::Allow, DecisionOutcome::Allow, DecisionOutcome::Ask)
    );
    assert_eq!((line("grep -r tok .claude"), line("grep -r tok .")), (DecisionOutcome::Allow, DecisionOutcome::Ask));
    assert_eq!((line("git grep --untracked tok"), line("rg tok")), (DecisionOutcome::Allow, DecisionOutcome::Allow));
    // A pattern can include the repository again.
    for (glob, verdict) in [
        ("*.rs", DecisionOutcome::Allow),
        ("src/**/*.{ts,tsx}", DecisionOutcome::Allow),
        ("Cargo.toml", DecisionOutcome::Allow),
        ("*", DecisionOutcome::Ask),
        ("*.rs **/*", DecisionOutcome::Ask),
        (".git", DecisionOutcome::Ask),
        ("*.{git,rs}", DecisionOutcome::Ask),
        ("{.g,x}it", DecisionOutcome::Ask),
        (".git/**", DecisionOutcome::Ask),
    ] {
        let call = ToolUse::new("Grep", json!({ "pattern": "tok", "glob": glob }), bed.work());
        assert_eq!(bed.verdict_in(&RuleSet::default(), PermissionMode::Default, call), verdict, "{glob}");
    }
    // An agent's configuration in the project contains no secret.
    std::fs::write(bed.work().join("sub/.mcp.json"), "tok").unwrap();
    assert_eq!((grep("."), line("rg --hidden tok sub")), (DecisionOutcome::Allow, DecisionOutcome::Allow));
    for place in ["sub/deep/.npmrc", ".ssh/x"] {
        let place = bed.work().join(place);
        std::fs::create_dir_all(place.parent().unwrap()).unwrap();
        std::fs::write(&place, "tok").unwrap();
        assert_eq!(
            (grep("."), line("git grep --untracked tok")),
            (DecisionOutcome::Ask, DecisionOutcome::Ask),
            "{}",
            place.display()
        );
        assert_eq!(
            (line("rg --hidden tok"), line("rg tok")),
            (DecisionOutcome::Ask, DecisionOutcome::Allow),
            "{}",
            place.display()
        );
        assert_eq!((grep("src"), line("grep -r tok src")), (DecisionOutcome::Allow, DecisionOutcome::Allow));
        std::fs::remove_file(&place).unwrap();
    }
    std::fs::remove_dir(bed.work().join(".ssh")).unwrap();
    // Ignore files can include hidden files again.
    std::fs::write(bed.work().join("sub/.npmrc"), "tok").unwrap();
    for (ignore, text, verdict) in [
        (".gitignore", "target\n!.gitkeep\n!*.rs\n", DecisionOutcome::Allow),
        (".ignore", "!.npmrc\n", DecisionOutcome::Ask),
        ("sub/.rgignore", "!.*\n", DecisionOutcome::Ask),
        (".gitignore", "!**/.npmrc\n", DecisionOutcome::Ask),
    ] {
        std::fs::write(bed.work().join(ignore), text).unwrap();
        assert_eq!((line("rg tok"), line("rg tok sub")), (verdict, verdict), "{ignore}: {text}");
        std::fs::remove_file(bed.work().join(ignore)).unwrap();
    }
    std::fs::write(bed.work().join("src/id_rsa"), "tok").unwrap();
    assert_eq!(
        (line("rg tok"), line("grep -r tok src"), grep("src")),
        (DecisionOutcome::Ask, DecisionOutcome::Ask, DecisionOutcome::Ask)
    );
}

#[test]
fn no_mode_allows_access_to_secrets_or_host_directories() {
    let bed = Bed::new();
    // Also when the session works in the home directory.
    let call = |mode: PermissionMode, call: ToolUse| {
        let call = call.with_home(bed.home()).with_host_directories([bed.home().join("state")]);
        decide_or_ask(&RuleSet::default(), mode, &call, None, &DiskResolver).outcome
    };
    let shell = |mode, line: &str| call(mode, ToolUse::shell(line, bed.home()));
    let tool = |mode, tool: &str, path: &str| call(mode, ToolUse::new(tool, json!({ "file_path": path }), bed.home()));
    let places = [
        "state/hostler/rules.toml",
        ".ssh/id_rsa",
        ".SSH/config",
        ".gnupg/x",
        ".bashrc",
        ".zshenv",
        ".profile",
        ".config/autostart/x.desktop",
        ".config/systemd/user/x.service",
        "Library/LaunchAgents/x.plist",
        "work/.git/config",
        "work/.git/hooks/pre-commit",
        "work/.git/modules/x/config",
        "work/.claude/settings.json",
        "work/.mcp.json",
        ".local/share/keyrings/login.keyring",
        ".netrc",
        ".aws/credentials",
        ".git-credentials",
        ".config/gcloud/x",
    ];
    for place in places {
        for mode in [PermissionMode::Default, PermissionMode::AcceptEdits] {
            assert_eq!(tool(mode, "Read", place), DecisionOutcome::Ask, "{place}");
            assert_eq!(tool(mode, "Edit", place), DecisionOutcome::Ask, "{place}");
            assert_eq!(shell(mode, &format!("cat {place}")), DecisionOutcome::Ask, "{place}");
        }
        assert_eq!(tool(PermissionMode::Plan, "Read", place), DecisionOutcome::Ask, "{place}");
        assert_eq!(tool(PermissionMode::Bypass, "Edit", place), DecisionOutcome::Allow, "{place}");
    }
    assert_eq!(shell(PermissionMode::Default, "cat work/a.txt"), DecisionOutcome::Allow);
    assert_eq!(tool(PermissionMode::AcceptEdits, "Edit", "work/a.txt"), DecisionOutcome::Allow);
    for line in ["grep -r key .", "rg key", "rg key work state"] {
        assert_eq!(shell(PermissionMode::Default, line), DecisionOutcome::Ask, "{line}");
    }
    assert_eq!(shell(PermissionMode::Default, "grep -r key work/src"), DecisionOutcome::Allow);
    assert_eq!(
        call(PermissionMode::Default, ToolUse::new("Grep", json!({ "pattern": "key" }), bed.home())),
        DecisionOutcome::Ask
    );
    let root = ToolUse::shell("cat proc/self/environ", "/");
    assert_eq!(call(PermissionMode::Default, root), DecisionOutcome::Ask);
}

#[test]
fn read_denial_applies_to_every_shell_read() {
    let bed = Bed::new();
    let denied = [
        "cat secret/key",
        "cat ./secret/key",
        "cat alias",
        "cat < secret/key",
        "head -c 5 secret/../secret/key",
        "cd secret && cat key",
        "ls secret",
        "git show HEAD:secret/key",
        "git blame secret/key",
        "git diff -- secret",
        "python3 x.py ./secret/key",
    ];
    let possible = [
        "cat secret/*",
        "cat s*/key",
        "cat */key",
        "cat $x",
        "grep -r x .",
        "rg x",
        "git log -p",
        "git diff",
        "git show HEAD",
        "git show 587be6b4c3f93f93c489c0111bba5596147a26cb -- a.txt",
        "git show 587be6b -- a.txt",
        "git show v1-1-g587be6b -- a.txt",
        "git show 'HEAD^{tree}' -- a.txt",
        "git show 587be6b:key",
        "git grep -n '' 587be6b -- a.txt",
        "git diff HEAD..587be6b -- a.txt",
        "git show :/x",
        "git log -U5",
        "git diff -- 'sec\\ret'",
        "cp -r . /tmp/there",
        "tar cf - .",
        "cd sub; cat ../secret/key",
    ];
    let free = [
        "cat a.txt",
        "grep -r x src",
        "git diff -- src",
        "git diff HEAD~1 -- src",
        "git diff main..topic -- src",
        "git log --oneline",
        "echo secret",
        "ls",
        "cat src/*.rs",
        "make",
    ];
    let rule = "Read(./secret/**)";
    for line in denied {
        for mode in [
            PermissionMode::Default,
            PermissionMode::AcceptEdits,
            PermissionMode::Plan,
            PermissionMode::Bypass,
            PermissionMode::DontAsk,
        ] {
            assert_eq!(bed.with(Effect::Deny, rule, mode, line), DecisionOutcome::Deny, "{line} in {mode:?}");
        }
    }
    for line in possible {
        let mut rules = RuleSet::default();
        rules.add(Rule::parse(Effect::Deny, RuleScope::Global, rule).unwrap()).unwrap();
        rules.add(Rule::parse(Effect::Allow, RuleScope::Global, "Bash").unwrap()).unwrap();
        let verdict = |mode| bed.verdict_in(&rules, mode, ToolUse::shell(line, bed.work()));
        assert_ne!(verdict(PermissionMode::Default), DecisionOutcome::Allow, "{line}");
        assert_ne!(verdict(PermissionMode::Bypass), DecisionOutcome::Allow, "{line}");
        assert_eq!(verdict(PermissionMode::Plan), DecisionOutcome::Deny, "{line}");
    }
    for line in free {
        assert_eq!(bed.with(Effect::Deny, rule, PermissionMode::Bypass, line), DecisionOutcome::Allow, "{line}");
    }
    // A name at any depth: the files on disk decide.
    for (line, verdict) in [
        ("cat sub/.env", DecisionOutcome::Deny),
        ("cd sub && cat .env", DecisionOutcome::Deny),
        ("grep -r x sub", DecisionOutcome::Ask),
        ("grep -r x .", DecisionOutcome::Ask),
        ("grep -r x src", DecisionOutcome::Allow),
        ("rg x src", DecisionOutcome::Allow),
        ("cat src/*.rs", DecisionOutcome::Allow),
        ("cat sub/.e*", DecisionOutcome::Ask),
        ("git show HEAD", DecisionOutcome::Ask),
    ] {
        assert_eq!(bed.with(Effect::Deny, "Read(.env)", PermissionMode::Bypass, line), verdict, "{line}");
    }
}

#[test]
fn commands_without_files_pass_beside_allowed_ones() {
    let bed = Bed::new();
    let line = |line: &str| bed.with(Effect::Allow, "Bash(make:*)", PermissionMode::Default, line);
    for allowed in [
        "make all | tail -5",
        "make && echo done",
        "cd sub && make",
        "cat a.txt && make",
        "ls; git status; make",
        "make 2>&1 | grep -i error | head -20",
    ] {
        assert_eq!(line(allowed), DecisionOutcome::Allow, "{allowed}");
    }
    // `make` could have replaced the file by a link.
    for asked in ["make && cat a.txt", "make | tee out", "make | uniq - out", "make && cd .. && make", "make > out"] {
        assert_eq!(line(asked), DecisionOutcome::Ask, "{asked}");
    }
}
