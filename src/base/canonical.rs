//! Canonical JSON (RFC 8785): one text for each value, so that equal values have equal hashes on every machine.

use std::fmt::Write as _;

use serde_json::Value;

/// The largest integer that a double holds without loss.
const INTEGER_MAX: u64 = 1 << 53;

/// The reason why a value has no canonical text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CanonicalError {
    /// An integer that a double can't hold.
    #[error("the integer {0} is outside ±2^53 and would change as a double")]
    Integer(String),
    /// The value is nested too deeply.
    #[error("the value is nested deeper than {0} levels")]
    Deep(usize),
}

/// Writes a value in its canonical form; `depth_max` limits the nesting of arrays and objects.
///
/// # Errors
/// An integer would change as a double, or the value is too deep.
pub fn canonical(value: &Value, depth_max: usize) -> Result<String, CanonicalError> {
    let mut text = String::new();
    write(value, depth_max, depth_max, &mut text)?;
    Ok(text)
}

fn write(value: &Value, depth_max: usize, left: usize, text: &mut String) -> Result<(), CanonicalError> {
    match value {
        Value::Null => text.push_str("null"),
        Value::Bool(is_true) => text.push_str(if *is_true { "true" } else { "false" }),
        Value::Number(number) => match (number.as_u64(), number.as_i64()) {
            (Some(whole), _) if whole <= INTEGER_MAX => push_display(text, whole),
            (_, Some(whole)) if whole.unsigned_abs() <= INTEGER_MAX => push_display(text, whole),
            (None, None) => text.push_str(&double(number.as_f64().unwrap_or_default())),
            // A larger one is allowed if its double is written with exactly the same digits.
            _ => {
                let written = double(number.as_f64().unwrap_or_default());
                if written != number.to_string() {
                    return Err(CanonicalError::Integer(number.to_string()));
                }
                text.push_str(&written);
            }
        },
        Value::String(string) => quote(string, text),
        Value::Array(items) => {
            let left = left.checked_sub(1).ok_or(CanonicalError::Deep(depth_max))?;
            text.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    text.push(',');
                }
                write(item, depth_max, left, text)?;
            }
            text.push(']');
        }
        Value::Object(fields) => {
            let left = left.checked_sub(1).ok_or(CanonicalError::Deep(depth_max))?;
            let mut sorted: Vec<_> = fields.iter().collect();
            // The standard sorts by UTF-16 units; that differs from bytes only beyond the basic plane.
            if !sorted.iter().all(|(name, _)| name.is_ascii()) {
                sorted.sort_by(|(one, _), (other, _)| one.encode_utf16().cmp(other.encode_utf16()));
            } else if !sorted.is_sorted_by_key(|(name, _)| *name) {
                sorted.sort_by_key(|(name, _)| *name);
            }
            text.push('{');
            for (at, (name, field)) in sorted.into_iter().enumerate() {
                if at > 0 {
                    text.push(',');
                }
                quote(name, text);
                text.push(':');
                write(field, depth_max, left, text)?;
            }
            text.push('}');
        }
    }
    Ok(())
}

fn push_display(text: &mut String, value: impl std::fmt::Display) {
    let _ = write!(text, "{value}");
}

/// Writes a string in quotes, with as few escapes as the standard allows.
pub fn quote(string: &str, text: &mut String) {
    text.push('"');
    if !string.bytes().any(|byte| byte < b' ' || byte == b'"' || byte == b'\\') {
        text.push_str(string);
        text.push('"');
        return;
    }
    for character in string.chars() {
        match character {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\u{8}' => text.push_str("\\b"),
            '\t' => text.push_str("\\t"),
            '\n' => text.push_str("\\n"),
            '\u{c}' => text.push_str("\\f"),
            '\r' => text.push_str("\\r"),
            control if control < ' ' => {
                let _ = write!(text, "\\u{:04x}", u32::from(control));
            }
            other => text.push(other),
        }
    }
    text.push('"');
}

/// Writes a double as ECMAScript does (Number::toString); JSON has none that isn't finite.
fn double(number: f64) -> String {
    if number == 0.0 {
        return "0".to_owned();
    }
    let sign = if number < 0.0 { "-" } else { "" };
    // Rust prints the shortest digits that read back as the same number, as ECMAScript does.
    let shortest = format!("{:e}", number.abs());
    let (mantissa, exponent) = shortest.split_once('e').unwrap_or((&shortest, "0"));
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    let point = exponent.parse::<i32>().unwrap_or_default() + 1;
    let count = i32::try_from(digits.len()).unwrap_or(i32::MAX);
    let zeros = |many: i32| "0".repeat(usize::try_from(many).unwrap_or_default());
    let body = if (count..=21).contains(&point) {
        format!("{digits}{}", zeros(point - count))
    } else if (1..=21).contains(&point) {
        let (whole, rest) = digits.split_at(usize::try_from(point).unwrap_or_default());
        format!("{whole}.{rest}")
    } else if (-5..=0).contains(&point) {
        format!("0.{}{digits}", zeros(-point))
    } else {
        let (first, rest) = digits.split_at(1);
        let rest = if rest.is_empty() { String::new() } else { format!(".{rest}") };
        let direction = if point > 0 { '+' } else { '-' };
        format!("{first}{rest}e{direction}{}", (point - 1).abs())
    };
    format!("{sign}{body}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_are_written_as_in_the_standards_appendix() {
        // RFC 8785, appendix B.
        for (bits, text) in [
            (0x0000_0000_0000_0000_u64, "0"),
            (0x8000_0000_0000_0000, "0"),
            (0x0000_0000_0000_0001, "5e-324"),
            (0x8000_0000_0000_0001, "-5e-324"),
            (0x7fef_ffff_ffff_ffff, "1.7976931348623157e+308"),
            (0x4340_0000_0000_0000, "9007199254740992"),
            (0x4430_0000_0000_0000, "295147905179352830000"),
            (0x44b5_2d02_c7e1_4af5, "9.999999999999997e+22"),
            (0x44b5_2d02_c7e1_4af6, "1e+23"),
            (0x444b_1ae4_d6e2_ef4e, "999999999999999700000"),
            (0x444b_1ae4_d6e2_ef50, "1e+21"),
            (0x3eb0_c6f7_a0b5_ed8d, "0.000001"),
            (0x3eb0_c6f7_a0b5_ed8c, "9.999999999999997e-7"),
            (0x41b3_de43_5555_5555, "333333333.3333333"),
            (0xbecb_f647_612f_3696, "-0.0000033333333333333333"),
        ] {
            assert_eq!(double(f64::from_bits(bits)), text, "{bits:x}");
        }
    }

    #[test]
    fn names_are_sorted_by_utf_16_and_text_is_escaped_no_more_than_needed() {
        let value = json!({"\u{20ac}": 1, "\r": 2, "\u{fb33}": 3, "1": 4, "\u{1f600}": 5, "\u{80}": 6, "ö": 7});
        let text = canonical(&value, 8).expect("a text");
        assert_eq!(text, "{\"\\r\":2,\"1\":4,\"\u{80}\":6,\"ö\":7,\"\u{20ac}\":1,\"\u{1f600}\":5,\"\u{fb33}\":3}");
        assert_eq!(canonical(&json!("\u{1}\"\\/é\n"), 8).as_deref(), Ok("\"\\u0001\\\"\\\\/é\\n\""));
    }

    #[test]
    fn numbers_beyond_a_double_and_deep_nesting_are_refused() {
        assert!(canonical(&json!(9_007_199_254_740_993_u64), 8).is_err());
        assert!(canonical(&json!(-9_007_199_254_740_993_i64), 8).is_err());
        assert_eq!(canonical(&json!(9_007_199_254_740_992_u64), 8).as_deref(), Ok("9007199254740992"));
        assert!(canonical(&json!([[[1]]]), 2).is_err() && canonical(&json!([[1]]), 2).is_ok());
    }

    proptest! {
        #[test]
        fn a_canonical_text_is_read_back_as_the_same_text(number in any::<f64>(), name in ".*", text in ".*") {
            prop_assume!(number.is_finite());
            let value = json!({name: [text, number]});
            let once = canonical(&value, 8).expect("a text");
            let again: Value = serde_json::from_str(&once).expect("JSON");
            prop_assert_eq!(canonical(&again, 8).expect("a text"), once);
        }
    }
}
