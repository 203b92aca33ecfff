//! Project rules as tests: layers of crates, unsafe code, file sizes, machine paths, language.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may panic")]

#[path = "tidy/language.rs"]
mod language;
#[path = "tidy/source_files.rs"]
mod source_files;

use std::collections::BTreeSet;

use source_files::{SourceFile, find, sources};
use xtask::workspace::Workspace;

/// Which crate may depend on which, from the bottom up. Dev-dependencies are not restricted.
const LAYERS: [(&str, &[&str]); 25] = [
    ("hostler-redact", &[]),
    ("hostler-telemetry", &[]),
    ("hostler-net", &[]),
    ("hostler-statefile", &["hostler-redact"]),
    ("hostler-process", &[]),
    ("hostler-rules", &["hostler-statefile"]),
    ("hostler-attachments", &[]),
    ("hostler-files", &[]),
    ("hostler-terminal", &[]),
    ("hostler-driver", &["hostler-attachments", "hostler-redact"]),
    ("hostler-trust", &["hostler-driver", "hostler-statefile"]),
    ("hostler-claude", &["hostler-attachments", "hostler-driver", "hostler-process"]),
    ("hostler-gateway", &["hostler-net", "hostler-redact"]),
    ("hostler-gateway-copilot", &["hostler-gateway", "hostler-redact"]),
    ("hostler-gateway-openai", &["hostler-gateway", "hostler-redact"]),
    ("hostler-gateway-scripted", &["hostler-gateway", "hostler-redact"]),
    ("hostler-store", &["hostler-redact"]),
    ("hostler-search", &[]),
    (
        "hostler-engine",
        &[
            "hostler-attachments",
            "hostler-driver",
            "hostler-files",
            "hostler-redact",
            "hostler-rules",
            "hostler-search",
            "hostler-store",
            "hostler-terminal",
            "hostler-trust",
        ],
    ),
    ("hostler-ahp", &["hostler-engine", "hostler-net", "hostler-redact", "hostler-telemetry"]),
    ("hostler-web", &[]),
    (
        "hostler-cli",
        &[
            "hostler-attachments",
            "hostler-driver",
            "hostler-process",
            "hostler-redact",
            "hostler-rules",
            "hostler-telemetry",
            "hostler-trust",
        ],
    ),
    (
        "hostler",
        &[
            "hostler-ahp",
            "hostler-claude",
            "hostler-cli",
            "hostler-driver",
            "hostler-engine",
            "hostler-gateway",
            "hostler-gateway-copilot",
            "hostler-gateway-openai",
            "hostler-gateway-scripted",
            "hostler-process",
            "hostler-redact",
            "hostler-terminal",
            "hostler-telemetry",
            "hostler-web",
        ],
    ),
    ("hostler-testkit", &["hostler-attachments", "hostler-driver", "hostler-process"]),
    ("xtask", &[]),
];

/// External crates that belong to a layer, and the crates that may use them.
const EXTERNAL_CRATE_USERS: [(&str, &[&str]); 10] = [
    ("ahp", &["hostler-engine", "hostler-testkit"]),
    ("ahp-types", &["hostler-store", "hostler-engine", "hostler-ahp", "hostler-cli", "hostler-testkit"]),
    ("ahp-ws", &["hostler-testkit"]),
    ("rusqlite", &["hostler-store", "hostler-search"]),
    ("reqwest", &["hostler-gateway"]),
    ("clap", &["hostler-cli", "xtask"]),
    ("brush-parser", &["hostler-rules"]),
    ("image", &["hostler-attachments"]),
    ("lopdf", &["hostler-attachments"]),
    ("rust-embed", &["hostler-web"]),
];

/// The only crate with unsafe code, for the operating system.
const UNSAFE_CRATE: &str = "hostler-process";

const MAX_FILE_LINES: usize = 900;

fn workspace() -> Workspace {
    Workspace::load().unwrap()
}

fn assert_none(what: &str, found: &[String]) {
    assert!(found.is_empty(), "{what}:\n  {}", found.join("\n  "));
}

#[test]
fn dependencies_point_down_only() {
    let mut wrong = Vec::new();
    for package in workspace().packages {
        let Some((_, allowed)) = LAYERS.iter().find(|(name, _)| *name == package.name) else {
            wrong.push(format!("{} has no place in the table of layers", package.name));
            continue;
        };
        let ours = package.dependency_names().filter(|name| LAYERS.iter().any(|(layer, _)| layer == name));
        let ours: Vec<_> = ours.collect();
        let unexpected = ours.iter().filter(|name| !allowed.contains(name));
        wrong.extend(unexpected.map(|name| format!("{} uses {name}", package.name)));
        // The table must not allow dependencies that do not exist.
        let unused = allowed.iter().filter(|name| !ours.contains(name));
        wrong.extend(unused.map(|name| format!("{} does not use {name}", package.name)));
    }
    assert_none("edges that differ from the table of layers", &wrong);
}

#[test]
fn external_crates_are_used_only_by_their_layer() {
    let (mut wrong, mut unused) = (Vec::new(), BTreeSet::<(&str, &str)>::new());
    for (outside, knowing) in EXTERNAL_CRATE_USERS {
        unused.extend(knowing.iter().map(|name| (*name, outside)));
    }
    let workspace = workspace();
    for package in &workspace.packages {
        for name in package.dependency_names() {
            unused.remove(&(package.name.as_str(), name));
            let known = EXTERNAL_CRATE_USERS.iter().find(|(outside, _)| *outside == name);
            if known.is_some_and(|(_, knowing)| !knowing.contains(&package.name.as_str())) {
                wrong.push(format!("{} uses {name}", package.name));
            }
        }
    }
    wrong.extend(unused.iter().map(|(name, outside)| format!("{name} does not use {outside}")));
    assert_none("knowledge in the wrong place", &wrong);
}

#[test]
fn every_crate_has_a_description_and_a_license() {
    let mut wrong = Vec::new();
    for package in workspace().packages {
        if package.license.as_deref() != Some("MIT OR Apache-2.0") {
            wrong.push(format!("{} has another license or none", package.name));
        }
        if package.description.is_none_or(|description| description.is_empty()) {
            wrong.push(format!("{} has no description", package.name));
        }
    }
    assert_none("manifests to complete", &wrong);
}

#[test]
fn documented_crate_list_is_complete() {
    let workspace = workspace();
    let list = std::fs::read_to_string(workspace.root.join("crates/README.md")).unwrap();
    let listed: BTreeSet<&str> = list.lines().filter_map(|line| line.strip_prefix("* `")?.split('`').next()).collect();
    let existing: BTreeSet<&str> = workspace.packages.iter().map(|package| package.name.as_str()).collect();
    assert_eq!(listed, existing, "crates/README.md has one line `* `name`: …` per crate");
}

#[test]
fn unsafe_code_is_forbidden_outside_one_crate() {
    let mut wrong = Vec::new();
    for package in workspace().packages.iter().filter(|package| package.name != UNSAFE_CRATE) {
        let roots = ["src/lib.rs", "src/main.rs"].map(|root| package.directory().join(root));
        for root in roots.iter().filter(|root| root.exists()) {
            if !std::fs::read_to_string(root).unwrap().contains("#![forbid(unsafe_code)]") {
                wrong.push(root.display().to_string());
            }
        }
    }
    assert_none("crate roots without #![forbid(unsafe_code)]", &wrong);
}

#[test]
fn no_file_exceeds_the_size_limit() {
    let long = |source: &SourceFile| {
        let lines = source.text.lines().count();
        (source.is_rust() && lines > MAX_FILE_LINES).then(|| format!("{}: {lines} lines", source.name))
    };
    assert_none("files to split", &sources().iter().filter_map(long).collect::<Vec<_>>());
}

/// `cargo xtask test` runs no doctests: each crate would be linked once more.
#[test]
fn documentation_contains_no_doctests() {
    let mut found = Vec::new();
    for source in sources().iter().filter(|source| source.is_rust()) {
        let mut is_open = false;
        for (number, line) in (1..).zip(source.text.lines()) {
            let comment = line.trim_start().strip_prefix("///").or_else(|| line.trim_start().strip_prefix("//!"));
            let Some(info) = comment.and_then(|comment| comment.trim().strip_prefix("```")) else { continue };
            is_open = !is_open;
            if is_open && ["", "rust", "no_run", "should_panic"].contains(&info) {
                found.push(format!("{}:{number}", source.name));
            }
        }
    }
    assert_none("examples that nothing runs: write a test, or mark the text as `text`", &found);
}

#[test]
fn no_todo_macros_remain() {
    // In two pieces, so that this file does not match itself.
    let mark = concat!("todo", "!(");
    assert_none("unfinished code", &find(&sources(), |source| source.is_rust(), &[mark]));
}

#[test]
fn no_machine_paths_are_in_the_project() {
    let anywhere = [concat!("/wo", "rk/")];
    assert_none("paths of a developer's machine", &find(&sources(), |_| true, &anywhere));

    let temporary = concat!("\"/t", "mp/");
    let product = |source: &SourceFile| source.is_rust() && !source.is_test();
    assert_none("temporary paths that are not asked for", &find(&sources(), product, &[temporary]));
}

/// A file in a shared directory has an unpredictable name, or is checked (CVE-2026-46406). Each place that uses
/// such a directory is listed here.
#[test]
fn shared_temporary_directories_are_used_in_listed_places_only() {
    let known = ["crates/hostler-cli/src/environment.rs", "crates/hostler-process/src/runtime_dir.rs"];
    let product = |source: &SourceFile| source.is_rust() && !source.is_test() && !known.contains(&source.name.as_str());
    let product = |source: &SourceFile| {
        source.name.starts_with("crates/")
            && !["/benches/", "/fuzzing/"].iter().any(|part| source.name.contains(part))
            && product(source)
    };
    let needles =
        [concat!("temp_", "dir()"), concat!("\"/t", "mp\""), concat!("\"/var/t", "mp"), concat!("\"/dev/s", "hm")];
    assert_none("shared temporary directories", &find(&sources(), product, &needles));
    // These make a predictable name, or put the file into the shared directory implicitly.
    let makers =
        [concat!("tempfile::temp", "dir()"), concat!("NamedTempFile::n", "ew()"), concat!("tempfile::temp", "file()")];
    assert_none("temporary files in no directory of their own", &find(&sources(), product, &makers));
}
