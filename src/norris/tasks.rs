//! The tasks of a plan that a model wrote as text.

/// Limit on the tasks of a plan.
pub const TASKS_MAX: usize = 40;
/// Limit on the characters of a task.
const TASK_CHARS_MAX: usize = 500;
/// The beginning of a task's line.
const MARK: &str = "TASK:";
/// The beginning of the line of a check.
const CHECK_MARK: &str = "CHECK:";

/// Reads the lines `TASK: …` of a plan outside of code blocks; at most 40 of at most 500 characters.
#[must_use]
pub fn tasks(text: &str) -> Vec<String> {
    marked(text, MARK, TASKS_MAX)
}

/// The number of tasks in a plan, including those beyond the limit.
#[must_use]
pub fn task_count(text: &str) -> usize {
    marked(text, MARK, usize::MAX).len()
}

/// Reads the lines `CHECK: …` of a plan in the same way; a command is in backquotes or bare.
#[must_use]
pub fn proposed_checks(text: &str) -> Vec<String> {
    let bare = |check: String| check.trim_matches('`').trim().to_owned();
    marked(text, CHECK_MARK, super::CHECKS_MAX).into_iter().map(bare).filter(|check| !check.is_empty()).collect()
}

fn marked(text: &str, mark: &str, most: usize) -> Vec<String> {
    let wanted = mark;
    let mut fence: Option<&str> = None;
    let mut found = Vec::new();
    for line in text.lines() {
        let line = line.trim_start();
        let mark = ["```", "~~~"].into_iter().find(|mark| line.starts_with(mark));
        match (fence, mark) {
            (None, Some(mark)) => fence = Some(mark),
            (Some(open), Some(mark)) if open == mark => fence = None,
            (Some(_), _) => {}
            (None, None) => found.extend(of_line(line, wanted)),
        }
        if found.len() == most {
            break;
        }
    }
    found
}

/// Returns the text after a mark, if the line has one; it may be numbered or an item of a list.
fn of_line(line: &str, mark: &str) -> Option<String> {
    let bare = line.trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | ')' | '-' | '*' | ' '));
    let text = bare.strip_prefix(mark)?.trim_start_matches('*').trim();
    (!text.is_empty()).then(|| text.chars().filter(|c| !c.is_control()).take(TASK_CHARS_MAX).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn task_lines_are_read_outside_of_code() {
        let long = format!("TASK: {}", "x".repeat(600));
        let many = "TASK: a\n".repeat(400);
        for (text, count, first) in [
            ("TASK: find it\nTASK: mend it", 2, "find it"),
            ("Here is the plan:\n1. TASK: find it\n2. TASK: mend it\nGood luck", 2, "find it"),
            ("- **TASK:** find it", 1, "find it"),
            ("```\nTASK: an example\n```\nTASK: real", 1, "real"),
            ("~~~\n```\nTASK: an example\n~~~\nTASK: real", 1, "real"),
            ("no tasks here", 0, ""),
            ("TASK:", 0, ""),
            (many.as_str(), TASKS_MAX, "a"),
            (long.as_str(), 1, &"x".repeat(TASK_CHARS_MAX)),
        ] {
            let found = tasks(text);
            assert_eq!(found.len(), count, "{text}");
            assert!(task_count(text) == if count == TASKS_MAX { 400 } else { count }, "{text}");
            assert_eq!(found.first().map(String::as_str).unwrap_or_default(), first, "{text}");
        }
    }
}
