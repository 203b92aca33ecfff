//! Git commands that only read, with the options for which that is true.
//!
//! Excluded: everything that writes (`--output`), runs programs (`--ext-diff`, `--textconv`, `--show-signature`, `%G`
//! in a format), or selects another repository or directory (`--git-dir`, `--work-tree`, `--no-index`,
//! `--recurse-submodules`).

use std::path::PathBuf;

use super::arguments::{ParsedArguments, PathWord, UnclearArgument, parse_arguments};
use crate::shell::ShellWord;

/// What a Git command shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GitOutput {
    /// Names, hashes and messages, unless an option with a `*` is present.
    Names,
    /// Contents of files.
    Contents,
}

use GitOutput::{Contents, Names};

const DIFF_OPTIONS: &str = "-p* -u* -s -U:* -z -B= -M= -C= -D -R -a -b -w -W* -S:* -G:* -O@ -l: --patch* --no-patch --unified:* --raw --patch-with-stat* \
    --minimal --patience --histogram --diff-algorithm: --stat= --compact-summary --numstat --shortstat --dirstat= --summary \
    --name-only --name-status --color= --no-color --color-moved= --word-diff=* --color-words=* --no-renames --check* --full-index --binary* \
    --abbrev= --find-renames= --find-copies= --find-copies-harder --diff-filter: --pickaxe-all --pickaxe-regex --relative \
    --no-relative --text --ignore-cr-at-eol --ignore-space-at-eol --ignore-space-change --ignore-all-space \
    --ignore-blank-lines --function-context* --exit-code --quiet --inter-hunk-context:* --no-ext-diff --no-textconv \
    --src-prefix: --dst-prefix: --no-prefix --ignore-submodules=";

const LOG_OPTIONS: &str = "-# -n: -i -E -F -P -g -c* -m* -t -L:* --cc* --max-count: --skip: --since: --after: --until: --before: --author: --committer: \
    --grep: --all-match --invert-grep --regexp-ignore-case --extended-regexp --fixed-strings --merges --no-merges \
    --first-parent --all --branches= --tags= --remotes= --glob: --exclude: --reflog --walk-reflogs --cherry-pick --cherry-mark \
    --left-right --left-only --right-only --cherry --boundary --simplify-by-decoration --full-history --ancestry-path \
    --date-order --author-date-order --topo-order --reverse --pretty= --format: --abbrev-commit --no-abbrev-commit \
    --oneline --relative-date --date: --parents --children --graph --decorate= --no-decorate --follow --no-notes \
    --source --use-mailmap --no-mailmap --log-size --count --show-pulls";

/// Commands, their options in addition to the shared lists, the shared lists that apply, and what the command shows.
const READ_ONLY_COMMANDS: [(&str, &str, &[&str], GitOutput); 17] = [
    (
        "status",
        "-s -b -v* -u= -z --short --branch --show-stash --porcelain= --long --verbose* --untracked-files= \
         --ignore-submodules= --ignored= --column= --no-column --ahead-behind --no-ahead-behind --renames --no-renames",
        &[],
        Names,
    ),
    ("diff", "--cached --staged --merge-base --base --ours --theirs -# -0", &[DIFF_OPTIONS], Contents),
    ("log", "", &[DIFF_OPTIONS, LOG_OPTIONS], Names),
    ("show", "", &[DIFF_OPTIONS, LOG_OPTIONS], Contents),
    ("reflog", "", &[DIFF_OPTIONS, LOG_OPTIONS], Names),
    ("shortlog", "-n -s -e -w= --numbered --summary --email --group:", &[LOG_OPTIONS], Names),
    ("rev-list", "--objects --disk-usage --quiet", &[LOG_OPTIONS], Names),
    ("whatchanged", "", &[DIFF_OPTIONS, LOG_OPTIONS], Names),
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

/// What a Git command reads.
#[derive(Debug)]
pub(super) struct GitCommand<'w> {
    /// Directories of `-C`, in order.
    pub directories: Vec<PathWord<'w>>,
    /// Paths on the command line, including revisions.
    pub paths: Vec<PathWord<'w>>,
    /// The paths that the contents are limited to.
    pub path_limits: Vec<PathWord<'w>>,
    /// Paths in `REVISION:path`, relative to the top of the repository, or to the current directory if they begin with
    /// a dot.
    pub revision_paths: Vec<PathBuf>,
    /// Whether it shows contents of files.
    pub shows_contents: bool,
    /// Whether the contents are limited neither by paths nor by revision paths.
    pub is_unlimited: bool,
    /// Whether it reads untracked files.
    pub includes_untracked: bool,
    /// Whether it needs no repository.
    pub is_version_query: bool,
}

/// Parses a Git command.
pub(super) fn parse_git_command(mut words: &[ShellWord]) -> Result<GitCommand<'_>, UnclearArgument> {
    let mut directories = Vec::new();
    let command = loop {
        let (first, rest) = words.split_first().ok_or(UnclearArgument::UnknownOption)?;
        match first.as_literal().ok_or(UnclearArgument::NonLiteralWord)? {
            "--no-pager" | "-P" | "--no-optional-locks" | "--literal-pathspecs" => words = rest,
            "-C" => {
                let (directory, rest) = rest.split_first().ok_or(UnclearArgument::UnknownOption)?;
                let text = directory.as_literal().ok_or(UnclearArgument::NonLiteralWord)?;
                directories.push(PathWord { text, has_tilde: directory.has_tilde });
                words = rest;
            }
            "--version" | "version" if rest.is_empty() => {
                return Ok(GitCommand {
                    directories,
                    paths: Vec::new(),
                    path_limits: Vec::new(),
                    revision_paths: Vec::new(),
                    shows_contents: false,
                    is_unlimited: false,
                    includes_untracked: false,
                    is_version_query: true,
                });
            }
            option if option.starts_with('-') => return Err(UnclearArgument::UnknownOption),
            command => {
                words = rest;
                break command;
            }
        }
    };
    let (found, contents) = match command {
        "branch" | "tag" | "remote" | "stash" | "worktree" | "config" => (parse_listing(command, words)?, false),
        _ => {
            let (_, options, shared, shows) =
                READ_ONLY_COMMANDS.iter().find(|(name, ..)| *name == command).ok_or(UnclearArgument::UnknownOption)?;
            let table = shared.iter().fold((*options).to_owned(), |table, more| format!("{table} {more}"));
            let found = parse_arguments(words, &table)?;
            let contents = *shows == Contents || found.recursive;
            (found, contents)
        }
    };
    if command == "reflog" && found.operands.first().is_some_and(|name| name.text != "show") {
        return Err(UnclearArgument::UnknownOption);
    }
    if words.iter().any(|word| runs_gpg(&word.text)) {
        return Err(UnclearArgument::UnknownOption);
    }
    let untracked = words.iter().any(|word| word.text == "--untracked");
    Ok(GitCommand { includes_untracked: untracked, ..collect_paths(command, found, directories, contents) })
}

/// Does a format contain a placeholder that checks a signature?
fn runs_gpg(text: &str) -> bool {
    let checks = |rest: &str| rest.trim_start_matches(['+', '-', ' ']).starts_with('G');
    text.split('%').skip(1).any(checks) || text.contains("(signature") || text.contains("show-signature")
}

/// Parses commands that only list without operands; with an operand they may change something.
fn parse_listing<'w>(command: &str, words: &'w [ShellWord]) -> Result<ParsedArguments<'w>, UnclearArgument> {
    let texts: Vec<&str> =
        words.iter().map(ShellWord::as_literal).collect::<Option<_>>().ok_or(UnclearArgument::NonLiteralWord)?;
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
    lists.then(ParsedArguments::default).ok_or(UnclearArgument::UnknownOption)
}

/// Are these names of branches and tags, or their ancestors? An object id may be that of a file, independent of the
/// paths beside it, or of a directory, to which paths are relative.
fn is_commit_name(revision: &str) -> bool {
    revision.split("..").all(|name| {
        let name = name.trim_start_matches(['^', '.']);
        let name = name.split(['~', '^']).next().unwrap_or_default();
        let is_hex = |text: &str| text.chars().all(|c| c.is_ascii_hexdigit());
        let describes = name.rsplit_once("-g").is_some_and(|(_, id)| is_hex(id));
        !revision.contains('{') && !describes && (name.is_empty() || !is_hex(name))
    })
}

fn collect_paths<'w>(
    command: &str,
    found: ParsedArguments<'w>,
    directories: Vec<PathWord<'w>>,
    contents: bool,
) -> GitCommand<'w> {
    let mut operands = found.operands.as_slice();
    let mut before = found.operands_before_dashes.unwrap_or(operands.len());
    if command == "grep" && !found.replaces_first && !operands.is_empty() {
        // The first operand is the pattern.
        operands = operands.get(1..).unwrap_or_default();
        before = before.saturating_sub(1);
    }
    let (revisions, mut only) = operands.split_at_checked(before).unwrap_or((operands, &[]));
    if command == "blame" && only.is_empty() {
        only = revisions;
    }
    // Git expands patterns itself.
    let is_pattern = |name: &PathWord<'_>| name.text.starts_with(':') || name.text.contains(['*', '?', '[', '\\']);
    let only = if only.iter().any(is_pattern) { Vec::new() } else { only.to_vec() };
    let mut in_revisions = Vec::new();
    let mut whole = only.is_empty() && revisions.is_empty();
    for name in revisions {
        // `:/text` and `^{/text}` find a commit by its message; `:1:path` is a path in the index.
        let searches = name.text.starts_with(":/") || name.text.contains("{/");
        match (name.text.split_once(':'), name.text.rsplit_once(':')) {
            (Some((revision, first)), Some((_, last))) if !searches => {
                in_revisions.extend([PathBuf::from(first), PathBuf::from(last)]);
                whole |= !is_commit_name(revision);
            }
            _ => whole |= only.is_empty() || !(name.text.starts_with(":/") || is_commit_name(name.text)),
        }
    }
    let names = operands.iter().chain(&found.paths).copied().collect();
    GitCommand {
        directories,
        paths: names,
        path_limits: only,
        revision_paths: in_revisions,
        shows_contents: contents,
        is_unlimited: whole,
        includes_untracked: false,
        is_version_query: false,
    }
}
