//! Counts tokens as OpenAI's models do, offline, and identifies these models. Pure: two vocabularies are built in; each is
//! indexed when it is first needed.
//!
//! ```
//! use reedclaw::tokens::Encoding;
//!
//! let encoding = Encoding::of_model("gpt-4o-mini").expect("an OpenAI model");
//! assert_eq!(encoding.count("hello world"), 2);
//! assert_eq!(Encoding::of_model("qwen2.5"), None);
//! ```

mod split;
#[cfg(test)]
mod tests;
mod vocabulary;

use std::sync::OnceLock;

use vocabulary::Vocabulary;

/// A way to cut text into tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// `cl100k_base`: GPT-4 and GPT-3.5.
    Cl100k,
    /// `o200k_base`: GPT-4o and later models.
    O200k,
}

/// Beginnings of model names, with their vocabularies; the first match counts. For the last rows OpenAI hasn't
/// confirmed the vocabulary.
const FAMILIES: &[(&str, Encoding, bool)] = &[
    ("gpt-4o", Encoding::O200k, true),
    ("chatgpt-4o", Encoding::O200k, true),
    ("gpt-4.1", Encoding::O200k, true),
    ("gpt-4.5", Encoding::O200k, true),
    ("gpt-4", Encoding::Cl100k, true),
    ("gpt-3.5", Encoding::Cl100k, true),
    ("gpt-oss", Encoding::O200k, true),
    ("gpt-5", Encoding::O200k, true),
    ("o1", Encoding::O200k, true),
    ("o3", Encoding::O200k, true),
    ("o4", Encoding::O200k, true),
    ("gpt-", Encoding::O200k, false),
];

impl Encoding {
    /// The encoding of a model, by its name for the server; `None` if it isn't OpenAI's.
    #[must_use]
    pub fn of_model(model: &str) -> Option<Self> {
        family(model).map(|(encoding, _)| encoding)
    }

    /// Returns whether the model is known to count like that, rather than assumed to.
    #[must_use]
    pub fn is_sure(model: &str) -> bool {
        family(model).is_some_and(|(_, is_sure)| is_sure)
    }

    /// Its name, as OpenAI has it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Cl100k => "cl100k_base",
            Self::O200k => "o200k_base",
        }
    }

    /// Counts the tokens of a text; the text of a special token counts as plain text.
    #[must_use]
    pub fn count(self, text: &str) -> u64 {
        static CL100K: OnceLock<Vocabulary> = OnceLock::new();
        static O200K: OnceLock<Vocabulary> = OnceLock::new();
        let vocabulary = match self {
            Self::Cl100k => CL100K.get_or_init(|| Vocabulary::of(include_bytes!("../../config/tokens/cl100k.bin"))),
            Self::O200k => O200K.get_or_init(|| Vocabulary::of(include_bytes!("../../config/tokens/o200k.bin"))),
        };
        split::pieces(self, text).map(|piece| vocabulary.count(piece.as_bytes())).sum()
    }
}

fn family(model: &str) -> Option<(Encoding, bool)> {
    let model = model.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
    let found = FAMILIES.iter().find(|(start, ..)| {
        // "o1" is a family, "o12-something" would be none.
        model
            .strip_prefix(start)
            .is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()) || start.ends_with('-'))
    });
    found.map(|(_, encoding, is_sure)| (*encoding, *is_sure))
}
