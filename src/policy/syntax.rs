//! The tree of a bash script, as far as it decides what the script does. Data only.

use std::rc::Rc;

/// A list of commands, in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Script {
    pub(super) items: Vec<Item>,
}

/// Pipelines joined by `&&` and `||`, and whether they run in the background.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Item {
    pub(super) first: Pipeline,
    pub(super) rest: Vec<(Joint, Pipeline)>,
    pub(super) background: bool,
}

/// `&&` or `||`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Joint {
    And,
    Or,
}

/// Commands that feed each other.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Pipeline {
    pub(super) commands: Vec<Command>,
}

/// A command with its redirections.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Command {
    pub(super) kind: Kind,
    pub(super) redirects: Vec<Redirect>,
}

/// The kinds of commands.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
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
pub(super) struct Assign {
    pub(super) name: String,
    pub(super) index: Option<Word>,
    pub(super) append: bool,
    pub(super) value: AssignValue,
}

/// What is assigned.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum AssignValue {
    Scalar(Word),
    Array(Vec<(Option<Word>, Word)>),
}

/// A redirection.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Redirect {
    /// The descriptor before the operator: digits, or the name in `{name}>`.
    pub(super) fd: Option<String>,
    pub(super) op: RedirectOp,
    /// A file's name, a descriptor, or the text of a here-document.
    pub(super) target: Word,
}

/// The redirection operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RedirectOp {
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
pub(super) struct Word {
    pub(super) parts: Vec<Part>,
}

/// A part of a word.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Part {
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
pub(super) struct Parameter {
    pub(super) name: String,
    pub(super) index: Option<Word>,
    /// `${!name}`
    pub(super) indirect: bool,
    /// `${#name}`
    pub(super) length: bool,
    pub(super) change: Change,
}

/// What is done to a parameter's value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Change {
    None,
    /// `${!prefix@}`: the names that begin so.
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

/// What was wrong with a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Trouble {
    /// It isn't a whole script, or bash would not read it so.
    Syntax,
    /// It is nested deeper than is looked at.
    Depth,
}
