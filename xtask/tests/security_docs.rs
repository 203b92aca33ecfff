//! Checks the facts in `docs/security.md` that a machine can check.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may panic")]

use std::collections::BTreeSet;

use xtask::workspace::Workspace;

/// Crates that compile C or assembly depend on one of these.
const NATIVE_BUILDERS: [&str; 2] = ["cc", "cmake"];

fn read(name: &str) -> String {
    std::fs::read_to_string(Workspace::load().unwrap().root.join(name)).unwrap()
}

/// Returns the cells of a Markdown table row, without the empty ones at its ends.
fn cells(line: &str) -> Vec<&str> {
    line.trim().trim_matches('|').split(" | ").map(str::trim).collect()
}

#[test]
fn every_dependency_with_native_code_is_listed() {
    let lock: toml::Table = read("Cargo.lock").parse().unwrap();
    let text = |value: &toml::Value| value.as_str().unwrap().to_owned();
    let is_native = |package: &&toml::Value| {
        let dependencies = package.get("dependencies").and_then(toml::Value::as_array);
        dependencies.into_iter().flatten().any(|name| {
            let name = text(name);
            NATIVE_BUILDERS.contains(&name.split(' ').next().unwrap())
        })
    };
    let packages = lock["package"].as_array().unwrap().iter();
    let native: BTreeSet<(String, String)> = packages
        .filter(is_native)
        .map(|package| (text(&package["name"]), text(&package["version"])))
        .filter(|(name, _)| !NATIVE_BUILDERS.contains(&name.as_str()))
        .collect();
    assert!(!native.is_empty(), "SQLite is built from C");

    let page = read("docs/security.md");
    let listed: BTreeSet<(String, String)> = page
        .lines()
        .skip_while(|line| *line != "## Dependencies")
        .filter(|line| line.starts_with("| `"))
        .map(|line| {
            let cells = cells(line);
            (cells[0].trim_matches('`').to_owned(), cells[1].to_owned())
        })
        .collect();
    assert_eq!(listed, native, "docs/security.md lists every dependency that builds native code");
}

/// `crates/hostler/tests/it/trust.rs::name` in a row names a Rust test; in a TypeScript file the name is the test's
/// title.
#[test]
fn every_test_in_the_threat_model_exists() {
    let root = Workspace::load().unwrap().root;
    let page = read("docs/security.md");
    let mut missing = Vec::new();
    let mut found = 0;
    for reference in page.split('`').skip(1).step_by(2).filter(|code| code.contains("::") && code.contains('/')) {
        let (file, name) = reference.split_once("::").unwrap();
        let text = std::fs::read_to_string(root.join(file)).unwrap_or_default();
        let wanted = if file.ends_with(".rs") { format!("fn {name}(") } else { name.to_owned() };
        if text.contains(&wanted) {
            found += 1;
        } else {
            missing.push(reference);
        }
    }
    assert!(missing.is_empty(), "docs/security.md names tests that do not exist: {missing:#?}");
    assert!(found >= 40, "docs/security.md names only {found} tests");
}

/// Every row of a table with a column `test` names a test: a Rust function with a test attribute or in a list of cases,
/// or a title in a TypeScript file.
#[test]
fn every_row_of_the_threat_model_names_a_test() {
    let page = read("docs/security.md");
    let (mut wrong, mut has_tests) = (Vec::new(), false);
    for line in page.lines() {
        let is_header = line.ends_with("| test |");
        has_tests = line.starts_with('|') && (has_tests || is_header);
        if !has_tests || is_header || line.starts_with("|---") {
            continue;
        }
        let cells = cells(line);
        let last = cells.last().copied().unwrap_or_default();
        let tests: Vec<_> = last.split('`').skip(1).step_by(2).filter_map(|code| code.split_once("::")).collect();
        if tests.is_empty() {
            wrong.push(format!("no test: {line}"));
        }
        let not_a_test = tests.iter().filter(|(file, name)| !is_test(file, name));
        wrong.extend(not_a_test.map(|(file, name)| format!("not a test: {file}::{name}")));
    }
    assert!(wrong.is_empty(), "docs/security.md: {wrong:#?}");
}

fn is_test(file: &str, name: &str) -> bool {
    let text = read(file);
    if !file.ends_with(".rs") {
        return ["'", "\"", "`"].iter().any(|quote| text.contains(&format!("{quote}{name}{quote}")));
    }
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    // The tests of the protocol are lists of functions: `area! { …; name, … }`.
    let is_case = lines.iter().any(|line| line.starts_with("area!")) && lines.contains(&format!("{name},").as_str());
    let declaration = format!("fn {name}(");
    lines.iter().enumerate().filter(|(_, line)| line.contains(&declaration)).any(|(at, _)| {
        let mut attributes = lines.iter().take(at).rev().take_while(|line| line.starts_with("#["));
        is_case || attributes.any(|line| line.starts_with("#[test]") || line.starts_with("#[tokio::test"))
    })
}
