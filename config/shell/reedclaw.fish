# ReedClaw's integration for fish, read once behind the user's own files (fish --init-command).
# The words between @ signs are filled in by the program:
#   @REQUEST@  file from which the next line is loaded      @ACK@   pipe that lets the prompt go on
#   @REPORT@   pipe for names and completions               @NONCE@ secret of the first prompt
#   @OPTIONS@  letter: a read by a line at the prompt of a fish that has read its files
# Every marker is ESC ] 633 ; letter ; nonce … BEL, and the nonce changes with every command.

set -g __rc_last $status
set -g __rc_n @NONCE@
set -g __rc_id 0
set -g __rc_hidden 0
set -g __rc_pressed
# The program suggests by itself; a line that is handed over needs no suggestion.
set -g fish_autosuggestion_enabled 0

function __rc_status
    return $argv[1]
end

# -- hooks ----------------------------------------------------------------------------------------
function __rc_start --on-event fish_preexec
    __rc_show
    set -l __rc_l
    # A line that a key has fish run; one that is longer than a marker may be isn't told.
    if test -n "$__rc_pressed"; and test (string length -- "$argv[1]") -le 4000
        set __rc_l ';1;'(__rc_quoted $argv[1])
    end
    printf '\e]633;C;%s;%s%s\a' $__rc_n $__rc_id "$__rc_l" >/dev/tty 2>/dev/null
end

function __rc_done --on-event fish_postexec
    set -l __rc_s $status
    # Without the other hook, what comes now is the prompt, and has to be taken away.
    functions -q __rc_arm; or return
    set -l __rc_v $CONDA_DEFAULT_ENV
    test -n "$__rc_v"; or set __rc_v (string replace -r '.*/' '' -- "$VIRTUAL_ENV")
    set __rc_v (string replace -ar '[^A-Za-z0-9._-]' _ -- "$__rc_v")
    printf '\e]633;D;%s;%s;%s;%s;%s\a' $__rc_n $__rc_id $__rc_s "$__rc_v" (__rc_quoted $PWD) >/dev/tty 2>/dev/null
end

# Hides the line editor and waits until the keys that the command left unread are fetched.
function __rc_arm --on-event fish_prompt
    set -l __rc_s $status
    __rc_show
    printf '\e]633;P;%s\a' $__rc_n >/dev/tty 2>/dev/null
    read -l __rc_a <@ACK@ 2>/dev/null
    if string match -q '*n*' -- $__rc_a
        __rc_names >@REPORT@ 2>/dev/null
    end
    set -g __rc_last $__rc_s
    if string match -q '*p*' -- $__rc_a
        __rc_prompt >@REPORT@ 2>/dev/null
    end
    __rc_hide
end

# The person's own prompt; it may ask for the status.
function __rc_prompt
    printf 'prompt\n'
    __rc_status $__rc_last
    fish_prompt
    printf '\x1f'
    if functions -q fish_right_prompt
        __rc_status $__rc_last
        fish_right_prompt
    end
    printf '\0'
end

# While a line is awaited, the prompt is a marker and the terminal one without capabilities, so that fish draws next to
# nothing. A command finds everything as the person has set it, and may change it.
function __rc_hide
    test $__rc_hidden = 0; or return
    set -g __rc_hidden 1
    # fish draws the prompt once more with the line that was handed over: that drawing must not say that it reads.
    set -g __rc_drawn $__rc_n
    for __rc_f in fish_prompt fish_right_prompt fish_mode_prompt
        functions -e __rc_own_$__rc_f
        functions -q $__rc_f; and functions -c $__rc_f __rc_own_$__rc_f
        functions -e $__rc_f
    end
    function fish_prompt
        printf '\e]633;B;%s\a' $__rc_drawn
    end
    function fish_right_prompt
    end
    function fish_mode_prompt
    end
    set -g __rc_term $TERM
    set -gx TERM dumb
    __rc_keys
end

function __rc_show
    test $__rc_hidden = 1; or return
    set -g __rc_hidden 0
    for __rc_f in fish_prompt fish_right_prompt fish_mode_prompt
        functions -e $__rc_f
        functions -q __rc_own_$__rc_f; and functions -c __rc_own_$__rc_f $__rc_f
        functions -e __rc_own_$__rc_f
    end
    test "$TERM" = dumb; and set -gx TERM $__rc_term
end

# One word as a POSIX shell would quote it, on one line.
function __rc_quoted
    set -l __rc_q (string replace -a '\\' '\\\\' -- $argv[1] | string replace -a "'" "\\'" | string join '\n')
    # These would end the marker.
    echo "\$'"(string replace -ar '[\x07\x1b]' '?' -- $__rc_q)"'"
end

# The names that the shell resolves; one record, ended by NUL.
function __rc_names
    printf 'names\n[alias]\n'
    for __rc_l in (abbr --show)
        set -l __rc_m (string match -r -- '^abbr -a (?:-U )?-- (\S+) (.*)$' $__rc_l)
        and printf '%s=%s\n' $__rc_m[2] (__rc_quoted (eval "string join ' ' -- $__rc_m[3]"))
    end
    printf '[function]\n'
    functions -n | string split ', '
    printf '[builtin]\n'
    builtin -n
    printf '[keyword]\nand\nbegin\nbreak\ncase\ncontinue\nelse\nend\nfor\nfunction\nif\nnot\nor\nswitch\ntime\nwhile\n!\n'
    printf '[variable]\n'
    set -n
    if string match -qr 'vi_key|hybrid' -- $fish_key_bindings
        printf '[vi]\n'
    end
    printf '[fish-key]\n'
    bind --user
    printf '[path]\n%s\n\0' (string join : -- $PATH)
end

# -- keys: only the program types here, by two private sequences -----------------------------------
# Fetches the line that the person has entered. What fish itself would refuse to run is answered here.
function __rc_load
    set -l __rc_s $status
    set -l __rc_r (string split0 <@REQUEST@)
    set -g __rc_id $__rc_r[1]
    set -g __rc_n $__rc_r[2]
    # An empty line has no end of its own.
    if test -z "$__rc_r[3]"
        __rc_status $__rc_last
        __rc_done
        commandline -f execute
        return
    end
    commandline -r -- (__rc_expanded $__rc_r[3] | string collect -N)
    commandline --is-valid
    switch $status
        case 2
            # To read its rest here would run the hooks.
            commandline -r ''
            printf '\e]633;F;%s;left\a' $__rc_n >/dev/tty 2>/dev/null
            return
        case 1
            commandline -r ''
            __rc_show
            printf '\e]633;C;%s;%s\a' $__rc_n $__rc_id >/dev/tty 2>/dev/null
            set -l __rc_f (status fish-path)
            $__rc_f --no-config --no-execute -c $__rc_r[3]
            printf '\e]633;D;%s;%s;%s;%s;%s\a' $__rc_n $__rc_id 127 '' (__rc_quoted $PWD) >/dev/tty 2>/dev/null
    end
    commandline -f execute
end

# An abbreviation in front, as typing a blank behind it would have expanded it.
function __rc_expanded
    set -l __rc_w (string match -r -- '^[^\s;|&]+' $argv[1])
    if test -n "$__rc_w"; and contains -- $__rc_w (abbr --list)
        for __rc_l in (abbr --show)
            set -l __rc_m (string match -r -- '^abbr -a (?:-U )?-- (\S+) (.*)$' $__rc_l)
            if test "$__rc_m[2]" = "$__rc_w"
                set -l __rc_x (eval "string join ' ' -- $__rc_m[3]" | string collect)
                set -l __rc_y (string replace -- $__rc_w '' $argv[1] | string collect -N)
                printf '%s%s' $__rc_x $__rc_y
                return
            end
        end
    end
    printf '%s' $argv[1]
end

# Completes the line in the request: one candidate a line, a tab and its description, ended by NUL. A letter in the
# place of a position asks for something else: p the prompt, e a variable's value.
function __rc_complete
    set -l __rc_r (string split0 <@REQUEST@)
    if test "$__rc_r[3]" = p
        __rc_show
        begin
            __rc_prompt
            printf 'complete\n%s\n\0' $__rc_r[1]
        end >@REPORT@ 2>/dev/null
        __rc_hide
    else if test "$__rc_r[3]" = e
        set -l __rc_v (string replace '$' '' -- $__rc_r[2])
        printf 'complete\n%s\n%s\n\0' $__rc_r[1] "$$__rc_v" >@REPORT@ 2>/dev/null
    else
        begin
            printf 'complete\n%s\n' $__rc_r[1]
            # Escaped, so that a name is one word and one line; a fish that can't do that answers plainly.
            complete -C --escape $__rc_r[2]; or complete -C $__rc_r[2]
            printf '\0'
        end >@REPORT@ 2>/dev/null
    end
    commandline -f repaint
end

# A key that the person has bound: the line in the request is put before fish's editor, and what is bound does its work there. A line
# that it has fish run, and the edits that it leaves to fish, come later: then the program asks for the line by another key.
function __rc_press
    set -l __rc_r (string split0 <@REQUEST@)
    set -g __rc_pressed $__rc_r[1]
    set -gx TERM $__rc_term
    commandline -r -- $__rc_r[2]
    commandline -C -- $__rc_r[3]
    set -l __rc_m (string match -q insert -- $fish_bind_mode; and echo insert; or echo default)
    set -g __rc_later 0
    function commandline
        builtin commandline $argv
        set -l __rc_c $status
        if set -l __rc_i (contains -i -- -f $argv; or contains -i -- --function $argv)
            string match -qr -- '^(force-)?repaint' $argv[(math $__rc_i + 1)]; or set -g __rc_later 1
        end
        return $__rc_c
    end
    for __rc_l in (eval bind --user -M $__rc_m $__rc_r[4] 2>/dev/null)
        eval __rc_run (string replace -r '^bind ' '' -- $__rc_l)
    end
    functions -e commandline
    if test $__rc_later = 1
        set -gx TERM dumb
        # What is drawn from here on is for nobody: the program must know where that begins.
        printf 'later\n\0' >@REPORT@ 2>/dev/null
        read -l __rc_a <@ACK@ 2>/dev/null
    else
        __rc_release
    end
end

# Runs the commands of a `bind` line; one that is a function of fish's own editor comes later.
function __rc_run
    argparse -i 'M/mode=' 'm/sets-mode=' user preset s/silent -- $argv
    for __rc_c in $argv[2..]
        if contains -- $__rc_c (bind --function-names)
            commandline -f $__rc_c
        else
            eval $__rc_c
        end
    end
end

# Gives back what has become of the line, and waits until the program has fetched the keys that nobody has read.
function __rc_release
    set -gx TERM dumb
    if test -n "$__rc_pressed"
        printf 'line\n%s\n%s\n%s\0' $__rc_pressed (commandline -C) (commandline | string collect) >@REPORT@ 2>/dev/null
        read -l __rc_a <@ACK@ 2>/dev/null
    end
    set -g __rc_pressed
    commandline -r ''
    commandline -f repaint
end

# Bound at each prompt, because a change of the key bindings starts from nothing.
function __rc_keys
    for __rc_m in insert default visual replace replace_one
        bind -M $__rc_m \e\[24\;8~ __rc_load
        bind -M $__rc_m \e\[23\;8~ __rc_complete
        bind -M $__rc_m \e\[21\;8~ __rc_press
        bind -M $__rc_m \e\[20\;8~ __rc_release
    end
end

# Read by a line at the prompt: says what is drawn there, for the program to take away. That line is none of the person's, and leaves
# the status as it was.
if string match -q '*a*' -- @OPTIONS@
    set -l __rc_p
    if functions -q fish_prompt
        __rc_status $__rc_last
        # fish draws it without the line feed at its end.
        set __rc_p (fish_prompt | string collect)
    end
    printf 'found\n%s\x1f\0' "$__rc_p" >@REPORT@ 2>/dev/null
    read -l __rc_a <@ACK@ 2>/dev/null
    __rc_status $__rc_last
end
