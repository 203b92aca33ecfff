//! Parsing, printing and matching of path patterns.

use std::path::{Path, PathBuf};

use super::{PathPattern, PatternBases};

fn matches(pattern: &str, path: &str, below: bool) -> bool {
    let (workspace, home) = ([PathBuf::from("/w")], [PathBuf::from("/home/me")]);
    let ground = PatternBases { workspace: &workspace, home: &home };
    PathPattern::parse(pattern).unwrap().matches(Path::new(path), &ground, below)
}

#[test]
fn patterns_match_expected_paths() {
    for (pattern, path, wanted) in [
        ("src/**", "/w/src/a/b", true),
        ("src/**", "/w/src", true),
        ("src/**", "/w/srcs/a", false),
        ("src/*", "/w/src/a", true),
        ("src/*", "/w/src/a/b", false),
        ("src/", "/w/src/a/b", true),
        ("./a", "/w/a", true),
        ("./a", "/w/b/a", false),
        ("a", "/w/b/a", true),
        ("a", "/x/a", false),
        ("*.pem", "/w/x/y.pem", true),
        ("*.pem", "/w/x/y.pem.txt", false),
        ("**/a/**/b", "/w/x/a/y/z/b", true),
        ("a/?.rs", "/w/a/b.rs", true),
        ("a/?.rs", "/w/a/bc.rs", false),
        ("~/x/**", "/home/me/x/y", true),
        ("~", "/home/me/x", true),
        ("//etc/*", "/etc/hosts", true),
        ("//", "/anything/at/all", true),
        ("**", "/w/a/b", true),
        ("**", "/x", false),
        ("app/[id]/p.ts", "/w/app/[id]/p.ts", true),
        ("app/[id]/p.ts", "/w/app/i/p.ts", false),
        (r"a\*", "/w/a*", true),
        (r"a\*", "/w/ab", false),
    ] {
        assert_eq!(matches(pattern, path, false), wanted, "{pattern} {path}");
    }
}

#[test]
fn descendants_match_only_if_included() {
    assert!(matches("secrets", "/w/a/secrets/b", true));
    assert!(!matches("secrets", "/w/a/secrets/b", false));
    assert!(matches("src/*", "/w/src/a/b", true));
    assert!(!matches("src/*", "/w/src", true));
}

#[test]
fn ambiguous_patterns_are_refused_with_a_position() {
    for (pattern, at) in [("/etc/x", 0), ("a/../b", 2), ("a/b**", 2), ("~you/x", 1), ("", 0), ("a\\", 0), ("b/\\.", 2)]
    {
        assert_eq!(PathPattern::parse(pattern).unwrap_err().0, at, "{pattern}");
    }
}

#[test]
fn many_stars_do_not_slow_matching() {
    let pattern = "*a".repeat(500);
    assert!(!matches(&pattern, &format!("/w/{}", "a".repeat(250) + &"b".repeat(2_000)), true));
}
