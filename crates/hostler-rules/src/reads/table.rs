//! Programs that only read, with every option for which that is true. What is not listed is asked about.
//!
//! Left out on purpose: options that write (`sort -o`, `tree -o`), that run programs (`rg --pre`, `sort --compress-program`),
//! that follow links on their way down (`grep -R`, `ls -L`, `du -L`, `tree -l`, `rg -L`), that take names of files from files
//! (`wc --files0-from`, `sha256sum -c`), and programs that can show the environment (`printenv`, `env`).

/// What the operands of a program are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operands {
    /// There are none.
    None,
    /// Texts.
    Texts,
    /// Paths.
    Paths,
    /// Paths of files; of a directory it would read what links in it lead to.
    Files,
    /// One path at most, behind all options: a second one is written to.
    OnePath,
    /// A text, then paths. An option can take the place of the text.
    TextThenPaths,
}

/// A program that only reads.
pub(super) struct Program {
    pub name: &'static str,
    /// Its options, see [`super::arguments`].
    pub options: &'static str,
    pub operands: Operands,
    /// What it reads without an operand.
    pub default: Default,
    /// None of its options writes or runs anything, also of those that are not listed.
    pub pure: bool,
    /// It shows the contents of files, not only their names and properties.
    pub contents: bool,
    /// It takes no bundles of short options as others do; these letters may have a number glued to them.
    pub alone: Option<&'static str>,
}

/// What a program reads without an operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Default {
    /// Its standard input, or nothing.
    Input,
    /// The directory that it runs in, as a list of names.
    Directory,
    /// The contents of all that lies below the directory that it runs in.
    Tree,
}

use Operands::{Files, None as NoOperands, OnePath, Paths, TextThenPaths, Texts};

const fn reader(name: &'static str, options: &'static str, operands: Operands) -> Program {
    Program { name, options, operands, default: Default::Input, pure: true, contents: true, alone: None }
}

const fn lister(name: &'static str, options: &'static str, operands: Operands) -> Program {
    Program { name, options, operands, default: Default::Directory, pure: true, contents: false, alone: None }
}

const fn teller(name: &'static str, options: &'static str, operands: Operands) -> Program {
    Program { name, options, operands, default: Default::Input, pure: true, contents: false, alone: None }
}

/// Others of its options write or run something.
const fn mixed(program: Program) -> Program {
    Program { pure: false, ..program }
}

/// Each short option is a word of its own.
const fn alone(letters: &'static str, program: Program) -> Program {
    Program { alone: Some(letters), ..program }
}

const GREP: &str = "-E -F -G -P -e:! -i -v -w -x -c -L -l -m: -o -q -s -b -H -h -n -T -Z -z -A: -B: -C: -a -I -U -r* -y -# \
    --extended-regexp --fixed-strings --basic-regexp --perl-regexp --regexp:! --ignore-case --no-ignore-case --invert-match \
    --word-regexp --line-regexp --count --color= --colour= --files-without-match --files-with-matches --max-count: \
    --only-matching --quiet --silent --no-messages --byte-offset --with-filename --no-filename --label: --line-number \
    --initial-tab --null --null-data --after-context: --before-context: --context: --text --binary-files: --exclude: \
    --exclude-dir: --include: --recursive* --line-buffered -f@! --file@! --version --help";

const SUM: &str = "-b -t -z --binary --text --tag --zero";

pub(super) const PROGRAMS: [Program; 62] = [
    reader(
        "cat",
        "-A -b -e -E -n -s -t -T -u -v --show-all --number-nonblank --show-ends --number --squeeze-blank --show-tabs \
         --show-nonprinting",
        Paths,
    ),
    reader("tac", "-b -r -s: --before --regex --separator:", Paths),
    reader("rev", "", Paths),
    reader("head", "-n: -c: -q -v -z -# --lines: --bytes: --quiet --silent --verbose --zero-terminated", Paths),
    reader("tail", "-n: -c: -q -v -z -# --lines: --bytes: --quiet --silent --verbose --zero-terminated", Paths),
    reader("wc", "-c -m -l -L -w --bytes --chars --lines --max-line-length --words --total:", Paths),
    reader(
        "nl",
        "-b: -d: -f: -h: -i: -l: -n: -p -s: -v: -w: --body-numbering: --number-format: --number-width:",
        Paths,
    ),
    reader("fold", "-b -s -w: --bytes --spaces --width:", Paths),
    reader(
        "cut",
        "-b: -c: -d: -f: -n -s -z --bytes: --characters: --delimiter: --fields: --complement --only-delimited \
         --output-delimiter: --zero-terminated",
        Paths,
    ),
    reader("paste", "-d: -s -z --delimiters: --serial --zero-terminated", Paths),
    reader("column", "-t -s: -n -x -c: -N: -R: -o: --table --separator: --output-separator:", Paths),
    reader("comm", "-1 -2 -3 -i -z --check-order --nocheck-order --output-delimiter: --total", Paths),
    reader("cmp", "-b -i: -l -n: -s --print-bytes --ignore-initial: --verbose --bytes: --quiet --silent", Paths),
    reader(
        "diff",
        "-q -s -c -C: -u -U: -e -n -y -W: -p -t -i -E -Z -b -w -B -I: -a -d -# --normal --brief --report-identical-files \
         --unified= --context= --side-by-side --width: --suppress-common-lines --color= --ignore-case --ignore-all-space \
         --ignore-space-change --ignore-blank-lines --ignore-trailing-space --text --minimal --strip-trailing-cr --label:",
        Files,
    ),
    reader("grep", GREP, TextThenPaths),
    reader("egrep", GREP, TextThenPaths),
    reader("fgrep", GREP, TextThenPaths),
    mixed(Program {
        default: Default::Tree,
        ..reader(
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
    mixed(reader(
        "sort",
        "-b -d -f -g -h -i -M -n -R -r -V -c -C -k: -m -s -t: -u -z --ignore-leading-blanks --dictionary-order \
         --ignore-case --general-numeric-sort --human-numeric-sort --numeric-sort --reverse --version-sort --check= --key: \
         --merge --stable --field-separator: --unique --zero-terminated",
        Paths,
    )),
    mixed(reader(
        "uniq",
        "-c -d -D -f: -i -s: -u -z -w: --count --repeated --all-repeated= --skip-fields: --group= --ignore-case \
         --skip-chars: --unique --zero-terminated --check-chars:",
        OnePath,
    )),
    reader("tr", "-c -C -d -s -t --complement --delete --squeeze-repeats --truncate-set1", Texts),
    mixed(reader(
        "sed",
        "-n -e:! -E -r -s -u -z --quiet --silent --expression:! --regexp-extended --separate --null-data",
        TextThenPaths,
    )),
    reader(
        "jq",
        "-c -r -j -a -s -S -C -M -n -e -R --compact-output --raw-output --join-output --ascii-output --slurp --sort-keys \
         --color-output --monochrome-output --null-input --exit-status --raw-input --tab --indent:",
        TextThenPaths,
    ),
    reader("md5sum", SUM, Paths),
    reader("sha1sum", SUM, Paths),
    reader("sha224sum", SUM, Paths),
    reader("sha256sum", SUM, Paths),
    reader("sha384sum", SUM, Paths),
    reader("sha512sum", SUM, Paths),
    reader("b2sum", SUM, Paths),
    reader("shasum", "-a: -b -t --algorithm: --binary --text", Paths),
    reader("cksum", "", Paths),
    reader("hexdump", "-b -c -C -d -o -x -v -n: -s: --canonical --length: --skip: --no-squeezing", Paths),
    reader(
        "od",
        "-A: -j: -N: -t: -v -a -b -c -d -f -i -l -o -s -x -w= --address-radix: --skip-bytes: --read-bytes: --format:",
        Paths,
    ),
    // It looks at the first letter alone.
    alone("cglos", mixed(reader("xxd", "-a -b -c: -C -e -g: -i -l: -n: -o: -p -s: -u", OnePath))),
    reader("strings", "-a -f -n: -t: -e: -o -w -# --all --print-file-name --bytes: --radix: --encoding:", Paths),
    mixed(reader(
        "file",
        "-b -i -I -k -N -r -h -F: --brief --mime --mime-type --mime-encoding --extension --keep-going --no-dereference",
        Paths,
    )),
    lister(
        "ls",
        "-a -A -b -B -c -C -d -f -F -g -G -h -i -I@ -k -l -m -n -N -o -p -q -Q -r -R -s -S -t -T -u -U -v -w@ -x -X -Z -1 -@ \
         -O --all --almost-all --author --escape --block-size: --color= --directory --classify= --file-type --format: \
         --full-time --group-directories-first --no-group --human-readable --si --inode --ignore: --hide: --kibibytes \
         --numeric-uid-gid --literal --quote-name --quoting-style: --reverse --recursive --size --sort: --time: --time-style: \
         --width: --zero --version --help",
        Paths,
    ),
    // Letters with a value take the next words, one after the other, also from within a bundle.
    alone(
        "L",
        mixed(lister(
            "tree",
            "-a -d -f -x -L: -P: -I: --gitignore --matchdirs --ignore-case --metafirst --prune --info --noreport --charset: \
         --filelimit: -q -N -Q -p -u -g -s -h --si --du -D --timefmt: -F --inodes --device -v -t -c -U -r --dirsfirst \
         --filesfirst --sort: -i -A -S -n -C -X -J --version --help",
            Paths,
        )),
    ),
    lister(
        "du",
        "-0 -a -A -b -c -d: -h -k -m -g -s -S -t: -x -P --all --apparent-size --bytes --total --max-depth: --human-readable --si \
         --summarize --separate-dirs --threshold: --exclude: --one-file-system --time= --time-style: --no-dereference",
        Paths,
    ),
    teller(
        "df",
        "-a -B: -h -H -i -k -l -P -T -t: -x: --all --human-readable --si --inodes --local --portability --print-type --total",
        Paths,
    ),
    teller("stat", "-c: -f -t -x -s -r -l -n --format: --printf: --file-system --terse", Paths),
    teller(
        "readlink",
        "-f -e -m -n -q -s -v -z --canonicalize --canonicalize-existing --canonicalize-missing --no-newline",
        Paths,
    ),
    teller(
        "realpath",
        "-e -m -L -P -q -s -z --canonicalize-existing --canonicalize-missing --logical --physical --quiet --strip \
         --no-symlinks --relative-to@ --relative-base@",
        Paths,
    ),
    teller("basename", "-a -s: -z --multiple --suffix: --zero", Texts),
    teller("dirname", "-z --zero", Texts),
    teller("pwd", "-L -P", NoOperands),
    teller("whoami", "", NoOperands),
    teller("id", "-a -g -G -n -r -u -z --group --groups --name --real --user --zero", Texts),
    teller("groups", "", Texts),
    teller(
        "uname",
        "-a -s -n -r -v -m -p -i -o --all --kernel-name --kernel-release --machine --operating-system",
        NoOperands,
    ),
    teller("arch", "", NoOperands),
    teller("nproc", "--all --ignore:", NoOperands),
    teller("uptime", "-p -s --pretty --since", NoOperands),
    teller("seq", "-f: -s: -w --format: --separator: --equal-width", Texts),
    teller("expr", "", Texts),
    teller("which", "-a -s --all", Texts),
    teller("type", "-a -t -p -P -f", Texts),
    teller("true", "", Texts),
    teller("false", "", Texts),
    teller(":", "", Texts),
    mixed(lister(
        "fd",
        "-H -I -u -s -i -g -F -a -p -d: -t: -e: -E: -S: -c: -1 -0 --hidden --no-ignore --no-ignore-vcs --unrestricted \
         --case-sensitive --ignore-case --glob --regex --fixed-strings --absolute-path --full-path --max-depth: --min-depth: \
         --exact-depth: --type: --extension: --exclude: --size: --changed-within: --changed-before: --color: --max-results: \
         --print0 --version --help",
        TextThenPaths,
    )),
];
