//! Percent codes in addresses and forms (RFC 3986, section 2.1).

/// Writes bytes as a part of an address: letters, digits, `-`, `.`, `_`, `~` and the characters in `also` aren't escaped.
#[must_use]
pub fn encode(bytes: impl AsRef<[u8]>, also: &str) -> String {
    use std::fmt::Write as _;
    let bytes = bytes.as_ref();
    let mut text = String::with_capacity(bytes.len());
    for byte in bytes {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(byte) || also.as_bytes().contains(byte) {
            text.push(char::from(*byte));
        } else {
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}

/// Reads a part of an address; `None` if a `%` has no two hexadecimal digits, or the result isn't UTF-8.
#[must_use]
pub fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
                u8::try_from(digit(rest.next())? * 16 + digit(rest.next())?).ok()?
            }
            other => other,
        });
    }
    String::from_utf8(bytes).ok()
}

/// Reads a name or value of a form or query, in which `+` is a blank.
#[must_use]
pub fn decode_form(text: &str) -> Option<String> {
    decode(&text.replace('+', " "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percent_encoding_round_trips() {
        for text in ["", "a b", "ä/%+&=~", "a\nb", "-._~09AZaz"] {
            assert_eq!(decode(&encode(text, "")).as_deref(), Some(text));
            assert_eq!(decode_form(&encode(text, "/")).as_deref(), Some(text));
        }
        assert_eq!(encode("/a b:ä", "/:"), "/a%20b:%C3%A4");
        assert_eq!(decode_form("a+b%2B").as_deref(), Some("a b+"));
        for wrong in ["%", "%a", "%zz", "%+1", "%ff"] {
            assert_eq!(decode(wrong), None, "{wrong}");
        }
    }
}
