//! The edits that reedline lacks, by name, and what they do to a line. Pure.

use std::ops::Range;

use crate::route::lex::{Reading, TokenKind, tokens};

/// An edit of the line that a key stands for. reedline carries it out as a menu of that name (`widget`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::repl) enum Edit {
    KillBlankWordBack,
    KillWordBack,
    KillWordAhead,
    KillToStart,
    KillToEnd,
    Yank,
    YankPop,
    LastArgument,
    TransposeWords,
    Comment,
    MatchBracket,
    DeleteToBracket,
    NoteLine,
    EndOfRecalled,
    InsertCompletions,
    RestoreSearched,
    ClearLine,
    LeaveInsert,
    WordBack,
    WordAhead,
}

impl Edit {
    pub(super) const ALL: [Self; 20] = [
        Self::KillBlankWordBack,
        Self::KillWordBack,
        Self::KillWordAhead,
        Self::KillToStart,
        Self::KillToEnd,
        Self::Yank,
        Self::YankPop,
        Self::LastArgument,
        Self::TransposeWords,
        Self::Comment,
        Self::MatchBracket,
        Self::DeleteToBracket,
        Self::NoteLine,
        Self::EndOfRecalled,
        Self::InsertCompletions,
        Self::RestoreSearched,
        Self::ClearLine,
        Self::LeaveInsert,
        Self::WordBack,
        Self::WordAhead,
    ];

    /// The name of the menu that carries out the edit; `again` if it continues the edit of the key before.
    pub(in crate::repl) fn menu_name(self, again: bool) -> String {
        format!("edit {self:?}{}", if again { " again" } else { "" })
    }

    pub(super) fn of_menu(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|edit| edit.menu_name(false) == name)
    }

    /// Returns whether a number before its key repeats the edit: before Alt-. the number chooses a word, as in readline.
    pub(super) fn repeats(name: &str) -> bool {
        let mut all = Self::ALL.into_iter().filter(|edit| *edit != Self::LastArgument);
        all.any(|edit| [false, true].into_iter().any(|again| edit.menu_name(again) == name))
    }

    pub(super) fn kills(self) -> bool {
        matches!(
            self,
            Self::KillBlankWordBack
                | Self::KillWordBack
                | Self::KillWordAhead
                | Self::KillToStart
                | Self::KillToEnd
                | Self::DeleteToBracket
        )
    }

    /// Returns whether the edit continues the one before.
    pub(super) fn continues(self, before: Self) -> bool {
        match self {
            Self::LastArgument => before == self,
            Self::YankPop => matches!(before, Self::Yank | Self::YankPop),
            _ => self.kills() && before.kills(),
        }
    }

    /// Returns the bytes of the line that the edit moves into the kill ring.
    pub(super) fn killed(self, line: &str, cursor: usize) -> Option<Range<usize>> {
        let range = match self {
            Self::KillBlankWordBack => blank_word_start(line, cursor)..cursor,
            Self::KillWordBack => word_start(line, cursor)..cursor,
            Self::KillWordAhead => cursor..word_end(line, cursor),
            Self::KillToStart => 0..cursor,
            Self::KillToEnd => {
                let end = line[cursor..].find('\n').map_or(line.len(), |at| cursor + at);
                // At the end of a row of several it joins the next one.
                cursor..if end == cursor { (end + 1).min(line.len()) } else { end }
            }
            Self::DeleteToBracket => {
                let at = matching_bracket(line, cursor)?;
                let after = |at: usize| at + line[at..].chars().next().map_or(0, char::len_utf8);
                if at < cursor { at..after(cursor) } else { cursor..after(at) }
            }
            _ => return None,
        };
        (!range.is_empty()).then_some(range)
    }
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric()
}

/// Place where the word of letters and digits before the cursor starts.
fn word_start(line: &str, cursor: usize) -> usize {
    let word = line[..cursor].trim_end_matches(|c| !is_word(c));
    word.trim_end_matches(is_word).len()
}

/// Place where the word of letters and digits at or after the cursor ends.
fn word_end(line: &str, cursor: usize) -> usize {
    let rest = line[cursor..].trim_start_matches(|c| !is_word(c));
    line.len() - rest.trim_start_matches(is_word).len()
}

/// Place beside the word of letters and digits after the cursor, or before it.
pub(super) fn beside_word(line: &str, cursor: usize, is_ahead: bool) -> usize {
    if is_ahead { word_end(line, cursor) } else { word_start(line, cursor) }
}

/// Place where the word before the cursor starts, words being separated by blanks.
fn blank_word_start(line: &str, cursor: usize) -> usize {
    line[..cursor].trim_end().trim_end_matches(|c: char| !c.is_whitespace()).len()
}

/// Swaps the word at the cursor, or before it at the line's end, with the one before. Returns the line and the cursor.
pub(super) fn transpose_words(line: &str, cursor: usize) -> Option<(String, usize)> {
    let second_end = word_end(line, cursor);
    let second_start = word_start(line, second_end);
    let first_start = word_start(line, second_start);
    let first_end = word_end(line, first_start);
    if first_start == second_start || first_end > second_start {
        return None;
    }
    let swapped = [
        &line[..first_start],
        &line[second_start..second_end],
        &line[first_end..second_start],
        &line[first_start..first_end],
        &line[second_end..],
    ];
    Some((swapped.concat(), second_end))
}

/// The last word of a command line, as the shell reads it.
pub(super) fn last_argument(line: &str) -> Option<&str> {
    let words = tokens(line, Reading::Shell);
    words.iter().rev().find(|token| matches!(token.kind, TokenKind::Word(_))).map(|token| token.text)
}

/// Makes the line a comment, or removes the comment's mark.
pub(super) fn commented(line: &str) -> String {
    let rows: Vec<&str> = line.split('\n').collect();
    if rows.iter().all(|row| row.starts_with('#')) {
        return rows.iter().map(|row| &row[1..]).collect::<Vec<_>>().join("\n");
    }
    rows.iter().map(|row| format!("#{row}")).collect::<Vec<_>>().join("\n")
}

/// Place where the partner of the first bracket at or after the cursor is.
pub(super) fn matching_bracket(line: &str, cursor: usize) -> Option<usize> {
    const PAIRS: [(char, char); 3] = [('(', ')'), ('[', ']'), ('{', '}')];
    let (at, bracket) = line[cursor..].char_indices().find(|(_, c)| PAIRS.iter().any(|(a, b)| a == c || b == c))?;
    let at = cursor + at;
    let (open, close) = PAIRS.into_iter().find(|(a, b)| *a == bracket || *b == bracket)?;
    let mut depth = 0_i32;
    let mut step = |(index, character): (usize, char)| {
        depth += i32::from(character == open) - i32::from(character == close);
        (depth == 0).then_some(index)
    };
    if bracket == open {
        line[at..].char_indices().find_map(|(index, c)| step((at + index, c)))
    } else {
        line[..=at].char_indices().rev().find_map(step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kill_takes_what_readline_takes() {
        let line = "cp -r /a/b.c dir";
        for (edit, cursor, killed) in [
            (Edit::KillBlankWordBack, 12, "/a/b.c"),
            (Edit::KillBlankWordBack, 13, "/a/b.c "),
            (Edit::KillWordBack, 12, "c"),
            (Edit::KillWordBack, 11, "b."),
            (Edit::KillWordAhead, 2, " -r"),
            (Edit::KillToStart, 5, "cp -r"),
            (Edit::KillToEnd, 13, "dir"),
        ] {
            let range = edit.killed(line, cursor).unwrap();
            assert_eq!(&line[range], killed, "{edit:?} at {cursor}");
        }
        assert_eq!(Edit::KillToStart.killed(line, 0), None);
        assert_eq!(Edit::KillToEnd.killed("a\nb", 1), Some(1..2));
        assert_eq!(Edit::DeleteToBracket.killed("f(a(b)c) x", 0), Some(0..8));
        assert_eq!(Edit::DeleteToBracket.killed("f(a) x", 3), Some(1..4));
    }

    #[test]
    fn words_change_places_as_in_readline() {
        for (line, cursor, wanted) in [
            ("mv old new", 10, "mv new old"),
            ("mv old new", 7, "mv new old"),
            ("mv old new", 5, "old mv new"),
            ("one", 3, "one"),
            ("é è", 5, "è é"),
        ] {
            let (got, _) = transpose_words(line, cursor).unwrap_or((line.to_owned(), cursor));
            assert_eq!(got, wanted, "{line:?} at {cursor}");
        }
    }

    #[test]
    fn brackets_find_their_partners() {
        for (line, cursor, partner) in
            [("a (b (c) d)", 0, Some(10)), ("a (b (c) d)", 10, Some(2)), ("a (b (c) d)", 5, Some(7)), ("a (b", 0, None)]
        {
            assert_eq!(matching_bracket(line, cursor), partner, "{line:?} at {cursor}");
        }
    }

    #[test]
    fn moves_by_words_stop_where_those_of_readline_do() {
        for (line, cursor, back, ahead) in [
            ("vim src/main.rs", 15, 13, 15),
            ("vim src/main.rs", 0, 0, 3),
            ("curl http://host:80/a_b", 21, 20, 23),
            ("(a)", 0, 0, 2),
            ("échos", 0, 0, 6),
        ] {
            assert_eq!(beside_word(line, cursor, false), back, "{line}");
            assert_eq!(beside_word(line, cursor, true), ahead, "{line}");
        }
    }

    #[test]
    fn the_last_word_and_comments() {
        assert_eq!(last_argument("cp a 'b c'"), Some("'b c'"));
        assert_eq!(last_argument("make && ls /tmp > out"), Some("out"));
        assert_eq!(last_argument("sleep 1 &"), Some("1"));
        assert_eq!(last_argument("  "), None);
        assert_eq!(commented("a\nb"), "#a\n#b");
        assert_eq!(commented("#a"), "a");
    }
}
