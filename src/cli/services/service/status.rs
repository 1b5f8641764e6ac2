//! `reedclaw service status`: what a running service wrote about itself, with the runs and triggers that the stores have.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::health::{problems, stores};
use super::{hold, place, workspace};
use crate::app::{self, ChannelKind, Request, Runtime};
use crate::base::time::utc;
use crate::cli::exit;
use crate::cli::out::outln;
use crate::host::now_unix_ms;
use crate::ops::{self, estop};
use crate::proto::Failure;
use crate::render::sanitise;
use crate::store::ModelTimes;

/// The time in which failed runs are counted, in milliseconds: a day.
const RECENT_MS: i64 = 86_400_000;
/// Finished runs that are looked at for failed ones.
const COUNTED_MAX: usize = 200;
/// Next times that are listed.
const NEXT_MAX: usize = 20;

/// The runs of the stores, counted.
#[derive(Default)]
struct Counted {
    active: u64,
    waiting: u64,
    failed: u64,
}

/// Prints the state of the service.
pub(super) fn status(is_json: bool, config: Option<PathBuf>, path: Option<PathBuf>) -> Result<u8, Failure> {
    let runtime = Runtime::start(&Request { config, channel: ChannelKind::Service, ..Request::default() })?;
    let (settings, env) = (runtime.settings(), runtime.env());
    let is_alive = hold(env).is_err();
    let text = std::fs::read_to_string(place(env, "service.json")?).ok().filter(|_| is_alive);
    let mut facts: Value = text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    let stop = estop::reason(env)?;
    let at = facts["workspace"].as_str().map(PathBuf::from);
    let workspace = at.map_or_else(|| workspace(&runtime, path), Ok)?;
    let wrong = if is_alive { problems(&facts, env) } else { Vec::new() };
    if !is_alive {
        let stores = stores(&runtime);
        (facts["store"], facts["receipts"]) = (stores.store, stores.receipts);
    }
    let counted = counted(&runtime)?;
    let procedures = app::procedures((&settings.sop.dirs, env), &workspace);
    let next_of = |it: &app::Procedure| app::next_time(it, now_unix_ms()).filter(|_| settings.service.triggers);
    let mut next: Vec<(i64, &str)> =
        procedures.iter().filter_map(|it| Some((next_of(it)?, it.name.as_str()))).collect();
    next.sort_unstable();
    if is_json {
        let next: Vec<Value> =
            next.iter().take(NEXT_MAX).map(|(time, name)| json!({"name": name, "at": utc(*time)})).collect();
        let triggers: Vec<Value> = procedures
            .iter()
            .map(|it| json!({"name": it.name, "standing": it.standing(), "next": next_of(it).map(utc)}))
            .collect();
        outln!(
            "{}",
            json!({"alive": is_alive, "pid": facts["pid"], "since": facts["since"], "version": facts["version"],
                "config_sha256": facts["config_sha256"], "estop": stop, "store": facts["store"],
                "receipts": facts["receipts"], "scheduler": {"next": next},
                "runs": {"active": counted.active, "waiting": counted.waiting, "failed_24h": counted.failed},
                "models": models(&runtime)?, "degraded": wrong, "workspace": workspace, "procedures": triggers,
                "queued": facts["queued"]})
        );
    } else {
        match is_alive {
            true => {
                outln!("The service runs since {} (process {}).", facts["since"].as_str().unwrap_or("?"), facts["pid"])
            }
            false => outln!("The service doesn't run. Triggers begin nothing until it does."),
        }
        stop.iter().for_each(|why| outln!("{}", sanitise(why)));
        wrong.iter().for_each(|why| outln!("It isn't well: {}.", sanitise(why)));
        let Counted { active, waiting, .. } = counted;
        let go_on = if is_alive { "continue" } else { "are unfinished" };
        outln!("{active} runs {go_on}, {waiting} wait for a person; procedures of {}:", workspace.display());
        for procedure in &procedures {
            let next = next_of(procedure).map_or_else(String::new, |next| format!(", next at {}", utc(next)));
            outln!("  {} ({}){next}", sanitise(&procedure.name), procedure.standing());
        }
    }
    Ok(match (is_alive, stop) {
        (false, _) => exit::FAILED,
        (true, Some(_)) => exit::ESTOP,
        (true, None) if !wrong.is_empty() => exit::REFUSED,
        (true, None) => exit::DONE,
    })
}

fn counted(runtime: &Runtime) -> Result<Counted, Failure> {
    let mut counted = Counted::default();
    for journal in app::sop_runs(runtime.settings(), runtime.env(), runtime.store(), COUNTED_MAX)? {
        let run = journal.state()?;
        counted.failed += u64::from(run.word() == "failed" && now_unix_ms() - run.began < RECENT_MS);
    }
    for journal in app::open_sop_runs(runtime.settings(), runtime.env(), runtime.store())? {
        match journal.state()?.word() {
            "waiting" | "unknown" => counted.waiting += 1,
            "running" => counted.active += 1,
            _ => {}
        }
    }
    Ok(counted)
}

/// The models of the config, each with the time of its last answer and of its last failure.
fn models(runtime: &Runtime) -> Result<Vec<Value>, Failure> {
    let model =
        |it: ModelTimes| json!({"name": it.model, "last_ok": it.answered.map(utc), "last_error": it.failed.map(utc)});
    Ok(ops::models::times(runtime)?.into_iter().map(model).collect())
}
