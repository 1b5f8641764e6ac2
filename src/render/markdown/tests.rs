//! Pictures of each construct, and the promises of the stream.

use proptest::prelude::*;

use super::*;
use crate::render::{sanitise, text};

fn draw(source: &str, width_columns: usize, color: bool) -> String {
    let mut markdown = Markdown::new(Options { width_columns, color, markdown: true });
    markdown.push(source) + &markdown.finish()
}

fn strip_sgr(shown: &str) -> String {
    let mut plain = String::new();
    let mut rest = shown;
    while let Some(at) = rest.find("\x1b[") {
        plain.push_str(&rest[..at]);
        let end = rest[at..].find('m').expect("a sequence of ours ends in m");
        assert!(rest[at + 2..at + end].bytes().all(|byte| byte.is_ascii_digit() || byte == b';'), "{rest:?}");
        rest = &rest[at + end + 1..];
    }
    plain + rest
}

fn markdown_soup() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        6 => "[a-z]{1,9} ",
        2 => prop::sample::select(vec!["**", "*", "_", "~~", "`", "``", "```", "[", "](", ")", "!", "\\", "$", "$$", "\\(", "://", "|"]).prop_map(String::from),
        2 => prop::sample::select(vec!["\n", "\n\n", "\n- ", "\n  - ", "\n1. ", "\n> ", "\n# ", "\n```\n", "\n    ", "\n---\n", "\n| a | b |\n|--|-:|\n| c `|` ",
            "\nCMD: ", "\nCMD: cat <<E\n", "\nE\n", "\n- [x] ", "\n~~~ sh\n", "\n````\n", "\n$$\n", "\n\t"]).prop_map(String::from),
        1 => prop::sample::select(vec!["日本語", "👩\u{200d}👧", "e\u{301}", "\x1b[31m", "\x1b]0;x", "\x07", "\r\n", "\u{202e}", "（", "」", "   "]).prop_map(String::from),
        1 => any::<char>().prop_map(String::from),
    ];
    prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn cutting_never_changes_the_whole(source in markdown_soup(), cuts in prop::collection::vec(1usize..7, 1..20), width in 0usize..60, color: bool, on: bool) {
        let options = Options { width_columns: width, color, markdown: on };
        let mut whole = Markdown::new(options);
        let expected = whole.push(&source) + &whole.finish();
        let chars: Vec<char> = source.chars().collect();
        let (mut at, mut joined, mut markdown) = (0, String::new(), Markdown::new(options));
        for cut in cuts.iter().cycle() {
            if at >= chars.len() { break; }
            let end = (at + cut).min(chars.len());
            joined += &markdown.push(&chars[at..end].iter().collect::<String>());
            at = end;
        }
        joined += &markdown.finish();
        prop_assert_eq!(joined, expected);
    }

    #[test]
    fn only_text_newline_tab_and_our_colours_come_out(source in markdown_soup(), width in 0usize..60, color: bool) {
        let shown = draw(&source, width, color);
        let plain = if color { strip_sgr(&shown) } else { shown.clone() };
        prop_assert!(plain.chars().all(|c| !c.is_control() || c == '\n' || c == '\t'), "{shown:?}");
        prop_assert!(shown.is_empty() || shown.ends_with('\n'));
        let opened = shown.matches("\x1b[").count() - shown.matches("\x1b[0m").count();
        prop_assert_eq!(opened, shown.matches("\x1b[0m").count(), "every colour is ended");
    }

    #[test]
    fn no_letter_is_lost(source in markdown_soup(), width in 8usize..60) {
        // Links add their URL in another order, and cells of a table wrap beside each other.
        let source = sanitise(&source.replace(['[', '|'], " ")).into_owned();
        let letters = |text: &str| text.chars().filter(|c| c.is_alphabetic()).collect::<String>();
        prop_assert_eq!(letters(&draw(&source, width, false)), letters(&source));
        // With colours the closing fence is dropped, and with it nothing but its marks.
        let marked = strip_sgr(&draw(&source, width, true));
        prop_assert_eq!(letters(&marked), letters(&source));
    }

    #[test]
    fn wrapped_lines_keep_to_the_width(source in markdown_soup(), width in 8usize..60, color: bool) {
        // Text that is printed as it is may be wider: code, commands, formulas.
        let mut source = sanitise(&source).replace(['`', '\t', '$', '\\'], " ").replace("~~~", "").replace("CMD: ", "");
        while source.contains("    ") {
            source = source.replace("    ", " ");
        }
        for line in strip_sgr(&draw(&source, width, color)).lines() {
            prop_assert!(text::width(line) <= width, "{line:?} in {source:?}");
        }
    }

    #[test]
    fn the_words_of_a_paragraph_survive_in_order(words in prop::collection::vec("[a-zA-Zäöü日本,.;:!?]{1,12}", 1..60), width in 40usize..90) {
        let source = words.join(" ");
        let shown = draw(&source, width, false);
        prop_assert_eq!(shown.split_whitespace().collect::<String>(), words.concat());
        let broken = |c: char| "日本".contains(c);
        if !source.contains(broken) {
            prop_assert_eq!(shown.split_whitespace().collect::<Vec<_>>(), source.split_whitespace().collect::<Vec<_>>());
        }
    }
}

/// A source, a width, and what is shown without colours.
const PICTURES: &[(&str, usize, &str)] = &[
    ("# Title with **bold** #\n\n\n\nText\n", 40, "# Title with bold\n\nText\n"),
    (
        "A paragraph with **bold text**, *emphasis*, `inline code` and a [link](https://example.com/a/b) that wraps.",
        40,
        "A paragraph with bold text, emphasis,\n`inline code` and a link\n(https://example.com/a/b) that wraps.\n",
    ),
    (
        "A paragraph with **bold text**, *emphasis*, `inline code` and a [link](https://example.com/a/b) that wraps.",
        80,
        "A paragraph with bold text, emphasis, `inline code` and a link\n(https://example.com/a/b) that wraps.\n",
    ),
    (
        "* First item that is long enough to wrap at forty columns\n  - nested item with more words than fit on one line\n    1. deep\n    10. deeper\n* Second\n\n  A paragraph within the second item, long enough to wrap.\nout\n",
        40,
        "• First item that is long enough to wrap\n  at forty columns\n  • nested item with more words than fit\n    on one line\n    1. deep\n    10. deeper\n• Second\n\n  A paragraph within the second item,\n  long enough to wrap.\nout\n",
    ),
    (
        "1. one\n  - two columns\n    - four\n  - two\n2. end\n",
        80,
        "1. one\n   • two columns\n     • four\n   • two\n2. end\n",
    ),
    ("- [ ] open\n- [x] done\n- [link](u)\n1. [X] both", 40, "☐ open\n☑ done\n• link (u)\n1. ☑ both\n"),
    (
        "> quote that is long enough to be wrapped around\n> > nested\n>\n> - item\nafter\n",
        40,
        "│ quote that is long enough to be\n│ wrapped around\n│ │ nested\n│\n│ • item\nafter\n",
    ),
    (
        "```rust\nlet x = \"*a*\";\n\n\tindented  \n``\n```\n*x*\n",
        10,
        "```rust\nlet x = \"*a*\";\n\n\tindented  \n``\n```\nx\n",
    ),
    ("1. a:\n   ```\n   x\n     y\n   ```\n2. b\n", 40, "1. a:\n```\nx\n  y\n```\n2. b\n"),
    ("> ~~~\n> a\n> ~~~~\n> ```\n> b\nc *d*", 40, "~~~\na\n~~~~\n```\nb\nc d\n"),
    ("````markdown\n# T\n```sh\nx\n```\n````\n*y*", 40, "````markdown\n# T\n```sh\nx\n```\n````\ny\n"),
    ("~~~~\n~~~\n~~~~\n*y*", 40, "~~~~\n~~~\n~~~~\ny\n"),
    ("```x``` y", 40, "```x``` y\n"),
    ("text\n\n    code  *a*\n\n    more\ntext\n    text", 40, "text\n\ncode  *a*\n\nmore\ntext\ntext\n"),
    ("a\n---\nb\n* * *\n", 8, "a\n────────\nb\n────────\n"),
    (
        "| Name | Count | Note |\n|:-----|------:|:----:|\n| a | 1 | short |\n| `b|c` | 22 | a longer **note** that must be wrapped |\n| 日本 | 333 |\nafter",
        40,
        "Name  │ Count │           Note\n──────┼───────┼─────────────────────────\na     │     1 │          short\n`b|c` │    22 │ a longer note that must\n      │       │        be wrapped\n日本  │   333 │\nafter\n",
    ),
    ("| a | b |\n|---|---|\n| 1 | 2 | 3 |", 80, "a │ b │\n──┼───┼──\n1 │ 2 │ 3\n"),
    ("- t\n  | a |\n  |---|\n  | b \\| c |\n", 40, "• t\n  a\n  ─────\n  b | c\n"),
    ("| not a table\n| at *all*\n", 40, "| not a table\n| at all\n"),
    ("|a|b|c|d|\n|-|-|-|-|\n|long|long|long|long|\n", 12, "a: long\nb: long\nc: long\nd: long\n"),
    (
        "| Tool | What it does |\n|---|---|\n| ripgrep | searches expressions |\n| grep | is everywhere |\n",
        20,
        "Tool: ripgrep\nWhat it does:\n  searches\n  expressions\n────────────────────\nTool: grep\nWhat it does: is\n  everywhere\n",
    ),
    ("CMD: rm *.txt && echo '**x**' # `y`   \n*z*", 10, "CMD: rm *.txt && echo '**x**' # `y`   \nz\n"),
    (
        "CMD: cat <<'EOF' > f\n# not *a* heading\n* x\nEOF\n# Real",
        40,
        "CMD: cat <<'EOF' > f\n# not *a* heading\n* x\nEOF\n# Real\n",
    ),
    (
        "CMD: cat <<-A <<B\n*a*\n\tA\n*b*\nB\nCMD: x <<< *y*\n*c*",
        40,
        "CMD: cat <<-A <<B\n*a*\n\tA\n*b*\nB\nCMD: x <<< *y*\nc\n",
    ),
    ("CMD:x\nCMD", 40, "CMD:x\nCMD\n"),
    // Neither a quoted `<<` nor a shift begins a here-document.
    ("CMD: echo \"a << b\"\n\n**b**", 40, "CMD: echo \"a << b\"\n\nb\n"),
    ("CMD: echo $((x<<n)) '<<E'\n- a", 40, "CMD: echo $((x<<n)) '<<E'\n• a\n"),
    (
        "日本語の文章は空白なしで書かれるので、どこでも折り返すことができます。「例」です。",
        40,
        "日本語の文章は空白なしで書かれるので、ど\nこでも折り返すことができます。「例」で\nす。\n",
    ),
    (
        "https://example.com/a/very/long/url/that/does/not/fit",
        40,
        "https://example.com/a/very/long/url/that\n/does/not/fit\n",
    ),
    ("👍🏽👍🏽👍🏽👍🏽👍🏽 ok", 8, "👍🏽👍🏽👍🏽👍🏽\n👍🏽 ok\n"),
    (
        "$$\na_1 * b_2 * c\n$$\n\\[ x *y* \\]\n\\[\n*z*\n\\]\n*e*",
        40,
        "$$\na_1 * b_2 * c\n$$\n\\[ x *y* \\]\n\\[\n*z*\n\\]\ne\n",
    ),
    ("<div>html</div>\n&amp; \\# \n=====", 40, "<div>html</div>\n&amp; #\n=====\n"),
    ("unfinished **bold and `code", 40, "unfinished **bold and `code\n"),
    ("unfinished [link](http", 40, "unfinished [link](http\n"),
    ("```\nunfinished\n``", 40, "```\nunfinished\n``\n"),
    ("| unfinished | table", 40, "| unfinished | table\n"),
    ("#", 40, "#\n"),
    ("", 40, ""),
    ("\n\n", 40, ""),
];

#[test]
fn each_construct_has_its_picture() {
    let mut wrong = Vec::new();
    for (source, width, picture) in PICTURES {
        let shown = draw(source, *width, false);
        if shown != *picture {
            wrong.push(format!("{source:?} at {width}:\n{shown:?} instead of\n{picture:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn colours_are_ours_and_end() {
    let table = [
        ("# T", "\x1b[1;4mT\x1b[0m\n"),
        ("a **b c**", "a \x1b[1mb c\x1b[0m\n"),
        ("`x` [t](u)", "\x1b[36mx\x1b[0m \x1b[4mt\x1b[0m\x1b[2m (u)\x1b[0m\n"),
        ("```sh\nls\n```\nx", "\x1b[2msh\x1b[0m\n\x1b[34mls\x1b[0m\nx\n"),
        ("CMD: *a*", "\x1b[1;33mCMD: *a*\x1b[0m\n"),
        ("> q", "\x1b[2m│ \x1b[0mq\n"),
        ("\x1b[31mx\x1b]0;t\x07", "x\n"),
    ];
    for (source, shown) in table {
        assert_eq!(draw(source, 40, true), shown);
    }
}

#[test]
fn words_and_code_are_shown_as_they_come() {
    let mut markdown = Markdown::new(Options { width_columns: 40, color: false, markdown: true });
    let pushes = [
        ("Hel", ""),
        ("lo wor", "Hello"),
        ("ld, **bo", " world,"),
        ("ld** x ", " bold x"),
        ("*.", ""),
        ("c\n", " *.c\n"),
        ("- it", "• "),
        ("em one\n", "item one\n"),
        ("``", ""),
        ("`\nlet a", "```\nlet a"),
        (" = 1", " = 1"),
        (";\n``", ";\n"),
        ("`\n\n", "```\n"),
        ("CMD: ls", "\nCMD: ls"),
        (" -l", " -l"),
    ];
    for (piece, shown) in pushes {
        assert_eq!(markdown.push(piece), shown, "{piece:?}");
    }
    assert_eq!(markdown.finish(), "\n");
    assert_eq!(markdown.finish(), "", "nothing is left to end");
}

#[test]
fn without_markdown_the_text_is_only_sanitised() {
    let mut markdown = Markdown::new(Options { width_columns: 8, color: true, markdown: false });
    assert_eq!(markdown.push("**a**\x1b[3"), "**a**");
    assert_eq!(markdown.push("1m long long line\r\n# b"), " long long line\n# b");
    assert_eq!(markdown.finish(), "\n");
    assert_eq!(markdown.finish(), "");
}

#[test]
fn hostile_answers_cost_linear_time() {
    // Each of these would take minutes if a push read its line or answer again.
    let patterns = [
        "word ",
        "*a ",
        "**",
        "[",
        "[a](",
        "`",
        "a`b``c ",
        "_a",
        "| a ",
        "|a|\n",
        "> ",
        "- ",
        "e\u{301}\u{301}",
        "\u{301}",
        "x",
        "日",
        "\\",
        "$",
        "-",
        "\n",
        " ",
        "\x1b]",
        "- - -\n",
        "~~a ",
        "![",
    ];
    for pattern in patterns {
        let mut markdown = Markdown::new(Options { width_columns: 80, color: true, markdown: true });
        let mut bytes = 0;
        for _ in 0..2_000 {
            bytes += markdown.push(pattern).len();
        }
        bytes += markdown.finish().len();
        assert!(bytes <= 2_000 * (pattern.len() * 20 + 240), "{pattern:?} became {bytes} bytes");
    }
}

#[test]
fn a_block_of_code_has_the_colours_of_its_language() {
    let options = Options { width_columns: 40, color: true, markdown: true };
    let answer = "```sh\nif x # y\n```\nafter\n";
    let mut drawing = Markdown::new(options);
    let shown = drawing.push(answer) + &drawing.finish();
    assert!(shown.contains("\u{1b}[35mif") && shown.contains("\u{1b}[2m# y"), "{shown:?}");
    let mut drawing = Markdown::new(Options { color: false, ..options });
    assert_eq!(drawing.push(answer) + &drawing.finish(), answer);
}
