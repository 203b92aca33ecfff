# Hostler's part of an interactive bash: reads what bash would have read, then lets the shell tell of prompts and commands.

__hostler_nonce=$HOSTLER_TERMINAL_NONCE
unset HOSTLER_TERMINAL_NONCE

if [ -r ~/.bashrc ]; then
    . ~/.bashrc
fi

__hostler_mark() {
    builtin printf '\033]633;%s;%s%s\007' "$1" "$__hostler_nonce" "${2+;$2}"
}

# Sets __hostler_escaped: no semicolon, no control character.
__hostler_escape() {
    local LC_ALL=C slash='\' text=${1:0:8192} semicolon='\x3b' line='\x0a' tab='\x09'
    text=${text//"$slash"/"$slash$slash"}
    text=${text//;/"$semicolon"}
    text=${text//$'\n'/"$line"}
    text=${text//$'\t'/"$tab"}
    __hostler_escaped=${text//[[:cntrl:]]/}
}

# What bash remembers of the last line, with its number.
__hostler_remembered() {
    HISTTIMEFORMAT='' builtin history 1
}

# Whether a line that leaves the history as it was can only be the same as the one before.
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
    # Otherwise bash was told to forget the line, or may have been.
    __hostler_escape "$line"
    __hostler_mark C "$__hostler_escaped"
}

# Runs first of all that comes before a prompt.
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
