//! `hostler run --attach`: what the model receives, and what is stored.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::claude_driver::attachment_blocks::one_page_pdf;
use crate::common::scripted_upstream::ScriptedUpstreamServer;
use crate::common::{TestHome, run_to_end, text};

const GIF_IMAGE: &[u8] = include_bytes!("../../data/image.gif");
const TEXT_FILE: &str = "the third file\n";

/// Returns the user's contents of a request, without the agent's own reminders: the prompt and its attachments.
fn shown(request: &Value) -> Vec<(String, String)> {
    let messages = request["messages"].as_array().unwrap();
    let blocks = messages.iter().filter_map(|message| message["content"].as_array()).flatten();
    let shown = blocks.filter_map(|block| match block["type"].as_str().unwrap() {
        "text" if block["text"].as_str().unwrap().contains("!say") => Some(("question".to_owned(), String::new())),
        kind @ ("image" | "document") => {
            let source = &block["source"];
            let data = source["data"].as_str().unwrap().to_owned();
            Some((format!("{kind} {}", source["media_type"].as_str().unwrap()), data))
        }
        _ => None,
    });
    shown.collect()
}

async fn assert_three_files_reach_the_model(build: &str) {
    let (home, upstream) = (TestHome::new(), ScriptedUpstreamServer::start().await);
    let files = [("image.gif", GIF_IMAGE.to_vec()), ("paper.pdf", one_page_pdf()), ("notes.txt", TEXT_FILE.into())];
    for (name, contents) in &files {
        std::fs::write(home.work().join(name), contents).unwrap();
    }
    let hostler = |args: &[&str]| {
        let mut command = home.hostler_command(args);
        command.env("HOSTLER_CLAUDE", build).env("HOSTLER_UPSTREAM", "anthropic");
        command.env("HOSTLER_UPSTREAM_URL", &upstream.url).env("HOSTLER_UPSTREAM_KEY", "sk-ours");
        run_to_end(command)
    };
    let attached = files.iter().flat_map(|(name, _)| ["--attach", name]);
    let args: Vec<_> = ["run", "!say seen"].into_iter().chain(attached).collect();
    let output = hostler(&args).await;
    assert_eq!(text(&output.stdout), "seen", "{build}: {}", text(&output.stderr));
    assert!(output.status.success());

    let asked: Vec<_> = upstream.requests().iter().map(|request| shown(&request.body)).collect();
    let asked = asked.iter().find(|shown| shown.iter().any(|(kind, _)| kind == "question")).unwrap();
    let expected = [
        ("question".to_owned(), String::new()),
        ("image image/gif".to_owned(), STANDARD.encode(GIF_IMAGE)),
        ("document application/pdf".to_owned(), STANDARD.encode(one_page_pdf())),
        ("document text/plain".to_owned(), TEXT_FILE.to_owned()),
    ];
    assert_eq!(*asked, expected, "{build}");

    let listed = hostler(&["sessions", "list", "--json"]).await;
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    let session = listed[0]["resource"].as_str().unwrap();
    let printed = text(&hostler(&["sessions", "show", session]).await.stdout);
    for line in ["+ image.gif (image/gif", "+ paper.pdf (application/pdf, 1 page", "+ notes.txt (text/plain"] {
        assert!(printed.contains(line), "{build}: {printed}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn three_files_reach_the_model_in_order_native() {
    assert_three_files_reach_the_model("native").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn three_files_reach_the_model_in_order_js() {
    assert_three_files_reach_the_model("js").await;
}
