# ReedClaw's integration for zsh, read once in the place of ~/.zshenv, from a private ZDOTDIR that is gone a moment later.
# The words between @ signs are filled in by the program:
#   @REQUEST@  file from which the next line is loaded      @ACK@   pipe that lets the prompt go on
#   @REPORT@   pipe for names and completions               @NONCE@ secret of the first prompt
#   @OPTIONS@  letters: f no start-up files, z ZDOTDIR set, @ZDOTDIR@ its quoted value
#              a read by a line at the prompt of a zsh that has read its files
# Every marker is ESC ] 633 ; letter ; nonce … BEL, and the nonce changes with every command.

# -- undo what starting this way has changed ------------------------------------------------------
typeset -g __rc_last=$? __rc_new=$(( ! ${+__rc_n} ))
case @OPTIONS@ in *a*) ;; *)
  { builtin zmodload -F zsh/files b:zf_rm b:zf_rmdir && zf_rm -f -- "$ZDOTDIR/.zshenv" && zf_rmdir -- "$ZDOTDIR"
    builtin zmodload -u zsh/files } &>/dev/null ;;
esac
case @OPTIONS@ in
  *a*) ;;
  *z*) builtin export ZDOTDIR=@ZDOTDIR@ ;;
  *) builtin unset ZDOTDIR ;;
esac
typeset -g __rc_n=@NONCE@ __rc_id=0 __rc_hidden=0 __rc_ps1= __rc_ps2= __rc_rps1= __rc_rps2= __rc_term= __rc_nonce= __rc_line= __rc_set=0 __rc_pressed= __rc_drawn= __rc_seen=
typeset -ga __rc_paste __rc_on

# -- hooks ----------------------------------------------------------------------------------------
# First in precmd_functions: the status of the command, before the other hooks.
__rc_done() {
  { builtin local __rc_s=$?
    # Without the other hook, what comes now is the prompt, and has to be taken away.
    (( ${+functions[__rc_arm]} )) || builtin return
    builtin emulate -L zsh; builtin setopt noxtrace noerrexit noerrreturn
    __rc_show
    builtin local __rc_v="${CONDA_DEFAULT_ENV:-${VIRTUAL_ENV:t}}"
    __rc_v=${__rc_v//[^A-Za-z0-9._-]/_}
    builtin print -rn -- $'\e]633;D;'"$__rc_n;$__rc_id;$__rc_s;$__rc_v;${(qqqq)PWD}"$'\a' >/dev/tty
    builtin return 0 } &>/dev/null
}

# Last in precmd_functions: hides the line editor and waits until the keys that the command left unread are fetched.
# Not emulated itself: the settings are the session's, and the prompt is expanded under the person's own options.
__rc_arm() {
  { builtin local __rc_s=$? __rc_a= __rc_p=
    __rc_settings
    __rc_wait
    __rc_last=$__rc_s
    if [[ $__rc_a == *p* ]]; then
      __rc_render $__rc_s "$PS1" "${RPROMPT-${RPS1-}}" "$PS2"
      builtin printf 'prompt\n%s\0' "$__rc_p" >@REPORT@
    fi
    __rc_hide
    builtin return 0 } &>/dev/null
}

__rc_wait() {
  builtin emulate -L zsh; builtin setopt noxtrace noerrexit noerrreturn
  __rc_order
  builtin print -rn -- $'\e]633;P;'"$__rc_n"$'\a' >/dev/tty
  IFS= builtin read -r __rc_a <@ACK@
  if [[ $__rc_a == *n* ]]; then
    __rc_names >@REPORT@
    # What `print -z` has put onto the next line is the person's to edit.
    if builtin read -rz -d '' __rc_p && [[ -n $__rc_p ]]; then
      builtin print -rn -- $'edit\n'"$__rc_p"$'\0' >@REPORT@
    fi
  fi
}

# First in preexec_functions: a command is about to run.
__rc_start() { { __rc_own_settings; __rc_started "$@" } &>/dev/null }
__rc_started() {
  builtin emulate -L zsh; builtin setopt noxtrace noerrexit noerrreturn
  __rc_show
  builtin local __rc_l=
  # A line that a key has zsh run; one that is longer than a marker may be isn't told.
  if [[ -n $__rc_pressed ]]; then
    __rc_l=";1;${(qqqq)${1:-$3}}"
    (( $#__rc_l <= 4000 )) || __rc_l=
  fi
  builtin print -rn -- $'\e]633;C;'"$__rc_n;$__rc_id$__rc_l"$'\a' >/dev/tty
  builtin return 0
}

# The person's prompt, under the person's own options; it may ask for the status.
__rc_status() { builtin return $1 }
__rc_render() { __rc_status $1; __rc_p="${(%%)2}"$'\x1f'"${(%%)3}"$'\x1f'"${(%%)4}" }

# Keeps our hooks first and last, whatever the user has put there since.
__rc_order() {
  typeset -ga precmd_functions preexec_functions
  if [[ ${precmd_functions[1]-} != __rc_done || ${precmd_functions[-1]-} != __rc_arm ]]; then
    precmd_functions=(__rc_done ${precmd_functions:#__rc_(done|arm)} __rc_arm)
  fi
  if [[ ${preexec_functions[1]-} != __rc_start ]]; then
    preexec_functions=(__rc_start ${preexec_functions:#__rc_start})
  fi
}

# Called by zsh after the hooks of the first prompt: does what they should have done if a start-up file has taken them away.
__rc_first() {
  { builtin local __rc_s=$?
    # A start-up file that reads a line by zsh's editor.
    if [[ $ZSH_EVAL_CONTEXT == *file* ]]; then builtin sched +1 __rc_first; builtin return; fi
    builtin unfunction __rc_first
    [[ -n ${PROMPT_EOL_MARK-unset} ]] || builtin unset PROMPT_EOL_MARK
    (( __rc_hidden || ! ${+functions[__rc_arm]} )) && builtin return
    __rc_order } &>/dev/null
  __rc_status $__rc_s
  __rc_done
  __rc_status $__rc_s
  __rc_arm
}

# While a line is awaited zsh's editor draws nothing that anybody should see: no prompt, and a terminal without
# capabilities, on which it keeps to one row. Of a right prompt's two names, either may seem unset. A command finds everything as the person has set it.
__rc_hide() {
  builtin emulate -L zsh; builtin setopt noxtrace noerrexit noerrreturn
  (( __rc_hidden )) && builtin return
  __rc_hidden=1 __rc_ps1=$PS1 __rc_ps2=$PS2 __rc_rps1=${RPROMPT-${RPS1-}} __rc_rps2=${RPROMPT2-${RPS2-}} __rc_term=${TERM-}
  __rc_paste=("${(@)zle_bracketed_paste}")
  PS1= PS2= RPS1= RPS2=
  builtin unset zle_bracketed_paste
  TERM=dumb
  __rc_keys
}

__rc_show() {
  (( __rc_hidden )) || builtin return
  __rc_hidden=0
  [[ -z $PS1 || $PS1 == "$__rc_seen" ]] && PS1=$__rc_ps1
  [[ -z $PS2 ]] && PS2=$__rc_ps2
  [[ -z ${RPS1-} ]] && RPS1=$__rc_rps1
  [[ -z ${RPS2-} ]] && RPS2=$__rc_rps2
  (( $#__rc_paste )) && typeset -ga zle_bracketed_paste=("${(@)__rc_paste}")
  [[ $TERM != dumb ]] || TERM=$__rc_term
}

# A half line is marked by the program itself; a line that is handed over is run, not shown once more. A command finds the
# options as they were, but for `promptsp`, which zsh looks at before the hooks.
__rc_settings() {
  if (( ! __rc_set )); then
    __rc_set=1 __rc_on=()
    [[ -o histverify ]] && __rc_on+=(histverify)
    [[ -o beep ]] && __rc_on+=(beep)
    [[ -o promptcr ]] && __rc_on+=(promptcr)
  fi
  builtin unsetopt promptsp promptcr histverify beep
  builtin setopt zle
}
__rc_own_settings() {
  __rc_set=0
  (( ! $#__rc_on )) || builtin setopt "${__rc_on[@]}"
}

# The names that the shell resolves; one record, ended by NUL.
__rc_names() {
  builtin print -r -- 'names'
  builtin print -r -- '[alias]'; builtin alias -rL
  builtin print -r -- '[function]'; builtin typeset +f
  builtin print -r -- '[builtin]'; builtin enable
  builtin print -r -- '[keyword]'; builtin enable -r
  builtin print -r -- '[variable]'; builtin set +
  # zsh takes vi's keys by itself where EDITOR or VISUAL names that.
  builtin bindkey -lL main >|@REQUEST@
  [[ "$(<@REQUEST@)" != *' viins '* ]] || builtin print -r -- '[vi]'
  builtin print -r -- '[widget]'; builtin zle -la
  builtin print -r -- '[zsh-key]'; builtin bindkey -M main
  builtin print -r -- '[path]'; builtin print -rn -- "$PATH"$'\n\0'
}

# -- the line editor: only the program types here, by two private sequences -------------------------
# Fetches the line that the person has entered and accepts it. The underscore in front keeps plugins from wrapping it. An
# unfinished one goes back as it is: to read its rest here would run the hooks, and lose the status.
__rc_load() {
  { builtin local -a __rc_r
    __rc_asked
    __rc_id=$__rc_number __rc_n=$__rc_nonce BUFFER=$__rc_line
    if __rc_unfinished "$BUFFER"; then
      BUFFER=
      builtin printf '\e]633;F;%s;left\a' "$__rc_n" >/dev/tty
      builtin return 0
    fi
    __rc_order
    builtin zle .accept-line } &>/dev/null
}

# Whether a line wants more lines, under the person's own options and aliases: the parser of functions either fails at the
# line that is put behind it, or makes that a part of something else.
__rc_unfinished() {
  builtin local __rc_e __rc_f=$1
  { functions[__rc_tried]="$1"$'\n__rc_end' } 2>|@REQUEST@
  __rc_e=$(<@REQUEST@)
  if [[ -n "$__rc_e" ]]; then
    # `NAME:LINE: message`
    __rc_e=${__rc_e#*:}
    [[ "$__rc_e" != *"near \`\\n'"* ]] && (( ${__rc_e%%:*} > ${#__rc_f//[^$'\n']/} + 1 ))
    builtin return
  fi
  __rc_f=${functions[__rc_tried]-$'\n\t__rc_end'}
  builtin unset 'functions[__rc_tried]'
  [[ "$__rc_f" != (|*$'\n')$'\t__rc_end' ]]
}

# The editor reads: a new line, or one more because the line isn't complete. The line of a key that has run a command is given back
# first; and a prompt that isn't ours, for a command has taken the hooks away, becomes one.
__rc_reads() {
  { builtin local __rc_s=$?
    if (( ! __rc_hidden )) && [[ $CONTEXT == start ]]; then
      __rc_status $__rc_s
      __rc_found
      builtin return
    fi
    if [[ -n $__rc_pressed ]] && (( KEYS_QUEUED_COUNT )); then builtin return; fi } &>/dev/null
  { builtin emulate -L zsh; builtin setopt noxtrace noerrexit noerrreturn } &>/dev/null
  case $CONTEXT in
    start) builtin print -rn -- $'\e]633;B;'"$__rc_n"$'\a' >/dev/tty ;;
    cont) builtin print -rn -- $'\e]633;F;'"$__rc_n"$'\a' >/dev/tty ;;
  esac &>/dev/null
}

# A key that the person has bound: the line in the request is put before zsh's editor, with the prompt as the program has drawn it, and
# the key is typed there by zsh itself, because a program that it starts reads what lies in the terminal.
__rc_press() {
  { __rc_seen=
    [[ ! -o promptsubst ]] || __rc_seen='${__rc_drawn}'
    builtin emulate -L zsh; builtin setopt noxtrace noerrexit noerrreturn extendedglob
    builtin local -a __rc_r
    builtin local __rc_number= __rc_what=
    __rc_asked
    __rc_pressed=$__rc_number
    # The row of the cursor; the escape sequences take no room.
    __rc_drawn=${${__rc_r[6]##*$'\n'}//\%/%%}
    __rc_drawn=${__rc_drawn//(#m)$'\e['[0-9;:]#m/%\{$MATCH%\}}
    [[ -n $__rc_seen ]] || __rc_seen=$__rc_drawn
    PS1=$__rc_seen TERM=$__rc_term
    BUFFER=$__rc_r[2] CURSOR=$__rc_r[3]
    # Where zsh draws at all, it begins at the start of the row.
    builtin zle reset-prompt
    builtin zle -U "${(g::)__rc_r[4]}"$'\e[9994~' } &>/dev/null
}

# Gives back what has become of the line, and waits until the program has fetched the keys that nobody has read.
__rc_release() {
  { builtin emulate -L zsh; builtin setopt noxtrace noerrexit noerrreturn
    builtin local __rc_a=
    [[ -z $PS1 || $PS1 == "$__rc_seen" ]] || __rc_ps1=$PS1
    PS1= TERM=dumb __rc_seen=
    if [[ -n $__rc_pressed ]]; then
      builtin print -rn -- $'line\n'"$__rc_pressed"$'\n'"$CURSOR"$'\n'"$BUFFER"$'\0' >@REPORT@
      IFS= builtin read -r __rc_a <@ACK@
    fi
    __rc_pressed= BUFFER=
    builtin zle reset-prompt
    builtin zle -R
    builtin print -rn -- $'\e]633;B;'"$__rc_n"$'\a' >/dev/tty } &>/dev/null
}

# zsh reads at a prompt that isn't ours: says what is drawn and typed there, and makes it one of ours, with the status of the command
# that has taken the hooks away.
__rc_found() {
  { builtin local __rc_s=$? __rc_a= __rc_p=
    # Without these there are no hooks to put back, and the program has this file read anew.
    (( ${+functions[__rc_done]} && ${+functions[__rc_arm]} )) || builtin return
    __rc_render $__rc_s "$PS1" '' ''
    __rc_taken "${__rc_p%%$'\x1f'*}" "$BUFFER"
    BUFFER=
    __rc_status $__rc_s
    __rc_done
    __rc_status $__rc_s
    __rc_arm
    builtin zle reset-prompt
    builtin zle -R
    builtin print -rn -- $'\e]633;B;'"$__rc_n"$'\a' >/dev/tty } &>/dev/null
}

# Reports a prompt that was drawn, and what was typed there, for the program to take away.
__rc_taken() {
  builtin emulate -L zsh; builtin setopt noxtrace noerrexit noerrreturn
  builtin print -rn -- $'found\n'"$1"$'\x1f'"$2"$'\0' >@REPORT@
  IFS= builtin read -r __rc_a <@ACK@
}

# Answers what the request asks for: the candidates for a line, or, at a letter in the place of a position, the prompt (p) or
# a variable's value (e).
# Not emulated itself, as the prompt is expanded under the person's own options.
__rc_complete() {
  { builtin local -a __rc_r
    builtin local __rc_what= __rc_number= __rc_p=
    __rc_asked
    if [[ "$__rc_what" == e ]]; then
      __rc_p=${__rc_r[2]#\$}
      builtin printf 'complete\n%s\n%s\n\0' "$__rc_number" "${(P)__rc_p-}" >@REPORT@
      builtin zle -R
      builtin printf '\e]633;B;%s\a' "$__rc_n" >/dev/tty
      builtin return 0
    fi
    if [[ "$__rc_what" == p ]]; then
      __rc_render $__rc_last "$__rc_ps1" "$__rc_rps1" "$__rc_ps2"
      builtin printf 'prompt\n%s\0complete\n%s\n\0' "$__rc_p" "$__rc_number" >@REPORT@
      builtin zle -R
      builtin printf '\e]633;B;%s\a' "$__rc_n" >/dev/tty
      builtin return 0
    fi } &>/dev/null
  __rc_candidates
}

__rc_asked() {
  builtin emulate -L zsh; builtin setopt noxtrace noerrexit noerrreturn
  __rc_r=("${(@0)$(<@REQUEST@)}")
  __rc_number=$__rc_r[1] __rc_what=$__rc_r[3] __rc_nonce=$__rc_r[2] __rc_line=$__rc_r[3]
}

# Completes by the person's own completion system, where one is set up; nothing is inserted.
__rc_candidates() {
  { builtin emulate -L zsh; builtin setopt noxtrace noerrexit noerrreturn } &>/dev/null
  builtin local -a __rc_found
  BUFFER=$__rc_r[2]
  # The position counts bytes.
  () { builtin setopt localoptions nomultibyte; __rc_r[2]=${__rc_r[2][1,$__rc_r[3]]} }
  CURSOR=$#__rc_r[2]
  {
    (( $+functions[_main_complete] )) && builtin zle __rc_capture
  } always {
    builtin unfunction compadd
    BUFFER=
    { builtin print -rn -- "complete"$'\n'"$__rc_r[1]"$'\n'"${(F)__rc_found}"$'\n\0' >@REPORT@
      builtin zle -R
      builtin print -rn -- $'\e]633;B;'"$__rc_n"$'\a' >/dev/tty }
  } &>/dev/null
}

# Runs the completers with `compadd` in our hands: the matches are noted down instead of being offered.
__rc_matches() {
  builtin functions -c __rc_compadd compadd
  _main_complete
  compstate[insert]= compstate[list]=
}

__rc_compadd() {
  builtin local -A __rc_o
  builtin local -a __rc_h __rc_t __rc_flags
  # A call that only asks is passed on.
  builtin zparseopts -E -a __rc_flags O: A: D: 2>/dev/null
  if (( $#__rc_flags )); then builtin compadd "$@"; builtin return; fi
  builtin zparseopts -E -A __rc_o P: S: p: s: i: I: W: d: J: V: X: x: r: R: M: F: E: Q q f e n U l o: a k 1 2 C
  if [[ -n ${__rc_o[-d]-} ]]; then
    if [[ ${__rc_o[-d]} == \(* ]]; then builtin eval "__rc_t=${__rc_o[-d]}"; else __rc_t=("${(@P)__rc_o[-d]}"); fi
  fi
  builtin compadd -A __rc_h -D __rc_t "$@"
  builtin local __rc_i __rc_w __rc_d __rc_tab=$'\t'
  for (( __rc_i = 1; __rc_i <= $#__rc_h; __rc_i++ )); do
    __rc_w=$__rc_h[__rc_i] __rc_d=${__rc_t[__rc_i]-}
    [[ -n ${__rc_o[(i)-Q]-} ]] || __rc_w=${(b)__rc_w}
    [[ $__rc_d == $__rc_h[__rc_i] ]] && __rc_d=
    # A description is shown as `word  -- text`.
    [[ $__rc_d == *' -- '* ]] && __rc_d=${__rc_d#* -- }
    __rc_w=$IPREFIX${__rc_o[-i]-}${__rc_o[-P]-}${__rc_o[-p]-}$__rc_w${__rc_o[-s]-}
    if [[ -n ${__rc_o[(i)-f]-} && -d ${(Q)${(e)~__rc_w}} ]]; then __rc_w+=/
    else __rc_w+=${__rc_o[-S]-}; fi
    [[ $__rc_w$__rc_d == *[[:cntrl:]]* ]] || __rc_found+=("$__rc_w${__rc_d:+$__rc_tab$__rc_d}")
  done
  (( $#__rc_h ))
}

# Bound at each prompt, because plugins rebuild the key maps. The hooks of the person's editor would only colour and
# suggest for nobody.
__rc_keys() {
  builtin local __rc_m
  { for __rc_m in zle-line-pre-redraw zle-line-finish zle-keymap-select zle-history-line-set; do builtin zle -D $__rc_m || :; done
    builtin zle -N zle-line-init __rc_reads
    builtin zle -N __rc_load
    builtin zle -N __rc_complete
    builtin zle -N __rc_press
    builtin zle -N __rc_release
    builtin zle -N __rc_found
    builtin zle -C __rc_capture .complete-word __rc_matches
    for __rc_m in main emacs viins vicmd; do
      builtin bindkey -M $__rc_m '\e[9999~' __rc_load
      builtin bindkey -M $__rc_m '\e[9996~' __rc_complete
      builtin bindkey -M $__rc_m '\e[9991~' __rc_press
      builtin bindkey -M $__rc_m '\e[9994~' __rc_release
      builtin bindkey -M $__rc_m '\e[9990~' __rc_found
    done } &>/dev/null
}

# -- the user's own .zshenv, as zsh would have read it; the other files follow by themselves --------
{
  case @OPTIONS@ in
    *a*) ;;
    *f*) builtin setopt norcs ;;
    *) if [[ -r ${ZDOTDIR:-$HOME}/.zshenv ]]; then . ${ZDOTDIR:-$HOME}/.zshenv; fi ;;
  esac
} always {
  if [[ -o interactive ]]; then
    __rc_order
    builtin unsetopt promptsp
    # A start-up file may switch it on again, and the first prompt's mark comes before any hook.
    : ${PROMPT_EOL_MARK=}
    builtin zle -N zle-line-init __rc_reads
    case @OPTIONS@ in
      *a*) ;;
      *) { builtin zmodload zsh/sched && builtin sched +0 __rc_first } 2>/dev/null ;;
    esac
  fi
}
__rc_adopted() {
  { builtin local __rc_a= __rc_p=
    # The line that reads this is none of the person's: the history is that of the file again.
    if (( __rc_new && ${SAVEHIST:-0} )) && [[ -n ${HISTFILE-} && ! -o histignorespace ]]; then
      __rc_p=$SAVEHIST
      SAVEHIST=0
      builtin fc -p -- "$HISTFILE" "$HISTSIZE" "$__rc_p"
    fi
    __rc_render $__rc_last "$PS1" '' ''
    __rc_taken "${__rc_p%%$'\x1f'*}" ''
    builtin unfunction __rc_adopted
    builtin return $__rc_last } 2>/dev/null
}
case @OPTIONS@ in
  *a*) __rc_adopted ;;
  *) builtin unfunction __rc_adopted ;;
esac
