//! Commands of Git that only read, with the options for which that is true.
//!
//! Left out: everything that writes (`--output`), runs programs (`--ext-diff`, `--textconv`, `--show-signature`, `%G` in a
//! format), or takes another repository or directory (`--git-dir`, `--work-tree`, `--no-index`, `--recurse-submodules`).

use std::path::PathBuf;

use super::arguments::{Arguments, Name, Unclear, arguments};
use crate::shell::Word;

/// What a command of Git shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shows {
    /// Names, hashes and messages, unless an option with a `*` says otherwise.
    Names,
    /// Contents of files.
    Contents,
}

use Shows::{Contents, Names};

const DIFF: &str = "-p* -u* -s -U:* -z -B= -M= -C= -D -R -a -b -w -W* -S:* -G:* -O@ -l: --patch* --no-patch --unified:* --raw --patch-with-stat* \
    --minimal --patience --histogram --diff-algorithm: --stat= --compact-summary --numstat --shortstat --dirstat= --summary \
    --name-only --name-status --color= --no-color --color-moved= --word-diff=* --color-words=* --no-renames --check* --full-index --binary* \
    --abbrev= --find-renames= --find-copies= --find-copies-harder --diff-filter: --pickaxe-all --pickaxe-regex --relative \
    --no-relative --text --ignore-cr-at-eol --ignore-space-at-eol --ignore-space-change --ignore-all-space \
    --ignore-blank-lines --function-context* --exit-code --quiet --inter-hunk-context:* --no-ext-diff --no-textconv \
    --src-prefix: --dst-prefix: --no-prefix --ignore-submodules=";

const LOG: &str = "-# -n: -i -E -F -P -g -c* -m* -t -L:* --cc* --max-count: --skip: --since: --after: --until: --before: --author: --committer: \
    --grep: --all-match --invert-grep --regexp-ignore-case --extended-regexp --fixed-strings --merges --no-merges \
    --first-parent --all --branches= --tags= --remotes= --glob: --exclude: --reflog --walk-reflogs --cherry-pick --cherry-mark \
    --left-right --left-only --right-only --cherry --boundary --simplify-by-decoration --full-history --ancestry-path \
    --date-order --author-date-order --topo-order --reverse --pretty= --format: --abbrev-commit --no-abbrev-commit \
    --oneline --relative-date --date: --parents --children --graph --decorate= --no-decorate --follow --no-notes \
    --source --use-mailmap --no-mailmap --log-size --count --show-pulls";

/// Commands, their options beyond those of `DIFF` and `LOG`, and which of the two they share.
const COMMANDS: [(&str, &str, &[&str], Shows); 17] = [
    (
        "status",
        "-s -b -v* -u= -z --short --branch --show-stash --porcelain= --long --verbose* --untracked-files= \
         --ignore-submodules= --ignored= --column= --no-column --ahead-behind --no-ahead-behind --renames --no-renames",
        &[],
        Names,
    ),
    ("diff", "--cached --staged --merge-base --base --ours --theirs -# -0", &[DIFF], Contents),
    ("log", "", &[DIFF, LOG], Names),
    ("show", "", &[DIFF, LOG], Contents),
    ("reflog", "", &[DIFF, LOG], Names),
    ("shortlog", "-n -s -e -w= --numbered --summary --email --group:", &[LOG], Names),
    ("rev-list", "--objects --disk-usage --quiet", &[LOG], Names),
    ("whatchanged", "", &[DIFF, LOG], Names),
    (
        "blame",
        "-b -l -t -L: -p -e -w -s -f -n -c -M= -C= --root --show-stats --porcelain --line-porcelain --incremental --date: \
         --show-name --show-number --show-email --abbrev= --ignore-rev: --color-lines --color-by-age --minimal",
        &[],
        Contents,
    ),
    (
        "ls-files",
        "-c -d -o -i -s -u -k -m -t -v -z -x: --cached --deleted --modified --others --ignored --stage --directory \
         --no-empty-directory --unmerged --killed --exclude: --exclude-standard --error-unmatch --full-name --abbrev= \
         --deduplicate --eol --format:",
        &[],
        Names,
    ),
    (
        "ls-tree",
        "-d -r -t -l -z --long --name-only --name-status --full-name --full-tree --abbrev= --object-only --format:",
        &[],
        Names,
    ),
    (
        "rev-parse",
        "-q --verify --quiet --short= --abbrev-ref= --symbolic --symbolic-full-name --all --branches= --tags= --remotes= \
         --show-toplevel --show-prefix --show-cdup --git-dir --absolute-git-dir --git-common-dir --is-inside-git-dir \
         --is-inside-work-tree --is-bare-repository --is-shallow-repository --show-object-format= --revs-only --no-revs --flags \
         --no-flags --default: --since: --until:",
        &[],
        Names,
    ),
    (
        "describe",
        "--all --tags --contains --abbrev= --candidates: --exact-match --long --match: --exclude: --always --first-parent",
        &[],
        Names,
    ),
    ("merge-base", "-a --all --octopus --is-ancestor --fork-point --independent", &[], Names),
    ("name-rev", "--tags --refs: --exclude: --all --name-only --no-undefined --always", &[], Names),
    ("cat-file", "-t -s -e -p --allow-unknown-type", &[], Contents),
    (
        "grep",
        "-a -i -I -w -v -h -H -E -G -P -F -n -l -L -z -o -c -p -W -e:! -q -A: -B: -C: -# --cached --untracked --text \
         --ignore-case --word-regexp --invert-match --full-name --extended-regexp --basic-regexp --perl-regexp \
         --fixed-strings --line-number --column --name-only --files-with-matches --files-without-match --null \
         --only-matching --count --color= --no-color --break --heading --show-function --context: --after-context: \
         --before-context: --function-context --max-count: --max-depth: --and --or --not --all-match --quiet",
        &[],
        Contents,
    ),
];

/// What a command of Git reads.
#[derive(Debug)]
pub(super) struct Git<'w> {
    /// Directories of `-C`, one after the other.
    pub directories: Vec<Name<'w>>,
    /// Paths on the command line; revisions count as such, too.
    pub names: Vec<Name<'w>>,
    /// The paths that the contents are limited to.
    pub only: Vec<Name<'w>>,
    /// `REVISION:path`, the path from the top of the repository, or from here if it begins with a dot.
    pub in_revisions: Vec<PathBuf>,
    /// Shows contents of files.
    pub contents: bool,
    /// The contents are limited neither by paths nor by revisions of paths.
    pub whole: bool,
    /// Reads files that the repository does not keep.
    pub untracked: bool,
    /// Needs no repository.
    pub version: bool,
}

/// Takes a command of Git apart.
pub(super) fn git(mut words: &[Word]) -> Result<Git<'_>, Unclear> {
    let mut directories = Vec::new();
    let command = loop {
        let (first, rest) = words.split_first().ok_or(Unclear::Option)?;
        match first.known().ok_or(Unclear::Word)? {
            "--no-pager" | "-P" | "--no-optional-locks" | "--literal-pathspecs" => words = rest,
            "-C" => {
                let (directory, rest) = rest.split_first().ok_or(Unclear::Option)?;
                let text = directory.known().ok_or(Unclear::Word)?;
                directories.push(Name { text, tilde: directory.tilde });
                words = rest;
            }
            "--version" | "version" if rest.is_empty() => {
                return Ok(Git {
                    directories,
                    names: Vec::new(),
                    only: Vec::new(),
                    in_revisions: Vec::new(),
                    contents: false,
                    whole: false,
                    untracked: false,
                    version: true,
                });
            }
            option if option.starts_with('-') => return Err(Unclear::Option),
            command => {
                words = rest;
                break command;
            }
        }
    };
    let (found, contents) = match command {
        "branch" | "tag" | "remote" | "stash" | "worktree" | "config" => (listing(command, words)?, false),
        _ => {
            let (_, options, shared, shows) =
                COMMANDS.iter().find(|(name, ..)| *name == command).ok_or(Unclear::Option)?;
            let table = shared.iter().fold((*options).to_owned(), |table, more| format!("{table} {more}"));
            let found = arguments(words, &table)?;
            let contents = *shows == Contents || found.below;
            (found, contents)
        }
    };
    if command == "reflog" && found.operands.first().is_some_and(|name| name.text != "show") {
        return Err(Unclear::Option);
    }
    if words.iter().any(|word| runs_gpg(&word.text)) {
        return Err(Unclear::Option);
    }
    let untracked = words.iter().any(|word| word.text == "--untracked");
    Ok(Git { untracked, ..parts(command, found, directories, contents) })
}

/// Placeholders of formats that check a signature.
fn runs_gpg(text: &str) -> bool {
    let checks = |rest: &str| rest.trim_start_matches(['+', '-', ' ']).starts_with('G');
    text.split('%').skip(1).any(checks) || text.contains("(signature") || text.contains("show-signature")
}

/// Commands that change something as soon as they have an operand.
fn listing<'w>(command: &str, words: &'w [Word]) -> Result<Arguments<'w>, Unclear> {
    let texts: Vec<&str> = words.iter().map(Word::known).collect::<Option<_>>().ok_or(Unclear::Word)?;
    let all = |allowed: &[&str]| texts.iter().all(|text| allowed.contains(text));
    let lists = match command {
        "branch" => all(&[
            "-a",
            "-r",
            "-v",
            "-vv",
            "-av",
            "-rv",
            "-avv",
            "--all",
            "--list",
            "--remotes",
            "--show-current",
            "--verbose",
        ]),
        "tag" => all(&["-l", "--list", "-n"]),
        "remote" => all(&["-v", "--verbose"]),
        "stash" => texts == ["list"],
        "worktree" => texts == ["list"] || texts == ["list", "--porcelain"],
        _ => false,
    };
    lists.then(Arguments::default).ok_or(Unclear::Option)
}

/// Are these names of branches and tags, and what is before them? An id may be one of a file, whatever paths stand beside it, or
/// of a directory, from which paths begin.
fn names_commits(revision: &str) -> bool {
    revision.split("..").all(|name| {
        let name = name.trim_start_matches(['^', '.']);
        let name = name.split(['~', '^']).next().unwrap_or_default();
        let is_hex = |text: &str| text.chars().all(|c| c.is_ascii_hexdigit());
        let describes = name.rsplit_once("-g").is_some_and(|(_, id)| is_hex(id));
        !revision.contains('{') && !describes && (name.is_empty() || !is_hex(name))
    })
}

fn parts<'w>(command: &str, found: Arguments<'w>, directories: Vec<Name<'w>>, contents: bool) -> Git<'w> {
    let mut operands = found.operands.as_slice();
    let mut before = found.before_dashes.unwrap_or(operands.len());
    if command == "grep" && !found.replaces_first && !operands.is_empty() {
        // The pattern.
        operands = operands.get(1..).unwrap_or_default();
        before = before.saturating_sub(1);
    }
    let (revisions, mut only) = operands.split_at_checked(before).unwrap_or((operands, &[]));
    if command == "blame" && only.is_empty() {
        only = revisions;
    }
    // Git expands patterns by itself.
    let is_pattern = |name: &Name<'_>| name.text.starts_with(':') || name.text.contains(['*', '?', '[', '\\']);
    let only = if only.iter().any(is_pattern) { Vec::new() } else { only.to_vec() };
    let mut in_revisions = Vec::new();
    let mut whole = only.is_empty() && revisions.is_empty();
    for name in revisions {
        // `:/text` and `^{/text}` find a commit by its message; `:1:path` is a path of the index.
        let searches = name.text.starts_with(":/") || name.text.contains("{/");
        match (name.text.split_once(':'), name.text.rsplit_once(':')) {
            (Some((revision, first)), Some((_, last))) if !searches => {
                in_revisions.extend([PathBuf::from(first), PathBuf::from(last)]);
                whole |= !names_commits(revision);
            }
            _ => whole |= only.is_empty() || !(name.text.starts_with(":/") || names_commits(name.text)),
        }
    }
    let names = operands.iter().chain(&found.paths).copied().collect();
    Git { directories, names, only, in_revisions, contents, whole, untracked: false, version: false }
}
