//! Host in the benchmark's own process, with agents that the benchmark controls: it can stall the host's disk.

use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;

use hostler_ahp::{AccessPolicy, AhpConnectionLimits, BrowserSessions, Server, ServerConfig};
use hostler_driver::TranscriptStore;
use hostler_engine::Engine;
use hostler_testkit::fake_driver::{FakeAgentStarts, FakeDriver};

use super::stored_history::local_engine_config;

/// Running host.
pub(crate) struct LocalHost {
    pub(crate) url: String,
    pub(crate) starts: FakeAgentStarts,
    engine: Engine,
    server: Server,
}

impl LocalHost {
    pub(crate) async fn start(state: &Path, work: &Path, transcripts: Option<Arc<dyn TranscriptStore>>) -> Self {
        let (driver, starts) = FakeDriver::with_transcript_store(transcripts);
        let engine = Engine::start(local_engine_config(state, work, driver)).await.expect("the engine starts");
        let config = ServerConfig {
            listen: (Ipv4Addr::LOCALHOST, 0).into(),
            tls: None,
            access: AccessPolicy::default(),
            limits: AhpConnectionLimits::default(),
            logs: None,
            browser_sessions: BrowserSessions::default(),
            http_handler: None,
        };
        let server = Server::start(engine.clone(), config).await.expect("the server starts");
        Self { url: format!("ws://{}/", server.local_addr()), starts, engine, server }
    }

    pub(crate) async fn stop(self) {
        self.server.stop().await;
        self.engine.shutdown().await;
    }
}
