//! The blocks of code in an answer, exactly as the model wrote them, without fence, quote marks, and the indentation of
//! a list around them. Pure.

/// Limit on the blocks that are found; no person would number more.
const BLOCKS_MAX: usize = 1_000;

/// A block of code.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CodeBlock {
    /// The word after the opening fence, such as `sh`; may be empty.
    pub language: String,
    /// Its lines, each with its newline.
    pub text: String,
}

/// Finds an answer's blocks of code between fences, in order. An unfinished block at the end counts, too.
#[must_use]
pub fn code_blocks(answer: &str) -> Vec<CodeBlock> {
    let (blocks, _) = code_blocks_with_lines(answer);
    blocks.into_iter().map(|(_, block)| block).collect()
}

/// Like [`code_blocks`], with the line number of each opening fence; and whether the last block is finished.
pub(super) fn code_blocks_with_lines(answer: &str) -> (Vec<(usize, CodeBlock)>, bool) {
    let mut blocks: Vec<(usize, CodeBlock)> = Vec::new();
    let mut open: Option<Fence> = None;
    for (number, line) in answer.lines().enumerate() {
        match open {
            None => {
                if let Some((fence, info)) = Fence::opened_by(line).filter(|_| blocks.len() < BLOCKS_MAX) {
                    let language = info.split_whitespace().next().unwrap_or_default().to_owned();
                    blocks.push((number, CodeBlock { language, text: String::new() }));
                    open = Some(fence);
                }
            }
            Some(fence) => {
                let inner = fence.inner(line);
                if inner.is_none_or(|line| fence.is_closed_by(line)) {
                    open = None;
                } else if let (Some((_, block)), Some(line)) = (blocks.last_mut(), inner) {
                    block.text.push_str(line);
                    block.text.push('\n');
                }
            }
        }
    }
    (blocks, open.is_none())
}

#[derive(Clone, Copy)]
struct Fence {
    mark: char,
    count: usize,
    indent: usize,
    quotes: usize,
}

impl Fence {
    /// Reads the line that opens a block, and the text after its fence.
    fn opened_by(line: &str) -> Option<(Self, &str)> {
        let (mut rest, mut quotes) = (line, 0);
        while let Some(inner) = rest.trim_start_matches(' ').strip_prefix('>') {
            rest = inner.strip_prefix(' ').unwrap_or(inner);
            quotes += 1;
        }
        let fence = rest.trim_start_matches(' ');
        let mark = fence.chars().next().filter(|mark| matches!(mark, '`' | '~'))?;
        let info = fence.trim_start_matches(mark);
        let count = fence.len() - info.len();
        // "```x```" is code within a line.
        let opens = count >= 3 && !(mark == '`' && info.contains('`'));
        opens.then(|| (Self { mark, count, indent: rest.len() - fence.len(), quotes }, info.trim()))
    }

    /// A line without the quote marks and the indentation around the block; `None` if it has left the quote.
    fn inner(self, line: &str) -> Option<&str> {
        let mut rest = line;
        for _ in 0..self.quotes {
            let inner = rest.trim_start_matches(' ').strip_prefix('>')?;
            rest = inner.strip_prefix(' ').unwrap_or(inner);
        }
        let blanks = rest.len() - rest.trim_start_matches(' ').len();
        Some(&rest[blanks.min(self.indent)..])
    }

    fn is_closed_by(self, line: &str) -> bool {
        let line = line.trim();
        line.len() >= self.count && line.chars().all(|c| c == self.mark)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_come_without_their_decoration() {
        let found = |answer: &str| -> Vec<(String, String)> {
            code_blocks(answer).into_iter().map(|block| (block.language, block.text)).collect()
        };
        let one = |language: &str, text: &str| vec![(language.to_owned(), text.to_owned())];
        let table: &[(&str, Vec<(String, String)>)] = &[
            ("no code, `inline` only", vec![]),
            ("a\n```sh\nls -l\n\n  two\n```\nb", one("sh", "ls -l\n\n  two\n")),
            ("~~~ python x\na\n```\nb\n~~~~\nc", one("python", "a\n```\nb\n")),
            ("````\n```\nx\n```\n````", one("", "```\nx\n```\n")),
            ("1. do\n   ```\n   a\n     b\n   ```\n", one("", "a\n  b\n")),
            ("> ```\n> a\n>   b\n> ```\nc", one("", "a\n  b\n")),
            ("> ```\n> a\nleft", one("", "a\n")),
            ("```x``` is inline\n", vec![]),
            ("```\ncut", one("", "cut\n")),
            ("```\n```\n```\nb\n```", [one("", ""), one("", "b\n")].concat()),
        ];
        for (answer, blocks) in table {
            assert_eq!(&found(answer), blocks, "{answer:?}");
        }
    }
}
