//! Text of which parts may be unknown: the value of a word of a script.

use smallvec::{SmallVec, smallvec};

/// Sources of a text that isn't known, the least doubtful first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Source {
    /// A number, or part of a name: not empty, without blanks and slashes, neither `.` nor `..`.
    Name,
    File,
    Program,
    /// The numbers of all processes.
    Processes,
    /// A variable that the script never sets: perhaps empty.
    Unset,
    Any,
    Decoded,
    Net,
}

impl Source {
    /// Each source with the variable that represents it in a text that becomes code.
    const VARIABLES: [(Self, &'static str); 8] = [
        (Self::Processes, "__all_processes"),
        (Self::Name, "__a_name"),
        (Self::File, "__a_file"),
        (Self::Program, "__an_output"),
        (Self::Unset, "__an_unset"),
        (Self::Any, "__anything"),
        (Self::Decoded, "__a_decoded"),
        (Self::Net, "__a_download"),
    ];

    /// Returns the source that a variable of [`Text::code`] represents.
    pub(super) fn of_variable(name: &str) -> Option<Self> {
        Self::VARIABLES.iter().find(|(_, own)| *own == name).map(|(source, _)| *source)
    }

    fn variable(self) -> String {
        let name = Self::VARIABLES.iter().find(|(own, _)| *own == self).map_or("__anything", |(_, name)| name);
        format!("${{{name}}}")
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// Characters, as they are.
    Known(String),
    /// A living `*`.
    Star,
    /// An active `?`, or a bracket that may match any character.
    One,
    Unknown(Source),
}

/// A text. Known pieces are never adjacent, and none is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Text {
    /// Nearly always one.
    pieces: SmallVec<[Piece; 1]>,
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self::from(text.to_owned())
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self { pieces: if text.is_empty() { SmallVec::new() } else { smallvec![Piece::Known(text)] } }
    }
}

impl From<Source> for Text {
    fn from(source: Source) -> Self {
        Self { pieces: smallvec![Piece::Unknown(source)] }
    }
}

impl FromIterator<Piece> for Text {
    fn from_iter<I: IntoIterator<Item = Piece>>(pieces: I) -> Self {
        let mut made = Self::default();
        pieces.into_iter().for_each(|piece| made.push(piece));
        made
    }
}

impl Text {
    /// The characters, if all of them are known.
    pub(super) fn as_str(&self) -> Option<&str> {
        match self.pieces.as_slice() {
            [] => Some(""),
            [Piece::Known(text)] => Some(text),
            _ => None,
        }
    }

    /// Returns the characters, without the unknown parts.
    pub(super) fn lossy(&self) -> &str {
        self.as_str().unwrap_or_default()
    }

    /// The known characters at the beginning.
    pub(super) fn head(&self) -> &str {
        match self.pieces.first() {
            Some(Piece::Known(text)) => text,
            _ => "",
        }
    }

    pub(super) fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    pub(super) fn push(&mut self, piece: Piece) {
        match (piece, self.pieces.last_mut()) {
            (Piece::Known(text), _) if text.is_empty() => {}
            (Piece::Known(text), Some(Piece::Known(last))) => last.push_str(&text),
            (piece, _) => self.pieces.push(piece),
        }
    }

    pub(super) fn push_str(&mut self, text: &str) {
        match self.pieces.last_mut() {
            Some(Piece::Known(last)) => last.push_str(text),
            _ if text.is_empty() => {}
            _ => self.pieces.push(Piece::Known(text.to_owned())),
        }
    }

    pub(super) fn append(&mut self, other: &Self) {
        other.pieces.iter().for_each(|piece| self.push(piece.clone()));
    }

    /// One text after another.
    pub(super) fn then(mut self, other: &Self) -> Self {
        self.append(other);
        self
    }

    /// Texts with another between each two.
    pub(super) fn join(texts: &[Self], between: &str) -> Self {
        let mut made = Self::default();
        for (at, text) in texts.iter().enumerate() {
            if at > 0 {
                made.push_str(between);
            }
            made.append(text);
        }
        made
    }

    /// Returns the most doubtful source of the unknown parts.
    pub(super) fn source(&self) -> Option<Source> {
        self.pieces
            .iter()
            .filter_map(|piece| if let Piece::Unknown(source) = piece { Some(*source) } else { None })
            .max()
    }

    /// Returns whether a part came over the network or out of a decoder.
    pub(super) fn is_foreign(&self) -> bool {
        self.source() >= Some(Source::Decoded)
    }

    /// Returns whether part of it may be anything, slashes too.
    pub(super) fn is_open(&self) -> bool {
        self.source() > Some(Source::Name)
    }

    pub(super) fn has_pattern(&self) -> bool {
        self.pieces.iter().any(|piece| matches!(piece, Piece::Star | Piece::One))
    }

    /// Returns whether nothing of it is known.
    pub(super) fn is_all_unknown(&self) -> bool {
        !self.is_empty()
            && self.pieces.iter().all(|piece| match piece {
                Piece::Unknown(_) => true,
                Piece::Known(text) => text.trim().is_empty(),
                _ => false,
            })
    }

    /// The text with each unset variable empty.
    pub(super) fn without_unset(&self) -> Self {
        self.pieces.iter().filter(|piece| **piece != Piece::Unknown(Source::Unset)).cloned().collect()
    }

    pub(super) fn has_unset(&self) -> bool {
        self.pieces.contains(&Piece::Unknown(Source::Unset))
    }

    /// The text with its patterns as plain characters.
    pub(super) fn dead(&self) -> Self {
        let plain = |piece: &Piece| match piece {
            Piece::Star => Piece::Known("*".to_owned()),
            Piece::One => Piece::Known("?".to_owned()),
            piece => piece.clone(),
        };
        self.pieces.iter().map(plain).collect()
    }

    /// The text with its pattern characters alive, as a word outside quotes has them.
    pub(super) fn alive(&self) -> Self {
        self.changed(|known| {
            let mut made = Self::default();
            made.push_living(known);
            made
        })
    }

    /// The text with another in place of each known part.
    pub(super) fn changed(&self, change: impl Fn(&str) -> Self) -> Self {
        let mut made = Self::default();
        for piece in &self.pieces {
            match piece {
                Piece::Known(text) => made.append(&change(text)),
                piece => made.push(piece.clone()),
            }
        }
        made
    }

    /// Adds characters outside quotes: patterns in them are alive.
    pub(super) fn push_living(&mut self, text: &str) {
        let mut rest = text;
        let mut may_close = !text.contains("://");
        let closing = |rest: &str| rest.char_indices().skip(1).find(|(_, c)| *c == ']').map(|(at, _)| at);
        while let Some(at) = rest.find(['*', '?', '[']) {
            self.push_str(&rest[..at]);
            let sign = rest.as_bytes()[at];
            rest = &rest[at + 1..];
            match sign {
                b'*' => self.push(Piece::Star),
                b'?' => self.push(Piece::One),
                _ => match may_close.then(|| closing(rest)).flatten() {
                    Some(end) if !rest[..end].contains('/') => {
                        self.push(Piece::One);
                        rest = &rest[end + 1..];
                    }
                    // A bracket that is never closed isn't a pattern: `[` is a command.
                    found => {
                        may_close &= found.is_some();
                        self.push_str("[");
                    }
                },
            }
        }
        self.push_str(rest);
    }

    /// Cuts it at each of these characters.
    pub(super) fn split(&self, is_cut: impl Fn(char) -> bool) -> Vec<Self> {
        let mut made = vec![Self::default()];
        for piece in &self.pieces {
            let Piece::Known(text) = piece else {
                made.last_mut().into_iter().for_each(|last| last.push(piece.clone()));
                continue;
            };
            for (at, part) in text.split(&is_cut).enumerate() {
                if at > 0 {
                    made.push(Self::default());
                }
                made.last_mut().into_iter().for_each(|last| last.push_str(part));
            }
        }
        made
    }

    /// The text without these characters at its beginning.
    pub(super) fn strip_prefix(&self, prefix: &str) -> Option<Self> {
        let rest = self.head().strip_prefix(prefix)?;
        Some([Piece::Known(rest.to_owned())].into_iter().chain(self.pieces.iter().skip(1).cloned()).collect())
    }

    /// Returns the text before and after the first of these characters.
    pub(super) fn split_once(&self, at: char) -> Option<(Self, Self)> {
        let position = self.pieces.iter().position(|piece| matches!(piece, Piece::Known(text) if text.contains(at)))?;
        let Piece::Known(text) = &self.pieces[position] else { return None };
        let (before, after) = text.split_once(at)?;
        let mut first = Self { pieces: self.pieces[..position].into() };
        first.push_str(before);
        let after = Piece::Known(after.to_owned());
        Some((first, [after].into_iter().chain(self.pieces[position + 1..].iter().cloned()).collect()))
    }

    /// Returns whether it is an option of one dash with this letter.
    pub(super) fn has_letter(&self, letter: char) -> bool {
        self.head().starts_with('-') && !self.head().starts_with("--") && self.head().contains(letter)
    }

    /// The text without line ends at its end.
    pub(super) fn trim_end_lines(mut self) -> Self {
        if let Some(Piece::Known(last)) = self.pieces.last_mut() {
            last.truncate(last.trim_end_matches('\n').len());
            if last.is_empty() {
                self.pieces.pop();
            }
        }
        self
    }

    /// Writes it, each kind of part in its own way.
    fn rendered(&self, known: impl Fn(&str) -> String, unknown: impl Fn(Source) -> String) -> String {
        let part = |piece: &Piece| match piece {
            Piece::Known(text) => known(text),
            Piece::Star => "*".to_owned(),
            Piece::One => "?".to_owned(),
            Piece::Unknown(source) => unknown(*source),
        };
        self.pieces.iter().map(part).collect()
    }

    /// Writes it for a person: a part that isn't known is `?`.
    pub(super) fn shown(&self) -> String {
        self.rendered(str::to_owned, |_| "?".to_owned())
    }

    /// Returns the text as code of a shell: a variable represents each unknown part.
    pub(super) fn code(&self) -> String {
        self.rendered(str::to_owned, Source::variable)
    }

    /// Writes it as one word of a shell's code.
    pub(super) fn quoted(&self) -> String {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:=,@%+".contains(&byte);
        let quote = |text: &str| match text.bytes().all(is_plain) {
            true => text.to_owned(),
            false => format!("'{}'", text.replace('\'', "'\\''")),
        };
        let made = self.rendered(quote, Source::variable);
        if made.is_empty() { "''".to_owned() } else { made }
    }

    /// Returns whether a pattern may match a name. With `holes`, an unknown part matches anything, otherwise nothing.
    pub(super) fn may_match(&self, name: &str, holes: bool) -> bool {
        if let Some(text) = self.as_str() {
            return text == name;
        }
        // No pattern matches a name that begins with a dot, unless it has one there.
        if name.starts_with('.') && matches!(self.pieces.first(), Some(Piece::Star | Piece::One)) {
            return false;
        }
        // A character, or any one; with `true` any number of them.
        let mut pattern: Vec<(Option<char>, bool)> = Vec::new();
        for piece in &self.pieces {
            match piece {
                Piece::Known(text) => pattern.extend(text.chars().map(|c| (Some(c), false))),
                Piece::One => pattern.push((None, false)),
                Piece::Unknown(_) if !holes => return false,
                Piece::Star | Piece::Unknown(_) => pattern.push((None, true)),
            }
        }
        let name: Vec<char> = name.chars().collect();
        // The usual algorithm with one position for backtracking: at most the product of both lengths.
        let (mut at, mut of, mut back) = (0, 0, None);
        while of < name.len() {
            if at < pattern.len() && pattern[at].1 {
                back = Some((at, of));
                at += 1;
            } else if at < pattern.len() && pattern[at].0.is_none_or(|c| c == name[of]) {
                at += 1;
                of += 1;
            } else if let Some((star, from)) = back {
                (at, of, back) = (star + 1, from + 1, Some((star, from + 1)));
            } else {
                return false;
            }
        }
        pattern[at..].iter().all(|(_, is_star)| *is_star)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn living(text: &str) -> Text {
        Text::from(text).alive()
    }

    #[test]
    fn patterns_match_what_they_may() {
        for (pattern, name, matches) in [
            ("e*", "etc", true),
            ("e*", "usr", false),
            ("???", "etc", true),
            ("??", "etc", false),
            ("[a-z]tc", "etc", true),
            ("*", "etc", true),
            ("*", ".ssh", false),
            (".*", ".ssh", true),
            ("e*c", "etcetera", false),
            ("", "", true),
        ] {
            assert_eq!(living(pattern).may_match(name, false), matches, "{pattern} {name}");
        }
        let open = Text::from("e").then(&Source::Any.into());
        assert!(open.may_match("etc", true) && !open.may_match("etc", false));
    }

    #[test]
    fn texts_are_cut_and_put_together() {
        let text = Text::from("a=b").then(&Source::Net.into()).then(&"c/d".into());
        let (name, value) = text.split_once('=').expect("a sign");
        assert_eq!((name.as_str(), value.shown().as_str()), (Some("a"), "b?c/d"));
        assert_eq!(value.split(|c| c == '/').len(), 2);
        assert_eq!(text.strip_prefix("a").map(|rest| rest.shown()).as_deref(), Some("=b?c/d"));
        assert!(text.is_foreign() && !text.is_all_unknown());
        assert_eq!(living("[").as_str(), Some("["));
        assert_eq!(text.code(), "a=b${__a_download}c/d");
        assert_eq!(Source::of_variable("__a_download"), Some(Source::Net));
    }
}
