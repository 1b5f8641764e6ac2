//! What a session that was killed left behind: looked for on a thread of its own, so that no prompt waits for it.

use std::sync::mpsc::{Receiver, channel};

use super::prompt::ReedPrompt;
use super::run::Repl;
use crate::app::{recover, unknown_outcomes, workspace_dir, workspace_for};
use crate::config::{Env, Settings};
use crate::host::working_directory;
use crate::render::text::{escape_visible, wrap};
use crate::shell::Handle;

/// Lines that are shown; `reedclaw doctor` has all.
const SHOWN_MAX: usize = 5;

/// Looks for it; the lines come once.
pub(super) fn look(settings: &Settings, env: &Env, pump: Handle) -> Receiver<Vec<String>> {
    let (found, lines) = channel();
    let (settings, env) = (settings.clone(), env.clone());
    let work = move || {
        let workspace = workspace_for(&env, &working_directory(), &workspace_dir(&settings, &env));
        let mut told = recover(&settings, &env, &workspace);
        let unknown = unknown_outcomes(&settings, &env);
        told.extend(unknown.iter().take(SHOWN_MAX).cloned());
        if !unknown.is_empty() {
            told.push("it may have run or not: look at what it was about; reedclaw receipt list".to_owned());
        }
        if unknown.len() > SHOWN_MAX {
            told.push(format!("and {} more; reedclaw doctor lists them", unknown.len() - SHOWN_MAX));
        }
        if !told.is_empty() && found.send(told).is_ok() {
            pump.nudge();
        }
    };
    // Without a thread nothing is said; the receipts keep it, and the next question finishes what was left.
    let _ = std::thread::Builder::new().name("leftover".into()).spawn(work);
    lines
}

impl Repl {
    /// Tells what was found, above the editor where it waits.
    pub(super) fn tell_leftovers(&mut self, editing: Option<&ReedPrompt>) {
        let Ok(lines) = self.leftovers.try_recv() else { return };
        let told: Vec<String> = lines.iter().map(|line| escape_visible(line)).collect();
        match editing {
            None => told.iter().for_each(|line| self.console.notice(line)),
            Some(_) => {
                let columns = self.console.width_columns();
                let rows: Vec<String> = told.iter().map(|line| wrap(line, columns, "  ")).collect();
                let text = rows.join("\n").replace('\n', "\r\n");
                self.show_above((text + "\r\n").as_bytes(), editing);
            }
        }
    }
}
