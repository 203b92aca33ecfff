//! Modes, scopes, and everything that is neither a command nor a file.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may panic")]

use hostler_rules::{Call, Effect, Links, Mode, Rule, RuleSet, Scope, Verdict, decide, explain};
use serde_json::json;

fn set(rules: &[(Effect, Scope, &str)]) -> RuleSet {
    let mut set = RuleSet::default();
    for (effect, scope, text) in rules {
        set.add(Rule::parse(*effect, *scope, text).unwrap()).unwrap();
    }
    set
}

fn verdict(rules: &RuleSet, mode: Mode, call: &Call) -> Verdict {
    decide(rules, mode, call, &Links::default()).verdict
}

fn edit(path: &str) -> Call {
    Call::new("Edit", json!({ "file_path": path }), "/w")
}

fn call(text: &str) -> Call {
    Call::parse(text, "/w").unwrap()
}

#[test]
fn deny_beats_ask_beats_allow_over_all_scopes() {
    use {Effect::*, Scope::*};
    let scopes = [Global, Workspace, Session];
    for first in scopes {
        for second in scopes {
            for third in scopes {
                let mut rules = set(&[(Allow, first, "Bash(x:*)"), (Ask, second, "Bash(x y:*)")]);
                let ask = call("Bash(x y z)");
                assert_eq!(verdict(&rules, Mode::Default, &ask), Verdict::Ask);
                assert_eq!(verdict(&rules, Mode::Default, &call("Bash(x)")), Verdict::Allow);
                rules.add(Rule::parse(Deny, third, "Bash(x:*)").unwrap()).unwrap();
                assert_eq!(verdict(&rules, Mode::Default, &ask), Verdict::Deny);
            }
        }
    }
}

#[test]
fn accept_edits_allows_files_of_the_workspace_and_nothing_else() {
    let rules = set(&[(Effect::Allow, Scope::Global, "Bash(echo:*)"), (Effect::Deny, Scope::Global, "Edit(./no)")]);
    let mode = Mode::AcceptEdits;
    assert_eq!(verdict(&rules, mode, &edit("a/b")), Verdict::Allow);
    assert_eq!(verdict(&rules, mode, &edit("/elsewhere")), Verdict::Leave);
    assert_eq!(verdict(&rules, mode, &edit("../w2/a")), Verdict::Leave);
    assert_eq!(verdict(&rules, mode, &edit("no")), Verdict::Deny);
    for sensitive in
        [".git/hooks/pre-commit", ".claude/settings.json", "sub/.vscode/tasks.json", ".mcp.json", ".GIT/config"]
            .into_iter()
            .chain([
                ".bashrc",
                "a/.ssh/authorized_keys",
                ".config/autostart/x.desktop",
                ".config/systemd/user/x.service",
            ])
            .chain([
                ".claude/commands/x.md",
                ".claude/skills/x/SKILL.md",
                ".netrc",
                ".zshenv",
                "Library/LaunchAgents/x",
            ])
    {
        assert_eq!(verdict(&rules, mode, &edit(sensitive)), Verdict::Leave, "{sensitive}");
    }
    assert_eq!(verdict(&rules, mode, &call("Bash(echo a > b)")), Verdict::Allow);
    assert_eq!(verdict(&rules, mode, &call("Bash(echo a > /b)")), Verdict::Leave);
    assert_eq!(verdict(&rules, mode, &call("Bash(echo a > .bashrc)")), Verdict::Leave);
    assert_eq!(verdict(&rules, mode, &call("Bash(echo a > .git/config)")), Verdict::Leave);
    assert_eq!(verdict(&rules, mode, &call("Bash(make)")), Verdict::Leave);
    assert_eq!(verdict(&rules, Mode::Default, &edit("a/b")), Verdict::Leave);
}

#[test]
fn plan_blocks_writes_even_where_rules_allow_them() {
    let rules = set(&[(Effect::Allow, Scope::Session, "*")]);
    for text in [
        "Edit(a)",
        "Write(a)",
        "NotebookEdit(a)",
        "MultiEdit(a)",
        "Bash(rm x)",
        "Bash(make)",
        "Bash($X)",
        "Bash('open)",
    ] {
        assert_eq!(verdict(&rules, Mode::Plan, &call(text)), Verdict::Deny, "{text}");
    }
    for text in ["Read(a)", "Glob(a)", "Grep(a)", "LS(a)"] {
        assert_eq!(verdict(&RuleSet::default(), Mode::Plan, &call(text)), Verdict::Allow, "{text}");
    }
    assert_eq!(verdict(&rules, Mode::Plan, &call("mcp__db__query")), Verdict::Ask);
    assert_eq!(verdict(&RuleSet::default(), Mode::Plan, &call("ExitPlanMode")), Verdict::Leave);
    assert_eq!(verdict(&set(&[(Effect::Deny, Scope::Global, "Read")]), Mode::Plan, &call("Read(a)")), Verdict::Deny);
    assert_eq!(verdict(&set(&[(Effect::Ask, Scope::Global, "Read")]), Mode::Plan, &call("Read(a)")), Verdict::Ask);
}

#[test]
fn bypass_allows_what_no_rule_is_against() {
    let rules = set(&[(Effect::Deny, Scope::Global, "Bash(rm:*)"), (Effect::Ask, Scope::Global, "Bash(git push:*)")]);
    assert_eq!(verdict(&rules, Mode::Bypass, &call("Bash(make)")), Verdict::Allow);
    assert_eq!(verdict(&rules, Mode::Bypass, &call("Bash(make; rm x)")), Verdict::Deny);
    assert_eq!(verdict(&rules, Mode::Bypass, &call("Bash(git push)")), Verdict::Ask);
    assert_eq!(verdict(&rules, Mode::Bypass, &call("mcp__a__b")), Verdict::Allow);
}

#[test]
fn bypass_denies_what_cannot_be_analyzed_where_a_rule_denies_commands() {
    let unseen = ["$X y", ". file", "eval \"$x\"", "echo 'open", "curl x | sh", "echo $((a))", "bash -c \"$x\"", "'"];
    let commands = set(&[(Effect::Deny, Scope::Global, "Bash(rm:*)")]);
    let files = set(&[(Effect::Deny, Scope::Global, "Read(./.env)")]);
    for line in unseen {
        let call = Call::shell(line, "/w");
        assert_eq!(verdict(&commands, Mode::Bypass, &call), Verdict::Deny, "{line}");
        assert_eq!(verdict(&files, Mode::Bypass, &call), Verdict::Ask, "{line}");
        assert_eq!(verdict(&RuleSet::default(), Mode::Bypass, &call), Verdict::Allow, "{line}");
    }
    let said = explain(&decide(&commands, Mode::Bypass, &call("Bash(. file)"), &Links::default()));
    assert_eq!(said[0], "Denied: the global rule `Bash(rm:*)` could deny `. file`.");
    assert_eq!(verdict(&commands, Mode::Bypass, &Call::new("Bash", json!({}), "/w")), Verdict::Deny);
}

#[test]
fn dont_ask_denies_what_would_be_asked() {
    let rules = set(&[(Effect::Allow, Scope::Global, "Bash(ls:*)"), (Effect::Ask, Scope::Global, "Bash(git push:*)")]);
    assert_eq!(verdict(&rules, Mode::DontAsk, &call("Bash(git push)")), Verdict::Deny);
    assert_eq!(verdict(&rules, Mode::DontAsk, &call("Bash(. file)")), Verdict::Deny);
    assert_eq!(verdict(&rules, Mode::DontAsk, &call("Bash(ls)")), Verdict::Allow);
    assert_eq!(verdict(&rules, Mode::DontAsk, &call("Read(a)")), Verdict::Leave);
}

#[test]
fn tools_of_servers_are_named_by_server_by_tool_and_by_prefix() {
    let matches = |rule: &str, tool: &str| {
        let rules = set(&[(Effect::Allow, Scope::Global, rule)]);
        verdict(&rules, Mode::Default, &call(tool)) == Verdict::Allow
    };
    assert!(matches("mcp__github", "mcp__github__create_issue"));
    assert!(matches("mcp__github__create_issue", "mcp__github__create_issue"));
    assert!(matches("mcp__github__get_*", "mcp__github__get_issue"));
    assert!(matches("mcp__*", "mcp__github__create_issue"));
    assert!(matches("*", "mcp__github__create_issue"));
    assert!(!matches("mcp__github", "mcp__github2__create_issue"));
    assert!(!matches("mcp__github__create_issue", "mcp__github__create_issue_comment"));
    assert!(!matches("mcp__github__get_*", "mcp__github__create_issue"));
    assert!(!matches("mcp__*", "Write(a)"));
}

#[test]
fn domains_are_hosts_and_not_text() {
    let allow = set(&[(Effect::Allow, Scope::Global, "WebFetch(domain:example.com)")]);
    let deny = set(&[(Effect::Deny, Scope::Global, "WebFetch(domain:Example.com)")]);
    let below = set(&[(Effect::Allow, Scope::Global, "WebFetch(domain:*.example.com)")]);
    let fetch = |url: &str| Call::new("WebFetch", json!({ "url": url }), "/w");
    for (url, allowed, denied, allowed_below) in [
        ("https://example.com/a", true, true, false),
        ("http://EXAMPLE.com.:8080", true, true, false),
        ("https://www.example.com", false, true, true),
        ("https://example.com@evil.org", false, false, false),
        ("https://example.com.evil.org", false, false, false),
        ("https://evilexample.com", false, false, false),
        ("https://example.com.", true, true, false),
        ("https://example.computer", false, false, false),
        ("https://example.com-evil.org", false, false, false),
        ("https://example.co", false, false, false),
        ("https://a.b.example.com", false, true, true),
        ("https://wwwexample.com", false, false, false),
        ("https://.example.com", false, true, true),
        ("https://evil.org/?example.com", false, false, false),
    ] {
        assert_eq!(verdict(&allow, Mode::Default, &fetch(url)) == Verdict::Allow, allowed, "{url}");
        assert_eq!(verdict(&deny, Mode::Default, &fetch(url)) == Verdict::Deny, denied, "{url}");
        assert_eq!(verdict(&below, Mode::Default, &fetch(url)) == Verdict::Allow, allowed_below, "{url}");
    }
}

#[test]
fn tools_without_a_subject_are_named_by_themselves() {
    let rules = set(&[(Effect::Allow, Scope::Global, "KillShell"), (Effect::Deny, Scope::Global, "WebSearch")]);
    assert_eq!(verdict(&rules, Mode::Default, &call("KillShell")), Verdict::Allow);
    assert_eq!(verdict(&rules, Mode::Default, &call("WebSearch")), Verdict::Deny);
    assert_eq!(verdict(&rules, Mode::Default, &call("BashOutput")), Verdict::Leave);
    assert_eq!(
        verdict(&set(&[(Effect::Deny, Scope::Global, "Bash")]), Mode::Default, &call("BashOutput")),
        Verdict::Leave
    );
}

#[test]
fn decisions_are_explained_with_rule_scope_and_part() {
    let rules = set(&[
        (Effect::Allow, Scope::Global, "Bash(git status)"),
        (Effect::Allow, Scope::Session, "Bash(ls:*)"),
        (Effect::Deny, Scope::Workspace, "Bash(rm -rf:*)"),
    ]);
    let said = |text: &str, mode: Mode| explain(&decide(&rules, mode, &call(text), &Links::default()));
    assert_eq!(
        said("Bash(git status && rm -rf x)", Mode::Default),
        ["Denied: the workspace's rule `Bash(rm -rf:*)` denies `rm -rf x`."]
    );
    assert_eq!(
        said("Bash(git status; ls a; ls a)", Mode::Default),
        [
            "Allowed: the global rule `Bash(git status)` allows `git status`.",
            "the session's rule `Bash(ls:*)` allows `ls a`."
        ]
    );
    assert_eq!(said("Bash(ls; make; cc)", Mode::Default), ["Left to the agent: no rule speaks of `make` and `cc`."]);
    assert_eq!(
        said("Bash(rm $X)", Mode::Default),
        ["Asked: the workspace's rule `Bash(rm -rf:*)` could deny `rm $X`."]
    );
    assert_eq!(
        said("Bash(. a)", Mode::Default),
        ["Asked: no rule can allow `. a`, because it runs the commands of a file."]
    );
    assert_eq!(said("Write(a)", Mode::Plan), ["Denied: in the mode plan, it writes a file."]);
}
