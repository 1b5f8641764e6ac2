//! Whole files that a model wrote into its answer, each with its path, for models that can't call tools well. Pure.

use super::blocks::code_blocks_with_lines;

/// Limit on the length of a path.
const PATH_CHARS_MAX: usize = 200;

/// Finds blocks of code with a path: on the line before it, or after the fence. Returns path and content. A block without
/// its closing fence may be half a file, so it isn't one.
#[must_use]
pub fn whole_files(answer: &str) -> Vec<(String, String)> {
    let lines: Vec<&str> = answer.lines().collect();
    let mut files: Vec<(String, String)> = Vec::new();
    let (mut blocks, is_whole) = code_blocks_with_lines(answer);
    if !is_whole {
        blocks.pop();
    }
    for (at, block) in blocks {
        let info = lines.get(at).map(|line| line.trim().trim_start_matches(['`', '~'])).unwrap_or_default();
        let before = lines[..at].iter().rev().find(|line| !line.trim().is_empty()).copied().unwrap_or_default();
        let after_fence = info.split(|c: char| c.is_whitespace() || c == ':' || c == '=').rev().find_map(path);
        let Some(path) = after_fence.or_else(|| path(before)) else { continue };
        files.retain(|(known, _)| *known != path);
        files.push((path, block.text));
    }
    files
}

/// Returns the path on a line that has nothing else except marks around it.
fn path(line: &str) -> Option<String> {
    let line = line.trim().trim_matches(|c: char| "*`#:\"'".contains(c) || c.is_whitespace());
    let line = line.strip_prefix("File ").or_else(|| line.strip_prefix("File: ")).unwrap_or(line).trim_matches('`');
    let name = line.rsplit('/').next()?;
    let has_end = name.rsplit_once('.').is_some_and(|(_, end)| !end.is_empty() && end.len() <= 10);
    let is_path = line.chars().all(|c| c.is_alphanumeric() || "._-/+@".contains(c));
    (is_path && has_end && line.len() <= PATH_CHARS_MAX && !line.contains("..")).then(|| line.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_with_a_path_is_a_file() {
        let file = |path: &str, text: &str| vec![(path.to_owned(), text.to_owned())];
        for (answer, expected) in [
            ("calc.py\n```python\nx = 1\n```", file("calc.py", "x = 1\n")),
            ("Here it is.\n\n**src/calc.py**:\n\n```\nx\n```\nDone.", file("src/calc.py", "x\n")),
            ("```python calc.py\nx\n```", file("calc.py", "x\n")),
            ("```calc.py\nx\n```", file("calc.py", "x\n")),
            ("a.txt\n```\n1\n```\na.txt\n```\n2\n```", file("a.txt", "2\n")),
            ("a.txt\n```\n1\n```\nb.txt\n```\n2\n3", file("a.txt", "1\n")),
            ("Run this:\n```sh\nls\n```", vec![]),
            ("../x.txt\n```\n1\n```", vec![]),
            ("I changed calc.py like so\n```\nx\n```", vec![]),
            ("no block", vec![]),
        ] {
            assert_eq!(whole_files(answer), expected, "{answer}");
        }
    }
}
