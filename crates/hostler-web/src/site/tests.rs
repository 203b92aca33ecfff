//! Answers of a site: caching, compressed copies, routes and headers.

use http::Request;

use super::*;

const SCRIPT: &str = "/assets/index-Ab3_x-9Z.js";

/// A page with a script in three copies, and an image that is not compressed.
fn site() -> Site {
    let file = |path: &str, content: &'static str, first: u8| {
        let mut hash = [0; 32];
        hash[0] = first;
        PageFile { path: path.to_owned(), content: Bytes::from_static(content.as_bytes()), hash }
    };
    Site::new([
        file("index.html", "<!doctype html>", 1),
        file("assets/index-Ab3_x-9Z.js", "plain", 2),
        file("assets/index-Ab3_x-9Z.js.gz", "gzipped", 3),
        file("assets/index-Ab3_x-9Z.js.br", "brotli", 4),
        file("icon.png", "image", 5),
        file("backup.tar.gz", "an archive", 6),
    ])
}

fn ask(site: &Site, method: &str, path: &str, headers: &[(&str, &str)]) -> Response<Bytes> {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    site.respond(&request.body(()).unwrap().into_parts().0)
}

fn header<'a>(answer: &'a Response<Bytes>, name: &str) -> &'a str {
    answer.headers().get(name).map_or("", |value| value.to_str().unwrap())
}

#[test]
fn a_hashed_file_is_immutable_and_sent_as_its_smallest_copy() {
    for (accept, encoding, body) in [("gzip, br", "br", "brotli"), ("gzip", "gzip", "gzipped"), ("", "", "plain")] {
        let answer = ask(&site(), "GET", SCRIPT, &[("accept-encoding", accept)]);
        assert_eq!((answer.status().as_u16(), &answer.body()[..]), (200, body.as_bytes()));
        assert_eq!(header(&answer, "content-encoding"), encoding);
        assert_eq!(header(&answer, "content-type"), "text/javascript; charset=utf-8");
        assert_eq!(header(&answer, "cache-control"), "public, max-age=31536000, immutable");
        assert_eq!(header(&answer, "vary"), "Accept-Encoding");
    }
}

#[test]
fn the_page_is_revalidated_and_sent_only_if_changed() {
    let first = ask(&site(), "GET", "/", &[]);
    assert_eq!(header(&first, "cache-control"), "no-cache");
    assert_eq!(header(&first, "content-type"), "text/html; charset=utf-8");
    let tag = header(&first, "etag");
    for known in [tag.to_owned(), format!("W/{tag}"), format!("\"other\", {tag}"), "*".to_owned()] {
        let again = ask(&site(), "GET", "/", &[("if-none-match", &known)]);
        assert_eq!((again.status().as_u16(), again.body().len()), (304, 0), "{known}");
        assert_eq!(header(&again, "etag"), tag);
    }
    let other = ask(&site(), "GET", "/", &[("if-none-match", "\"other\"")]);
    assert_eq!((other.status().as_u16(), &other.body()[..]), (200, &b"<!doctype html>"[..]));
}

#[test]
fn each_copy_has_its_own_etag() {
    let tag = |accept| header(&ask(&site(), "GET", SCRIPT, &[("accept-encoding", accept)]), "etag").to_owned();
    let tags = [tag("br"), tag("gzip"), tag("")];
    assert!(tags[0] != tags[1] && tags[1] != tags[2] && tags[0] != tags[2], "{tags:?}");
    let known = [("accept-encoding", "gzip"), ("if-none-match", &tags[0])];
    assert_eq!(ask(&site(), "GET", SCRIPT, &known).status(), 200, "it knows another copy");
}

#[test]
fn routes_return_the_page_and_missing_files_are_not_found() {
    for path in
        ["/", "/session/claude%3A%2F0b9e3c5e", "/settings", "/index.html", "//", "/%2e%2e%2fsecret", "/?tkn=x.y"]
    {
        let answer = ask(&site(), "GET", path, &[]);
        assert_eq!((answer.status().as_u16(), &answer.body()[..]), (200, &b"<!doctype html>"[..]), "{path}");
    }
    for path in
        ["/favicon.ico", "/../Cargo.toml", "/..%2fCargo.toml", "/assets/../index.html", "/.git/config", "/a.b/c"]
    {
        assert_eq!(ask(&site(), "GET", path, &[]).status(), 404, "{path}");
    }
}

#[test]
fn a_file_that_only_looks_like_a_copy_is_served() {
    let answer = ask(&site(), "GET", "/backup.tar.gz", &[("accept-encoding", "gzip")]);
    assert_eq!((answer.status().as_u16(), header(&answer, "content-encoding")), (200, ""));
    assert_eq!(&answer.body()[..], b"an archive");
    assert_eq!(ask(&site(), "GET", "/assets/index-Ab3_x-9Z.js.gz", &[]).status(), 404);
}

#[test]
fn methods_other_than_get_and_head_are_refused() {
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"] {
        let answer = ask(&site(), method, "/", &[]);
        assert_eq!((answer.status().as_u16(), header(&answer, "allow")), (405, "GET, HEAD"));
    }
    let head = ask(&site(), "HEAD", "/icon.png", &[]);
    assert_eq!((head.status().as_u16(), header(&head, "content-type")), (200, "image/png"));
    assert_eq!(header(&head, "vary"), "");
}

#[test]
fn without_a_page_every_path_explains_how_to_build_one() {
    let empty = Site::new([]);
    assert!(!empty.is_built());
    for path in ["/", "/session/x", "/assets/index.js"] {
        let answer = ask(&empty, "GET", path, &[]);
        assert_eq!(answer.status(), 503);
        assert!(String::from_utf8_lossy(answer.body()).contains("cargo xtask web"));
    }
}

#[test]
fn every_answer_has_security_headers() {
    let expected = [
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
    ];
    let known = header(&ask(&site(), "GET", "/", &[]), "etag").to_owned();
    let answers = [
        ask(&site(), "GET", "/", &[]),
        ask(&site(), "GET", "/", &[("if-none-match", &known)]),
        ask(&site(), "GET", SCRIPT, &[]),
        ask(&site(), "GET", "/no.file", &[]),
        ask(&site(), "POST", "/", &[]),
        ask(&Site::new([]), "GET", "/", &[]),
    ];
    for answer in &answers {
        for (name, value) in expected {
            assert_eq!(header(answer, name), value, "{}", answer.status());
        }
        let policy = header(answer, "content-security-policy");
        for part in
            ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "trusted-types svelte-trusted-html"]
        {
            assert!(policy.split("; ").any(|found| found == part), "{part}: {policy}");
        }
        assert!(!policy.contains("unsafe") && !policy.contains("  "), "{policy}");
        assert!(header(answer, "permissions-policy").contains("camera=(self)"));
    }
}
