//! The command line of `cargo xtask`: one subcommand per module of the library.

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
    /// Builds Hostler with the web page and runs `hostler demo` with the given arguments.
    #[command(disable_help_flag = true)]
    Demo {
        /// Arguments of `hostler demo`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<std::ffi::OsString>,
    },
    /// Installs `hostler`, including the web page, with `cargo install`.
    Install(xtask::install::Options),
    /// Installs what the tests need, so that `cargo test` works: tools, the web page, agents, SDKs.
    Setup,
    /// Runs every check: format, lints, docs, tests, the web page in a browser, leaked processes and files.
    Test(xtask::test::Options),
    /// Fuzzes the parsers for a limited time.
    Fuzz(xtask::fuzz::Options),
    /// Sends many requests with faults through the gateway and checks that no resource leaks.
    Soak(xtask::soak::Options),
    /// Sends an image to a real model and checks the answer; needs a key and is not part of `test`.
    Smoke(xtask::smoke::Options),
    /// Runs VS Code's workbench in a browser against a temporary host and saves screenshots.
    Vscode(xtask::vscode::Options),
    /// Builds the web page into `web/dist`, checks it, tests it in a browser, or takes screenshots.
    Web(xtask::web::Options),
    /// Records the animation in the README from the web page of a temporary host.
    Recording(xtask::recording::Options),
    /// Injects faults into host, agents, disk and connections at random times and checks that no accepted change is lost.
    Chaos(xtask::chaos::Options),
    /// Runs a benchmark in the release profile and prints it beside its baseline; lists the benchmarks without a name.
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
        Command::Recording(options) => xtask::recording::run(&options),
        Command::Soak(options) => xtask::soak::run(&options),
        Command::Chaos(options) => xtask::chaos::run(&options),
        Command::Bench(options) => xtask::bench::run(&options),
    }
}
