//! Windows of well-known models, and whether they take pictures, by their names. It makes no guess about an unknown
//! model.

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

/// The window of a model, from the first entry with a matching prefix.
pub(super) fn context_tokens(model: &str) -> Option<u64> {
    let name = model.rsplit('/').next().unwrap_or(model).to_ascii_lowercase();
    KNOWN.iter().find(|(begin, _)| name.starts_with(begin)).map(|(_, tokens)| *tokens)
}

/// Beginnings of names, and whether these models take pictures. The first that fits counts.
const SEEING: [(&str, bool); 13] = [
    ("claude-2", false),
    ("claude-", true),
    ("gemini-", true),
    ("gpt-3.5", false),
    ("gpt-4-turbo", true),
    ("gpt-4.1", true),
    ("gpt-4o", true),
    ("gpt-4", false),
    ("gpt-5", true),
    ("o3-mini", false),
    ("o3", true),
    ("o4-mini", true),
    ("deepseek-", false),
];

/// Parts of the names of models that were made for pictures.
const SEEING_PARTS: [&str; 8] = ["-vl", "vision", "llava", "pixtral", "minicpm-v", "internvl", "molmo", "moondream"];

/// Returns whether a model takes pictures, as far as its name reveals.
pub(super) fn takes_images(model: &str) -> Option<bool> {
    let name = model.rsplit('/').next().unwrap_or(model).to_ascii_lowercase();
    let known = SEEING.iter().find(|(begin, _)| name.starts_with(begin)).map(|(_, takes)| *takes);
    known.or_else(|| SEEING_PARTS.iter().any(|part| name.contains(part)).then_some(true))
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
