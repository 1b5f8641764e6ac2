//! The screen of a shared session as it is now, so that a late viewer begins with it instead of with all that was printed.

use std::num::NonZeroU16;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::render::ScreenFilter;

/// The largest screen.
const SIZE_MAX: u16 = 1_000;

/// An emulated screen.
pub struct Picture {
    /// None after the emulator has failed.
    parser: Option<vt100::Parser>,
    filter: ScreenFilter,
    size: (u16, u16),
}

impl Picture {
    /// An empty screen of a size, in columns and rows.
    pub fn new(columns: u16, rows: u16) -> Self {
        let size = (columns.clamp(1, SIZE_MAX), rows.clamp(1, SIZE_MAX));
        let parser = vt100::Parser::new(cells(size.1), cells(size.0), 0);
        Self { parser: Some(parser), filter: ScreenFilter::default(), size }
    }

    /// The size, in columns and rows.
    pub fn size(&self) -> (u16, u16) {
        self.size
    }

    /// Processes output of a program; returns the part that viewers may see.
    pub fn write(&mut self, bytes: &[u8]) -> String {
        let text = self.filter.push(bytes);
        self.draw(&text);
        text
    }

    /// Shows a line that was submitted, as a prompt would; returns what was written for that.
    pub fn line(&mut self, text: &str) -> String {
        let column = self.parser.as_ref().map_or(0, |parser| parser.screen().cursor_position().1);
        let begin = if column > 0 { "\r\n" } else { "" };
        let text = crate::render::sanitise(text).replace('\n', "\r\n  ").replace('\t', "    ");
        let written = format!("{begin}\x1b[0;1m❯\x1b[0m {text}\r\n");
        self.draw(&written);
        written
    }

    /// Changes the size.
    pub fn resize(&mut self, columns: u16, rows: u16) {
        self.size = (columns.clamp(1, SIZE_MAX), rows.clamp(1, SIZE_MAX));
        let size = self.size;
        self.try_draw(|parser| parser.set_size(cells(size.1), cells(size.0)));
    }

    fn draw(&mut self, text: &str) {
        self.try_draw(|parser| parser.process(text.as_bytes()));
    }

    /// Runs the emulator; if it fails, it is dropped, and viewers see only later output.
    fn try_draw(&mut self, work: impl FnOnce(&mut vt100::Parser)) {
        let Some(parser) = &mut self.parser else { return };
        if catch_unwind(AssertUnwindSafe(|| work(parser))).is_err() {
            tracing::error!(event = "share_screen_failed");
            self.parser = None;
        }
    }

    /// Returns the text that draws the screen on an empty terminal of the same size; `None` if the screen isn't known any more.
    pub fn redraw(&self) -> Option<String> {
        let screen = self.parser.as_ref()?.screen();
        let [usual_rows, other_rows] = self.filter.lasting();
        let placed = |screen: &vt100::Screen| screen.cursor_state_formatted() + &screen.attributes_formatted();
        // Where `ESC 8` leads, without which a program's next piece may be drawn elsewhere.
        let saved = |screen: &vt100::Screen| placed(&self.after(screen, "\x1b8")) + "\x1b7";
        if !screen.alternate_screen() {
            return Some(format!("{}{}{usual_rows}{}", screen.state_formatted(), saved(screen), placed(screen)));
        }
        // The usual screen is below the alternate one, so it is drawn first.
        let below = self.after(screen, "\x1b[?47l");
        Some(format!(
            "{}{}{usual_rows}{}\x1b[0m\x1b[?47h{}{}{other_rows}{}",
            below.contents_formatted(),
            saved(&below),
            below.cursor_state_formatted(),
            screen.state_formatted(),
            saved(screen),
            placed(screen)
        ))
    }

    /// Returns the screen as it would be after a sequence.
    fn after(&self, screen: &vt100::Screen, sequence: &str) -> vt100::Screen {
        let mut parser = vt100::Parser::new(cells(self.size.1), cells(self.size.0), 0);
        *parser.screen_mut() = screen.clone();
        parser.process(sequence.as_bytes());
        parser.screen().clone()
    }
}

fn cells(count: u16) -> NonZeroU16 {
    NonZeroU16::new(count).unwrap_or(NonZeroU16::MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Output of programs of several kinds.
    fn recordings() -> Vec<Vec<u8>> {
        let bar: String = (0..=100).map(|part| format!("\r\x1b[K[{:<50}] {part} %", "#".repeat(part / 2))).collect();
        let list: String =
            (0..120).map(|at| format!("\x1b[1;3{}mfile-{at}.txt\x1b[0m\t{}\r\n", at % 8, "x".repeat(at))).collect();
        let wide: String = (0..60).map(|at| format!("日本語 ünï e\u{301} {at}\r\n\x1b[{at}C|\x08*\r\n")).collect();
        let lines: String = (0..40).map(|at| format!("\x1b(0lqqqk\x1b(B {at}\r\n\x1b(0x   x\x1b(B\r\n")).collect();
        let top: String = (0..30)
            .map(|at| {
                format!("\x1b[H\x1b[7mload {at}\x1b[0m\x1b[K\r\n{}\x1b[J", "  1 root  sleep\x1b[K\r\n".repeat(at % 20))
            })
            .collect();
        // A full-screen editor: the other half, rows that scroll, inserted and deleted lines, and back.
        let mut editor = String::from("before\r\n\x1b[0m\x1b[?1049h\x1b[?1h\x1b[1;23r\x1b[H\x1b[2J");
        for at in 0..60 {
            editor.push_str(&format!("\x1b[{};1H\x1b[3{}mline {at}\x1b[0m", at % 23 + 1, at % 8));
            editor.push_str(
                ["\x1b[23;1H\n", "\x1b[5;1H\x1b[2L", "\x1b[7;3H\x1b[4P", "\x1b[1;1H\x1bM", "\x1b[9;2H\x1b[3@"][at % 5],
            );
        }
        editor.push_str("\x1b[r\x1b[?1l\x1b[0m\x1b[?1049lafter\r\n");
        let mut all: Vec<Vec<u8>> = [bar, list, wide, lines, top, editor].map(String::into_bytes).to_vec();
        // And thirty-four that no person would write, from a fixed seed.
        let mut seed = 7_u32;
        let mut pick = move |most: u32| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 8) % most
        };
        while all.len() < 40 {
            let mut text = String::new();
            while text.len() < 5_000 {
                let (row, column) = (pick(24) + 1, pick(80) + 1);
                text.push_str(&match pick(12) {
                    0 => format!("\x1b[{row};{column}H"),
                    1 => format!("\x1b[3{}m", pick(8)),
                    2 => "\r\n".to_owned(),
                    3 => format!("\x1b[{}J", pick(3)),
                    4 => format!("\x1b[{}K", pick(3)),
                    5 => format!("\x1b[{}L", pick(3) + 1),
                    6 => format!("\x1b[{}P", pick(9) + 1),
                    7 => format!("\x1b[{row};24r"),
                    8 if pick(8) == 0 => "\x1b[0m\x1b[?1049h".to_owned(),
                    9 if pick(8) == 0 => "\x1b[0m\x1b[?1049l".to_owned(),
                    10 => "日本 wide".to_owned(),
                    _ => "some words ".to_owned(),
                });
            }
            all.push(text.into_bytes());
        }
        all.extend(programs());
        all
    }

    /// Output of real programs on a terminal with 80 columns and 24 lines.
    fn programs() -> Vec<Vec<u8>> {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/screens");
        let files = std::fs::read_dir(folder).expect("recordings");
        let mut paths: Vec<_> = files.map(|entry| entry.expect("a file").path()).collect();
        paths.sort();
        paths.iter().map(|path| std::fs::read(path).expect("a recording")).collect()
    }

    fn seen(screen: &vt100::Screen) -> (String, (u16, u16), bool) {
        (screen.contents_formatted(), screen.cursor_position(), screen.alternate_screen())
    }

    #[test]
    fn scenario_53_a_late_viewers_screen_is_that_of_the_whole_output() {
        for (number, bytes) in recordings().iter().enumerate() {
            let mut picture = Picture::new(80, 24);
            let mut viewers: Vec<vt100::Parser> = Vec::new();
            for piece in bytes.chunks(1_000) {
                let text = picture.write(piece);
                viewers.iter_mut().for_each(|viewer| viewer.process(text.as_bytes()));
                let mut late = vt100::Parser::new(cells(24), cells(80), 0);
                late.process(picture.redraw().expect("a screen").as_bytes());
                viewers.push(late);
                let whole = seen(picture.parser.as_ref().expect("a screen").screen());
                for (at, viewer) in viewers.iter().enumerate() {
                    assert_eq!(seen(viewer.screen()), whole, "recording {number}, joined at {at}");
                }
            }
        }
    }

    proptest::proptest! {
        #[test]
        fn scenario_43_any_output_is_drawn_and_commands_no_viewers_terminal(
            pieces in proptest::collection::vec(proptest::collection::vec(proptest::prelude::any::<u8>(), 0..80), 0..8)
        ) {
            let mut picture = Picture::new(20, 5);
            for piece in pieces {
                let text = picture.write(&piece);
                for forbidden in ["\x1b]", "\x1bP", "\x1b_", "\x1b^", "\x1b[6n", "\x1b[c"] {
                    proptest::prop_assert!(!text.contains(forbidden), "{:?}", text);
                }
            }
        }
    }

    #[test]
    fn a_line_is_shown_below_what_was_printed_and_a_size_is_bearable() {
        let mut picture = Picture::new(20, 5);
        picture.write(b"no line feed");
        assert_eq!(picture.line("ls\x1b[2J -l"), "\r\n\x1b[0;1m❯\x1b[0m ls -l\r\n");
        assert_eq!(picture.line("two\nlines"), "\x1b[0;1m❯\x1b[0m two\r\n  lines\r\n");
        picture.resize(0, u16::MAX);
        assert_eq!(picture.size(), (1, SIZE_MAX));
        picture.write("日本\x1b[9;9Hx".as_bytes());
        assert!(picture.redraw().is_some());
    }
}
