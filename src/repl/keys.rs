//! The keys, as one table: their events in the editor, and their help in `docs/keys.md`.

use reedline::{
    EditCommand, EditMode, Emacs, KeyCode, KeyModifiers, Keybindings, ReedlineEvent, Vi, default_emacs_keybindings,
    default_vi_insert_keybindings, default_vi_normal_keybindings, default_vi_visual_keybindings,
};

use super::hooks::KEY_COMMAND;
use crate::config::{self, KeyDoes, KeyName};

/// What the loop is asked to do when the editor hands over control.
pub const WAKE: &str = "wake";
/// Flips where the line goes.
pub const FLIP: &str = "flip";

/// One key of ours.
pub struct Key {
    /// The key as the documents write it.
    pub name: &'static str,
    /// What it does.
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
pub const KEYS: [Key; 7] = [
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
        help: "searches the history of all sessions",
        modifiers: KeyModifiers::CONTROL,
        code: KeyCode::Char('r'),
        event: || ReedlineEvent::UntilFound(vec![ReedlineEvent::Menu(HISTORY_MENU.into()), ReedlineEvent::MenuNext]),
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
        help: "a new line, where the terminal tells it from Enter",
        modifiers: KeyModifiers::SHIFT,
        code: KeyCode::Enter,
        event: || ReedlineEvent::Edit(vec![EditCommand::InsertNewline]),
    },
    Key {
        name: "Ctrl-X",
        help: "opens the line in $VISUAL or $EDITOR",
        modifiers: KeyModifiers::CONTROL,
        code: KeyCode::Char('x'),
        event: || ReedlineEvent::OpenEditor,
    },
];

fn add(bindings: &mut Keybindings) {
    for key in &KEYS {
        bindings.add_binding(key.modifiers, key.code, (key.event)());
    }
    wake_on_f35(bindings);
}

/// F35 is the pump's (`shell::feed::WAKE_KEY`).
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
            KeyDoes::Meta(_) | KeyDoes::Call => ReedlineEvent::ExecuteHostCommand(format!("{KEY_COMMAND}{key}")),
        };
        bindings.add_binding(modifiers, code, event);
    }
}

/// The key as the editor hears it.
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

/// Makes the editor's keys, those of the config among them.
#[must_use]
pub fn edit_mode(vi: bool, hooks: &[(KeyName, KeyDoes)]) -> Box<dyn EditMode> {
    if vi {
        let mut tables =
            [default_vi_insert_keybindings(), default_vi_normal_keybindings(), default_vi_visual_keybindings()];
        add(&mut tables[0]);
        add_hooks(&mut tables[0], hooks);
        for table in &mut tables[1..] {
            for key in KEYS.iter().filter(|key| key.modifiers == KeyModifiers::CONTROL) {
                table.add_binding(key.modifiers, key.code, (key.event)());
            }
            add_hooks(table, hooks);
            wake_on_f35(table);
        }
        let [insert, normal, visual] = tables;
        Box::new(Vi::new(insert, normal, visual))
    } else {
        let mut bindings = default_emacs_keybindings();
        add(&mut bindings);
        add_hooks(&mut bindings, hooks);
        Box::new(Emacs::new(bindings))
    }
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
