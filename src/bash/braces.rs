//! Brace expansion: `{a,b}` and `{1..9}` in a word → the resulting words.

use super::syntax::Part;

/// Limit on the words from one brace expansion.
const BRACES_MAX: usize = 1000;
/// Numbers of a sequence that are followed one by one.
const SEQUENCE_MAX: usize = 256;

/// A character of a word outside quotes, or a part of the word.
#[derive(Clone)]
enum Unit<'a> {
    Plain(char),
    Part(&'a Part),
}

/// Expands braces. `None` if there are none, `Some(None)` if there are too many results.
pub(crate) fn braces(parts: &[Part]) -> Option<Option<Vec<Vec<Part>>>> {
    let has = |c: char| parts.iter().any(|part| matches!(part, Part::Plain(text) if text.contains(c)));
    if !has('{') || !has('}') {
        return None;
    }
    let mut units = Vec::new();
    for part in parts {
        match part {
            Part::Plain(text) => units.extend(text.chars().map(Unit::Plain)),
            part => units.push(Unit::Part(part)),
        }
    }
    let mut made = Vec::new();
    if !unbrace(Vec::new(), &units, &mut made, 0) {
        return Some(None);
    }
    let join = |units: Vec<Unit<'_>>| {
        let mut parts: Vec<Part> = Vec::new();
        for unit in units {
            match (unit, parts.last_mut()) {
                (Unit::Plain(c), Some(Part::Plain(text))) => text.push(c),
                (Unit::Plain(c), _) => parts.push(Part::Plain(c.into())),
                (Unit::Part(part), _) => parts.push(part.clone()),
            }
        }
        parts
    };
    Some(Some(made.into_iter().map(join).collect()))
}

/// Expands the first braces of `rest` after `head`, and the rest of the word; false if there are too many results.
fn unbrace<'a>(head: Vec<Unit<'a>>, rest: &[Unit<'a>], made: &mut Vec<Vec<Unit<'a>>>, depth: usize) -> bool {
    if made.len() >= BRACES_MAX || depth > 32 {
        return false;
    }
    let mut from = 0;
    while let Some(open) = rest[from..].iter().position(|unit| matches!(unit, Unit::Plain('{'))) {
        let open = from + open;
        let Some((close, commas)) = closing(&rest[open..]) else {
            from = open + 1;
            continue;
        };
        let inner = &rest[open + 1..open + close];
        let choices: Vec<Vec<Unit<'a>>> = if commas.is_empty() {
            match sequence(inner) {
                Some(Some(choices)) => choices,
                Some(None) => return false,
                None => {
                    from = open + 1;
                    continue;
                }
            }
        } else {
            let mut at = 0;
            let ends = commas.iter().map(|comma| comma - 1).chain([inner.len()]);
            let mut choices = Vec::new();
            for end in ends {
                choices.push(inner[at..end].to_vec());
                at = end + 1;
            }
            choices
        };
        let before: Vec<Unit<'a>> = head.iter().chain(&rest[..open]).cloned().collect();
        for choice in choices {
            let whole: Vec<Unit<'a>> = choice.into_iter().chain(rest[open + close + 1..].iter().cloned()).collect();
            if !unbrace(before.clone(), &whole, made, depth + 1) {
                return false;
            }
        }
        return true;
    }
    made.push(head.into_iter().chain(rest.iter().cloned()).collect());
    true
}

/// The index of the brace that closes `units`, and those of the commas between them.
fn closing(units: &[Unit<'_>]) -> Option<(usize, Vec<usize>)> {
    let (mut depth, mut commas) = (0, Vec::new());
    for (at, unit) in units.iter().enumerate() {
        match unit {
            Unit::Plain('{') => depth += 1,
            Unit::Plain('}') if depth == 1 => return Some((at, commas)),
            Unit::Plain('}') => depth -= 1,
            Unit::Plain(',') if depth == 1 => commas.push(at),
            _ => {}
        }
    }
    None
}

/// The items of a sequence; `None` if there is none, `Some(None)` if it is too long.
fn sequence<'a>(inner: &[Unit<'a>]) -> Option<Option<Vec<Vec<Unit<'a>>>>> {
    let text: Option<String> =
        inner.iter().map(|unit| if let Unit::Plain(c) = unit { Some(*c) } else { None }).collect();
    let text = text?;
    let mut ends = text.split("..");
    let (first, last, step) = (ends.next()?, ends.next()?, ends.next());
    let step = step.map_or(Some(1), |step| step.parse::<i64>().ok())?.abs().max(1);
    let is_letter = |end: &str| end.chars().count() == 1 && end.chars().all(|c| c.is_ascii_alphabetic());
    let (from, to, letters) = if is_letter(first) && is_letter(last) {
        (i64::from(first.as_bytes()[0]), i64::from(last.as_bytes()[0]), true)
    } else {
        (first.parse::<i64>().ok()?, last.parse::<i64>().ok()?, false)
    };
    let count = usize::try_from(from.abs_diff(to)).unwrap_or(usize::MAX) / usize::try_from(step).unwrap_or(1) + 1;
    if count > SEQUENCE_MAX {
        return Some(None);
    }
    let sign = if from <= to { 1 } else { -1 };
    let width = first.len().max(last.len());
    let padded = [first, last].iter().any(|end| end.trim_start_matches('-').starts_with('0') && end.len() > 1);
    Some(Some(
        (0..count)
            .map(|at| {
                let value = from + sign * step * i64::try_from(at).unwrap_or(0);
                let text = match (letters, u8::try_from(value)) {
                    (true, Ok(byte)) => char::from(byte).to_string(),
                    _ if padded => format!("{value:0width$}"),
                    _ => value.to_string(),
                };
                text.chars().map(Unit::Plain).collect()
            })
            .collect(),
    ))
}
