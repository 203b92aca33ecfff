#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::sync::Arc;

use hostler_driver::{ClosedGate, ConversationStart};

use super::*;

fn endpoint() -> Endpoint {
    Endpoint { base_url: "http://127.0.0.1:4711".to_owned(), bearer: "nonce.id".to_owned().into() }
}

const MODEL: &str = "claude-sonnet-4-5";

fn vars(vars: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
    vars.iter().map(|(name, value)| (name.into(), value.into())).collect()
}

fn shown(environment: &Environment) -> Vec<String> {
    environment.iter().map(|(name, value)| format!("{}={}", name.display(), value.display())).collect()
}

fn spec() -> OpenSpec {
    OpenSpec {
        conversation: ConversationStart::New(Uuid::nil()),
        working_directory: "/somewhere".into(),
        model: "claude-sonnet-4-5".to_owned(),
        web_search: false,
        permission_mode: "default".to_owned(),
        effort: None,
        thinking_budget: None,
        more_directories: Vec::new(),
        folder_configuration: hostler_driver::FolderConfiguration::Ignored,
        endpoint: endpoint(),
        gatekeeper: Arc::new(ClosedGate),
    }
}

fn argument_list(identity: &Identity) -> Vec<String> {
    let arguments = arguments(identity, &spec()).unwrap();
    arguments.into_iter().map(|argument| argument.into_string().unwrap()).collect()
}

#[test]
fn a_new_conversation_is_started_with_these_arguments() {
    insta::assert_debug_snapshot!(argument_list(&Identity::New(Uuid::nil())), @r#"
    [
        "--output-format=stream-json",
        "--verbose",
        "--input-format=stream-json",
        "--include-partial-messages",
        "--permission-prompt-tool=stdio",
        "--permission-mode=default",
        "--model=claude-sonnet-4-5",
        "--setting-sources=user,project,local",
        "--settings={\"apiKeyHelper\":\"\",\"disableAllHooks\":true,\"env\":{\"ALL_PROXY\":\"\",\"ANTHROPIC_API_KEY\":\"\",\"ANTHROPIC_BASE_URL\":\"http://127.0.0.1:4711\",\"ANTHROPIC_CUSTOM_HEADERS\":\"\",\"CLAUDE_CODE_ENABLE_TELEMETRY\":\"0\",\"CLAUDE_CODE_USE_ANTHROPIC_AWS\":\"0\",\"CLAUDE_CODE_USE_BEDROCK\":\"0\",\"CLAUDE_CODE_USE_FOUNDRY\":\"0\",\"CLAUDE_CODE_USE_MANTLE\":\"0\",\"CLAUDE_CODE_USE_VERTEX\":\"0\",\"HTTPS_PROXY\":\"\",\"HTTP_PROXY\":\"\",\"NO_PROXY\":\"127.0.0.1,localhost\",\"all_proxy\":\"\",\"http_proxy\":\"\",\"https_proxy\":\"\",\"no_proxy\":\"127.0.0.1,localhost\"}}",
        "--strict-mcp-config",
        "--session-id=00000000-0000-0000-0000-000000000000",
        "--disallowedTools=WebSearch",
    ]
    "#);
}

#[test]
fn a_conversation_is_continued_by_its_token() {
    let arguments = argument_list(&Identity::Resume("/home/me/.claude/projects/-p/x.jsonl".to_owned()));
    assert!(arguments.contains(&"--resume=/home/me/.claude/projects/-p/x.jsonl".to_owned()));
    assert!(!arguments.iter().any(|argument| argument.starts_with("--session-id")));
}

#[test]
fn a_web_search_is_possible_where_the_provider_can_do_it() {
    let searching = arguments(&Identity::New(Uuid::nil()), &OpenSpec { web_search: true, ..spec() }).unwrap();
    assert!(!searching.iter().any(|argument| argument.to_str().unwrap().contains("WebSearch")));
}

#[test]
fn policies_and_more_directories_become_arguments() {
    let spec = OpenSpec {
        effort: Some("low".to_owned()),
        thinking_budget: Some(4000),
        more_directories: vec!["/a b".into(), "/c".into()],
        folder_configuration: hostler_driver::FolderConfiguration::Ignored,
        ..spec()
    };
    let arguments = arguments(&Identity::New(Uuid::nil()), &spec).unwrap();
    for argument in ["--effort=low", "--max-thinking-tokens=4000", "--add-dir=/a b", "--add-dir=/c"] {
        assert!(arguments.contains(&argument.into()), "{argument}");
    }
}

#[test]
fn every_value_is_glued_to_its_flag() {
    let spec = OpenSpec { model: "--model".to_owned(), permission_mode: "-p".to_owned(), ..spec() };
    let arguments = arguments(&Identity::Resume("-x".to_owned()), &spec).unwrap();
    assert!(arguments.iter().all(|argument| argument.to_str().unwrap().starts_with("--")));
}

#[test]
fn the_bearer_is_in_the_environment_and_not_in_the_arguments() {
    assert!(!argument_list(&Identity::New(Uuid::nil())).concat().contains("nonce.id"));
    let environment = environment(&[], &[], &[], &endpoint(), MODEL);
    assert_eq!(environment.get("ANTHROPIC_AUTH_TOKEN"), Some(OsStr::new("nonce.id")));
}

#[test]
fn the_environment_is_the_users_without_the_denied_and_with_ours() {
    let host = vars(&[
        ("PATH", "/bin"),
        ("HOME", "/home/me"),
        ("CLAUDE_CONFIG_DIR", "/c"),
        ("IS_SANDBOX", "1"),
        ("NODE_OPTIONS", "--require=/evil"),
        ("ANTHROPIC_API_KEY", "sk-host"),
        ("ANTHROPIC_BASE_URL", "https://elsewhere"),
        ("ANTHROPIC_AUTH_TOKEN", "host"),
        ("CLAUDECODE", "1"),
        ("CLAUDE_CODE_USE_BEDROCK", "1"),
        ("CLAUDE_CODE_SESSION_ID", "x"),
        ("VSCODE_PID", "1"),
        ("ELECTRON_RUN_AS_NODE", "1"),
        ("HOSTLER_UPSTREAM_KEY", "planted"),
        ("MY_UPSTREAM_KEY", "planted"),
        ("DEBUG", "*"),
        ("no_proxy", "intranet"),
    ]);
    let configured = vars(&[("CLAUDE_CODE_MAX_RETRIES", "2"), ("ANTHROPIC_BASE_URL", "https://past-the-gateway")]);
    let environment = environment(&host, &["MY_UPSTREAM_KEY".into()], &configured, &endpoint(), MODEL);
    insta::assert_debug_snapshot!(shown(&environment), @r#"
    [
        "ANTHROPIC_AUTH_TOKEN=nonce.id",
        "ANTHROPIC_BASE_URL=http://127.0.0.1:4711",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1",
        "CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING=true",
        "CLAUDE_CODE_ENTRYPOINT=sdk-ts",
        "CLAUDE_CODE_MAX_RETRIES=2",
        "CLAUDE_CODE_PROVIDER_MANAGED_BY_HOST=1",
        "CLAUDE_CONFIG_DIR=/c",
        "DISABLE_AUTOUPDATER=1",
        "DISABLE_ERROR_REPORTING=1",
        "DISABLE_TELEMETRY=1",
        "HOME=/home/me",
        "IS_SANDBOX=1",
        "NO_PROXY=127.0.0.1,localhost",
        "PATH=/bin",
        "no_proxy=intranet,127.0.0.1,localhost",
    ]
    "#);
}

#[test]
fn another_makers_model_does_the_small_jobs_too() {
    let small = |model: &str| {
        environment(&[], &[], &[], &endpoint(), model).get("ANTHROPIC_DEFAULT_HAIKU_MODEL").map(OsStr::to_owned)
    };
    assert_eq!(small("gpt-5"), Some("gpt-5".into()));
    assert_eq!(small("claude-opus-4-5"), None);
}
