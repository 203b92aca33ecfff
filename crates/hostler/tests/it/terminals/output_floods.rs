//! Shells that print too much, or do not read.

use super::*;

fn memory(host: &HostProcess) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", host.pid)).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
async fn output_flood_is_bounded_and_does_not_affect_others() {
    let home = TestHome::new();
    let host = plain(&home).await;
    let mut me = TerminalClient::new(&host, "me").await;
    let mut other = TerminalClient::new(&host, "other").await;
    me.open(TERMINAL_URI, &home.work()).await;
    let before = memory(&host);
    me.type_in(TERMINAL_URI, "yes 'a line that is printed again and again, äöü'\n").await;
    // Some megabytes; this client discards them.
    let mut seen = 0;
    while seen < 24_000_000 {
        assert!(me.receive().await);
        let received: Vec<_> = me.received.drain(..).collect();
        seen += received.iter().filter_map(|item| item["action"]["data"].as_str()).map(str::len).sum::<usize>();
        me.terminals.get_mut(TERMINAL_URI).unwrap().content.clear();
        assert!(received.iter().all(|item| item["action"]["data"].as_str().is_none_or(|data| data.len() <= 200_000)));
    }
    // Meanwhile other clients work as usual, and a new subscriber gets a bounded snapshot.
    other.call("createSession", json!({"channel": "claude:/calm"})).await.unwrap();
    other.call("listSessions", json!({})).await.unwrap();
    other.subscribe(TERMINAL_URI).await;
    let screen = other.screen(TERMINAL_URI);
    assert!(screen.len() <= 512 * 1024 && screen.len() > 256 * 1024, "{}", screen.len());
    assert!(screen.starts_with("a line that") && !screen.contains('\u{FFFD}'));
    let grown = memory(&host).saturating_sub(before);
    assert!(grown < 150 * 1024, "the host has grown by {grown} KiB");
    // It can be interrupted.
    me.type_in(TERMINAL_URI, "\u{3}").await;
    me.type_in(TERMINAL_URI, "echo calm-$((1+1))\n").await;
    me.wait_until(|me| {
        me.received.iter().any(|item| item["action"]["data"].as_str().is_some_and(|data| data.contains("calm-2")))
    })
    .await;
    host.stop().await;
}

#[tokio::test]
async fn input_to_a_program_that_does_not_read_is_rejected_with_a_reason() {
    let home = TestHome::new();
    let host = plain(&home).await;
    let mut me = TerminalClient::new(&host, "me").await;
    me.open(TERMINAL_URI, &home.work()).await;
    me.type_in(TERMINAL_URI, "stty raw -echo; echo dea''f; exec sleep 1000\n").await;
    me.wait_for_text(TERMINAL_URI, "deaf").await;
    let chunk = "\u{0}\u{1b}[A\u{7f}ä\r\n".repeat(10_000);
    let reason = loop {
        if let Some(reason) =
            me.dispatch_and_confirm(TERMINAL_URI, json!({"type": "terminal/input", "data": chunk})).await
        {
            break reason;
        }
    };
    assert!(reason.contains("does not read"), "{reason}");
    let refused = me.received.iter().find(|item| item["rejectionReason"].is_string()).unwrap();
    assert_eq!(refused["action"]["data"], "", "the rejection does not contain the input");
    // Everything else continues.
    assert_eq!(
        me.dispatch_and_confirm(TERMINAL_URI, json!({"type": "terminal/resized", "cols": 50, "rows": 10})).await,
        None
    );
    me.call("disposeTerminal", json!({"channel": TERMINAL_URI})).await.unwrap();
    assert_eq!(host.process_tree(), [] as [u32; 0]);
    host.stop().await;
}

#[tokio::test]
async fn frequent_title_changes_do_not_flood_the_terminal_list() {
    let home = TestHome::new();
    let host = plain(&home).await;
    let mut me = TerminalClient::new(&host, "me").await;
    me.open(TERMINAL_URI, &home.work()).await;
    me.type_in(
        TERMINAL_URI,
        "i=0; while [ $i -lt 3000 ]; do i=$((i+1)); printf '\\033]0;title %d\\007' $i; sleep 0; done\n",
    )
    .await;
    // The last title is listed in the end.
    me.wait_until(|me| me.root.terminals.iter().flatten().any(|info| info.title == "title 3000")).await;
    assert_eq!(me.state(TERMINAL_URI).title, "title 3000");
    let changes = me.received.iter().filter(|item| item["action"]["type"] == "root/terminalsChanged").count();
    assert!(changes < 300, "{changes}");
    host.stop().await;
}
