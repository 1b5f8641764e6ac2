# ReedClaw's integration for bash, read once when the live shell starts (through ENV of a shell started with
# --posix, so that login shells can have it too). The words between @ signs are filled in by the program:
#   @REQUEST@  file from which the next line is loaded      @ACK@   pipe that lets the prompt go on
#   @REPORT@   pipe for names and completions               @NONCE@ secret of the first prompt
#   @OPTIONS@  letters: l login, n no profile, r no rc,     @RCFILE@ / @ENV@  quoted values
#              a read by a line at the prompt of a bash that has read its files (`exec bash`)
# Every marker is ESC ] 633 ; letter ; nonce … BEL, and the nonce changes with every command.

__rc_s=$?
# A Ctrl-C would end this file with the user's own. It ends the innermost of those, and nothing of ours.
__rc_int='((${#BASH_SOURCE[@]} > 1)) && { builtin echo >&2; builtin return 130; }'
case @OPTIONS@ in *a*) ;; *) builtin trap "$__rc_int" INT ;; esac

# -- undo what starting this way has changed ------------------------------------------------------
__rc_env=@ENV@
case @OPTIONS@ in *a*) ;; *)
  builtin set +o posix
  builtin shopt -u inherit_errexit
  builtin unset ENV ;;
esac
[[ -n $__rc_env ]] && builtin export ENV="$__rc_env"
builtin unset __rc_env
[[ ${HISTFILE-} == */.sh_history ]] && HISTFILE=~/.bash_history
__rc_n=@NONCE@
__rc_last_jobs=
__rc_id=0
__rc_mark='\[\e]633;B;${__rc_n};$?;$-${__rc_plain-}\a\]'
# Behind the user's own prompt while a command runs: one that takes our hooks away is known to have ended all the same.
__rc_tail='${__rc_mark@P}'
# The prompt as the program draws it, for what a key runs.
__rc_seen='${__rc_drawn}'
__rc_mark2='\[\e]633;F;${__rc_n}\a\]'
__rc_mark0='\e]633;C;${__rc_n};${__rc_id}${__rc_pressed:+$({ __rc_accepted; } 2>/dev/null)}\a'
# The user's own prompts behind a half line and before a command's output.
__rc_ps2= __rc_ps0=
# The hooks in PROMPT_COMMAND. Their group hides them from `set -x`, and what a DEBUG trap prints about them. They succeed
# always, so that no ERR trap runs; bash itself puts $? back behind each hook.
__rc_first='{ __rc_done $?; } >/dev/null 2>&1'
__rc_last='if __rc_arm $?; then builtin trap -p DEBUG >| @REQUEST@; __rc_look; fi >/dev/null 2>&1'
# Both at once, where nobody else has a hook: half the work for the most frequent case. They come second, after an empty one:
# an assignment to PROMPT_COMMAND replaces the first, and its value is what the user has set.
__rc_only='if __rc_both $?; then builtin trap -p DEBUG >| @REQUEST@; __rc_look; fi >/dev/null 2>&1'
# In front of the user's DEBUG trap, which runs for the user's commands alone.
__rc_skip='case ${FUNCNAME-}:$BASH_COMMAND in __rc_*|:__rc_*|":builtin trap -p DEBUG >"*) ;; *) '

# -- hooks ----------------------------------------------------------------------------------------
# Variables are set by statements of their own: under `set -k` bash takes the assignments of `local` away. Options of the
# user's are turned off only if one that matters is on, because bash writes SHELLOPTS anew for each change.
# First in PROMPT_COMMAND: the status of the command, before any hook of the user's; the virtual environment; the directory.
__rc_done() {
  case $- in *[aeux]*) builtin local -; builtin set +aeux ;; esac
  builtin local __rc_v
  __rc_v=${CONDA_DEFAULT_ENV:-${VIRTUAL_ENV##*/}}
  builtin printf '\e]633;D;%s;%s;%s;%s;%s\a' "$__rc_n" "$__rc_id" "$1" "${__rc_v//[^A-Za-z0-9._-]/_}" \
    "${PWD@Q}" >/dev/tty
}

# Last in PROMPT_COMMAND: waits until the keys that the command left unread are fetched, and puts the markers in place.
# Without `printf` (`enable -n`) nobody would hear, and nobody answer. Succeeds where the command may have changed names
# or traps.
__rc_arm() {
  case $- in *[aeux]*) builtin local -; builtin set +aeux ;; esac
  builtin local __rc_a
  __rc_quiet=q
  [[ -z ${!-} ]] || __rc_jobs
  [[ ${PS1@a} != *r* ]] || __rc_rows "$1"
  if builtin printf '\e]633;P;%s;%s;%s\a' "$__rc_n" "$1" "$__rc_quiet" >/dev/tty; then
    __rc_own
    IFS= builtin read -r __rc_a <@ACK@
  else __rc_own; fi
  __rc_answer "$1"
}

__rc_both() {
  case $- in *[aeux]*) builtin local -; builtin set +aeux ;; esac
  builtin local __rc_a __rc_v
  __rc_quiet=q
  [[ -z ${!-} ]] || __rc_jobs
  [[ ${PS1@a} != *r* ]] || __rc_rows "$1"
  __rc_v=${CONDA_DEFAULT_ENV:-${VIRTUAL_ENV##*/}}
  if builtin printf '\e]633;D;%s;%s;%s;%s;%s\a\e]633;P;%s;%s;%s\a' "$__rc_n" "$__rc_id" "$1" \
    "${__rc_v//[^A-Za-z0-9._-]/_}" "${PWD@Q}" "$__rc_n" "$1" "$__rc_quiet" >/dev/tty; then
    __rc_own
    IFS= builtin read -r __rc_a <@ACK@
  else __rc_own; fi
  __rc_answer "$1"
}

# A job that ends is announced before the next prompt: it may be so if one is there, was at the last prompt, or started since.
__rc_jobs() {
  builtin local __rc_c='\j '
  __rc_c=${__rc_c@P}$!
  [[ $__rc_c == "0 $!" && $__rc_c == "$__rc_last_jobs" ]] || __rc_quiet=
  __rc_last_jobs=$__rc_c
}

# PS1 is readonly: bash draws the user's own prompt, which the program has to take away. Tells how many rows stand above its last.
__rc_rows() {
  builtin local __rc_p
  __rc_p=${PS1//"$__rc_tail"/}
  __rc_status "$1"
  __rc_p=${__rc_p@P}
  __rc_p=${__rc_p//[!$'\n']/}
  __rc_quiet=r${#__rc_p}
}

# Remembers the user's own prompt and keeps our hooks in their places, while the program prepares its acknowledgement.
__rc_own() {
  [[ ${PS1-} == "$__rc_ps1$__rc_tail" || ${PS1-} == "$__rc_mark" ]] || __rc_kept
  [[ ${PROMPT_COMMAND-}${PROMPT_COMMAND[1]-} == "$__rc_only" && ${#PROMPT_COMMAND[@]} == 2 ]] || __rc_order
}

# The user's own prompt has changed, or a key has run with the prompt as the program draws it.
__rc_kept() {
  builtin local __rc_p
  __rc_p=${PS1-}
  __rc_p=${__rc_p//"$__rc_tail"/}
  __rc_ps1=${__rc_p//"$__rc_seen"/"$__rc_ps1"}
}

# Does what the acknowledgement asks for, and makes the prompts ready.
__rc_answer() {
  case $__rc_a in
    *[np]*)
      if [[ $__rc_a == *n* ]]; then
        # The program asks instead, and puts the line that an expansion makes into its editor.
        if [[ :$BASHOPTS: == *:histverify:* ]]; then
          builtin shopt -u histverify
          __rc_verify=1
        fi
        __rc_names >@REPORT@
      fi
      [[ $__rc_a != *p* ]] || __rc_prompt "$1" >@REPORT@ ;;
  esac
  __rc_marks
  [[ $__rc_a == *n* ]]
}

# The line that a history expansion makes, for `histverify`. One that can't be made fails when it is entered. `history -p` takes the
# newest line away, as if that were its own, unless one was put there; all of that happens in a subshell.
__rc_expanded() {
  builtin local __rc_e
  __rc_e=$(builtin history -s -- : && builtin history -d -1 && builtin history -p -- "$READLINE_LINE" 2>/dev/null \
    && builtin printf x) || builtin return 0
  __rc_e=${__rc_e%x}
  READLINE_LINE=${__rc_e%$'\n'} READLINE_POINT=${#READLINE_LINE}
}

# Looks whether bash reads with its line editor, and puts a condition in front of a DEBUG trap, which was printed before.
__rc_look() {
  builtin local - __rc_t
  builtin set +aeux
  __rc_plain=
  [[ :$SHELLOPTS: == *:@(emacs|vi):* ]] || __rc_plain=';plain'
  IFS= builtin read -r -d '' __rc_t <@REQUEST@
  [[ $__rc_t == 'trap -- '* && $__rc_t != *'__rc_*|:__rc_*'* ]] || builtin return 0
  builtin eval "builtin set -- ${__rc_t#trap -- }"
  # So posix mode writes that there is none.
  [[ $1 != - ]] || builtin return 0
  case $1 in
    # A comment at its end would go on.
    *'#'*) builtin trap -- "$__rc_skip$1"$'\n;; esac' DEBUG ;;
    *) builtin trap -- "$__rc_skip$1 ;; esac" DEBUG ;;
  esac
}

# The user's own prompt, drawn; it may ask for the status. A new PS2 is in it at once.
__rc_prompt() {
  [[ ${PS2-} == "$__rc_mark2" ]] || __rc_ps2=${PS2-}
  builtin local __rc_p
  __rc_p=$__rc_ps1
  [[ $__rc_p != *\\[!#]* ]] || __rc_numbered
  __rc_status "$1"
  builtin printf 'prompt\n%s\x1f\x1f%s\0' "${__rc_p@P}" "${__rc_ps2@P}"
}

# The numbers of the command and of its place in the history, which bash writes one too low where it isn't drawing a prompt.
__rc_numbered() {
  builtin local __rc_e __rc_l
  __rc_l=$__rc_p __rc_p= __rc_e='\#'
  __rc_e=${__rc_e@P}
  while [[ $__rc_l == *\\* ]]; do
    __rc_p+=${__rc_l%%\\*} __rc_l=${__rc_l#*\\}
    case $__rc_l in
      '!'*) __rc_p+=$HISTCMD ;;
      '#'*) __rc_p+=$((__rc_e + 1)) ;;
      *) __rc_p+=\\${__rc_l:0:1} ;;
    esac
    __rc_l=${__rc_l:1}
  done
  __rc_p+=$__rc_l
}
__rc_status() { builtin return "$1"; }

# Puts the markers into the prompts. Last of all, for to assign to what is readonly ends the hook.
__rc_marks() {
  [[ ${PS1-} == "$__rc_mark" || ${PS1@a} == *r* ]] || PS1=$__rc_mark
  [[ ${PS2-}${PS0-} != "$__rc_mark2$__rc_mark0$__rc_ps0" ]] || builtin return 0
  [[ ${PS2-} == "$__rc_mark2" ]] || { __rc_ps2=${PS2-}; PS2=$__rc_mark2; }
  [[ ${PS0-} == "$__rc_mark0$__rc_ps0" ]] || { __rc_ps0=${PS0-}; __rc_ps0=${__rc_ps0//"$__rc_mark0"/}; PS0=$__rc_mark0$__rc_ps0; }
}

# Keeps our hooks first and last, whatever the user has put there since. Status 1 where they can't be put there.
__rc_order() {
  builtin local __rc_e __rc_i="${#PROMPT_COMMAND[@]}"
  builtin local -a __rc_all
  ((__rc_i == 2)) && [[ ${PROMPT_COMMAND[0]-}${PROMPT_COMMAND[1]-} == "$__rc_only" ]] && builtin return
  [[ ${PROMPT_COMMAND[0]-} == "$__rc_first" && ${PROMPT_COMMAND[__rc_i ? __rc_i - 1 : 0]-} == "$__rc_last" ]] && builtin return
  [[ ${PROMPT_COMMAND@a} == *r* ]] && builtin return 1
  # An assignment without an index replaces the first string alone, and its user means all of them, as in bash without us.
  [[ -z ${__rc_users[1]+x} || -z ${PROMPT_COMMAND[0]+x} || ${PROMPT_COMMAND[0]} == *"$__rc_first"* \
    || ${PROMPT_COMMAND[*]:1} != "${__rc_users[*]}" ]] || PROMPT_COMMAND=("${PROMPT_COMMAND[0]}")
  for __rc_e in "${PROMPT_COMMAND[@]}" "${__rc_aside[@]}"; do
    # Others append to the first string, too.
    __rc_e=${__rc_e//"$__rc_only"/:}
    __rc_e=${__rc_e//"$__rc_first"/:}
    __rc_e=${__rc_e//"$__rc_last"/:}
    [[ $__rc_e == : || -z $__rc_e ]] || __rc_all+=("$__rc_e")
  done
  builtin unset PROMPT_COMMAND __rc_aside
  # The array without its first string, as it is until the user changes it.
  __rc_users=("${__rc_all[@]}" "$__rc_last")
  if ((${#__rc_all[@]})); then PROMPT_COMMAND=("$__rc_first" "${__rc_all[@]}" "$__rc_last")
  else PROMPT_COMMAND=('' "$__rc_only"); fi
}

# The names that the shell resolves; one record, ended by NUL.
__rc_names() {
  builtin printf 'names\n'
  builtin printf '[alias]\n'; builtin alias -p
  builtin printf '[function]\n'; builtin compgen -A function
  builtin printf '[builtin]\n'; builtin compgen -A enabled
  builtin printf '[keyword]\n'; builtin compgen -A keyword
  builtin printf '[variable]\n'; builtin compgen -A variable
  [[ ! -o vi ]] || builtin printf '[vi]\n'
  [[ -o history ]] || builtin printf '[off]\n'
  [[ -z ${__rc_verify-} ]] || builtin printf '[verify]\n'
  [[ :$BASHOPTS: != *:autocd:* ]] || builtin printf '[autocd]\n'
  [[ -z ${HISTIGNORE-} ]] || builtin printf '[ignore]\n%s\n' "$HISTIGNORE"
  builtin printf '[key]\n'; { builtin bind -X; builtin bind -s; } 2>/dev/null
  [[ ! -r ${INPUTRC:-$HOME/.inputrc} ]] || { builtin printf '[bind]\n'; builtin bind -p 2>/dev/null; }
  builtin printf '[path]\n%s\n\0' "$PATH"
}

# Fetches the line that the person has entered and puts it where readline will accept it.
__rc_load() {
  case $- in *[aeux]*) builtin local -; builtin set +aeux ;; esac
  builtin local -a __rc_r
  builtin mapfile -d '' -t __rc_r <@REQUEST@
  __rc_id=${__rc_r[0]} __rc_n=${__rc_r[1]} READLINE_LINE=${__rc_r[2]}
  READLINE_POINT=${#READLINE_LINE}
  # A history expansion that fails leads to a new prompt without PROMPT_COMMAND: the marker must still be in it.
  case $READLINE_LINE in
    # One that is only printed leads there, too.
    *'!'*:p*) [[ $- != *H* ]] || builtin return 0 ;;
    *'!'* | '^'*)
      if [[ $- == *H* && $READLINE_LINE == *[!^]* ]] \
        && ! ( builtin history -p -- "$READLINE_LINE" ) >/dev/null 2>&1; then builtin return 0; fi ;;
    'shopt -u histverify'*) __rc_verify= ;;
  esac
  # While a command runs, PS1 is the user's own: it may read it, or add to it as a virtual environment does.
  [[ -n $__rc_locked || ${PS1@a} == *r* ]] || PS1=$__rc_ps1$__rc_tail
  # A command that has taken the hooks away goes without them; the next one has them again.
  [[ ${PROMPT_COMMAND-}${PROMPT_COMMAND[1]-} == "$__rc_only" && ${#PROMPT_COMMAND[@]} == 2 ]] || __rc_order
  builtin return 0
}

# A key that the person has bound, or a function for one: the line in the request is put before readline, and what is bound
# does its work there. The keys are typed by a macro, because a program that the key starts reads what lies in the terminal.
__rc_press() {
  builtin local __rc_s="$?"
  builtin local -
  builtin set +aeux
  builtin local -a __rc_r
  builtin mapfile -d '' -t __rc_r <@REQUEST@
  __rc_pressed=${__rc_r[0]} __rc_count=${HISTCMD-}
  if [[ -n ${__rc_r[4]} ]]; then
    __rc_r[3]='\e[9993~'
    builtin bind -x "\"\\e[9993~\": ${__rc_r[4]}"
  fi
  builtin bind "\"\\e[9992~\": \"${__rc_r[3]}\\e[9994~\""
  # What is bound may draw the prompt itself, which has to be the one on the screen, or change it.
  __rc_drawn=${__rc_r[5]}
  [[ -n $__rc_locked || ${PS1-} != "$__rc_mark" ]] || PS1=$__rc_seen
  READLINE_LINE=${__rc_r[1]} READLINE_POINT=${__rc_r[2]}
  builtin return "$__rc_s"
}

# A key has bash run a line: whether the history has it as a new one, and the newest line there, for the marker. Runs in a
# subshell.
__rc_accepted() {
  builtin local __rc_l
  HISTTIMEFORMAT=
  __rc_l=$(builtin history 1)
  [[ $__rc_l =~ ^\ *[0-9]+[*\ ]\ (.*)$ ]] || builtin return
  __rc_l=${BASH_REMATCH[1]@Q}
  # What is longer than a marker may be isn't told.
  ((${#__rc_l} > 4000)) || builtin printf ';%s;%s' "$((HISTCMD != __rc_count))" "$__rc_l"
}

# Gives back what has become of the line, and waits until the program has fetched the keys that were typed for what the key
# started and that nobody has read: readline would take them for a line of its own.
__rc_release() {
  builtin local __rc_s="$?"
  builtin local - __rc_a
  builtin set +aeux
  [[ -n $__rc_locked ]] || { __rc_own; __rc_marks; }
  if [[ -n ${__rc_pressed-} ]]; then
    builtin printf 'line\n%s\n%s\n%s\0' "$__rc_pressed" "$READLINE_POINT" "$READLINE_LINE" >@REPORT@ \
      && IFS= builtin read -r __rc_a <@ACK@
  fi
  __rc_pressed= READLINE_LINE= READLINE_POINT=0
  builtin return "$__rc_s"
}

# The shell waits at a prompt that isn't ours: a command has taken hooks and markers away. Puts them back, and says what has been
# drawn and typed there. The program's next key ends the line, which leads to a prompt of ours; the user's own hooks have run
# already, and stand aside for that time.
__rc_found() {
  builtin local __rc_s="$?"
  builtin local - __rc_a
  builtin set +aeux
  __rc_kept
  __rc_status "$__rc_s"
  builtin printf 'found\n%s\x1f%s\0' "${__rc_ps1@P}" "$READLINE_LINE" >@REPORT@ && IFS= builtin read -r __rc_a <@ACK@
  READLINE_LINE= READLINE_POINT=0
  if __rc_own; then
    if ((${#PROMPT_COMMAND[@]} > 2)); then
      __rc_aside=("${PROMPT_COMMAND[@]}")
      PROMPT_COMMAND=('' "$__rc_only" :)
    fi
  elif [[ -z $__rc_locked ]]; then __rc_lock; fi
  __rc_marks
  builtin return "$__rc_s"
}

# PROMPT_COMMAND is readonly: the hooks run while the prompt is expanded.
__rc_lock() { __rc_locked=1 __rc_mark="\$($__rc_first; $__rc_last)$__rc_mark"; }

# Completes the line in the request by the programmable completion of this shell, in a subshell: the person's
# functions run, their side effects stay out. One candidate a line, ended by NUL.
__rc_complete() {
  builtin local -
  builtin set +aeux
  # Interrupted, it must end by itself: where a child of `bind -x` dies of SIGINT, bash leaves the terminal in line mode
  # and readline never sees a key again.
  ( builtin trap 'builtin printf "\0" >@REPORT@; builtin exit 0' INT
    builtin local __rc_r __rc_l __rc_p
    { IFS= builtin read -r -d '' __rc_r; IFS= builtin read -r -d '' __rc_l; IFS= builtin read -r -d '' __rc_p; } <@REQUEST@
    # A letter in the place of a position asks for something else: p the prompt, e a value, u users.
    [[ $__rc_p != p ]] || __rc_prompt "$1"
    builtin printf 'complete\n%s\n' "$__rc_r"
    case $__rc_p in
      p) ;;
      e) __rc_value "$__rc_l" ;;
      u) builtin compgen -u -- "$__rc_l" ;;
      *) __rc_candidates "$__rc_l" "$__rc_p" ;;
    esac
    builtin printf '\0' ) >@REPORT@ 2>/dev/null </dev/null
  builtin return 0
}

# What $NAME, ${NAME} or ~USER stands for. Nothing else is expanded.
__rc_value() {
  if [[ $1 =~ ^~[A-Za-z0-9_.+-]*$ ]]; then builtin eval "builtin printf '%s\n' $1"
  elif [[ $1 =~ ^\$\{?([A-Za-z_][A-Za-z0-9_]*)\}?$ ]]; then builtin printf '%s\n' "${!BASH_REMATCH[1]-}"; fi
}

__rc_candidates() {
  COMP_LINE=$1 COMP_POINT=$2 COMP_TYPE=9 COMP_KEY=9
  # Behind `builtin`, an assignment is an ordinary word: it must be quoted.
  builtin local __rc_before="${COMP_LINE:0:COMP_POINT}" __rc_c __rc_f __rc_spec
  # Words as readline would split them: blanks, then the characters of COMP_WORDBREAKS that bash-completion expects.
  builtin set -f
  builtin local IFS=$' \t\n'
  COMP_WORDS=($__rc_before)
  builtin set +f
  [[ $__rc_before == *[[:space:]] || -z $__rc_before ]] && COMP_WORDS+=('')
  COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
  __rc_c=${COMP_WORDS[0]##*/}
  if ! builtin declare -F _completion_loader _comp_load >/dev/null && [[ -r /usr/share/bash-completion/bash_completion ]]; then
    . /usr/share/bash-completion/bash_completion >/dev/null 2>&1
  fi
  builtin complete -p -- "$__rc_c" >/dev/null 2>&1 || {
    if builtin declare -F _completion_loader >/dev/null; then _completion_loader "$__rc_c" >/dev/null 2>&1
    elif builtin declare -F _comp_load >/dev/null; then _comp_load "$__rc_c" >/dev/null 2>&1; fi; }
  __rc_spec=$(builtin complete -p -- "$__rc_c" 2>/dev/null) || builtin return
  builtin local __rc_cur="${COMP_WORDS[COMP_CWORD]}" __rc_prev="${COMP_WORDS[COMP_CWORD - 1]-}"
  local -a __rc_args
  builtin eval "__rc_args=(${__rc_spec#complete })"
  builtin local __rc_i __rc_files=
  COMPREPLY=()
  for ((__rc_i = 0; __rc_i < ${#__rc_args[@]}; __rc_i++)); do
    case ${__rc_args[__rc_i]} in
      -F) __rc_f=${__rc_args[++__rc_i]}
        # bash's own `compopt` only works while completing: here it says whether the candidates are file names.
        compopt() { builtin local IFS=' '; [[ " $* " != *' -o filenames '* ]] || __rc_files=1; builtin return 0; }
        "$__rc_f" "$__rc_c" "$__rc_cur" "$__rc_prev" >/dev/null 2>&1
        if (($? == 124)); then COMPREPLY=(); "$__rc_f" "$__rc_c" "$__rc_cur" "$__rc_prev" >/dev/null 2>&1; fi
        if [[ -n $__rc_files ]]; then __rc_file_names "${COMPREPLY[@]}"
        elif ((${#COMPREPLY[@]})); then builtin printf '%s\n' "${COMPREPLY[@]}"; fi ;;
      -W) builtin compgen -W "${__rc_args[++__rc_i]}" -- "$__rc_cur" ;;
      -A) builtin compgen -A "${__rc_args[++__rc_i]}" -- "$__rc_cur" ;;
      -C) builtin printf '%s\n' "$(builtin eval "${__rc_args[++__rc_i]}" '"$__rc_c" "$__rc_cur" "$__rc_prev"' 2>/dev/null)" ;;
      -o) [[ ${__rc_args[++__rc_i]} != filenames ]] || __rc_files=1 ;;
      -G | -X | -P | -S) ((__rc_i++)) ;;
      # Plain file names are completed without asking.
      -[df]) ;;
      -[abcegjksuv]) builtin compgen "${__rc_args[__rc_i]}" -- "$__rc_cur" ;;
    esac
  done
}

# File names as the shell reads them; a folder ends in a slash. A word with quotes of its own is left to the program.
# A name with a line feed comes as two.
__rc_file_names() {
  [[ $__rc_cur == *[\'\"\\]* ]] && builtin return
  builtin local __rc_e
  while (($#)); do
    __rc_e=$1
    builtin shift
    if (($#)) && [[ ! -e $__rc_e && -e $__rc_e$'\n'$1 ]]; then
      __rc_e+=$'\n'$1
      builtin shift
    fi
    case $__rc_e in
      '~/'*) [[ -d $HOME/${__rc_e#'~/'} ]] && __rc_e=${__rc_e%/}/
        builtin printf '~/%q\n' "${__rc_e#'~/'}" ;;
      *) [[ -d $__rc_e ]] && __rc_e=${__rc_e%/}/
        builtin printf '%q\n' "$__rc_e" ;;
    esac
  done
}

# -- keys: only the program types here, by private sequences ---------------------------------------
# `$_` is given along because the last word of a command is what `$_` is afterwards.
# The line is drawn once, for nobody: in one row, so that the first line feed ends it.
__rc_keys() {
  builtin local __rc_m
  builtin bind 'set enable-bracketed-paste off'
  builtin bind 'set bell-style none'
  builtin bind 'set horizontal-scroll-mode on'
  builtin bind 'set mark-modified-lines off'
  for __rc_m in emacs vi-insert vi-command; do
    builtin bind -m $__rc_m -x '"\e[9997~": { __rc_load "$_"; } >/dev/null 2>&1'
    builtin bind -m $__rc_m -x '"\e[9996~": { __rc_complete "$?" "$_"; } 2>/dev/null'
    builtin bind -m $__rc_m -x '"\e[9995~": { __rc_press "$_"; } 2>/dev/null'
    builtin bind -m $__rc_m -x '"\e[9994~": { __rc_release "$_"; } 2>/dev/null'
    builtin bind -m $__rc_m -x '"\e[9989~": { __rc_found "$_"; } >/dev/null 2>&1'
    builtin bind -m $__rc_m '"\e[9990~": "\e[9989~\e[9998~"'
    builtin bind -m $__rc_m '"\e[9991~": "\e[9995~\e[9992~"'
    builtin bind -m $__rc_m '"\e[9998~": accept-line'
    builtin bind -m $__rc_m '"\e[9999~": "\e[9997~\e[9998~"'
  done
}

# -- the user's own start-up files, as bash would have read them -----------------------------------
case @OPTIONS@ in
  *l*)
    case @OPTIONS@ in *n*) ;; *)
      [[ -r /etc/profile ]] && . /etc/profile
      if [[ -r ~/.bash_profile ]]; then . ~/.bash_profile
      elif [[ -r ~/.bash_login ]]; then . ~/.bash_login
      elif [[ -r ~/.profile ]]; then . ~/.profile; fi
    esac ;;
  *)
    case @OPTIONS@ in *r*) ;; *)
      [[ -r /etc/bash.bashrc ]] && . /etc/bash.bashrc
      if [[ -n @RCFILE@ ]]; then [[ -r @RCFILE@ ]] && . @RCFILE@
      elif [[ -r ~/.bashrc ]]; then . ~/.bashrc; fi
    esac ;;
esac
# One group for all that is left: a DEBUG trap of a start-up file says nothing of it.
__rc_begin() {
  builtin local - __rc_t
  builtin set +aeux
  __rc_keys
  __rc_kept
  __rc_locked=
  builtin trap -p INT >| @REQUEST@
  IFS= builtin read -r -d '' __rc_t <@REQUEST@
  [[ $__rc_t != *"$__rc_int"* ]] || builtin trap - INT
  builtin unset __rc_int
  builtin unset -f __rc_begin __rc_keys
  case @OPTIONS@ in *a*)
    # The line that reads this isn't the user's.
    builtin history 1 >| @REQUEST@
    IFS= builtin read -r -d '' __rc_t <@REQUEST@
    [[ $__rc_t != *' . /proc/'*'/fd/'* ]] || builtin history -d -1
    builtin printf 'found\n%s\x1f\0' "${__rc_ps1@P}" >@REPORT@ && IFS= builtin read -r __rc_t <@ACK@ ;;
  esac
  __rc_order && builtin return
  __rc_lock
  __rc_marks
}
# readline reads ~/.inputrc when it is first used, and a `local -` around that would take the mode of its keys back.
{ builtin bind -v; __rc_begin; builtin trap -p DEBUG >| @REQUEST@; __rc_look; __rc_status "$__rc_s"; } >/dev/null 2>&1
