//! A question that a lone key answers. A paste, an escape sequence and keys that were typed before it don't count as answers.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::quiet::{KeyRow, Listening, Quiet};
use crate::config::Env;
use crate::console::Console;
use crate::share::Elsewhere;
use crate::shell::session::KeysTo;
use crate::shell::{Event, Session};

const PASTE_BEGINS: &[u8] = b"\x1b[200~";
const PASTE_ENDS: &[u8] = b"\x1b[201~";

/// Input that arrived in one piece.
#[derive(Debug, PartialEq, Eq)]
enum Piece<'k> {
    /// A key, or several that were pressed at once.
    Keys(&'k [u8]),
    /// A part of a paste, which answers nothing.
    Paste,
    /// Ctrl-C, in any company.
    Stop,
}

/// Reads keys one piece at a time, and passes over a bracketed paste however it is cut.
#[derive(Debug, Default)]
struct Reader {
    paste: Option<Vec<u8>>,
}

impl Reader {
    fn read<'k>(&mut self, keys: &'k [u8]) -> Piece<'k> {
        let find = |bytes: &[u8], what| memchr::memmem::find(bytes, what);
        if self.paste.is_none() && find(keys, PASTE_BEGINS).is_none() {
            return if keys.contains(&3) { Piece::Stop } else { Piece::Keys(keys) };
        }
        let pasted = self.paste.get_or_insert_default();
        pasted.extend_from_slice(keys);
        if let Some(at) = find(pasted, PASTE_ENDS) {
            let stops = pasted[at..].contains(&3);
            self.paste = None;
            return if stops { Piece::Stop } else { Piece::Paste };
        }
        // Only the end of a long paste is still needed: its end mark may begin there.
        let end = pasted.len();
        pasted.drain(..end.saturating_sub(PASTE_ENDS.len()));
        Piece::Paste
    }
}

/// Answers of the pump to wait for before a question is shown: one to the question itself, and as many as other threads
/// may still have on their way (the thread that lists programs, the one that answers).
const NUDGES: u8 = 3;

/// Time limit for the pump's answers after a question.
const PUMP_WAIT: Duration = Duration::from_secs(1);

/// Time limit for a key, counted from the last one; the answer is then no.
const WAIT: Duration = Duration::from_secs(120);

/// Poll interval for a question's withdrawal.
const LOOK: Duration = Duration::from_millis(50);

/// The meaning of a key for a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyMeaning<T> {
    /// An answer, if keys count already.
    Answer(T),
    /// The key turned a page, which answers nothing and counts at once.
    Paged,
    /// The key isn't for this question.
    Other,
}

impl<T> From<Option<T>> for KeyMeaning<T> {
    fn from(answer: Option<T>) -> Self {
        answer.map_or(Self::Other, Self::Answer)
    }
}

/// A question that is being asked.
pub trait Asked {
    /// The type of the answer.
    type Answer: Clone;
    /// Shows the question, without its row of keys.
    fn show(&mut self, console: &Console);
    /// Shows the row of keys.
    fn show_keys(&mut self, console: &Console, listening: Listening);
    /// Reads a key, or several that were pressed at once.
    fn key(&mut self, keys: &[u8], console: &Console) -> KeyMeaning<Self::Answer>;
    /// Notes that other text was written meanwhile.
    fn disturbed(&mut self);
    /// The flag that withdraws the question once it is set, as if no key had come; `None` if the question waits for an answer.
    fn withdrawn_by(&self) -> Option<&AtomicBool> {
        None
    }
    /// Returns whether an answer does so little that keys count as soon as the question is drawn.
    fn is_harmless(&self) -> bool {
        false
    }
}

/// A row of keys, and what they mean.
struct Row<'q, C> {
    keys: &'q str,
    choice: C,
    is_harmless: bool,
    row: KeyRow,
}

impl<T: Clone, C: Fn(&[u8]) -> Option<T>> Asked for Row<'_, C> {
    type Answer = T;

    fn show(&mut self, _: &Console) {}

    fn show_keys(&mut self, console: &Console, listening: Listening) {
        self.row.draw(console, self.keys, "  ", listening);
    }

    fn key(&mut self, keys: &[u8], _: &Console) -> KeyMeaning<T> {
        (self.choice)(keys).into()
    }

    fn disturbed(&mut self) {
        self.row.forget();
    }

    fn is_harmless(&self) -> bool {
        self.is_harmless
    }
}

/// A person at a terminal who is asked by keys: in a session, or by a command without one.
pub trait Asking {
    /// The reason why the person can't be asked any more.
    type Hangup;

    /// The source of the keys.
    fn session(&self) -> &Session;

    /// The console for the question.
    fn console(&self) -> &Console;

    /// The environment: it decides the place of a private copy.
    fn env(&self) -> &Env;

    /// Handles an event other than a key.
    ///
    /// # Errors
    /// The session is over.
    fn happened(&mut self, event: Event) -> Result<(), Self::Hangup>;

    /// Lets the person edit a line that begins with `text`; `None` if they cancel.
    ///
    /// # Errors
    /// The session is over.
    fn write_line(&mut self, label: &str, text: &str) -> Result<Option<String>, Self::Hangup>;

    /// Opens a file in the person's editor and returns its exit status; `None` if it can't be opened, which has been
    /// reported.
    ///
    /// # Errors
    /// The session is over.
    fn open_in_editor(&mut self, path: &Path) -> Result<Option<i32>, Self::Hangup>;

    /// Returns whether the person has a shell of their own here.
    fn has_shell(&self) -> bool;

    /// Time limit for the person to press a key.
    fn patience(&self) -> Duration {
        WAIT
    }

    /// The same question for others to answer, if they may.
    fn elsewhere(&self) -> Option<Arc<Elsewhere>> {
        None
    }
}

/// Asks a question and waits for an answer by keys; afterwards keys wait for the editor again. `stop` is the answer of
/// Ctrl-C, `late` the answer after the time limit; without `late` there is no limit.
///
/// A key answers only after a pause ([`Quiet`]); Ctrl-C always does.
pub fn put<P: Asking, A: Asked>(
    person: &mut P,
    asked: &mut A,
    stop: A::Answer,
    late: Option<A::Answer>,
) -> Result<A::Answer, P::Hangup> {
    let console = person.console().clone();
    console.raw(b"\x1b[?2004h");
    // Keys from before the question don't answer it: they stay with the editor. The question appears once the pump has
    // confirmed that keys now belong to it.
    person.session().keys_to(KeysTo::Question);
    (0..NUDGES).for_each(|_| person.session().handle().nudge());
    let mut nudges_due = NUDGES;
    let mut keys = KeysOf { asked, reader: Reader::default(), quiet: None, listening: Listening::NotYet };
    let patience = late.is_some().then(|| person.patience());
    let deadline_from_now = || patience.map(|patience| Instant::now() + patience);
    let mut deadline = deadline_from_now();
    let answer = loop {
        let quiet_left = keys.listen(&console);
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let is_withdrawn = keys.asked.withdrawn_by().is_some_and(|it| it.load(Ordering::Acquire));
        if is_withdrawn || left.is_some_and(|left| left.is_zero()) {
            break Ok(late);
        }
        let looks = keys.asked.withdrawn_by().map(|_| LOOK);
        let event = match left.into_iter().chain(looks).chain(quiet_left).min() {
            None => person.session().next_event(),
            Some(wait) => match person.session().next_event_within(wait) {
                Some(event) => event,
                None => continue,
            },
        };
        match event {
            Event::Nudged if nudges_due > 0 => {
                nudges_due -= 1;
                if nudges_due == 0 {
                    keys.asked.show(&console);
                    keys.quiet = Some(Quiet::begin(Instant::now(), person.session().last_keys()));
                    deadline = deadline_from_now();
                }
            }
            Event::Keys(pressed, at) if nudges_due == 0 => {
                deadline = deadline_from_now();
                match keys.take(&pressed, at, &console) {
                    KeyEffect::Answer(answer) => {
                        person.session().forget_keys(at);
                        break Ok(Some(answer));
                    }
                    KeyEffect::Stop => break Ok(None),
                    KeyEffect::Nothing => {}
                }
            }
            // Before the question is shown keys are no answer; Ctrl-C is one at any time.
            Event::Keys(pressed, _) if pressed.contains(&INTERRUPT) => break Ok(None),
            Event::Cancel => break Ok(None),
            event => {
                if matches!(event, Event::Output(_)) {
                    keys.asked.disturbed();
                }
                if let Err(gone) = person.happened(event) {
                    break Err(gone);
                }
            }
        }
    };
    person.session().keys_to(KeysTo::Hold);
    console.raw(b"\x1b[?2004l");
    let Some(answer) = answer? else { return Ok(stop) };
    Ok(if is_stopped_after(person)? { stop } else { answer })
}

/// Returns whether Ctrl-C came after the answer, before the keys belonged to the editor again: such keys still arrive
/// here.
fn is_stopped_after<P: Asking>(person: &mut P) -> Result<bool, P::Hangup> {
    (0..NUDGES).for_each(|_| person.session().handle().nudge());
    let (mut nudges_due, mut is_stopped) = (NUDGES, false);
    while nudges_due > 0 {
        match person.session().next_event_within(PUMP_WAIT) {
            None => break,
            Some(Event::Nudged) => nudges_due -= 1,
            Some(Event::Cancel) => is_stopped = true,
            Some(Event::Keys(pressed, _)) => is_stopped |= pressed.contains(&INTERRUPT),
            Some(event) => person.happened(event)?,
        }
    }
    Ok(is_stopped)
}

/// Ctrl-C as a terminal sends it.
const INTERRUPT: u8 = 0x03;

/// The result of a piece of keys.
enum KeyEffect<T> {
    Answer(T),
    Stop,
    Nothing,
}

/// The keys of a question that is being asked.
struct KeysOf<'a, A> {
    asked: &'a mut A,
    reader: Reader,
    /// Set once the question is drawn.
    quiet: Option<Quiet>,
    listening: Listening,
}

impl<A: Asked> KeysOf<'_, A> {
    /// Shows whether keys count; returns the time until they do.
    fn listen(&mut self, console: &Console) -> Option<Duration> {
        let quiet = self.quiet?;
        let now = Instant::now();
        let counts = self.asked.is_harmless() || quiet.is_over(now);
        if counts {
            self.listening = Listening::Yes;
        }
        self.asked.show_keys(console, self.listening);
        (!counts).then(|| quiet.left(now))
    }

    fn take(&mut self, pressed: &[u8], at: Instant, console: &Console) -> KeyEffect<A::Answer> {
        let Some(quiet) = &mut self.quiet else { return KeyEffect::Nothing };
        let heard = match self.reader.read(pressed) {
            Piece::Stop => return KeyEffect::Stop,
            Piece::Paste => KeyMeaning::Other,
            Piece::Keys(keys) => self.asked.key(keys, console),
        };
        match heard {
            KeyMeaning::Answer(answer) if self.asked.is_harmless() || quiet.is_over(at) => {
                return KeyEffect::Answer(answer);
            }
            KeyMeaning::Answer(_) => {
                quiet.typed(at);
                self.listening = Listening::Missed;
            }
            KeyMeaning::Paged => {
                quiet.paged(at);
                self.listening = Listening::NotYet;
            }
            KeyMeaning::Other => {
                quiet.typed(at);
                if self.listening == Listening::Yes {
                    self.listening = Listening::NotYet;
                }
            }
        }
        KeyEffect::Nothing
    }
}

/// Asks for yes or no; `None` if everything is to be stopped.
///
/// # Errors
/// The person can't be asked any more.
pub fn ask_yes_or_no<P: Asking>(person: &mut P, text: &str) -> Result<Option<bool>, P::Hangup> {
    person.console().line(text);
    let mut row = Row { keys: "yes [y]  no [n, Enter]", choice: yes_or_no, is_harmless: false, row: KeyRow::default() };
    let reply = put(person, &mut row, None, None)?;
    person.console().line(if reply == Some(true) { "yes" } else { "no" });
    Ok(reply)
}

/// A lone key that answers a question of yes or no; everything that isn't plainly yes is no.
pub fn yes_or_no(keys: &[u8]) -> Option<Option<bool>> {
    match keys {
        b"y" | b"Y" => Some(Some(true)),
        b"n" | b"N" | b"\r" | b"\n" | b"\x1b" | b"\x04" => Some(Some(false)),
        b"\x03" => Some(None),
        _ => None,
    }
}

/// Asks a question by its row of keys, and waits for a key that answers it; `stop` is the answer of Ctrl-C. With
/// `is_harmless`, keys count as soon as the question is drawn.
///
/// # Errors
/// The person can't be asked any more.
pub fn put_row<P: Asking, T: Clone>(
    person: &mut P,
    keys: &str,
    choice: impl Fn(&[u8]) -> Option<T>,
    is_harmless: bool,
    stop: T,
) -> Result<T, P::Hangup> {
    let mut row = Row { keys, choice, is_harmless, row: KeyRow::default() };
    put(person, &mut row, stop, None)
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;
    use crate::agent::Cancel;
    use crate::ask::approve::approve;
    use crate::console;
    use crate::proto::action::{Action, Decision, PolicyVerdict, Risk};
    use crate::proto::tool::{Answer, Question};

    const PLAIN: console::Options =
        console::Options { color: false, markdown: false, unicode: true, accessible: false, keyboard_protocol: false };

    /// A person whose keys come from a script.
    struct Scripted {
        session: Session,
        console: Console,
        env: Env,
        patience: Duration,
    }

    impl Asking for Scripted {
        type Hangup = Event;

        fn session(&self) -> &Session {
            &self.session
        }

        fn console(&self) -> &Console {
            &self.console
        }

        fn env(&self) -> &Env {
            &self.env
        }

        fn happened(&mut self, event: Event) -> Result<(), Event> {
            if matches!(event, Event::Hangup) { Err(event) } else { Ok(()) }
        }

        fn write_line(&mut self, _: &str, _: &str) -> Result<Option<String>, Event> {
            Ok(None)
        }

        fn open_in_editor(&mut self, _: &Path) -> Result<Option<i32>, Event> {
            Ok(None)
        }

        fn has_shell(&self) -> bool {
            false
        }

        fn patience(&self) -> Duration {
            self.patience
        }
    }

    impl Scripted {
        fn of(events: impl IntoIterator<Item = Event>) -> Self {
            let screen = File::create("/dev/null").expect("it is there");
            Self {
                session: Session::of_events(events).expect("pipes"),
                console: Console::on(PLAIN, Arc::new(screen)),
                env: Env::default(),
                patience: WAIT,
            }
        }
    }

    /// Asks for a yes, with these keys before the question is shown.
    fn asked_after(keys: &[u8]) -> Result<Option<bool>, Box<Event>> {
        let before = [Event::Keys(keys.to_vec(), Instant::now())];
        put_to(before.into_iter().chain((0..NUDGES).map(|_| Event::Nudged)))
    }

    /// Asks for a yes while these events arrive.
    fn put_to(events: impl IntoIterator<Item = Event>) -> Result<Option<bool>, Box<Event>> {
        ask_yes_or_no(&mut Scripted::of(events), "?").map_err(Box::new)
    }

    /// Silence was recorded as the person's own no.
    #[test]
    fn a_call_that_nobody_answered_in_time_is_not_denied_by_the_person() {
        let question = Question {
            digest: String::new(),
            tool: "shell".to_owned(),
            action: Action::Shell { command: "make".to_owned() },
            verdict: PolicyVerdict {
                risk: Risk::High,
                decision: Decision::Ask,
                reasons: Vec::new(),
                effects: Vec::new(),
                needs: Vec::new(),
            },
            preview: String::new(),
            changes: Arc::default(),
            cwd: "/home/u/work".to_owned(),
            program: None,
            may_always: true,
            filled: Vec::new(),
            only_own_shell: false,
        };
        let mut person = Scripted::of((0..2 * NUDGES).map(|_| Event::Nudged));
        person.patience = Duration::ZERO;
        let answer = approve(&mut person, &question, &Cancel::new()).expect("the session goes on");
        assert_eq!(answer, Answer::Unanswered("no one answered in time".to_owned()));
    }

    #[test]
    fn ctrl_c_stops_a_question_that_is_only_about_to_be_shown() {
        assert!(matches!(asked_after(b"\x03"), Ok(None)));
        // Any other key from before is no answer: the question waits, here until the terminal goes.
        for keys in [&b"y"[..], b"n", b"\r"] {
            assert!(matches!(asked_after(keys), Err(event) if matches!(*event, Event::Hangup)), "{keys:?}");
        }
    }

    /// Ctrl-C was dropped with the keys that came too late.
    #[test]
    fn ctrl_c_right_after_the_answer_stops_it() {
        let now = Instant::now();
        let answered = |later: &[u8]| {
            let nudges = || (0..NUDGES).map(|_| Event::Nudged);
            let keys = [&b"y"[..], later].map(|keys| Event::Keys(keys.to_vec(), now + Duration::from_secs(60)));
            put_to(nudges().chain(keys).chain(nudges()))
        };
        assert!(matches!(answered(b"\x03"), Ok(None)));
        assert!(matches!(answered(b"x"), Ok(Some(true))));
    }

    #[test]
    fn a_paste_is_no_answer_however_it_is_cut() {
        let paste = b"\x1b[200~r\x1b[201~";
        for cut in 6..paste.len() {
            for second in cut..paste.len() {
                let mut reader = Reader::default();
                for piece in [&paste[..cut], &paste[cut..second], &paste[second..]] {
                    assert_eq!(reader.read(piece), Piece::Paste, "{cut} {second}");
                }
                assert_eq!(reader.read(b"r"), Piece::Keys(b"r"), "{cut} {second}");
            }
        }
    }
}
