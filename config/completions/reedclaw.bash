# bash completion of reedclaw. The candidates come from `reedclaw completions --words`.
# Use: eval "$(reedclaw completions bash)" in ~/.bashrc, or install as share/bash-completion/completions/reedclaw.
_reedclaw() {
  local word current=${COMP_WORDS[COMP_CWORD]}
  COMPREPLY=()
  # In a subshell the words end at the cursor; the help after the tab isn't shown by bash.
  while IFS=$'\t' read -r word _; do
    COMPREPLY+=("$word")
  done < <(command "${1:-reedclaw}" completions --words -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
  case ${COMPREPLY[0]-} in
    /) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -f -- "${current#=}") ;;
    /dir) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -d -- "${current#=}") ;;
  esac
}
complete -F _reedclaw reedclaw
