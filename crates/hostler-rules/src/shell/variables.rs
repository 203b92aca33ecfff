//! Variables that are set before a command. Most programs run something else if certain variables are set
//! (`LD_PRELOAD`, `PATH`, `GIT_SSH`, `NODE_OPTIONS`, …), so only variables that are known to affect no more than the
//! look of output are harmless.

/// Variables that affect the look of output, and not what runs.
const HARMLESS_VARIABLES: [&str; 24] = [
    "CI",
    "CLICOLOR",
    "CLICOLOR_FORCE",
    "COLORTERM",
    "COLUMNS",
    "DEBIAN_FRONTEND",
    "FORCE_COLOR",
    "LANG",
    "LANGUAGE",
    "LC_ALL",
    "LC_COLLATE",
    "LC_CTYPE",
    "LC_MESSAGES",
    "LC_NUMERIC",
    "LC_TIME",
    "LINES",
    "NO_COLOR",
    "NODE_ENV",
    "PYTHONUNBUFFERED",
    "RUST_BACKTRACE",
    "RUST_LOG",
    "CARGO_TERM_COLOR",
    "TERM",
    "TZ",
];

/// Lowercase names that do not belong to the script: proxies, and those that zsh ties to `PATH` and similar.
const SPECIAL_LOWERCASE_VARIABLES: [&str; 17] = [
    "all_proxy",
    "aliases",
    "cdpath",
    "commands",
    "fpath",
    "ftp_proxy",
    "functions",
    "galiases",
    "http_proxy",
    "https_proxy",
    "mailpath",
    "manpath",
    "module_path",
    "no_proxy",
    "path",
    "prompt",
    "saliases",
];

/// Is setting this variable harmless? `alone` means an assignment without a command, where lowercase names belong to
/// the script.
pub(crate) fn is_harmless(name: &str, alone: bool) -> bool {
    let own = || {
        name.chars().all(|c| c == '_' || c.is_ascii_lowercase() || c.is_ascii_digit())
            && !SPECIAL_LOWERCASE_VARIABLES.contains(&name)
            && !name.ends_with("_functions")
    };
    HARMLESS_VARIABLES.contains(&name) || (alone && own())
}
