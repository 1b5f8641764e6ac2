//! Command-line arguments: who gets them, and the subcommands.

pub mod backing;
pub mod dispatch;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

pub fn configured_shell() -> Option<PathBuf> { None }
pub fn run(_rest: &[OsString]) -> ExitCode { ExitCode::SUCCESS }

pub fn interactive(how: &dispatch::Interactive) -> ExitCode {
    use crate::shell::supervise::{Ending, supervise};
    let program = backing::find(configured_shell());
    let how = how.clone();
    let p = program.clone();
    let ending = supervise(move |last_word| {
        let ending = front(&how, p);
        last_word.end(&ending)
    });
    match ending.unwrap() {
        Ending::Exit(c) => ExitCode::from(c as u8),
        Ending::Signal(s) => crate::shell::supervise::end_by_signal(s),
        Ending::NotStarted(r) | Ending::Crashed(r) => { eprintln!("reedclaw: {r}"); let e = backing::become_shell(&program, false, &[]); eprintln!("{e}"); ExitCode::from(126) }
    }
}

fn front(how: &dispatch::Interactive, program: PathBuf) -> crate::shell::supervise::Ending {
    use crate::shell::*;
    use crate::shell::session::KeysTo;
    use crate::shell::supervise::Ending;
    use std::os::fd::AsFd;
    use reedline::*;
    let tty = std::io::stdin().as_fd().try_clone_to_owned().unwrap();
    let raw = terminal::RawTerminal::enter(tty.try_clone().unwrap()).unwrap();
    let size = sys::window_size(tty.as_fd()).unwrap();
    let options = Options { start: spawn::Start { program, login: how.login, arguments: how.shell_arguments.clone(), size }, dialect: spawn::Dialect::Bash, capture_head_bytes: 1<<17, capture_tail_bytes: 1<<20, shell_prompt: false, unicode: true };
    let mut session = Session::start(&options, tty, raw.before()).unwrap();
    let mut kb = default_emacs_keybindings();
    kb.add_binding(KeyModifiers::NONE, KeyCode::F(35), ReedlineEvent::ExecuteHostCommand(String::new()));
    struct V(Handle);
    impl Validator for V { fn validate(&self, _l: &str) -> ValidationResult { self.0.line_accepted(); ValidationResult::Complete } }
    struct H(Handle);
    impl Highlighter for H { fn highlight(&self, l: &str, _c: usize) -> StyledText { self.0.editor_drawn(); let mut t = StyledText::new(); t.push((nu_ansi_term::Style::new(), l.to_string())); t } }
    let mut ed = Reedline::create().use_bracketed_paste(true).with_validator(Box::new(V(session.handle()))).with_highlighter(Box::new(H(session.handle()))).with_edit_mode(Box::new(Emacs::new(kb)));
    let prompt = DefaultPrompt::new(DefaultPromptSegment::Empty, DefaultPromptSegment::Empty);
    let mut ready = false;
    loop {
        session.keys_to(KeysTo::Editor);
        let signal = ed.read_line(&prompt);
        session.keys_to(KeysTo::Hold);
        let mut end = None;
        let mut handle = |e: Event, ready: &mut bool| { match e { Event::Ready => *ready = true, Event::Output(b) => { use std::io::Write; let mut o = std::io::stdout(); o.write_all(&b).unwrap(); o.flush().unwrap(); } Event::Ended(s) => end = Some(Ending::mirror(s)), Event::Hangup => end = Some(Ending::Exit(129)), _ => {} } };
        match signal {
            Ok(Signal::Success(line)) => {
                if line == ":quit" { return Ending::Exit(0); }
                session.submit(&crate::proto::HumanLine::typed(line), false).unwrap();
                loop { match session.next_event() { Event::Finished(o) => { if std::env::var_os("RC_DEBUG").is_some() { eprint!("{:?}\r\n", (o.status, o.duration, o.cwd, String::from_utf8_lossy(&o.output.head))); } break }, Event::Incomplete => break, e => { let stop = matches!(e, Event::Ended(_) | Event::Hangup); handle(e, &mut ready); if stop { break } } } }
            }
            Ok(Signal::CtrlD) => { session.end_of_file(); loop { match session.next_event() { Event::Finished(_) => break, e => { let stop = matches!(e, Event::Ended(_) | Event::Hangup); handle(e, &mut ready); if stop { break } } } } }
            Ok(_) => { while let Some(e) = session.pending_event() { handle(e, &mut ready); } }
            Err(e) => return Ending::NotStarted(e.to_string()),
        }
        if let Some(e) = end { session.close(); drop(raw); return e; }
    }
}
