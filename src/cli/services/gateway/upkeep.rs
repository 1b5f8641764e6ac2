//! Upkeep of a gateway: its state, the version of its schema, and the end of old events.

use std::io::{IsTerminal, stdin, stdout};

use clap::{Arg, ArgAction, ArgMatches, Command};
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde_json::{Value, json};

use super::{Stores, named_argument, print_table, text};
use crate::cli::exit;
use crate::cli::out::{outln, says_yes};
use crate::gateway;
use crate::ledger::{Ledger, retention};
use crate::proto::Failure;
use crate::render::sanitise;

/// The subcommands, as clap knows them.
pub(super) fn definitions() -> [Command; 3] {
    let flag = |name: &'static str, help: &'static str| Arg::new(name).long(name).action(ArgAction::SetTrue).help(help);
    [
        Command::new("status")
            .about("Shows the database, the gateways that serve it, and its tenants; exit status 1 if none serves it")
            .arg(flag("json", "Prints it as JSON")),
        Command::new("migrate")
            .about("Brings the schema of the database up to date")
            .arg(flag("dry-run", "Only says what would be done")),
        Command::new("purge")
            .about("Removes the oldest events of a tenant; asks, and only at a terminal. The log's chain holds without them")
            .arg(named_argument("name", "TENANT", "The tenant"))
            .arg(
                Arg::new("before")
                    .long("before")
                    .value_name("DATE")
                    .required(true)
                    .help("Events before this day, such as 2026-01-31, in UTC"),
            ),
    ]
}

/// The subcommand of `tenant` that sets how long events stay.
pub(super) fn keep_definition() -> Command {
    Command::new("keep")
        .about("Sets for how many days a tenant's events stay; in the mode lab they stay for ever unless this is set")
        .arg(named_argument("name", "TENANT", "The tenant"))
        .arg(named_argument("days", "DAYS|usual", "30 or more; usual for the mode's own number"))
}

pub(super) fn keep(matches: &ArgMatches, at: &Stores) -> Result<(), Failure> {
    let (tenant, word) = (text(matches, "name"), text(matches, "days"));
    let days = match word.as_str() {
        "usual" => None,
        number => {
            Some(number.parse::<i64>().ok().filter(|days| *days >= retention::DAYS_MIN).ok_or_else(|| {
                Failure::user(format!("{number:?} isn't a number of days")).hint("30 or more, or usual")
            })?)
        }
    };
    let ledger = at.open_tenant(&tenant)?;
    let failed = |error| gateway::of_ledger(&error);
    ledger.retention().set_days(&tenant, days).map_err(failed)?;
    match ledger.retention().days(&tenant).map_err(failed)? {
        Some(days) => outln!("events of {} stay for {days} days", sanitise(&tenant)),
        None => outln!("events of {} stay for ever", sanitise(&tenant)),
    }
    Ok(())
}

pub(super) fn migrate(matches: &ArgMatches, at: &Stores) -> Result<u8, Failure> {
    let is_dry = matches.get_flag("dry-run");
    let target = at.database()?;
    let target = if is_dry { target } else { at.with_directory(target)? };
    let (found, known) = gateway::migrate(&target, is_dry)?;
    match (found, is_dry) {
        (found, _) if found == known => outln!("the schema has version {known}; there is nothing to do"),
        (0, true) => outln!("the database is new; it would get the schema of version {known}"),
        (found, true) => outln!("the schema has version {found}, and would get {known}"),
        (found, false) => outln!("the schema had version {found}, and has {known}"),
    }
    Ok(exit::DONE)
}

/// Removes events, if a person at the terminal confirms it.
pub(super) fn purge(matches: &ArgMatches, at: &Stores) -> Result<u8, Failure> {
    if !stdin().is_terminal() || !stdout().is_terminal() {
        return Err(Failure::refused("events are removed only by a person at a terminal")
            .hint("run reedclaw gateway purge at a terminal; reedclaw gateway tenant keep sets how long events stay"));
    }
    let (tenant, day) = (text(matches, "name"), text(matches, "before"));
    let wrong = || Failure::user(format!("{day:?} isn't a day")).hint("such as 2026-01-31");
    let date: Date = day.parse().map_err(|_| wrong())?;
    let before = date.to_zoned(TimeZone::UTC).map_err(|_| wrong())?.timestamp();
    let ledger = at.open_tenant(&tenant)?;
    let failed = |error| gateway::of_ledger(&error);
    let count = ledger.retention().before(&tenant, Timestamp::as_millisecond(before)).map_err(failed)?;
    let name = sanitise(&tenant);
    if count == 0 {
        outln!("{name} has no event before {day} that can go");
        return Ok(exit::DONE);
    }
    if !says_yes(&format!("Remove {count} events of {name} from before {day}? They can't be brought back. Type yes:")) {
        outln!("nothing was changed");
        return Ok(exit::FAILED);
    }
    let removed = ledger.retention().purge(&tenant, Timestamp::as_millisecond(before)).map_err(failed)?;
    outln!("{removed} events are removed; reedclaw gateway verify checks the rest");
    Ok(exit::DONE)
}

pub(super) fn status(matches: &ArgMatches, at: &Stores) -> Result<u8, Failure> {
    let ledger = at.open_existing()?;
    let found = state(&ledger)?;
    let code = if found["nodes"].as_array().is_some_and(Vec::is_empty) { exit::FAILED } else { exit::DONE };
    if matches.get_flag("json") {
        outln!("{found}");
        return Ok(code);
    }
    let shown = |value: &Value| sanitise(value.as_str().unwrap_or("?")).into_owned();
    let database = &found["database"];
    outln!("database: {}, answers in {} ms", shown(&database["place"]), database["lag_ms"]);
    let mut rows = vec![["gateway", "address", "since", "streams", "waiting"].map(str::to_owned).to_vec()];
    for node in found["nodes"].as_array().into_iter().flatten() {
        let figure = |name: &str| node["figures"][name].as_u64().map_or("?".into(), |figure| figure.to_string());
        let known = [shown(&node["node_id"]), shown(&node["address"]), shown(&node["started_at"])];
        rows.push([&known[..], &[figure("reedclaw_streams"), figure("reedclaw_queue_depth")]].concat());
    }
    match code {
        exit::DONE => print_table(&rows),
        _ => outln!("no gateway serves it"),
    }
    let mut rows = vec![["tenant", "mode", "events"].map(str::to_owned).to_vec()];
    for tenant in found["tenants"].as_array().into_iter().flatten() {
        rows.push(vec![shown(&tenant["tenant"]), shown(&tenant["mode"]), tenant["positions"].to_string()]);
    }
    print_table(&rows);
    let leases = found["leases"].as_array().filter(|leases| !leases.is_empty());
    if let Some(leases) = leases {
        let mut rows = vec![["tenant", "project", "works at", "number"].map(str::to_owned).to_vec()];
        let names = ["tenant", "project", "node_id"];
        rows.extend(leases.iter().map(|lease| {
            names.iter().map(|name| shown(&lease[*name])).chain([lease["fence"].to_string()]).collect::<Vec<_>>()
        }));
        print_table(&rows);
    }
    Ok(code)
}

/// The state of a database and of the gateways that serve it.
fn state(ledger: &Ledger) -> Result<Value, Failure> {
    let failed = |error| gateway::of_ledger(&error);
    let began = std::time::Instant::now();
    let is_well = ledger.is_well();
    let lag_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    let mut nodes = Vec::new();
    for node in ledger.nodes().list().map_err(failed)? {
        let figures = node.address.as_deref().and_then(gateway::figures_at);
        nodes.push(
            json!({"node_id": node.id, "address": node.address, "started_at": node.started_at, "figures": figures}),
        );
    }
    // A file has only the gateway that uses it now; the row of a killed one stays until the next one starts.
    if ledger.engine() == "sqlite" {
        nodes.retain(|node| !node["figures"].is_null());
    }
    let (mut tenants, mut leases) = (Vec::new(), Vec::new());
    for (tenant, mode) in ledger.accounts().tenants().map_err(failed)? {
        let positions = ledger.positions(&tenant).map_err(failed)?;
        for (project, node, fence) in ledger.leases().list(&tenant).map_err(failed)? {
            leases.push(json!({"tenant": tenant, "project": project, "node_id": node, "fence": fence}));
        }
        tenants.push(json!({"tenant": tenant, "mode": mode, "positions": positions}));
    }
    let database = json!({"kind": ledger.engine(), "place": ledger.place(), "ok": is_well, "lag_ms": lag_ms});
    Ok(json!({"database": database, "nodes": nodes, "tenants": tenants, "leases": leases}))
}
