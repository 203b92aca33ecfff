//! Derives the file edit of a call from the agent's structured tool result.

use hostler_driver::FileEdit;
use serde::Deserialize;
use serde_json::value::RawValue;

/// The structured result of `Write`, `Edit` and related tools. Other tools have other shapes.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct EditResult {
    file_path: String,
    structured_patch: Vec<Hunk>,
    /// Absent, or null, for a new file.
    #[serde(default)]
    original_file: Option<String>,
    /// The complete new contents.
    #[serde(default)]
    content: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Hunk {
    old_start: usize,
    old_lines: usize,
    lines: Vec<String>,
}

/// `None` for results that are no edits.
pub(super) fn parse_file_edit(result: &RawValue) -> Option<FileEdit> {
    let EditResult { file_path, structured_patch, original_file, content } = serde_json::from_str(result.get()).ok()?;
    let after = content.or_else(|| apply_patch(original_file.as_deref()?, &structured_patch));
    let count = |sign: char| {
        let lines = structured_patch.iter().flat_map(|hunk| &hunk.lines);
        lines.filter(|line| line.starts_with(sign)).count() as u64
    };
    let (added, removed) = match (&original_file, &after) {
        // A new file has no patch.
        (None, Some(after)) => (after.lines().count() as u64, 0),
        _ => (count('+'), count('-')),
    };
    Some(FileEdit { path: file_path, before: original_file, after, added_lines: added, removed_lines: removed })
}

/// Applies the hunks; `None` if they do not fit the text.
fn apply_patch(original: &str, hunks: &[Hunk]) -> Option<String> {
    let lines: Vec<&str> = original.split_inclusive('\n').collect();
    let mut after = String::with_capacity(original.len());
    let mut at = 0;
    for hunk in hunks {
        let start = hunk.old_start.saturating_sub(usize::from(hunk.old_lines > 0));
        after.extend(lines.get(at..start)?.iter().copied());
        at = start;
        for line in &hunk.lines {
            let (sign, text) = line.split_at_checked(1)?;
            match sign {
                " " | "-" => {
                    let old = lines.get(at)?;
                    if old.trim_end_matches(['\r', '\n']) != text.trim_end_matches('\r') {
                        return None;
                    }
                    if sign == " " {
                        after.push_str(old);
                    }
                    at += 1;
                }
                "+" => {
                    after.push_str(text);
                    after.push('\n');
                }
                // `\ No newline at end of file`.
                _ => {
                    if after.ends_with('\n') {
                        after.pop();
                    }
                }
            }
        }
    }
    after.extend(lines.get(at..)?.iter().copied());
    Some(after)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edit(json: &str) -> Option<FileEdit> {
        parse_file_edit(&RawValue::from_string(json.to_owned()).unwrap())
    }

    #[test]
    fn new_file_has_no_previous_contents() {
        let made = edit(
            r#"{"type":"create","filePath":"/p/b.txt","content":"one\ntwo\n","structuredPatch":[],"originalFile":null,"userModified":false}"#,
        )
        .unwrap();
        assert_eq!((made.before.as_deref(), made.after.as_deref()), (None, Some("one\ntwo\n")));
        assert_eq!((made.added_lines, made.removed_lines), (2, 0));
    }

    #[test]
    fn changed_file_is_rebuilt_from_its_patch() {
        let made = edit(
            r#"{"filePath":"/p/a.txt","oldString":"beta","newString":"gamma","originalFile":"alpha\nbeta\nend","structuredPatch":[{"oldStart":1,"oldLines":2,"newStart":1,"newLines":3,"lines":[" alpha","-beta","+gamma","+delta"]}],"userModified":false,"replaceAll":false}"#,
        )
        .unwrap();
        assert_eq!(made.after.as_deref(), Some("alpha\ngamma\ndelta\nend"));
        assert_eq!((made.added_lines, made.removed_lines), (2, 1));
    }

    #[test]
    fn patch_that_does_not_fit_leaves_the_new_contents_unknown() {
        let made = edit(
            r#"{"filePath":"/p/a.txt","originalFile":"x\n","structuredPatch":[{"oldStart":1,"oldLines":1,"newStart":1,"newLines":1,"lines":["-y","+z"]}]}"#,
        )
        .unwrap();
        assert_eq!(made.after, None);
        let far = r#"{"filePath":"/p/a.txt","originalFile":"x\n","structuredPatch":[{"oldStart":9,"oldLines":1,"newStart":1,"newLines":1,"lines":["-y"]}]}"#;
        assert_eq!(edit(far).unwrap().after, None);
    }

    #[test]
    fn other_results_are_not_edits() {
        for other in [r#"{"stdout":"x","stderr":""}"#, r#""text""#, r#"{"filePath":"/x"}"#, "[]"] {
            assert!(edit(other).is_none(), "{other}");
        }
    }
}
