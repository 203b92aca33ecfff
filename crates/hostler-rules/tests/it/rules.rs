//! The text of rules, how they are stored, and which are suggested.

use hostler_rules::{
    DiskResolver, Effect, Matcher, Rule, RuleScope, RuleSet, RuleSetError, StaticLinks, ToolUse,
    suggest_additional_rules, suggest_rules,
};
use serde_json::json;

#[test]
fn rules_round_trip_as_text() {
    for (text, printed) in [
        ("Bash(git status)", "Bash(git status)"),
        ("Bash(npm run:*)", "Bash(npm run:*)"),
        ("Bash(npm run *)", "Bash(npm run:*)"),
        ("Bash(git  \"log\" 'a b')", "Bash(git log 'a b')"),
        ("Bash(echo '*')", "Bash(echo '*')"),
        ("Bash(find . -exec cat {} ';')", "Bash(find . -exec cat '{}' ';')"),
        ("Bash(*)", "Bash"),
        ("Bash", "Bash"),
        ("Write", "Write"),
        ("*", "*"),
        ("mcp__*", "mcp__*"),
        ("mcp__github", "mcp__github"),
        ("mcp__github__create_issue", "mcp__github__create_issue"),
        ("Read(~/secrets/**)", "Read(~/secrets/**)"),
        ("Edit(src/**)", "Edit(./src/**)"),
        ("Edit(src/)", "Edit(src/)"),
        ("Read(//etc/hosts)", "Read(//etc/hosts)"),
        ("Read(*.pem)", "Read(*.pem)"),
        ("Read(a (copy).txt)", "Read(a (copy).txt)"),
        ("WebFetch(domain:Example.COM)", "WebFetch(domain:example.com)"),
        ("WebFetch(domain:*.example.com)", "WebFetch(domain:*.example.com)"),
        ("Bash(sudo apt update)", "Bash(sudo apt update)"),
        ("Bash(source:*)", "Bash(source:*)"),
    ] {
        let matcher: Matcher = text.parse().unwrap();
        assert_eq!(matcher.to_string(), printed);
        assert_eq!(printed.parse::<Matcher>().unwrap(), matcher);
    }
}

#[test]
fn invalid_rules_report_a_fix_and_a_position() {
    for (text, position, hint) in [
        ("", 1, "tool name"),
        ("Bash(git", 9, "closing parenthesis is missing"),
        ("(x)", 1, "tool name"),
        ("Ba sh", 3, "letters"),
        ("Bash()", 6, "remove them"),
        ("Bash(:*)", 6, "remove them"),
        ("Bash(git status && ls)", 6, "one command"),
        ("Bash(ls > x)", 6, "redirections"),
        ("Bash(A=1 ls)", 6, "cannot set variables"),
        ("Bash(A=1)", 6, "assignment"),
        ("Bash(ls *.rs)", 6, "quote"),
        ("Bash(npm run test*)", 6, "quote"),
        ("Bash($X)", 6, "quote"),
        ("Bash(echo 'x)", 6, "not a valid shell command"),
        ("Read(/etc/hosts)", 6, "`//`"),
        ("Read(a/../b)", 8, "cannot contain `..`"),
        ("Read()", 6, "remove them"),
        ("WebFetch(example.com)", 10, "specify a domain"),
        ("WebFetch(domain:a b)", 10, "host"),
        ("mcp__a(b)", 7, "cannot have parentheses"),
        ("Task(x)", 5, "cannot have parentheses"),
        ("Wri*", 4, "`mcp__`"),
    ] {
        let error = text.parse::<Matcher>().unwrap_err();
        assert_eq!(error.position, position, "{text}: {error}");
        assert!(error.to_string().contains(hint), "{text}: {error}");
    }
}

fn stored() -> RuleSet {
    let mut set = RuleSet::default();
    set.add(Rule::parse(Effect::Deny, RuleScope::Global, "Bash(rm:*)").unwrap()).unwrap();
    set.add(Rule::parse(Effect::Allow, RuleScope::Workspace, "Edit(./src/**)").unwrap()).unwrap();
    set
}

#[test]
fn rule_set_is_stored_as_readable_text() {
    let set = stored();
    let json = serde_json::to_value(&set).unwrap();
    let wanted = json!({ "version": 1, "rules": [
        { "effect": "deny", "scope": "global", "rule": "Bash(rm:*)" },
        { "effect": "allow", "scope": "workspace", "rule": "Edit(./src/**)" },
    ] });
    assert_eq!(json, wanted);
    assert_eq!(serde_json::from_value::<RuleSet>(json).unwrap(), set);
    let text = toml::to_string(&set).unwrap();
    assert_eq!(toml::from_str::<RuleSet>(&text).unwrap(), set);
}

#[test]
fn rule_set_with_another_version_or_an_invalid_rule_is_refused() {
    let refusal = |text: &str| serde_json::from_str::<RuleSet>(text).unwrap_err().to_string();
    assert!(refusal(r#"{"version":2,"rules":[]}"#).contains("version 2"));
    assert!(
        refusal(r#"{"version":1,"rules":[{"effect":"deny","scope":"global","rule":"Bash("}]}"#)
            .contains("closing parenthesis is missing")
    );
    assert!(refusal(r#"{"version":1,"rules":[{"effect":"never","scope":"global","rule":"Bash"}]}"#).contains("never"));
    assert!(refusal(r#"{"version":1,"more":1}"#).contains("more"));
    assert!(refusal(r#"{"rules":[]}"#).contains("version"));
}

#[test]
fn rule_set_has_no_duplicates_and_removes_rules() {
    let mut set = stored();
    let rule = set.iter().next().unwrap().clone();
    assert!(!set.add(rule.clone()).unwrap());
    assert_eq!(set.len(), 2);
    assert!(set.remove(&rule));
    assert!(!set.remove(&rule));
    set.merge(&stored()).unwrap();
    assert_eq!(set.len(), 2);
    let full = (0..5_000).map(|n| Rule::parse(Effect::Deny, RuleScope::Global, &format!("tool{n}")).unwrap());
    let refused = full.map(|rule| set.add(rule)).find_map(Result::err);
    assert_eq!(refused, Some(RuleSetError::TooManyRules));
}

fn offered(call: &ToolUse) -> Vec<String> {
    let text = |rules: &[Rule]| rules.iter().map(ToString::to_string).collect::<Vec<_>>().join(" + ");
    suggest_rules(call, RuleScope::Session, &StaticLinks::default())
        .iter()
        .map(|suggestion| text(&suggestion.rules))
        .collect()
}

#[test]
fn narrow_rules_are_suggested() {
    for (line, wanted) in [
        ("git status", vec!["Bash(git status)"]),
        ("git diff HEAD", vec!["Bash(git diff HEAD)"]),
        ("git commit -m x", vec!["Bash(git commit -m x)", "Bash(git commit:*)"]),
        ("tree /etc", vec!["Bash(tree /etc)"]),
        ("rg --hidden x /etc", vec!["Bash(rg --hidden x /etc)"]),
        ("deno eval x", vec!["Bash(deno eval x)"]),
        ("deno run x.ts", vec!["Bash(deno run x.ts)"]),
        ("docker exec a b", vec!["Bash(docker exec a b)"]),
        ("go test ./x", vec!["Bash(go test ./x)"]),
        ("uv run python x", vec!["Bash(uv run python x)"]),
        ("cargo test | tail -5", vec!["Bash(cargo test)", "Bash(cargo test:*)"]),
        ("npm run build -- --fast", vec!["Bash(npm run build -- --fast)", "Bash(npm run build:*)"]),
        ("cargo tree --depth 1", vec!["Bash(cargo tree --depth 1)"]),
        ("cargo fmt", vec!["Bash(cargo fmt)"]),
        ("cargo doc", vec!["Bash(cargo doc)"]),
        ("cargo check", vec!["Bash(cargo check)"]),
        ("cargo test --config x.toml", vec!["Bash(cargo test --config x.toml)"]),
        ("cargo test --manifest-path x/Cargo.toml", vec!["Bash(cargo test --manifest-path x/Cargo.toml)"]),
        ("cargo build -Zunstable", vec!["Bash(cargo build -Zunstable)"]),
        ("cargo build -C x", vec!["Bash(cargo build -C x)"]),
        ("cargo clippy --fix", vec!["Bash(cargo clippy --fix)"]),
        ("cargo test -p x", vec!["Bash(cargo test -p x)", "Bash(cargo test:*)"]),
        ("ls -la /etc", vec!["Bash(ls -la /etc)", "Bash(ls:*)"]),
        ("rm -rf x", vec!["Bash(rm -rf x)"]),
        ("python3 a.py", vec!["Bash(python3 a.py)"]),
        ("git -C x status", vec!["Bash(git -C x status)"]),
        ("sudo apt update", vec!["Bash(sudo apt update)"]),
        ("cd x && make", vec!["Bash(make)"]),
        ("timeout 5 make", vec!["Bash(make)"]),
        ("make > out/log 2>&1", vec!["Bash(make) + Edit(./out/log)"]),
        ("ssh host uptime", vec!["Bash(ssh host uptime)"]),
        ("ls *.rs", vec!["Bash(ls:*)"]),
        ("echo 'a b' && make", vec!["Bash(make)"]),
        ("$CMD x", vec![]),
        (". x", vec![]),
        ("echo 'open", vec![]),
        ("make $X", vec![]),
        ("a;b;c;d;e;f", vec![]),
        ("LD_PRELOAD=x ls", vec![]),
    ] {
        assert_eq!(offered(&ToolUse::shell(line, "/w")), wanted, "{line}");
    }
}

#[test]
fn suggestions_cover_only_parts_that_are_not_allowed_yet() {
    let mut rules = RuleSet::default();
    for text in ["Bash(make:*)", "Edit(out/**)"] {
        rules.add(Rule::parse(Effect::Allow, RuleScope::Global, text).unwrap()).unwrap();
    }
    let offered = |line: &str| {
        let found =
            suggest_additional_rules(&rules, &ToolUse::shell(line, "/w"), RuleScope::Session, &StaticLinks::default());
        found.iter().map(|choice| choice.rules.iter().map(ToString::to_string).collect::<Vec<_>>()).collect::<Vec<_>>()
    };
    assert_eq!(offered("make all && cc x.c | tail -5 > out/log"), [["Bash(cc x.c)"]]);
    assert_eq!(offered("make; cc x > log"), [["Bash(cc x)", "Edit(./log)"]]);
    assert_eq!(offered("timeout 5 make && cc"), [["Bash(cc)"]]);
}

#[test]
fn rules_for_files_hosts_and_mcp_servers_are_suggested() {
    let call = |text: &str| ToolUse::parse(text, "/w").unwrap();
    assert_eq!(offered(&call("Write(src/a.rs)")), ["Edit(./src/a.rs)", "Edit(./src/**)"]);
    assert_eq!(offered(&call("Edit(a.rs)")), ["Edit(./a.rs)"]);
    assert_eq!(offered(&call("Read(/etc/hosts)")), ["Read(//etc/hosts)"]);
    assert_eq!(offered(&call("Edit(app/[id]/a*b.ts)")), [r"Edit(./app/[id]/a\*b.ts)", "Edit(./app/[id]/**)"]);
    assert_eq!(offered(&call("WebFetch(https://docs.rs/x)")), ["WebFetch(domain:docs.rs)"]);
    assert_eq!(offered(&call("mcp__github__create_issue")), ["mcp__github__create_issue"]);
    assert_eq!(offered(&ToolUse::new("Edit", json!({}), "/w")), Vec::<String>::new());
}

#[test]
fn no_rule_is_suggested_for_a_path_behind_a_link() {
    let directory = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("/etc", directory.path().join("link")).unwrap();
    let call = ToolUse::new("Edit", json!({ "file_path": "link/x" }), directory.path());
    assert!(suggest_rules(&call, RuleScope::Session, &DiskResolver).is_empty());
}
