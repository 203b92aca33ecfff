//! Tests of the session table.

use super::*;
use serde_json::json;

fn session(id: &str, status: u32, changed: &str, directory: &str, title: &str) -> SessionSummary {
    serde_json::from_value(json!({ "resource": format!("claude:/{id}"), "provider": "claude", "title": title,
        "status": status, "createdAt": changed, "modifiedAt": changed, "workingDirectories": [directory] }))
    .unwrap()
}

fn sessions() -> Vec<SessionSummary> {
    vec![
        session("1f0c1234-a", 33, "2026-05-10T11:59:50.000Z", "file:///home/ada/a%20project", "what is in here?"),
        session(
            "27aa1234-b",
            8,
            "2026-05-10T09:00:00.000Z",
            "file:///srv/some/deeply/nested/place",
            "日本語のタイトルです, and more of it",
        ),
        session("30bb1234-c", 34, "2026-01-02T00:00:00.000Z", "file:///home/ada", "two\nlines\u{1b}[2J"),
        session("41cc1234-d", 97, "yesterday", "vscode-remote://x/y", ""),
    ]
}

fn table(columns: Option<usize>) -> Vec<String> {
    format_table(&session_rows(&sessions(), Path::new("/home/ada"), "2026-05-10T12:00:00Z".parse().unwrap()), columns)
}

#[test]
fn table_shows_id_status_age_directory_and_title() {
    insta::assert_snapshot!(table(None).join("\n"), @r#"
    ID          STATUS    CHANGED     DIRECTORY                      TITLE
    1f0c1234    idle      now         ~/a project                    what is in here?
    27aa1234  ● working   3 h         /srv/some/deeply/nested/place  日本語のタイトルです, and more of it
    30bb1234    error     2026-01-02  ~                              two lines[2J
    41cc1234    archived  ?           vscode-remote://x/y
    "#);
}

#[test]
fn table_fits_the_terminal_width() {
    for columns in [60, 72, 80, 100, 200] {
        for line in table(Some(columns)) {
            assert!(line.width() <= columns, "{columns}: {line}");
        }
    }
    assert_eq!(table(Some(200)), table(None), "nothing is truncated if there is space");
    insta::assert_snapshot!(table(Some(60)).join("\n"), @r#"
    ID          STATUS    CHANGED     DIRECTORY  TITLE
    1f0c1234    idle      now         … project  what is in her…
    27aa1234  ● working   3 h         …ed/place  日本語のタイト…
    30bb1234    error     2026-01-02  ~          two lines[2J
    41cc1234    archived  ?           …te://x/y
    "#);
}

#[test]
fn old_sessions_show_a_date_instead_of_an_age() {
    let now = "2026-05-10T12:00:00Z".parse().unwrap();
    for (at, expected) in [
        ("2026-05-10T12:00:30Z", "now"),
        ("2026-05-10T11:59:01Z", "now"),
        ("2026-05-10T11:58:00Z", "2 min"),
        ("2026-05-10T09:00:00Z", "3 h"),
        ("2026-05-04T12:00:00Z", "6 d"),
        ("2026-05-03T12:00:00Z", "2026-05-03"),
        ("soon", "?"),
    ] {
        assert_eq!(format_age(at, now), expected, "{at}");
    }
}

#[test]
fn sibling_of_home_is_not_abbreviated() {
    let neighbour = session("x", 1, "", "file:///home/adam/project", "");
    assert_eq!(format_directory(&neighbour, Path::new("/home/ada")), "/home/adam/project");
    assert_eq!(format_directory(&neighbour, Path::new("/")), "/home/adam/project");
}
