#compdef reedclaw
# zsh completion of reedclaw. The candidates come from `reedclaw completions --words`.
# Use: eval "$(reedclaw completions zsh)" after compinit in ~/.zshrc, or install as _reedclaw in a directory of $fpath.
_reedclaw() {
  local line value
  local -a described before
  before=("${(@)words[2,CURRENT-1]}")
  for line in "${(@f)$(command reedclaw completions --words -- "${before[@]}" "$PREFIX" 2>/dev/null)}"; do
    case $line in
      '') ;;
      /) _files; return ;;
      /dir) _files -/; return ;;
      *$'\t'*) value=${line%%$'\t'*}
        described+=("${value//:/\\:}:${line#*$'\t'}") ;;
      *) described+=("${line//:/\\:}") ;;
    esac
  done
  (( $#described )) && _describe -V reedclaw described
}
if [[ $funcstack[1] == _reedclaw ]]; then _reedclaw "$@"; else compdef _reedclaw reedclaw; fi
