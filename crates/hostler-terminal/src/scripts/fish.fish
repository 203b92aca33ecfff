# Shell integration for an interactive fish, which has read the user's configuration already: reports prompts and commands
# as events.

set -g __hostler_nonce $HOSTLER_TERMINAL_NONCE
set -e HOSTLER_TERMINAL_NONCE
set -e HOSTLER_TERMINAL_SCRIPT

function __hostler_mark
    if set -q argv[2]
        builtin printf '\e]633;%s;%s;%s\a' $argv[1] $__hostler_nonce $argv[2]
    else
        builtin printf '\e]633;%s;%s\a' $argv[1] $__hostler_nonce
    end
end

# Returns the text without semicolons and control characters, truncated.
function __hostler_escape
    set -l text (string sub -l 8192 -- "$argv[1]" | string collect)
    set text (string replace -a -- '\\' '\\\\' $text | string collect)
    set text (string replace -a -- ';' '\\x3b' $text | string collect)
    set text (string replace -a -- \n '\\x0a' $text | string collect)
    set text (string replace -a -- \t '\\x09' $text | string collect)
    string replace -ra -- '[[:cntrl:]]' '' $text | string collect
end

function __hostler_executed --on-event fish_preexec
    # Fish does not record lines that start with a space in the history, so they are not reported.
    if string match -q -- ' *' "$argv[1]"
        __hostler_mark C ''
    else
        __hostler_mark C (__hostler_escape "$argv[1]")
    end
end

function __hostler_finished --on-event fish_postexec
    __hostler_mark D $status
end

function __hostler_prompt --on-event fish_prompt
    __hostler_mark P Cwd=(__hostler_escape "$PWD")
    __hostler_mark A
end
