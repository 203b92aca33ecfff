# Shell integration for an interactive bash: reads the user's .bashrc, then reports prompts and commands as events.

__hostler_nonce=$HOSTLER_TERMINAL_NONCE
unset HOSTLER_TERMINAL_NONCE

if [ -r ~/.bashrc ]; then
    . ~/.bashrc
fi

__hostler_mark() {
    builtin printf '\033]633;%s;%s%s\007' "$1" "$__hostler_nonce" "${2+;$2}"
}

# Sets __hostler_escaped: the text without semicolons and control characters, truncated.
__hostler_escape() {
    local LC_ALL=C slash='\' text=${1:0:8192} semicolon='\x3b' line='\x0a' tab='\x09'
    text=${text//"$slash"/"$slash$slash"}
    text=${text//;/"$semicolon"}
    text=${text//$'\n'/"$line"}
    text=${text//$'\t'/"$tab"}
    __hostler_escaped=${text//[[:cntrl:]]/}
}

# The last history entry, with its number.
__hostler_remembered() {
    HISTTIMEFORMAT='' builtin history 1
}

# Whether a line that does not change the history must equal the previous line.
__hostler_repeats() {
    [[ -o history && -z $HISTIGNORE && $HISTCONTROL == *ignoredups* && $HISTCONTROL != *ignore@(space|both)* ]]
}

# Runs in a subshell of PS0, after a line was read and before it is executed.
__hostler_executed() {
    local now form='^ *[0-9]+[* ] (.*)$' line=''
    now=$(__hostler_remembered)
    if [[ $now != "$__hostler_before" ]] || __hostler_repeats; then
        [[ $now =~ $form ]] && line=${BASH_REMATCH[1]}
    fi
    # Otherwise the line is excluded from the history, or may be, and is not reported.
    __hostler_escape "$line"
    __hostler_mark C "$__hostler_escaped"
}

# Runs before all other prompt commands.
__hostler_finished() {
    local status=$?
    __hostler_mark D "$status"
    __hostler_escape "$PWD"
    __hostler_mark P "Cwd=$__hostler_escaped"
    __hostler_mark A
    __hostler_before=$(__hostler_remembered)
    return "$status"
}

if [[ ${BASH_VERSINFO[0]} -gt 4 || (${BASH_VERSINFO[0]} -eq 4 && ${BASH_VERSINFO[1]} -ge 4) ]]; then
    PS0='$(__hostler_executed)'$PS0
    if [[ $(builtin declare -p PROMPT_COMMAND 2>/dev/null) == 'declare -a'* ]]; then
        PROMPT_COMMAND=(__hostler_finished "${PROMPT_COMMAND[@]}")
    else
        PROMPT_COMMAND=__hostler_finished${PROMPT_COMMAND:+$'\n'$PROMPT_COMMAND}
    fi
fi
