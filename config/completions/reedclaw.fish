# fish completion of reedclaw. The candidates come from `reedclaw completions --words`.
# Use: reedclaw completions fish > ~/.config/fish/completions/reedclaw.fish
function __reedclaw_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l found (command reedclaw completions --words -- $words[2..-1] "$current" 2>/dev/null)
    switch "$found[1]"
        case /
            __fish_complete_path (string replace -r '^--[^=]*=' '' -- "$current")
        case /dir
            __fish_complete_directories (string replace -r '^--[^=]*=' '' -- "$current") ''
        case '*'
            printf '%s\n' $found
    end
end
complete -c reedclaw -f -a '(__reedclaw_complete)'
