//! The tree of a bash script, as far as it decides what the script does. Data only.

use std::rc::Rc;

/// A list of commands, in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Script {
    pub(crate) items: Vec<Item>,
}

/// Pipelines joined by `&&` and `||`, and whether they run in the background.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Item {
    pub(crate) first: Pipeline,
    pub(crate) rest: Vec<(Joint, Pipeline)>,
    pub(crate) background: bool,
}

/// `&&` or `||`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Joint {
    And,
    Or,
}

/// Commands that feed each other.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Pipeline {
    pub(crate) commands: Vec<Command>,
}

/// A command with its redirections.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Command {
    pub(crate) kind: Kind,
    pub(crate) redirects: Vec<Redirect>,
}

/// The kinds of commands.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Kind {
    Simple { assigns: Vec<Assign>, words: Vec<Word> },
    Group(Script),
    Subshell(Script),
    If { tests: Vec<(Script, Script)>, otherwise: Option<Script> },
    While { test: Script, body: Script },
    For { name: String, words: Option<Vec<Word>>, body: Script },
    ArithmeticFor { head: Word, body: Script },
    Case { word: Word, arms: Vec<(Vec<Word>, Script)> },
    Function { name: String, body: Rc<Command> },
    Arithmetic(Word),
    Test(Vec<Word>),
    Coprocess(Box<Command>),
}

/// An assignment: `name=value`, `name[index]+=value`, `name=(…)`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Assign {
    pub(crate) name: String,
    pub(crate) index: Option<Word>,
    pub(crate) append: bool,
    pub(crate) value: AssignValue,
}

/// The assigned value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum AssignValue {
    Scalar(Word),
    Array(Vec<(Option<Word>, Word)>),
}

/// A redirection.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Redirect {
    /// The descriptor before the operator: digits, or the name in `{name}>`.
    pub(crate) fd: Option<String>,
    pub(crate) op: RedirectOp,
    /// A file's name, a descriptor, or the text of a here-document.
    pub(crate) target: Word,
}

/// The redirection operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RedirectOp {
    /// `<`
    Read,
    /// `>`, `>|`, `&>`, and `>&` with a file's name
    Write,
    /// `>>`, `&>>`
    Append,
    /// `<>`
    Both,
    /// `<&`
    DuplicateIn,
    /// `>&`
    DuplicateOut,
    /// `<<`, `<<-`, `<<<`: the text itself
    Here,
}

/// A word: its parts side by side.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Word {
    pub(crate) parts: Vec<Part>,
}

/// A part of a word.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Part {
    /// Text outside quotes: braces, tildes and patterns in it are alive.
    Plain(String),
    /// Text that a quote or a backslash made dead.
    Dead(String),
    /// `"…"`
    Double(Vec<Part>),
    /// `$name`, `${…}`
    Parameter(Box<Parameter>),
    /// `$(…)`, backquotes
    Command(Rc<Script>),
    /// `$((…))`, `$[…]`: the expression as a word
    Arithmetic(Word),
    /// `<(…)`, `>(…)`
    Process { script: Rc<Script>, is_output: bool },
}

/// A parameter and what is done to its value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Parameter {
    pub(crate) name: String,
    pub(crate) index: Option<Word>,
    /// `${!name}`
    pub(crate) indirect: bool,
    /// `${#name}`
    pub(crate) length: bool,
    pub(crate) change: Change,
}

/// The operation on a parameter's value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Change {
    None,
    /// `${!prefix@}`: the names that begin with the prefix.
    Names,
    /// `:-` `:=` `:+` `:?`, each also without its colon.
    Default {
        letter: char,
        colon: bool,
        word: Word,
    },
    /// `#` `##` `%` `%%`
    Trim {
        from_end: bool,
        longest: bool,
        pattern: Word,
    },
    /// `/` `//` `/#` `/%`
    Replace {
        all: bool,
        anchor: Option<char>,
        pattern: Word,
        with: Word,
    },
    /// `^` `^^` `,` `,,` (`~` counts as unknown)
    Case {
        letter: char,
        all: bool,
        pattern: Word,
    },
    /// `:offset:length`
    Slice {
        offset: Word,
        length: Option<Word>,
    },
    /// `@P`, `@Q` and others
    Transform(char),
    /// `${!prefix*}` and what isn't known
    Unknown,
}

/// The problem of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Trouble {
    /// Not a whole script, or bash would not read it so.
    Syntax,
    /// Nested deeper than the limit.
    Depth,
}
