//! File operations of clients: read, list, stat, write, copy, move, delete; and paths out of reach.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::harness::*;

area! { HostFixture::with_fake_agent();
    text_is_read_as_text,
    bytes_are_read_as_base64,
    text_is_read_as_base64_on_request,
    empty_file_is_read,
    missing_file_is_32008,
    reading_a_directory_is_rejected,
    directory_is_listed,
    listing_a_file_is_rejected,
    empty_directory_is_listed,
    file_is_resolved_with_size_times_and_etag,
    link_is_resolved_to_its_target,
    link_itself_is_resolved_on_request,
    etag_changes_with_the_file,
    file_is_written_and_replaced,
    base64_is_written_as_bytes,
    truncate_mode_truncates_at_the_position,
    append_position_counts_from_the_end,
    append_before_the_start_prepends,
    insert_mode_inserts_at_the_position,
    insert_beyond_the_end_appends,
    truncation_beyond_the_end_appends,
    write_positions_are_bytes,
    negative_position_is_invalid,
    unknown_write_mode_is_invalid,
    missing_encoding_is_invalid,
    invalid_base64_write_is_invalid,
    create_only_creates_and_never_replaces,
    concurrent_create_only_has_one_winner,
    matching_etag_allows_the_write,
    stale_etag_is_32011,
    concurrent_etag_writes_have_one_winner,
    missing_parent_is_32008,
    writing_to_a_directory_is_rejected,
    directories_are_created_with_their_parents,
    creating_an_existing_directory_succeeds,
    directory_over_a_file_is_32010,
    file_is_copied,
    tree_is_copied,
    copy_replaces_by_default,
    file_is_moved,
    tree_is_moved,
    move_into_itself_is_rejected,
    missing_source_is_32008,
    file_is_removed,
    non_empty_directory_needs_recursive_delete,
    path_without_a_grant_is_32009,
    permission_error_names_the_required_grant,
    grant_requests_are_refused_by_default,
    dots_and_links_do_not_escape,
    host_files_are_out_of_reach,
    special_files_are_rejected,
    non_local_file_uris_are_invalid,
    files_of_a_disposed_session_are_out_of_reach,
    session_files_are_reachable_for_all_clients,
    session_directory_cannot_be_removed,
    concurrent_writes_leave_one_whole_file,
}

/// Returns a client with a session in the case's directory.
async fn client_with_session(case: &ProtocolCase) -> RecordingClient {
    case.connect_with_session().await.0
}

fn at(case: &ProtocolCase, name: &str) -> Value {
    json!({"channel": ROOT, "uri": case.uri(name)})
}

fn with(mut params: Value, more: Value) -> Value {
    params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    params
}

fn put(case: &ProtocolCase, name: &str, text: &str, more: Value) -> Value {
    with(with(at(case, name), json!({"data": text, "encoding": "utf-8"})), more)
}

async fn text_is_read_as_text(case: ProtocolCase) {
    let mut client = client_with_session(&case).await;
    case.write_file("file", "wörds 🐎\n");
    let read = client.call_ok("resourceRead", at(&case, "file")).await;
    assert_eq!((&read["data"], &read["encoding"]), (&json!("wörds 🐎\n"), &json!("utf-8")));
}

async fn bytes_are_read_as_base64(case: ProtocolCase) {
    let mut client = client_with_session(&case).await;
    case.write_file("file", [0xff, 0, 7]);
    for encoding in [json!({}), json!({"encoding": "utf-8"}), json!({"encoding": "base64"})] {
        let read = client.call_ok("resourceRead", with(at(&case, "file"), encoding)).await;
        assert_eq!((&read["data"], &read["encoding"]), (&json!(STANDARD.encode([0xff, 0, 7])), &json!("base64")));
    }
}

async fn text_is_read_as_base64_on_request(case: ProtocolCase) {
    let mut client = client_with_session(&case).await;
    case.write_file("file", "contents");
    let read = client.call_ok("resourceRead", with(at(&case, "file"), json!({"encoding": "base64"}))).await;
    assert_eq!(read["data"], STANDARD.encode("contents"));
}

async fn empty_file_is_read(case: ProtocolCase) {
    let mut client = client_with_session(&case).await;
    case.write_file("file", "");
    assert_eq!(client.call_ok("resourceRead", at(&case, "file")).await["data"], "");
}

async fn missing_file_is_32008(case: ProtocolCase) {
    let mut client = client_with_session(&case).await;
    for method in ["resourceRead", "resourceList", "resourceResolve", "resourceDelete"] {
        assert_eq!(client.call_error_code(method, at(&case, "missing")).await, -32008, "{method}");
    }
}

async fn reading_a_directory_is_rejected(case: ProtocolCase) {
    let mut client = client_with_session(&case).await;
    assert_eq!(client.call_error_code("resourceRead", at(&case, "")).await, -32008);
}

async fn directory_is_listed(case: ProtocolCase) {
    let mut client = client_with_session(&case).await;
    case.write_file("b", "");
    std::fs::create_dir(case.dir.join("a")).unwrap();
    let list = client.call_ok("resourceList", at(&case, "")).await;
    assert_eq!(list, json!({"entries": [{"name": "a", "type": "directory"}, {"name": "b", "type": "file"}]}));
}

async fn listing_a_file_is_rejected(case: ProtocolCase) {
    let mut client = client_with_session(&case).await;
    case.write_file("file", "");
    assert_eq!(client.call_error_code("resourceList", at(&case, "file")).await, -32008);
}

async fn empty_directory_is_listed(case: ProtocolCase) {
    let mut client = client_with_session(&case).await;
    assert_eq!(client.call_ok("resourceList", at(&case, "")).await, json!({"entries": []}));
}

async fn file_is_resolved_with_size_times_and_etag(case: ProtocolCase) {
    let mut client = client_with_session(&case).await;
    case.write_file("file", "12345");
    let facts = client.call_ok("resourceResolve", at(&case, "file")).await;
    assert_eq!((&facts["type"], &facts["size"], &facts["uri"]), (&json!("file"), &json!(5), &json!(case.uri("file"))));
    assert!(facts["mtime"].as_str().unwrap().ends_with('Z'), "{facts:#}");
    assert!(!facts["etag"].as_str().unwrap().is_empty());
    assert_eq!(client.call_ok("resourceResolve", at(&case, "")).await["type"], "directory");
}

async fn link_is_resolved_to_its_target(case: ProtocolCase) {
    let mut client = client_with_session(&case).await;
    case.write_file("file", "12345");
    std::os::unix::fs::symlink("file", case.dir.join("link")).unwrap();
    let facts = client.call_ok("resourceResolve", at(&case, "link")).await;
    assert_eq!((&facts["type"], &facts["uri"]), (&json!("file"), &json!(case.uri("file"))));
}

async fn link_itself_is_resolved_on_request(case: ProtocolCase) {
    let mut client = client_with_session(&case).await;
    std::os::unix::fs::symlink("nowhere", case.dir.join("link")).unwrap();
    let facts = client.call_ok("resourceResolve", with(at(&case, "link"), json!({"followSymlinks": false}))).await;
    assert_eq!((&facts["type"], &facts["uri"]), (&json!("symlink"), &json!(case.uri("link"))));
    assert_eq!(client.call_error_code("resourceResolve", at(&case, "link")).await, -32008);
}

async fn etag(client: &mut RecordingClient, case: &ProtocolCase, name: &str) -> Value {
    client.call_ok("resourceResolve", at(case, name)).await["etag"].take()
}

async fn etag_changes_with_the_file(case: ProtocolCase) {
    let mut client = client_with_session(&case).await;
    case.write_file("file", "one");
    let before = etag(&mut client, &case, "file").await;
    assert_eq!(etag(&mut client, &case, "file").await, before);
    client.call_ok("resourceWrite", put(&case, "file", "two", json!({}))).await;
    assert_ne!(etag(&mut client, &case, "file").await, before);
}

async fn file_is_written_and_replaced(case: ProtocolCase) {
    let mut client = client_with_session(&case).await;
    for text in ["long contents", "short", ""] {
        assert_eq!(client.call_ok("resourceWrite", put(&case, "file", text, json!({}))).await, json!({}));
        assert_eq!(case.read_file("file"), text);
    }
}

async fn base64_is_written_as_bytes(case: ProtocolCase) {
    let mut client = client_with_session(&case).await;
    let bytes = json!({"data": STANDARD.encode([0xff, 0, 7]), "encoding": "base64"});
    client.call_ok("resourceWrite", with(at(&case, "file"), bytes)).await;
    assert_eq!(std::fs::read(case.dir.join("file")).unwrap(), [0xff, 0, 7]);
}

/// Writes to a file and returns the resulting text.
async fn written(case: &ProtocolCase, before: &str, data: &str, mode: &str, position: Option<i64>) -> String {
    let mut client = client_with_session(case).await;
    case.write_file("file", before);
    let mut more = json!({"mode": mode});
    if let Some(position) = position {
        more["position"] = json!(position);
    }
    client.call_ok("resourceWrite", put(case, "file", data, more)).await;
    case.read_file("file")
}

async fn truncate_mode_truncates_at_the_position(case: ProtocolCase) {
    assert_eq!(written(&case, "abcdef", "X", "truncate", Some(2)).await, "abX");
    assert_eq!(written(&case, "abcdef", "X", "truncate", Some(0)).await, "X");
    assert_eq!(written(&case, "abcdef", "X", "truncate", None).await, "X");
}

async fn append_position_counts_from_the_end(case: ProtocolCase) {
    assert_eq!(written(&case, "abc", "X", "append", None).await, "abcX");
    assert_eq!(written(&case, "abc", "X", "append", Some(0)).await, "abcX");
    assert_eq!(written(&case, "abc", "X", "append", Some(1)).await, "abXc");
}

async fn append_before_the_start_prepends(case: ProtocolCase) {
    assert_eq!(written(&case, "abc", "X", "append", Some(99)).await, "Xabc");
}

async fn insert_mode_inserts_at_the_position(case: ProtocolCase) {
    assert_eq!(written(&case, "abc", "X", "insert", Some(1)).await, "aXbc");
    assert_eq!(written(&case, "abc", "X", "insert", Some(0)).await, "Xabc");
}

async fn insert_beyond_the_end_appends(case: ProtocolCase) {
    assert_eq!(written(&case, "abc", "X", "insert", Some(99)).await, "abcX");
}

async fn truncation_beyond_the_end_appends(case: ProtocolCase) {
    assert_eq!(written(&case, "abc", "X", "truncate", Some(99)).await, "abcX");
}

async fn write_positions_are_bytes(case: ProtocolCase) {
    assert_eq!(written(&case, "üb", "X", "insert", Some(2)).await, "üXb");
}

async fn unwritten(case: &ProtocolCase, more: Value) -> i64 {
    let mut client = client_with_session(case).await;
    case.write_file("file", "before");
    let code = client.call_error_code("resourceWrite", with(at(case, "file"), more)).await;
    assert_eq!(case.read_file("file"), "before");
    code
}

async fn negative_position_is_invalid(case: ProtocolCase) {
    assert_eq!(unwritten(&case, json!({"data": "x", "encoding": "utf-8", "position": -1})).await, -32602);
}

async fn unknown_write_mode_is_invalid(case: ProtocolCase) {
    assert_eq!(unwritten(&case, json!({"data": "x", "encoding": "utf-8", "mode": "sideways"})).await, -32602);
}

async fn missing_encoding_is_invalid(case: ProtocolCase) {
    assert_eq!(unwritten(&case, json!({"data": "x"})).await, -32602);
    assert_eq!(unwritten(&case, json!({"encoding": "utf-8"})).await, -32602);
}

async fn invalid_base64_write_is_invalid(case: ProtocolCase) {
    for data in ["%", "YQ", "a b c"] {
        assert_eq!(unwritten(&case, json!({"data": data, "encoding": "base64"})).await, -32602, "{data}");
    }
}

async fn create_only_creates_and_never_replaces(case: ProtocolCase) {
    let mut client = client_with_session(&case).await;
    let params = |text: &str| put(&case, "file", text, json!({"createOnly": true}));
    client.call_ok("resourceWrite", params("one")).await;
    assert_eq!(client.call_error_code("resourceWrite", params("two")).await, -32010);
    assert_eq!(case.read_file("file"), "one");
}

/// Ten clients request the same; returns how many succeed, and the error codes of the others.
async fn run_concurrently(case: &ProtocolCase, params: impl Fn(usize) -> Value) -> (usize, Vec<i64>) {
    let mut requests = Vec::new();
    for number in 0..10 {
        let mut client = case.connect_client().await;
        let id = client.request("resourceWrite", params(number)).await;
        requests.push((client, id));
    }
    let (mut won, mut codes) = (0, Vec::new());
    for (mut client, id) in requests {
        match client.wait_for_response(id).await {
            Ok(_) => won += 1,
            Err(error) => codes.push(error["code"].as_i64().unwrap()),
        }
    }
    (won, codes)
}

async fn concurrent_create_only_has_one_winner(case: ProtocolCase) {
    let _client = client_with_session(&case).await;
    let params = |number: usize| put(&case, "file", &number.to_string(), json!({"createOnly": true}));
    assert_eq!(run_concurrently(&case, params).await, (1, vec![-32010; 9]));
}

async fn matching_etag_allows_the_write(case: ProtocolCase) {
    let mut client = client_with_session(&case).await;
    case.write_file("file", "one");
    let etag = etag(&mut client, &case, "file").await;
    client.call_ok("resourceWrite", put(&case, "file", "two", json!({"ifMatch": etag}))).await;
    assert_eq!(case.read_file("file"), "two");
}

async fn stale_etag_is_32011(case: ProtocolCase) {
    assert_eq!(unwritten(&case, json!({"data": "x", "encoding": "utf-8", "ifMatch": "stale"})).await, -32011);
}

async fn concurrent_etag_writes_have_one_winner(case: ProtocolCase) {
    let mut client = client_with_session(&case).await;
    case.write_file("file", "before");
    let etag = etag(&mut client, &case, "file").await;
    let params = |number: usize| put(&case, "file", &format!("written {number}"), json!({"ifMatch": etag}));
    assert_eq!(run_concurrently(&case, params).await, (1, vec![-32011; 9]));
}

async fn missing_parent_is_32008(case: ProtocolCase) {
    let mut client = client_with_session(&case).await;
    assert_eq!(client.call_error_code("resourceWrite", put(&case, "no/such/file", "x", json!({}))).await, -32008);
}

async fn writing_to_a_directory_is_rejected(case: ProtocolCase) {
    let mut client = client_with_session(&case).await;
    std::fs::create_dir(case.dir.join("sub")).unwrap();
    assert_eq!(client.call_error_code("resourceWrite", put(&case, "sub", "x", json!({}))).await, -32010);
}

async fn directories_are_created_with_their_parents(case: ProtocolCase) {
    let mut client = client_with_session(&case).await;
    assert_eq!(client.call_ok("resourceMkdir", at(&case, "a/b/c")).await, json!({}));
    assert!(case.dir.join("a/b/c").is_dir());
}

async fn creating_an_existing_directory_succeeds(case: ProtocolCase) {
    let mut client = client_with_session(&case).await;
    for _ in 0..2 {
        assert_eq!(client.call_ok("resourceMkdir", at(&case, "a")).await, json!({}));
    }
}

async fn directory_over_a_file_is_32010(case: ProtocolCase) {
    let mut client = client_with_session(&case).await;
    case.write_file("file", "x");
    assert_eq!(client.call_error_code("resourceMkdir", at(&case, "file")).await, -32010);
    assert_eq!(case.read_file("file"), "x");
}

fn from_to(case: &ProtocolCase, from: &str, to: &str, fail: bool) -> Value {
    let (source, destination) = (case.uri(from), case.uri(to));
    json!({"channel": ROOT, "source": source, "destination": destination, "failIfExists": fail})
}

async fn file_is_copied(case: ProtocolCase) {
    let mut client = client_with_session(&case).await;
    case.write_file("one", "x");
    assert_eq!(client.call_ok("resourceCopy", from_to(&case, "one", "two", false)).await, json!({}));
    assert_eq!((case.read_file("one"), case.read_file("two")), ("x".into(), "x".into()));
}

fn tree(case: &ProtocolCase) {
    std::fs::create_dir_all(case.dir.join("tree/deep")).unwrap();
    case.write_file("tree/deep/file", "x");
}

async fn tree_is_copied(case: ProtocolCase) {
    let mut client = client_with_session(&case).await;
    tree(&case);
    client.call_ok("resourceCopy", from_to(&case, "tree", "copy", false)).await;
    assert_eq!((case.read_file("tree/deep/file"), case.read_file("copy/deep/file")), ("x".into(), "x".into()));
}

async fn copy_replaces_by_default(case: ProtocolCase) {
    let mut client = client_with_session(&case).await;
    for method in ["resourceCopy", "resourceMove"] {
        case.write_file("one", "new");
        case.write_file("two", "old");
        assert_eq!(client.call_error_code(method, from_to(&case, "one", "two", true)).await, -32010);
        assert_eq!((case.read_file("one"), case.read_file("two")), ("new".into(), "old".into()));
        client.call_ok(method, from_to(&case, "one", "two", false)).await;
        assert_eq!(case.read_file("two"), "new");
    }
}

async fn file_is_moved(case: ProtocolCase) {
    let mut client = client_with_session(&case).await;
    case.write_file("one", "x");
    client.call_ok("resourceMove", from_to(&case, "one", "two", false)).await;
    assert!(!case.dir.join("one").exists());
    assert_eq!(case.read_file("two"), "x");
}

async fn tree_is_moved(case: ProtocolCase) {
    let mut client = client_with_session(&case).await;
    tree(&case);
    std::fs::create_dir(case.dir.join("there")).unwrap();
    case.write_file("there/old", "y");
    client.call_ok("resourceMove", from_to(&case, "tree", "there", false)).await;
    assert!(!case.dir.join("tree").exists() && !case.dir.join("there/old").exists(), "it takes the other's place");
    assert_eq!(case.read_file("there/deep/file"), "x");
}

async fn move_into_itself_is_rejected(case: ProtocolCase) {
    let mut client = client_with_session(&case).await;
    tree(&case);
    for method in ["resourceCopy", "resourceMove"] {
        assert_eq!(
            client.call_error_code(method, from_to(&case, "tree", "tree/deep/tree", false)).await,
            -32602,
            "{method}"
        );
    }
    assert_eq!(case.read_file("tree/deep/file"), "x");
}

async fn missing_source_is_32008(case: ProtocolCase) {
    let mut client = client_with_session(&case).await;
    for method in ["resourceCopy", "resourceMove"] {
        assert_eq!(client.call_error_code(method, from_to(&case, "missing", "new", false)).await, -32008, "{method}");
    }
    assert!(!case.dir.join("new").exists());
}

async fn file_is_removed(case: ProtocolCase) {
    let mut client = client_with_session(&case).await;
    case.write_file("file", "x");
    assert_eq!(client.call_ok("resourceDelete", at(&case, "file")).await, json!({}));
    assert!(!case.dir.join("file").exists());
}

async fn non_empty_directory_needs_recursive_delete(case: ProtocolCase) {
    let mut client = client_with_session(&case).await;
    tree(&case);
    assert_eq!(client.call_error_code("resourceDelete", at(&case, "tree")).await, -32602);
    assert_eq!(case.read_file("tree/deep/file"), "x");
    client.call_ok("resourceDelete", with(at(&case, "tree"), json!({"recursive": true}))).await;
    assert!(!case.dir.join("tree").exists());
}

/// Returns a file outside of all sessions.
fn outside(case: &ProtocolCase) -> std::path::PathBuf {
    let name = case.dir.file_name().unwrap().to_str().unwrap();
    let path = case.fixture.home.root().join(format!("outside-{name}"));
    std::fs::create_dir_all(&path).unwrap();
    std::fs::write(path.join("file"), "private").unwrap();
    path
}

async fn path_without_a_grant_is_32009(case: ProtocolCase) {
    let mut client = client_with_session(&case).await;
    case.write_file("mine", "x");
    let outside = outside(&case);
    let (directory, file, new) = (file_uri(&outside), file_uri(&outside.join("file")), file_uri(&outside.join("new")));
    let data = json!({"data": "x", "encoding": "utf-8"});
    for (method, params) in [
        ("resourceRead", json!({"uri": file})),
        ("resourceRead", json!({"uri": new})),
        ("resourceList", json!({"uri": directory})),
        ("resourceResolve", json!({"uri": file})),
        ("resourceWrite", with(json!({"uri": file}), data.clone())),
        ("resourceWrite", with(json!({"uri": new}), data)),
        ("resourceMkdir", json!({"uri": new})),
        ("resourceDelete", json!({"uri": file})),
        ("resourceCopy", json!({"source": file, "destination": case.uri("stolen")})),
        ("resourceCopy", json!({"source": case.uri("mine"), "destination": new})),
        ("resourceMove", json!({"source": file, "destination": case.uri("stolen")})),
        ("resourceMove", json!({"source": case.uri("mine"), "destination": new})),
        ("createResourceWatch", json!({"uri": directory})),
        ("resourceRead", json!({"uri": "file:///etc/passwd"})),
    ] {
        assert_eq!(client.call_error_code(method, params.clone()).await, -32009, "{method} {params}");
    }
    assert_eq!(std::fs::read_to_string(outside.join("file")).unwrap(), "private");
    assert!(!outside.join("new").exists() && !case.dir.join("stolen").exists() && case.dir.join("mine").exists());
}

async fn permission_error_names_the_required_grant(case: ProtocolCase) {
    let mut client = client_with_session(&case).await;
    let file = file_uri(&outside(&case).join("file"));
    let error = client.call("resourceRead", json!({"uri": file})).await.unwrap_err();
    assert_eq!(error["data"]["request"], json!({"channel": ROOT, "uri": file, "read": true}));
}

async fn grant_requests_are_refused_by_default(case: ProtocolCase) {
    let mut client = client_with_session(&case).await;
    let outside = file_uri(&outside(&case));
    assert_eq!(client.call_error_code("resourceRequest", json!({"uri": outside, "read": true})).await, -32009);
    assert_eq!(
        client.call_ok("resourceRequest", with(at(&case, ""), json!({"read": true, "write": true}))).await,
        json!({})
    );
}

async fn dots_and_links_do_not_escape(case: ProtocolCase) {
    let mut client = client_with_session(&case).await;
    let outside = outside(&case);
    std::os::unix::fs::symlink(&outside, case.dir.join("way-out")).unwrap();
    std::os::unix::fs::symlink(outside.join("file"), case.dir.join("leak")).unwrap();
    let name = outside.file_name().unwrap().to_str().unwrap();
    for uri in [
        case.uri("way-out/file"),
        case.uri("leak"),
        format!("{}/../../{name}/file", case.uri("").trim_end_matches('/')),
        format!("{}/%2e%2e/%2e%2e/{name}/file", case.uri("").trim_end_matches('/')),
    ] {
        let code = client.call_error_code("resourceRead", json!({"uri": uri})).await;
        assert!([-32009, -32602].contains(&code), "{uri}: {code}");
        let write = json!({"uri": uri, "data": "x", "encoding": "utf-8"});
        assert!(client.call("resourceWrite", write).await.is_err() || uri.ends_with("/leak"), "{uri}");
    }
    assert_eq!(std::fs::read_to_string(outside.join("file")).unwrap(), "private", "no link is written through");
}

async fn host_files_are_out_of_reach(case: ProtocolCase) {
    let mut client = client_with_session(&case).await;
    let state = case.fixture.home.path("state").join("hostler");
    for name in ["token", "rules.toml", ""] {
        let uri = file_uri(&state.join(name));
        for method in ["resourceRead", "resourceList", "resourceDelete"] {
            assert_eq!(client.call_error_code(method, json!({"uri": uri})).await, -32009, "{method} {name}");
        }
    }
}

async fn special_files_are_rejected(case: ProtocolCase) {
    let mut client = client_with_session(&case).await;
    nix::unistd::mkfifo(&case.dir.join("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let code = client.call_error_code("resourceRead", at(&case, "pipe")).await;
    assert_eq!(code, -32009);
    for uri in ["file:///proc/self/environ", "file:///dev/zero"] {
        assert_eq!(client.call_error_code("resourceRead", json!({"uri": uri})).await, -32009, "{uri}");
    }
}

async fn non_local_file_uris_are_invalid(case: ProtocolCase) {
    let mut client = client_with_session(&case).await;
    for uri in ["file://elsewhere/x", "file:///x?y", "https://example.com/x", "x", "", "file:///a%2fb", "file:///a%00b"]
    {
        for method in ["resourceRead", "resourceList", "resourceResolve", "resourceDelete", "resourceMkdir"] {
            assert_eq!(client.call_error_code(method, json!({"uri": uri})).await, -32602, "{method} {uri}");
        }
    }
    for params in [json!({}), json!({"uri": 7}), json!({"uri": null})] {
        assert_eq!(client.call_error_code("resourceRead", params).await, -32602);
    }
}

async fn files_of_a_disposed_session_are_out_of_reach(case: ProtocolCase) {
    let (mut client, uris) = case.connect_with_session().await;
    case.write_file("file", "x");
    client.call_ok("resourceRead", at(&case, "file")).await;
    client.call_ok("disposeSession", json!({"channel": uris.session})).await;
    assert_eq!(client.call_error_code("resourceRead", at(&case, "file")).await, -32009);
}

async fn session_files_are_reachable_for_all_clients(case: ProtocolCase) {
    let _owner = client_with_session(&case).await;
    let mut other = case.connect_client().await;
    other.call_ok("resourceWrite", put(&case, "file", "x", json!({}))).await;
    assert_eq!(other.call_ok("resourceRead", at(&case, "file")).await["data"], "x");
}

async fn session_directory_cannot_be_removed(case: ProtocolCase) {
    let mut client = client_with_session(&case).await;
    let code = client.call_error_code("resourceDelete", with(at(&case, ""), json!({"recursive": true}))).await;
    assert_eq!(code, -32009);
    assert!(case.dir.is_dir());
}

async fn concurrent_writes_leave_one_whole_file(case: ProtocolCase) {
    let _owner = client_with_session(&case).await;
    let text = |number: usize| number.to_string().repeat(100_000);
    let params = |number: usize| put(&case, "file", &text(number), json!({}));
    assert_eq!(run_concurrently(&case, params).await.0, 10);
    let left = case.read_file("file");
    assert!((0..10).any(|number| left == text(number)), "a mixture of {} bytes", left.len());
    let entries = std::fs::read_dir(&case.dir).unwrap().count();
    assert_eq!(entries, 1, "no temporary file remains");
}
