//! What a command line reads, and whether it is certain to do nothing else.
//!
//! The analysis is an allow-list of programs with their options and operands ([`program_table`], [`special_programs`],
//! [`git`]). Every operand must be a literal word; it is resolved with its links, in every directory that the shell may
//! be in at that point. A command that is not on the list is not known to be read-only. This module decides nothing: it
//! returns findings.

mod arguments;
mod git;
mod program_table;
mod repository;
mod special_programs;

use std::path::{Path, PathBuf};

use self::arguments::{PathWord, UnclearArgument, is_unbundled, parse_arguments};
use self::program_table::{DefaultInput as Without, OperandKind, READ_ONLY_PROGRAMS, ReadOnlyProgram};
use crate::path::{CandidatePaths, PathKind, PathResolver as _, normalize_path};
use crate::protected_paths::{SearchExclusion, find_read_protection, has_protected_below};
use crate::shell::{
    CommandKind, CommandLine, FileRedirection, ShellCommand, ShellWord, is_output_device_path, is_plain_printf,
    is_plain_sed,
};
use crate::tool_use::DecisionContext;

/// Findings about a command line.
#[derive(Debug)]
pub(crate) struct ReadAnalysis {
    /// Per command, in the order of [`CommandLine::all_commands`].
    pub commands: Vec<CommandReads>,
    /// Per file that the shell itself opens for reading. Files that it writes are not listed.
    files: Vec<CommandReads>,
    /// Directories that the shell may be in when it opens a file; `None` if unknown.
    pub directories: Option<Vec<PathBuf>>,
    /// Whether the shell itself writes a file.
    writes: bool,
    /// Which of `commands` the line runs itself, not through another command.
    top_level: Vec<bool>,
}

/// Findings about a command.
#[derive(Debug, Clone)]
pub(crate) struct CommandReads {
    pub safety: ReadSafety,
    /// Everything that it reads, if known.
    pub reads: Option<Vec<ReadPath>>,
    /// Directories that the shell may be in when it runs; `None` if unknown.
    pub directories: Option<Vec<PathBuf>>,
}

/// Whether a command only reads in the working directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadSafety {
    /// It only reads, and nothing that requires approval.
    Safe,
    /// It only reads, but what it reads requires approval, for this reason.
    NeedsApproval(&'static str),
    /// It is not known to be read-only, for this reason.
    Unknown(&'static str),
}

/// A path that is read.
#[derive(Debug, Clone)]
pub(crate) struct ReadPath {
    pub candidates: CandidatePaths,
    /// Whether the contents of everything below it are read.
    pub recursive: bool,
    /// Whether it is read from the repository's objects, so that it need not exist on disk.
    pub from_history: bool,
    /// What is excluded below it.
    exclusion: SearchExclusion,
}

const UNKNOWN_ARGUMENT: &str = "it has an argument that is not known to be read-only";
const NON_LITERAL_WORD: &str = "one of its arguments is only known at run time";
const READS_OUTSIDE: &str = "it reads outside the working directory";
const UNKNOWN_DIRECTORY: &str = "its working directory is unknown";
const UNKNOWN_PROGRAM: &str = "the program is not known to be read-only";
const SETS_VARIABLES: &str = "it sets variables";

impl ReadAnalysis {
    /// Why the line is not known to be read-only; `None` if it is.
    pub(crate) fn unknown_reason(&self) -> Option<&'static str> {
        let unknown = |finding: &CommandReads| match finding.safety {
            ReadSafety::Unknown(why) => Some(why),
            ReadSafety::Safe | ReadSafety::NeedsApproval(_) => None,
        };
        if self.writes {
            return Some("it writes a file");
        }
        self.top_level_commands().chain(&self.files).find_map(unknown)
    }

    /// Whether the line only reads, and nothing that requires approval.
    pub(crate) fn is_safe(&self) -> bool {
        !self.writes && self.top_level_commands().chain(&self.files).all(|finding| finding.safety == ReadSafety::Safe)
    }

    /// Why a read of the line requires approval, if so.
    pub(crate) fn approval_reason(&self) -> Option<&'static str> {
        self.top_level_commands().chain(&self.files).find_map(|finding| match finding.safety {
            ReadSafety::NeedsApproval(why) => Some(why),
            ReadSafety::Safe | ReadSafety::Unknown(_) => None,
        })
    }

    fn top_level_commands(&self) -> impl Iterator<Item = &CommandReads> {
        self.commands.iter().zip(&self.top_level).filter(|(_, outer)| **outer).map(|(finding, _)| finding)
    }
}

impl CommandReads {
    fn unknown(why: &'static str) -> Self {
        Self { safety: ReadSafety::Unknown(why), reads: None, directories: None }
    }

    /// Whether it reads no file at all.
    pub(crate) fn reads_no_files(&self) -> bool {
        self.safety == ReadSafety::Safe && self.reads.as_ref().is_some_and(Vec::is_empty)
    }
}

/// Analyzes a whole line.
pub(crate) fn analyze_reads(scene: &DecisionContext<'_>, line: &CommandLine) -> ReadAnalysis {
    let mut reader = ReadAnalyzer::new(scene);
    // In a loop, commands before the `cd` run again after it.
    if line.all_commands().iter().any(|command| command.changes_directory && command.may_repeat) {
        reader.directories = None;
    }
    let start = reader.directories.clone();
    let mut commands = Vec::new();
    for command in line.all_commands() {
        commands.push(CommandReads { directories: reader.directories.clone(), ..reader.analyze_command(command) });
        if command.words.first().and_then(ShellWord::as_literal) == Some("cd") {
            reader.enter_directory(command, commands.len() == 1 && line.begins_with_cd);
        } else if command.changes_directory {
            reader.directories = None;
        }
    }
    // A redirection may be opened before or after the directory changes.
    if let (Some(directories), Some(start)) = (&mut reader.directories, start) {
        directories.extend(start);
    }
    let writes = |file: &&FileRedirection| file.writes && !file.target.as_literal().is_some_and(is_output_device_path);
    let reads = line.redirections.iter().filter(|file| !file.writes);
    let outer =
        line.all_commands().into_iter().map(|command| line.commands.iter().any(|outer| std::ptr::eq(outer, command)));
    let mut files: Vec<CommandReads> = reads.map(|file| reader.analyze_redirection(file)).collect();
    if line.has_expansions {
        files.push(CommandReads {
            safety: ReadSafety::NeedsApproval(NON_LITERAL_WORD),
            reads: None,
            directories: None,
        });
    }
    ReadAnalysis {
        files,
        writes: line.redirections.iter().any(|file| writes(&file)),
        top_level: outer.collect(),
        directories: reader.directories,
        commands,
    }
}

/// The paths that a word may refer to in a command.
pub(crate) fn resolve_word(
    scene: &DecisionContext<'_>,
    directories: Option<&[PathBuf]>,
    word: &ShellWord,
    text: &str,
) -> Vec<CandidatePaths> {
    let reader = ReadAnalyzer { scene, directories: directories.map(<[PathBuf]>::to_vec) };
    reader.resolve_name(PathWord { text, has_tilde: word.has_tilde }).unwrap_or_default()
}

/// The programs of the allow-list, each with its options that take a text.
#[cfg(test)]
pub(crate) fn programs_with_text_options() -> Vec<(&'static str, Vec<&'static str>)> {
    let text_options =
        |program: &ReadOnlyProgram| program.options.split_whitespace().filter_map(|option| option.strip_suffix(':'));
    READ_ONLY_PROGRAMS.iter().map(|program| (program.name, text_options(program).collect())).collect()
}

struct ReadAnalyzer<'s> {
    scene: &'s DecisionContext<'s>,
    /// Directories that the shell may be in; `None` if unknown.
    directories: Option<Vec<PathBuf>>,
}

impl<'s> ReadAnalyzer<'s> {
    fn new(scene: &'s DecisionContext<'s>) -> Self {
        let directory = normalize_path(&scene.call.cwd);
        let directories = scene.call.cwd.is_absolute().then(|| vec![directory]);
        Self { scene, directories }
    }

    /// Applies a `cd`: the shell is in the old or the new directory. After `cd x && …` it is in the new one.
    fn enter_directory(&mut self, command: &ShellCommand, for_certain: bool) {
        let Some(before) = self.directories.take() else { return };
        let operand = match command.words.as_slice() {
            [_, operand] => operand.as_literal().map(|text| PathWord { text, has_tilde: operand.has_tilde }),
            _ => None,
        };
        let Some(name) = operand.filter(|name| !name.text.starts_with(['-', '+']) && !name.text.is_empty()) else {
            return;
        };
        let mut after = if for_certain { Vec::new() } else { before.clone() };
        for directory in &before {
            let Ok(spot) = self.resolve_in(name, directory) else { return };
            after.extend(spot.paths);
        }
        after.sort();
        after.dedup();
        // Each `cd` may double the number.
        self.directories = (after.len() <= 32).then_some(after);
    }

    fn resolve_in(&self, name: PathWord<'_>, directory: &Path) -> Result<CandidatePaths, &'static str> {
        // A quoted tilde is an ordinary character.
        let plain = name.text.starts_with('~') && !name.has_tilde;
        let text = if plain { format!("./{}", name.text) } else { name.text.to_owned() };
        CandidatePaths::new(&text, directory, self.scene.call.home.as_deref(), &self.scene.resolver)
    }

    fn resolve_name(&self, name: PathWord<'_>) -> Result<Vec<CandidatePaths>, &'static str> {
        match &self.directories {
            Some(directories) => directories.iter().map(|directory| self.resolve_in(name, directory)).collect(),
            None if name.text.starts_with('/') => Ok(vec![self.resolve_in(name, Path::new("/"))?]),
            None => Err(UNKNOWN_DIRECTORY),
        }
    }

    fn read_paths(&self, names: &[PathWord<'_>], below: bool) -> Result<Vec<ReadPath>, &'static str> {
        let mut reaches = Vec::new();
        for name in names.iter().filter(|name| !matches!(name.text, "/dev/null" | "/dev/stdin")) {
            reaches.extend(self.resolve_name(*name)?.into_iter().map(|spot| ReadPath {
                candidates: spot,
                recursive: below,
                from_history: false,
                exclusion: SearchExclusion::Nothing,
            }));
        }
        Ok(reaches)
    }

    fn has_protected_below(&self, reach: &ReadPath) -> bool {
        let (own, home) = (self.scene.host_directories(), self.scene.home());
        reach.recursive && has_protected_below(&reach.candidates, own, home, reach.exclusion, &self.scene.resolver)
    }

    /// Classifies a read-only command by the paths that it reads.
    fn classify_reads(&self, reaches: Result<Vec<ReadPath>, &'static str>) -> CommandReads {
        let reaches = match reaches {
            Ok(reaches) => reaches,
            Err(why) => return CommandReads { safety: ReadSafety::NeedsApproval(why), reads: None, directories: None },
        };
        let own = self.scene.host_directories();
        let why = reaches.iter().find_map(|reach| {
            if !self.scene.is_in_workspace(&reach.candidates) {
                return Some(READS_OUTSIDE);
            }
            find_read_protection(&reach.candidates, own)
                .or_else(|| self.has_protected_below(reach).then_some(READS_OUTSIDE))
        });
        CommandReads {
            safety: why.map_or(ReadSafety::Safe, ReadSafety::NeedsApproval),
            reads: Some(reaches),
            directories: None,
        }
    }

    fn analyze_redirection(&self, file: &FileRedirection) -> CommandReads {
        match file.target.as_literal() {
            Some(text) => {
                self.classify_reads(self.read_paths(&[PathWord { text, has_tilde: file.target.has_tilde }], false))
            }
            None => {
                CommandReads { safety: ReadSafety::NeedsApproval(NON_LITERAL_WORD), reads: None, directories: None }
            }
        }
    }

    fn analyze_command(&self, command: &ShellCommand) -> CommandReads {
        match command.kind {
            CommandKind::Unanalyzable(why) | CommandKind::Launcher(why) => return CommandReads::unknown(why),
            CommandKind::Plain | CommandKind::Wrapper => {}
        }
        if !command.has_harmless_variables() {
            return CommandReads::unknown(SETS_VARIABLES);
        }
        if command.words.is_empty() {
            return CommandReads { safety: ReadSafety::Safe, reads: Some(Vec::new()), directories: None };
        }
        self.analyze_words(&command.words)
    }

    /// Analyzes a command by its words. Its name must not contain a directory: another directory may contain another
    /// program of that name.
    fn analyze_words(&self, words: &[ShellWord]) -> CommandReads {
        let Some((name, rest)) = words.split_first().and_then(|(name, rest)| Some((name.as_literal()?, rest))) else {
            return CommandReads::unknown(NON_LITERAL_WORD);
        };
        let free = || CommandReads { safety: ReadSafety::Safe, reads: Some(Vec::new()), directories: None };
        let texts = |read: Result<(), UnclearArgument>, pure: bool| match read {
            Ok(()) => free(),
            Err(why) => unclear_reads(why, pure),
        };
        match name {
            "echo" => texts(special_programs::check_echo(rest), true),
            "printf" if !is_plain_printf(rest) => CommandReads::unknown(UNKNOWN_ARGUMENT),
            "printf" => texts(special_programs::check_echo(rest), true),
            "date" => texts(special_programs::check_date(rest), false),
            "ps" => texts(special_programs::check_ps(rest), true),
            "set" => texts(special_programs::check_set(rest), false),
            "test" | "[" => match special_programs::parse_test(rest) {
                Ok(names) => self.classify_reads(self.read_paths(&names, false)),
                Err(why) => unclear_reads(why, false),
            },
            "find" => match special_programs::parse_find(rest) {
                Ok(names) => self.classify_reads(self.read_paths(&names, false)),
                Err(why) => unclear_reads(why, false),
            },
            "git" => self.analyze_git(rest),
            "cd" => self.analyze_cd(rest),
            "command" if matches!(rest.first().and_then(ShellWord::as_literal), Some("-v" | "-V")) => {
                texts(special_programs::check_echo(rest.get(1..).unwrap_or_default()), true)
            }
            "command" | "time" | "nice" | "timeout" | "env" => match special_programs::wrapped_command(name, rest) {
                Some(inner) => self.analyze_words(inner),
                None => CommandReads::unknown(UNKNOWN_ARGUMENT),
            },
            _ => match READ_ONLY_PROGRAMS.iter().find(|program| program.name == name) {
                Some(program) => self.analyze_program(program, rest),
                None => CommandReads::unknown(UNKNOWN_PROGRAM),
            },
        }
    }

    fn analyze_cd(&self, words: &[ShellWord]) -> CommandReads {
        match words {
            [word] if word.as_literal().is_some_and(|text| !text.starts_with(['-', '+']) && !text.is_empty()) => {
                let name = PathWord { text: word.text.as_str(), has_tilde: word.has_tilde };
                let finding = self.classify_reads(self.read_paths(&[name], false));
                // `cd` itself reads nothing.
                CommandReads { reads: finding.reads.map(|_| Vec::new()), ..finding }
            }
            _ => CommandReads {
                safety: ReadSafety::NeedsApproval(UNKNOWN_DIRECTORY),
                reads: Some(Vec::new()),
                directories: None,
            },
        }
    }

    fn analyze_program(&self, program: &ReadOnlyProgram, words: &[ShellWord]) -> CommandReads {
        if program.unbundled_letters.is_some_and(|letters| !words.iter().all(|word| is_unbundled(word, letters))) {
            return CommandReads::unknown(UNKNOWN_ARGUMENT);
        }
        let found = match parse_arguments(words, program.options) {
            Ok(found) => found,
            Err(why) => return unclear_reads(why, program.is_always_read_only),
        };
        let operands = found.operands.as_slice();
        let below = program.shows_contents && (found.recursive || program.default_input == Without::Tree);
        let (texts, names): (Vec<&str>, &[PathWord<'_>]) = match program.operands {
            OperandKind::None if !operands.is_empty() => return CommandReads::unknown(UNKNOWN_ARGUMENT),
            OperandKind::None | OperandKind::Texts => (Vec::new(), &[]),
            OperandKind::Paths | OperandKind::Files => (Vec::new(), operands),
            OperandKind::OnePath
                if operands.len() > 1 || !found.paths.is_empty() || !are_last_words(words, operands) =>
            {
                return CommandReads::unknown("it may write to its last argument");
            }
            OperandKind::OnePath => (Vec::new(), operands),
            OperandKind::TextThenPaths if found.replaces_first => (found.texts.clone(), operands),
            OperandKind::TextThenPaths => match operands.split_first() {
                Some((text, names)) => (vec![text.text], names),
                None => (Vec::new(), &[]),
            },
        };
        match program.name {
            "strings" if operands.iter().any(|name| name.text.starts_with('@')) => {
                return CommandReads {
                    safety: ReadSafety::NeedsApproval(UNKNOWN_ARGUMENT),
                    reads: None,
                    directories: None,
                };
            }
            "sed" if !texts.iter().all(|text| is_plain_sed(text)) => {
                return CommandReads::unknown("a sed script can run programs and write files");
            }
            "jq" if !texts.iter().all(|text| special_programs::is_plain_jq(text)) => {
                return CommandReads::unknown("a jq filter can print the environment and read files");
            }
            _ => {}
        }
        let here = [PathWord { text: ".", has_tilde: false }];
        let searches = below || program.default_input == Without::Directory;
        let names = if names.is_empty() && searches { here.as_slice() } else { names };
        let names: Vec<PathWord<'_>> =
            names.iter().copied().filter(|name| !is_stdin_name(program.name, *name)).collect();
        let skips = if program.name == "rg" { special_programs::rg_exclusion(words) } else { SearchExclusion::Nothing };
        let reaches = self.read_paths(&names, below).and_then(|mut reaches| {
            reaches.iter_mut().for_each(|reach| reach.exclusion = skips);
            reaches.extend(self.read_paths(&found.paths, false)?);
            Ok(reaches)
        });
        if program.operands == OperandKind::Files && reaches.as_ref().is_ok_and(|reaches| self.has_directory(reaches)) {
            return CommandReads {
                safety: ReadSafety::NeedsApproval("it compares directories and follows their symbolic links"),
                reads: None,
                directories: None,
            };
        }
        self.classify_reads(reaches)
    }

    fn has_directory(&self, reaches: &[ReadPath]) -> bool {
        let is_directory = |path: &PathBuf| self.scene.resolver.path_kind(path) == PathKind::Directory;
        reaches.iter().any(|reach| reach.candidates.paths.iter().any(is_directory))
    }

    fn analyze_git(&self, words: &[ShellWord]) -> CommandReads {
        let git = match git::parse_git_command(words) {
            Ok(git) => git,
            Err(why) => return unclear_reads(why, false),
        };
        if git.is_version_query {
            return CommandReads { safety: ReadSafety::Safe, reads: Some(Vec::new()), directories: None };
        }
        let mut there = Self { scene: self.scene, directories: self.directories.clone() };
        for name in &git.directories {
            let Ok(spots) = there.resolve_name(*name) else { return CommandReads::unknown(UNKNOWN_DIRECTORY) };
            if !spots.iter().all(|spot| self.scene.is_in_workspace(spot)) {
                return CommandReads::unknown(READS_OUTSIDE);
            }
            there.directories = Some(spots.into_iter().flat_map(|spot| spot.paths).collect());
        }
        let Some(directories) = &there.directories else { return CommandReads::unknown(UNKNOWN_DIRECTORY) };
        let mut reaches = match there.read_paths(&git.paths, false) {
            Ok(reaches) => reaches,
            Err(why) => return CommandReads::unknown(why),
        };
        // With an operand outside the workspace, Git compares files that are not in the repository.
        let mut reads_outside = !reaches.iter().all(|reach| self.scene.is_in_workspace(&reach.candidates));
        reaches.clear();
        let mut unknown = None;
        for directory in directories {
            let top = repository::find_harmless_repository(directory, &self.scene.resolver).unwrap_or_else(|why| {
                unknown = Some(why);
                PathBuf::from("/")
            });
            if !git.shows_contents {
                continue;
            }
            let place =
                |path: &Path| CandidatePaths { text: path.display().to_string(), paths: vec![normalize_path(path)] };
            for path in &git.revision_paths {
                let here = path.starts_with(".") || path.starts_with("..") || unknown.is_some();
                let base = if here { directory } else { &top };
                reaches.push(ReadPath {
                    candidates: place(&base.join(path)),
                    recursive: true,
                    from_history: true,
                    exclusion: SearchExclusion::GitDirectory,
                });
            }
            if git.is_unlimited {
                reaches.push(ReadPath {
                    candidates: place(&top),
                    recursive: true,
                    from_history: true,
                    exclusion: SearchExclusion::GitDirectory,
                });
            }
        }
        match there.read_paths(&git.path_limits, true) {
            Ok(only) if git.shows_contents => reaches.extend(only),
            Ok(_) => {}
            Err(_) => reads_outside = true,
        }
        // Tracked contents are versions of ordinary files, so protected paths below do not count.
        let outside = reads_outside || !reaches.iter().all(|reach| self.scene.is_in_workspace(&reach.candidates));
        // Untracked files are checked like any others.
        let guarded = git.includes_untracked && {
            let here = directories.iter().map(|path| CandidatePaths { text: String::new(), paths: vec![path.clone()] });
            let here = here.map(|spot| ReadPath {
                candidates: spot,
                recursive: true,
                from_history: false,
                exclusion: SearchExclusion::GitDirectory,
            });
            here.chain(reaches.iter().cloned()).any(|reach| self.has_protected_below(&reach))
        };
        let grade = match unknown {
            Some(why) => ReadSafety::Unknown(why),
            None if outside || guarded => ReadSafety::NeedsApproval(READS_OUTSIDE),
            None => ReadSafety::Safe,
        };
        CommandReads { safety: grade, reads: Some(reaches), directories: None }
    }
}

fn unclear_reads(why: UnclearArgument, pure: bool) -> CommandReads {
    match why {
        UnclearArgument::NonLiteralOperand => {
            CommandReads { safety: ReadSafety::NeedsApproval(NON_LITERAL_WORD), reads: None, directories: None }
        }
        UnclearArgument::NonLiteralWord if pure => {
            CommandReads { safety: ReadSafety::NeedsApproval(NON_LITERAL_WORD), reads: None, directories: None }
        }
        UnclearArgument::UnknownOption if pure => {
            CommandReads { safety: ReadSafety::NeedsApproval(UNKNOWN_ARGUMENT), reads: None, directories: None }
        }
        UnclearArgument::NonLiteralWord => CommandReads::unknown(NON_LITERAL_WORD),
        UnclearArgument::UnknownOption => CommandReads::unknown(UNKNOWN_ARGUMENT),
    }
}

/// Does the program read standard input for this name? For others it is a file.
fn is_stdin_name(program: &str, name: PathWord<'_>) -> bool {
    const TAKE_HYPHEN: [&str; 26] = [
        "cat",
        "tac",
        "head",
        "tail",
        "wc",
        "nl",
        "fold",
        "cut",
        "paste",
        "comm",
        "cmp",
        "diff",
        "grep",
        "egrep",
        "fgrep",
        "rg",
        "sort",
        "uniq",
        "sed",
        "md5sum",
        "sha1sum",
        "sha256sum",
        "sha512sum",
        "cksum",
        "od",
        "xxd",
    ];
    name.text == "-" && TAKE_HYPHEN.contains(&program)
}

/// Whether the operands are the last words, so that no option parser can interpret one of them differently.
fn are_last_words(words: &[ShellWord], operands: &[PathWord<'_>]) -> bool {
    words.iter().rev().zip(operands.iter().rev()).all(|(word, operand)| word.text == operand.text)
}
