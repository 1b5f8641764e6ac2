//! The commands that an answer proposes: its `CMD: ` lines, each with its here-documents, as one command each. Pure: it only
//! reads text, and drops a command with a notice rather than proposing half of one.

use crate::base::text::{is_emoji, is_invisible};
use crate::proto::ModelCommand;
use crate::syntax::Scan;

/// Limit for the commands of one answer: a person wouldn't read more before agreeing.
const COMMANDS_MAX: usize = 32;
/// Longest command in bytes, here-documents included.
const COMMAND_BYTES_MAX: usize = 64 * 1024;

/// Returns the commands that an answer proposes, in order.
#[must_use]
pub fn commands_in(answer: &str) -> Vec<ModelCommand> {
    proposals(answer).0
}

/// Returns the commands that an answer proposes, and a line for each one that was dropped.
#[must_use]
pub fn proposals(answer: &str) -> (Vec<ModelCommand>, Vec<String>) {
    let lines: Vec<&str> = answer.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line)).collect();
    let mut commands = Vec::new();
    let mut problems = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let Some((indent, first)) = command_line(lines[at]) else {
            at += 1;
            continue;
        };
        // In a list, the whole block is indented, its terminators too.
        let assembled = if indent.is_empty() {
            assemble(first, &lines[at + 1..], "")
        } else {
            assemble(first, &lines[at + 1..], indent).or_else(|_| assemble(first, &lines[at + 1..], ""))
        };
        match assembled.and_then(|(text, used)| check(text).map(|text| (text, used))) {
            Ok((text, used)) => {
                if commands.len() < COMMANDS_MAX {
                    commands.push(ModelCommand { text });
                } else {
                    problems.push(dropped(first, "the answer proposes too many commands"));
                }
                at += 1 + used;
            }
            Err(Trouble { why, used }) => {
                problems.push(dropped(first, why));
                at += 1 + used;
            }
        }
    }
    (commands, problems)
}

/// Reason why a command can't be proposed, and how many of the following lines go with it.
struct Trouble {
    why: &'static str,
    used: usize,
}

/// Reads a `CMD: ` line: its indentation and the text after the tag. Blanks before it and backticks around the command
/// or the line are tolerated.
fn command_line(line: &str) -> Option<(&str, &str)> {
    let body = line.trim_start_matches([' ', '\t']);
    let indent = &line[..line.len() - body.len()];
    let tagged = body.strip_prefix('`').and_then(|rest| rest.trim_end().strip_suffix('`')).unwrap_or(body);
    let rest = tagged.strip_prefix("CMD:")?;
    if !rest.starts_with([' ', '\t']) {
        return None;
    }
    let command = trim(rest);
    let command = command
        .strip_prefix('`')
        .and_then(|inner| inner.strip_suffix('`'))
        .filter(|inner| !inner.contains('`'))
        .map_or(command, trim);
    (!command.is_empty()).then_some((indent, command))
}

/// Trims blanks, but not the one that a backslash protects.
fn trim(text: &str) -> &str {
    let text = text.trim_start();
    let end = text.trim_end();
    let escapes = end.len() - end.trim_end_matches('\\').len();
    if escapes % 2 == 1 && end.len() < text.len() {
        let blank = text[end.len()..].chars().next().map_or(0, char::len_utf8);
        &text[..end.len() + blank]
    } else {
        end
    }
}

/// Joins a command's first line with the lines that belong to it.
fn assemble(first: &str, following: &[&str], indent: &str) -> Result<(String, usize), Trouble> {
    let mut scan = Scan::default();
    let mut text = first.to_owned();
    let mut used = 0;
    let mut goes_on = scan.line(first);
    loop {
        if !goes_on && !scan.in_quotes() {
            while let Some(document) = scan.next_document() {
                loop {
                    let Some(line) = following.get(used).and_then(|line| dedent(line, indent)) else {
                        // The following lines may be its body, so none is proposed as a command.
                        return Err(Trouble { why: "its here-document has no end", used: following.len() });
                    };
                    used += 1;
                    text.push('\n');
                    text.push_str(line);
                    if document.ends_at(line) {
                        break;
                    }
                }
            }
        }
        if !goes_on && scan.is_whole() {
            return Ok((text, used));
        }
        if !goes_on && !scan.had_document() {
            return Err(Trouble { why: "a quote or bracket is not closed", used });
        }
        let Some(line) = following.get(used).and_then(|line| dedent(line, indent)) else {
            let why = if goes_on { "it ends in a line continuation" } else { "a quote or bracket is not closed" };
            return Err(Trouble { why, used: following.len() });
        };
        used += 1;
        text.push('\n');
        text.push_str(line);
        goes_on = scan.line(line);
    }
}

fn dedent<'a>(line: &'a str, indent: &str) -> Option<&'a str> {
    line.strip_prefix(indent).or_else(|| line.trim().is_empty().then_some(""))
}

/// Refuses characters that a person can't see, because the person agrees to the text that they read. A selector that
/// only colours an emoji is accepted.
fn check(text: String) -> Result<String, Trouble> {
    let is_selector = |before: char, c: char| matches!(c, '\u{fe0e}' | '\u{fe0f}') && is_emoji(before);
    let hidden = |(before, c): (char, char)| {
        (c.is_control() && c != '\n' && c != '\t') || (is_invisible(c) && !is_selector(before, c))
    };
    let before = std::iter::once(' ').chain(text.chars());
    let is_hidden = before.zip(text.chars()).any(hidden);
    let used = text.matches('\n').count();
    if is_hidden {
        Err(Trouble { why: "it holds invisible characters", used })
    } else if text.len() > COMMAND_BYTES_MAX {
        Err(Trouble { why: "it is too long", used })
    } else {
        Ok(text)
    }
}

fn dropped(first: &str, why: &str) -> String {
    let mut shown: String = first.chars().filter(|c| !c.is_control()).take(60).collect();
    if first.chars().count() > 60 {
        shown.push('…');
    }
    format!("a proposed command was left out, {why}: {shown}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn texts(answer: &str) -> Vec<String> {
        commands_in(answer).into_iter().map(|command| command.text).collect()
    }

    #[test]
    fn commands_are_found_however_they_are_dressed() {
        let table: &[(&str, &[&str])] = &[
            ("CMD: ls -la", &["ls -la"]),
            ("Do this:\nCMD: a\nthen\nCMD: b\n", &["a", "b"]),
            ("  CMD: a  \r\nCMD:\tb\r\n", &["a", "b"]),
            ("```bash\nCMD: a | b\n```", &["a | b"]),
            ("CMD: `ls`\n`CMD: pwd`\nCMD: echo `date` `id`\n", &["ls", "pwd", "echo `date` `id`"]),
            ("CMD:ls\nCMD: \nCMD\nxCMD: ls\ncmd: ls\nsay CMD: ls", &[]),
            ("CMD: a \\\n  -b \\\n  -c\nprose", &["a \\\n  -b \\\n  -c"]),
            ("CMD: echo a\\\\\nCMD: b", &["echo a\\\\", "b"]),
            ("CMD: ls my\\ \nx", &["ls my\\ "]),
            ("CMD: echo 'it''s' \"a (b\" # don't", &["echo 'it''s' \"a (b\" # don't"]),
            ("CMD: echo $((1<<3)) && ((x<<=2)) ; cat <<< hi", &["echo $((1<<3)) && ((x<<=2)) ; cat <<< hi"]),
            ("CMD: echo ${x#a} $# ${y:-\"}\"} '<<EOF'", &["echo ${x#a} $# ${y:-\"}\"} '<<EOF'"]),
            ("CMD: case x in a) b;; esac", &["case x in a) b;; esac"]),
            ("CMD: git commit -m '❤\u{fe0f} it'", &["git commit -m '❤\u{fe0f} it'"]),
        ];
        for (answer, expected) in table {
            assert_eq!(texts(answer), *expected, "{answer:?}");
        }
    }

    #[test]
    fn a_here_document_is_one_command_to_its_terminator() {
        let table: &[(&str, &[&str])] = &[
            ("CMD: cat > f <<EOF\na\nCMD: b\nEOF\nCMD: c", &["cat > f <<EOF\na\nCMD: b\nEOF", "c"]),
            ("CMD: cat <<'END X'\n$a\nEND X\n", &["cat <<'END X'\n$a\nEND X"]),
            ("CMD: cat << \"E\"OF | sort\nb\nEOF", &["cat << \"E\"OF | sort\nb\nEOF"]),
            ("CMD: cat <<\\EOF\nEO\nEOF \nEOF", &["cat <<\\EOF\nEO\nEOF \nEOF"]),
            ("CMD: cat <<-EOF\n\ta\n\t\tEOF\nx", &["cat <<-EOF\n\ta\n\t\tEOF"]),
            ("CMD: diff <(cat <<A) <(cat <<B)\n1\nA\n2\nB\nCMD: x", &["diff <(cat <<A) <(cat <<B)\n1\nA\n2\nB", "x"]),
            ("CMD: cat <<A \\\n  <<B\n1\nA\n2\nB\nx", &["cat <<A \\\n  <<B\n1\nA\n2\nB"]),
            (
                "CMD: git commit -m \"$(cat <<'EOF'\nit's \"so\" (\nEOF\n)\" && ls\nCMD: x",
                &["git commit -m \"$(cat <<'EOF'\nit's \"so\" (\nEOF\n)\" && ls", "x"],
            ),
            ("```\r\nCMD: cat <<EOF\r\na\r\n\r\nEOF\r\n```\r\n", &["cat <<EOF\na\n\nEOF"]),
            ("1. so:\n   CMD: cat <<EOF\n   a\n\n     b\n   EOF\n   CMD: c", &["cat <<EOF\na\n\n  b\nEOF", "c"]),
            (" CMD: cat <<EOF\ndef f():\n  a\nEOF\n", &["cat <<EOF\ndef f():\n  a\nEOF"]),
        ];
        for (answer, expected) in table {
            assert_eq!(texts(answer), *expected, "{answer:?}");
        }
    }

    #[test]
    fn half_a_command_is_never_proposed_and_a_notice_says_so() {
        let table: &[(&str, &[&str], &str)] = &[
            ("CMD: a\nCMD: cat <<EOF\nb\nCMD: rm -rf x\n", &["a"], "here-document has no end"),
            ("CMD: cat <<EOF", &[], "here-document has no end"),
            ("CMD: cat <<A <<B\nB\nA\nCMD: x\n", &[], "here-document has no end"),
            ("CMD: x \"$(cat <<E\na\nE\nprose\n", &[], "not closed"),
            ("CMD: echo don't\nCMD: b", &["b"], "not closed"),
            ("CMD: echo $(ls\nCMD: b", &["b"], "not closed"),
            ("CMD: a \\", &[], "continuation"),
            ("CMD: ls \u{1b}[8m; rm x\nCMD: b", &["b"], "invisible"),
            ("CMD: ls \u{202e}x\n", &[], "invisible"),
            ("CMD: ls \u{3164}x\n", &[], "invisible"),
            ("CMD: ls x\u{fe0f}\n", &[], "invisible"),
            ("CMD: ls 1\u{fe0f}\n", &[], "invisible"),
            ("CMD: ls \u{e0041}x\n", &[], "invisible"),
        ];
        for (answer, expected, why) in table {
            let (commands, problems) = proposals(answer);
            assert_eq!(commands.into_iter().map(|it| it.text).collect::<Vec<_>>(), *expected, "{answer:?}");
            assert!(problems.len() == 1 && problems[0].contains(why), "{answer:?}: {problems:?}");
            assert!(!problems[0].contains(['\n', '\u{1b}']), "{problems:?}");
        }
    }

    #[test]
    fn too_many_commands_are_dropped_with_a_notice() {
        let (commands, problems) = proposals(&"CMD: ls\n".repeat(COMMANDS_MAX + 3));
        assert_eq!((commands.len(), problems.len()), (COMMANDS_MAX, 3));
        let (commands, problems) = proposals(&format!("CMD: echo {}", "x".repeat(COMMAND_BYTES_MAX)));
        assert_eq!((commands.len(), problems.len()), (0, 1));
    }

    proptest! {
        #[test]
        fn any_answer_gives_only_text_of_its_lines(parts in prop::collection::vec(prop_oneof![
            prop::sample::select(vec!["CMD: ", "<<EOF", "<<-", "'", "\"", "\n", "\nEOF\n", "\\", "`", "$(", ")", "((", "))",
                "${", "}", "  ", "\r\n", "#", "$'", "CMD: cat <<EOF\n", "é"]).prop_map(str::to_owned),
            "[a-z <\t]{0,6}",
        ], 0..40)) {
            let answer = parts.concat();
            let lines: Vec<&str> = answer.lines().collect();
            for command in commands_in(&answer) {
                let mut from = 0;
                for line in command.text.split('\n') {
                    let found = lines[from..].iter().position(|whole| whole.contains(line));
                    prop_assert!(found.is_some(), "{:?} is not of {:?}", line, answer);
                    from += found.unwrap_or(0);
                }
            }
        }

        #[test]
        fn any_text_at_all_is_survived(answer in any::<String>()) {
            let _ = proposals(&format!("CMD: {answer}\nCMD: {answer}"));
        }
    }
}
