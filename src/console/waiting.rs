//! The sign for the wait for an answer: one short row with the time, drawn over itself and removed without a trace.

use parking_lot::{Condvar, Mutex, MutexGuard};
use std::borrow::Cow;
use std::time::{Duration, Instant};

use super::Console;

/// An answer that arrives sooner has no sign before it.
const FIRST_AFTER: Duration = Duration::from_millis(300);
/// Interval between two drawings.
const STEP: Duration = Duration::from_millis(100);
const FRAMES: [char; 10] = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];
const ASCII_FRAMES: [char; 4] = ['|', '/', '-', '\\'];

/// The sign. One thread draws it until another ends it.
#[derive(Debug, Default)]
pub struct Waiting {
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct State {
    is_over: bool,
    /// Other text is being written meanwhile.
    is_resting: bool,
    is_drawn: bool,
    /// The activity and its start; the wait itself if nothing is named.
    activity: Option<(Cow<'static, str>, Instant)>,
    /// A question was asked since the last look at this flag.
    has_asked: bool,
}

impl Waiting {
    /// Draws the sign until [`Waiting::end`]; for a screen reader nothing is drawn.
    pub fn draw(&self, console: &Console) {
        let options = console.options();
        if options.accessible {
            return;
        }
        let mut begun = Instant::now();
        let mut state = self.lock();
        let mut pause = FIRST_AFTER;
        for step in 0.. {
            if state.is_resting {
                let waits = |state: &mut State| state.is_resting && !state.is_over;
                self.ended.wait_while(&mut state, waits);
                (begun, pause) = (Instant::now(), FIRST_AFTER);
            }
            self.ended.wait_while_for(&mut state, |state| !state.is_over && !state.is_resting, pause);
            if state.is_over {
                return;
            }
            if state.is_resting {
                continue;
            }
            pause = STEP;
            let frames: &[char] = if options.unicode { &FRAMES } else { &ASCII_FRAMES };
            let (words, since) = state.activity.as_ref().map_or(("", begun), |(words, since)| (words, *since));
            let text = format!("{} {words}{} s", frames[step % frames.len()], since.elapsed().as_secs());
            let text = if options.unicode { text } else { text.replace('…', "...") };
            // The lock is held while it is drawn: nothing can be written between the sign and its end.
            console.raw(format!("\r{}\x1b[K", console.paint(nu_ansi_term::Style::new().dimmed(), &text)).as_bytes());
            state.is_drawn = true;
        }
    }

    /// Sets the activity, and starts its own time.
    pub fn say(&self, what: &'static str) {
        self.lock().activity = Some((what.into(), Instant::now()));
    }

    /// Sets the progress of the activity; its time continues.
    pub fn note(&self, how_far: &str) {
        let mut state = self.lock();
        let since = state.activity.take().map_or_else(Instant::now, |(_, since)| since);
        state.activity = Some((format!("{how_far} ").into(), since));
    }

    /// Writes above the sign, which continues.
    pub fn above(&self, console: &Console, write: impl FnOnce()) {
        let mut state = self.lock();
        if std::mem::take(&mut state.is_drawn) {
            console.raw(b"\r\x1b[K");
        }
        write();
    }

    /// Removes the sign until [`Waiting::go_on`]; the cursor is where it was before.
    pub fn rest(&self, console: &Console) {
        let mut state = self.lock();
        if std::mem::take(&mut state.is_drawn) {
            console.raw(b"\r\x1b[K");
        }
        state.is_resting = true;
        state.activity = None;
        self.ended.notify_all();
    }

    /// Shows the sign again from now on.
    pub fn go_on(&self) {
        self.lock().is_resting = false;
        self.ended.notify_all();
    }

    /// Removes the sign; the cursor is where it was before. Calling it again does no harm.
    pub fn end(&self, console: &Console) {
        let mut state = self.lock();
        if std::mem::take(&mut state.is_drawn) {
            console.raw(b"\r\x1b[K");
        }
        state.is_over = true;
        self.ended.notify_all();
    }

    /// Notes that a question is asked meanwhile.
    pub fn note_question(&self) {
        self.lock().has_asked = true;
    }

    /// Returns whether a question was asked since the last call of this.
    pub fn take_question(&self) -> bool {
        std::mem::take(&mut self.lock().has_asked)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}
