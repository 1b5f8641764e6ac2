//! The project's own hard lines with their destinations, and the properties of every line.

use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::proto::Names;

/// Programs and builtins that the hard lines' session has.
const PROGRAMS: &str = "\
    . [ activate alias apt apt-get as at awk aws base64 bash batch bg bind break cal cargo cat cd chmod chown clang \
    clear cmp code column comm command compare complete compose continue convert cowsay cp crontab curl cut dash \
    date dc dd declare df diff dig dir dirs disown display dmesg docker du duplicates echo ed edit egrep emacs \
    enable env eval ex exec exit expand export expr factor false fc ffmpeg fg figlet file find finger flask fmt fold \
    free fzf gcc git go grep groups gzip halt hash head help history host htop hyperfine id identify import info \
    init install ip java jobs join jq kill kubectl last ld less let link llm ln local locate logger login look ls \
    mail make man md5sum mkdir more mount mv nano nc nice nl node nohup notify-send npm nvim open openssl passwd \
    paste patch perl ping pip pip3 popd postgres pr print printf project prove ps psql pushd pwd python python3 read \
    readonly reboot red reedclaw rename reset return rev rm rmdir route rsync ruby rustc rustup say scp screen script sed see \
    seq service set sh shift shopt shred shuf size sleep sort source split ssh stat strings strip stty su sudo sum \
    sync systemctl tabs tac tail talk tar tee terraform test timeout times tmux top touch tr trap tree true truncate \
    tty type typeset ulimit umask uname uniq unlink unset unzip uptime users view vim w wait wall watch wc wget \
    whereis which who write xargs yarn yes zip zsh";
const ALIASES: &str = "ll la l gs gco gcm gp gd k dc v please update cb ct wip t .. ...";
const FUNCTIONS: &str = "mkcd deploy serve venv weather extract backup fix up jump todo task note";
const KEYWORDS: &str =
    "! [[ ]] case coproc do done elif else esac fi for function if in select then time until while { }";

/// Label, category, line, and the reason for the label.
const HARD_LINES: &str = include_str!("hard_lines.tsv");

fn names() -> Names {
    let set = |text: &str| text.split_whitespace().map(str::to_owned).collect();
    Names {
        aliases: ALIASES.split_whitespace().map(|name| (name.to_owned(), String::new())).collect(),
        functions: set(FUNCTIONS),
        keywords: set(KEYWORDS),
        programs: Arc::new(PROGRAMS.split_whitespace().collect()),
        ..Names::default()
    }
}

fn decide_plain(line: &str) -> RouteVerdict {
    let names = names();
    decide(line, &Context { is_path: &|word| word == "scripts/test.sh", ..Context::new(&names) })
}

/// The rows of [`HARD_LINES`].
fn hard_lines() -> impl Iterator<Item = (Route, &'static str, &'static str, &'static str)> {
    HARD_LINES.lines().filter(|row| !row.starts_with("# ")).map(|row| {
        let columns: Vec<&str> = row.split('\t').collect();
        let [label, category, line, reason] = columns[..] else { panic!("{row:?} has not four columns") };
        (if label == "shell" { Route::Shell } else { Route::Ask }, category, line, reason)
    })
}

/// `please` and `note` begin sentences, but a person who has defined a function of that name may mean it.
#[test]
fn a_function_named_like_a_word_of_sentences_is_asked_about() {
    let mut names = names();
    let route = |names: &Names, line: &str| decide(line, &Context::new(names)).route;
    names.aliases.remove("please");
    assert_eq!(route(&names, "please help me"), Route::Ask);
    names.functions.insert("please".into());
    let verdict = decide("please help me", &Context::new(&names));
    assert_eq!((verdict.route, verdict.rule), (Route::Confirm, "own-function"));
    assert_eq!(route(&names, "please apt update"), Route::Shell);
    names.functions.extend(["note", "explain"].map(String::from));
    for line in ["please do it", "note call the bank tomorrow", "explain this", "fix the typo in the title please"] {
        assert_eq!(route(&names, line), Route::Confirm, "{line}");
    }
    assert_eq!(route(&names, "note"), Route::Shell);
}

/// A question is no error, but too many of them are; no line at all may go the wrong way.
#[test]
fn every_hard_line_goes_where_it_should() {
    let names = names();
    let context = Context::new(&names);
    let (mut wrong, mut asked, mut count) = (Vec::new(), Vec::new(), 0);
    for (route, category, line, reason) in hard_lines() {
        let verdict = decide(line, &context);
        count += 1;
        assert!(!reason.is_empty() && !verdict.reason.is_empty(), "{line}");
        if verdict.route == Route::Confirm {
            asked.push(line);
        } else if verdict.route != route {
            wrong.push(format!(
                "{line:?} ({category}) should be {route:?}, {reason}: {} {}",
                verdict.rule, verdict.score
            ));
        }
    }
    assert!(count >= 400, "{count} rows");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(asked.len() * 50 < count, "asked {}: {asked:?}", asked.len());
}

#[test]
fn prefixes_force_and_are_removed_but_not_what_bash_means_by_them() {
    for (line, route, text) in [
        ("", Route::Empty, ""),
        (" \t\n", Route::Empty, ""),
        (":model qwen", Route::Meta, ":model qwen"),
        ("  :help ", Route::Meta, ":help"),
        (":?", Route::Meta, ":?"),
        ("!what is this", Route::Shell, "what is this"),
        ("!ls", Route::Shell, "ls"),
        ("! ls", Route::Shell, "! ls"),
        ("!!", Route::Shell, "!!"),
        ("!$", Route::Shell, "!$"),
        ("!-2", Route::Shell, "!-2"),
        ("!ls:p", Route::Shell, "!ls:p"),
        ("!nosuchword", Route::Shell, "!nosuchword"),
        ("!nosuchword --all", Route::Shell, "nosuchword --all"),
        ("!scripts/test.sh", Route::Shell, "scripts/test.sh"),
        ("!x=1", Route::Shell, "x=1"),
        ("$ make me a sandwich", Route::Shell, "make me a sandwich"),
        ("$x", Route::Shell, "$x"),
        ("?ls", Route::Ask, "ls"),
        ("? ls -la", Route::Ask, "ls -la"),
        (" ls ", Route::Shell, " ls "),
        (" !ls", Route::Shell, " ls"),
        (" !nosuchword", Route::Shell, " !nosuchword"),
        (" what is this ", Route::Ask, "what is this"),
        ("make\\ ", Route::Shell, "make\\ "),
    ] {
        let verdict = decide_plain(line);
        assert_eq!((verdict.route, verdict.text.as_str()), (route, text), "{line:?} by {}", verdict.rule);
    }
}

#[test]
fn the_key_flips_shell_and_model_and_nothing_else() {
    let names = names();
    let flip = |line: &str, forced| {
        let verdict = decide(line, &Context { forced: Some(Forced::Key(forced)), ..Context::new(&names) });
        (verdict.route, verdict.text, verdict.rule)
    };
    assert_eq!(flip("ls", Route::Ask), (Route::Ask, "ls".into(), "forced-by-key"));
    assert_eq!(flip("why", Route::Shell), (Route::Shell, "why".into(), "forced-by-key"));
    assert_eq!(flip("?ls", Route::Shell), (Route::Shell, "ls".into(), "forced-by-key"));
    assert_eq!(flip("", Route::Shell).0, Route::Empty);
}

#[test]
fn an_answer_to_the_model_is_a_reply_only_when_it_asked() {
    let names = names();
    let route = |line: &str, model_asked| decide(line, &Context { model_asked, ..Context::new(&names) }).route;
    for line in ["yes", "yes.", "true", "last"] {
        assert_eq!(
            (route(line, false), route(line, true)),
            (if line == "yes." { Route::Ask } else { Route::Shell }, Route::Ask)
        );
    }
    assert_eq!(route("ls", true), Route::Shell);
    assert_eq!(route("last -5", true), Route::Shell);
    assert!(ends_with_question("Shall I go on?**\n") && !ends_with_question("Done."));
}

#[test]
fn a_paste_of_several_lines_is_decided_as_a_whole() {
    for (text, route) in [
        ("cd /tmp\nls\nmake", Route::Shell),
        ("# build it\nmake\n", Route::Shell),
        ("cat <<EOF\nplease do this\nand that, would you?\nthe end\nEOF", Route::Shell),
        ("git commit -m \"fix the thing\n\nwhat is this about?\nthe parser\nand the lexer\"", Route::Shell),
        ("for i in a b\ndo\n  echo $i\ndone", Route::Shell),
        ("if true\nthen\n ls\nfi", Route::Shell),
        ("greet() {\n echo hi\n}", Route::Shell),
        ("ls \\\n  -la", Route::Shell),
        ("ls\necho \"a\nthe parser is broken\"", Route::Shell),
        ("ls\nit isn't there\nwhy?", Route::Ask),
        ("() { echo anon $1 } x", Route::Shell),
        ("explain this\nls -la", Route::Ask),
        ("make: *** [all] Error 2\nls", Route::Ask),
        ("test\nthe parser is broken\nwhy does it fail on this?\nplease fix it", Route::Ask),
    ] {
        let verdict = decide_plain(text);
        assert_eq!(verdict.route, route, "{text:?} by {}", verdict.rule);
    }
}

#[test]
fn names_of_the_session_decide() {
    let mut names = names();
    let route = |names: &Names, line: &str| decide(line, &Context::new(names)).route;
    assert_eq!(route(&names, "gizmo the"), Route::Ask);
    names.known.insert("gizmo".into());
    assert_eq!(route(&names, "gizmo the"), Route::Shell);
}

proptest! {
    #[test]
    fn nothing_panics_and_nothing_is_lost(line in any::<String>(), forced in 0..3_u8, model_asked in any::<bool>()) {
        let names = names();
        let forced = [None, Some(Forced::Key(Route::Shell)), Some(Forced::Mode(Route::Ask))][usize::from(forced)];
        let context = Context { is_path: &|_| true, forced, model_asked, ..Context::new(&names) };
        let verdict = decide(&line, &context);
        prop_assert_eq!(&verdict, &decide(&line, &context));
        prop_assert!(line.contains(verdict.text.trim()));
        prop_assert_eq!(verdict.route == Route::Empty, line.trim().is_empty());
        prop_assert!(!verdict.reason.is_empty() && !verdict.rule.is_empty());
    }

    #[test]
    fn pieces_of_shell_never_panic(pieces in prop::collection::vec(prop::sample::select(vec![
        "if", "for", "(", ")", "{", "in", "do", ";", "|", "&&", "'", "\"", "$(", "`", "\\", "\n", "ls", "the", "?", "é", " ", "<<", "#", "x=", "!", "time", "sudo",
    ]), 0..20)) {
        for line in [pieces.concat(), pieces.join(" ")] {
            prop_assert_eq!(decide_plain(&line).route, decide_plain(&line).route, "{}", line);
        }
    }
}

/// A command of the table, a position in it and an option: with the option it must not become a sentence.
fn with_option() -> impl Strategy<Value = (&'static str, String)> {
    let commands: Vec<&str> = hard_lines().filter(|row| row.0 == Route::Shell).map(|row| row.2).collect();
    let options = ["-x", "--verbose", "--color=auto", "-n5", "--", "-rf"];
    (prop::sample::select(commands), prop::sample::select(options.to_vec()), any::<prop::sample::Index>()).prop_map(
        |(line, option, place)| {
            let words: Vec<(usize, &str)> = line.match_indices(' ').collect();
            // Inside a string, a comment or a here-document it would not be an option.
            let plain = !line.contains(['"', '\'', '#', '`', '(', '{', '[', '\\', '<']);
            let at = if words.is_empty() || !plain { line.len() } else { words[place.index(words.len())].0 };
            let text = if plain { format!("{} {option}{}", &line[..at], &line[at..]) } else { line.to_owned() };
            (line, text)
        },
    )
}

proptest! {
    #[test]
    fn an_option_never_makes_a_command_a_sentence((line, text) in with_option()) {
        if decide_plain(line).route == Route::Shell {
            let verdict = decide_plain(&text);
            prop_assert_ne!(verdict.route, Route::Ask, "{:?} by {}", text, verdict.rule);
        }
    }

    #[test]
    fn a_whole_sentence_in_quotes_is_still_one(
        row in prop::sample::select(hard_lines().filter(|row| row.0 == Route::Ask).collect::<Vec<_>>()),
    ) {
        prop_assume!(row.2.contains(' ') && !row.2.contains(['"', '`', '$', '\\', '/']));
        prop_assert_eq!(decide_plain(&format!("\"{}\"", row.2)).route, Route::Ask);
    }

    #[test]
    fn words_inside_a_quoted_string_do_not_change_the_route(
        row in prop::sample::select(hard_lines().filter(|row| row.0 == Route::Ask).collect::<Vec<_>>()),
        command in prop::sample::select(vec!["git commit -m", "echo", "grep -rn", "notify-send", "llm", "touch"]),
    ) {
        prop_assume!(row.2.contains(' ') && !row.2.contains(['"', '`', '$', '\\', '!']));
        prop_assert_eq!(decide_plain(&format!("{command} \"{}\"", row.2)).route, Route::Shell);
    }
}

#[test]
fn quotes_around_a_word_of_a_sentence_change_nothing() {
    let names = names();
    let context = Context::new(&names);
    let mut tried = 0;
    for (_, _, line, _) in
        hard_lines().filter(|row| row.0 == Route::Ask && !row.2.contains(['"', '\'', '`', '$', '\\']))
    {
        let route = decide(line, &context).route;
        let words: Vec<&str> = line.split(' ').collect();
        let plain = |word: &str| word.len() > 1 && word.bytes().all(|byte| byte.is_ascii_lowercase());
        for (at, word) in words.iter().enumerate().filter(|(_, word)| plain(word)) {
            for quote in ['"', '\''] {
                let (quoted, mut words) = (format!("{quote}{word}{quote}"), words.clone());
                words[at] = &quoted;
                assert_eq!(decide(&words.join(" "), &context).route, route, "{words:?}");
                tried += 1;
            }
        }
    }
    assert!(tried > 3000, "{tried}");
}

#[test]
fn rules_that_need_no_weighing() {
    for (line, rule) in [
        ("who am i --ips | awk '{print $5}'", "who-am-i"),
        ("exit without saving", "takes-no-words"),
        ("true that", "takes-no-words"),
        ("exit now", "takes-no-words"),
        ("read the README", "reads-nothing"),
        ("echo a long line that wraps a lot in here", "prints"),
        ("reboot now", "first-word-resolves"),
        ("exit 3; ls", "first-word-resolves"),
        ("time in tokyo", "runs-nothing"),
        ("time ls in", "first-word-resolves"),
        ("compare these two files:", "announcement"),
        ("scp notes host:", "first-word-resolves"),
        ("DEBUG=1 mytool my-app", "assignment"),
        ("x= 5", "assignment"),
        ("/pattern<Enter>n", "keys"),
        ("alias foo=$'echo it\\'s'", "assignment"),
        ("x=\"$(date) $(echo \"$y\" | sed \"s/a/b/\")\"", "assignment"),
        ("service nginx restart", "subcommand"),
        ("reedclaw route why does that fail", "own-command"),
        ("reedclaw norris deny 3 it is too much", "own-command"),
        ("reedclaw --path . agent -m hi", "first-word-resolves"),
        ("fg %1", "job"),
        ("coproc { ls; }", "syntax"),
        ("for i in 1 2 3 4 5 6 7 8", "syntax"),
        ("sudo -e /etc/fstab", "first-word-resolves"),
        ("time make", "first-word-resolves"),
        ("esac", "syntax"),
        ("ls -la vs ls -al", "comparison"),
        ("hmm, that is odd", "punctuation"),
        ("<Esc><y><y>", "keys"),
        ("<Ctrl x>", "keys"),
        ("<F5>", "keys"),
        ("</>alice<Enter>", "keys"),
        ("<p>hello</p>", "code"),
        ("<div class=\"a\">", "code"),
        ("[a-z][3-9]", "pattern"),
        ("why?", "chat"),
        ("for i ( a b ) echo $i", "syntax"),
        ("if [[ -n $x ]] { ls }", "syntax"),
    ] {
        assert_eq!(decide_plain(line).rule, rule, "{line}");
    }
    assert_eq!(decide_plain("find . –iname x –print").route, Route::Shell, "a dash of a text processor");
    assert_eq!(decide_plain("reedclaw is slow today, why is that").route, Route::Ask, "no subcommand");
}

#[test]
fn a_known_command_that_is_missing_is_no_slip() {
    let mut names = names();
    names.programs = Arc::new(names.programs.iter().filter(|name| *name != "cal").collect());
    assert_ne!(decide("cal 2027", &Context::new(&names)).rule, "slip");
}

#[test]
fn a_slip_is_corrected_where_the_command_is_there() {
    let names = names();
    let context = Context::new(&names);
    for (line, meant) in [
        ("gti status", Some("git status")),
        (" mkae all", Some(" make all")),
        ("cd..", Some("cd ..")),
        ("cat-n notes", Some("cat -n notes")),
        ("Git log", Some("git log")),
        ("sudo mkae install", Some("sudo make install")),
        ("kubeclt get pods", Some("kubectl get pods")),
        ("vmi notes", Some("vim notes")),
        ("brwe install jq", None),
        ("git status", None),
        ("frobnicate", None),
        ("", None),
    ] {
        assert_eq!(correction(line, &context).as_deref(), meant, "{line}");
    }
}

#[test]
fn the_heaviest_words_explain_a_verdict() {
    let names = names();
    let context = Context::new(&names);
    let evidence = evidence("kill the server on port 80", &context);
    assert!(evidence.len() >= 3 && evidence[0].weight < 0.0, "{evidence:?}");
    assert!(evidence.windows(2).all(|pair| pair[0].weight.abs() >= pair[1].weight.abs()));
    assert!(super::evidence("ls", &context).is_empty());
}

#[test]
fn arguments_that_are_files_make_a_command() {
    let names = names();
    let exists = |word: &str| ["there", "report", "build"].contains(&word);
    let context = Context { exists: &exists, ..Context::new(&names) };
    for line in ["cd there", "rm -r build", "cat report there"] {
        assert_eq!(decide(line, &context).route, Route::Shell, "{line}");
    }
    // The first word must be a command, and each other word a file.
    for line in ["find me the report", "kill the build there", "fetch report"] {
        assert_ne!(decide(line, &context).rule, "arguments-exist", "{line}");
    }
}

#[test]
fn a_correction_moves_the_line_and_shifts_the_weights_slightly() {
    let names = names();
    let context = Context::new(&names);
    let line = "make progress reports";
    let before = decide(line, &context).score;
    for to_shell in [true, false] {
        let features = features_of(line, &context).expect("it is weighed");
        let mut weights = Weights::built_in().clone();
        lesson(&features, &weights, to_shell).into_iter().for_each(|(index, steps)| weights.shift(index, steps));
        let moved = decide(line, &Context { weights: &weights, ..context }).score - before;
        let expected = if to_shell { 0.2..2.0 } else { -2.0..-0.2 };
        assert!(expected.contains(&moved), "{moved}");
    }
    let answered = decide(line, &Context { answered: Some(Route::Shell), ..context });
    assert_eq!((answered.route, answered.rule), (Route::Shell, "remembered"));
    let again = decide(line, &Context { ran_before: true, ..context });
    assert!((again.score - before - 3.0).abs() < 0.01);
    for forced in [Forced::Mode(Route::Ask), Forced::Hook(Route::Ask)] {
        assert_eq!(decide("ls", &Context { forced: Some(forced), ..context }).route, Route::Ask);
        assert_eq!(decide("!ls", &Context { forced: Some(forced), ..context }).route, Route::Shell);
    }
}

#[test]
fn words_with_a_slash_are_meta_commands_unless_a_file_is_called_so() {
    let names = Names::default();
    let context = Context::new(&names);
    for (line, meta) in [
        ("/help", Some(":help")),
        (" /model local ", Some(":model local")),
        ("/memory add I like tabs", Some(":memory add I like tabs")),
        ("/allowlist", Some(":allowlist")),
        ("/clear now", None),
        ("/helpme", None),
        ("/bin/help", None),
        ("help", None),
    ] {
        let verdict = decide(line, &context);
        let text = (verdict.route == Route::Meta).then_some(verdict.text);
        assert_eq!(text.as_deref(), meta, "{line:?}");
    }
    let exists = Context { exists: &|word| word == "/help", ..Context::new(&names) };
    assert_eq!(decide("/help", &exists).route, Route::Shell);
    let forced = Context { forced: Some(Forced::Mode(Route::Shell)), ..Context::new(&names) };
    assert_eq!(decide("/help", &forced).route, Route::Meta, "a prefix still counts");
    let flipped = Context { forced: Some(Forced::Key(Route::Shell)), ..Context::new(&names) };
    let verdict = decide("/help", &flipped);
    assert_eq!((verdict.route, verdict.text.as_str()), (Route::Shell, "/help"));
}
