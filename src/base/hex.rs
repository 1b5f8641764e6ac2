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

#[cfg(test)]
mod tests {
    #[test]
    fn digits_are_in_order() {
        assert_eq!(super::encode(&[0, 0x1f, 0xa5, 0xff]), "001fa5ff");
    }
}
