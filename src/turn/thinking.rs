//! The thoughts of an answer, folded to one line when they end. Pure: the caller has the clock.

use std::time::Instant;

use super::estimate_tokens;

/// The thoughts of one answer.
#[derive(Clone, Debug, Default)]
pub struct Thinking {
    text: String,
    /// Time when the present stretch of thoughts began, and where in the text.
    open: Option<(Instant, usize)>,
}

impl Thinking {
    /// Takes a piece that arrived at `now`; true if a new stretch of thoughts begins with it.
    pub fn push(&mut self, piece: &str, now: Instant) -> bool {
        let begins = self.open.is_none();
        if begins {
            if !self.text.is_empty() {
                self.text.push_str("\n\n");
            }
            self.open = Some((now, self.text.len()));
        }
        self.text.push_str(piece);
        begins
    }

    /// Ends a stretch of thoughts, if one is open, with a line that replaces it. Its tokens are an estimate: the server
    /// reports its count with the end of the answer, and a line that is drawn isn't rewritten.
    pub fn fold(&mut self, now: Instant) -> Option<String> {
        let (begun, at) = self.open.take()?;
        let seconds = now.saturating_duration_since(begun).as_secs_f64();
        let seconds = if seconds < 9.95 { format!("{seconds:.1}") } else { format!("{seconds:.0}") };
        Some(format!("thought for {seconds} s, about {} tokens", estimate_tokens(&self.text[at..])))
    }

    /// All thoughts, raw; an empty line between stretches.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn each_stretch_is_one_line_and_all_of_them_stay() {
        let begun = Instant::now();
        let at = |ms| begun + Duration::from_millis(ms);
        let mut thinking = Thinking::default();
        assert_eq!(thinking.fold(at(0)), None);
        assert!(thinking.push("Let me ", at(0)));
        assert!(!thinking.push("see.", at(900)));
        assert_eq!(thinking.fold(at(1_240)).as_deref(), Some("thought for 1.2 s, about 3 tokens"));
        assert_eq!(thinking.fold(at(5_000)), None);
        assert!(thinking.push(&"é".repeat(40), at(6_000)));
        assert_eq!(thinking.fold(at(18_400)).as_deref(), Some("thought for 12 s, about 10 tokens"));
        assert_eq!(thinking.text(), format!("Let me see.\n\n{}", "é".repeat(40)));
    }
}
