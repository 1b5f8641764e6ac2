//! The keys on their way to reedline's own tables: what needs more than one key (Ctrl-V, Ctrl-X, a second Alt-.), and
//! other meanings while the history is searched.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crossterm::event::{Event, KeyEvent};
use parking_lot::Mutex;
use reedline::{
    EditCommand, EditMode, KeyCode, KeyModifiers, PromptEditMode, PromptViMode, ReedlineEvent, ReedlineRawEvent,
};

use super::Links;
use super::edits::Edit;
use super::search::Searching;
use crate::repl::keys::{HISTORY_MENU, TURNS};
use crate::shell::session::Handle;

/// Rule by which Ctrl-W finds the start of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::repl) enum WordKey {
    /// After the blank before it.
    Blank,
    /// After the last character that is no letter or digit.
    Word,
}

/// A key that the next one depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pending {
    Nothing,
    /// Ctrl-V: the next key goes into the line as it is.
    Quoted,
    /// Ctrl-X: the next key has another meaning.
    Prefix,
}

/// Limit on how often a number before a key repeats it.
const COUNT_MAX: usize = 1_000;

/// A key with its modifiers.
pub(in crate::repl) type Chord = (KeyModifiers, KeyCode);

/// reedline's edit mode, with the keys seen first.
pub(in crate::repl) struct ChordMode {
    inner: Box<dyn EditMode>,
    searching: Searching,
    /// The keys after Ctrl-X.
    prefixed: Vec<(Chord, ReedlineEvent)>,
    /// Keys whose meaning the user has set.
    own: Vec<Chord>,
    pending: Pending,
    /// True if the key before was Esc.
    is_escaped: bool,
    /// The edit of the key before.
    last: Option<Edit>,
    /// An operator of vi's that waits for a motion.
    operator: Option<char>,
    /// True if vi's `f`, `t`, `r` or the like waits for a character.
    awaits_character: bool,
    /// The text that vi's insert mode has taken since a command began it.
    typing: Option<Typed>,
    /// The last change with a text, for vi's `.`; `None` if another change followed it.
    change: Option<Typed>,
    /// The number that was typed with Alt, for the next key.
    count: Option<usize>,
    document: Arc<Mutex<Option<String>>>,
    escape: Escape,
    /// The pump, which holds later keys once it knows that the editor hands over control.
    pump: Option<Handle>,
}

/// A change of vi's that inserts text.
#[derive(Clone)]
struct Typed {
    /// The command that began it.
    command: char,
    /// The text; `None` if it was edited in more ways than by typing it.
    text: Option<String>,
}

/// A flag that vi's Esc was read and not carried out yet. reedline reads all keys that have come before it does the first,
/// and edits by the rules of the mode that the last one leads to: text and Esc in one go came out in the wrong order.
#[derive(Clone, Default)]
pub(in crate::repl) struct Escape(Arc<AtomicBool>);

impl Escape {
    fn set(&self, read: bool) {
        self.0.store(read, Ordering::Relaxed);
    }

    fn is_read(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// The keys before it have been carried out.
    pub(super) fn reached(&self) {
        self.set(false);
    }
}

impl ChordMode {
    /// Wraps an edit mode.
    pub(in crate::repl) fn new(
        inner: Box<dyn EditMode>,
        links: &Links,
        prefixed: Vec<(Chord, ReedlineEvent)>,
        own: Vec<Chord>,
    ) -> Self {
        let (searching, escape, pump) = (links.searching.clone(), links.escape.clone(), links.pump.clone());
        Self {
            inner,
            searching,
            prefixed,
            own,
            pending: Pending::Nothing,
            is_escaped: false,
            last: None,
            operator: None,
            awaits_character: false,
            typing: None,
            change: None,
            count: None,
            document: Arc::clone(&links.document),
            escape,
            pump,
        }
    }

    fn inner(&mut self, event: Event) -> ReedlineEvent {
        ReedlineRawEvent::try_from(event).map_or(ReedlineEvent::None, |raw| self.inner.parse_event(raw))
    }

    fn enter_vi_insert(&mut self) {
        self.escape.set(false);
        let insert = PromptEditMode::Vi(PromptViMode::Insert);
        if matches!(self.inner.edit_mode(), PromptEditMode::Vi(_)) {
            self.inner.handle_mode_specific_event(ReedlineEvent::SwitchMode(insert));
        }
    }

    fn key(&mut self, key: KeyEvent) -> ReedlineEvent {
        if let Some(digit) = self.digit(key) {
            self.count = Some((self.count.unwrap_or(0) * 10 + digit).min(COUNT_MAX));
            return ReedlineEvent::None;
        }
        match self.count.take() {
            Some(count) => self.counted(key, count),
            None => self.single(key),
        }
    }

    /// A digit of the number before a key, in readline's emacs mode.
    fn digit(&self, key: KeyEvent) -> Option<usize> {
        let begins = key.modifiers == KeyModifiers::ALT && !self.own.contains(&(key.modifiers, key.code));
        let goes_on = key.modifiers.is_empty() && self.count.is_some();
        let may_be = (begins || goes_on) && self.pending == Pending::Nothing && !self.searching.is_open();
        match key.code {
            KeyCode::Char(c) if may_be && self.inner.edit_mode() == PromptEditMode::Emacs => {
                c.to_digit(10).map(|digit| digit as usize)
            }
            _ => None,
        }
    }

    /// A key that is repeated, if it moves or edits.
    fn counted(&mut self, key: KeyEvent, count: usize) -> ReedlineEvent {
        let mut next = || match self.single(key) {
            // The line may become empty before the last repetition.
            ReedlineEvent::CtrlD => ReedlineEvent::Edit(vec![EditCommand::Delete]),
            event => event,
        };
        match next() {
            event if !repeats(&event) => event,
            _ if count == 0 => ReedlineEvent::None,
            event => ReedlineEvent::Multiple([vec![event], (1..count).map(|_| next()).collect()].concat()),
        }
    }

    fn single(&mut self, key: KeyEvent) -> ReedlineEvent {
        let chord = (key.modifiers, key.code);
        match std::mem::replace(&mut self.pending, Pending::Nothing) {
            Pending::Quoted => {
                return literal(key)
                    .map_or(ReedlineEvent::None, |c| ReedlineEvent::Edit(vec![EditCommand::InsertChar(c)]));
            }
            Pending::Prefix => {
                let found = self.prefixed.iter().find(|(second, _)| *second == chord);
                return found.map_or(ReedlineEvent::None, |(_, event)| event.clone());
            }
            Pending::Nothing => {}
        }
        let was_escaped = std::mem::replace(&mut self.is_escaped, false);
        if self.searching.is_open() {
            return self.in_search(key);
        }
        if let Some(end) = self.end_of_document(chord) {
            return end;
        }
        if chord == (KeyModifiers::NONE, KeyCode::Esc) {
            if was_escaped {
                return ReedlineEvent::ExecuteHostCommand(TURNS.into());
            }
            self.is_escaped = true;
        }
        if key.modifiers == KeyModifiers::CONTROL && !self.own.contains(&chord) {
            match key.code {
                KeyCode::Char('v') => self.pending = Pending::Quoted,
                KeyCode::Char('x') => self.pending = Pending::Prefix,
                // A new prompt isn't in normal mode.
                KeyCode::Char('c') => self.enter_vi_insert(),
                _ => {}
            }
            if self.pending != Pending::Nothing {
                return ReedlineEvent::None;
            }
        }
        if let (PromptEditMode::Vi(PromptViMode::Normal), KeyCode::Char(c)) = (self.inner.edit_mode(), key.code)
            && !key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT)
            && let Some(event) = self.in_vi_normal(c)
        {
            return event;
        }
        let inserted = self.inner.edit_mode() == PromptEditMode::Vi(PromptViMode::Insert);
        let event = self.inner(Event::Key(key));
        self.note_change(key, inserted);
        if inserted && self.inner.edit_mode() == PromptEditMode::Vi(PromptViMode::Normal) {
            self.escape.set(true);
            let reached = ReedlineEvent::Menu(Edit::LeaveInsert.menu_name(false));
            return ReedlineEvent::Multiple(vec![ReedlineEvent::Esc, reached, with_end(event)]);
        }
        let waits = event == ReedlineEvent::None;
        let is_search = matches!(key.code, KeyCode::Char('f' | 'F' | 't' | 'T' | 'r'));
        self.awaits_character = waits && is_search && !self.awaits_character && !inserted;
        self.operator = match key.code {
            KeyCode::Char(c @ ('d' | 'c')) if waits && key.modifiers.is_empty() => Some(c),
            _ => None,
        };
        self.with_edits(event)
    }

    /// Ends a here-document by Ctrl-D at the start of a row, as bash does.
    fn end_of_document(&self, chord: Chord) -> Option<ReedlineEvent> {
        let is_end = chord == (KeyModifiers::CONTROL, KeyCode::Char('d')) && !self.own.contains(&chord);
        let delimiter = is_end.then(|| self.document.lock().take()).flatten()?;
        let insert = ReedlineEvent::Edit(vec![EditCommand::InsertString(delimiter)]);
        Some(ReedlineEvent::Multiple(vec![insert, ReedlineEvent::Enter]))
    }

    /// Adds the commands that reedline's vi mode lacks.
    fn in_vi_normal(&mut self, character: char) -> Option<ReedlineEvent> {
        let edit = |edit: Edit| ReedlineEvent::Menu(edit.menu_name(false));
        if self.awaits_character {
            return None;
        }
        match (character, self.operator.take()) {
            ('.', None) if self.change.is_some() => Some(self.repeated()),
            ('%', None) => Some(edit(Edit::MatchBracket)),
            ('%', Some(operator)) => {
                let mode = if operator == 'c' { PromptViMode::Insert } else { PromptViMode::Normal };
                self.change = None;
                // It also forgets the operator.
                self.inner.handle_mode_specific_event(ReedlineEvent::SwitchMode(PromptEditMode::Vi(mode)));
                Some(edit(Edit::DeleteToBracket))
            }
            ('#', None) => {
                self.enter_vi_insert();
                Some(ReedlineEvent::Multiple(vec![edit(Edit::Comment), ReedlineEvent::Enter]))
            }
            ('/', None) => {
                self.enter_vi_insert();
                self.searching.begin();
                Some(ReedlineEvent::Menu(HISTORY_MENU.into()))
            }
            (_, operator) => {
                self.operator = operator;
                None
            }
        }
    }

    /// Notes the text that vi's insert mode takes, and the commands that change the line without one.
    fn note_change(&mut self, key: KeyEvent, was_inserting: bool) {
        let is_inserting = self.inner.edit_mode() == PromptEditMode::Vi(PromptViMode::Insert);
        let is_plain = !key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT);
        match (was_inserting, is_inserting, key.code) {
            (false, true, KeyCode::Char(c)) => {
                let command = if matches!(c, 'i' | 'a' | 'I' | 'A') && self.operator.is_none() { c } else { 'c' };
                self.typing = Some(Typed { command, text: Some(String::new()) });
            }
            (true, true, code) => {
                if let Some(typed) = &mut self.typing {
                    typed.text = typed.text.take().and_then(|mut text| match code {
                        KeyCode::Char(c) if is_plain => Some(text + c.encode_utf8(&mut [0; 4])),
                        KeyCode::Backspace => text.pop().map(|_| text),
                        _ => None,
                    });
                }
            }
            (true, false, _) => self.change = self.typing.take().or(self.change.take()),
            (false, false, KeyCode::Char('x' | 'X' | 'd' | 'D' | 'p' | 'P' | '~')) => self.change = None,
            (false, false, KeyCode::Char('r')) if !self.awaits_character => self.change = None,
            _ => {}
        }
    }

    /// The last change with a text once more, as vi's `.` does it: reedline repeats the command alone.
    fn repeated(&mut self) -> ReedlineEvent {
        let Some(Typed { command, text: Some(text) }) = self.change.clone() else { return ReedlineEvent::None };
        let mut commands = match command {
            'i' => Vec::new(),
            'a' => vec![EditCommand::MoveRight { select: false }],
            'I' => vec![EditCommand::MoveToLineStart { select: false }],
            'A' => vec![EditCommand::MoveToLineEnd { select: false }],
            _ => commands_of(self.inner(Event::Key(KeyEvent::new(KeyCode::Char('.'), KeyModifiers::NONE)))),
        };
        commands.push(EditCommand::InsertString(text));
        // By the rules of the insert mode, in which the cursor may be at the line's end.
        self.escape.set(true);
        ReedlineEvent::Multiple(vec![
            ReedlineEvent::Esc,
            ReedlineEvent::Edit(commands),
            ReedlineEvent::Menu(Edit::LeaveInsert.menu_name(false)),
            ReedlineEvent::Edit(vec![EditCommand::MoveLeft { select: false }]),
        ])
    }

    /// Chooses one of an edit's two menus, and makes Up leave the cursor at the end of the recalled line.
    fn with_edits(&mut self, event: ReedlineEvent) -> ReedlineEvent {
        let before = self.last.take();
        match event {
            ReedlineEvent::Menu(name) => match Edit::of_menu(&name) {
                Some(edit) => {
                    let again = before.is_some_and(|before| edit.continues(before));
                    self.last = Some(edit);
                    // A menu that is open would keep it from being opened.
                    ReedlineEvent::Multiple(vec![ReedlineEvent::Esc, ReedlineEvent::Menu(edit.menu_name(again))])
                }
                None => ReedlineEvent::Menu(name),
            },
            event => {
                if opens_search(&event) {
                    self.enter_vi_insert();
                    self.searching.begin();
                }
                with_end(event)
            }
        }
    }

    fn in_search(&mut self, key: KeyEvent) -> ReedlineEvent {
        use KeyCode::{
            BackTab, Backspace, Char, Delete, Down, End, Enter, Esc, Home, Left, PageDown, PageUp, Right, Tab, Up,
        };
        let edit = |command: EditCommand| ReedlineEvent::Edit(vec![command]);
        let close =
            |edit: Edit| ReedlineEvent::Multiple(vec![ReedlineEvent::Esc, ReedlineEvent::Menu(edit.menu_name(false))]);
        let control = key.modifiers == KeyModifiers::CONTROL;
        match key.code {
            Esc => self.closed(close(Edit::RestoreSearched)),
            Char('g' | 'd') if control => self.closed(close(Edit::RestoreSearched)),
            Char('c') if control => self.closed(close(Edit::ClearLine)),
            // Without a hit, Enter must not run what is searched for.
            Enter | Tab | Right | End => {
                ReedlineEvent::UntilFound(vec![ReedlineEvent::MenuAccept, ReedlineEvent::Repaint])
            }
            Char('j' | 'e' | 'f') if control => {
                ReedlineEvent::UntilFound(vec![ReedlineEvent::MenuAccept, ReedlineEvent::Repaint])
            }
            Down => ReedlineEvent::MenuNext,
            Char('r' | 'n') if control => ReedlineEvent::MenuNext,
            Up | BackTab => ReedlineEvent::MenuPrevious,
            Char('s' | 'p') if control => ReedlineEvent::MenuPrevious,
            PageDown => ReedlineEvent::MenuPageNext,
            PageUp => ReedlineEvent::MenuPagePrevious,
            Char('s') if key.modifiers == KeyModifiers::ALT => {
                self.searching.next_scope();
                ReedlineEvent::Repaint
            }
            Char('h') if control => edit(EditCommand::Backspace),
            Backspace if key.modifiers.is_empty() => edit(EditCommand::Backspace),
            Backspace => edit(EditCommand::BackspaceWord),
            Char('w') if control => edit(EditCommand::CutBigWordLeft),
            Char('u') if control => edit(EditCommand::Clear),
            Char('a') if control => edit(EditCommand::MoveToStart { select: false }),
            Home => edit(EditCommand::MoveToStart { select: false }),
            Left => edit(EditCommand::MoveLeft { select: false }),
            Delete => edit(EditCommand::Delete),
            Char(_) if control || key.modifiers == KeyModifiers::ALT => ReedlineEvent::None,
            // Characters, and the pump's own keys.
            _ => self.inner(Event::Key(key)),
        }
    }

    /// Ends the search: later keys aren't part of it.
    fn closed(&self, event: ReedlineEvent) -> ReedlineEvent {
        self.searching.end();
        event
    }
}

impl EditMode for ChordMode {
    fn parse_event(&mut self, event: ReedlineRawEvent) -> ReedlineEvent {
        match Event::from(event) {
            // The pump's own key isn't the person's.
            event @ Event::Key(KeyEvent { code: KeyCode::F(34 | 35), .. }) => self.inner(event),
            Event::Key(key) => {
                let event = self.key(key);
                // The editor asks the terminal where the cursor is before it ends: until the answer it seems to wait for keys.
                if let (ReedlineEvent::ExecuteHostCommand(_), Some(pump)) = (&event, &self.pump) {
                    pump.editor_accepted();
                }
                event
            }
            event => {
                if let (Event::Paste(_), Some(typed)) = (&event, &mut self.typing) {
                    typed.text = None;
                }
                self.inner(event)
            }
        }
    }

    fn edit_mode(&self) -> PromptEditMode {
        let mode = self.inner.edit_mode();
        let insert = PromptEditMode::Vi(PromptViMode::Insert);
        if self.escape.is_read() && matches!(mode, PromptEditMode::Vi(_)) { insert } else { mode }
    }
}

/// The edits of an event, in order.
fn commands_of(event: ReedlineEvent) -> Vec<EditCommand> {
    match event {
        ReedlineEvent::Edit(commands) => commands,
        ReedlineEvent::Multiple(events) => events.into_iter().flat_map(commands_of).collect(),
        _ => Vec::new(),
    }
}

/// The character that a key stands for.
fn literal(key: KeyEvent) -> Option<char> {
    match key.code {
        KeyCode::Char(c) if key.modifiers.contains(KeyModifiers::CONTROL) => {
            let byte = u8::try_from(c.to_ascii_uppercase()).ok()?;
            // crossterm names 0x1c to 0x1f by the digits 4 to 7.
            let byte = if byte.is_ascii_digit() { byte.wrapping_sub(b'4') + 0x1c } else { byte & 0x1f };
            Some(char::from(byte))
        }
        KeyCode::Char(c) => Some(c),
        KeyCode::Tab => Some('\t'),
        KeyCode::Enter => Some('\n'),
        KeyCode::Esc => Some('\x1b'),
        KeyCode::Backspace => Some('\x7f'),
        _ => None,
    }
}

fn repeats(event: &ReedlineEvent) -> bool {
    match event {
        ReedlineEvent::Menu(name) => Edit::repeats(name),
        ReedlineEvent::UntilFound(events) | ReedlineEvent::Multiple(events) => events.iter().all(repeats),
        event => matches!(
            event,
            ReedlineEvent::Edit(_)
                | ReedlineEvent::Esc
                | ReedlineEvent::Left
                | ReedlineEvent::Right
                | ReedlineEvent::Up
                | ReedlineEvent::Down
                | ReedlineEvent::PreviousHistory
                | ReedlineEvent::NextHistory
                | ReedlineEvent::MenuLeft
                | ReedlineEvent::MenuRight
                | ReedlineEvent::MenuUp
                | ReedlineEvent::MenuDown
                | ReedlineEvent::HistoryHintComplete
                | ReedlineEvent::HistoryHintWordComplete
        ),
    }
}

fn opens_search(event: &ReedlineEvent) -> bool {
    match event {
        ReedlineEvent::Menu(name) => name == HISTORY_MENU,
        ReedlineEvent::UntilFound(events) | ReedlineEvent::Multiple(events) => events.iter().any(opens_search),
        _ => false,
    }
}

/// Moves the cursor to the end of a recalled line: reedline leaves it in the first row, but a person types on at the end.
fn with_end(event: ReedlineEvent) -> ReedlineEvent {
    let edit = |edit: Edit| ReedlineEvent::Menu(edit.menu_name(false));
    match event {
        ReedlineEvent::Up | ReedlineEvent::PreviousHistory => {
            ReedlineEvent::Multiple(vec![edit(Edit::NoteLine), event, edit(Edit::EndOfRecalled)])
        }
        ReedlineEvent::UntilFound(events) => ReedlineEvent::UntilFound(events.into_iter().map(with_end).collect()),
        ReedlineEvent::Multiple(events) => ReedlineEvent::Multiple(events.into_iter().map(with_end).collect()),
        event => event,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_repeats_the_next_key() {
        let emacs = Box::new(reedline::Emacs::default());
        let mut mode = ChordMode::new(emacs, &Links::default(), Vec::new(), Vec::new());
        let (alt, none) = (KeyModifiers::ALT, KeyModifiers::NONE);
        let mut press = |modifiers, c| mode.key(KeyEvent::new(KeyCode::Char(c), modifiers));
        let insert = |c| ReedlineEvent::Edit(vec![EditCommand::InsertChar(c)]);
        assert_eq!((press(alt, '1'), press(none, '2')), (ReedlineEvent::None, ReedlineEvent::None));
        assert_eq!(press(none, 'x'), ReedlineEvent::Multiple(vec![insert('x'); 12]));
        assert_eq!(press(none, '2'), insert('2'));
        press(alt, '2');
        // It must not end the session where fewer characters are left.
        let delete = ReedlineEvent::Edit(vec![EditCommand::Delete]);
        assert_eq!(press(KeyModifiers::CONTROL, 'd'), ReedlineEvent::Multiple(vec![delete; 2]));
        press(alt, '2');
        assert_eq!(press(KeyModifiers::CONTROL, 'c'), ReedlineEvent::CtrlC);
    }

    #[test]
    fn an_end_of_file_ends_a_here_document() {
        let links = Links::default();
        let mut mode = ChordMode::new(Box::new(reedline::Emacs::default()), &links, Vec::new(), Vec::new());
        let mut press = || mode.key(KeyEvent::new(KeyCode::Char('d'), KeyModifiers::CONTROL));
        *links.document.lock() = crate::bash::open_document("cat <<-'A B' <<C\ntext\n");
        let insert = ReedlineEvent::Edit(vec![EditCommand::InsertString("A B".to_owned())]);
        assert_eq!(press(), ReedlineEvent::Multiple(vec![insert, ReedlineEvent::Enter]));
        assert_eq!(press(), ReedlineEvent::CtrlD);
        for text in ["cat <<A\nA\n", "if true\n"] {
            assert_eq!(crate::bash::open_document(text), None, "{text}");
        }
    }

    #[test]
    fn a_quoted_key_is_its_character() {
        for (code, modifiers, wanted) in [
            (KeyCode::Char('a'), KeyModifiers::CONTROL, Some('\x01')),
            (KeyCode::Char('7'), KeyModifiers::CONTROL, Some('\x1f')),
            (KeyCode::Tab, KeyModifiers::NONE, Some('\t')),
            (KeyCode::Esc, KeyModifiers::NONE, Some('\x1b')),
            (KeyCode::Char('é'), KeyModifiers::NONE, Some('é')),
            (KeyCode::F(1), KeyModifiers::NONE, None),
        ] {
            assert_eq!(literal(KeyEvent::new(code, modifiers)), wanted, "{code:?}");
        }
    }
}
