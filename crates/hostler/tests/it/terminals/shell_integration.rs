//! Shell integration: shells that report their commands.

use super::*;

const SHELLS: [&str; 3] = ["/bin/bash", "/usr/bin/zsh", "/usr/bin/fish"];

/// Waits until this many commands have ended.
async fn ended(me: &mut TerminalClient, count: usize) {
    me.wait_until(|me| me.commands(TERMINAL_URI).len() == count).await;
}

#[tokio::test]
async fn commands_are_reported_with_line_output_and_exit_code() {
    for shell in SHELLS {
        let home = TestHome::new();
        // The user's own startup files are read, too.
        for (file, line) in
            [(".bashrc", "MINE=yes"), (".zshrc", "MINE=yes"), (".config/fish/config.fish", "set -g MINE yes")]
        {
            let path = home.path("home").join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, format!("{line}\n")).unwrap();
        }
        let config = home.path("home").join(".config");
        let host =
            home.serve_fake(&[("HOSTLER_TERMINAL_SHELL", shell), ("XDG_CONFIG_HOME", config.to_str().unwrap())]).await;
        let mut me = TerminalClient::new(&host, "me").await;
        me.open(TERMINAL_URI, &home.work()).await;
        me.wait_until(|me| me.state(TERMINAL_URI).supports_command_detection == Some(true)).await;
        me.type_in(TERMINAL_URI, "echo \"one;two\\\\ ü $MINE\"\r").await;
        ended(&mut me, 1).await;
        let (line, output, code) = me.commands(TERMINAL_URI).remove(0);
        assert_eq!((line.as_str(), code), ("echo \"one;two\\\\ ü $MINE\"", Some(0)), "{shell}");
        assert!(output.contains("one;two\\ ü yes"), "{shell}: {output:?}");

        me.type_in(TERMINAL_URI, "false\r").await;
        ended(&mut me, 2).await;
        assert_eq!(me.commands(TERMINAL_URI)[1].2, Some(1), "{shell}");

        // Marks without our nonce are plain output; the nonce is in no environment.
        me.type_in(
            TERMINAL_URI,
            "printf '\\033]633;C;made-up;spoofed\\007\\033]633;D;made-up;7\\007'; env | grep -c HOSTLER_TERM\r",
        )
        .await;
        ended(&mut me, 3).await;
        let (line, output, _) = me.commands(TERMINAL_URI).remove(2);
        assert!(line.starts_with("printf") && output.contains("\x1b]633;C;made-up;spoofed\x07"), "{shell}: {output:?}");
        assert!(output.contains("\x070\r\n"), "{shell}: {output:?}");

        me.type_in(TERMINAL_URI, "cd /\r").await;
        me.wait_until(|me| me.state(TERMINAL_URI).cwd.as_deref() == Some("file:///")).await;
        me.type_in(TERMINAL_URI, "exit\r").await;
        me.wait_until(|me| me.exit_code(TERMINAL_URI).is_some()).await;
        // Our own sequences are not visible.
        assert!(!me.screen(TERMINAL_URI).contains("633;A"), "{shell}");
        assert!(me.commands(TERMINAL_URI).iter().all(|(line, ..)| !line.contains("spoofed\x07")), "{shell}");
        let mut late = TerminalClient::new(&host, "late").await;
        late.subscribe(TERMINAL_URI).await;
        assert_eq!(late.commands(TERMINAL_URI), me.commands(TERMINAL_URI), "{shell}");
        host.stop().await;
    }
}

#[tokio::test]
async fn lines_excluded_from_history_are_not_reported() {
    let cases = [
        ("/bin/bash", ".bashrc", "HISTCONTROL=ignoredups; HISTIGNORE='*secret*'", "true secret"),
        ("/bin/bash", ".bashrc", "HISTCONTROL=ignoreboth:ignoredups", " true secret"),
        ("/usr/bin/zsh", ".zshrc", "setopt hist_ignore_space", " true secret"),
        ("/usr/bin/zsh", ".zshrc", "HISTORY_IGNORE='*secret*'", "true secret"),
        ("/usr/bin/fish", ".unread", "", " true secret"),
    ];
    for (shell, file, settings, secret) in cases {
        let home = TestHome::new();
        std::fs::create_dir_all(home.path("home")).unwrap();
        std::fs::write(home.path("home").join(file), format!("{settings}\n")).unwrap();
        let config = home.path("home").join(".config");
        let host =
            home.serve_fake(&[("HOSTLER_TERMINAL_SHELL", shell), ("XDG_CONFIG_HOME", config.to_str().unwrap())]).await;
        let mut me = TerminalClient::new(&host, "me").await;
        me.open(TERMINAL_URI, &home.work()).await;
        me.wait_until(|me| me.state(TERMINAL_URI).supports_command_detection == Some(true)).await;
        for (count, line) in ["true before", secret, "true after"].into_iter().enumerate() {
            me.type_in(TERMINAL_URI, &format!("{line}\r")).await;
            ended(&mut me, count + 1).await;
        }
        let lines: Vec<String> = me.commands(TERMINAL_URI).into_iter().map(|(line, ..)| line).collect();
        assert_eq!(lines, ["true before", "", "true after"], "{shell} {settings}");
        host.stop().await;
    }
}

#[tokio::test]
async fn split_characters_are_reassembled() {
    let home = TestHome::new();
    let host = plain(&home).await;
    let mut me = TerminalClient::new(&host, "me").await;
    me.open(TERMINAL_URI, &home.work()).await;
    me.type_in(
        TERMINAL_URI,
        "printf '\\360\\237'; sleep 0.1; printf '\\230\\200|'; printf '\\303'; sleep 0.1; printf '\\244\\377!\\n'\n",
    )
    .await;
    me.wait_for_text(TERMINAL_URI, "\u{1F600}|ä\u{FFFD}!").await;
    me.type_in(TERMINAL_URI, "echo 'größer \u{1F680}'\n").await;
    me.wait_until(|me| me.screen(TERMINAL_URI).matches("größer \u{1F680}").count() == 2).await;
    host.stop().await;
}

#[tokio::test]
async fn last_of_many_resizes_applies() {
    let home = TestHome::new();
    let host = plain(&home).await;
    let mut me = TerminalClient::new(&host, "me").await;
    me.open(TERMINAL_URI, &home.work()).await;
    for cols in 1..=300 {
        me.dispatch(TERMINAL_URI, json!({"type": "terminal/resized", "cols": cols, "rows": 1 + cols % 50})).await;
    }
    assert_eq!(
        me.dispatch_and_confirm(TERMINAL_URI, json!({"type": "terminal/resized", "cols": 123, "rows": 45})).await,
        None
    );
    me.type_in(TERMINAL_URI, "stty size\n").await;
    me.wait_for_text(TERMINAL_URI, "\n45 123\r\n").await;
    assert_eq!((me.state(TERMINAL_URI).cols, me.state(TERMINAL_URI).rows), (Some(123), Some(45)));
    host.stop().await;
}
