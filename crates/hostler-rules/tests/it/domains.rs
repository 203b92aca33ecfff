//! Domain rules match hosts: a host that only begins or ends like an allowed one, or resembles it, is another host.

use hostler_rules::{
    DecisionOutcome, Effect, PermissionMode, Rule, RuleScope, RuleSet, StaticLinks, ToolUse, decide_or_ask,
};
use serde_json::json;

fn verdict(effect: Effect, rule: &str, url: &str) -> DecisionOutcome {
    let mut rules = RuleSet::default();
    rules.add(Rule::parse(effect, RuleScope::Global, rule).unwrap()).unwrap();
    decide_or_ask(
        &rules,
        PermissionMode::Default,
        &ToolUse::new("WebFetch", json!({ "url": url }), "/w"),
        None,
        &StaticLinks::default(),
    )
    .outcome
}

#[test]
fn other_hosts_are_not_allowed_in_any_spelling() {
    for url in [
        "https://example.com.evil.org/",
        "https://example.company/",
        "https://example.com-evil.org/",
        "https://evilexample.com/",
        "https://evil.org/example.com",
        "https://evil.org/?u=https://example.com",
        "https://evil.org#example.com",
        "https://example.com@evil.org/",
        "https://example.com:443@evil.org/",
        "https://example.com%40evil.org/",
        "https://evil.org\\@example.com/",
        "https://example.com%2eevil.org/",
        "https://example.com\t.evil.org/",
        "https://example.com\n.evil.org/",
        "https://ex\u{430}mple.com/",
        "https://example.com\u{3002}evil.org/",
        "https://127.0.0.1/",
        "https://[::1]/",
        "file://example.com/etc/passwd",
        "ftp://example.com/",
        "javascript://example.com/%0aalert(1)",
        "//example.com/",
        "example.com",
        "",
    ] {
        assert_eq!(verdict(Effect::Allow, "WebFetch(domain:example.com)", url), DecisionOutcome::Ask, "{url:?}");
        assert_eq!(verdict(Effect::Allow, "WebFetch(domain:*.example.com)", url), DecisionOutcome::Ask, "{url:?}");
    }
    for url in
        ["https://example.com/", "HTTPS://EXAMPLE.COM:8443/a", "https://example.com./", "https://me@example.com/"]
    {
        assert_eq!(verdict(Effect::Allow, "WebFetch(domain:example.com)", url), DecisionOutcome::Allow, "{url:?}");
    }
}

#[test]
fn denied_host_is_denied_in_every_spelling() {
    for url in [
        "https://evil.org/",
        "https://EVIL.org./",
        "https://example.com@evil.org/",
        "https://evil.org\\@example.com/",
        "https://www.evil.org/",
        "https://e\tvil.org/",
        "https://%65vil.org/",
        "https://\u{ff45}vil.org/",
        "https://evil\u{3002}org/",
        "https:evil.org",
        "https:/\\evil.org/",
    ] {
        assert_eq!(verdict(Effect::Deny, "WebFetch(domain:evil.org)", url), DecisionOutcome::Deny, "{url:?}");
    }
}
