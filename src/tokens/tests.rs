//! The counts against another program's (bpe-openai), for texts of all kinds and for random ones.

use proptest::prelude::*;

use super::*;

fn hold(text: &str) {
    for (ours, theirs) in [(Encoding::O200k, bpe_openai::o200k_base()), (Encoding::Cl100k, bpe_openai::cl100k_base())] {
        let pieces: Vec<&str> = split::pieces(ours, text).collect();
        assert_eq!(pieces, theirs.split(text).collect::<Vec<_>>(), "{} {text:?}", ours.name());
        assert_eq!(ours.count(text), theirs.count(text) as u64, "{} {text:?}", ours.name());
    }
}

#[test]
fn texts_of_all_kinds_have_as_many_tokens_as_elsewhere() {
    for text in [
        "",
        "hello world",
        "I'LL say it's DON'T they'Ve we'ſ 'sup 'lL",
        "fn main() {\n    println!(\"{}\", 1 + 22222);\n}\n\n\n",
        "  two  spaces   and\ttabs\t\t \r\n\r\n x \n",
        "trailing   ",
        "   ",
        "a\u{a0}\u{2003}b",
        "https://example.org/a/b//c?x=1&y=%20",
        "CamelCaseHTTPServer XMLHttpRequest ABCdef ǅabc",
        "Grüße, Ελληνικά, Русский язык, עִבְרִית, العَرَبِيَّة, हिन्दी, ไทย, 日本語の文章、中文字符，한국어",
        "e\u{301}\u{301}e \u{301}x \u{301}\u{301} .\u{301}A",
        "١٢٣٤ Ⅻ ½ 12345678 1a2B3",
        "🐚👩‍👩‍👧 ── ┃ → ≤ \u{0} \u{7f}\u{1b}[0m",
        "<|endoftext|> <|im_start|>",
        "\n\n/x\n// y /\n/",
        "ªº ʰʱ ᴬᴮ ㍿ 𝐀𝐛𝟎 𐐀𐐨",
    ] {
        hold(text);
    }
    hold(&"a".repeat(5_000));
    hold(&"=-".repeat(3_000));
    hold(&"\u{301}日".repeat(2_000));
    hold(include_str!("../../README.md"));
}

#[test]
fn every_character_is_split_as_elsewhere() {
    for number in 0..0x1_1000_u32 {
        let Some(c) = char::from_u32(number) else { continue };
        let text = format!("a{c}B {c}c{c}{c}1");
        let pieces: Vec<&str> = split::pieces(Encoding::O200k, &text).collect();
        assert_eq!(pieces, bpe_openai::o200k_base().split(&text).collect::<Vec<_>>(), "U+{number:04X}");
    }
}

proptest! {
    #[test]
    fn random_texts_have_as_many_tokens_as_elsewhere(
        text in "([a-zA-Z0-9 .'/\\n\\r\\t]|'(s|S|re|LL|ve)|\\PC|\u{301}|ʰ|日|ǅ|ſ){0,60}"
    ) {
        hold(&text);
    }
}

#[test]
fn a_model_is_known_by_its_name() {
    for (model, encoding, is_sure) in [
        ("gpt-4o-mini-2024-07-18", Some(Encoding::O200k), true),
        ("openai/gpt-4.1-nano", Some(Encoding::O200k), true),
        ("gpt-4-turbo", Some(Encoding::Cl100k), true),
        ("GPT-3.5-turbo", Some(Encoding::Cl100k), true),
        ("o3", Some(Encoding::O200k), true),
        ("o4-mini", Some(Encoding::O200k), true),
        ("gpt-6.1-sol", Some(Encoding::O200k), false),
        ("claude-opus-4-5", None, false),
        ("o12-huge", None, false),
        ("default", None, false),
        ("", None, false),
    ] {
        assert_eq!((Encoding::of_model(model), Encoding::is_sure(model)), (encoding, is_sure), "{model}");
    }
}
