//! The words of `reedclaw session`, as clap knows them. Must not know what they do.

use std::path::PathBuf;

use clap::{Arg, ArgAction, Command, value_parser};

fn flag(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
}

fn id() -> Arg {
    Arg::new("id").value_name("ID").required(true).help("Digits that `list` shows, or words of the title")
}

fn turn(help: &'static str) -> Arg {
    Arg::new("turn").value_name("N").value_parser(value_parser!(u64)).help(help)
}

fn as_json() -> Arg {
    flag("json", "Prints JSON, one object a line (see config/schema/sessions.json)")
}

fn yes() -> Arg {
    flag("yes", "Does it without a question")
}

/// The subcommand, as clap knows it.
pub(in crate::cli) fn definition() -> Command {
    let command = |name: &'static str, about: &'static str| Command::new(name).about(about);
    Command::new("session")
        .about("Lists, shows, rewinds and merges sessions on git, whose turns are commits")
        .arg(
            Arg::new("workspace")
                .long("workspace")
                .value_name("DIR")
                .global(true)
                .value_parser(value_parser!(PathBuf))
                .help("The repository, instead of the one around the working directory"),
        )
        .subcommand(
            command("list", "Lists the sessions, the last used first")
                .arg(flag("all", "Lists abandoned sessions, too, whose commits are still kept"))
                .arg(as_json()),
        )
        .subcommand(start_definition())
        .subcommand(command("log", "Lists the turns of a session, the oldest first").arg(id()).arg(as_json()))
        .subcommand(
            command("show", "Prints a turn: question, calls, answer and changes")
                .arg(id())
                .arg(turn("The turn; the default is the newest"))
                .arg(as_json()),
        )
        .subcommand(diff_definition())
        .subcommands(talk_definitions())
        .subcommand(
            command("cat", "Prints a file of a session")
                .arg(id())
                .arg(
                    Arg::new("path").value_name("PATH").required(true).help("The file, from the top of the repository"),
                )
                .arg(turn("The turn; the default is the newest")),
        )
        .subcommand(
            command("files", "Lists a directory of a session")
                .arg(id())
                .arg(Arg::new("path").value_name("DIR").help("The directory; the default is the top of the repository"))
                .arg(turn("The turn; the default is the newest"))
                .arg(as_json()),
        )
        .subcommand(fork_definition())
        .subcommand(
            command("rewind", "Goes back to a turn; the newest commit is kept")
                .arg(id())
                .arg(turn("The turn").required(true))
                .arg(flag("code", "Its files alone, as a new turn: the conversation continues"))
                .arg(flag("talk", "The conversation alone: the files stay as they are").conflicts_with("code"))
                .arg(yes()),
        )
        .subcommands(care_definitions())
        .subcommands(back_definitions())
        .subcommand(merge_definition())
        .subcommand(
            command("apply", "Puts the changes of a session into the checkout").arg(id()).arg(yes()).arg(as_json()),
        )
        .subcommand(command("abandon", "Takes a session off the list; its commits are kept").arg(id()))
        .subcommand(command("drop", "Removes a session with all its turns").arg(id()).arg(yes()))
}

/// The commands that undo something, and that bring your branch in.
fn back_definitions() -> [Command; 3] {
    let command = |name: &'static str, about: &'static str| Command::new(name).about(about);
    [
        command("undo", "Undoes the last rewind, sync, amend or new message")
            .arg(id())
            .arg(flag("files", "Undoes what the newest turn changed in files; the conversation stays")),
        command("redo", "Does again what undo took back")
            .arg(id())
            .arg(flag("files", "Makes the changes of files again that undo --files took back")),
        command("sync", "Merges your branch into a session")
            .arg(id())
            .arg(flag("rebase", "Rebases the session's commits on your branch; with conflicts nothing moves"))
            .arg(
                flag("with-changes", "Brings the checkout's uncommitted files that git doesn't ignore")
                    .conflicts_with_all(["rebase", "branch"]),
            )
            .arg(Arg::new("branch").value_name("BRANCH").help("The default is the branch that it began at"))
            .arg(as_json()),
    ]
}

fn fork_definition() -> Command {
    let tip = Arg::new("kept").long("kept").value_name("K").value_parser(value_parser!(u64));
    Command::new("fork")
        .about("Begins a session that continues from a turn of another, and prints its id")
        .arg(id())
        .arg(turn("The turn; the default is the newest"))
        .arg(tip.help("Continues from the tip that `log` lists as kept K"))
}

/// The commands about the conversation.
fn talk_definitions() -> [Command; 2] {
    let path = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name("PATH").action(ArgAction::Append).help(help)
    };
    let ask = Command::new("ask").about("Asks a model in a session, and prints the answer").arg(id());
    let message = Arg::new("message").short('m').long("message").value_name("MESSAGE").required(true);
    let context = Command::new("context")
        .about("Lists the open files of a session, which go with each question; opens or closes some")
        .arg(id())
        .arg(path("add", "Opens a file; several times for several"))
        .arg(path("remove", "Closes a file; several times for several"))
        .arg(as_json());
    let ask = ask
        .arg(message.allow_hyphen_values(true).help("The question"))
        .arg(flag("json", "Prints the events of the answer as JSON, one a line (see config/schema/events.json)"));
    [ask, context]
}

fn diff_definition() -> Command {
    Command::new("diff")
        .about("Prints what a session changed: since its start, in a turn, or between two")
        .arg(id())
        .arg(
            Arg::new("what")
                .value_names(["N|A..B", "PATH"])
                .num_args(0..=2)
                .help("A turn or a range of turns, and a file or directory"),
        )
        .arg(
            Arg::new("against")
                .long("against")
                .value_name("BRANCH")
                .help("Prints what a merge would bring to this branch"),
        )
        .arg(flag("json", "Prints the changed files as JSON, one object a line (see config/schema/sessions.json)"))
}

fn start_definition() -> Command {
    Command::new("start")
        .about("Begins a session and prints its id")
        .arg(Arg::new("from").long("from").value_name("REV").help("Begins at this commit instead of HEAD"))
        .arg(
            Arg::new("on")
                .long("on")
                .value_name("BRANCH")
                .conflicts_with("from")
                .help("Works on this branch of yours, which must not be checked out"),
        )
        .arg(
            flag("with-changes", "Begins with the checkout's uncommitted files that git doesn't ignore")
                .conflicts_with_all(["from", "on"]),
        )
        .arg(
            Arg::new("title")
                .value_name("TITLE")
                .num_args(0..)
                .help("Its title; without one the first question becomes the title"),
        )
}

/// The commands that change or write a commit, and those that look after sessions.
fn care_definitions() -> [Command; 7] {
    let command = |name: &'static str, about: &'static str| Command::new(name).about(about);
    [
        command("message", "Gives the commit of a turn another first line; the newest commit is kept")
            .arg(id())
            .arg(turn("The turn; the default is the newest"))
            .arg(Arg::new("text").short('m').long("message").value_name("TEXT").required(true).help("The line")),
        command("amend", "Joins your own commits since the newest turn into that turn's; the old commits are kept")
            .arg(id())
            .arg(Arg::new("text").short('m').long("message").value_name("TEXT").help("Another first line")),
        command("run", "Runs a command on the files of a session, in the sandbox; its changes become a commit")
            .arg(id())
            .arg(yes())
            .arg(
                Arg::new("command")
                    .value_name("COMMAND")
                    .required(true)
                    .num_args(1..)
                    .trailing_var_arg(true)
                    .allow_hyphen_values(true)
                    .help("A single word is a line for bash; several are the words of one command"),
            ),
        command(
            "tools",
            "Lists the tools that lie in the repository (tools/NAME.luau), decides about one, or runs its tests",
        )
        .arg(id())
        .arg(
            Arg::new("ruling")
                .value_name("WHAT")
                .value_parser(["approve", "reject", "revoke", "test"])
                .requires("name"),
        )
        .arg(Arg::new("name").value_name("NAME").help("The tool"))
        .arg(yes())
        .arg(as_json()),
        command("dir", "Writes the files of a session into a new directory")
            .arg(id())
            .arg(
                Arg::new("to")
                    .value_name("DIR")
                    .required(true)
                    .value_parser(value_parser!(PathBuf))
                    .help("The directory, which must not exist yet"),
            )
            .arg(turn("The turn; the default is the newest")),
        command("doctor", "Looks for records that can't be read, objects that are gone, and what a crash has left")
            .arg(flag("repair", "Makes records again from older commits, as a commit on the session's branch"))
            .arg(as_json()),
        command("gc", "Removes commits that were left longer ago than `sessions.keep_days`, and unused directories")
            .arg(flag("dry-run", "Prints what would be removed, and removes nothing"))
            .arg(as_json()),
    ]
}

fn merge_definition() -> Command {
    Command::new("merge")
        .about("Moves your branch to a result with the changes of a session")
        .after_help("Exit status: 0 merged, 3 refused or without --yes, 6 conflicts; nothing has moved then.")
        .arg(id())
        .arg(flag("squash", "One commit with everything"))
        .arg(flag("merge", "A merge commit, with the session's own commits").conflicts_with("squash"))
        .arg(flag("rebase", "A commit for each turn that changed files").conflicts_with_all(["squash", "merge"]))
        .arg(
            Arg::new("pick")
                .long("pick")
                .value_name("N,N")
                .value_delimiter(',')
                .value_parser(value_parser!(u64))
                .conflicts_with_all(["squash", "merge", "rebase"])
                .help("The same for these turns only"),
        )
        .arg(Arg::new("into").long("into").value_name("BRANCH").help("Another branch than the one it began at"))
        .arg(flag("keep-record", "Takes the record of the conversation over, too"))
        .arg(flag("dry-run", "Prints what would change, and changes nothing"))
        .arg(yes())
        .arg(as_json())
}
