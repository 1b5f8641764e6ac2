//! Data about persons by its form: mail addresses, phone numbers, bank accounts (IBAN) and payment cards. Numbers with a check
//! digit count only if it fits.

use std::ops::Range;

/// Digits of a payment card.
const CARD: std::ops::RangeInclusive<usize> = 13..=19;
/// Digits of an international phone number.
const PHONE: std::ops::RangeInclusive<usize> = 8..=15;
/// Letters and digits of an IBAN.
const IBAN: std::ops::RangeInclusive<usize> = 15..=34;

/// Finds personal data: kinds and places, in no order.
pub(super) fn find(text: &str) -> Vec<(&'static str, Range<usize>)> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    for at in memchr::memchr_iter(b'@', bytes) {
        found.extend(mail(bytes, at).map(|range| ("mail address", range)));
    }
    let mut at = 0;
    while at < bytes.len() {
        let is_start = at == 0 || !is_word(bytes[at - 1]);
        let seen = match bytes[at] {
            _ if !is_start => None,
            b'+' if bytes.get(at + 1).is_some_and(u8::is_ascii_digit) => {
                numbers(bytes, at + 1, b" -()./").filter(|it| PHONE.contains(&it.0)).map(|it| ("phone number", it.1))
            }
            b'0'..=b'9' => card(bytes, at).map(|end| ("payment card", end)),
            b'A'..=b'Z' => iban(bytes, at).map(|end| ("bank account", end)),
            _ => None,
        };
        at = match seen {
            Some((kind, end)) => {
                found.push((kind, at..end));
                end
            }
            None => at + 1,
        };
    }
    found
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

fn mail(bytes: &[u8], at: usize) -> Option<Range<usize>> {
    let is_local = |byte: &u8| byte.is_ascii_alphanumeric() || b"._%+-".contains(byte);
    let is_domain = |byte: &u8| byte.is_ascii_alphanumeric() || b".-".contains(byte);
    let start = at - bytes[..at].iter().rev().take_while(|byte| is_local(byte)).count();
    let mut end = at + 1 + bytes[at + 1..].iter().take_while(|byte| is_domain(byte)).count();
    while end > at + 1 && b".-".contains(&bytes[end - 1]) {
        end -= 1;
    }
    let domain = &bytes[at + 1..end];
    let last = domain.rsplit(|byte| *byte == b'.').next().unwrap_or_default();
    let is_name = last.len() >= 2 && last.len() < domain.len() && last.iter().all(u8::is_ascii_alphabetic);
    (start < at && is_name).then_some(start..end)
}

/// The digits from a place on, with single signs of `between` among them: how many, and where they end.
fn numbers(bytes: &[u8], from: usize, between: &[u8]) -> Option<(usize, usize)> {
    let (mut count, mut end, mut at) = (0, from, from);
    while let Some(byte) = bytes.get(at) {
        if byte.is_ascii_digit() {
            count += 1;
            end = at + 1;
        } else if !between.contains(byte) || at > end + 1 {
            break;
        }
        at += 1;
    }
    let goes_on = bytes.get(end).is_some_and(|byte| is_word(*byte));
    (count > 0 && !goes_on).then_some((count, end))
}

/// The end of a payment card's number that begins here.
fn card(bytes: &[u8], from: usize) -> Option<usize> {
    let (count, end) = numbers(bytes, from, b" -")?;
    let digits: Vec<u32> =
        bytes[from..end].iter().filter(|it| it.is_ascii_digit()).map(|it| u32::from(it - b'0')).collect();
    // Luhn's check: every second digit from the end counts twice.
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(place, digit)| if place.is_multiple_of(2) { *digit } else { digit * 2 - if *digit > 4 { 9 } else { 0 } })
        .sum();
    (CARD.contains(&count) && (2..=6).contains(&digits[0]) && sum.is_multiple_of(10)).then_some(end)
}

/// The end of an IBAN that begins here.
fn iban(bytes: &[u8], from: usize) -> Option<usize> {
    let head = bytes.get(from..from + 4)?;
    if !(head[1].is_ascii_uppercase() && head[2].is_ascii_digit() && head[3].is_ascii_digit()) {
        return None;
    }
    let (mut signs, mut ends) = (Vec::new(), Vec::new());
    let mut at = from;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'0'..=b'9' | b'A'..=b'Z' if signs.len() < *IBAN.end() => {
                signs.push(*byte);
                ends.push(at + 1);
            }
            // In print there are groups of four.
            b' ' if signs.len().is_multiple_of(4) && bytes[at - 1] != b' ' => {}
            _ => break,
        }
        at += 1;
    }
    // The next characters may be a word in capital letters, so the longest number that fits counts.
    (*IBAN.start()..=signs.len()).rev().find_map(|count| {
        let end = ends[count - 1];
        let goes_on = bytes.get(end).is_some_and(|byte| is_word(*byte));
        let rest = signs[4..count].iter().chain(&signs[..4]).fold(0_u32, |rest, sign| match sign {
            b'0'..=b'9' => (rest * 10 + u32::from(sign - b'0')) % 97,
            _ => (rest * 100 + u32::from(sign - b'A') + 10) % 97,
        });
        (!goes_on && rest == 1).then_some(end)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<(&'static str, &str)> {
        let mut found = find(text);
        found.sort_by_key(|(_, range)| range.start);
        found.into_iter().map(|(kind, range)| (kind, &text[range])).collect()
    }

    #[test]
    fn personal_data_is_found_by_its_form_and_its_check_digit() {
        assert_eq!(kinds("Write to eva.maier+x@mail.example.org."), [("mail address", "eva.maier+x@mail.example.org")]);
        assert_eq!(kinds("card 4111 1111 1111 1111, ok"), [("payment card", "4111 1111 1111 1111")]);
        assert_eq!(kinds("5555-5555-5555-4444"), [("payment card", "5555-5555-5555-4444")]);
        assert_eq!(kinds("to DE89 3704 0044 0532 0130 00 AND"), [("bank account", "DE89 3704 0044 0532 0130 00")]);
        assert_eq!(kinds("GB82WEST12345698765432"), [("bank account", "GB82WEST12345698765432")]);
        assert_eq!(kinds("call +49 (30) 901820-0 now"), [("phone number", "+49 (30) 901820-0")]);
        assert_eq!(kinds("ä@b.de x@ü.de").len(), 0);
    }

    #[test]
    fn other_numbers_and_names_stay() {
        for text in [
            "4111 1111 1111 1112",
            "DE89370400440532013001",
            "git@github",
            "user@host:/path",
            "1234567890123456789012",
            "2026-11-23T10:03:32",
            "x4111111111111111",
            "4111111111111111x",
            "a + 12345678 - 3",
            "@media (min-width: 3px)",
            "v1.2.3+20260101000000000",
            "",
            "@",
            "+",
        ] {
            assert_eq!(kinds(text), [], "{text}");
        }
    }
}
