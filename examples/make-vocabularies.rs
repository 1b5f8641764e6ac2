//! Makes the files of `config/tokens/`: OpenAI's two vocabularies as bytes, and the kinds of characters that their texts
//! are split by. Run it from the top of the repository: `cargo run --release --example make-vocabularies`.
#![allow(clippy::disallowed_methods, reason = "it writes the files that it is there for")]

use std::fs;

use bpe_openai::byte_pair_encoding::BytePairEncoding;
use regex_syntax::hir::{Class, HirKind};

fn main() -> std::io::Result<()> {
    fs::write("config/tokens/o200k.bin", vocabulary(&bpe_openai::o200k_base().bpe))?;
    fs::write("config/tokens/cl100k.bin", vocabulary(&bpe_openai::cl100k_base().bpe))?;
    fs::write("config/tokens/kinds.bin", kinds())
}

/// Every token in the order of its rank, each after a byte with its length.
fn vocabulary(bpe: &BytePairEncoding) -> Vec<u8> {
    let mut bytes = Vec::new();
    for rank in 0..u32::try_from(bpe.num_tokens()).expect("a vocabulary") {
        let token = bpe.token_bytes(rank);
        bytes.push(u8::try_from(token.len()).expect("a token is short"));
        bytes.extend_from_slice(token);
    }
    bytes
}

/// Where each run of characters of one kind begins: four bytes, little end first, the character's number above three bits
/// of its kind (`tokens::split::Kind`).
fn kinds() -> Vec<u8> {
    let patterns =
        [(r"[\p{Lu}\p{Lt}]", 1), (r"\p{Ll}", 2), (r"[\p{Lm}\p{Lo}]", 3), (r"\p{M}", 4), (r"\p{N}", 5), (r"\s", 6)];
    let mut kind_of = vec![0_u32; 0x11_0000];
    for (pattern, kind) in patterns {
        let hir = regex_syntax::parse(pattern).expect("a pattern");
        let HirKind::Class(Class::Unicode(class)) = hir.kind() else { panic!("{pattern} is a class") };
        for range in class.ranges() {
            kind_of[range.start() as usize..=range.end() as usize].fill(kind);
        }
    }
    let mut bytes = Vec::new();
    let mut last = None;
    for (number, kind) in (0_u32..).zip(kind_of) {
        if last != Some(kind) {
            bytes.extend_from_slice(&(number << 3 | kind).to_le_bytes());
            last = Some(kind);
        }
    }
    bytes
}
