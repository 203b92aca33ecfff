//! Limits of a command line. The grammar is recursive and does not memoize: deep input would overflow its stack, and
//! nested parentheses and `case` double its work with each level. All of that is bounded here, before the grammar runs.
//! A line beyond the limits is unanalyzable, and unanalyzable lines are asked about.

use brush_parser::Token;

/// Maximum length of a command line.
pub(crate) const MAX_LINE_BYTES: usize = 64 * 1024;
/// Maximum nesting of command lines: substitutions, `sh -c`, `eval`.
pub(crate) const MAX_SCRIPT_DEPTH: usize = 8;
/// Maximum number of commands in one line.
pub(crate) const MAX_COMMANDS: usize = 512;
/// Stack of the grammar, of which only used pages are allocated. Within the limits below it uses less than half of it,
/// even without optimization.
pub(crate) const PARSER_STACK_BYTES: usize = 32 * 1024 * 1024;

/// Maximum number of expansions anywhere in the text: each may be a level of the tokenizer's recursion.
const MAX_EXPANSIONS: usize = 512;
const MAX_TOKENS: usize = 8 * 1024;
/// Maximum number of open parentheses: each level doubles the work.
const MAX_PARENTHESES_DEPTH: usize = 8;
const MAX_PARENTHESES: usize = 256;
/// Maximum number of keywords that open a construct: each may be a level of the grammar's recursion.
const MAX_KEYWORDS: usize = 128;
/// Maximum number of `case` keywords: a nested `case` doubles the work.
const MAX_CASES: usize = 8;

/// Maximum number of tokens that the grammar reads for a command line and those nested in it. A level of parentheses and
/// a `case` may each make it read its contents twice.
const MAX_TOKEN_READS: usize = 1024 * 1024;

/// Is the text small enough for the tokenizer?
pub(crate) fn check_text(text: &str) -> Result<(), &'static str> {
    if text.len() > MAX_LINE_BYTES {
        return Err("it is longer than 64 KiB");
    }
    if text.contains('\0') {
        return Err("it contains a NUL character");
    }
    let expansions = text.as_bytes().windows(2).filter(|pair| matches!(pair, [b'$', b'(' | b'{' | b'['])).count();
    if expansions > MAX_EXPANSIONS { Err("it contains too many expansions") } else { Ok(()) }
}

/// Are the tokens few and flat enough for the grammar, and in the form that it requires? `token_reads` sums up what the
/// grammar reads for the whole line.
pub(crate) fn check_tokens(tokens: &[Token], token_reads: &mut usize) -> Result<(), &'static str> {
    if tokens.len() > MAX_TOKENS {
        return Err("it has too many words");
    }
    let (mut open, mut deepest, mut parentheses, mut keywords, mut cases) = (0_usize, 0, 0, 0, 0);
    for token in tokens {
        match token {
            Token::Operator(operator, _) if operator == "(" => {
                open += 1;
                parentheses += 1;
                deepest = deepest.max(open);
            }
            Token::Operator(operator, _) if operator == ")" => open = open.saturating_sub(1),
            Token::Operator(..) => {}
            Token::Word(word, _) => match word.as_str() {
                "case" => {
                    cases += 1;
                    keywords += 1;
                }
                "{" | "if" | "while" | "until" | "for" | "select" | "function" | "coproc" | "[[" | "!" | "elif" => {
                    keywords += 1;
                }
                _ => {}
            },
        }
    }
    if deepest > MAX_PARENTHESES_DEPTH || parentheses > MAX_PARENTHESES || keywords > MAX_KEYWORDS || cases > MAX_CASES
    {
        return Err("it is nested too deeply");
    }
    *token_reads = token_reads.saturating_add(tokens.len() << (deepest + cases));
    if *token_reads > MAX_TOKEN_READS {
        return Err("it is nested too deeply");
    }
    tokens.iter().enumerate().try_for_each(|(at, token)| check_token(tokens, at, token))
}

fn check_token(tokens: &[Token], at: usize, token: &Token) -> Result<(), &'static str> {
    let operator_at = |at: usize| match tokens.get(at) {
        Some(Token::Operator(operator, _)) => Some(operator.as_str()),
        _ => None,
    };
    match token {
        Token::Word(word, _) => {
            let redirected = operator_at(at + 1).is_some_and(|operator| operator.starts_with(['<', '>']));
            // The grammar parses such a word as a descriptor number and panics on a large one.
            let number = word.chars().all(|c| c.is_ascii_digit());
            if redirected && number && !(1..=9).contains(&word.len()) {
                return Err("it redirects an invalid file descriptor");
            }
            // The grammar would parse a subscript without a limit.
            let subscript = word.split_once('[').filter(|(name, _)| is_variable_name(name));
            match subscript {
                Some((_, rest)) if rest.contains(['$', '`', '(']) => Err("it evaluates an array subscript"),
                _ => Ok(()),
            }
        }
        Token::Operator(operator, _) if operator == "<<" || operator == "<<-" => {
            // Four tokens make a here-document: operator, tag, body, tag. The grammar does not compare the tags, and
            // within `((` the tokenizer does not look for a body at all.
            let words = [1, 2, 3].map(|offset| match tokens.get(at + offset) {
                Some(Token::Word(word, _)) => Some(word.as_str()),
                _ => None,
            });
            match words {
                [Some(tag), Some(_), Some(end)] if brush_parser::unquote_str(tag) == end => Ok(()),
                _ => Err("it contains a here-document with an ambiguous end"),
            }
        }
        Token::Operator(..) => Ok(()),
    }
}

/// Is this the name of a shell variable?
pub(crate) fn is_variable_name(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next().is_some_and(|c| c == '_' || c.is_ascii_alphabetic())
        && chars.all(|c| c == '_' || c.is_ascii_alphanumeric())
}
