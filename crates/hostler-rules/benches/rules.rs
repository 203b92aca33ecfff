//! Decisions on command lines: time per decision and per Bash request, beside the shell parser alone, and threads
//! started.
#![allow(clippy::expect_used, clippy::print_stdout, reason = "a benchmark prints its results")]

#[allow(dead_code, unreachable_pub, unused_imports, reason = "shared with the benchmarks of other crates")]
#[path = "../../hostler-testkit/src/benchmark_table.rs"]
mod benchmark_table;

use std::path::Path;
use std::thread::ThreadId;
use std::time::Instant;

use benchmark_table::{BenchmarkRow, BenchmarkTable, median, percentile};
use brush_parser::{ParserOptions, TokenizerOptions};
use hostler_rules::{
    DiskResolver, Effect, PermissionMode, Rule, RuleScope, RuleSet, ToolUse, decide_or_ask, suggest_additional_rules,
};
use serde::Deserialize;

const ORDINARY_LINES: usize = 500;
const LONG_LINES: usize = 100;
const ROUNDS: usize = 10;
const LONG_ROUNDS: usize = 2;

/// Design target of the p99 of a decision on an ordinary line.
const TARGET_US: f64 = 1_000.0;

/// Stack of the measuring thread: the parser alone needs it for long lines.
const STACK_BYTES: usize = 64 * 1024 * 1024;

/// The parts of the tests' tables that are measured.
#[derive(Deserialize)]
struct Corpus {
    group: Vec<CorpusGroup>,
}

#[derive(Deserialize)]
struct CorpusGroup {
    lines: Vec<String>,
}

#[derive(Deserialize)]
struct RuleTable {
    allow: Vec<String>,
    ask: Vec<String>,
    deny: Vec<String>,
}

/// Times in µs.
#[derive(Default)]
struct Times {
    parse_alone: Vec<f64>,
    decision: Vec<f64>,
    reevaluation: Vec<f64>,
    request: Vec<f64>,
}

fn main() {
    let measuring = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(run).expect("a thread");
    measuring.join().expect("measured");
}

fn run() {
    let corpus: Corpus = toml::from_str(include_str!("../tests/data/shell-corpus.toml")).expect("the corpus");
    // The parser alone panics on large descriptor numbers.
    let is_safe = |line: &String| !line.split(|c: char| !c.is_ascii_digit()).any(|digits| digits.len() > 9);
    let lines: Vec<String> = corpus.group.into_iter().flat_map(|group| group.lines).filter(is_safe).collect();
    let ordinary: Vec<String> =
        (0..ORDINARY_LINES).filter_map(|at| lines.get(at * lines.len() / ORDINARY_LINES).cloned()).collect();
    let long = long_lines(&lines);
    let rules = rules();
    // The lines also name the parent directory, whose size must not matter.
    let home = tempfile::tempdir().expect("a directory");
    let project = home.path().join("me/project");
    std::fs::create_dir_all(&project).expect("a project");
    println!(
        "{} ordinary lines of {:.0} bytes and {} long ones of {:.0} bytes (p50), {} rules, {ROUNDS} and {LONG_ROUNDS} rounds\n",
        ordinary.len(),
        median(&sizes(&ordinary)),
        long.len(),
        median(&sizes(&long)),
        rules.len()
    );
    measure(&ordinary, ROUNDS, &rules, &project);
    let before = thread_count();
    let on_ordinary = measure(&ordinary, ROUNDS, &rules, &project);
    let on_long = measure(&long, LONG_ROUNDS, &rules, &project);
    let requests = ROUNDS * ordinary.len() + LONG_ROUNDS * long.len();
    let threads = (thread_count() - before - 1) as f64 / requests as f64;

    let mut table = BenchmarkTable::default();
    for (name, times, target) in [("ordinary", &on_ordinary, Some(TARGET_US)), ("long", &on_long, None)] {
        for (percent, target) in [(50, None), (99, target)] {
            let mut row = |metric: &str, values: &[f64], target| {
                let parser = ("parser alone".to_owned(), percentile(&times.parse_alone, percent));
                table.rows.push(BenchmarkRow {
                    metric: format!("{metric}, {name} line, p{percent}"),
                    unit: "µs",
                    hostler: percentile(values, percent),
                    baseline: Some(parser),
                    target,
                });
            };
            row("decision", &times.decision, target);
            row("decision again, other rules", &times.reevaluation, None);
            row("whole request", &times.request, None);
        }
    }
    let mut row = |metric: &str, unit, hostler, target| {
        table.rows.push(BenchmarkRow { metric: metric.to_owned(), unit, hostler, baseline: None, target });
    };
    row("decision, slowest of 12 lines near the parser's limits", "µs", slowest(&rules, &project), None);
    row("threads started per request", "", threads, Some(0.0));
    println!("{table}");
}

/// Lines of 1 to 8 KiB: ordinary lines one after the other.
fn long_lines(lines: &[String]) -> Vec<String> {
    // Lines that are open at their end would hide the following ones.
    let whole: Vec<&String> = lines.iter().filter(|line| !line.contains(['\n', '#', '\\']) && parse(line)).collect();
    let long = |number: usize| {
        let bytes = 1024 + 7 * 1024 * number / LONG_LINES;
        let mut line = String::new();
        for part in whole.iter().cycle().skip(number * whole.len() / LONG_LINES) {
            if line.len() >= bytes {
                break;
            }
            line.push_str(part);
            line.push('\n');
        }
        line
    };
    (0..LONG_LINES).map(long).collect()
}

fn sizes(lines: &[String]) -> Vec<f64> {
    lines.iter().map(|line| line.len() as f64).collect()
}

fn rules() -> RuleSet {
    let table: RuleTable = toml::from_str(include_str!("../tests/command_lines.toml")).expect("the rules");
    let mut rules = RuleSet::default();
    for (effect, texts) in [(Effect::Allow, table.allow), (Effect::Ask, table.ask), (Effect::Deny, table.deny)] {
        for text in texts {
            rules.add(Rule::parse(effect, RuleScope::Global, &text).expect("a rule")).expect("there is room");
        }
    }
    rules
}

fn measure(lines: &[String], rounds: usize, rules: &RuleSet, project: &Path) -> Times {
    let mut times = Times::default();
    let mut more_rules = rules.clone();
    let rule = Rule::parse(Effect::Allow, RuleScope::Session, "Bash(make:*)").expect("a rule");
    more_rules.add(rule).expect("there is room");
    for _ in 0..rounds {
        for line in lines {
            let started = Instant::now();
            std::hint::black_box(parse(line));
            times.parse_alone.push(elapsed_us(started));

            // What the host does with a request: the hook's decision, the request's decision and its options, and the
            // check of the answer.
            let started = Instant::now();
            let call = ToolUse::shell(line, project).with_home(project);
            let decide = |rules| {
                std::hint::black_box(decide_or_ask(rules, PermissionMode::Default, &call, None, &DiskResolver));
            };
            decide(rules);
            times.decision.push(elapsed_us(started));
            let again = Instant::now();
            decide(&more_rules);
            times.reevaluation.push(elapsed_us(again));
            std::hint::black_box(suggest_additional_rules(rules, &call, RuleScope::Session, &DiskResolver));
            decide(rules);
            times.request.push(elapsed_us(started));
        }
    }
    times
}

/// The time of the slowest decision on lines that use up one or two of the parser's limits. Others may take longer.
fn slowest(rules: &RuleSet, project: &Path) -> f64 {
    let nested = |open: &str, middle: &str, close: &str, times: usize| {
        format!("{}{middle}{}", open.repeat(times), close.repeat(times))
    };
    let many = "ls a; ".repeat(500);
    let words = "word ".repeat(8_000);
    let lines = [
        nested("(", &many, ")", 8),
        nested("( ", &words, " )", 8),
        nested("case x in a) ", &many, " esac; ", 8),
        nested("case x in a) ", &nested("(", &"word ".repeat(800), ")", 8), " esac; ", 8),
        nested("case x in a) ", &nested("(", "word", ")", 5), " esac; ", 5),
        nested("{ ", &many, "; }", 120),
        nested("if ls; then ", &words, "; fi", 120),
        nested("echo $(", &words, ")", 7),
        nested("echo \"$(", &many, ")\"", 7),
        format!("echo '{}'", "a".repeat(60 * 1024)),
        format!("cat <<'E'\n{}\nE\n", "a b\n".repeat(15_000)),
        "ls $(pwd); ".repeat(250),
    ];
    let mut times = Vec::new();
    for line in &lines {
        let started = Instant::now();
        let call = ToolUse::shell(line, project).with_home(project);
        std::hint::black_box(decide_or_ask(rules, PermissionMode::Default, &call, None, &DiskResolver));
        times.push(elapsed_us(started));
    }
    percentile(&times, 100)
}

/// The baseline: the shell parser alone. Returns whether the line is complete.
fn parse(line: &str) -> bool {
    let tokenizing = TokenizerOptions { enable_extended_globbing: false, posix_mode: false, sh_mode: false };
    let parsing = ParserOptions { enable_extended_globbing: false, ..ParserOptions::default() };
    let tokens = brush_parser::uncached_tokenize_str(line, &tokenizing);
    tokens.is_ok_and(|tokens| brush_parser::parse_tokens(&tokens, &parsing).is_ok())
}

fn elapsed_us(from: Instant) -> f64 {
    from.elapsed().as_secs_f64() * 1_000_000.0
}

/// The number of threads that this process has started, including this probe: ids are assigned in sequence.
fn thread_count() -> u64 {
    let id: ThreadId = std::thread::spawn(|| std::thread::current().id()).join().expect("a thread");
    let text = format!("{id:?}");
    text.trim_start_matches("ThreadId(").trim_end_matches(')').parse().expect("a number")
}
