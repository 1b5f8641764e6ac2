//! The definitions of a text, with signatures, and the names that it uses: an outline, read from its syntax tree.
//!
//! Owns each grammar's list of nodes that are definitions. Definitions within a function are omitted.

use std::collections::HashMap;
use std::ops::Range;

use tree_sitter::{Node, TreeCursor};

use super::Language;
use super::parse::{Deadline, PARSE_MS_MAX, parse};

/// Limit on a signature, in characters.
const SIGNATURE_CHARS_MAX: usize = 160;
/// Limit on a name, in bytes; longer ones don't count.
const NAME_BYTES_MAX: usize = 100;
/// Number of nodes between two checks of the clock.
const NODES_A_LOOK: usize = 1024;

/// The kind of a definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A function, a method, a macro.
    Function,
    /// A type: struct, class, enum, trait, interface, alias.
    Type,
    /// A module or namespace.
    Module,
    /// A constant or a variable of a module or a type.
    Value,
}

/// A definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    /// Its name alone.
    pub name: String,
    /// Its kind.
    pub kind: Kind,
    /// Its lines, from 1, the last one included.
    pub lines: (usize, usize),
    /// Its beginning, in one line, without its body.
    pub signature: String,
    /// Number of definitions that surround it.
    pub depth: usize,
    /// The definition around it: a type, a module.
    pub within: Option<String>,
}

/// The definitions of a text and the names that it uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outline {
    /// Its definitions, in order.
    pub definitions: Vec<Definition>,
    /// Names that it uses, each with the number of uses, without names that it only defines. In alphabetical order.
    pub references: Vec<(String, u32)>,
}

/// Returns the outline of a text; `None` if it is longer than [`TEXT_BYTES_MAX`](super::TEXT_BYTES_MAX) or takes longer
/// than [`PARSE_MS_MAX`].
#[must_use]
pub fn outline(language: Language, text: &str) -> Option<Outline> {
    let deadline = Deadline::new(PARSE_MS_MAX);
    let tree = parse(language, text, None, deadline)?;
    let mut reader = Reader { language, text, definitions: Vec::new(), references: HashMap::new(), around: Vec::new() };
    reader.walk(tree.walk(), deadline)?;
    let mut references: Vec<(String, u32)> =
        reader.references.into_iter().map(|(name, count)| (name.to_owned(), count)).collect();
    references.sort_unstable();
    Some(Outline { definitions: reader.definitions, references })
}

struct Reader<'t> {
    language: Language,
    text: &'t str,
    definitions: Vec<Definition>,
    references: HashMap<&'t str, u32>,
    around: Vec<Scope>,
}

/// A surrounding node that matters for its descendants.
struct Scope {
    end: usize,
    /// `true` if its contents aren't reported.
    is_closed: bool,
    /// The name that it defines; `None` for a block of methods.
    name: Option<String>,
}

impl<'t> Reader<'t> {
    fn walk(&mut self, mut cursor: TreeCursor<'t>, deadline: Deadline) -> Option<()> {
        let mut names: Vec<Range<usize>> = Vec::new();
        let mut nodes = 0;
        loop {
            nodes += 1;
            if usize::is_multiple_of(nodes, NODES_A_LOOK) && deadline.is_over() {
                return None;
            }
            let node = cursor.node();
            while self.around.last().is_some_and(|scope| node.start_byte() >= scope.end) {
                self.around.pop();
            }
            if node.is_named() && node.child_count() == 0 {
                self.name_used(node, &names);
            } else if node.is_named() {
                names.extend(self.define(node));
            }
            if cursor.goto_first_child() {
                continue;
            }
            while !cursor.goto_next_sibling() {
                if !cursor.goto_parent() {
                    return Some(());
                }
            }
        }
    }

    fn name_used(&mut self, node: Node<'t>, names: &[Range<usize>]) {
        let is_name = node.kind().ends_with("identifier") || matches!(node.kind(), "word" | "variable_name");
        if !is_name || names.iter().rev().take(8).any(|name| *name == node.byte_range()) {
            return;
        }
        if let Some(name) = self.text.get(node.byte_range()).filter(|name| (2..=NAME_BYTES_MAX).contains(&name.len())) {
            *self.references.entry(name).or_default() += 1;
        }
    }

    /// Records a node if it is a definition; returns the position of its name.
    fn define(&mut self, node: Node<'t>) -> Option<Range<usize>> {
        let what = what(self.language, node)?;
        let is_told = !self.around.iter().any(|scope| scope.is_closed);
        let name = name_of(self.language, node, what).filter(|_| is_told);
        let found = name.and_then(|name| Some((name, self.text.get(name.byte_range())?.trim().to_owned())));
        let scope = |name| Scope { end: node.end_byte(), is_closed: what == What::Is(Kind::Function), name };
        let Some((at, name)) = found else {
            self.around.push(scope(None));
            return None;
        };
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            return None;
        }
        if what != What::Around {
            let kind = if let What::Is(kind) = what { kind } else { Kind::Value };
            let mut names = self.around.iter().rev().filter_map(|scope| scope.name.clone());
            self.definitions.push(Definition {
                name: name.clone(),
                kind,
                lines: (node.start_position().row + 1, node.end_position().row + 1),
                signature: signature(self.text, node, kind),
                within: names.next(),
                depth: self.around.iter().filter(|scope| scope.name.is_some()).count(),
            });
        }
        if what != What::Is(Kind::Value) {
            self.around.push(scope(Some(name)));
        }
        Some(at.byte_range())
    }
}

/// The kind of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    /// A definition.
    Is(Kind),
    /// Not a definition itself, but its contents belong to a name: `impl Name`.
    Around,
}

/// Kinds of nodes that are definitions, in the grammars that contain them.
const FUNCTIONS: &[&str] = &[
    "function_item",
    "function_signature_item",
    "macro_definition",
    "function_definition",
    "function_declaration",
    "generator_function_declaration",
    "method_definition",
    "method_declaration",
    "method_elem",
    "method_signature",
    "abstract_method_signature",
    "function_signature",
    "constructor_declaration",
    "preproc_function_def",
];
const TYPES: &[&str] = &[
    "struct_item",
    "enum_item",
    "union_item",
    "trait_item",
    "type_item",
    "class_definition",
    "class_declaration",
    "abstract_class_declaration",
    "interface_declaration",
    "enum_declaration",
    "record_declaration",
    "annotation_type_declaration",
    "type_alias_declaration",
    "type_spec",
    "type_alias",
    "type_definition",
    "alias_declaration",
    "concept_definition",
];
const MODULES: &[&str] = &["mod_item", "namespace_definition", "internal_module", "module"];
const VALUES: &[&str] = &["const_item", "static_item", "const_spec", "preproc_def", "constant_declaration"];

fn what(language: Language, node: Node<'_>) -> Option<What> {
    let kind = node.kind();
    let body = || node.child_by_field_name("body").is_some();
    let is_top = || {
        node.parent().is_some_and(|parent| matches!(parent.kind(), "program" | "export_statement" | "chunk" | "module"))
    };
    let what = match (language, kind) {
        (_, "impl_item") => What::Around,
        // `mod name;` only refers to another file.
        (_, "mod_item") if !body() => return None,
        // Without a body it is a use of the type.
        (_, "struct_specifier" | "class_specifier" | "union_specifier" | "enum_specifier") if body() => {
            What::Is(Kind::Type)
        }
        // A function prototype.
        (Language::C | Language::Cpp, "declaration" | "field_declaration") if declares_function(node) => {
            What::Is(Kind::Function)
        }
        (Language::Java, "field_declaration") => What::Is(Kind::Value),
        (Language::Python, "module") => return None,
        (Language::Python, "assignment") => {
            let statement = node.parent().filter(|parent| parent.kind() == "expression_statement")?;
            let place = statement.parent()?.kind();
            let left = node.child_by_field_name("left")?;
            (left.kind() == "identifier" && place == "module").then_some(What::Is(Kind::Value))?
        }
        (Language::Go, "var_spec") => {
            let place = node.parent()?.parent()?;
            let place = if place.kind() == "var_declaration" { place.parent()? } else { place };
            (place.kind() == "source_file").then_some(What::Is(Kind::Value))?
        }
        (Language::JavaScript | Language::TypeScript | Language::Tsx, "variable_declarator") => {
            let value = node.child_by_field_name("value").map(|value| value.kind());
            let is_function = matches!(value, Some("arrow_function" | "function_expression" | "generator_function"));
            let is_outer =
                node.parent()?.parent().is_some_and(|it| matches!(it.kind(), "program" | "export_statement"));
            match is_function {
                true => What::Is(Kind::Function),
                false if is_outer => What::Is(Kind::Value),
                false => return None,
            }
        }
        (Language::Lua, "variable_declaration") if is_top() => What::Is(Kind::Value),
        (Language::Lua, "assignment_statement") if is_top() => {
            let value = node.named_child(1)?.named_child(0)?;
            (value.kind() == "function_definition").then_some(What::Is(Kind::Function))?
        }
        _ if FUNCTIONS.contains(&kind) => What::Is(Kind::Function),
        _ if TYPES.contains(&kind) => What::Is(Kind::Type),
        _ if MODULES.contains(&kind) => What::Is(Kind::Module),
        _ if VALUES.contains(&kind) => What::Is(Kind::Value),
        _ => return None,
    };
    Some(what)
}

/// Returns whether a C declaration is that of a function.
fn declares_function(node: Node<'_>) -> bool {
    let mut at = node.child_by_field_name("declarator");
    while let Some(inner) = at {
        if inner.kind() == "function_declarator" {
            // Not a pointer to a function: `int (*f)(void)`.
            return inner.child_by_field_name("declarator").is_some_and(|it| it.kind() != "parenthesized_declarator");
        }
        at = inner.child_by_field_name("declarator");
    }
    false
}

/// Returns the node with a definition's name.
fn name_of(language: Language, node: Node<'_>, what: What) -> Option<Node<'_>> {
    if what == What::Around {
        let mut name = node.child_by_field_name("type")?;
        while let Some(inner) = name.child_by_field_name("type").or_else(|| name.child_by_field_name("name")) {
            name = inner;
        }
        return Some(name);
    }
    let direct = node.child_by_field_name("name").or_else(|| node.child_by_field_name("left"));
    let mut name = match direct.or_else(|| node.child_by_field_name("declarator")) {
        Some(name) => name,
        // The first name of a list.
        None if language == Language::Lua => {
            let list = node.named_child(0)?;
            let list = if list.kind() == "assignment_statement" { list.named_child(0)? } else { list };
            list.child_by_field_name("name").or_else(|| list.named_child(0))?
        }
        None => return None,
    };
    loop {
        let inner = ["declarator", "name", "field", "method"].iter().find_map(|field| name.child_by_field_name(field));
        match inner.or_else(|| if name.kind().ends_with("_declarator") { name.named_child(0) } else { None }) {
            Some(inner) => name = inner,
            None => return Some(name),
        }
    }
}

/// Returns the beginning of a definition in one line, without its body.
fn signature(text: &str, node: Node<'_>, kind: Kind) -> String {
    // The node around it shows its kind: `type` of Go, `const` of JavaScript, `template` of C++.
    let outer = node.parent().filter(|parent| {
        matches!(
            parent.kind(),
            "lexical_declaration" | "template_declaration" | "variable_declaration" | "export_statement"
        ) || (matches!(parent.kind(), "type_declaration" | "const_declaration" | "var_declaration")
            && parent.named_child_count() == 1)
    });
    let start = outer.map_or(node.start_byte(), |outer| outer.start_byte());
    let value = node.child_by_field_name("value").filter(|_| kind == Kind::Function);
    let body = node.child_by_field_name("body").or_else(|| value.and_then(|value| value.child_by_field_name("body")));
    let end = body.map_or(node.end_byte(), |body| body.start_byte());
    let whole = text.get(start..end).unwrap_or_default();
    // Without a body the first line is enough: the rest is fields or a value.
    let words = match kind {
        Kind::Function if body.is_some() => whole,
        Kind::Function => whole.split(['{', '\n']).next().unwrap_or_default(),
        _ if body.is_some() => whole,
        _ => whole.lines().next().unwrap_or_default(),
    };
    let mut line = String::new();
    for word in words.split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    let mut line = line.trim_end_matches([' ', '{', ':', ';', '=', ',']).trim_end_matches("=>").trim_end().to_owned();
    if line.chars().count() > SIGNATURE_CHARS_MAX {
        line = line.chars().take(SIGNATURE_CHARS_MAX).collect::<String>() + "…";
    }
    line
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Each definition as `line name: signature`, indented by depth.
    fn shown(language: &str, text: &str) -> Vec<String> {
        let outline = outline(Language::of_name(language).expect("a language"), text).expect("an outline");
        let words = |it: &Definition| format!("{}{} {}: {}", "  ".repeat(it.depth), it.lines.0, it.name, it.signature);
        outline.definitions.iter().map(words).collect()
    }

    #[test]
    fn each_language_has_its_definitions() {
        for (language, text, definitions) in SOURCES {
            assert_eq!(shown(language, text), *definitions, "{language}");
        }
    }

    const SOURCES: &[(&str, &str, &[&str])] = &[
        (
            "rust",
            "//! doc\nuse a::b;\npub const MAX: usize = 3;\n#[derive(Debug)]\npub struct Foo<'a> {\n    x: &'a str,\n}\npub(crate) enum E { A, B }\nimpl<'a> Foo<'a> {\n    /// d\n    pub fn new(x: &'a str) -> Self\n    where\n        Self: Sized,\n    {\n        fn inner() {}\n        Self { x }\n    }\n}\ntrait T {\n    fn go(&self);\n}\nimpl T for Foo<'_> {\n    fn go(&self) {}\n}\nmacro_rules! m { () => {} }\ntype A = u8;\nmod tests {\n    fn one() {}\n}\n",
            &[
                "3 MAX: pub const MAX: usize = 3",
                "5 Foo: pub struct Foo<'a>",
                "8 E: pub(crate) enum E",
                "  11 new: pub fn new(x: &'a str) -> Self where Self: Sized",
                "19 T: trait T",
                "  20 go: fn go(&self)",
                "  23 go: fn go(&self)",
                "25 m: macro_rules! m",
                "26 A: type A = u8",
                "27 tests: mod tests",
                "  28 one: fn one()",
            ],
        ),
        (
            "c",
            "#include <a.h>\n#define MAX 3\n#define SQ(x) ((x)*(x))\nstruct point {\n  int x;\n};\ntypedef struct { int y; } pair_t;\nenum color { RED };\nstatic char *name(struct point *p, int n)\n{\n  return 0;\n}\nint proto(void);\nint (*callback)(int);\nint counter = 3;\n",
            &[
                "2 MAX: #define MAX 3",
                "3 SQ: #define SQ(x) ((x)*(x))",
                "4 point: struct point",
                "7 pair_t: typedef struct { int y; } pair_t",
                "8 color: enum color",
                "9 name: static char *name(struct point *p, int n)",
                "13 proto: int proto(void)",
            ],
        ),
        (
            "cpp",
            "namespace app {\ntemplate <typename T>\nclass Box : public Base {\n public:\n  explicit Box(T v);\n  T get() const { return v_; }\n  virtual ~Box();\n private:\n  T v_;\n};\nenum class Color { Red };\n}\nint app::Box<int>::go(int a) { return 1; }\nusing Alias = int;\n",
            &[
                "1 app: namespace app",
                "  3 Box: template <typename T> class Box : public Base",
                "    5 Box: explicit Box(T v)",
                "    6 get: T get() const",
                "    7 ~Box: virtual ~Box()",
                "  11 Color: enum class Color",
                "13 go: int app::Box<int>::go(int a)",
                "14 Alias: using Alias = int",
            ],
        ),
        (
            "go",
            "package main\nimport \"fmt\"\nconst Max = 3\nvar (\n\tx = 1\n)\ntype Server struct {\n\tA int\n}\ntype Doer interface {\n\tDo(n int) error\n}\nfunc New(a string) *Server {\n\tvar y = 1\n\treturn nil\n}\nfunc (s *Server) Run(n int) (int, error) {\n\treturn 0, nil\n}\n",
            &[
                "3 Max: const Max = 3",
                "5 x: x = 1",
                "7 Server: type Server struct",
                "10 Doer: type Doer interface",
                "  11 Do: Do(n int) error",
                "13 New: func New(a string) *Server",
                "17 Run: func (s *Server) Run(n int) (int, error)",
            ],
        ),
        (
            "java",
            "package a.b;\nimport java.util.*;\npublic class Foo extends Bar implements Baz {\n  private static final int MAX = 3;\n  public Foo(int a) { super(a); }\n  @Override\n  public String go(List<String> x) throws Error { return null; }\n  interface In { void f(); }\n  enum E { A }\n}\nrecord P(int x) {}\n",
            &[
                "3 Foo: public class Foo extends Bar implements Baz",
                "  4 MAX: private static final int MAX = 3",
                "  5 Foo: public Foo(int a)",
                "  6 go: @Override public String go(List<String> x) throws Error",
                "  8 In: interface In",
                "    8 f: void f()",
                "  9 E: enum E",
                "11 P: record P(int x)",
            ],
        ),
        (
            "js",
            "import a from 'b';\nconst MAX = 3;\nexport const f = async (x, y) => {\n  const g = () => 1;\n  return x;\n};\nfunction h(a) { function inner() {} }\nexport default class A extends B {\n  constructor(x) { super(); }\n  static go() { return 1; }\n}\nmodule.exports = { f };\n",
            &[
                "2 MAX: const MAX = 3",
                "3 f: const f = async (x, y)",
                "7 h: function h(a)",
                "8 A: export default class A extends B",
                "  9 constructor: constructor(x)",
                "  10 go: static go()",
            ],
        ),
        (
            "ts",
            "export interface P { x: number; go(): void }\nexport type Q<T> = P | T;\nenum E { A }\nexport abstract class S<T> {\n  private x: number;\n  abstract f(): void;\n  g(a: string): Promise<void> { return; }\n}\nexport function over(a: string): void;\nnamespace N { export const z = 1; }\nexport default function main(): void {}\n",
            &[
                "1 P: export interface P",
                "  1 go: go(): void",
                "2 Q: export type Q<T> = P | T",
                "3 E: enum E",
                "4 S: export abstract class S<T>",
                "  6 f: abstract f(): void",
                "  7 g: g(a: string): Promise<void>",
                "9 over: export function over(a: string): void",
                "10 N: namespace N",
                "  10 z: const z = 1",
                "11 main: export default function main(): void",
            ],
        ),
        (
            "lua",
            "local M = {}\nlocal function helper(a) return a end\nfunction M.go(x, y)\n  return helper(x)\nend\nfunction M:method() end\nM.f = function(a) end\nreturn M\n",
            &[
                "1 M: local M = {}",
                "2 helper: local function helper(a)",
                "3 go: function M.go(x, y)",
                "6 method: function M:method() end",
                "7 f: M.f = function(a) end",
            ],
        ),
        (
            "python",
            "import os\nMAX = 3\n@dec\ndef f(a: int, b=2) -> str:\n    def inner(): pass\n    return a\nclass A(Base):\n    x = 1\n    def go(self):\n        self.y = 2\n    async def later(self): ...\n",
            &[
                "2 MAX: MAX = 3",
                "4 f: def f(a: int, b=2) -> str",
                "7 A: class A(Base)",
                "  9 go: def go(self)",
                "  11 later: async def later(self)",
            ],
        ),
        (
            "bash",
            "#!/bin/bash\nset -e\nNAME=x\nhelper() {\n  echo a\n}\nfunction other {\n  helper b\n}\nhelper\n",
            &["4 helper: helper()", "7 other: function other"],
        ),
    ];

    #[test]
    fn names_that_are_used_are_counted_and_definitions_lie_within_another() {
        let text = "struct Foo; impl Foo { fn go(&self) { helper(Foo); helper(x) } }";
        let outline = outline(Language::Rust, text).expect("an outline");
        let references: Vec<(&str, u32)> =
            outline.references.iter().map(|(name, count)| (name.as_str(), *count)).collect();
        assert_eq!(references, [("Foo", 1), ("helper", 2)]);
        assert_eq!(outline.definitions[1].within.as_deref(), Some("Foo"));
        let long = "fn f() {}\n".repeat(super::super::TEXT_BYTES_MAX / 10 + 1);
        assert_eq!(super::outline(Language::Rust, &long), None);
    }

    proptest! {
        #[test]
        fn any_text_has_an_outline(text in "[ -~\n]{0,120}", at in 0usize..11) {
            let language = Language::all().nth(at).expect("a language");
            let outline = outline(language, &text).expect("an outline");
            for it in outline.definitions {
                prop_assert!(it.lines.0 >= 1 && it.lines.0 <= it.lines.1);
                prop_assert!(!it.signature.contains('\n'));
            }
        }
    }
}
