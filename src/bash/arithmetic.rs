//! Values of bash's arithmetic, as far as numbers and known variables go. An expression with a side effect isn't
//! calculated.

/// Calculates an expression; `None` if it isn't known.
pub(crate) fn calculate(text: &str, look: &dyn Fn(&str) -> Option<i64>) -> Option<i64> {
    if text.len() > 256 {
        return None;
    }
    let mut reader = Reader { text: text.as_bytes(), at: 0, look, depth: 0 };
    let value = reader.bits(0)?;
    reader.blanks();
    (reader.at == text.len()).then_some(value)
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
    look: &'a dyn Fn(&str) -> Option<i64>,
    depth: usize,
}

impl Reader<'_> {
    fn blanks(&mut self) {
        while self.text.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
    }

    fn next_is(&mut self, wanted: &[u8]) -> Option<u8> {
        self.blanks();
        let byte = *self.text.get(self.at)?;
        // `**`, `<<`, `+=` and the like aren't calculated.
        let next = self.text.get(self.at + 1).copied().unwrap_or(b' ');
        if !wanted.contains(&byte) || next == b'=' || next == byte && byte != b'-' {
            return None;
        }
        self.at += 1;
        Some(byte)
    }

    /// `|`, `^`, `&`, each below the one before, and shifts below all.
    fn bits(&mut self, level: usize) -> Option<i64> {
        let Some(sign) = b"|^&".get(level) else { return self.shifted() };
        let mut value = self.bits(level + 1)?;
        while self.next_is(&[*sign]).is_some() {
            let other = self.bits(level + 1)?;
            value = match sign {
                b'|' => value | other,
                b'^' => value ^ other,
                _ => value & other,
            };
        }
        Some(value)
    }

    fn shifted(&mut self) -> Option<i64> {
        let mut value = self.sum()?;
        loop {
            self.blanks();
            let rest = self.text.get(self.at..).unwrap_or_default();
            let is_left = rest.starts_with(b"<<");
            if !(is_left || rest.starts_with(b">>")) || rest.get(2) == Some(&b'=') {
                return Some(value);
            }
            self.at += 2;
            let by = u32::try_from(self.sum()?).ok().filter(|by| *by < 63)?;
            value = if is_left { value.checked_mul(1_i64 << by)? } else { value >> by };
        }
    }

    fn sum(&mut self) -> Option<i64> {
        let mut value = self.term()?;
        while let Some(sign) = self.next_is(b"+-") {
            let other = self.term()?;
            value = if sign == b'+' { value.checked_add(other)? } else { value.checked_sub(other)? };
        }
        Some(value)
    }

    fn term(&mut self) -> Option<i64> {
        let mut value = self.factor()?;
        while let Some(sign) = self.next_is(b"*/%") {
            let other = self.factor()?;
            value = match sign {
                b'*' => value.checked_mul(other)?,
                b'/' => value.checked_div(other)?,
                _ => value.checked_rem(other)?,
            };
        }
        Some(value)
    }

    fn factor(&mut self) -> Option<i64> {
        self.blanks();
        self.depth += 1;
        if self.depth > 32 {
            return None;
        }
        let start = self.at;
        match *self.text.get(self.at)? {
            b'(' => {
                self.at += 1;
                let value = self.bits(0)?;
                self.blanks();
                (self.text.get(self.at) == Some(&b')')).then(|| self.at += 1)?;
                Some(value)
            }
            b'-' => {
                self.at += 1;
                self.factor()?.checked_neg()
            }
            b'+' => {
                self.at += 1;
                self.factor()
            }
            byte if byte.is_ascii_alphanumeric() || byte == b'_' => {
                while self
                    .text
                    .get(self.at)
                    .is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_' || *byte == b'#')
                {
                    self.at += 1;
                }
                let word = std::str::from_utf8(&self.text[start..self.at]).ok()?;
                if byte.is_ascii_digit() { number(word) } else { (self.look)(word) }
            }
            _ => None,
        }
    }
}

fn number(word: &str) -> Option<i64> {
    if let Some(digits) = word.strip_prefix("0x").or_else(|| word.strip_prefix("0X")) {
        return i64::from_str_radix(digits, 16).ok();
    }
    if let Some((base, digits)) = word.split_once('#') {
        let base = base.parse().ok().filter(|base| (2..=36).contains(base))?;
        return i64::from_str_radix(digits, base).ok();
    }
    if word.len() > 1 && word.starts_with('0') {
        return i64::from_str_radix(word, 8).ok();
    }
    word.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_calculated_and_effects_are_not() {
        let look = |name: &str| (name == "x").then_some(5);
        for (text, value) in [
            ("1+2*3", Some(7)),
            ("(1+2)*3", Some(9)),
            ("x-1", Some(4)),
            ("0x10 + 010 + 2#11", Some(27)),
            ("-1", Some(-1)),
            ("y", None),
            ("x=3", None),
            ("x++", None),
            ("04000 | 0755", Some(0o4755)),
            ("1 << 11 | 6 & 3 ^ 1", Some(2048 | 3)),
            ("x || 1", None),
            ("x <<= 1", None),
            ("1/0", None),
            ("", None),
        ] {
            assert_eq!(calculate(text, &look), value, "{text}");
        }
    }
}
