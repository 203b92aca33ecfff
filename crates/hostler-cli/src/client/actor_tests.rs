//! Tests of the socket task: backpressure, keepalive and close.

use tokio::net::TcpListener;

use super::*;

/// Returns both ends of a connection; an actor with a short queue and short timeouts runs the client's end.
async fn pair(
    queue: usize,
    timeouts: KeepaliveTimeouts,
) -> (WebSocketStream<TcpStream>, mpsc::Sender<ClientCommand>, mpsc::Receiver<HostEvent>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}/", listener.local_addr().unwrap());
    let accept = async { tokio_tungstenite::accept_async(listener.accept().await.unwrap().0).await.unwrap() };
    let (peer, client) = tokio::join!(accept, tokio_tungstenite::connect_async(url));
    let (commands, inbox) = mpsc::channel(4);
    let (outbox, events) = mpsc::channel(queue);
    tokio::spawn(ConnectionActor::new(client.unwrap().0, inbox, outbox, timeouts).run());
    (peer, commands, events)
}

fn request() -> (ClientCommand, oneshot::Receiver<Result<Box<RawValue>, ClientError>>) {
    let (reply, answer) = oneshot::channel();
    (ClientCommand::Request { method: "ping", params: RawValue::NULL.to_owned(), reply }, answer)
}

fn note(number: usize) -> Message {
    let (method, session) = ("root/sessionRemoved", format!("p:/{number}"));
    Message::text(serde_json::json!({"jsonrpc": "2.0", "method": method, "params": {"session": session}}).to_string())
}

#[tokio::test]
async fn slow_reader_loses_no_events_but_its_requests_fail() {
    let (mut peer, commands, mut events) = pair(1, KeepaliveTimeouts::DEFAULT).await;
    for number in 0..50 {
        peer.send(note(number)).await.unwrap();
    }
    // The first event fills the queue; while a second one is blocked, no answer can be read.
    let (command, answer) = request();
    commands.send(command).await.unwrap();
    assert!(matches!(answer.await.unwrap(), Err(ClientError::FellBehind)));

    for number in 0..50 {
        let Some(HostEvent::SessionRemoved(session)) = events.recv().await else { panic!("an event is missing") };
        assert_eq!(session, format!("p:/{number}"));
    }
    is_answered(&mut peer, &commands).await;
}

/// Asserts that a request is answered while the host responds.
async fn is_answered(peer: &mut WebSocketStream<TcpStream>, commands: &mpsc::Sender<ClientCommand>) {
    let (command, answer) = request();
    commands.send(command).await.unwrap();
    let obliging = async {
        while let Some(Ok(Message::Text(text))) = peer.next().await {
            let frame: serde_json::Value = serde_json::from_str(text.as_str()).unwrap();
            let reply = format!(r#"{{"jsonrpc":"2.0","id":{},"result":null}}"#, frame["id"]);
            peer.send(Message::text(reply)).await.unwrap();
        }
    };
    tokio::select! {
        answer = answer => assert_eq!(answer.unwrap().unwrap().get(), "null"),
        () = obliging => panic!("the connection ended"),
    }
}

#[tokio::test]
async fn ignored_notifications_do_not_block_requests() {
    let (mut peer, commands, mut events) = pair(1, KeepaliveTimeouts::DEFAULT).await;
    for _ in 0..50 {
        peer.send(Message::text(r#"{"jsonrpc":"2.0","method":"root/sessionAdded","params":{}}"#)).await.unwrap();
    }
    is_answered(&mut peer, &commands).await;
    assert!(events.try_recv().is_err());
}

#[tokio::test]
async fn silent_host_is_pinged_then_disconnected() {
    let timeouts = KeepaliveTimeouts { ping_after: Duration::from_millis(10), close_after: Duration::from_millis(10) };
    let (mut peer, _commands, mut events) = pair(4, timeouts).await;
    let Message::Text(text) = peer.next().await.unwrap().unwrap() else { panic!("not text") };
    let frame: serde_json::Value = serde_json::from_str(text.as_str()).unwrap();
    assert_eq!((&frame["method"], &frame["params"]["channel"]), (&"ping".into(), &"ahp-root://".into()));
    let Some(HostEvent::Closed(error)) = events.recv().await else { panic!("not closed") };
    assert_eq!(error.to_string(), "The connection to the host was closed: the host stopped responding.");
}

#[tokio::test]
async fn lost_connection_fails_pending_requests() {
    let (peer, commands, mut events) = pair(4, KeepaliveTimeouts::DEFAULT).await;
    let (command, answer) = request();
    commands.send(command).await.unwrap();
    drop(peer);
    assert!(matches!(answer.await.unwrap(), Err(ClientError::Closed(_))));
    assert!(matches!(events.recv().await, Some(HostEvent::Closed(_))));
    assert!(events.recv().await.is_none());
}

#[tokio::test]
async fn close_sends_a_close_frame() {
    let (mut peer, commands, _events) = pair(4, KeepaliveTimeouts::DEFAULT).await;
    let (done, closed) = oneshot::channel();
    commands.send(ClientCommand::Close { done }).await.unwrap();
    assert!(matches!(peer.next().await, Some(Ok(Message::Close(_)))));
    assert!(peer.next().await.is_none());
    closed.await.unwrap();
}
