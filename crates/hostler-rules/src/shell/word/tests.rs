//! Quotes, expansions and nested command lines of single words.

use super::{ScannedWord, TextContext, WordForm, scan_word};

fn read(raw: &str) -> ScannedWord {
    scan_word(raw, TextContext::Word).unwrap()
}

fn literal(raw: &str) -> String {
    let scanned = read(raw);
    assert_eq!(scanned.word.form, WordForm::Literal, "{raw}");
    scanned.word.text
}

#[test]
fn quotes_are_removed() {
    assert_eq!(literal(r#"a'b c'"d e"\ f"#), "ab cd e f");
    assert_eq!(literal(r#""a\"b\\c\d\$e""#), r#"a"b\c\d$e"#);
    assert_eq!(literal("''"), "");
    assert_eq!(literal("a#b"), "a#b");
    assert_eq!(literal("x$"), "x$");
    assert_eq!(literal("'$(rm x)'"), "$(rm x)");
}

#[test]
fn ansi_quotes_are_decoded() {
    assert_eq!(literal(r"$'a\x62\143\u0064\n\''"), "abcd\n'");
    for unclear in [r"$'\xff'", r"$'\0'", r"$'\q'", r"$'a"] {
        assert!(scan_word(unclear, TextContext::Word).is_err(), "{unclear}");
    }
}

#[test]
fn expansions_make_a_word_non_literal() {
    assert_eq!(read("a$x").word.form, WordForm::AnyWords);
    assert_eq!(read("\"a$x\"").word.form, WordForm::SingleWord);
    assert_eq!(read("\"a$x\"").word.known_prefix, "a");
    assert_eq!(read("\"$@\"").word.form, WordForm::AnyWords);
    assert_eq!(read("*.rs").word.form, WordForm::AnyWords);
    assert_eq!(read("{a,b}").word.form, WordForm::AnyWords);
    assert_eq!(read("a{1..3}").word.form, WordForm::AnyWords);
    assert_eq!(literal("{}"), "{}");
    assert_eq!(literal("a{b}c"), "a{b}c");
}

#[test]
fn nested_command_lines_are_collected() {
    assert_eq!(read("a$(b \")\" $(c))d").scripts, ["b \")\" $(c)"]);
    assert_eq!(read("\"`a \\`b\\``\"").scripts, ["a `b`"]);
    assert_eq!(read("${x:-$(a)}${y/b/`c`}").scripts, ["a", "c"]);
    assert_eq!(read("$(cat <<'E'\n) it's\nE\n)").scripts, ["cat <<'E'\n) it's\nE\n"]);
    assert_eq!(scan_word("a $(b) \"$(c)\" '$(d)'", TextContext::HereDocument).unwrap().scripts, ["b", "c", "d"]);
}

#[test]
fn unanalyzable_expansions_are_marked() {
    for raw in ["$((x))", "$[x]", "${a[x]}", "${x@P}", "${(e)x}", "${ ls; }", "${|ls;}", "${x:y}"] {
        assert!(read(raw).unanalyzable.is_some(), "{raw}");
    }
    for raw in ["$((1+2))", "${a[0]}", "${a[@]}", "${#x}", "${x@Q}", "${x:1:2}", "${x%%.*}", "$?", "${!x}"] {
        assert!(read(raw).unanalyzable.is_none(), "{raw}");
    }
}

#[test]
fn ambiguous_words_are_errors() {
    for raw in ["\"${x:-'}$(rm y)'}\"", "a;b", "a b", "$(a # )\nb)", "$(cat <<E\nx)", "\"a", "$(a", "`a", "a\\"] {
        assert!(scan_word(raw, TextContext::Word).is_err(), "{raw}");
    }
}
