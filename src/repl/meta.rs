//! The meta commands: one table that gives parsing, help, completion and `docs/meta-commands.md`.

/// What a meta command's first argument may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argument {
    /// None.
    None,
    /// A model's name; none shows the one in use.
    Model,
    /// Words to look for, or one of `HISTORY_WORDS`; none shows the newest.
    History,
    /// A conversation's number, or words of it; none is the one before.
    Conversation,
    /// The number of a turn.
    Turn,
    /// A title; none shows it.
    Title,
    /// A command line.
    Command,
    /// A text.
    Text,
    /// The number of a block of code; none means the whole answer.
    Block,
    /// One of `CONFIG_WORDS`; none shows the settings.
    Config,
    /// A mode of `route.mode`; none shows the one in force.
    Mode,
    /// The word `forget`.
    Forget,
    /// The word `show`, or none.
    Show,
    /// The word `clear`, or none.
    Clear,
    /// One of `CONTEXT_WORDS`; none shows the context.
    Context,
    /// The word `detail`, or none.
    Detail,
    /// The number of a block and a file; none saves the conversation's memory.
    Save,
    /// One of `MEMORY_WORDS`; none lists what is remembered.
    Memory,
    /// One of `ALLOW_WORDS`; none lists.
    Allow,
    /// `explain` and a command; none shows the rules.
    Policy,
    /// One of `UNDO_WORDS`, or how many steps; none is one.
    Undo,
    /// How many steps; none is one.
    Redo,
    /// The number of a step.
    Step,
    /// One of `SKILLS_WORDS`; none lists.
    Skills,
    /// One of `SESSION_WORDS`; none lists.
    Session,
    /// Words, or none.
    Words,
    /// A word of any kind.
    Word,
}

/// What `:config` can be told.
pub const CONFIG_WORDS: [&str; 6] = ["show", "reload", "edit", "path", "trust", "untrust"];

/// What `:context` can be told.
pub const CONTEXT_WORDS: [&str; 3] = ["compact", "restore", "project"];

/// What `:memory` can be told.
pub const MEMORY_WORDS: [&str; 8] = ["add", "drop", "edit", "forget", "inbox", "save", "show", "take"];
/// What `:session` can be told.
pub const SESSION_WORDS: [&str; 15] = [
    "abandon", "apply", "cat", "diff", "drop", "files", "leave", "list", "log", "merge", "open", "show", "start",
    "sync", "undo",
];
/// What `:allow` can be told.
pub const ALLOW_WORDS: [&str; 4] = ["list", "remove", "export", "import"];

/// What `:undo` can be told, beside a number.
pub const UNDO_WORDS: [&str; 2] = ["--file", "--force"];

/// What `:history` can be told, beside words to look for.
pub const HISTORY_WORDS: [&str; 4] = ["turns", "prune", "delete", "export"];

/// A group of help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// The lines that are typed.
    Lines,
    /// The conversation with the model.
    Conversation,
    /// The last answer.
    Answer,
    /// The model and its price.
    Model,
    /// The actions of a model.
    Tools,
    /// The session and its settings.
    Session,
}

impl Group {
    /// Every group, in the order of help.
    pub const ALL: [Self; 6] = [Self::Lines, Self::Conversation, Self::Answer, Self::Model, Self::Tools, Self::Session];

    /// Its heading.
    #[must_use]
    pub fn heading(self) -> &'static str {
        match self {
            Self::Lines => "Lines",
            Self::Conversation => "Conversation",
            Self::Answer => "The last answer",
            Self::Model => "Model and cost",
            Self::Tools => "Tools and their changes",
            Self::Session => "Session and settings",
        }
    }
}

/// What `:skills` can be told.
pub const SKILLS_WORDS: [&str; 2] = ["trust", "untrust"];

/// What a meta command does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Ends the session as `exit` does.
    Quit,
    /// Clears the screen.
    Clear,
    /// Starts over.
    Reset,
    /// Switches the model.
    Model,
    /// Lists the models.
    Models,
    /// Lists, prunes or exports the history; deletes a line of it.
    History,
    /// Begins a new conversation.
    New,
    /// Prints the conversation.
    Transcript,
    /// Finds a model and writes the config for it.
    Onboard,
    /// Lists the conversations.
    Sessions,
    /// Goes on with one.
    Resume,
    /// Goes on in a copy of this one.
    Fork,
    /// Takes back turns.
    Rewind,
    /// Names this one.
    Title,
    /// Runs a command.
    Exec,
    /// Asks the model.
    Ask,
    /// Copies the last answer or a block of it.
    Copy,
    /// Runs a block of the last answer.
    Run,
    /// Writes a block of the last answer to a file.
    Save,
    /// Shows what the model thought.
    Thoughts,
    /// Tells what was spent.
    Cost,
    /// Counts tokens.
    Tokens,
    /// Explains the last decision.
    Why,
    /// Shows, reads again or opens the config; trusts a project's file.
    Config,
    /// Sets who decides where lines go.
    Mode,
    /// Forgets what was learned about where lines go.
    Route,
    /// Shows what the next question carries; summarises it, or undoes that.
    Context,
    /// Shows the project's card.
    Card,
    /// Sessions on git.
    Session,
    /// Lists, adds, changes and forgets what is remembered.
    Memory,
    /// Lists what was hidden.
    Redact,
    /// Stops every tool, or lets them run again.
    Estop,
    /// Shows the uncommitted changes, or what a step changed.
    Diff,
    /// Shows what a tool gave.
    Show,
    /// Lists the tools.
    Tools,
    /// Lists, starts, and allows servers of tools.
    Mcp,
    Call,
    /// Lists what is allowed for good; takes back.
    Allow,
    /// Shows what a model may do; judges a command.
    Policy,
    /// Takes back what a model changed.
    Undo,
    /// Makes it again.
    Redo,
    /// Lists what it changed.
    Steps,
    /// Answers from this machine, without a model.
    Man,
    /// Answers the calls of other agents that wait for a yes.
    Approve,
    /// Lists skills and prompt templates; trusts a project's.
    Skills,
    /// Asks what a prompt template says.
    Prompt,
    /// Lists the meta commands.
    Help,
}

/// One meta command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meta {
    /// Its group in help.
    pub group: Group,
    /// Its names, without the colon; the first is shown.
    pub names: &'static [&'static str],
    /// Its argument, as help shows it.
    pub usage: &'static str,
    /// What its argument may be.
    pub argument: Argument,
    /// What it does, one line.
    pub help: &'static str,
    /// What it does.
    pub action: Action,
}

/// The table, in the order of help.
pub const METAS: [Meta; 47] = [
    row(
        Group::Lines,
        &["exec"],
        "CMD",
        Argument::Command,
        "runs CMD in the shell, whatever it looks like",
        Action::Exec,
    ),
    row(Group::Lines, &["ask"], "TEXT", Argument::Text, "asks the model TEXT, whatever it looks like", Action::Ask),
    row(
        Group::Lines,
        &["why"],
        "",
        Argument::None,
        "says why the last line went to the shell or the model; after a failure asks the model about it",
        Action::Why,
    ),
    row(
        Group::Lines,
        &["mode"],
        "[MODE]",
        Argument::Mode,
        "auto, shell, ask or shadow: sets who decides where lines go, until the session ends",
        Action::Mode,
    ),
    row(
        Group::Lines,
        &["route"],
        "forget",
        Argument::Forget,
        "forgets which lines you sent the other way",
        Action::Route,
    ),
    row(
        Group::Lines,
        &["history"],
        "[TEXT]",
        Argument::History,
        "lists the newest lines, or those with TEXT; turns prints this conversation; prune, delete N, export FILE.jsonl or .md",
        Action::History,
    ),
    row(
        Group::Conversation,
        &["new"],
        "",
        Argument::None,
        "begins a new conversation; the one before stays in :sessions",
        Action::New,
    ),
    row(
        Group::Conversation,
        &["clear"],
        "",
        Argument::None,
        "clears the screen; the conversation goes on, :new begins another",
        Action::Clear,
    ),
    row(
        Group::Conversation,
        &["reset"],
        "",
        Argument::None,
        "starts over: another conversation, no command output, the default model",
        Action::Reset,
    ),
    row(
        Group::Conversation,
        &["transcript"],
        "[N]",
        Argument::Turn,
        "prints this conversation's questions and answers, or the last N of them",
        Action::Transcript,
    ),
    row(
        Group::Conversation,
        &["sessions"],
        "",
        Argument::None,
        "lists the conversations, the last used at the end",
        Action::Sessions,
    ),
    row(
        Group::Conversation,
        &["resume"],
        "[ID or TEXT]",
        Argument::Conversation,
        "continues a conversation: by number, by words in it, or the previous one",
        Action::Resume,
    ),
    row(
        Group::Conversation,
        &["fork"],
        "[TURN]",
        Argument::Turn,
        "goes on in a copy of this conversation, up to TURN; the original stays as it is",
        Action::Fork,
    ),
    row(
        Group::Conversation,
        &["rewind"],
        "[TURN]",
        Argument::Turn,
        "drops everything after TURN, 0 drops all; without TURN lists the turns",
        Action::Rewind,
    ),
    row(
        Group::Conversation,
        &["session"],
        "[WHAT]",
        Argument::Session,
        "lists sessions on git, whose turns are commits; start [--from REV or --with-changes] [TITLE], open ID, leave, log, show [N], diff [N or A..B], files [DIR] [@N], cat PATH [@N], undo, sync [BRANCH], apply, merge [--squash, --merge, --rebase or --pick N,N] [--into BRANCH] [--keep-record], abandon ID, drop ID",
        Action::Session,
    ),
    row(
        Group::Conversation,
        &["title"],
        "[TEXT]",
        Argument::Title,
        "names this conversation TEXT, or prints its name",
        Action::Title,
    ),
    row(
        Group::Conversation,
        &["context"],
        "[WHAT]",
        Argument::Context,
        "shows what the next question carries and costs; compact summarises older turns, restore undoes it; project on or off",
        Action::Context,
    ),
    row(
        Group::Conversation,
        &["card"],
        "",
        Argument::None,
        "shows what a question carries of the repository around you, and what that costs",
        Action::Card,
    ),
    row(
        Group::Conversation,
        &["memory"],
        "[WHAT or QUERY]",
        Argument::Memory,
        "lists what is remembered; QUERY searches it and all conversations; save, add TEXT, edit N, show N, forget N; inbox, take N, drop N",
        Action::Memory,
    ),
    row(
        Group::Conversation,
        &["redact"],
        "[show]",
        Argument::Show,
        "lists the secrets that were hidden in this session: kind, length and place",
        Action::Redact,
    ),
    row(
        Group::Answer,
        &["copy"],
        "[N]",
        Argument::Block,
        "copies the last answer, or its block of code N, to the clipboard",
        Action::Copy,
    ),
    row(
        Group::Answer,
        &["run"],
        "N",
        Argument::Text,
        "runs block of code N of the last answer in the shell, after your yes",
        Action::Run,
    ),
    row(
        Group::Answer,
        &["save"],
        "[N FILE]",
        Argument::Save,
        "writes block of code N of the last answer to a new FILE; alone it remembers the conversation, as :memory save",
        Action::Save,
    ),
    row(
        Group::Answer,
        &["thoughts"],
        "",
        Argument::None,
        "shows the model's thoughts before the last answer",
        Action::Thoughts,
    ),
    row(
        Group::Model,
        &["model"],
        "NAME",
        Argument::Model,
        "switches to another model; without NAME prints which one answers",
        Action::Model,
    ),
    row(Group::Model, &["models"], "", Argument::None, "lists the configured models", Action::Models),
    row(
        Group::Model,
        &["onboard"],
        "[PORT]",
        Argument::Word,
        "finds a model on this machine or a key, and writes the config for it",
        Action::Onboard,
    ),
    row(
        Group::Model,
        &["cost"],
        "[detail]",
        Argument::Detail,
        "prints the cost of this conversation, this day and this month, by model; detail: each request",
        Action::Cost,
    ),
    row(
        Group::Model,
        &["tokens"],
        "TEXT",
        Argument::Text,
        "counts the tokens of TEXT for the model that answers",
        Action::Tokens,
    ),
    row(
        Group::Tools,
        &["tools"],
        "",
        Argument::None,
        "lists the tools that the model has here, and how risky they are",
        Action::Tools,
    ),
    row(
        Group::Tools,
        &["mcp"],
        "[WORD NAME …]",
        Argument::Word,
        "lists servers of tools; show, tools, allow, deny, connect, login, test and further words act on one",
        Action::Mcp,
    ),
    row(
        Group::Tools,
        &["call"],
        "SERVER.TOOL [JSON]",
        Argument::Word,
        "calls a server's tool by hand; nothing is sent to a model",
        Action::Call,
    ),
    row(
        Group::Tools,
        &["approve"],
        "[N]",
        Argument::Word,
        "shows a call of another agent (`reedclaw mcp serve`) and asks whether it may run; without N the oldest",
        Action::Approve,
    ),
    row(
        Group::Tools,
        &["show"],
        "[N]",
        Argument::Block,
        "shows the whole result of tool call N, or of the last one",
        Action::Show,
    ),
    row(
        Group::Tools,
        &["steps"],
        "",
        Argument::None,
        "lists the changes by a model's commands and edits, and which of them can't be reverted",
        Action::Steps,
    ),
    row(
        Group::Tools,
        &["undo"],
        "[N]",
        Argument::Undo,
        "reverts the last step, or the last N, of a model's commands and edits; --file PATH: one file",
        Action::Undo,
    ),
    row(Group::Tools, &["redo"], "[N]", Argument::Redo, "makes steps again that were taken back", Action::Redo),
    row(
        Group::Tools,
        &["diff"],
        "[N]",
        Argument::Step,
        "shows what differs from the last commit; with a number what that step changed",
        Action::Diff,
    ),
    row(
        Group::Tools,
        &["allow", "allowlist"],
        "[WHAT]",
        Argument::Allow,
        "lists the commands that the model may run in this project without a question; remove N, export FILE, import FILE",
        Action::Allow,
    ),
    row(
        Group::Tools,
        &["policy"],
        "[explain CMD]",
        Argument::Policy,
        "shows what a model may do and where that is set; with CMD how it would be judged, without running it",
        Action::Policy,
    ),
    row(
        Group::Tools,
        &["estop"],
        "[clear]",
        Argument::Clear,
        "stops every tool of a model, in every session; clear lets them run again",
        Action::Estop,
    ),
    row(
        Group::Session,
        &["config"],
        "[WHAT]",
        Argument::Config,
        "show, reload, edit, path: the settings and where each comes from; trust, untrust: a project's file",
        Action::Config,
    ),
    row(
        Group::Tools,
        &["skills"],
        "[trust]",
        Argument::Skills,
        "lists skills and prompt templates; trust, untrust: those of the project",
        Action::Skills,
    ),
    row(
        Group::Conversation,
        &["p"],
        "[NAME TEXT]",
        Argument::Words,
        "asks the question of the prompt template NAME, with TEXT as its arguments",
        Action::Prompt,
    ),
    row(
        Group::Session,
        &["man"],
        "QUESTION",
        Argument::Text,
        "answers from this machine, without a model: recipes, manual pages, your history; a line can be taken into the editor",
        Action::Man,
    ),
    row(
        Group::Session,
        &["help"],
        "[WORD]",
        Argument::Word,
        "lists the meta commands and the keys, or those about WORD",
        Action::Help,
    ),
    row(Group::Session, &["quit", "q", "exit"], "", Argument::None, "ends the session, as exit does", Action::Quit),
];

const fn row(
    group: Group,
    names: &'static [&'static str],
    usage: &'static str,
    argument: Argument,
    help: &'static str,
    action: Action,
) -> Meta {
    Meta { group, names, usage, argument, help, action }
}

/// Why a meta line can't be carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MetaError {
    /// There is no such command; perhaps this one was meant.
    Unknown {
        /// What was typed.
        name: String,
        /// The nearest name, if one is near.
        nearest: Option<&'static str>,
    },
    /// It needs an argument, as the usage says.
    Missing(&'static Meta),
    /// It takes no argument.
    Surplus(&'static Meta),
}

/// Whether what a line does is kept in the history as a command or a question, with the line as its text: one row is enough.
#[must_use]
pub fn has_row_of_its_own(line: &str) -> bool {
    parse(line)
        .is_ok_and(|(found, argument)| matches!(found.action, Action::Exec | Action::Ask) && !argument.is_empty())
}

/// Reads a meta line, with or without its colon: the command and its argument.
///
/// # Errors
/// The command is unknown, lacks its argument, or takes none.
pub fn parse(line: &str) -> Result<(&'static Meta, &str), MetaError> {
    let line = line.trim();
    let line = line.strip_prefix(':').unwrap_or(line);
    let (name, argument) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let argument = argument.trim();
    let found = METAS.iter().find(|meta| meta.names.contains(&name));
    let Some(meta) = found else {
        return Err(MetaError::Unknown { name: name.to_owned(), nearest: nearest(name) });
    };
    match meta.argument {
        Argument::None if !argument.is_empty() => Err(MetaError::Surplus(meta)),
        Argument::Show if !matches!(argument, "" | "show") => Err(MetaError::Surplus(meta)),
        Argument::Command | Argument::Text | Argument::Forget if argument.is_empty() => Err(MetaError::Missing(meta)),
        _ => Ok((meta, argument)),
    }
}

/// What is wrong with a meta command of a config that has this name, if one of ReedClaw's own has it.
#[must_use]
pub fn taken(name: &str) -> Option<String> {
    let is_own = METAS.iter().any(|meta| meta.names.contains(&name));
    is_own.then(|| format!(":{name} is one of ReedClaw's own; yours is not used"))
}

/// The name that begins with what was typed, or is one edit away.
fn nearest(typed: &str) -> Option<&'static str> {
    let names = || METAS.iter().flat_map(|meta| meta.names.iter().copied()).filter(|name| name.len() > 1);
    let begins = names().find(|name| !typed.is_empty() && name.starts_with(typed));
    let alike = |name: &&str| {
        let pairs = || typed.bytes().zip(name.bytes());
        let ends = typed.bytes().rev().zip(name.bytes().rev());
        pairs().take_while(|(x, y)| x == y).count() + ends.take_while(|(x, y)| x == y).count()
    };
    begins.or_else(|| names().filter(|name| strsim::osa_distance(typed, name) == 1).max_by_key(alike))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meta_lines_are_read() {
        assert_eq!(parse(":q").unwrap().0.action, Action::Quit);
        assert_eq!(parse(" :model  big ").unwrap().1, "big");
        assert_eq!(parse("exec rm -r x").unwrap().1, "rm -r x");
        let unknown = |line: &str| match parse(line) {
            Err(MetaError::Unknown { nearest, .. }) => nearest,
            other => panic!("{other:?}"),
        };
        assert_eq!(unknown(":hlep"), Some("help"));
        assert_eq!(unknown(":hist"), Some("history"));
        assert_eq!(unknown(":modl"), Some("model"));
        assert_eq!(unknown(":zzz"), None);
        assert!(matches!(parse(":exec"), Err(MetaError::Missing(_))));
        assert!(matches!(parse(":why not"), Err(MetaError::Surplus(_))));
    }
}
