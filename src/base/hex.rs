//! Hexadecimal text.

/// Writes bytes as lower-case hexadecimal digits.
#[must_use]
pub fn encode(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        text.push(DIGITS[usize::from(byte >> 4)] as char);
        text.push(DIGITS[usize::from(byte & 15)] as char);
    }
    text
}

/// Reads lower-case hexadecimal digits of exactly `N` bytes.
#[must_use]
pub fn decode<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if pairs.len() != N || !rest.is_empty() {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    #[test]
    fn digits_are_in_order() {
        assert_eq!(super::encode(&[0, 0x1f, 0xa5, 0xff]), "001fa5ff");
    }

    #[test]
    fn encoded_bytes_decode_to_the_same() {
        assert_eq!(super::decode("001fa5ff"), Some([0, 0x1f, 0xa5, 0xff]));
        for wrong in ["001fa5f", "001fa5ff00", "001FA5FF", "001fa5fg", ""] {
            assert_eq!(super::decode::<4>(wrong), None, "{wrong}");
        }
    }
}
