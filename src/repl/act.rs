//! Carries out each meta command.

use nu_ansi_term::Style;

use super::editing::state;
use super::hub::{Flow, Repl};
use super::keys::KEYS;
use crate::agent::Agent;
use crate::app::share_place;
use crate::ops;
use crate::ops::commands::{self, Argument, Command, CommandError, Group, Op, of_shell};
use crate::proto::{Failure, HumanLine, RouteVerdict};
use crate::render::text::{described, escape_visible, table, wrap};
use crate::repl::answer;
use crate::repl::hooks::acts;
use crate::repl::records::blocks;
use crate::repl::records::changes;
use crate::repl::records::context;
use crate::repl::records::conversations;
use crate::repl::records::cost;
use crate::repl::records::manual;
use crate::repl::records::memory;
use crate::repl::records::sessions::begin;
use crate::repl::records::steps;
use crate::repl::route;
use crate::repl::rules::allow;
use crate::repl::rules::approve;
use crate::repl::rules::configure;
use crate::repl::rules::estop;
use crate::repl::rules::policy;
use crate::repl::rules::secrets;
use crate::repl::rules::served;
use crate::repl::rules::sharing::{Wish, wish};
use crate::repl::rules::skills;
use crate::repl::rules::tooling;
use crate::share::Wanted;

/// Asks the model the question of `:ask`, in a new session if the settings want one.
fn ask(repl: &mut Repl, question: &str, hidden: bool) -> Flow {
    let record = (!hidden).then(|| format!(":ask {question}"));
    match begin::begin_by_setting(repl) {
        Flow::Continue => answer::ask(repl, record.as_deref(), question),
        end => end,
    }
}

/// Carries out a meta line; a hidden one leaves nothing in the history and, but for a question, nothing for the
/// model. `before` is the line before it.
pub(super) fn meta(repl: &mut Repl, line: &str, hidden: bool, before: Option<&(String, RouteVerdict)>) -> Flow {
    let (meta, argument) = match commands::parse(line) {
        Ok(found) => found,
        Err(error) => return no_meta(repl, line, &error),
    };
    match meta.op {
        Op::Quit => return repl.run_command(&HumanLine::typed("exit".into()), false),
        Op::Exec => return exec(repl, argument, hidden),
        Op::Sop => return sop(repl, argument, hidden),
        Op::Ask => return ask(repl, argument, hidden),
        Op::Clear => repl.console.clear(),
        Op::Reset => {
            memory::end_conversation(repl, Agent::reset);
            repl.console.notice("a new conversation begins, with the default model");
        }
        Op::Transcript => conversations::transcript(repl, argument),
        Op::Onboard => return configure::onboard(repl, argument),
        Op::Model => switch_model(repl, argument),
        Op::Models => list_models(repl),
        Op::History => conversations::history_command(repl, argument),
        Op::New => conversations::new_conversation(repl),
        Op::Sessions => conversations::list_sessions(repl, begin::rows_of_sessions(repl)),
        Op::Resume => match begin::resume_session(repl, argument) {
            Some(flow) => return flow,
            None => conversations::resume(repl, argument),
        },
        Op::Fork => conversations::fork(repl, argument),
        Op::Rewind => return conversations::rewind(repl, argument),
        Op::Title => conversations::title(repl, argument),
        Op::Thoughts => cost::thoughts(repl),
        Op::Cost => cost::cost(repl, argument),
        Op::Tokens => cost::tokens(repl, argument),
        Op::Why => return route::explain_route(repl, before),
        Op::Mode => route::set_mode(repl, argument),
        Op::Route => route::forget_routes(repl, argument),
        Op::Copy => blocks::copy(repl, argument),
        Op::Run => return blocks::run_block(repl, argument),
        Op::Save if argument.is_empty() => return memory::save_memory(repl),
        Op::Save => blocks::save_block(repl, argument),
        Op::Memory => return memory::memory(repl, argument),
        Op::Session => return repl.session(argument),
        Op::Norris => return repl.norris(argument),
        Op::Config => return configure::config(repl, argument),
        Op::Context => return context::context(repl, argument),
        // In the shell, `:context compact` is the only word for this.
        Op::Compact => return context::context(repl, "compact"),
        Op::Card => context::show_card(repl),
        Op::Redact => secrets::show_redacted(repl),
        Op::Estop => return estop::estop(repl, argument),
        Op::Diff if argument.is_empty() => return changes::diff_command(repl),
        Op::Diff => return steps::show_step(repl, argument),
        Op::Show => return tooling::show_output(repl, argument),
        Op::Allow => return allow::allow(repl, argument),
        Op::Tools => allow::list_tools(repl),
        Op::Mcp => return served::mcp(repl, argument),
        Op::Call => return served::call_tool(repl, argument),
        Op::Policy => policy::policy(repl, argument),
        Op::Undo => steps::undo(repl, argument),
        Op::Redo => steps::redo(repl, argument),
        Op::Jobs => steps::jobs(repl, argument),
        Op::Steps => steps::list_steps(repl),
        Op::Approve => return approve::approve_call(repl, argument),
        Op::Share => share(repl, argument),
        Op::Skills => return skills::skills(repl, argument),
        Op::Prompt => return skills::prompt_template(repl, argument, hidden),
        Op::Man => return manual::man(repl, argument),
        Op::Help => return help(repl, argument),
    }
    Flow::Continue
}

/// Runs a line in the shell.
fn exec(repl: &mut Repl, argument: &str, hidden: bool) -> Flow {
    let record = (!hidden).then(|| format!(":exec {argument}"));
    repl.run_recorded(&HumanLine::typed(argument.to_owned()), record.as_deref())
}

/// Runs the subcommand of procedures in the person's own shell.
fn sop(repl: &mut Repl, argument: &str, hidden: bool) -> Flow {
    let record = (!hidden).then(|| format!(":sop {argument}"));
    repl.run_recorded(&HumanLine::typed(sop_line(argument)), record.as_deref())
}

/// Shares the session with others, ends that, or shows who watches.
fn share(repl: &mut Repl, argument: &str) {
    let sharing = repl.terminal.sharing.clone();
    let (watch, approve) = match wish(argument) {
        Some(Wish::Begin(watch, approve)) => (watch, approve),
        Some(Wish::End) => {
            repl.terminal.session.tap(None);
            let notice = if sharing.end() { "the session is no longer shared" } else { "the session isn't shared" };
            return repl.console.notice(notice);
        }
        Some(Wish::Tell) => {
            let notice = sharing.summary().map(|line| format!("[share] {line}"));
            let nothing = "the session isn't shared; :share watch lets members of the gateway watch it";
            return repl.console.notice(notice.as_deref().unwrap_or(nothing));
        }
        None => {
            let message = format!(":share doesn't know {}", escape_visible(argument));
            return repl
                .console
                .failure(&Failure::user(message).hint(":share watch [USER…], :share approve [USER…], :share off"));
        }
    };
    let place = match share_place(repl.runtime.settings(), repl.runtime.env()) {
        Ok(place) => place,
        Err(failure) => return repl.console.failure(&failure),
    };
    let cells = |count: usize| u16::try_from(count).unwrap_or(u16::MAX);
    let wanted = Wanted {
        kind: "shell",
        title: state::read(&repl.state).cwd.display().to_string(),
        columns: cells(repl.console.width_columns()),
        rows: cells(repl.console.height_rows()),
        watch,
        approve,
    };
    let redactor = repl.runtime.agent().redactor().clone();
    let pump = repl.terminal.session.handle();
    match sharing.begin(&place, wanted, redactor, Box::new(move || pump.nudge())) {
        Ok((tap, line)) => {
            repl.terminal.session.tap(Some(tap));
            repl.console.notice(&format!("[share] {line}"));
        }
        Err(error) => {
            repl.console.failure(&Failure::unavailable(error.to_string()).hint(error.hint()));
        }
    }
}

/// Carries out a meta command of the config, if the line isn't one of ReedClaw's own.
fn no_meta(repl: &mut Repl, line: &str, error: &CommandError) -> Flow {
    let is_unknown = matches!(error, CommandError::Unknown { .. });
    if let Some(flow) = is_unknown.then(|| acts::own_meta(repl, line)).flatten() {
        return flow;
    }
    repl.console.failure(&explain(error));
    Flow::Continue
}

fn switch_model(repl: &mut Repl, name: &str) {
    if name.is_empty() {
        return list_models(repl);
    }
    match ops::models::choose(repl.runtime.agent_mut(), name) {
        Ok(name) => repl.console.notice(&format!("{name} answers from now on")),
        Err(failure) => repl.console.failure(&failure),
    }
}

fn list_models(repl: &Repl) {
    match &ops::models::rows(repl.runtime.agent())[..] {
        [] => repl.console.notice(super::hub::NO_MODEL),
        rows => repl.console.write(&table(rows, repl.console.width_columns())),
    }
}

/// Lists the meta commands by group and the keys, a page at a time. With a word it lists the row of that command, or
/// the rows that contain the word or whose heading does.
fn help(repl: &mut Repl, word: &str) -> Flow {
    let bold = |text: &str| repl.console.paint(Style::new().bold(), text);
    let row = |name: &str, meaning: &str| (name.to_owned(), meaning.to_owned());
    let prefixes = vec![
        row("!LINE, $ LINE", "to the shell, whatever it looks like"),
        row("?LINE", "to the model, whatever it looks like"),
    ];
    let mut groups = vec![(
        "A command runs in the shell, a sentence goes to the model. To decide yourself, begin the line with:",
        prefixes,
    )];
    for group in Group::ALL {
        let metas = of_shell().filter(|meta| meta.group == group);
        groups.push((group.heading(), metas.map(|meta| row(&meta.form(), meta.help)).collect()));
    }
    groups.push(("Your own", repl.hooks.usable_metas().map(|(name, help)| (format!(":{name}"), help)).collect()));
    groups.push(("Keys", KEYS.iter().map(|key| row(key.name, key.help)).collect()));
    let wanted = word.trim_start_matches(':').to_lowercase();
    let is_in = |text: &str| text.to_lowercase().contains(&wanted);
    let names =
        |name: &str| name.split([' ', '(', ')', ',']).any(|name| name.strip_prefix(':') == Some(wanted.as_str()));
    let has_its_row = groups.iter().flat_map(|(_, entries)| entries).any(|(name, _)| names(name));
    let mut rows = Vec::new();
    for (heading, mut entries) in groups {
        if has_its_row {
            entries.retain(|(name, _)| names(name));
        } else if !is_in(heading) {
            entries.retain(|(name, meaning)| is_in(name) || is_in(meaning));
        }
        if !entries.is_empty() {
            let columns = repl.console.width_columns();
            rows.extend(wrap(heading, columns, "").lines().map(bold));
            rows.extend(described(&entries, columns).lines().map(str::to_owned));
        }
    }
    if rows.is_empty() {
        let message = format!("nothing in the help has {}", escape_visible(word));
        let hint = ":help lists everything";
        repl.console.failure(&Failure::user(message).hint(hint));
        return Flow::Continue;
    }
    changes::browse(repl, Vec::new(), rows)
}

fn explain(error: &CommandError) -> Failure {
    let (message, hint) = match error {
        CommandError::Unknown { name, nearest: Some(nearest) } => {
            (format!("there is no command :{name}"), format!("did you mean :{nearest}?"))
        }
        CommandError::Unknown { name, nearest: None } if commands::ONLY_SUBCOMMANDS.contains(&name.as_str()) => {
            (format!("there is no command :{name}"), format!("reedclaw {name} is the command for it"))
        }
        CommandError::Unknown { name, nearest: None } => (
            format!("there is no command :{name}"),
            ":help lists them; a line that begins with ! goes to the shell as it is".to_owned(),
        ),
        CommandError::Missing(meta) => {
            (format!(":{} needs an argument", meta.names[0]), format!(":{} {}", meta.names[0], meta.usage))
        }
        CommandError::Surplus(Command { names, argument: Argument::Only(words), .. }) => {
            (format!(":{} takes no argument but {}", names[0], words.join(" or ")), String::new())
        }
        CommandError::Surplus(meta) => (format!(":{} takes no argument", meta.names[0]), String::new()),
    };
    Failure::user(message).hint(hint)
}

/// The line of a procedure's command: the same words for this very program, in the person's own shell and at its terminal.
fn sop_line(argument: &str) -> String {
    let own = std::fs::read_link("/proc/self/exe").unwrap_or_else(|_| "reedclaw".into());
    let own = shlex::try_quote(&own.to_string_lossy()).map_or_else(|_| "reedclaw".to_owned(), |it| it.into_owned());
    format!("{own} sop {}", if argument.is_empty() { "list" } else { argument })
}
