//! Environment variables that no folder may set: they load code into processes, name programs, or redirect traffic.

/// Names, in upper case.
const NAMES: &[&str] = &[
    // Shells and the programs that they find.
    "BASH_ENV",
    "BASHOPTS",
    "BASH_LOADABLES_PATH",
    "BASH_XTRACEFD",
    "CDPATH",
    "COMSPEC",
    "ENV",
    "FPATH",
    "IFS",
    "PATH",
    "PATHEXT",
    "PROMPT_COMMAND",
    "PS0",
    "PS1",
    "PS2",
    "PS4",
    "SHELL",
    "SHELLOPTS",
    "ZDOTDIR",
    // Whose files and directories are used.
    "HOME",
    "IS_SANDBOX",
    "LOGNAME",
    "OLDPWD",
    "PWD",
    "TEMP",
    "TMP",
    "TMPDIR",
    "USER",
    "USERPROFILE",
    // Libraries of every program.
    "GCONV_PATH",
    "GETCONF_DIR",
    "GLIBC_TUNABLES",
    "HOSTALIASES",
    "LOCALDOMAIN",
    "LOCPATH",
    "NLSPATH",
    "RES_OPTIONS",
    "TERMINFO",
    "TERMINFO_DIRS",
    // Programs that other programs start.
    "BROWSER",
    "EDITOR",
    "FCEDIT",
    "LESS",
    "LESSCLOSE",
    "LESSOPEN",
    "LESSKEYIN",
    "MANOPT",
    "MANROFFOPT",
    "PAGER",
    "RSYNC_RSH",
    "SUDO_EDITOR",
    "TAR_OPTIONS",
    "VISUAL",
    "WATCH_INTERVAL",
    // Interpreters.
    "CLASSPATH",
    "JDK_JAVA_OPTIONS",
    "LUA_INIT",
    "PHPRC",
    "PHP_INI_SCAN_DIR",
    "PSMODULEPATH",
    "TCLLIBPATH",
    "_JAVA_OPTIONS",
    // Compilers and build tools.
    "AR",
    "AS",
    "CC",
    "CFLAGS",
    "CPP",
    "CXX",
    "CXXFLAGS",
    "LD",
    "LDFLAGS",
    "MAKE",
    "MAKEFILES",
    "MAKEFLAGS",
    "MFLAGS",
    "RUSTC",
    "RUSTDOC",
    "RUSTFLAGS",
    "RUSTDOCFLAGS",
    "GNUMAKEFLAGS",
    "GOAUTH",
    "GOENV",
    "GOFLAGS",
    "GOINSECURE",
    "GONOPROXY",
    "GONOSUMDB",
    "GOPATH",
    "GOPRIVATE",
    "GOPROXY",
    "GOROOT",
    "GOSUMDB",
    "GOTOOLCHAIN",
    "GOTOOLDIR",
    // Where traffic goes, and who may read it.
    "AWS_CA_BUNDLE",
    "AWS_CONFIG_FILE",
    "AWS_SHARED_CREDENTIALS_FILE",
    "CURL_CA_BUNDLE",
    "CURL_HOME",
    "DISABLE_TELEMETRY",
    "KRB5_CONFIG",
    "KUBECONFIG",
    "NETRC",
    "REQUESTS_CA_BUNDLE",
    "SSLKEYLOGFILE",
    "WGETRC",
    "WGET_HOME",
];

/// Beginnings of names, in upper case.
const PREFIXES: &[&str] = &[
    "ANTHROPIC",
    "AWS_ENDPOINT_URL",
    "BASH_FUNC_",
    "BEDROCK_",
    "BUN_",
    "BUNDLE_",
    "CARGO_",
    "CLAUDE",
    "CMAKE_",
    "COMPOSER_",
    "CONDA_",
    "CORECLR_",
    "COR_",
    "DENO_",
    "DOCKER_",
    "DOTNET_",
    "DYLD_",
    "ELECTRON_",
    "ERL_",
    "GEM_",
    "GIT_",
    "GRADLE_",
    "HOSTLER_",
    "JAVA_",
    "JULIA_",
    "LD_",
    "LUA_",
    "MALLOC_",
    "MAVEN_",
    "MCP_",
    "NODE_",
    "NPM_CONFIG_",
    "OPENSSL_",
    "OTEL_",
    "PERL",
    "PHP_",
    "PIP_",
    "PKG_CONFIG",
    "POETRY_",
    "PYTHON",
    "RUBY",
    "RUSTC_",
    "RUSTUP_",
    "R_",
    "SSH_",
    "SSL_",
    "UV_",
    "VERTEX_",
    "VSCODE_",
    "XDG_",
    "YARN_",
];

/// Ends of names, in upper case.
const SUFFIXES: &[&str] = &["_ASKPASS", "_BASE_URL", "_EDITOR", "_LINKER", "_PAGER", "_PROXY", "_WRAPPER"];

/// Names that a prefix would deny, but that change nothing of the above.
const HARMLESS: &[&str] = &["NODE_ENV", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE"];

/// Whether a folder may not set this variable. Compared without regard to case.
pub(super) fn is_denied(name: &str) -> bool {
    let name = name.to_uppercase();
    // A shell's function, in any of the forms that shells export it in, is code.
    let is_plain = name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
    if !is_plain || name.is_empty() {
        return true;
    }
    !HARMLESS.contains(&name.as_str())
        && (NAMES.contains(&name.as_str())
            || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
            || SUFFIXES.iter().any(|suffix| name.ends_with(suffix)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_that_load_code_or_redirect_traffic_are_denied_in_any_case() {
        for name in [
            "LD_PRELOAD",
            "ld_audit",
            "DYLD_INSERT_LIBRARIES",
            "BASH_ENV",
            "ENV",
            "PATH",
            "Path",
            "SHELL",
            "NODE_OPTIONS",
            "PYTHONSTARTUP",
            "PYTHONPATH",
            "PERL5OPT",
            "RUBYOPT",
            "JAVA_TOOL_OPTIONS",
            "GIT_SSH_COMMAND",
            "GIT_CONFIG_COUNT",
            "CLAUDE_CODE_SHELL",
            "CLAUDE_CODE_SHELL_PREFIX",
            "CLAUDE_ENV_FILE",
            "CLAUDE_CONFIG_DIR",
            "https_proxy",
            "ALL_PROXY",
            "ANTHROPIC_BASE_URL",
            "SSL_CERT_FILE",
            "NODE_EXTRA_CA_CERTS",
            "EDITOR",
            "PAGER",
            "MANPAGER_PAGER",
            "npm_config_registry",
            "BASH_FUNC_ls%%",
            "a=b",
            "",
            "HOME",
            "XDG_CONFIG_HOME",
            "RUSTC_WRAPPER",
            "SSH_ASKPASS",
            "OPENAI_BASE_URL",
            "İF",
        ] {
            assert!(is_denied(name), "{name}");
        }
    }

    #[test]
    fn ordinary_variables_are_not() {
        for name in [
            "NODE_ENV",
            "RUST_LOG",
            "DATABASE_URL",
            "CI",
            "BASH_DEFAULT_TIMEOUT_MS",
            "GOOGLE_PROJECT",
            "AWS_PROFILE",
            "MY_APP",
        ] {
            assert!(!is_denied(name), "{name}");
        }
    }
}
