//! Programs that only read, with every option for which that is true. Other programs and options are asked about.
//!
//! Deliberately excluded: options that write (`sort -o`, `tree -o`), that run programs (`rg --pre`,
//! `sort --compress-program`), that follow links during recursion (`grep -R`, `ls -L`, `du -L`, `tree -l`, `rg -L`),
//! that read file names from files (`wc --files0-from`, `sha256sum -c`), and programs that can show the environment
//! (`printenv`, `env`).

/// The kind of a program's operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OperandKind {
    /// No operands.
    None,
    /// Texts.
    Texts,
    /// Paths.
    Paths,
    /// Paths of files. Given a directory, the program would follow links in it.
    Files,
    /// At most one path, after all options: a second one would be written.
    OnePath,
    /// A text, then paths. An option can replace the text.
    TextThenPaths,
}

/// A program that only reads.
pub(super) struct ReadOnlyProgram {
    pub name: &'static str,
    /// Its options, in the format of [`super::arguments`].
    pub options: &'static str,
    pub operands: OperandKind,
    /// What it reads without operands.
    pub default_input: DefaultInput,
    /// Whether none of its options, listed or not, writes or runs anything.
    pub is_always_read_only: bool,
    /// Whether it shows the contents of files, not only names and properties.
    pub shows_contents: bool,
    /// For programs that do not accept bundled short options: the letters that may be followed directly by a number.
    pub unbundled_letters: Option<&'static str>,
}

/// What a program reads without operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DefaultInput {
    /// Standard input, or nothing.
    Stdin,
    /// The names in its current directory.
    Directory,
    /// The contents of everything below its current directory.
    Tree,
}

use OperandKind::{Files, None as NoOperands, OnePath, Paths, TextThenPaths, Texts};

const fn content_program(name: &'static str, options: &'static str, operands: OperandKind) -> ReadOnlyProgram {
    ReadOnlyProgram {
        name,
        options,
        operands,
        default_input: DefaultInput::Stdin,
        is_always_read_only: true,
        shows_contents: true,
        unbundled_letters: None,
    }
}

const fn listing_program(name: &'static str, options: &'static str, operands: OperandKind) -> ReadOnlyProgram {
    ReadOnlyProgram {
        name,
        options,
        operands,
        default_input: DefaultInput::Directory,
        is_always_read_only: true,
        shows_contents: false,
        unbundled_letters: None,
    }
}

const fn info_program(name: &'static str, options: &'static str, operands: OperandKind) -> ReadOnlyProgram {
    ReadOnlyProgram {
        name,
        options,
        operands,
        default_input: DefaultInput::Stdin,
        is_always_read_only: true,
        shows_contents: false,
        unbundled_letters: None,
    }
}

/// For programs with other options that write or run something.
const fn with_unsafe_options(program: ReadOnlyProgram) -> ReadOnlyProgram {
    ReadOnlyProgram { is_always_read_only: false, ..program }
}

/// For programs whose short options are separate words.
const fn with_unbundled_options(letters: &'static str, program: ReadOnlyProgram) -> ReadOnlyProgram {
    ReadOnlyProgram { unbundled_letters: Some(letters), ..program }
}

const GREP_OPTIONS: &str = "-E -F -G -P -e:! -i -v -w -x -c -L -l -m: -o -q -s -b -H -h -n -T -Z -z -A: -B: -C: -a -I -U -r* -y -# \
    --extended-regexp --fixed-strings --basic-regexp --perl-regexp --regexp:! --ignore-case --no-ignore-case --invert-match \
    --word-regexp --line-regexp --count --color= --colour= --files-without-match --files-with-matches --max-count: \
    --only-matching --quiet --silent --no-messages --byte-offset --with-filename --no-filename --label: --line-number \
    --initial-tab --null --null-data --after-context: --before-context: --context: --text --binary-files: --exclude: \
    --exclude-dir: --include: --recursive* --line-buffered -f@! --file@! --version --help";

const FD_OPTIONS: &str = "-H -I -u -s -i -g -F -a -p -d: -t: -e: -E: -S: -c: -1 -0 --hidden --no-ignore --no-ignore-vcs --unrestricted \
    --case-sensitive --ignore-case --glob --regex --fixed-strings --absolute-path --full-path --max-depth: --min-depth: \
    --exact-depth: --type: --extension: --exclude: --size: --changed-within: --changed-before: --color: --max-results: \
    --print0 --version --help";

const CHECKSUM_OPTIONS: &str = "-b -t -z --binary --text --tag --zero";

pub(super) const READ_ONLY_PROGRAMS: [ReadOnlyProgram; 63] = [
    content_program(
        "cat",
        "-A -b -e -E -n -s -t -T -u -v --show-all --number-nonblank --show-ends --number --squeeze-blank --show-tabs \
         --show-nonprinting",
        Paths,
    ),
    content_program("tac", "-b -r -s: --before --regex --separator:", Paths),
    content_program("rev", "", Paths),
    content_program(
        "head",
        "-n: -c: -q -v -z -# --lines: --bytes: --quiet --silent --verbose --zero-terminated",
        Paths,
    ),
    content_program(
        "tail",
        "-n: -c: -q -v -z -# --lines: --bytes: --quiet --silent --verbose --zero-terminated",
        Paths,
    ),
    content_program("wc", "-c -m -l -L -w --bytes --chars --lines --max-line-length --words --total:", Paths),
    content_program(
        "nl",
        "-b: -d: -f: -h: -i: -l: -n: -p -s: -v: -w: --body-numbering: --number-format: --number-width:",
        Paths,
    ),
    content_program("fold", "-b -s -w: --bytes --spaces --width:", Paths),
    content_program(
        "cut",
        "-b: -c: -d: -f: -n -s -z --bytes: --characters: --delimiter: --fields: --complement --only-delimited \
         --output-delimiter: --zero-terminated",
        Paths,
    ),
    content_program("paste", "-d: -s -z --delimiters: --serial --zero-terminated", Paths),
    content_program("column", "-t -s: -n -x -c: -N: -R: -o: --table --separator: --output-separator:", Paths),
    content_program("comm", "-1 -2 -3 -i -z --check-order --nocheck-order --output-delimiter: --total", Paths),
    content_program(
        "cmp",
        "-b -i: -l -n: -s --print-bytes --ignore-initial: --verbose --bytes: --quiet --silent",
        Paths,
    ),
    content_program(
        "diff",
        "-q -s -c -C: -u -U: -e -n -y -W: -p -t -i -E -Z -b -w -B -I: -a -d -# --normal --brief --report-identical-files \
         --unified= --context= --side-by-side --width: --suppress-common-lines --color= --ignore-case --ignore-all-space \
         --ignore-space-change --ignore-blank-lines --ignore-trailing-space --text --minimal --strip-trailing-cr --label:",
        Files,
    ),
    content_program("grep", GREP_OPTIONS, TextThenPaths),
    content_program("egrep", GREP_OPTIONS, TextThenPaths),
    content_program("fgrep", GREP_OPTIONS, TextThenPaths),
    with_unsafe_options(ReadOnlyProgram {
        default_input: DefaultInput::Tree,
        ..content_program(
            "rg",
            "-e:! -f@! -A: -B: -C: -c -E: -F -g: -H -h -I -i -j: -l -M: -m: -N -n -o -P -p -q -r: -S -s -T: -t: -U -u -v -w \
             -x -0 -a -. -d: --regexp:! --file@! --after-context: --before-context: --context: --count --count-matches \
             --fixed-strings --glob: --iglob: --with-filename --no-filename --ignore-case --smart-case --case-sensitive \
             --files-with-matches --files-without-match --files! --type-list! --max-columns: --max-count: --max-depth: \
             --line-number --no-line-number --only-matching --pcre2 --pretty --quiet --replace: --type: --type-not: \
             --multiline --multiline-dotall --unrestricted --invert-match --word-regexp --line-regexp --null --text --hidden \
             --no-ignore --no-ignore-vcs --color: --colors: --column --no-heading --heading --json --stats --sort: --sortr: \
             --trim --vimgrep --no-messages --no-config --byte-offset --passthru --engine: --encoding: --threads: \
             --version --help",
            TextThenPaths,
        )
    }),
    with_unsafe_options(content_program(
        "sort",
        "-b -d -f -g -h -i -M -n -R -r -V -c -C -k: -m -s -t: -u -z --ignore-leading-blanks --dictionary-order \
         --ignore-case --general-numeric-sort --human-numeric-sort --numeric-sort --reverse --version-sort --check= --key: \
         --merge --stable --field-separator: --unique --zero-terminated",
        Paths,
    )),
    with_unsafe_options(content_program(
        "uniq",
        "-c -d -D -f: -i -s: -u -z -w: --count --repeated --all-repeated= --skip-fields: --group= --ignore-case \
         --skip-chars: --unique --zero-terminated --check-chars:",
        OnePath,
    )),
    content_program("tr", "-c -C -d -s -t --complement --delete --squeeze-repeats --truncate-set1", Texts),
    with_unsafe_options(content_program(
        "sed",
        "-n -e:! -E -r -s -u -z --quiet --silent --expression:! --regexp-extended --separate --null-data",
        TextThenPaths,
    )),
    content_program(
        "jq",
        "-c -r -j -a -s -S -C -M -n -e -R --compact-output --raw-output --join-output --ascii-output --slurp --sort-keys \
         --color-output --monochrome-output --null-input --exit-status --raw-input --tab --indent:",
        TextThenPaths,
    ),
    content_program("md5sum", CHECKSUM_OPTIONS, Paths),
    content_program("sha1sum", CHECKSUM_OPTIONS, Paths),
    content_program("sha224sum", CHECKSUM_OPTIONS, Paths),
    content_program("sha256sum", CHECKSUM_OPTIONS, Paths),
    content_program("sha384sum", CHECKSUM_OPTIONS, Paths),
    content_program("sha512sum", CHECKSUM_OPTIONS, Paths),
    content_program("b2sum", CHECKSUM_OPTIONS, Paths),
    content_program("shasum", "-a: -b -t --algorithm: --binary --text", Paths),
    content_program("cksum", "", Paths),
    content_program("hexdump", "-b -c -C -d -o -x -v -n: -s: --canonical --length: --skip: --no-squeezing", Paths),
    content_program(
        "od",
        "-A: -j: -N: -t: -v -a -b -c -d -f -i -l -o -s -x -w= --address-radix: --skip-bytes: --read-bytes: --format:",
        Paths,
    ),
    // `xxd` reads only the first letter of a word.
    with_unbundled_options(
        "cglos",
        with_unsafe_options(content_program("xxd", "-a -b -c: -C -e -g: -i -l: -n: -o: -p -s: -u", OnePath)),
    ),
    content_program(
        "strings",
        "-a -f -n: -t: -e: -o -w -# --all --print-file-name --bytes: --radix: --encoding:",
        Paths,
    ),
    with_unsafe_options(content_program(
        "file",
        "-b -i -I -k -N -r -h -F: --brief --mime --mime-type --mime-encoding --extension --keep-going --no-dereference",
        Paths,
    )),
    listing_program(
        "ls",
        "-a -A -b -B -c -C -d -f -F -g -G -h -i -I@ -k -l -m -n -N -o -p -q -Q -r -R -s -S -t -T -u -U -v -w@ -x -X -Z -1 -@ \
         -O --all --almost-all --author --escape --block-size: --color= --directory --classify= --file-type --format: \
         --full-time --group-directories-first --no-group --human-readable --si --inode --ignore: --hide: --kibibytes \
         --numeric-uid-gid --literal --quote-name --quoting-style: --reverse --recursive --size --sort: --time: --time-style: \
         --width: --zero --version --help",
        Paths,
    ),
    // In `tree`, option letters with a value take the following words in order, even within a bundle.
    with_unbundled_options(
        "L",
        with_unsafe_options(listing_program(
            "tree",
            "-a -d -f -x -L: -P: -I: --gitignore --matchdirs --ignore-case --metafirst --prune --info --noreport --charset: \
         --filelimit: -q -N -Q -p -u -g -s -h --si --du -D --timefmt: -F --inodes --device -v -t -c -U -r --dirsfirst \
         --filesfirst --sort: -i -A -S -n -C -X -J --version --help",
            Paths,
        )),
    ),
    listing_program(
        "du",
        "-0 -a -A -b -c -d: -h -k -m -g -s -S -t: -x -P --all --apparent-size --bytes --total --max-depth: --human-readable --si \
         --summarize --separate-dirs --threshold: --exclude: --one-file-system --time= --time-style: --no-dereference",
        Paths,
    ),
    info_program(
        "df",
        "-a -B: -h -H -i -k -l -P -T -t: -x: --all --human-readable --si --inodes --local --portability --print-type --total",
        Paths,
    ),
    info_program("stat", "-c: -f -t -x -s -r -l -n --format: --printf: --file-system --terse", Paths),
    info_program(
        "readlink",
        "-f -e -m -n -q -s -v -z --canonicalize --canonicalize-existing --canonicalize-missing --no-newline",
        Paths,
    ),
    info_program(
        "realpath",
        "-e -m -L -P -q -s -z --canonicalize-existing --canonicalize-missing --logical --physical --quiet --strip \
         --no-symlinks --relative-to@ --relative-base@",
        Paths,
    ),
    info_program("basename", "-a -s: -z --multiple --suffix: --zero", Texts),
    info_program("dirname", "-z --zero", Texts),
    info_program("pwd", "-L -P", NoOperands),
    info_program("whoami", "", NoOperands),
    info_program("id", "-a -g -G -n -r -u -z --group --groups --name --real --user --zero", Texts),
    info_program("groups", "", Texts),
    info_program(
        "uname",
        "-a -s -n -r -v -m -p -i -o --all --kernel-name --kernel-release --machine --operating-system",
        NoOperands,
    ),
    info_program("arch", "", NoOperands),
    info_program("nproc", "--all --ignore:", NoOperands),
    info_program("uptime", "-p -s --pretty --since", NoOperands),
    info_program("seq", "-f: -s: -w --format: --separator: --equal-width", Texts),
    info_program("expr", "", Texts),
    info_program("which", "-a -s --all", Texts),
    info_program("type", "-a -t -p -P -f", Texts),
    info_program("true", "", Texts),
    info_program("false", "", Texts),
    info_program(":", "", Texts),
    with_unsafe_options(listing_program("fd", FD_OPTIONS, TextThenPaths)),
    // The name of `fd` on Debian.
    with_unsafe_options(listing_program("fdfind", FD_OPTIONS, TextThenPaths)),
];
