//! Colours of a text: the class of each part, read from the leaves of its syntax tree.
//!
//! No queries: grammars name their nodes alike, so that one table serves all of them, broken code still has the colours of its
//! words, and nothing has to be compiled first.

use std::ops::Range;
use std::sync::OnceLock;

use tree_sitter::{Node, TreeCursor};

use super::Language;
use super::parse::{Deadline, PARSE_MS_MAX, parse};

/// The kind of a part of a text, from which its colour follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Paint {
    /// A comment.
    Comment,
    /// A string, a character, a regular expression.
    String,
    /// An escape within a string.
    Escape,
    /// A number.
    Number,
    /// A value that the language or a convention names: `true`, `None`, `LIMIT`.
    Constant,
    /// A keyword of the language.
    Keyword,
    /// A function, at its definition and its calls; a macro; a shell command.
    Function,
    /// A type, a class, a trait.
    Type,
    /// An attribute, an annotation, a decorator.
    Attribute,
    /// A variable that the language marks: `$HOME`, `self`.
    Variable,
}

/// Number of nodes between two checks of the clock.
const NODES_A_LOOK: usize = 1024;

/// Returns the parts of a text that have a colour: in order, without overlaps, each at character boundaries. `None` for
/// a text that is longer than [`TEXT_BYTES_MAX`](super::TEXT_BYTES_MAX) or takes longer than [`PARSE_MS_MAX`].
#[must_use]
pub fn highlight(language: Language, text: &str) -> Vec<(Range<usize>, Paint)> {
    let deadline = Deadline::new(PARSE_MS_MAX);
    parse(language, text, None, deadline)
        .and_then(|tree| painted(language, text, tree.root_node(), 0..text.len(), deadline))
        .unwrap_or_default()
}

/// The effect of a kind of node on the colours below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    /// None; its leaves have their own colours.
    Inner,
    /// The whole node has one colour; its children aren't examined.
    Whole(Paint),
    /// One colour for the whole node, except for parts with a colour of their own.
    Ground(Paint),
    /// Code within a string: no colour, except for parts with one of their own.
    Code,
    /// A name: its surroundings decide.
    Name,
}

/// Returns the parts within a range that have a colour; `None` if the time is over.
pub(super) fn painted(
    language: Language,
    text: &str,
    root: Node<'_>,
    within: Range<usize>,
    deadline: Deadline,
) -> Option<Vec<(Range<usize>, Paint)>> {
    let mut painter = Painter { text, within, parts: Vec::new(), at: 0, grounds: Vec::new() };
    let classes = classes(language);
    let mut around: Vec<Around<'_>> = Vec::new();
    let mut cursor = root.walk();
    let mut nodes = 0;
    loop {
        nodes += 1;
        if usize::is_multiple_of(nodes, NODES_A_LOOK) && deadline.is_over() {
            return None;
        }
        let node = cursor.node();
        if node.start_byte() >= painter.within.end {
            while let Some(parent) = around.pop() {
                painter.leave(&parent);
            }
            return Some(painter.parts);
        }
        let outside = node.end_byte() <= painter.within.start;
        let class = if outside { Class::Inner } else { class(language, classes, node) };
        let mut inside = !outside;
        match class {
            Class::Whole(paint) => {
                painter.leaf(node, paint);
                inside = false;
            }
            Class::Name => {
                if let Some(paint) = name(language, node, text, cursor.field_name(), &around) {
                    painter.leaf(node, paint);
                }
                inside = false;
            }
            Class::Ground(paint) => painter.enter(node, Some(paint)),
            Class::Code => painter.enter(node, None),
            Class::Inner => {}
        }
        let here = Around { kind: node.kind(), field: cursor.field_name(), class, end: node.end_byte() };
        if inside && first_child(&mut cursor, painter.within.start) {
            around.push(here);
            continue;
        }
        painter.leave(&here);
        if !next(&mut cursor, &mut around, &mut painter) {
            return Some(painter.parts);
        }
    }
}

/// Goes to the first child that reaches into the range.
fn first_child(cursor: &mut TreeCursor<'_>, from: usize) -> bool {
    if cursor.node().start_byte() < from {
        cursor.goto_first_child_for_byte(from).is_some()
    } else {
        cursor.goto_first_child()
    }
}

/// Goes to the next node that isn't a descendant of this one.
fn next(cursor: &mut TreeCursor<'_>, around: &mut Vec<Around<'_>>, painter: &mut Painter<'_>) -> bool {
    while !cursor.goto_next_sibling() {
        let Some(parent) = around.pop() else { return false };
        cursor.goto_parent();
        painter.leave(&parent);
    }
    true
}

/// A node around the current one.
struct Around<'a> {
    kind: &'a str,
    field: Option<&'a str>,
    class: Class,
    end: usize,
}

struct Painter<'a> {
    text: &'a str,
    within: Range<usize>,
    parts: Vec<(Range<usize>, Paint)>,
    /// The end of the painted text.
    at: usize,
    /// The colours of the surrounding nodes, the innermost last.
    grounds: Vec<Option<Paint>>,
}

impl Painter<'_> {
    fn leaf(&mut self, node: Node<'_>, paint: Paint) {
        self.fill(node.start_byte());
        // Some grammars include the line end in a comment.
        let text = self.text.get(node.byte_range()).unwrap_or_default();
        self.add(node.start_byte() + text.trim_end_matches(['\r', '\n']).len(), Some(paint));
    }

    fn enter(&mut self, node: Node<'_>, ground: Option<Paint>) {
        self.fill(node.start_byte());
        self.grounds.push(ground);
    }

    fn leave(&mut self, node: &Around<'_>) {
        if matches!(node.class, Class::Ground(_) | Class::Code) {
            self.fill(node.end);
            self.grounds.pop();
        }
    }

    fn fill(&mut self, to: usize) {
        self.add(to, self.grounds.last().copied().flatten());
    }

    fn add(&mut self, to: usize, paint: Option<Paint>) {
        let range = self.at.max(self.within.start)..to.min(self.within.end);
        self.at = self.at.max(to);
        let Some(paint) = paint.filter(|_| !range.is_empty()) else { return };
        if !self.text.is_char_boundary(range.start) || !self.text.is_char_boundary(range.end) {
            return;
        }
        match self.parts.last_mut() {
            Some((before, same)) if before.end == range.start && *same == paint => before.end = range.end,
            _ => self.parts.push((range, paint)),
        }
    }
}

fn class(language: Language, classes: &[Class], node: Node<'_>) -> Class {
    // Kinds beyond the table are the parser's own, such as unreadable text.
    classes
        .get(usize::from(node.kind_id()))
        .copied()
        .unwrap_or_else(|| class_of(language, node.kind(), node.is_named()))
}

/// Returns the classes of a grammar's kinds, by number; computed at the first use.
fn classes(language: Language) -> &'static [Class] {
    static CLASSES: [OnceLock<Vec<Class>>; 11] = [const { OnceLock::new() }; 11];
    CLASSES[language as usize].get_or_init(|| {
        let grammar = language.grammar();
        let kinds = u16::try_from(grammar.node_kind_count()).unwrap_or(u16::MAX);
        (0..kinds)
            .map(|id| {
                let kind = grammar.node_kind_for_id(id).unwrap_or_default();
                class_of(language, kind, grammar.node_kind_is_named(id))
            })
            .collect()
    })
}

/// Kinds of named nodes with their classes, in all grammars.
const KINDS: &[(&str, Class)] = &[
    ("comment line_comment block_comment html_comment hash_bang_line shebang", Class::Whole(Paint::Comment)),
    (
        "string string_literal template_string raw_string_literal raw_string ansi_c_string translated_string \
         heredoc_body heredoc_start heredoc_end char_literal character_literal rune_literal \
         interpreted_string_literal system_lib_string regex regex_pattern",
        Class::Ground(Paint::String),
    ),
    ("escape_sequence escape_interpolation", Class::Whole(Paint::Escape)),
    ("interpolation template_substitution string_interpolation command_substitution process_substitution", Class::Code),
    (
        "number number_literal integer_literal float_literal integer float int_literal imaginary_literal \
         decimal_integer_literal hex_integer_literal octal_integer_literal binary_integer_literal \
         decimal_floating_point_literal hex_floating_point_literal",
        Class::Whole(Paint::Number),
    ),
    ("boolean_literal true false null null_literal nil none undefined iota", Class::Whole(Paint::Constant)),
    (
        "primitive_type predefined_type sized_type_specifier integral_type floating_point_type boolean_type \
         void_type auto never_type",
        Class::Whole(Paint::Type),
    ),
    (
        "mutable_specifier crate super storage_class_specifier type_qualifier access_specifier virtual_specifier \
         preproc_directive accessibility_modifier override_modifier",
        Class::Ground(Paint::Keyword),
    ),
    ("self this metavariable special_variable_name", Class::Whole(Paint::Variable)),
    ("variable_name simple_expansion expansion", Class::Ground(Paint::Variable)),
    (
        "lifetime annotation marker_annotation attribute_item inner_attribute_item decorator",
        Class::Ground(Paint::Attribute),
    ),
    ("command_name", Class::Ground(Paint::Function)),
    (
        "identifier field_identifier property_identifier private_property_identifier type_identifier \
         namespace_identifier package_identifier shorthand_property_identifier word",
        Class::Name,
    ),
];

fn class_of(language: Language, kind: &str, named: bool) -> Class {
    if !named {
        // A token that is a word is a keyword of the language.
        let word = kind.strip_prefix(['#', '@']).unwrap_or(kind).trim_end_matches('!');
        let is_word = word.bytes().all(|byte| byte.is_ascii_alphabetic() || b"_- ".contains(&byte));
        let begins = word.starts_with(|c: char| c.is_ascii_alphabetic());
        return if is_word && begins { Class::Whole(Paint::Keyword) } else { Class::Inner };
    }
    // In these grammars the statement consists of its keyword.
    let is_word = matches!(language, Language::Lua | Language::Python)
        && matches!(kind, "break_statement" | "continue_statement" | "pass_statement");
    if is_word {
        return Class::Whole(Paint::Keyword);
    }
    let row = KINDS.iter().find(|(kinds, _)| kinds.split_ascii_whitespace().any(|known| known == kind));
    row.map_or(Class::Inner, |(_, class)| *class)
}

/// Parents whose last name is the called function.
const PATHS: &[&str] = &[
    "member_expression",
    "field_expression",
    "scoped_identifier",
    "attribute",
    "selector_expression",
    "dot_index_expression",
    "method_index_expression",
    "qualified_identifier",
    "template_function",
    "template_method",
    "generic_function",
    "parenthesized_expression",
];
/// Fields of a path that contain its last name.
const LAST: &[&str] = &["property", "field", "name", "attribute", "method", "function"];
/// Parents and their fields that contain the name of a function.
const FUNCTIONS: &[(&str, &str)] = &[
    ("call_expression", "function"),
    ("call", "function"),
    ("function_call", "name"),
    ("method_invocation", "name"),
    ("macro_invocation", "macro"),
    ("macro_definition", "name"),
    ("function_item", "name"),
    ("function_signature_item", "name"),
    ("function_definition", "name"),
    ("function_declaration", "name"),
    ("function_signature", "name"),
    ("function_expression", "name"),
    ("generator_function_declaration", "name"),
    ("method_declaration", "name"),
    ("method_definition", "name"),
    ("method_signature", "name"),
    ("method_elem", "name"),
    ("constructor_declaration", "name"),
    ("function_declarator", "declarator"),
    ("preproc_function_def", "name"),
];
/// Parents whose field `name` is that of a type.
const TYPES: &[&str] = &[
    "class_definition",
    "class_declaration",
    "interface_declaration",
    "enum_declaration",
    "record_declaration",
    "class_specifier",
    "struct_specifier",
];

fn name(language: Language, node: Node<'_>, text: &str, field: Option<&str>, around: &[Around<'_>]) -> Option<Paint> {
    let kind = node.kind();
    let word = text.get(node.byte_range()).unwrap_or_default();
    if kind == "word" {
        return around.last().filter(|parent| parent.kind == "function_definition").map(|_| Paint::Function);
    }
    let mut field = field;
    let mut level = around.len();
    while let Some(parent) = around[..level].last() {
        let here = field.unwrap_or_default();
        if FUNCTIONS.contains(&(parent.kind, here)) {
            return Some(Paint::Function);
        }
        if !PATHS.contains(&parent.kind) || !LAST.contains(&here) {
            break;
        }
        field = parent.field;
        level -= 1;
    }
    let parent = around.last();
    if parent.is_some_and(|parent| matches!(parent.kind, "annotation" | "marker_annotation")) {
        return Some(Paint::Attribute);
    }
    if kind == "type_identifier"
        || parent.is_some_and(|parent| TYPES.contains(&parent.kind) && field == Some("name"))
        || parent.is_some_and(|parent| parent.kind == "type" && language == Language::Python)
    {
        return Some(Paint::Type);
    }
    if language == Language::Python && matches!(word, "self" | "cls") || language == Language::Lua && word == "self" {
        return Some(Paint::Variable);
    }
    let upper = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    if word.len() > 1 && word.starts_with(|c: char| c.is_ascii_uppercase() || c == '_') && word.chars().all(upper) {
        return word.contains(|c: char| c.is_ascii_uppercase()).then_some(Paint::Constant);
    }
    let by_convention = !matches!(language, Language::Bash | Language::C | Language::Go | Language::Lua);
    let is_type = by_convention && kind != "field_identifier" && word.starts_with(|c: char| c.is_ascii_uppercase());
    is_type.then_some(Paint::Type)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::TEXT_BYTES_MAX;
    use super::*;

    /// Each coloured part with the letter of its colour in front.
    fn shown(language: &str, text: &str) -> String {
        let language = Language::of_name(language).expect("a language");
        let letter = |paint: Paint| match paint {
            Paint::Comment => 'c',
            Paint::String => 's',
            Paint::Escape => 'e',
            Paint::Number => 'n',
            Paint::Constant => 'C',
            Paint::Keyword => 'k',
            Paint::Function => 'f',
            Paint::Type => 't',
            Paint::Attribute => 'a',
            Paint::Variable => 'v',
        };
        let parts = highlight(language, text);
        parts
            .iter()
            .map(|(at, paint)| format!("{}:{}", letter(*paint), &text[at.clone()]))
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn each_language_has_its_colours() {
        for (language, text, parts) in SAMPLES {
            assert_eq!(shown(language, text), *parts, "{language}: {text}");
        }
    }

    #[test]
    fn a_text_that_is_too_long_has_none() {
        let text = "let x = 1;\n".repeat(TEXT_BYTES_MAX / 11 + 1);
        assert!(highlight(Language::Rust, &text).is_empty());
    }

    #[test]
    fn the_time_is_looked_at() {
        let text = "fn f() { g(1); }\n".repeat(4000);
        let over = Deadline::new(0);
        assert!(parse(Language::Rust, &text, None, over).is_none());
        let tree = parse(Language::Rust, &text, None, Deadline::new(60_000)).expect("a tree");
        assert!(painted(Language::Rust, &text, tree.root_node(), 0..text.len(), over).is_none());
    }

    const SAMPLES: &[(&str, &str, &str)] = &[
        (
            "bash",
            "for f in *.c; do echo \"a $f $(ls $HOME)\" 'x' > out; done # end",
            "k:for v:f k:in k:do f:echo s:\"a  v:$f f:ls v:$HOME s:\" s:'x' k:done c:# end",
        ),
        (
            "bash",
            "f() { local x=1; }; if [[ -n $x ]]; then export A=${B:-2}; fi",
            "f:f k:local v:x n:1 k:if v:$x k:then k:export v:A v:${B:-2} k:fi",
        ),
        ("bash", "cat <<EOF\nhi $x\nEOF\n", "f:cat s:EOF s:hi  v:$x s:\nEOF"),
        (
            "c",
            "#include <stdio.h>\n#define MAX 3\nstatic const int n = 0x1f; /* c */",
            "k:#include s:<stdio.h> k:#define C:MAX k:static k:const t:int n:0x1f c:/* c */",
        ),
        (
            "c",
            "int main(char **v) { printf(\"a\\n\", 'c', NULL); while (1) break; return MAX; }",
            "t:int f:main t:char f:printf s:\"a e:\\n s:\" s:'c' C:NULL k:while n:1 k:break k:return C:MAX",
        ),
        (
            "cpp",
            "namespace a { template <typename T> class Foo : Bar { int go() const override { return this->x; } }; }",
            "k:namespace k:template k:typename t:T k:class t:Foo t:Bar t:int f:go k:const k:override k:return v:this",
        ),
        (
            "cpp",
            "auto v = std::make_unique<Foo>(R\"(x)\"); int Foo::go() {}",
            "t:auto f:make_unique t:Foo s:R\"(x)\" t:int t:Foo f:go",
        ),
        (
            "go",
            "package main\n// c\nfunc (t *T) Run(n int) error { fmt.Println(\"a\\n\", 'x', `r`, nil, 1.5); return nil }",
            "k:package c:// c k:func t:T f:Run t:int t:error f:Println s:\"a e:\\n s:\" s:'x' s:`r` C:nil n:1.5 k:return C:nil",
        ),
        (
            "java",
            "@Override public class Foo extends Bar { static final int MAX = 3; /** d */ Foo(int a) { System.out.println(\"x\\n\" + true); } }",
            "a:@Override k:public k:class t:Foo k:extends t:Bar k:static k:final t:int C:MAX n:3 c:/** d */ f:Foo t:int t:System f:println s:\"x e:\\n s:\" C:true",
        ),
        ("js", "const f = async (x) => `a${x + 1}b`; // c", "k:const k:async s:`a n:1 s:b` c:// c"),
        (
            "js",
            "class A extends B { constructor() { this.x = /re/g; console.log('x', null); } }",
            "k:class t:A k:extends t:B f:constructor v:this s:/re/g f:log s:'x' C:null",
        ),
        (
            "ts",
            "export type Q<T> = P | T; function f(this: P, a: readonly string[]): void { throw new Error('x'); }",
            "k:export k:type t:Q t:T t:P t:T k:function f:f v:this t:P k:readonly t:string t:void k:throw k:new t:Error s:'x'",
        ),
        ("tsx", "const e = <Foo a={1}>t</Foo>;", "k:const t:Foo n:1 t:Foo"),
        (
            "lua",
            "-- c\nlocal function f(a) return a.b:c(\"x\\n\", 1, nil) end",
            "c:-- c k:local k:function f:f k:return f:c s:\"x e:\\n s:\" n:1 C:nil k:end",
        ),
        (
            "lua",
            "function M.go(self) for i = 1, 3 do print(i) break end end",
            "k:function f:go v:self k:for n:1 n:3 k:do f:print k:break k:end k:end",
        ),
        (
            "python",
            "@dec\ndef f(self, a: int = 3) -> str:\n    return f\"a{a + 1}b\\n\" if a is not None else MAX",
            "a:@dec k:def f:f v:self t:int n:3 t:str k:return s:f\"a n:1 s:b e:\\n s:\" k:if k:is not C:None k:else C:MAX",
        ),
        ("python", "class A(B):\n    pass # c", "k:class t:A t:B k:pass c:# c"),
        (
            "rust",
            "#[test] pub struct A<'a> { x: &'a str } /// doc\n",
            "a:#[test] k:pub k:struct t:A a:'a a:'a t:str c:/// doc",
        ),
        (
            "rust",
            "fn go(&mut self) -> Option<u8> { let v = vec![1]; self.x.len(); println!(\"a\\n{}\", 'c'); Some(LIMIT) }",
            "k:fn f:go k:mut v:self t:Option t:u8 k:let f:vec n:1 v:self f:len f:println s:\"a e:\\n s:{}\" s:'c' f:Some C:LIMIT",
        ),
        ("rust", "let x = \"broken; } // x", "k:let c:// x"),
    ];

    /// Characters that open or close something in some language; the grammars' scanners are written by hand.
    const PIECES: &[&str] = &[
        "<<EOF\n",
        "<<-'A B'\n",
        "EOF\n",
        "<<<",
        "{",
        "}",
        "${",
        "$((",
        "))",
        "$(",
        "(",
        ")",
        "`",
        "[[",
        "]]",
        "=~ ",
        "case x in ",
        ";;",
        "'",
        "\"",
        "\\",
        "\n",
        "\t",
        " ",
        "\"\"\"",
        "f'''",
        "{x!r:>{y}}",
        "rb\"",
        "R\"x(",
        ")x\"",
        "/*",
        "*/",
        "//",
        "#",
        "r##\"",
        "\"##",
        "b'",
        "'a",
        "--[==[",
        "]==]",
        "::",
        "=>",
        "<A b={",
        "</A>",
        "<>",
        "${`",
        "/re/",
        "?.",
        "if ",
        "def f():\n",
        "  pass\n",
        "fn f<'a>",
        "0x1f",
        "1..2",
        "{1..9}",
        "{\u{1f600}..",
        "\u{4e2d}",
        "\u{e9}",
        "\u{10ffff}",
        "\0",
        "\r\n",
        "\u{2028}",
    ];

    proptest! {
        #[test]
        fn pieces_of_code_have_parts_too(pieces in proptest::collection::vec(0..PIECES.len(), 0..60), at in 0usize..11) {
            let language = Language::all().nth(at).expect("a language");
            let text: String = pieces.iter().map(|at| PIECES[*at]).collect();
            prop_assert!(highlight(language, &text).iter().all(|(range, _)| text.get(range.clone()).is_some()));
        }

        #[test]
        fn parts_are_in_order_and_on_bounds(text in "\\PC{0,80}", at in 0usize..11) {
            let language = Language::all().nth(at).expect("a language");
            let mut end = 0;
            for (range, _) in highlight(language, &text) {
                prop_assert!(range.start >= end && range.start < range.end);
                prop_assert!(text.get(range.clone()).is_some(), "{range:?}");
                end = range.end;
            }
        }
    }
}
