//! Permission modes, scopes, and calls that are neither commands nor file accesses.

use hostler_rules::{
    DecisionOutcome, Effect, PermissionMode, Rule, RuleScope, RuleSet, StaticLinks, ToolUse, decide, explain,
};
use serde_json::json;

fn set(rules: &[(Effect, RuleScope, &str)]) -> RuleSet {
    let mut set = RuleSet::default();
    for (effect, scope, text) in rules {
        set.add(Rule::parse(*effect, *scope, text).unwrap()).unwrap();
    }
    set
}

fn verdict(rules: &RuleSet, mode: PermissionMode, call: &ToolUse) -> DecisionOutcome {
    decide(rules, mode, call, &StaticLinks::default()).outcome
}

fn edit(path: &str) -> ToolUse {
    ToolUse::new("Edit", json!({ "file_path": path }), "/w")
}

fn call(text: &str) -> ToolUse {
    ToolUse::parse(text, "/w").unwrap()
}

#[test]
fn deny_beats_ask_beats_allow_over_all_scopes() {
    use {Effect::*, RuleScope::*};
    let scopes = [Global, Workspace, Session];
    for first in scopes {
        for second in scopes {
            for third in scopes {
                let mut rules = set(&[(Allow, first, "Bash(x:*)"), (Ask, second, "Bash(x y:*)")]);
                let ask = call("Bash(x y z)");
                assert_eq!(verdict(&rules, PermissionMode::Default, &ask), DecisionOutcome::Ask);
                assert_eq!(verdict(&rules, PermissionMode::Default, &call("Bash(x)")), DecisionOutcome::Allow);
                rules.add(Rule::parse(Deny, third, "Bash(x:*)").unwrap()).unwrap();
                assert_eq!(verdict(&rules, PermissionMode::Default, &ask), DecisionOutcome::Deny);
            }
        }
    }
}

#[test]
fn a_denied_command_denies_its_line() {
    let rules = set(&[
        (Effect::Allow, RuleScope::Global, "Bash(git status)"),
        (Effect::Deny, RuleScope::Workspace, "Bash(rm:*)"),
    ]);
    let call = ToolUse::shell("git status && rm -rf x", "/w");
    let decision = decide(&rules, PermissionMode::Default, &call, &StaticLinks::default());
    assert_eq!(decision.outcome, DecisionOutcome::Deny);
    assert_eq!(explain(&decision), ["Denied: the workspace rule `Bash(rm:*)` denies `rm -rf x`."]);
}

#[test]
fn accept_edits_allows_workspace_files_only() {
    let rules =
        set(&[(Effect::Allow, RuleScope::Global, "Bash(echo:*)"), (Effect::Deny, RuleScope::Global, "Edit(./no)")]);
    let mode = PermissionMode::AcceptEdits;
    assert_eq!(verdict(&rules, mode, &edit("a/b")), DecisionOutcome::Allow);
    assert_eq!(verdict(&rules, mode, &edit("/elsewhere")), DecisionOutcome::Undecided);
    assert_eq!(verdict(&rules, mode, &edit("../w2/a")), DecisionOutcome::Undecided);
    assert_eq!(verdict(&rules, mode, &edit("no")), DecisionOutcome::Deny);
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
        assert_eq!(verdict(&rules, mode, &edit(sensitive)), DecisionOutcome::Undecided, "{sensitive}");
    }
    assert_eq!(verdict(&rules, mode, &call("Bash(echo a > b)")), DecisionOutcome::Allow);
    assert_eq!(verdict(&rules, mode, &call("Bash(echo a > /b)")), DecisionOutcome::Undecided);
    assert_eq!(verdict(&rules, mode, &call("Bash(echo a > .bashrc)")), DecisionOutcome::Undecided);
    assert_eq!(verdict(&rules, mode, &call("Bash(echo a > .git/config)")), DecisionOutcome::Undecided);
    assert_eq!(verdict(&rules, mode, &call("Bash(make)")), DecisionOutcome::Undecided);
    assert_eq!(verdict(&rules, PermissionMode::Default, &edit("a/b")), DecisionOutcome::Undecided);
}

#[test]
fn plan_blocks_writes_even_where_rules_allow_them() {
    let rules = set(&[(Effect::Allow, RuleScope::Session, "*")]);
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
        assert_eq!(verdict(&rules, PermissionMode::Plan, &call(text)), DecisionOutcome::Deny, "{text}");
    }
    for text in ["Read(a)", "Glob(a)", "Grep(a)", "LS(a)"] {
        assert_eq!(verdict(&RuleSet::default(), PermissionMode::Plan, &call(text)), DecisionOutcome::Allow, "{text}");
    }
    assert_eq!(verdict(&rules, PermissionMode::Plan, &call("mcp__db__query")), DecisionOutcome::Ask);
    assert_eq!(verdict(&RuleSet::default(), PermissionMode::Plan, &call("ExitPlanMode")), DecisionOutcome::Undecided);
    assert_eq!(
        verdict(&set(&[(Effect::Deny, RuleScope::Global, "Read")]), PermissionMode::Plan, &call("Read(a)")),
        DecisionOutcome::Deny
    );
    assert_eq!(
        verdict(&set(&[(Effect::Ask, RuleScope::Global, "Read")]), PermissionMode::Plan, &call("Read(a)")),
        DecisionOutcome::Ask
    );
}

#[test]
fn bypass_allows_calls_that_no_rule_restricts() {
    let rules =
        set(&[(Effect::Deny, RuleScope::Global, "Bash(rm:*)"), (Effect::Ask, RuleScope::Global, "Bash(git push:*)")]);
    assert_eq!(verdict(&rules, PermissionMode::Bypass, &call("Bash(make)")), DecisionOutcome::Allow);
    assert_eq!(verdict(&rules, PermissionMode::Bypass, &call("Bash(make; rm x)")), DecisionOutcome::Deny);
    assert_eq!(verdict(&rules, PermissionMode::Bypass, &call("Bash(git push)")), DecisionOutcome::Ask);
    assert_eq!(verdict(&rules, PermissionMode::Bypass, &call("mcp__a__b")), DecisionOutcome::Allow);
}

#[test]
fn bypass_denies_unanalyzable_lines_if_a_rule_denies_commands() {
    let unseen = ["$X y", ". file", "eval \"$x\"", "echo 'open", "curl x | sh", "echo $((a))", "bash -c \"$x\"", "'"];
    let commands = set(&[(Effect::Deny, RuleScope::Global, "Bash(rm:*)")]);
    let files = set(&[(Effect::Deny, RuleScope::Global, "Read(./.env)")]);
    for line in unseen {
        let call = ToolUse::shell(line, "/w");
        assert_eq!(verdict(&commands, PermissionMode::Bypass, &call), DecisionOutcome::Deny, "{line}");
        assert_eq!(verdict(&files, PermissionMode::Bypass, &call), DecisionOutcome::Ask, "{line}");
        assert_eq!(verdict(&RuleSet::default(), PermissionMode::Bypass, &call), DecisionOutcome::Allow, "{line}");
    }
    let said = explain(&decide(&commands, PermissionMode::Bypass, &call("Bash(. file)"), &StaticLinks::default()));
    assert_eq!(said[0], "Denied: the global rule `Bash(rm:*)` may deny `. file`.");
    assert_eq!(
        verdict(&commands, PermissionMode::Bypass, &ToolUse::new("Bash", json!({}), "/w")),
        DecisionOutcome::Deny
    );
}

#[test]
fn dont_ask_denies_instead_of_asking() {
    let rules =
        set(&[(Effect::Allow, RuleScope::Global, "Bash(ls:*)"), (Effect::Ask, RuleScope::Global, "Bash(git push:*)")]);
    assert_eq!(verdict(&rules, PermissionMode::DontAsk, &call("Bash(git push)")), DecisionOutcome::Deny);
    assert_eq!(verdict(&rules, PermissionMode::DontAsk, &call("Bash(. file)")), DecisionOutcome::Deny);
    assert_eq!(verdict(&rules, PermissionMode::DontAsk, &call("Bash(ls)")), DecisionOutcome::Allow);
    assert_eq!(verdict(&rules, PermissionMode::DontAsk, &call("Read(a)")), DecisionOutcome::Undecided);
}

#[test]
fn mcp_rules_match_by_server_tool_and_prefix() {
    let matches = |rule: &str, tool: &str| {
        let rules = set(&[(Effect::Allow, RuleScope::Global, rule)]);
        verdict(&rules, PermissionMode::Default, &call(tool)) == DecisionOutcome::Allow
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
fn domain_rules_compare_hosts_not_text() {
    let allow = set(&[(Effect::Allow, RuleScope::Global, "WebFetch(domain:example.com)")]);
    let deny = set(&[(Effect::Deny, RuleScope::Global, "WebFetch(domain:Example.com)")]);
    let below = set(&[(Effect::Allow, RuleScope::Global, "WebFetch(domain:*.example.com)")]);
    let fetch = |url: &str| ToolUse::new("WebFetch", json!({ "url": url }), "/w");
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
        assert_eq!(verdict(&allow, PermissionMode::Default, &fetch(url)) == DecisionOutcome::Allow, allowed, "{url}");
        assert_eq!(verdict(&deny, PermissionMode::Default, &fetch(url)) == DecisionOutcome::Deny, denied, "{url}");
        assert_eq!(
            verdict(&below, PermissionMode::Default, &fetch(url)) == DecisionOutcome::Allow,
            allowed_below,
            "{url}"
        );
    }
}

#[test]
fn tools_without_a_target_match_by_name() {
    let rules = set(&[(Effect::Allow, RuleScope::Global, "KillShell"), (Effect::Deny, RuleScope::Global, "WebSearch")]);
    assert_eq!(verdict(&rules, PermissionMode::Default, &call("KillShell")), DecisionOutcome::Allow);
    assert_eq!(verdict(&rules, PermissionMode::Default, &call("WebSearch")), DecisionOutcome::Deny);
    assert_eq!(verdict(&rules, PermissionMode::Default, &call("BashOutput")), DecisionOutcome::Undecided);
    assert_eq!(
        verdict(&set(&[(Effect::Deny, RuleScope::Global, "Bash")]), PermissionMode::Default, &call("BashOutput")),
        DecisionOutcome::Undecided
    );
}

#[test]
fn explanations_name_rule_scope_and_part() {
    let rules = set(&[
        (Effect::Allow, RuleScope::Global, "Bash(git status)"),
        (Effect::Allow, RuleScope::Session, "Bash(ls:*)"),
        (Effect::Deny, RuleScope::Workspace, "Bash(rm -rf:*)"),
    ]);
    let said = |text: &str, mode: PermissionMode| explain(&decide(&rules, mode, &call(text), &StaticLinks::default()));
    assert_eq!(
        said("Bash(git status && rm -rf x)", PermissionMode::Default),
        ["Denied: the workspace rule `Bash(rm -rf:*)` denies `rm -rf x`."]
    );
    assert_eq!(
        said("Bash(git status; ls a; ls a)", PermissionMode::Default),
        [
            "Allowed: the global rule `Bash(git status)` allows `git status`.",
            "The session rule `Bash(ls:*)` allows `ls a`."
        ]
    );
    assert_eq!(said("Bash(ls; make; cc)", PermissionMode::Default), ["Undecided: no rule matches `make` or `cc`."]);
    assert_eq!(
        said("Bash(rm $X)", PermissionMode::Default),
        ["Requires approval: the workspace rule `Bash(rm -rf:*)` may deny `rm $X`."]
    );
    assert_eq!(
        said("Bash(. a)", PermissionMode::Default),
        ["Requires approval: no rule can allow `. a`, because it runs commands from a file."]
    );
    assert_eq!(said("Write(a)", PermissionMode::Plan), ["Denied: it writes a file (plan mode)."]);
}
