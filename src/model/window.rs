//! How much well-known models read at once, by the beginning of their names. Where a model isn't known, nobody guesses.

/// The beginnings of names, and the tokens of request and answer together. Sources: the providers' lists of models, as of
/// November 2026; a gateway's own prefix (`vendor/`) is passed over.
const KNOWN: [(&str, u64); 14] = [
    ("claude-", 200_000),
    ("gemini-1.5-pro", 2_097_152),
    ("gemini-", 1_048_576),
    ("gpt-3.5-turbo", 16_385),
    ("gpt-4-turbo", 128_000),
    ("gpt-4.1", 1_047_576),
    ("gpt-4o", 128_000),
    ("gpt-4", 8_192),
    ("gpt-5", 400_000),
    ("o1", 200_000),
    ("o3", 200_000),
    ("o4-mini", 200_000),
    ("deepseek-chat", 64_000),
    ("deepseek-reasoner", 64_000),
];

/// The window of a model, where it is known: the first beginning that fits.
pub(super) fn context_tokens(model: &str) -> Option<u64> {
    let name = model.rsplit('/').next().unwrap_or(model).to_ascii_lowercase();
    KNOWN.iter().find(|(begin, _)| name.starts_with(begin)).map(|(_, tokens)| *tokens)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_says_how_much_is_read() {
        for (model, tokens) in [
            ("gpt-4.1-mini", Some(1_047_576)),
            ("gpt-4o", Some(128_000)),
            ("gpt-4", Some(8_192)),
            ("anthropic/Claude-sonnet-4", Some(200_000)),
            ("models/gemini-2.5-flash", Some(1_048_576)),
            ("default", None),
            ("", None),
        ] {
            assert_eq!(context_tokens(model), tokens, "{model}");
        }
    }
}
