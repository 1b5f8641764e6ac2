//! The screen of a shared session: any output is drawn, and what viewers get of it commands no terminal.
#![no_main]

use libfuzzer_sys::fuzz_target;
use reedclaw::gateway::Picture;

fuzz_target!(|pieces: Vec<Vec<u8>>| {
    let mut picture = Picture::new(20, 5);
    for piece in &pieces {
        let text = picture.write(piece);
        for forbidden in ["\x1b]", "\x1bP", "\x1b_", "\x1b^", "\x1b[6n", "\x1b[c"] {
            assert!(!text.contains(forbidden), "{text:?}");
        }
    }
    let _ = (picture.line("ls -l"), picture.redraw());
});
