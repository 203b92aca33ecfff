//! Command lines that disguise what they run, and the decision on each.

use std::path::PathBuf;

use hostler_rules::{
    DecisionOutcome, Effect, PermissionMode, Rule, RuleScope, RuleSet, StaticLinks, ToolUse, decide, explain,
    suggest_additional_rules,
};
use serde::Deserialize;

#[derive(Deserialize)]
struct Table {
    allow: Vec<String>,
    ask: Vec<String>,
    deny: Vec<String>,
    line: Vec<Line>,
}

#[derive(Deserialize)]
struct Line {
    run: String,
    want: String,
    /// A text that the explanation must contain.
    because: Option<String>,
}

fn table() -> (RuleSet, Vec<Line>) {
    let table: Table = toml::from_str(include_str!("../command_lines.toml")).unwrap();
    let mut rules = RuleSet::default();
    for (effect, texts) in [(Effect::Allow, table.allow), (Effect::Ask, table.ask), (Effect::Deny, table.deny)] {
        for text in texts {
            rules.add(Rule::parse(effect, RuleScope::Global, &text).unwrap()).unwrap();
        }
    }
    (rules, table.line)
}

#[test]
fn command_lines_are_decided_as_in_the_table() {
    let (rules, lines) = table();
    assert!(lines.len() >= 80, "the table has {} lines", lines.len());
    let links = StaticLinks([(PathBuf::from("/w/out/away"), PathBuf::from("/etc"))].into());
    let mut wrong = Vec::new();
    for line in &lines {
        let call = ToolUse::shell(&line.run, "/w").with_home("/home/me");
        let decision = decide(&rules, PermissionMode::Default, &call, &links);
        let got = match decision.outcome {
            DecisionOutcome::Allow => "allow",
            DecisionOutcome::Ask => "ask",
            DecisionOutcome::Deny => "deny",
            DecisionOutcome::Undecided => "leave",
        };
        let said = explain(&decision).join(" ");
        let explained = line.because.as_ref().is_none_or(|word| said.contains(word.as_str()));
        if got != line.want || !explained {
            wrong.push(format!("{:?}\n    want {} ({:?}), got {got}: {said}", line.run, line.want, line.because));
        }
    }
    assert!(wrong.is_empty(), "{} of {} lines:\n  {}", wrong.len(), lines.len(), wrong.join("\n  "));
}

/// A call that was decided on before is decided like a new one, after a change of the rules and in every mode.
#[test]
fn decided_call_is_decided_again_like_a_new_one() {
    let (rules, lines) = table();
    let links = StaticLinks::default();
    let modes = [
        PermissionMode::Default,
        PermissionMode::AcceptEdits,
        PermissionMode::Plan,
        PermissionMode::Bypass,
        PermissionMode::DontAsk,
    ];
    for line in &lines {
        let new = || ToolUse::shell(&line.run, "/w").with_home("/home/me");
        let call = new();
        for (rules, mode) in [&RuleSet::default(), &rules].into_iter().flat_map(|rules| modes.map(|mode| (rules, mode)))
        {
            assert_eq!(
                decide(rules, mode, &call, &links),
                decide(rules, mode, &new(), &links),
                "{:?} in {mode:?}",
                line.run
            );
            let suggested = |call| suggest_additional_rules(rules, call, RuleScope::Session, &links);
            assert_eq!(suggested(&call), suggested(&new()), "{:?}", line.run);
        }
    }
}

#[test]
fn table_has_no_duplicate_lines() {
    let (_, lines) = table();
    let mut seen = std::collections::BTreeSet::new();
    for line in &lines {
        assert!(seen.insert(&line.run), "twice: {}", line.run);
    }
}

/// A rule for all of Bash does not allow what no rule may allow.
#[test]
fn rule_for_all_of_bash_still_asks_about_unanalyzable_lines() {
    let mut rules = RuleSet::default();
    rules.add(Rule::parse(Effect::Allow, RuleScope::Global, "Bash").unwrap()).unwrap();
    let verdict = |line: &str| {
        decide(&rules, PermissionMode::Default, &ToolUse::shell(line, "/w"), &StaticLinks::default()).outcome
    };
    assert_eq!(verdict("rm -rf x && git -c core.pager=less log | ssh host uptime"), DecisionOutcome::Allow);
    for line in ["$CMD x", "echo 'open", "curl x | sh", ". ./file", "eval \"$x\"", "echo $((a))"] {
        assert_eq!(verdict(line), DecisionOutcome::Ask, "{line}");
    }
}
