//! An address as a QR code in block characters, for a phone's camera.

use nu_ansi_term::Color;
use qrcodegen::{QrCode, QrCodeEcc};

/// Modules of the light edge that cameras need.
const EDGE: i32 = 2;

/// Returns lines for a terminal, two rows of the code in each, dark on light whatever the terminal's colours are; `None` if the
/// text is too long for a code.
pub(super) fn drawn(text: &str) -> Option<String> {
    let code = QrCode::encode_text(text, QrCodeEcc::Low).ok()?;
    let paint = Color::Black.on(Color::White);
    let ends = -EDGE..code.size() + EDGE;
    let row = |y: i32| {
        let cell = |x: i32| match (code.get_module(x, y), code.get_module(x, y + 1)) {
            (true, true) => '█',
            (true, false) => '▀',
            (false, true) => '▄',
            (false, false) => ' ',
        };
        paint.paint(ends.clone().map(cell).collect::<String>()).to_string()
    };
    Some(ends.clone().step_by(2).map(row).collect::<Vec<_>>().join("\n"))
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_code_is_square_and_has_a_light_edge() {
        let drawn = super::drawn("https://team.example/ui/#pair=ABCD-EFGH-JKLM").expect("a code");
        let plain = crate::render::strip_controls(drawn.as_bytes());
        let rows: Vec<&str> = plain.lines().collect();
        let width = rows[0].chars().count();
        assert_eq!(rows.len(), width.div_ceil(2), "{plain}");
        assert!(rows.iter().all(|row| row.chars().count() == width && row.starts_with("  ") && row.ends_with("  ")));
        assert!(rows[0].trim().is_empty() && rows[1].contains("█▀▀▀▀▀█"), "{plain}");
        assert_eq!(super::drawn(&"x".repeat(3_000)), None);
    }
}
