//! The keys, as one table: what they do in the editor, and what the README says of them.

use reedline::{
    EditCommand, EditMode, Emacs, KeyCode, KeyModifiers, Keybindings, ReedlineEvent, Vi, default_emacs_keybindings,
    default_vi_insert_keybindings, default_vi_normal_keybindings, default_vi_visual_keybindings,
};

/// What the loop is asked to do when the editor hands over control.
pub const WAKE: &str = "wake";
/// Flips where the line goes.
pub const FLIP: &str = "flip";

/// One key of ours.
pub struct Key {
    /// The key as the README writes it.
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
        help: "a new line without running anything",
        modifiers: KeyModifiers::ALT,
        code: KeyCode::Enter,
        event: || ReedlineEvent::Edit(vec![EditCommand::InsertNewline]),
    },
    Key {
        name: "Shift-Enter",
        help: "the same, where the terminal tells it from Enter",
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

/// Makes the editor's keys.
#[must_use]
pub fn edit_mode(vi: bool) -> Box<dyn EditMode> {
    if vi {
        let mut tables =
            [default_vi_insert_keybindings(), default_vi_normal_keybindings(), default_vi_visual_keybindings()];
        add(&mut tables[0]);
        for table in &mut tables[1..] {
            for key in KEYS.iter().filter(|key| key.modifiers == KeyModifiers::CONTROL) {
                table.add_binding(key.modifiers, key.code, (key.event)());
            }
            wake_on_f35(table);
        }
        let [insert, normal, visual] = tables;
        Box::new(Vi::new(insert, normal, visual))
    } else {
        let mut bindings = default_emacs_keybindings();
        add(&mut bindings);
        Box::new(Emacs::new(bindings))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
