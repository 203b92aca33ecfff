//! Unit tests of the agent's command line and environment.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::sync::Arc;

use hostler_driver::{ConversationStart, DenyAllGate};

use super::*;
use crate::workspace::ConfigIsolation;

fn endpoint() -> GatewayEndpoint {
    GatewayEndpoint { base_url: "http://127.0.0.1:4711".to_owned(), bearer: "nonce.id".to_owned().into() }
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
        additional_directories: Vec::new(),
        folder_configuration: hostler_driver::FolderConfiguration::Ignored,
        endpoint: endpoint(),
        permission_gate: Arc::new(DenyAllGate),
    }
}

/// The arguments in a folder whose configuration does not apply. Random directories are replaced by `STAGE`.
fn start(recipe: ConfigIsolation, identity: &SessionArgument, spec: &OpenSpec) -> Vec<String> {
    let runtime = tempfile::tempdir().unwrap();
    let stage = StagedConfiguration::prepare(runtime.path(), "c", recipe, "/somewhere".as_ref(), None, None).unwrap();
    let directory = std::fs::read_dir(runtime.path()).unwrap().next().unwrap().unwrap().path();
    let arguments = arguments(identity, spec, &stage).unwrap();
    let shown = |argument: OsString| argument.into_string().unwrap().replace(directory.to_str().unwrap(), "STAGE");
    arguments.into_iter().map(shown).collect()
}

fn argument_list(identity: &SessionArgument) -> Vec<String> {
    start(ConfigIsolation::ConfigRoot, identity, &spec())
}

#[test]
fn arguments_of_a_new_conversation() {
    insta::assert_debug_snapshot!(argument_list(&SessionArgument::New(Uuid::nil())), @r#"
    [
        "--output-format=stream-json",
        "--verbose",
        "--input-format=stream-json",
        "--include-partial-messages",
        "--permission-prompt-tool=stdio",
        "--permission-mode=default",
        "--model=claude-sonnet-4-5",
        "--settings={\"apiKeyHelper\":\"\",\"disableAllHooks\":true,\"disableSkillShellExecution\":true,\"env\":{\"ALL_PROXY\":\"\",\"ANTHROPIC_API_KEY\":\"\",\"ANTHROPIC_BASE_URL\":\"http://127.0.0.1:4711\",\"ANTHROPIC_CUSTOM_HEADERS\":\"\",\"CLAUDE_CODE_ENABLE_TELEMETRY\":\"0\",\"CLAUDE_CODE_USE_ANTHROPIC_AWS\":\"0\",\"CLAUDE_CODE_USE_BEDROCK\":\"0\",\"CLAUDE_CODE_USE_FOUNDRY\":\"0\",\"CLAUDE_CODE_USE_MANTLE\":\"0\",\"CLAUDE_CODE_USE_VERTEX\":\"0\",\"HTTPS_PROXY\":\"\",\"HTTP_PROXY\":\"\",\"NO_PROXY\":\"127.0.0.1,localhost\",\"all_proxy\":\"\",\"http_proxy\":\"\",\"https_proxy\":\"\",\"no_proxy\":\"127.0.0.1,localhost\"}}",
        "--strict-mcp-config",
        "--session-id=00000000-0000-0000-0000-000000000000",
        "--disallowedTools=WebSearch",
        "--setting-sources=user,project,local",
        "--project-config-root=STAGE",
    ]
    "#);
}

#[test]
fn arguments_resume_by_token() {
    let arguments = argument_list(&SessionArgument::Resume("/home/me/.claude/projects/-p/x.jsonl".to_owned()));
    assert!(arguments.contains(&"--resume=/home/me/.claude/projects/-p/x.jsonl".to_owned()));
    assert!(!arguments.iter().any(|argument| argument.starts_with("--session-id")));
}

#[test]
fn web_search_is_enabled_if_the_provider_supports_it() {
    let spec = OpenSpec { web_search: true, ..spec() };
    let searching = start(ConfigIsolation::ConfigRoot, &SessionArgument::New(Uuid::nil()), &spec);
    assert!(!searching.iter().any(|argument| argument.contains("WebSearch")));
}

#[test]
fn settings_and_additional_directories_become_arguments() {
    let spec = OpenSpec {
        effort: Some("low".to_owned()),
        thinking_budget: Some(4000),
        additional_directories: vec!["/a b".into(), "/c".into()],
        folder_configuration: hostler_driver::FolderConfiguration::Ignored,
        ..spec()
    };
    let arguments = start(ConfigIsolation::ConfigRoot, &SessionArgument::New(Uuid::nil()), &spec);
    for argument in ["--effort=low", "--max-thinking-tokens=4000"] {
        assert!(arguments.contains(&argument.to_owned()), "{argument}");
    }
    // `--add-dir` would load the plugins that a directory enables.
    let settings = arguments.iter().find_map(|argument| argument.strip_prefix("--settings=")).unwrap();
    assert!(settings.contains(r#""permissions":{"additionalDirectories":["/a b","/c"]}"#), "{settings}");
    assert!(!arguments.concat().contains("--add-dir"), "{arguments:?}");
}

#[test]
fn build_without_config_root_uses_only_user_settings() {
    let arguments = start(ConfigIsolation::UserOnly, &SessionArgument::New(Uuid::nil()), &spec());
    let (before, sources) = arguments.split_at(arguments.len() - 2);
    assert_eq!(sources, ["--setting-sources=user", "--add-dir=STAGE/memory"]);
    assert!(before.concat().contains(r#""includeGitInstructions":false"#), "{before:?}");
}

#[test]
fn git_settings_are_added_after_the_users() {
    let git = |host: &[(&str, &str)]| {
        let mut shown = shown(&environment(&vars(host), &[], &[], &[], &endpoint(), MODEL));
        shown.retain(|variable| variable.starts_with("GIT_"));
        shown
    };
    let ours = [
        "GIT_CONFIG_COUNT=2",
        "GIT_CONFIG_KEY_0=core.fsmonitor",
        "GIT_CONFIG_KEY_1=safe.bareRepository",
        "GIT_CONFIG_VALUE_0=false",
        "GIT_CONFIG_VALUE_1=explicit",
        "GIT_OPTIONAL_LOCKS=0",
        "GIT_PAGER=cat",
    ];
    assert_eq!(git(&[]), ours);
    assert_eq!(git(&[("GIT_CONFIG_COUNT", "nonsense")]), ours);
    let users = [("GIT_CONFIG_COUNT", "1"), ("GIT_CONFIG_KEY_0", "user.name"), ("GIT_CONFIG_VALUE_0", "me")];
    assert_eq!(
        git(&users),
        [
            "GIT_CONFIG_COUNT=3",
            "GIT_CONFIG_KEY_0=user.name",
            "GIT_CONFIG_KEY_1=core.fsmonitor",
            "GIT_CONFIG_KEY_2=safe.bareRepository",
            "GIT_CONFIG_VALUE_0=me",
            "GIT_CONFIG_VALUE_1=false",
            "GIT_CONFIG_VALUE_2=explicit",
            "GIT_OPTIONAL_LOCKS=0",
            "GIT_PAGER=cat",
        ]
    );
}

#[test]
fn values_are_joined_to_their_flags() {
    let spec = OpenSpec { model: "--model".to_owned(), permission_mode: "-p".to_owned(), ..spec() };
    for recipe in [ConfigIsolation::ConfigRoot, ConfigIsolation::UserOnly] {
        let arguments = start(recipe, &SessionArgument::Resume("-x".to_owned()), &spec);
        assert!(arguments.iter().all(|argument| argument.starts_with("--")), "{arguments:?}");
    }
}

#[test]
fn bearer_is_in_the_environment_and_not_in_the_arguments() {
    assert!(!argument_list(&SessionArgument::New(Uuid::nil())).concat().contains("nonce.id"));
    let environment = environment(&[], &[], &[], &[], &endpoint(), MODEL);
    assert_eq!(environment.get("ANTHROPIC_AUTH_TOKEN"), Some(OsStr::new("nonce.id")));
}

#[test]
fn environment_excludes_denied_variables_and_adds_ours() {
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
    let folder = vars(&[("FOLDER", "1"), ("CLAUDE_CODE_MAX_RETRIES", "9"), ("ANTHROPIC_AUTH_TOKEN", "the folder's")]);
    let configured = vars(&[("CLAUDE_CODE_MAX_RETRIES", "2"), ("ANTHROPIC_BASE_URL", "https://past-the-gateway")]);
    let environment = environment(&host, &["MY_UPSTREAM_KEY".into()], &folder, &configured, &endpoint(), MODEL);
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
        "FOLDER=1",
        "GIT_CONFIG_COUNT=2",
        "GIT_CONFIG_KEY_0=core.fsmonitor",
        "GIT_CONFIG_KEY_1=safe.bareRepository",
        "GIT_CONFIG_VALUE_0=false",
        "GIT_CONFIG_VALUE_1=explicit",
        "GIT_OPTIONAL_LOCKS=0",
        "GIT_PAGER=cat",
        "HOME=/home/me",
        "IS_SANDBOX=1",
        "NO_PROXY=127.0.0.1,localhost",
        "PATH=/bin",
        "RIPGREP_CONFIG_PATH=",
        "no_proxy=intranet,127.0.0.1,localhost",
    ]
    "#);
}

#[test]
fn ripgrep_reads_only_the_users_configuration() {
    let path = |host: &[(&str, &str)], configured: &[(&str, &str)]| {
        let environment = environment(&vars(host), &[], &[], &vars(configured), &endpoint(), MODEL);
        environment.get("RIPGREP_CONFIG_PATH").map(OsStr::to_owned)
    };
    let own = [("RIPGREP_CONFIG_PATH", "/home/me/.ripgreprc")];
    assert_eq!(path(&[], &[]), Some("".into()));
    assert_eq!(path(&own, &[]), Some("/home/me/.ripgreprc".into()));
    assert_eq!(path(&[], &own), Some("/home/me/.ripgreprc".into()));
}

#[test]
fn other_makers_model_is_used_for_small_tasks() {
    let small = |model: &str| {
        environment(&[], &[], &[], &[], &endpoint(), model).get("ANTHROPIC_DEFAULT_HAIKU_MODEL").map(OsStr::to_owned)
    };
    assert_eq!(small("gpt-5"), Some("gpt-5".into()));
    assert_eq!(small("claude-opus-4-5"), None);
}
