//! Language rules as tests: words of the field, one name for one public type, errors with documented codes.

#![allow(clippy::string_slice, reason = "indices are results of searches in the same text")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::assert_none;
use crate::source_files::{SourceFile, sources};

/// Words that do not belong to the field, and what to write instead.
const BANNED_WORDS: [(&str, &str); 15] = [
    ("told", "sent, reported, loaded, notified"),
    ("retell", "replay"),
    ("somebody", "a client, a person, another process"),
    ("nobody", "no client, no one"),
    ("whoever", "the client that, the process that"),
    ("wish", "request, action, params"),
    ("wishes", "requests, actions"),
    ("lane", "dispatch queue"),
    ("desk", "pending requests, admission control"),
    ("stray", "abandoned branch"),
    ("strays", "abandoned branches"),
    ("chronicle", "transcript"),
    ("heard", "received, synced"),
    ("farewell", "close handshake"),
    ("goodbye", "close reason"),
];

/// Files in which a banned word can be quoted: this list, and the style guide's examples of what not to write.
const QUOTING_FILES: [&str; 3] = ["xtask/tests/tidy/language.rs", "docs/style-guide.md", "CHANGELOG.md"];

/// Mark of a line that names stored data by a former name.
const FORMER_NAME_MARK: &str = "alias = \"";

#[test]
fn banned_words_are_absent_from_code_and_docs() {
    let mut found = Vec::new();
    for source in sources().iter().filter(|source| is_written_by_us(source)) {
        for (at, line) in source.text.lines().enumerate().filter(|(_, line)| !line.contains(FORMER_NAME_MARK)) {
            let words: BTreeSet<String> = words_of(line).collect();
            let banned = BANNED_WORDS.iter().filter(|(word, _)| words.contains(*word));
            found.extend(banned.map(|(word, instead)| {
                format!("{}:{}: \"{word}\": write {instead}: {}", source.name, at + 1, line.trim())
            }));
        }
    }
    assert_none("words to replace", &found);
}

#[test]
fn words_are_found_inside_identifiers() {
    let words = |line| words_of(line).collect::<Vec<_>>();
    assert_eq!(
        words("let was_told = isToldNow(HTTPDesk);"),
        ["let", "was", "told", "is", "told", "now", "http", "desk"]
    );
    assert_eq!(words("desktop, wishful"), ["desktop", "wishful"]);
}

#[test]
fn public_types_have_different_names() {
    let mut places: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for source in sources().iter().filter(|source| source.is_rust() && source.name.starts_with("crates/")) {
        for (_, line) in source.lines().filter(|_| !source.is_test()) {
            if let Some(name) = public_type(line) {
                places.entry(name.to_owned()).or_default().insert(source.name.clone());
            }
        }
    }
    assert!(places.len() > 500, "types were found");
    let shared = places.iter().filter(|(_, files)| files.len() > 1);
    assert_none(
        "public types that share a name",
        &shared.map(|(name, files)| format!("{name}: {files:?}")).collect::<Vec<_>>(),
    );
}

#[test]
fn errors_are_types() {
    let mut found = Vec::new();
    for source in sources().iter().filter(|source| source.is_rust() && !QUOTING_FILES.contains(&source.name.as_str())) {
        for (at, _) in source.text.match_indices("Result<") {
            if error_type(&source.text[at + "Result<".len()..]) == Some("String") {
                let line = source.text[..at].lines().count();
                found.push(format!("{}:{line}: Result<_, String>", source.name));
            }
        }
    }
    assert_none("errors without a type", &found);
}

#[test]
fn error_types_are_found_in_nested_generics() {
    assert_eq!(error_type("(), String>"), Some("String"));
    assert_eq!(error_type("Vec<(u8, String)>,\n    String,\n>"), Some("String"));
    assert_eq!(error_type("HashMap<u8, String>, StoreError>"), Some("StoreError"));
    assert_eq!(error_type("Vec<String>> {"), None);
}

#[test]
fn error_codes_are_documented() {
    let sources = sources();
    let page = sources.iter().find(|source| source.name == "docs/errors.md").expect("docs/errors.md");
    let documented: BTreeSet<&str> =
        page.text.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
    let product =
        sources.iter().filter(|source| source.is_rust() && source.name.contains("/src/") && !source.is_test());
    let used: BTreeSet<&str> = product.flat_map(|source| error_codes(&source.text)).collect();
    assert!(used.len() > 250, "codes were found: {}", used.len());
    let undocumented: Vec<String> = used.difference(&documented).map(ToString::to_string).collect();
    assert_none("codes to add to docs/errors.md", &undocumented);
    let unused: Vec<String> = documented.difference(&used).map(ToString::to_string).collect();
    assert_none("codes of docs/errors.md that no error has", &unused);
}

#[test]
fn error_codes_are_found_in_all_their_forms() {
    let text = concat!(
        "impl StoreError {\n    pub fn code(&self) -> &'static str {\n        match self { Self::Full => \"diskFull\" }\n    }\n}\n",
        "impl OpenErrorKind {\n    pub fn as_str(self) -> &'static str {\n        \"agentMissing\"\n    }\n}\n",
        "impl Color {\n    pub fn as_str(self) -> &'static str {\n        \"red\"\n    }\n}\n",
        "fn f() { CommandFailure::new(\n    Exit::Usage,\n    \"invalidKey\", text); g(error_type: \"store\".to_owned()) }\n",
    );
    assert_eq!(error_codes(text), ["diskFull", "agentMissing", "store", "invalidKey"]);
}

/// Types that are error codes themselves, named by `as_str`.
const CODE_TYPES: [&str; 3] = ["OpenErrorKind", "ApiErrorCategory", "AttachmentErrorCode"];

/// Returns the codes in a source file: literals in functions called `code`, in `as_str` of [`CODE_TYPES`], of turn
/// errors and of failed commands.
fn error_codes(text: &str) -> Vec<&str> {
    let mut codes = Vec::new();
    for (at, _) in text.match_indices("self) -> &") {
        let (before, body) = (&text[..at], &text[at..]);
        let body = &body[..body.find("\n    }\n").unwrap_or(body.len())];
        let name = before.rsplit("fn ").next().unwrap_or_default();
        let owner = before.rsplit("\nimpl ").next().unwrap_or_default();
        let owner = owner.strip_prefix("impl ").unwrap_or(owner).split(' ').next().unwrap_or_default();
        if name.starts_with("code(") || (name.starts_with("as_str(") && CODE_TYPES.contains(&owner)) {
            codes.extend(body.split('"').skip(1).step_by(2));
        }
    }
    codes.extend(text.split("error_type: \"").skip(1).filter_map(|rest| rest.split('"').next()));
    for call in text.split("CommandFailure::new(").skip(1) {
        let code = call.split_once(',').map(|(_, rest)| rest.trim_start());
        codes.extend(code.and_then(|code| code.strip_prefix('"')?.split('"').next()));
    }
    codes
}

/// Returns whether people of this project wrote the file: code and documents, without data of tests.
fn is_written_by_us(source: &SourceFile) -> bool {
    let extension = Path::new(&source.name).extension().and_then(|extension| extension.to_str());
    matches!(extension, Some("rs" | "ts" | "svelte" | "css" | "md"))
        && !source.name.contains("/data/")
        && !QUOTING_FILES.contains(&source.name.as_str())
}

/// Returns the words of a line in lower case, with `snake_case` and `CamelCase` names split.
fn words_of(line: &str) -> impl Iterator<Item = String> {
    line.split(|letter: char| !letter.is_ascii_alphabetic()).flat_map(split_camel_case)
}

fn split_camel_case(name: &str) -> Vec<String> {
    let letters: Vec<char> = name.chars().collect();
    let mut words: Vec<String> = Vec::new();
    for (at, letter) in letters.iter().enumerate() {
        let after_lower = at > 0 && letters[at - 1].is_ascii_lowercase();
        let before_lower = letters.get(at + 1).is_some_and(char::is_ascii_lowercase);
        if at == 0 || (letter.is_ascii_uppercase() && (after_lower || before_lower)) {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut() {
            word.push(letter.to_ascii_lowercase());
        }
    }
    words
}

/// Returns the name of the public type that a line at the top level of a module declares.
fn public_type(line: &str) -> Option<&str> {
    let declared = line.strip_prefix("pub ")?;
    let name = ["struct ", "enum ", "trait ", "type ", "union "].iter().find_map(|kind| declared.strip_prefix(kind))?;
    name.split(|letter: char| !letter.is_alphanumeric()).next()
}

/// Returns the second parameter of a generic type whose parameters start here.
fn error_type(parameters: &str) -> Option<&str> {
    let (mut depth, mut start, mut found) = (0_usize, 0, Vec::new());
    for (at, letter) in parameters.char_indices().take(2_000) {
        match letter {
            '<' | '(' | '[' | '{' => depth += 1,
            '>' if parameters[..at].ends_with('-') => {}
            '>' | ')' | ']' | '}' if depth > 0 => depth -= 1,
            ',' if depth == 0 => {
                found.push(parameters[start..at].trim());
                start = at + 1;
            }
            '>' => {
                let last = parameters[start..at].trim();
                found.extend((!last.is_empty()).then_some(last));
                return found.get(1).copied();
            }
            ')' | ']' | '}' => return None,
            _ => {}
        }
    }
    None
}
