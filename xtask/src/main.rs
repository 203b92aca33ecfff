//! `cargo xtask demo|install|setup|test|fuzz|soak|smoke|vscode|web|chaos|bench`.

#![forbid(unsafe_code)]
#![expect(clippy::print_stderr, reason = "command line program")]

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Project automation.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Builds Hostler with its page and runs its demo; everything after `demo` goes to `hostler demo`.
    #[command(disable_help_flag = true)]
    Demo {
        /// Passed on.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<std::ffi::OsString>,
    },
    /// Installs Hostler for this user, with its page inside.
    Install(xtask::install::Options),
    /// Fetches what the tests need, for running them with cargo's own commands: tools, the page, agents, SDKs.
    Setup,
    /// Runs every check: tools, page, build, agents, SDKs, format, lints, docs, tests, doctests, browser, leaks.
    Test(xtask::test::Options),
    /// Throws random bytes at the parsers for a bounded time.
    Fuzz(xtask::fuzz::Options),
    /// Makes very many requests to the gateway, with faults, and checks that nothing is left of them.
    Soak(xtask::soak::Options),
    /// Shows a picture to a real model and asks for its colour: needs a key, and never runs by itself.
    Smoke(xtask::smoke::Options),
    /// Opens VS Code's workbench on a host of its own, drives it like a person, and keeps screenshots.
    Vscode(xtask::vscode::Options),
    /// Builds the web page into `web/dist`, checks it, drives it in a browser, or takes its picture.
    Web(xtask::web::Options),
    /// Breaks the host, its agents, its disk and its connections at random moments, and checks what was promised.
    Chaos(xtask::chaos::Options),
    /// Runs a benchmark in the release profile and prints it beside its floor; without a name, lists them.
    Bench(xtask::bench::Options),
}

fn main() -> ExitCode {
    run(Arguments::parse().command).unwrap_or_else(|error| {
        eprintln!("{error:#}");
        ExitCode::FAILURE
    })
}

fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Demo { arguments } => xtask::demo::run(&arguments),
        Command::Install(options) => xtask::install::run(&options),
        Command::Setup => xtask::setup::run(),
        Command::Test(options) => xtask::test::run(&options),
        Command::Fuzz(options) => xtask::fuzz::run(&options),
        Command::Smoke(options) => xtask::smoke::run(&options),
        Command::Vscode(options) => xtask::vscode::run(&options),
        Command::Web(options) => xtask::web::run(&options),
        Command::Soak(options) => xtask::soak::run(&options),
        Command::Chaos(options) => xtask::chaos::run(&options),
        Command::Bench(options) => xtask::bench::run(&options),
    }
}
