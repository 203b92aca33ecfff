//! What a command line reads, and whether it provably does nothing else.
//!
//! The question is asked of an allow-list: programs, their options and their operands ([`table`], [`special`], [`git`]). Every
//! operand must be a literal word; it is looked up with its links, in every directory that the shell may be in by then.
//! What the list does not know is not known to only read. This module decides nothing: it tells what it found.

mod arguments;
mod git;
mod repository;
mod special;
mod table;

use std::path::{Path, PathBuf};

use self::arguments::{Name, Unclear, arguments, stands_alone};
use self::table::{Default as Without, Operands, PROGRAMS, Program};
use crate::call::Scene;
use crate::path::{Entry, Spot, normalise};
use crate::protected::{Skips, guards_below, guards_reading};
use crate::shell::{Command, File, Kind, Line, Word, is_plain_printf, is_plain_sed, is_sink};

/// What was found out about a command line.
#[derive(Debug)]
pub(crate) struct Reading {
    /// About each command, in the order of [`Line::all`].
    pub commands: Vec<Finding>,
    /// About each file that the shell itself opens to read; those that it writes are not listed.
    files: Vec<Finding>,
    /// Where the shell may be when it opens a file; nothing if that is not known.
    pub directories: Option<Vec<PathBuf>>,
    /// The shell itself writes a file.
    writes: bool,
    /// Which of `commands` are run by the line itself and not by another command.
    outer: Vec<bool>,
}

/// What was found out about a command.
#[derive(Debug, Clone)]
pub(crate) struct Finding {
    pub grade: Grade,
    /// Everything that it reads, if that is known.
    pub reaches: Option<Vec<Reach>>,
    /// Where the shell may be when it runs; nothing if that is not known.
    pub directories: Option<Vec<PathBuf>>,
}

/// How sure it is that nothing but reading in the working directory happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Grade {
    /// It only reads, and only what needs no question.
    Automatic,
    /// It only reads, but what it reads needs a question, for this reason.
    Asks(&'static str),
    /// It is not known to only read, for this reason.
    Unknown(&'static str),
}

/// A place that is read.
#[derive(Debug, Clone)]
pub(crate) struct Reach {
    pub spot: Spot,
    /// The contents of everything below it are read, too.
    pub below: bool,
    /// It is read as the repository keeps it, whether it is on the disk or not.
    pub in_history: bool,
    /// What is left out of what lies below it.
    skips: Skips,
}

const OPTION: &str = "it has an argument that is not known to only read";
const OPEN_WORD: &str = "one of its words is known only when it runs";
const OUTSIDE: &str = "it reads outside the working directory";
const LOST: &str = "the directory that it runs in is not known";
const PROGRAM: &str = "the program is not known to only read";
const VARIABLES: &str = "it sets variables";

impl Reading {
    /// Why the line is not known to only read, if so.
    pub(crate) fn unknown(&self) -> Option<&'static str> {
        let unknown = |finding: &Finding| match finding.grade {
            Grade::Unknown(why) => Some(why),
            Grade::Automatic | Grade::Asks(_) => None,
        };
        if self.writes {
            return Some("it writes a file");
        }
        self.outer().chain(&self.files).find_map(unknown)
    }

    /// Whether the line only reads what needs no question.
    pub(crate) fn is_automatic(&self) -> bool {
        !self.writes && self.outer().chain(&self.files).all(|finding| finding.grade == Grade::Automatic)
    }

    /// Why what it reads needs a question, if so.
    pub(crate) fn asks(&self) -> Option<&'static str> {
        self.outer().chain(&self.files).find_map(|finding| match finding.grade {
            Grade::Asks(why) => Some(why),
            Grade::Automatic | Grade::Unknown(_) => None,
        })
    }

    fn outer(&self) -> impl Iterator<Item = &Finding> {
        self.commands.iter().zip(&self.outer).filter(|(_, outer)| **outer).map(|(finding, _)| finding)
    }
}

impl Finding {
    fn unknown(why: &'static str) -> Self {
        Self { grade: Grade::Unknown(why), reaches: None, directories: None }
    }

    /// It touches no file at all.
    pub(crate) fn is_free(&self) -> bool {
        self.grade == Grade::Automatic && self.reaches.as_ref().is_some_and(Vec::is_empty)
    }
}

/// Looks at a whole line.
pub(crate) fn read(scene: &Scene<'_>, line: &Line) -> Reading {
    let mut reader = Reader::new(scene);
    // What stands before such a command in a loop runs again behind it.
    if line.all().iter().any(|command| command.moves && command.repeats) {
        reader.directories = None;
    }
    let start = reader.directories.clone();
    let mut commands = Vec::new();
    for command in line.all() {
        commands.push(Finding { directories: reader.directories.clone(), ..reader.command(command) });
        if command.words.first().and_then(Word::known) == Some("cd") {
            reader.enter(command, commands.len() == 1 && line.begins_with_cd);
        } else if command.moves {
            reader.directories = None;
        }
    }
    // A redirection may be opened before the directory changes, or after.
    if let (Some(directories), Some(start)) = (&mut reader.directories, start) {
        directories.extend(start);
    }
    let writes = |file: &&File| file.writes && !file.name.known().is_some_and(is_sink);
    let reads = line.files.iter().filter(|file| !file.writes);
    let outer = line.all().into_iter().map(|command| line.commands.iter().any(|outer| std::ptr::eq(outer, command)));
    let mut files: Vec<Finding> = reads.map(|file| reader.file(file)).collect();
    if line.expands {
        files.push(Finding { grade: Grade::Asks(OPEN_WORD), reaches: None, directories: None });
    }
    Reading {
        files,
        writes: line.files.iter().any(|file| writes(&file)),
        outer: outer.collect(),
        directories: reader.directories,
        commands,
    }
}

/// The places that a name may mean to a command.
pub(crate) fn spots(scene: &Scene<'_>, directories: Option<&[PathBuf]>, word: &Word, text: &str) -> Vec<Spot> {
    let reader = Reader { scene, directories: directories.map(<[PathBuf]>::to_vec) };
    reader.spots(Name { text, tilde: word.tilde }).unwrap_or_default()
}

struct Reader<'s> {
    scene: &'s Scene<'s>,
    /// Where the shell may be; nothing if that is not known.
    directories: Option<Vec<PathBuf>>,
}

impl<'s> Reader<'s> {
    fn new(scene: &'s Scene<'s>) -> Self {
        let directory = normalise(&scene.call.cwd);
        let directories = scene.call.cwd.is_absolute().then(|| vec![directory]);
        Self { scene, directories }
    }

    /// `cd` was run, perhaps: the shell is where it was, or there. Behind `cd x && …` it is there.
    fn enter(&mut self, command: &Command, for_certain: bool) {
        let Some(before) = self.directories.take() else { return };
        let operand = match command.words.as_slice() {
            [_, operand] => operand.known().map(|text| Name { text, tilde: operand.tilde }),
            _ => None,
        };
        let Some(name) = operand.filter(|name| !name.text.starts_with(['-', '+']) && !name.text.is_empty()) else {
            return;
        };
        let mut after = if for_certain { Vec::new() } else { before.clone() };
        for directory in &before {
            let Ok(spot) = self.spot_in(name, directory) else { return };
            after.extend(spot.paths);
        }
        after.sort();
        after.dedup();
        // Each `cd` may double them.
        self.directories = (after.len() <= 32).then_some(after);
    }

    fn spot_in(&self, name: Name<'_>, directory: &Path) -> Result<Spot, &'static str> {
        // A quoted tilde is a name like any other.
        let plain = name.text.starts_with('~') && !name.tilde;
        let text = if plain { format!("./{}", name.text) } else { name.text.to_owned() };
        Spot::new(&text, directory, self.scene.call.home.as_deref(), self.scene.resolver)
    }

    fn spots(&self, name: Name<'_>) -> Result<Vec<Spot>, &'static str> {
        match &self.directories {
            Some(directories) => directories.iter().map(|directory| self.spot_in(name, directory)).collect(),
            None if name.text.starts_with('/') => Ok(vec![self.spot_in(name, Path::new("/"))?]),
            None => Err(LOST),
        }
    }

    fn reaches(&self, names: &[Name<'_>], below: bool) -> Result<Vec<Reach>, &'static str> {
        let mut reaches = Vec::new();
        for name in names.iter().filter(|name| !matches!(name.text, "/dev/null" | "/dev/stdin")) {
            reaches.extend(self.spots(*name)?.into_iter().map(|spot| Reach {
                spot,
                below,
                in_history: false,
                skips: Skips::Nothing,
            }));
        }
        Ok(reaches)
    }

    fn guards_below(&self, reach: &Reach) -> bool {
        let (own, home) = (self.scene.own(), self.scene.home());
        reach.below && guards_below(&reach.spot, own, home, reach.skips, self.scene.resolver)
    }

    /// The grade of a command that only reads, by all that it reads.
    fn found(&self, reaches: Result<Vec<Reach>, &'static str>) -> Finding {
        let reaches = match reaches {
            Ok(reaches) => reaches,
            Err(why) => return Finding { grade: Grade::Asks(why), reaches: None, directories: None },
        };
        let own = self.scene.own();
        let why = reaches.iter().find_map(|reach| {
            if !self.scene.is_inside(&reach.spot) {
                return Some(OUTSIDE);
            }
            guards_reading(&reach.spot, own).or_else(|| self.guards_below(reach).then_some(OUTSIDE))
        });
        Finding { grade: why.map_or(Grade::Automatic, Grade::Asks), reaches: Some(reaches), directories: None }
    }

    fn file(&self, file: &File) -> Finding {
        match file.name.known() {
            Some(text) => self.found(self.reaches(&[Name { text, tilde: file.name.tilde }], false)),
            None => Finding { grade: Grade::Asks(OPEN_WORD), reaches: None, directories: None },
        }
    }

    fn command(&self, command: &Command) -> Finding {
        match command.kind {
            Kind::Hidden(why) | Kind::Runner(why) => return Finding::unknown(why),
            Kind::Plain | Kind::Carrier => {}
        }
        if !command.has_harmless_variables() {
            return Finding::unknown(VARIABLES);
        }
        if command.words.is_empty() {
            return Finding { grade: Grade::Automatic, reaches: Some(Vec::new()), directories: None };
        }
        self.words(&command.words)
    }

    /// A command by its words. It is named plainly: another directory may hold another program of that name.
    fn words(&self, words: &[Word]) -> Finding {
        let Some((name, rest)) = words.split_first().and_then(|(name, rest)| Some((name.known()?, rest))) else {
            return Finding::unknown(OPEN_WORD);
        };
        let free = || Finding { grade: Grade::Automatic, reaches: Some(Vec::new()), directories: None };
        let texts = |read: Result<(), Unclear>, pure: bool| match read {
            Ok(()) => free(),
            Err(why) => unclear(why, pure),
        };
        match name {
            "echo" => texts(special::echo(rest), true),
            "printf" if !is_plain_printf(rest) => Finding::unknown(OPTION),
            "printf" => texts(special::echo(rest), true),
            "date" => texts(special::date(rest), false),
            "ps" => texts(special::ps(rest), true),
            "set" => texts(special::set(rest), false),
            "test" | "[" => match special::test(rest) {
                Ok(names) => self.found(self.reaches(&names, false)),
                Err(why) => unclear(why, false),
            },
            "find" => match special::find(rest) {
                Ok(names) => self.found(self.reaches(&names, false)),
                Err(why) => unclear(why, false),
            },
            "git" => self.git(rest),
            "cd" => self.cd(rest),
            "command" if matches!(rest.first().and_then(Word::known), Some("-v" | "-V")) => {
                texts(special::echo(rest.get(1..).unwrap_or_default()), true)
            }
            "command" | "time" | "nice" | "timeout" | "env" => match special::carried(name, rest) {
                Some(inner) => self.words(inner),
                None => Finding::unknown(OPTION),
            },
            _ => match PROGRAMS.iter().find(|program| program.name == name) {
                Some(program) => self.program(program, rest),
                None => Finding::unknown(PROGRAM),
            },
        }
    }

    fn cd(&self, words: &[Word]) -> Finding {
        match words {
            [word] if word.known().is_some_and(|text| !text.starts_with(['-', '+']) && !text.is_empty()) => {
                let name = Name { text: word.text.as_str(), tilde: word.tilde };
                let finding = self.found(self.reaches(&[name], false));
                // Nothing is read there yet.
                Finding { reaches: finding.reaches.map(|_| Vec::new()), ..finding }
            }
            _ => Finding { grade: Grade::Asks(LOST), reaches: Some(Vec::new()), directories: None },
        }
    }

    fn program(&self, program: &Program, words: &[Word]) -> Finding {
        if program.alone.is_some_and(|letters| !words.iter().all(|word| stands_alone(word, letters))) {
            return Finding::unknown(OPTION);
        }
        let found = match arguments(words, program.options) {
            Ok(found) => found,
            Err(why) => return unclear(why, program.pure),
        };
        let operands = found.operands.as_slice();
        let below = program.contents && (found.below || program.default == Without::Tree);
        let (texts, names): (Vec<&str>, &[Name<'_>]) = match program.operands {
            Operands::None if !operands.is_empty() => return Finding::unknown(OPTION),
            Operands::None | Operands::Texts => (Vec::new(), &[]),
            Operands::Paths | Operands::Files => (Vec::new(), operands),
            Operands::OnePath if operands.len() > 1 || !found.paths.is_empty() || !is_last(words, operands) => {
                return Finding::unknown("it may write the file that it names last");
            }
            Operands::OnePath => (Vec::new(), operands),
            Operands::TextThenPaths if found.replaces_first => (found.texts.clone(), operands),
            Operands::TextThenPaths => match operands.split_first() {
                Some((text, names)) => (vec![text.text], names),
                None => (Vec::new(), &[]),
            },
        };
        match program.name {
            "strings" if operands.iter().any(|name| name.text.starts_with('@')) => {
                return Finding { grade: Grade::Asks(OPTION), reaches: None, directories: None };
            }
            "sed" if !texts.iter().all(|text| is_plain_sed(text)) => {
                return Finding::unknown("a script for sed can run programs and write files");
            }
            "jq" if !texts.iter().all(|text| special::is_plain_jq(text)) => {
                return Finding::unknown("a filter for jq can show the environment and read files");
            }
            _ => {}
        }
        let here = [Name { text: ".", tilde: false }];
        let searches = below || program.default == Without::Directory;
        let names = if names.is_empty() && searches { here.as_slice() } else { names };
        let names: Vec<Name<'_>> = names.iter().copied().filter(|name| !is_input(program.name, *name)).collect();
        let skips = if program.name == "rg" { special::rg_skips(words) } else { Skips::Nothing };
        let reaches = self.reaches(&names, below).and_then(|mut reaches| {
            reaches.iter_mut().for_each(|reach| reach.skips = skips);
            reaches.extend(self.reaches(&found.paths, false)?);
            Ok(reaches)
        });
        if program.operands == Operands::Files && reaches.as_ref().is_ok_and(|reaches| self.has_directory(reaches)) {
            return Finding {
                grade: Grade::Asks("it compares directories, with all that links lead to"),
                reaches: None,
                directories: None,
            };
        }
        self.found(reaches)
    }

    fn has_directory(&self, reaches: &[Reach]) -> bool {
        let is_directory = |path: &PathBuf| self.scene.resolver.entry(path) == Entry::Directory;
        reaches.iter().any(|reach| reach.spot.paths.iter().any(is_directory))
    }

    fn git(&self, words: &[Word]) -> Finding {
        let git = match git::git(words) {
            Ok(git) => git,
            Err(why) => return unclear(why, false),
        };
        if git.version {
            return Finding { grade: Grade::Automatic, reaches: Some(Vec::new()), directories: None };
        }
        let mut there = Self { scene: self.scene, directories: self.directories.clone() };
        for name in &git.directories {
            let Ok(spots) = there.spots(*name) else { return Finding::unknown(LOST) };
            if !spots.iter().all(|spot| self.scene.is_inside(spot)) {
                return Finding::unknown(OUTSIDE);
            }
            there.directories = Some(spots.into_iter().flat_map(|spot| spot.paths).collect());
        }
        let Some(directories) = &there.directories else { return Finding::unknown(LOST) };
        let mut reaches = match there.reaches(&git.names, false) {
            Ok(reaches) => reaches,
            Err(why) => return Finding::unknown(why),
        };
        // An operand outside makes Git compare files that are not its own.
        let mut strays = !reaches.iter().all(|reach| self.scene.is_inside(&reach.spot));
        reaches.clear();
        let mut unknown = None;
        for directory in directories {
            let top = repository::harmless_repository(directory, self.scene.resolver).unwrap_or_else(|why| {
                unknown = Some(why);
                PathBuf::from("/")
            });
            if !git.contents {
                continue;
            }
            let place = |path: &Path| Spot { text: path.display().to_string(), paths: vec![normalise(path)] };
            for path in &git.in_revisions {
                let here = path.starts_with(".") || path.starts_with("..") || unknown.is_some();
                let base = if here { directory } else { &top };
                reaches.push(Reach {
                    spot: place(&base.join(path)),
                    below: true,
                    in_history: true,
                    skips: Skips::Repository,
                });
            }
            if git.whole {
                reaches.push(Reach { spot: place(&top), below: true, in_history: true, skips: Skips::Repository });
            }
        }
        match there.reaches(&git.only, true) {
            Ok(only) if git.contents => reaches.extend(only),
            Ok(_) => {}
            Err(_) => strays = true,
        }
        // What Git keeps in the repository are versions of ordinary files: not the places that are guarded below.
        let outside = strays || !reaches.iter().all(|reach| self.scene.is_inside(&reach.spot));
        // Those that it does not keep are files like any others.
        let guarded = git.untracked && {
            let here = directories.iter().map(|path| Spot { text: String::new(), paths: vec![path.clone()] });
            let here = here.map(|spot| Reach { spot, below: true, in_history: false, skips: Skips::Repository });
            here.chain(reaches.iter().cloned()).any(|reach| self.guards_below(&reach))
        };
        let grade = match unknown {
            Some(why) => Grade::Unknown(why),
            None if outside || guarded => Grade::Asks(OUTSIDE),
            None => Grade::Automatic,
        };
        Finding { grade, reaches: Some(reaches), directories: None }
    }
}

fn unclear(why: Unclear, pure: bool) -> Finding {
    match why {
        Unclear::Operand => Finding { grade: Grade::Asks(OPEN_WORD), reaches: None, directories: None },
        Unclear::Word if pure => Finding { grade: Grade::Asks(OPEN_WORD), reaches: None, directories: None },
        Unclear::Option if pure => Finding { grade: Grade::Asks(OPTION), reaches: None, directories: None },
        Unclear::Word => Finding::unknown(OPEN_WORD),
        Unclear::Option => Finding::unknown(OPTION),
    }
}

/// Does the program take this name for its standard input? To others it is a file.
fn is_input(program: &str, name: Name<'_>) -> bool {
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

/// Whether the operands are the last words, so that no reader of options can take one of them for something else.
fn is_last(words: &[Word], operands: &[Name<'_>]) -> bool {
    words.iter().rev().zip(operands.iter().rev()).all(|(word, operand)| word.text == operand.text)
}
