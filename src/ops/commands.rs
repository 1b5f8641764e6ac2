//! The words for things that a user can ask for: one table for `:word` of the shell, `/word` of the chat and `/word` of
//! an editor. Parsing, help, completion, dispatch and `docs/meta-commands.md` use it.

/// The argument of a command of the shell, with the words that completion offers for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argument {
    /// None.
    None,
    /// A model's name, or none.
    Model,
    /// One of these words, or none.
    Only(&'static [&'static str]),
    /// One of these words, or anything else, or none.
    Optional(&'static [&'static str]),
    /// One of these words, or anything else.
    Needed(&'static [&'static str]),
}

/// An optional argument without words of its own.
const FREE: Argument = Argument::Optional(&[]);
/// A required text.
const TEXT: Argument = Argument::Needed(&[]);

/// First words of `:memory`; anything else is searched for.
pub const MEMORY_WORDS: &[&str] = &["add", "drop", "edit", "forget", "inbox", "save", "show", "take"];
/// First words of `:norris`.
const GOAL_WORDS: &[&str] = &[
    "answer", "approve", "budget", "deny", "list", "pause", "report", "resume", "say", "show", "stop", "undo", "watch",
];
/// First words of `:sop`.
const SOP_WORDS: &[&str] = &[
    "approve", "cancel", "list", "log", "reject", "replay", "resume", "run", "show", "status", "trust", "untrust",
    "validate",
];
/// First words of `:session`.
const SESSION_WORDS: &[&str] = &[
    "abandon",
    "amend",
    "apply",
    "approve",
    "cat",
    "context",
    "diff",
    "dir",
    "drop",
    "edit",
    "files",
    "leave",
    "list",
    "log",
    "merge",
    "message",
    "open",
    "redo",
    "reject",
    "revoke",
    "run",
    "show",
    "start",
    "summaries",
    "sync",
    "test",
    "tools",
    "undo",
];

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

/// The effect of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
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
    /// Continues a conversation.
    Resume,
    /// Continues in a copy of this one.
    Fork,
    /// Goes back to an earlier turn.
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
    /// Shows the cost.
    Cost,
    /// Counts tokens.
    Tokens,
    /// Explains the last decision.
    Why,
    /// Shows, reads again or opens the config; trusts a project's file.
    Config,
    /// Sets the mode that decides where lines go.
    Mode,
    /// Forgets what was learned about where lines go.
    Route,
    /// Shows what the next question carries; summarises it, or undoes that.
    Context,
    /// Summarises the older turns.
    Compact,
    /// Shows the project's card.
    Card,
    /// Sessions on git.
    Session,
    /// Works towards a goal, or acts on such a run.
    Norris,
    /// Procedures and their runs.
    Sop,
    /// Lists, adds, changes and forgets what is remembered.
    Memory,
    /// Lists what was hidden.
    Redact,
    /// Stops every tool, or lets them run again.
    Estop,
    /// Shows the uncommitted changes, or what a step changed.
    Diff,
    /// Shows the result of a tool.
    Show,
    /// Lists the tools.
    Tools,
    /// Lists, starts, and allows servers of tools.
    Mcp,
    Call,
    /// Lists the permanently allowed commands; withdraws one.
    Allow,
    /// Shows what a model may do; judges a command.
    Policy,
    /// Undoes a model's changes.
    Undo,
    /// Makes undone changes again.
    Redo,
    /// Lists the model's jobs; ends one.
    Jobs,
    /// Lists the model's changes.
    Steps,
    /// Answers from this machine, without a model.
    Man,
    /// Answers the calls of other agents that wait for a yes.
    Approve,
    /// Shows the session to others.
    Share,
    /// Lists skills and prompt templates; trusts a project's.
    Skills,
    /// Asks the question of a prompt template.
    Prompt,
    /// Lists the meta commands.
    Help,
}

/// A command's form if it isn't that of the shell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    /// Its name there.
    pub name: &'static str,
    /// Its argument, as help shows it.
    pub usage: &'static str,
    /// Its effect, one line.
    pub help: &'static str,
}

/// One command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// Its group in help.
    pub group: Group,
    /// Its names, without the colon; the first is shown.
    pub names: &'static [&'static str],
    /// Its argument, as help shows it.
    pub usage: &'static str,
    /// The argument itself.
    pub argument: Argument,
    /// Its effect, one line.
    pub help: &'static str,
    /// The same, for dispatch.
    pub op: Op,
    /// Its form in the chat, if it has it.
    pub chat: Option<Form>,
    /// Its form in an editor, if it has it.
    pub editor: Option<Form>,
    /// `true` if the shell has it.
    pub is_in_shell: bool,
}

/// The table, in the order of help.
pub const COMMANDS: [Command; 52] = [
    row(
        Group::Lines,
        &["exec"],
        "CMD",
        TEXT,
        "runs CMD in the shell, whatever it looks like",
        Op::Exec,
    ),
    row(Group::Lines, &["ask"], "TEXT", TEXT, "asks the model TEXT, whatever it looks like", Op::Ask),
    row(
        Group::Lines,
        &["why"],
        "",
        Argument::None,
        "says why the last line went to the shell or the model; after a failure asks the model about it",
        Op::Why,
    ),
    row(
        Group::Lines,
        &["mode"],
        "[MODE]",
        Argument::Optional(&["auto", "shell", "ask", "shadow"]),
        "auto, shell, ask or shadow: sets who decides where lines go, until the session ends",
        Op::Mode,
    ),
    row(
        Group::Lines,
        &["route"],
        "forget",
        Argument::Needed(&["forget"]),
        "forgets which lines you sent the other way",
        Op::Route,
    ),
    row(
        Group::Lines,
        &["history"],
        "[TEXT]",
        Argument::Optional(&["turns", "prune", "delete", "export"]),
        "lists the newest lines, or those with TEXT; turns prints this conversation; prune, delete N, export FILE.jsonl or .md",
        Op::History,
    ),
    row(
        Group::Conversation,
        &["new"],
        "",
        Argument::None,
        "begins a new conversation; the one before stays in :sessions",
        Op::New,
    )
    .chat("new", "", "begins a new conversation"),
    row(
        Group::Conversation,
        &["clear"],
        "",
        Argument::None,
        "clears the screen; the conversation continues, :new begins another",
        Op::Clear,
    )
    .chat("clear", "", "clears the screen; the conversation continues"),
    row(
        Group::Conversation,
        &["reset"],
        "",
        Argument::None,
        "starts over: another conversation, no command output, the default model",
        Op::Reset,
    ),
    row(
        Group::Conversation,
        &["transcript"],
        "[N]",
        FREE,
        "prints this conversation's questions and answers, or the last N of them",
        Op::Transcript,
    ),
    row(
        Group::Conversation,
        &["sessions"],
        "",
        Argument::None,
        "lists the conversations, the last used at the end, and before them the sessions of this repository",
        Op::Sessions,
    ),
    row(
        Group::Conversation,
        &["resume"],
        "[ID or TEXT]",
        FREE,
        "continues a conversation: by number, by words in it, or the previous one; ID of a session: opens it with its files",
        Op::Resume,
    ),
    row(
        Group::Conversation,
        &["fork"],
        "[TURN]",
        FREE,
        "continues in a copy of this conversation, up to TURN; the original stays as it is; in a session on git --kept K continues from what a rewind left",
        Op::Fork,
    ),
    row(
        Group::Conversation,
        &["rewind"],
        "[TURN]",
        FREE,
        "drops everything after TURN, 0 drops all; without TURN lists the turns; in a session on git --code goes back with the files alone, --talk with the conversation alone",
        Op::Rewind,
    ),
    row(
        Group::Conversation,
        &["session"],
        "[WHAT]",
        Argument::Optional(SESSION_WORDS),
        "lists sessions on git, whose turns are commits (list --all: abandoned ones, too); start [--from REV, --on BRANCH or --with-changes] [TITLE], open ID, leave, log, show [N], diff [N or A..B] [PATH] [--against BRANCH], files [DIR] [@N], cat PATH [@N], edit PATH, context [PATH or -PATH], dir DIR [@N], message [N] TEXT, amend [TEXT], run COMMAND, undo, redo, sync [--rebase or --with-changes] [BRANCH], apply, summaries [drop], merge [--squash, --merge, --rebase or --pick N,N] [--into BRANCH] [--keep-record], tools, test NAME, approve NAME, reject NAME, revoke NAME, abandon ID, drop ID",
        Op::Session,
    ),
    row(
        Group::Conversation,
        &["norris", "goal"],
        "[GOAL]",
        Argument::Optional(GOAL_WORDS),
        "works towards GOAL task by task until its checks pass; without an argument: watches the run; list, watch [N], show [N], report [N], say TEXT, pause, resume [N], answer [N], approve [N], deny [N] REASON, stop [N], undo [N], budget usd=2 minutes=30",
        Op::Norris,
    )
    .editor("goal", "goal, or list, show N, resume N, stop N, undo N", "Works towards a goal, task by task, until its checks pass"),
    row(
        Group::Conversation,
        &["sop"],
        "[WHAT]",
        Argument::Optional(SOP_WORDS),
        "runs procedures, as reedclaw sop does: list, show NAME, validate [NAME], trust NAME, untrust NAME, run NAME, status [N], log [N], approve N, reject N, resume N, cancel N, replay N; without an argument: lists them",
        Op::Sop,
    ),
    row(
        Group::Conversation,
        &["title"],
        "[TEXT]",
        FREE,
        "names this conversation TEXT, or prints its name",
        Op::Title,
    ),
    row(
        Group::Conversation,
        &["context"],
        "[WHAT]",
        Argument::Optional(&["compact", "restore", "project"]),
        "shows what the next question carries and costs; compact summarises older turns, restore undoes it; project on or off",
        Op::Context,
    )
    .editor("context", "", "Shows what the next prompt carries"),
    row(Group::Conversation, &["compact"], "", Argument::None, "summarises the older turns", Op::Compact)
        .editor("compact", "", "Summarises the older part of this session")
        .not_in_shell(),
    row(
        Group::Conversation,
        &["card"],
        "",
        Argument::None,
        "shows what a question carries of the repository around you, and what that costs",
        Op::Card,
    ),
    row(
        Group::Conversation,
        &["memory"],
        "[WHAT or QUERY]",
        Argument::Optional(MEMORY_WORDS),
        "lists what is remembered; QUERY searches it and all conversations; save, add TEXT, edit N, show N, forget N; inbox, take N, drop N",
        Op::Memory,
    )
    .chat("memory", "[QUERY]", "lists the memories, or searches them and all conversations")
    .editor("memory", "words", "Searches what is remembered and all conversations"),
    row(
        Group::Conversation,
        &["redact"],
        "[show]",
        Argument::Only(&["show"]),
        "lists the secrets that were hidden in this session: kind, length and place",
        Op::Redact,
    ),
    row(
        Group::Answer,
        &["copy"],
        "[N]",
        FREE,
        "copies the last answer, or its block of code N, to the clipboard",
        Op::Copy,
    ),
    row(
        Group::Answer,
        &["run"],
        "N",
        TEXT,
        "runs block of code N of the last answer in the shell, after your yes",
        Op::Run,
    ),
    row(
        Group::Answer,
        &["save"],
        "[N FILE]",
        FREE,
        "writes block of code N of the last answer to a new FILE; without an argument: remembers the conversation, as :memory save",
        Op::Save,
    ),
    row(
        Group::Answer,
        &["thoughts"],
        "",
        Argument::None,
        "shows the model's thoughts before the last answer",
        Op::Thoughts,
    ),
    row(
        Group::Model,
        &["model"],
        "NAME",
        Argument::Model,
        "switches to another model; without NAME prints which one answers",
        Op::Model,
    )
    .chat("model", "[NAME]", "switches to another model, or lists them")
    .editor("model", "name", "Lets another model answer, or lists them"),
    row(Group::Model, &["models"], "", Argument::None, "lists the configured models", Op::Models),
    row(
        Group::Model,
        &["onboard"],
        "[PORT]",
        FREE,
        "finds a model on this machine or a key, and writes the config for it",
        Op::Onboard,
    ),
    row(
        Group::Model,
        &["cost"],
        "[detail]",
        Argument::Optional(&["detail"]),
        "prints the cost of this conversation, this day and this month, by model; detail: each request",
        Op::Cost,
    )
    .editor("cost", "", "Shows what this session, this day and this month have cost"),
    row(
        Group::Model,
        &["tokens"],
        "TEXT",
        TEXT,
        "counts the tokens of TEXT for the model that answers",
        Op::Tokens,
    ),
    row(
        Group::Tools,
        &["tools"],
        "",
        Argument::None,
        "lists the tools that the model has here, and how risky they are",
        Op::Tools,
    )
    .chat("tools", "", "lists the model's tools and their risk")
    .editor("tools", "", "Lists the tools that the model has"),
    row(
        Group::Tools,
        &["mcp"],
        "[WORD NAME …]",
        FREE,
        "lists servers of tools; show, tools, allow, deny, connect, login, test and further words act on one",
        Op::Mcp,
    ),
    row(
        Group::Tools,
        &["call"],
        "SERVER.TOOL [JSON]",
        FREE,
        "calls a server's tool by hand; nothing is sent to a model",
        Op::Call,
    ),
    row(
        Group::Tools,
        &["approve"],
        "[N]",
        FREE,
        "shows a call of another agent (`reedclaw mcp serve`) and asks whether it may run; without N the oldest",
        Op::Approve,
    ),
    row(
        Group::Session,
        &["share"],
        "[watch|approve [USER…]|off]",
        Argument::Optional(&["approve", "off", "watch"]),
        "shows this session in the gateway's console, to all members or to these; approve: they may answer questions, too; without an argument: shows who watches",
        Op::Share,
    ),
    row(
        Group::Tools,
        &["show"],
        "[N]",
        FREE,
        "shows the whole result of tool call N, or of the last one",
        Op::Show,
    ),
    row(
        Group::Tools,
        &["jobs"],
        "[kill N]",
        Argument::Optional(&["kill"]),
        "lists the model's commands that run in the background; kill N ends one",
        Op::Jobs,
    ),
    row(
        Group::Tools,
        &["steps"],
        "",
        Argument::None,
        "lists the changes by a model's commands and edits, and which of them can't be reverted",
        Op::Steps,
    )
    .editor("steps", "", "Lists what the model changed here, step by step"),
    row(
        Group::Tools,
        &["undo"],
        "[N]",
        Argument::Optional(&["--file", "--force"]),
        "reverts the last step, or the last N, of a model's commands and edits (in a session: what the last turns changed in files); --file PATH: one file",
        Op::Undo,
    )
    .editor("undo", "number of steps", "Reverts what the model changed last"),
    row(Group::Tools, &["redo"], "[N]", Argument::Optional(&["--force"]), "applies reverted steps again", Op::Redo)
    .editor("redo", "number of steps", "Applies reverted steps again"),
    row(
        Group::Tools,
        &["diff"],
        "[N]",
        FREE,
        "shows what differs from the last commit; with a number what that step changed",
        Op::Diff,
    ),
    row(
        Group::Tools,
        &["allow", "allowlist"],
        "[WHAT]",
        Argument::Optional(&["list", "remove", "export", "import"]),
        "lists the commands that the model may run in this project without a question; remove N, export FILE, import FILE",
        Op::Allow,
    )
    .chat("allowlist", "[remove N]", "lists the commands that may run in this project without a question, or withdraws one")
    .editor("allowlist", "remove N", "Lists what may run in this project without a question, or revokes one"),
    row(
        Group::Tools,
        &["policy"],
        "[explain CMD]",
        Argument::Optional(&["explain"]),
        "shows what a model may do and where that is set; with CMD how it would be judged, without running it",
        Op::Policy,
    )
    .chat("policy", "[explain CMD]", "shows what the model may do and what it may not"),
    row(
        Group::Tools,
        &["estop"],
        "[clear]",
        Argument::Optional(&["clear"]),
        "stops every tool of a model, in every session; clear lets them run again",
        Op::Estop,
    ),
    row(
        Group::Session,
        &["config"],
        "[WHAT]",
        Argument::Optional(&["show", "reload", "edit", "path", "trust", "untrust"]),
        "show, reload, edit, path: the settings and where each comes from; trust, untrust: a project's file",
        Op::Config,
    ),
    row(
        Group::Tools,
        &["skills"],
        "[trust]",
        Argument::Optional(&["trust", "untrust"]),
        "lists skills and prompt templates; trust, untrust: those of the project",
        Op::Skills,
    ),
    row(
        Group::Conversation,
        &["p"],
        "[NAME TEXT]",
        FREE,
        "asks the question of the prompt template NAME, with TEXT as its arguments",
        Op::Prompt,
    ),
    row(
        Group::Session,
        &["man"],
        "QUESTION",
        TEXT,
        "answers from this machine, without a model: recipes, manual pages, your history; a line can be taken into the editor",
        Op::Man,
    ),
    row(
        Group::Session,
        &["help"],
        "[WORD]",
        FREE,
        "lists the meta commands and the keys, or those about WORD",
        Op::Help,
    )
    .chat("help", "", "lists these commands"),
    row(Group::Session, &["quit", "q", "exit"], "", Argument::None, "ends the session, as exit does", Op::Quit)
    .chat("exit", "", "ends the chat, as Ctrl-D does"),
];

const fn row(
    group: Group,
    names: &'static [&'static str],
    usage: &'static str,
    argument: Argument,
    help: &'static str,
    op: Op,
) -> Command {
    Command { group, names, usage, argument, help, op, chat: None, editor: None, is_in_shell: true }
}

impl Command {
    /// The command as help shows it: `:allow [WHAT] (or :allowlist)`.
    #[must_use]
    pub fn form(&self) -> String {
        let Some((name, others)) = self.names.split_first() else { return String::new() };
        let form = format!(":{name} {}", self.usage);
        let others: Vec<String> = others.iter().map(|other| format!(":{other}")).collect();
        match others.is_empty() {
            true => form.trim_end().to_owned(),
            false => format!("{} (or {})", form.trim_end(), others.join(", ")),
        }
    }

    /// Adds the command to the chat.
    const fn chat(self, name: &'static str, usage: &'static str, help: &'static str) -> Self {
        Self { chat: Some(Form { name, usage, help }), ..self }
    }

    /// Adds the command to an editor.
    const fn editor(self, name: &'static str, usage: &'static str, help: &'static str) -> Self {
        Self { editor: Some(Form { name, usage, help }), ..self }
    }

    /// The command without its form in the shell.
    const fn not_in_shell(self) -> Self {
        Self { is_in_shell: false, ..self }
    }
}

/// The meta commands: those that the shell has.
pub fn of_shell() -> impl Iterator<Item = &'static Command> {
    COMMANDS.iter().filter(|command| command.is_in_shell)
}

/// The commands of the chat, each with its form there.
pub fn of_chat() -> impl Iterator<Item = (Op, Form)> {
    COMMANDS.iter().filter_map(|command| Some((command.op, command.chat?)))
}

/// The commands of an editor, each with its form there.
pub fn of_editor() -> impl Iterator<Item = (Op, Form)> {
    COMMANDS.iter().filter_map(|command| Some((command.op, command.editor?)))
}

/// Reason why a meta line can't be carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandError {
    /// There is no such command; perhaps this one was meant.
    Unknown {
        /// The typed name.
        name: String,
        /// The nearest name, if one is near.
        nearest: Option<&'static str>,
    },
    /// Needs an argument, as the usage says.
    Missing(&'static Command),
    /// Takes no argument.
    Surplus(&'static Command),
}

/// Returns whether the history stores a line's effect as a command or a question, with the line as its text: one row is
/// enough.
#[must_use]
pub fn has_row_of_its_own(line: &str) -> bool {
    parse(line).is_ok_and(|(found, argument)| matches!(found.op, Op::Exec | Op::Ask) && !argument.is_empty())
}

/// Reads a meta line, with or without its colon: the command and its argument.
///
/// # Errors
/// The command is unknown, lacks its argument, or takes none.
pub fn parse(line: &str) -> Result<(&'static Command, &str), CommandError> {
    let line = line.trim();
    let line = line.strip_prefix(':').unwrap_or(line);
    let (name, argument) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let argument = argument.trim();
    let found = of_shell().find(|command| command.names.contains(&name));
    let Some(meta) = found else {
        return Err(CommandError::Unknown { name: name.to_owned(), nearest: nearest(name) });
    };
    match meta.argument {
        Argument::None if !argument.is_empty() => Err(CommandError::Surplus(meta)),
        Argument::Only(words) if !argument.is_empty() && !words.contains(&argument) => Err(CommandError::Surplus(meta)),
        Argument::Needed(_) if argument.is_empty() => Err(CommandError::Missing(meta)),
        _ => Ok((meta, argument)),
    }
}

/// Returns the problem of a config's meta command whose name belongs to one of ReedClaw's own.
#[must_use]
pub fn name_problem(name: &str) -> Option<String> {
    let is_own = of_shell().any(|meta| meta.names.contains(&name));
    is_own.then(|| format!(":{name} is one of ReedClaw's own; yours is not used"))
}

/// Subcommands of the executable that a session doesn't have.
pub const ONLY_SUBCOMMANDS: [&str; 11] =
    ["agent", "service", "metrics", "acp", "gateway", "doctor", "provider", "receipt", "init", "plugin", "completions"];

/// The name that begins with what was typed, or is one edit away.
fn nearest(typed: &str) -> Option<&'static str> {
    let names = || of_shell().flat_map(|meta| meta.names.iter().copied()).filter(|name| name.len() > 1);
    let begins = names().find(|name| !typed.is_empty() && name.starts_with(typed));
    let alike = |name: &&str| {
        let pairs = || typed.bytes().zip(name.bytes());
        let ends = typed.bytes().rev().zip(name.bytes().rev());
        pairs().take_while(|(x, y)| x == y).count() + ends.take_while(|(x, y)| x == y).count()
    };
    begins.or_else(|| names().filter(|name| strsim::osa_distance(typed, name) == 1).max_by_key(alike))
}

/// The word of `:norris` that is one edit away from what was typed.
pub fn nearest_goal_word(typed: &str) -> Option<&'static str> {
    GOAL_WORDS.iter().copied().find(|word| strsim::osa_distance(typed, word) == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meta_lines_are_read() {
        assert_eq!(parse(":q").unwrap().0.op, Op::Quit);
        assert_eq!(parse(" :model  big ").unwrap().1, "big");
        assert_eq!(parse("exec rm -r x").unwrap().1, "rm -r x");
        let unknown = |line: &str| match parse(line) {
            Err(CommandError::Unknown { nearest, .. }) => nearest,
            other => panic!("{other:?}"),
        };
        assert_eq!(unknown(":hlep"), Some("help"));
        assert_eq!(unknown(":hist"), Some("history"));
        assert_eq!(unknown(":modl"), Some("model"));
        assert_eq!(unknown(":zzz"), None);
        assert!(matches!(parse(":exec"), Err(CommandError::Missing(_))));
        assert!(matches!(parse(":why not"), Err(CommandError::Surplus(_))));
    }
}
