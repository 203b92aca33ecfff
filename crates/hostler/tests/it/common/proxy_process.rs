//! A running `hostler proxy`.

use std::process::Stdio;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::process::{Child, ChildStdout, Command};
use tokio::sync::watch;

use super::TEST_TIMEOUT;

pub struct ProxyProcess {
    pub child: Child,
    pub port: u16,
    pub nonce: String,
    stdout: BufReader<ChildStdout>,
    stderr: watch::Receiver<String>,
}

impl ProxyProcess {
    /// Starts it and waits until it is ready.
    pub async fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (sender, mut stderr) = watch::channel(String::new());
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                sender.send_modify(|log| {
                    log.push_str(&line);
                    log.push('\n');
                });
            }
        });
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let (mut ready, mut nonce) = (String::new(), String::new());
        let reading = async {
            stdout.read_line(&mut ready).await.unwrap();
            stdout.read_line(&mut nonce).await.unwrap();
        };
        tokio::time::timeout(TEST_TIMEOUT, reading).await.expect("it becomes ready or ends");
        let port = ready.strip_prefix("READY:").and_then(|port| port.trim_end().parse().ok());
        let nonce = nonce.strip_prefix("NONCE:").map(|nonce| nonce.trim_end().to_owned());
        let (Some(port), Some(nonce)) = (port, nonce) else {
            drop(stderr.wait_for(|_| false).await);
            panic!("not ready: {ready:?}\n{}", stderr.borrow().as_str())
        };
        Self { child, port, nonce, stdout, stderr }
    }

    pub fn base_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub fn bearer(&self) -> String {
        format!("{}.test", self.nonce)
    }

    /// Returns the stderr output so far.
    pub fn stderr_text(&self) -> String {
        self.stderr.borrow().clone()
    }

    /// Waits until stderr contains a text this many times.
    pub async fn wait_for_log(&self, part: &str, times: usize) -> String {
        let mut stderr = self.stderr.clone();
        let waiting = stderr.wait_for(|log| log.matches(part).count() >= times);
        match tokio::time::timeout(TEST_TIMEOUT, waiting).await {
            Ok(Ok(log)) => log.clone(),
            _ => panic!("{part:?} was not logged {times} times:\n{}", self.stderr_text()),
        }
    }

    /// Sends a message; returns the status and the body of the answer.
    pub async fn send_message(&self, model: &str, text: &str, stream: bool) -> (u16, String) {
        let body = json!({
            "model": model, "max_tokens": 100, "stream": stream, "messages": [{"role": "user", "content": text}],
        });
        let request = reqwest::Client::builder().no_proxy().build().unwrap().post(self.base_url() + "/v1/messages");
        let response = request.bearer_auth(self.bearer()).body(body.to_string()).send().await.unwrap();
        (response.status().as_u16(), response.text().await.unwrap())
    }

    /// Sends a message with a streamed answer; returns after the stream contains a text.
    pub async fn start_stream(&self, model: &str, text: &str, until: &str) -> (reqwest::Response, String) {
        let messages = json!([{"role": "user", "content": text}]);
        let body = json!({"model": model, "max_tokens": 100, "stream": true, "messages": messages}).to_string();
        let request = reqwest::Client::builder().no_proxy().build().unwrap().post(self.base_url() + "/v1/messages");
        let mut response = request.bearer_auth(self.bearer()).body(body).send().await.unwrap();
        let mut seen = String::new();
        while !seen.contains(until) {
            seen.push_str(std::str::from_utf8(&response.chunk().await.unwrap().unwrap()).unwrap());
        }
        (response, seen)
    }

    /// Returns the text of an answer that is not streamed.
    pub async fn answer_text(&self, model: &str, text: &str) -> String {
        let (status, body) = self.send_message(model, text, false).await;
        assert_eq!(status, 200, "{body}");
        let body: Value = serde_json::from_str(&body).unwrap();
        body["content"][0]["text"].as_str().unwrap().to_owned()
    }

    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(i32::try_from(self.child.id().unwrap()).unwrap()), signal).unwrap();
    }

    /// Sends a signal; expects exit code 0 and nothing on stdout but the two lines.
    pub async fn stop_with_signal(self, signal: Signal) -> String {
        self.signal(signal);
        self.wait_for_exit().await
    }

    pub async fn stop(self) -> String {
        self.stop_with_signal(Signal::SIGTERM).await
    }

    /// Waits for its successful end.
    pub async fn wait_for_exit(mut self) -> String {
        let status = tokio::time::timeout(TEST_TIMEOUT, self.child.wait()).await.expect("it ends").unwrap();
        // The reader ends with the stream.
        drop(self.stderr.wait_for(|_| false).await);
        assert_eq!(status.code(), Some(0), "{}", self.stderr_text());
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).await.unwrap();
        assert_eq!(rest, "", "stdout holds two lines alone");
        self.stderr_text()
    }
}
