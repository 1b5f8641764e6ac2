//! Backslash escapes, as `$'…'` and `echo -e` have them.

/// Reads backslash escapes: those of `$'…'`, or with `ansi` false those of `echo -e`, `printf` and `%b`.
pub(crate) fn unescaped(text: &str, ansi: bool) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    let mut buffer = [0; 4];
    while let Some(c) = rest.next() {
        if c != '\\' {
            bytes.extend_from_slice(c.encode_utf8(&mut buffer).as_bytes());
            continue;
        }
        let digits = |rest: &mut std::iter::Peekable<std::str::Chars<'_>>, radix: u32, most: usize| {
            let mut value = None;
            for _ in 0..most {
                let Some(digit) = rest.peek().and_then(|c| c.to_digit(radix)) else { break };
                value = Some(value.unwrap_or(0_u32) * radix + digit);
                rest.next();
            }
            value
        };
        let letter = rest.next().unwrap_or('\\');
        let code = match letter {
            'n' => Some(10),
            't' => Some(9),
            'r' => Some(13),
            'a' => Some(7),
            'b' => Some(8),
            'e' | 'E' => Some(27),
            'f' => Some(12),
            'v' => Some(11),
            'x' => digits(&mut rest, 16, 2).map(|value| value & 0xff),
            '0'..='7' => {
                let first = letter.to_digit(8).unwrap_or(0);
                let most = if letter == '0' && !ansi { 3 } else { 2 };
                let more = rest.clone().take(most).take_while(|c| c.is_digit(8)).count();
                let tail = digits(&mut rest, 8, most).unwrap_or(0);
                Some((first * 8_u32.pow(u32::try_from(more).unwrap_or(0)) + tail) & 0xff)
            }
            'u' | 'U' => {
                let value = digits(&mut rest, 16, if letter == 'u' { 4 } else { 8 });
                if let Some(c) = value.and_then(char::from_u32) {
                    bytes.extend_from_slice(c.encode_utf8(&mut buffer).as_bytes());
                    continue;
                }
                None
            }
            'c' if ansi => rest.next().map(|c| u32::from(c) & 0x1f),
            'c' => break,
            '\\' => Some(92),
            '\'' | '"' | '?' if ansi => Some(u32::from(letter)),
            '"' | '\'' => Some(u32::from(letter)),
            _ => None,
        };
        match code {
            Some(0) if ansi => {}
            Some(code) => bytes.push(u8::try_from(code).unwrap_or(b'?')),
            None => {
                bytes.push(b'\\');
                bytes.extend_from_slice(letter.encode_utf8(&mut buffer).as_bytes());
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Cuts `${name:offset:length}` out of a known value.
pub(crate) fn sliced(text: &str, offset: i64, length: Option<i64>) -> String {
    let total = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
    let from = (if offset < 0 { total.saturating_add(offset) } else { offset }).clamp(0, total);
    let to = match length {
        None => total,
        Some(length) if length < 0 => total.saturating_add(length),
        Some(length) => from.saturating_add(length).min(total),
    };
    let count = usize::try_from(to.saturating_sub(from)).unwrap_or(0);
    text.chars().skip(usize::try_from(from).unwrap_or(0)).take(count).collect()
}

/// Changes the letters of a known value as `${name^}`, `${name,,}` do.
pub(crate) fn cased(text: &str, letter: char, all: bool) -> String {
    let change = |text: &str| if letter == '^' { text.to_uppercase() } else { text.to_lowercase() };
    if all {
        return change(text);
    }
    let first = text.chars().next().map_or(0, char::len_utf8);
    format!("{}{}", change(&text[..first]), &text[first..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_read_as_bash_reads_them() {
        for (text, ansi, plain) in [
            (r"\x72\155", true, "rm"),
            (r"a\tb\\", true, "a\tb\\"),
            (r"\u0041\'", true, "A'"),
            (r"\0162m", false, "rm"),
            (r"a\cb", false, "a"),
            (r"\q", true, "\\q"),
        ] {
            assert_eq!(unescaped(text, ansi), plain, "{text}");
        }
    }
}
