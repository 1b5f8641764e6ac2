//! Hostile command lines: disguises, long texts, and another parser's view.

use std::time::Duration;

use proptest::prelude::*;

use super::tests::{Line, benign, blocked, risk, rules, verdict};
use super::*;
use crate::base::time::busy;

#[test]
fn no_disguise_lowers_a_verdict() {
    let rules = rules();
    let wrap = |line: &str| format!("'{}'", line.replace('\'', "'\\''"));
    let (mut all, mut missed) = (0, Vec::new());
    // Here a line has no arguments: one with `$1` means something else.
    for Line { text, .. } in
        blocked().into_iter().filter(|line| !["$1", "$@", "$*", "$0"].iter().any(|it| line.text.contains(it)))
    {
        if verdict(&text, &rules).risk != Risk::Blocked {
            continue;
        }
        for disguised in [
            format!("true; {text}"),
            format!("{text}\nls"),
            format!("ls\n{text}"),
            format!("eval {}", wrap(&text)),
            format!("bash -c {}", wrap(&text)),
            format!("env nice sh -c {}", wrap(&text)),
            format!("{{ {text}\n}}"),
            format!("( {text}\n)"),
            format!("if true; then {text}\nfi"),
            format!("f() {{ {text}\n}}; f"),
            format!("x=$({text}\n)"),
            format!("cat <<'E' | bash\n{text}\nE"),
        ] {
            all += 1;
            let risk = verdict(&disguised, &rules).risk;
            assert!(risk >= Risk::High, "{disguised}");
            if risk != Risk::Blocked {
                missed.push(disguised);
            }
        }
    }
    assert!(missed.len() * 100 <= all, "{} of {all}: {:#?}", missed.len(), missed.iter().take(40).collect::<Vec<_>>());
}

#[test]
fn quotes_in_words_lower_no_verdict() {
    // Lines of one plain command: each word may be quoted letter by letter.
    let rules = rules();
    for Line { text, .. } in blocked().iter().filter(|line| matches!(line.category, "delete" | "power" | "modes")) {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, ' ' | '/' | '-' | '.' | ',');
        if !text.chars().all(plain) || verdict(text, &rules).risk != Risk::Blocked {
            continue;
        }
        for quote in ["''", "\"\"", "\\", "${nothing_at_all}", "$(true)", "``"] {
            let disguised = format!("{}{quote}{}", &text[..1], &text[1..]);
            assert_eq!(verdict(&disguised, &rules).risk, Risk::Blocked, "{disguised}");
        }
    }
}

#[test]
fn a_home_in_a_temporary_directory_is_no_scratch() {
    let rules = Rules { autonomy: Autonomy::Full, ..Rules::new("/tmp/x/home/proj", "/tmp/x/home") };
    for command in
        ["echo x >> ~/.bashrc", "echo x > ~/.aws/credentials", "cd ..; rm -rf proj", "rm ~/notes", "rm ../../y"]
    {
        assert_eq!(verdict(command, &rules).risk, Risk::Blocked, "{command}");
    }
    for command in
        ["echo x > notes.md", "rm -rf build", "echo x > /tmp/y", "rm -rf /tmp/y/z", "rm -rf \"$(mktemp -d)\""]
    {
        assert_ne!(verdict(command, &rules).risk, Risk::Blocked, "{command}");
    }
}

#[test]
fn nothing_takes_long() {
    let rules = rules();
    let pieces = [
        "((",
        "$((",
        "$(",
        "`",
        "${",
        "{a,b}",
        "<<E\n",
        "[[ ",
        "case x in ",
        "a[",
        "@(",
        "\"$(",
        "<(",
        "$[",
        "if ",
        "f(){ ",
        "'",
        "x=$x$x;",
        "for i in 1 2 3 4; do ",
        "while read a; do ",
        "eval \"",
        "|",
        "${x:-",
        "{1..99}",
        "*",
        "f(){ f|f& };f;",
        "{{{",
        "}}}",
    ];
    for piece in pieces {
        for length in [4096, 60_000] {
            let command = piece.repeat(length / piece.len());
            let began = busy();
            let _ = verdict(&command, &rules);
            let took = busy() - began;
            assert!(took < Duration::from_secs(8), "{piece:?} × {length} bytes: {took:?}");
        }
    }
}

#[test]
fn no_code_of_another_language_takes_long() {
    let rules = rules();
    let pieces = [
        "\"a\"+",
        "a=f\"{a}{a}{a}\";",
        "[",
        "os.system(",
        "\"ab\"*99;",
        "\"a\".join([\"b\",\"c\"]);",
        "x=\"rm -rf /\";os.system(x);",
        "chr(",
        "exec(\"",
        "eval(\"exec(1)\")\n",
        "\"%s\"%\"%s\"%",
        "getattr(a,\"b\")(",
        "# x\n",
        "{[(",
    ];
    for piece in pieces {
        for (length, most) in [(4096, 2), (60_000, 8)] {
            let command = format!("python3 -c '{}'", piece.repeat(length / piece.len()));
            let began = busy();
            let _ = verdict(&command, &rules);
            let took = busy() - began;
            assert!(took < Duration::from_secs(most), "{piece:?} × {length} bytes: {took:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn any_line_has_one_risk_and_an_unknown_one_lowers_nothing(
        text in "[a-z $(){}|;&<>'\"`\\\\*?\\[\\]/~=#!:,.\n-]{0,80}"
    ) {
        let alone = risk(&text);
        prop_assert_eq!(alone, risk(&text));
        // Lines after a blocked line don't unblock it.
        prop_assert!(risk(&format!("mkfs /dev/sda\n{text}")) >= Risk::High, "{:?}", text);
    }

    #[test]
    fn any_characters_have_one_risk(text in "\\PC{0,60}") {
        prop_assert_eq!(risk(&text), risk(&text));
    }

    #[test]
    fn a_blocked_line_stays_blocked_between_benign_ones(
        at in 0..10_000_usize, before in 0..10_000_usize, after in 0..10_000_usize
    ) {
        let (blocked, benign) = (blocked(), benign());
        let plain = |at: usize| {
            // Code that ends or redirects the session changes what follows.
            let line = &benign[at % benign.len()];
            if line.category == "text in quotes" { line.text.clone() } else { "ls".to_owned() }
        };
        let line = &blocked[at % blocked.len()].text;
        let command = format!("{}\n{line}\n{}", plain(before), plain(after));
        prop_assert!(risk(&command) >= risk(line), "{}", command);
    }

    #[test]
    fn pieces_of_blocked_lines_have_one_risk(at in 0..10_000_usize, from in 0..60_usize, length in 0..60_usize) {
        let blocked = blocked();
        let piece: String = blocked[at % blocked.len()].text.chars().skip(from).take(length).collect();
        prop_assert_eq!(risk(&piece), risk(&piece));
    }
}

#[test]
fn another_parser_finds_the_same_commands() {
    use brush_parser::{ParserOptions, uncached_tokenize_str};
    // Both count simple commands outside quotes: if one sees text and the other a command, one of them is wrong.
    fn words(command: &str) -> Option<usize> {
        let options = ParserOptions::default();
        let tokens = uncached_tokenize_str(command, &options.tokenizer_options()).ok()?;
        brush_parser::parse_tokens(&tokens, &options).ok().map(|program| program.complete_commands.len())
    }
    let (mut both, mut one) = (0, Vec::new());
    for Line { text: line, .. } in blocked().into_iter().chain(benign()) {
        let ours = crate::bash::parse(&line, 0).1.is_none();
        match (ours, words(&line).is_some()) {
            (true, true) | (false, false) => both += 1,
            _ => one.push(line),
        }
    }
    assert!(one.len() * 100 < both, "{} of {both}: {one:#?}", one.len());
}
