//! The keys, as one table: their events in the editor, and their help in `docs/keys.md`.

use reedline::{
    EditCommand, EditMode, Emacs, KeyCode, KeyModifiers, Keybindings, ReedlineEvent, Vi, default_emacs_keybindings,
    default_vi_insert_keybindings, default_vi_normal_keybindings, default_vi_visual_keybindings,
};

use super::hooks::KEY_COMMAND;
use super::line::{ChordMode, Edit, Links, WordKey, bytes, chords, function};
use crate::config::{self, KeyDoes, KeyName};
use crate::proto::ShellKeys;

/// The request that the loop gets when the editor hands over control.
pub const WAKE: &str = "wake";
/// Flips where the line goes.
pub const FLIP: &str = "flip";

/// Lists the turns of the conversation.
pub const TURNS: &str = "turns";

/// Opens the line in the user's editor.
pub const OPEN: &str = "open";
/// Prefix of the request that the loop gets at a key of the shell's own line editor; the key follows as readline writes
/// it.
pub(super) const SHELL_KEY: &str = "shell key ";
/// Changes of one line that Alt-R undoes.
const REVERTED_MAX: usize = 500;

/// One key of ours.
pub struct Key {
    /// The key as the documents write it.
    pub name: &'static str,
    /// A sentence about the key.
    pub help: &'static str,
    modifiers: KeyModifiers,
    code: KeyCode,
    event: fn() -> ReedlineEvent,
}

/// The name of the completion menu.
pub const COMPLETION_MENU: &str = "completion";
/// The name of the history menu.
pub const HISTORY_MENU: &str = "history";

/// The keys that are ours, beside those of emacs or vi.
pub const KEYS: [Key; 9] = [
    Key {
        name: "Ctrl-T",
        help: "sends this line the other way: to the model instead of the shell, or back",
        modifiers: KeyModifiers::CONTROL,
        code: KeyCode::Char('t'),
        event: || ReedlineEvent::ExecuteHostCommand(FLIP.into()),
    },
    Key {
        name: "Tab",
        help: "completes; again for the next candidate",
        modifiers: KeyModifiers::NONE,
        code: KeyCode::Tab,
        event: || ReedlineEvent::UntilFound(vec![ReedlineEvent::Menu(COMPLETION_MENU.into()), ReedlineEvent::MenuNext]),
    },
    Key {
        name: "Shift-Tab",
        help: "the candidate before",
        modifiers: KeyModifiers::SHIFT,
        code: KeyCode::BackTab,
        event: || ReedlineEvent::MenuPrevious,
    },
    Key {
        name: "Ctrl-R",
        help: "searches the history: words in any order; Alt-S says which lines, Esc brings back what was typed",
        modifiers: KeyModifiers::CONTROL,
        code: KeyCode::Char('r'),
        event: || ReedlineEvent::Multiple(vec![ReedlineEvent::Esc, ReedlineEvent::Menu(HISTORY_MENU.into())]),
    },
    Key {
        name: "Alt-Enter",
        help: "a new line without running anything; on an empty line asks the model about the last failure",
        modifiers: KeyModifiers::ALT,
        code: KeyCode::Enter,
        event: || ReedlineEvent::Edit(vec![EditCommand::InsertNewline]),
    },
    Key {
        name: "Shift-Enter",
        help: "a new line, if the terminal reports it separately from Enter",
        modifiers: KeyModifiers::SHIFT,
        code: KeyCode::Enter,
        event: || ReedlineEvent::Edit(vec![EditCommand::InsertNewline]),
    },
    Key {
        name: "Alt-N",
        help: "makes the line a goal: puts :norris before it",
        modifiers: KeyModifiers::ALT,
        code: KeyCode::Char('n'),
        event: || {
            ReedlineEvent::Edit(vec![
                EditCommand::MoveToStart { select: false },
                EditCommand::InsertString(":norris ".to_owned()),
                EditCommand::MoveToEnd { select: false },
            ])
        },
    },
    Key {
        name: "Alt-S",
        help: "lists the sessions of the repository: arrow keys and Enter choose the one that :session open names",
        modifiers: KeyModifiers::ALT,
        code: KeyCode::Char('s'),
        event: || {
            ReedlineEvent::Multiple(vec![
                ReedlineEvent::Edit(vec![
                    EditCommand::MoveToStart { select: false },
                    EditCommand::InsertString(":session open ".to_owned()),
                    EditCommand::MoveToEnd { select: false },
                ]),
                ReedlineEvent::Menu(COMPLETION_MENU.into()),
            ])
        },
    },
    Key {
        name: "Ctrl-X",
        help: "begins two keys: Ctrl-X Ctrl-E opens the line in your editor, Ctrl-X Ctrl-U undoes",
        modifiers: KeyModifiers::CONTROL,
        code: KeyCode::Char('x'),
        event: || ReedlineEvent::None,
    },
];

fn add(bindings: &mut Keybindings) {
    for key in &KEYS {
        bindings.add_binding(key.modifiers, key.code, (key.event)());
    }
    wake_on_f35(bindings);
}

/// F35 is the pump's (`shell::keys::feed::WAKE_KEY`).
fn wake_on_f35(bindings: &mut Keybindings) {
    bindings.add_binding(KeyModifiers::NONE, KeyCode::F(35), ReedlineEvent::ExecuteHostCommand(WAKE.into()));
}

/// Adds the keys of the config: after ours, since only the user's own config may take one of ours.
fn add_hooks(bindings: &mut Keybindings, hooks: &[(KeyName, KeyDoes)]) {
    for (key, does) in hooks {
        let Some((modifiers, code)) = pressed(key) else { continue };
        let event = match does {
            KeyDoes::Insert(text) => {
                let text = text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect();
                ReedlineEvent::Edit(vec![EditCommand::InsertString(text)])
            }
            KeyDoes::Meta(_) | KeyDoes::Shell(_) | KeyDoes::Call => {
                ReedlineEvent::ExecuteHostCommand(format!("{KEY_COMMAND}{key}"))
            }
        };
        bindings.add_binding(modifiers, code, event);
    }
}

/// The key in the editor's terms.
fn pressed(key: &KeyName) -> Option<(KeyModifiers, KeyCode)> {
    let code = match key.code {
        config::KeyCode::Character(character) => KeyCode::Char(character),
        config::KeyCode::Function(number) => KeyCode::F(number),
        config::KeyCode::Named(name) => match name {
            "enter" => KeyCode::Enter,
            "tab" if key.shift => KeyCode::BackTab,
            "tab" => KeyCode::Tab,
            "escape" => KeyCode::Esc,
            "space" => KeyCode::Char(' '),
            "backspace" => KeyCode::Backspace,
            "insert" => KeyCode::Insert,
            "delete" => KeyCode::Delete,
            "home" => KeyCode::Home,
            "end" => KeyCode::End,
            "pageup" => KeyCode::PageUp,
            "pagedown" => KeyCode::PageDown,
            "up" => KeyCode::Up,
            "down" => KeyCode::Down,
            "left" => KeyCode::Left,
            "right" => KeyCode::Right,
            _ => return None,
        },
    };
    let mut modifiers = KeyModifiers::NONE;
    for (held, modifier) in
        [(key.ctrl, KeyModifiers::CONTROL), (key.alt, KeyModifiers::ALT), (key.shift, KeyModifiers::SHIFT)]
    {
        modifiers.set(modifier, held);
    }
    Some((modifiers, code))
}

/// Keys that hands know from readline, in both modes of typing.
fn add_common(bindings: &mut Keybindings) {
    let undo = || ReedlineEvent::Edit(vec![EditCommand::Undo]);
    // Ctrl-_ comes as Ctrl-7 from terminals that only know the control character.
    for (modifiers, code) in [
        (KeyModifiers::CONTROL, '7'),
        (KeyModifiers::CONTROL, '_'),
        (KeyModifiers::CONTROL | KeyModifiers::SHIFT, '_'),
        (KeyModifiers::CONTROL | KeyModifiers::SHIFT, '-'),
    ] {
        bindings.add_binding(modifiers, KeyCode::Char(code), undo());
    }
    bindings.add_binding(KeyModifiers::CONTROL, KeyCode::Char('o'), ReedlineEvent::ExecuteHostCommand(OPEN.into()));
}

/// The keys of readline's emacs and vi insert modes that kill to the left, or bring back what was killed.
fn add_kills(bindings: &mut Keybindings, word: WordKey) {
    let back = match word {
        WordKey::Blank => Edit::KillBlankWordBack,
        WordKey::Word => Edit::KillWordBack,
    };
    for (key, edit) in [('w', back), ('u', Edit::KillToStart), ('y', Edit::Yank)] {
        bindings.add_binding(KeyModifiers::CONTROL, KeyCode::Char(key), ReedlineEvent::Menu(edit.menu_name(false)));
    }
}

/// The rest of readline's emacs keys; those that kill fill the ring of Ctrl-Y and Alt-Y.
fn add_emacs(bindings: &mut Keybindings) {
    let menu = |edit: Edit| ReedlineEvent::Menu(edit.menu_name(false));
    let (control, alt) = (KeyModifiers::CONTROL, KeyModifiers::ALT);
    for (modifiers, code, edit) in [
        (control, KeyCode::Char('k'), Edit::KillToEnd),
        (alt, KeyCode::Backspace, Edit::KillWordBack),
        (alt, KeyCode::Char('d'), Edit::KillWordAhead),
        (alt, KeyCode::Char('y'), Edit::YankPop),
        (alt, KeyCode::Char('.'), Edit::LastArgument),
        (alt, KeyCode::Char('_'), Edit::LastArgument),
        (alt | KeyModifiers::SHIFT, KeyCode::Char('_'), Edit::LastArgument),
        (alt, KeyCode::Char('t'), Edit::TransposeWords),
        (alt, KeyCode::Char('b'), Edit::WordBack),
        (alt, KeyCode::Char('*'), Edit::InsertCompletions),
        (alt | KeyModifiers::SHIFT, KeyCode::Char('*'), Edit::InsertCompletions),
    ] {
        bindings.add_binding(modifiers, code, menu(edit));
    }
    let ahead = ReedlineEvent::UntilFound(vec![ReedlineEvent::HistoryHintWordComplete, menu(Edit::WordAhead)]);
    bindings.add_binding(alt, KeyCode::Char('f'), ahead);
    for modifiers in [alt, alt | KeyModifiers::SHIFT] {
        let comment = ReedlineEvent::Multiple(vec![ReedlineEvent::Esc, menu(Edit::Comment), ReedlineEvent::Enter]);
        bindings.add_binding(modifiers, KeyCode::Char('#'), comment);
    }
    // As often as a line can have been changed: undoing an unchanged one does nothing.
    let revert = ReedlineEvent::Edit(vec![EditCommand::Undo; REVERTED_MAX]);
    bindings.add_binding(alt, KeyCode::Char('r'), revert);
}

/// The keys after Ctrl-X.
fn prefixed() -> Vec<((KeyModifiers, KeyCode), ReedlineEvent)> {
    let control = |c| (KeyModifiers::CONTROL, KeyCode::Char(c));
    vec![
        (control('e'), ReedlineEvent::ExecuteHostCommand(OPEN.into())),
        (control('u'), ReedlineEvent::Edit(vec![EditCommand::Undo])),
    ]
}

/// Adds the keys that the user's start-up files have given to the shell's own line editor; returns those after Ctrl-X.
fn add_shell(bindings: &mut Keybindings, shell: &ShellKeys) -> Vec<((KeyModifiers, KeyCode), ReedlineEvent)> {
    // readline's defaults for keys that ReedClaw uses: only another function was chosen by the user.
    const DEFAULTS: [(&str, &str); 2] = [("\\C-t", "transpose-chars"), ("\\C-w", "unix-word-rubout")];
    let functions = shell.functions.iter().filter(|(key, name)| !DEFAULTS.contains(&(key.as_str(), name.as_str())));
    let functions = functions.filter_map(|(key, name)| Some((key, function(name)?)));
    let run = |key: &String| ReedlineEvent::ExecuteHostCommand(format!("{SHELL_KEY}{key}"));
    let mut after_x = Vec::new();
    for (key, event) in functions.chain(shell.bound.iter().map(|key| (key, run(key)))) {
        match chords(key).as_deref() {
            Some([(modifiers, code)]) => bindings.add_binding(*modifiers, *code, event),
            Some([_, second]) => after_x.push((*second, event)),
            _ => {}
        }
    }
    after_x
}

/// The keys at which the editor hands over control, as a terminal sends them.
pub(super) fn stops(hooks: &[(KeyName, KeyDoes)], shell: &ShellKeys) -> Vec<Vec<u8>> {
    const OURS: [&[u8]; 2] = [b"\x0f", b"\x18\x05"];
    let does_more = |(key, does): &(KeyName, KeyDoes)| match does {
        KeyDoes::Insert(_) => None,
        KeyDoes::Meta(_) | KeyDoes::Shell(_) | KeyDoes::Call => sent(key),
    };
    let ours = OURS.iter().map(|key| key.to_vec());
    let bound = shell.bound.iter().filter(|key| chords(key).is_some()).filter_map(|key| bytes(key));
    ours.chain(bound).chain(hooks.iter().filter_map(does_more)).collect()
}

/// Returns the bytes that a terminal sends for a key with Ctrl or Alt, or a function key; `None` for the others.
fn sent(key: &KeyName) -> Option<Vec<u8>> {
    let mut sent = match key.code {
        config::KeyCode::Character(character) if key.ctrl && character.is_ascii() => {
            vec![character.to_ascii_uppercase() as u8 & 0x1f]
        }
        config::KeyCode::Character(character) => character.to_string().into_bytes(),
        config::KeyCode::Function(number @ 1..=4) => vec![0x1b, b'O', b'P' + number - 1],
        // Source: xterm's ctlseqs, "PC-Style Function Keys".
        config::KeyCode::Function(number @ 5..=12) => {
            format!("\x1b[{}~", [15, 17, 18, 19, 20, 21, 23, 24][usize::from(number) - 5]).into_bytes()
        }
        _ => return None,
    };
    if key.alt {
        sent.insert(0, 0x1b);
    }
    Some(sent)
}

/// Wanted state of the keys.
pub(super) struct Wanted<'a> {
    /// vi's keys instead of emacs'.
    pub(super) vi: bool,
    /// The extent that Ctrl-W deletes.
    pub(super) word: WordKey,
    /// The keys of the config.
    pub(super) hooks: &'a [(KeyName, KeyDoes)],
    /// The keys of the live shell's own line editor.
    pub(super) shell: &'a ShellKeys,
    /// The state that the menus share.
    pub(super) links: &'a Links,
}

/// Makes the editor's keys, those of the config among them.
#[must_use]
pub(super) fn edit_mode(wanted: &Wanted<'_>) -> Box<dyn EditMode> {
    let hooks = wanted.hooks;
    let mut after_x = prefixed();
    let inner: Box<dyn EditMode> = if wanted.vi {
        let mut tables =
            [default_vi_insert_keybindings(), default_vi_normal_keybindings(), default_vi_visual_keybindings()];
        add(&mut tables[0]);
        add_common(&mut tables[0]);
        add_kills(&mut tables[0], wanted.word);
        after_x.splice(0..0, add_shell(&mut tables[0], wanted.shell));
        add_hooks(&mut tables[0], hooks);
        for table in &mut tables[1..] {
            for key in KEYS.iter().filter(|key| key.modifiers == KeyModifiers::CONTROL) {
                table.add_binding(key.modifiers, key.code, (key.event)());
            }
            add_common(table);
            add_hooks(table, hooks);
            wake_on_f35(table);
        }
        let [insert, normal, visual] = tables;
        Box::new(Vi::new(insert, normal, visual))
    } else {
        let mut bindings = default_emacs_keybindings();
        add_emacs(&mut bindings);
        add_kills(&mut bindings, wanted.word);
        add(&mut bindings);
        add_common(&mut bindings);
        after_x.splice(0..0, add_shell(&mut bindings, wanted.shell));
        add_hooks(&mut bindings, hooks);
        Box::new(Emacs::new(bindings))
    };
    let own = hooks.iter().filter_map(|(key, _)| pressed(key)).collect();
    Box::new(ChordMode::new(inner, wanted.links, after_x, own))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_config_knows_which_keys_are_ours_and_the_editor_each_name() {
        let ours: Vec<String> = KEYS.iter().map(|key| key.name.to_lowercase()).collect();
        assert_eq!(ours, config::OWN_KEYS);
        for name in config::NAMED_KEYS {
            let key = KeyName { ctrl: true, alt: false, shift: false, code: config::KeyCode::Named(name) };
            assert!(pressed(&key).is_some(), "{name}");
        }
    }

    #[test]
    fn no_two_keys_are_the_same() {
        for (index, key) in KEYS.iter().enumerate() {
            assert!(!key.help.is_empty());
            for other in &KEYS[..index] {
                assert!(other.name != key.name && (other.modifiers, other.code) != (key.modifiers, key.code));
            }
        }
    }
}
