//! Properties of all command lines and all rules.

use hostler_rules::{
    DecisionOutcome, Effect, Matcher, PermissionMode, Rule, RuleScope, RuleSet, StaticLinks, ToolUse, decide, explain,
    suggest_rules,
};
use proptest::prelude::*;

fn rules(texts: &[(Effect, &str)]) -> RuleSet {
    let mut rules = RuleSet::default();
    for (effect, text) in texts {
        rules.add(Rule::parse(*effect, RuleScope::Global, text).unwrap()).unwrap();
    }
    rules
}

fn standard() -> RuleSet {
    use Effect::{Allow, Deny};
    rules(&[
        (Allow, "Bash(git status)"),
        (Allow, "Bash(ls:*)"),
        (Allow, "Bash(echo:*)"),
        (Allow, "Bash(cat:*)"),
        (Allow, "Bash(bash:*)"),
        (Allow, "Edit(out/**)"),
        (Deny, "Bash(rm:*)"),
        (Deny, "Edit(locked/**)"),
    ])
}

fn verdict(rules: &RuleSet, mode: PermissionMode, line: &str) -> DecisionOutcome {
    decide(rules, mode, &ToolUse::shell(line, "/w"), &StaticLinks::default()).outcome
}

/// Fragments of shell syntax that are likely to be combined incorrectly.
fn shellish() -> impl Strategy<Value = String> {
    let pieces = prop::sample::select(vec![
        "echo",
        "ls",
        "rm",
        "git status",
        " ",
        " ",
        "\n",
        ";",
        "&&",
        "||",
        "|",
        "&",
        "(",
        ")",
        "{",
        "}",
        "$(",
        "`",
        "${",
        "$((",
        "))",
        "'",
        "\"",
        "\\",
        "$'",
        "$\"",
        "<<EOF\n",
        "\nEOF\n",
        "<<'E'\n",
        "\nE\n",
        ">",
        "<(",
        "2>&1",
        "#",
        "if ",
        "then ",
        "fi",
        "case x in ",
        "esac",
        ";;",
        "[[ ",
        " ]]",
        "x=",
        "a[1]=",
        "*",
        "~",
        "!",
        "-exec",
        "xargs ",
        "sh -c ",
        "eval ",
        "é",
        "\t",
        "=(",
        "function f ",
        "for x in ",
        "do ",
        "done",
        "@(",
        "\u{0}",
        "99999999999>",
        "$",
        "%",
        "coproc ",
        "time ",
    ]);
    prop::collection::vec(pieces, 0..24).prop_map(|pieces| pieces.concat())
}

fn allowed() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "git status",
        "ls -la",
        "echo 'a b' \"c\"",
        "cat <<'E'\nit's\nE\n",
        "echo a > out/b",
        "echo $(ls)",
        "bash -c 'ls'",
        "(ls)",
        "{ ls; }",
        "if ls; then ls; fi",
        "echo $'\\''",
        "echo a # b\n",
        "echo \"$(cat <<'E'\n)\nE\n)\"",
    ])
}

fn denied() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "rm x",
        "/bin/rm x",
        "r\\m x",
        "$'rm' x",
        "echo $(rm x)",
        "bash -c 'rm x'",
        "sudo rm x",
        "(rm x)",
        "ls | xargs rm",
        "find . -exec rm {} \\;",
        "echo a > locked/b",
        "echo `rm x`",
        "X=1 rm x",
        "eval rm x",
        "rm x <<'E'\nE\n",
    ])
}

fn operator() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![";", " ; ", "&&", " && ", "||", "|", "|&", "&", "\n", "\n\n", " #\n", "\\\n;", "\t&& \n"])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_gets_a_decision(line in any::<String>()) {
        let decision = decide(&standard(), PermissionMode::Default, &ToolUse::shell(&line, "/w"), &StaticLinks::default());
        prop_assert!(!explain(&decision).is_empty());
    }

    #[test]
    fn any_shell_fragments_get_a_decision_in_every_mode(line in shellish()) {
        for mode in [PermissionMode::Default, PermissionMode::AcceptEdits, PermissionMode::Plan, PermissionMode::Bypass, PermissionMode::DontAsk] {
            let decision = decide(&standard(), mode, &ToolUse::shell(&line, "/w"), &StaticLinks::default());
            prop_assert!(!explain(&decision).is_empty());
            prop_assert!(mode != PermissionMode::DontAsk || decision.outcome != DecisionOutcome::Ask);
        }
    }

    #[test]
    fn allowed_line_combined_with_a_denied_one_is_never_allowed(first in allowed(), operator in operator(), second in denied()) {
        for line in [format!("{first}{operator}{second}"), format!("{second}{operator}{first}")] {
            prop_assert_ne!(verdict(&standard(), PermissionMode::Default, &line), DecisionOutcome::Allow, "{}", line);
            prop_assert_ne!(verdict(&standard(), PermissionMode::Plan, &line), DecisionOutcome::Allow, "{}", line);
        }
    }

    #[test]
    fn denied_line_is_not_allowed_in_any_context(before in shellish(), line in denied(), after in shellish()) {
        // A comment or an open quote before the line would make it harmless, so it comes first.
        let first = verdict(&standard(), PermissionMode::Default, &before);
        let whole = format!("{line}\n{before}\n{after}");
        prop_assert_ne!(verdict(&standard(), PermissionMode::Default, &whole), DecisionOutcome::Allow, "{:?} after {:?}", whole, first);
    }

    #[test]
    fn quoting_words_does_not_change_the_decision(
        words in prop::collection::vec("[a-z][a-z0-9./-]{0,6}", 1..5), style in prop::collection::vec(0_usize..4, 5),
    ) {
        let set = rules(&[(Effect::Allow, &format!("Bash({})", words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ")))]);
        let quote = |(word, style): (&String, &usize)| match style {
            0 => format!("'{word}'"),
            1 => format!("\"{word}\""),
            2 => format!("$'{word}'"),
            _ => word.chars().map(|c| format!("\\{c}")).collect(),
        };
        let quoted = words.iter().zip(&style).map(quote).collect::<Vec<_>>().join(" ");
        let bare = words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ");
        prop_assert_eq!(verdict(&set, PermissionMode::Default, &quoted), verdict(&set, PermissionMode::Default, &bare), "{}", quoted);
    }

    #[test]
    fn suggested_rules_allow_the_call_and_round_trip_as_text(line in shellish()) {
        let call = ToolUse::shell(&line, "/w");
        for suggestion in suggest_rules(&call, RuleScope::Session, &StaticLinks::default()) {
            let mut set = RuleSet::default();
            for rule in &suggestion.rules {
                prop_assert_eq!(&rule.to_string().parse::<Matcher>().unwrap(), &rule.matcher);
                set.add(rule.clone()).unwrap();
            }
            prop_assert_eq!(decide(&set, PermissionMode::Default, &call, &StaticLinks::default()).outcome, DecisionOutcome::Allow);
        }
    }

    #[test]
    fn any_text_is_a_rule_or_an_error_with_a_position(text in "(Bash|Read|Edit|WebFetch|mcp__|Write)?[(]?[ -~é]{0,20}[)]?") {
        match text.parse::<Matcher>() {
            Ok(matcher) => prop_assert_eq!(matcher.to_string().parse::<Matcher>().unwrap(), matcher),
            Err(error) => {
                prop_assert!((1..=text.chars().count() + 1).contains(&error.position));
                prop_assert!(!error.problem.is_empty());
            }
        }
    }

    #[test]
    fn rules_for_arbitrary_words_round_trip(words in prop::collection::vec("[ -~é\n]{1,8}", 1..4), open in any::<bool>()) {
        let quoted = words.iter().map(|word| format!("'{}'", word.replace('\'', r"'\''"))).collect::<Vec<_>>().join(" ");
        let matcher: Matcher = format!("Bash({quoted}{})", if open { ":*" } else { "" }).parse().unwrap();
        prop_assert_eq!(matcher.to_string().parse::<Matcher>().unwrap(), matcher);
    }
}

/// Deep and broad input gets a decision, on the small stack of a test thread.
#[test]
fn hostile_nesting_is_asked_about() {
    let around =
        |open: &str, middle: &str, close: &str, times: usize| open.repeat(times) + middle + &close.repeat(times);
    let lines = [
        around("$(", "ls", ")", 10_000),
        around("(", "ls;ls", ")", 5_000),
        around("((", "", "", 5_000),
        around("{ ", "ls", "; }", 5_000),
        around("if ls; then ", "ls", "; fi", 2_000),
        around("case x in a) ", "ls", " ;; esac", 1_000),
        around("\"$(", "ls", ")\"", 5_000),
        around("${a:-", "b", "}", 5_000),
        around("[[ ( ", "a", " ) ]]", 3_000),
        around("[[ a =~ ( ", "a", "", 3_000),
        around("`\\`", "ls", "", 5_000),
        around("a[$(", "b", ")]", 3_000),
        around("cat <( ", "ls", " )", 3_000),
        around("! ", "ls", "", 5_000),
        around("eval ", "ls", "", 5_000),
        around("sudo ", "ls", "", 5_000),
        around("function f { ", "ls", "; }", 2_000),
        "ls; ".repeat(5_000),
        "<<E ".repeat(5_000),
        "\"".repeat(20_001),
        "a".repeat(100_000),
        // Within each limit on its own, the grammar would read these for a long time.
        around("case x in a) ", &around("(", "ls", ")", 8), " esac", 8),
        format!(
            "echo {}",
            around("$(", &around("case x in a) ", &around("(", "ls", ")", 6), " esac", 6), ")", 1).repeat(300)
        ),
    ];
    for line in &lines {
        let head: String = line.chars().take(20).collect();
        assert_eq!(verdict(&standard(), PermissionMode::Default, line), DecisionOutcome::Ask, "{head}…");
    }
}

/// Each construct that is nested just within its own limit is parsed: a denied command in it is found, and the grammar's
/// stack suffices. Constructs in combination are not covered; the benchmark `rules` measures the time.
#[test]
fn nesting_within_the_limits_is_parsed() {
    let around =
        |open: &str, middle: &str, close: &str, times: usize| open.repeat(times) + middle + &close.repeat(times);
    let lines = [
        around("( ", "rm x", " )", 8),
        around("(", "rm x;ls", ")", 8),
        around("{ ", "rm x", "; }", 120),
        around("if ls; then ", "rm x", "; fi", 120),
        around("while ls; do ", "rm x", "; done", 120),
        around("case x in a) ", "rm x", " ; esac", 8),
        around("echo $(", "rm x", ")", 6),
        around("f() { ", "rm x", "; }", 120),
    ];
    for line in &lines {
        assert_eq!(verdict(&standard(), PermissionMode::Default, line), DecisionOutcome::Deny, "{line}");
    }
    assert_eq!(
        verdict(&standard(), PermissionMode::Default, &around("echo {a,", "b", "}", 5_000)),
        DecisionOutcome::Allow
    );
    // The tokenizer's nesting limit is higher than that of the analysis.
    assert_eq!(verdict(&standard(), PermissionMode::Default, &around("echo $(", "ls", ")", 500)), DecisionOutcome::Ask);
    assert_eq!(
        verdict(&standard(), PermissionMode::Default, &around("echo \"${a:-", "ls", "}\"", 500)),
        DecisionOutcome::Allow
    );
}
