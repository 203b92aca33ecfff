//! Variables in front of a command. Most programs can be led astray by some variable (`LD_PRELOAD`, `PATH`, `GIT_SSH`,
//! `NODE_OPTIONS`, …), so only those are harmless that are known to change no more than how output looks.

/// Variables that change how output looks, and nothing about what runs.
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

/// Names in small letters that are not the script's own: proxies, and what zsh ties to `PATH` and the like.
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

/// Can this variable be set without a thought? `alone` means an assignment without a command behind it, where names in small
/// letters are the script's own business.
pub(crate) fn is_harmless(name: &str, alone: bool) -> bool {
    let own = || {
        name.chars().all(|c| c == '_' || c.is_ascii_lowercase() || c.is_ascii_digit())
            && !SPECIAL_LOWERCASE_VARIABLES.contains(&name)
            && !name.ends_with("_functions")
    };
    HARMLESS_VARIABLES.contains(&name) || (alone && own())
}
