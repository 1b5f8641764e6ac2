//! The service at work: a loop that sleeps until a schedule's time, a change of a file, a signal or the next sign of life, and
//! begins the runs that are due. It must not know how a run works.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::health::{self, Health};
use super::notify::{self, Manager};
use super::workers::Shared;
use crate::agent::procedure::Journal;
use crate::app::{self, Due, Moment, Procedure, Request, Runtime, Schedule, SopJournal, SopStart, TriggerFacts};
use crate::cli::answers::agent::{say, tell};
use crate::files::{Reports, Watch};
use crate::host::now_unix_ms;
use crate::ops::estop;
use crate::proto::{Failure, FailureKind};
use crate::render::text::escape_visible;
use crate::shell::sys;

/// The longest time between two looks, and between two signs of life.
const LOOK: Duration = Duration::from_secs(30);
/// Interval between looks at files if the kernel doesn't report changes.
const LOOK_AT_FILES: Duration = Duration::from_secs(1);
/// The shortest time between two reports of changes, since many files may change at once.
const PAUSE: Duration = Duration::from_millis(200);
/// Limit on the runs that wait for a worker, or for a store that can be written; more are left out and counted.
const QUEUE_MAX: usize = 10_000;
/// The shortest rest for which memory is released: reading it again takes under a millisecond.
const RELEASED_FOR: Duration = Duration::from_secs(2);
/// Reason why a service whose config has a mistake isn't well.
const BROKEN_CONFIG: &str = "the config has a mistake: reedclaw config validate shows it";

/// The service at work.
pub(super) struct Service {
    runtime: Runtime,
    request: Request,
    workspace: PathBuf,
    shared: Arc<Shared>,
    health: Health,
    schedule: Schedule,
    /// Triggers whose runs couldn't be stored yet.
    held: Vec<(Procedure, Due)>,
    /// Triggers that were left out, since too many runs wait.
    dropped: u64,
    watch: Option<Watch>,
}

/// The facts that triggers are judged by.
struct Around<'a> {
    runtime: &'a Runtime,
    workspace: &'a Path,
    shared: &'a Shared,
}

impl TriggerFacts for Around<'_> {
    fn workspace(&self, procedure: &Procedure) -> Option<PathBuf> {
        procedure.workspace(self.runtime.env(), self.workspace).ok()
    }

    fn last(&self, procedure: &Procedure, prefix: &str) -> Option<i64> {
        app::last_fire(self.runtime.store(), procedure, prefix)
    }

    fn is_at_work(&self, procedure: &Procedure) -> bool {
        self.shared.is_at_work(&procedure.name)
    }
}

impl Service {
    pub(super) fn new(runtime: Runtime, request: Request, workspace: PathBuf, place: PathBuf) -> Self {
        let request = Request { store: Some(Arc::clone(runtime.store())), ..request };
        let shared = Shared::new(runtime.env().clone(), request.clone());
        shared.set_settings(&runtime.config().layers);
        let mut health = Health::new(place, &workspace, health::config_digest(&runtime));
        health.config = runtime.has_broken_config().then(|| BROKEN_CONFIG.to_owned());
        let schedule = Schedule::default();
        let watch = watch(&shared);
        Self { runtime, request, workspace, shared, health, schedule, held: Vec::new(), dropped: 0, watch }
    }

    /// The state that it shares with its runs.
    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Works until the service is to end.
    pub(super) fn work(&mut self, manager: &Manager) -> Result<(), Failure> {
        self.take_up()?;
        self.look();
        manager.report(notify::READY);
        tracing::info!(event = "service_started", pid = std::process::id());
        say(&format!("the service runs for {}; Ctrl-C or SIGTERM ends it", self.workspace.display()));
        self.release_memory();
        while self.shared.rest(manager.every.map_or(self.until_next(), |every| every.min(self.until_next()))) {
            let is_new = self.reload_if_asked();
            self.look();
            if is_new {
                // From here on, files that appear are new ones.
                say("the config was read again");
            }
            manager.report(notify::ALIVE);
            self.release_memory();
        }
        Ok(())
    }

    /// Releases the memory that only the start, a run or a look needed, unless the next look comes soon.
    fn release_memory(&self) {
        if self.shared.working() == 0 && self.until_next() >= RELEASED_FOR {
            sys::release_program_pages();
            sys::release_free_memory();
        }
    }

    /// The time to the next look.
    fn until_next(&self) -> Duration {
        let left = |next: i64| Duration::from_millis(u64::try_from(next - now_unix_ms()).unwrap_or(0));
        let next = self.schedule.next_look().map_or(LOOK, |next| left(next).min(LOOK));
        let has_files = !self.schedule.directories().is_empty();
        if has_files && self.watch.is_none() { next.min(LOOK_AT_FILES) } else { next }
    }

    /// Takes up the runs that were cut off, or that rest because a service ended.
    fn take_up(&self) -> Result<(), Failure> {
        let (settings, env, store) = (self.runtime.settings(), self.runtime.env(), self.runtime.store());
        let mut left: Vec<SopJournal> = Vec::new();
        for journal in app::open_sop_runs(settings, env, store)? {
            let run = journal.state()?;
            // The outer run takes up the run of a step.
            let is_ours = run.trigger.kind != "manual" && run.trigger.parent.is_none() && app::may_take_up(&run);
            if is_ours {
                say(&format!("run {} of {} is resumed", run.id, journal.name));
                left.push(journal);
            }
        }
        self.shared.add(left);
        Ok(())
    }

    /// Reads the config again at SIGHUP, and when its file has changed. If the file can't be used, the previous
    /// settings stay in force. Returns whether the new ones are in force.
    fn reload_if_asked(&mut self) -> bool {
        let digest = health::config_digest(&self.runtime);
        let is_asked = self.shared.reloads.swap(false, Ordering::SeqCst);
        if !is_asked && self.health.digest == digest {
            return false;
        }
        self.health.look_anew();
        self.health.digest = digest;
        match Runtime::start(&self.request) {
            Ok(next) if !next.has_broken_config() => {
                next.problems().iter().for_each(tell);
                self.shared.set_settings(&next.config().layers);
                (self.runtime, self.health.config) = (next, None);
                return true;
            }
            Ok(next) => {
                next.problems().iter().for_each(tell);
                self.health.config = Some(BROKEN_CONFIG.into());
            }
            Err(failure) => {
                tell(&failure);
                self.health.config = Some(failure.message);
            }
        }
        if self.health.config.is_some() {
            say("the settings from before count until the config is mended");
        }
        false
    }

    /// Begins the runs that are due by their times or files, and updates the health.
    fn look(&mut self) {
        let settings = self.runtime.settings();
        let procedures = app::procedures((&settings.sop.dirs, self.runtime.env()), &self.workspace);
        let is_stopped = estop::is_on(self.runtime.env());
        let now = jiff::Zoned::now();
        let minute = u16::try_from(i32::from(now.hour()) * 60 + i32::from(now.minute())).unwrap_or(0);
        let has_news = self.watch.is_none() || self.shared.news.swap(false, Ordering::SeqCst);
        let moment = Moment { now: now_unix_ms(), is_quiet: settings.service.is_quiet_at(minute), has_news };
        let due = if settings.service.triggers {
            let around = Around { runtime: &self.runtime, workspace: &self.workspace, shared: &self.shared };
            self.schedule.due(&procedures, moment, &around)
        } else {
            self.schedule = Schedule::default();
            Vec::new()
        };
        self.watch_directories();
        for note in self.schedule.take_notes() {
            tracing::info!(event = "trigger_skipped", shown = true);
            say(&escape_visible(&note));
        }
        let held = std::mem::take(&mut self.held);
        let due = held.into_iter().chain(due.into_iter().map(|due| (procedures[due.procedure].clone(), due)));
        // Triggers during an emergency stop are skipped.
        for (procedure, due) in due.collect::<Vec<_>>().into_iter().filter(|_| !is_stopped) {
            if self.held.is_empty() {
                self.begin(procedure, due);
            } else {
                // The store can't be written: the other triggers wait for the next look, too.
                self.hold(procedure, due);
            }
        }
        self.update_health(&procedures);
    }

    /// Lets a run begin at a later look, if there is room.
    fn hold(&mut self, procedure: Procedure, due: Due) {
        if self.shared.waiting() + self.held.len() < QUEUE_MAX {
            self.held.push((procedure, due));
        } else {
            self.dropped += 1;
            tracing::warn!(event = "trigger_skipped", procedure = procedure.name.as_str(), why = "too many runs wait");
        }
    }

    fn begin(&mut self, procedure: Procedure, due: Due) {
        if self.shared.waiting() >= QUEUE_MAX {
            return self.hold(procedure, due);
        }
        let (settings, none) = ((self.runtime.settings(), self.runtime.env()), BTreeMap::new());
        let with = SopStart { inputs: &none, trigger: due.fired.clone(), slot: Some(&due.slot), taken: Vec::new() };
        let begun = procedure
            .workspace(settings.1, &self.workspace)
            .and_then(|it| app::begin_procedure(settings, self.runtime.store(), &procedure, &it, with));
        match begun {
            Ok(Some(journal)) => {
                let (run, name) = (journal.run(), procedure.name.as_str());
                tracing::info!(event = "trigger_fired", run, procedure = name, trigger = due.fired.kind, shown = true);
                // A file's name may contain a newline.
                say(&escape_visible(&format!("run {run} of {name} begins ({})", due.slot)));
                self.shared.add([journal]);
            }
            // Another service has begun it.
            Ok(None) => {}
            Err(failure) => {
                tell(&failure);
                // A disk may get room again, and a lock may end.
                if failure.kind == FailureKind::Unavailable {
                    self.hold(procedure, due);
                }
            }
        }
    }

    /// Makes the kernel report changes in the directories of triggers and of the config.
    fn watch_directories(&mut self) {
        let Some(watch) = &mut self.watch else { return };
        let mut directories: BTreeSet<PathBuf> = self.schedule.directories().clone();
        let config = self.runtime.config().path.as_deref().and_then(Path::parent);
        directories.extend(config.map(Path::to_owned));
        if watch.set(&directories) {
            // A file may have appeared between the look at its directory and the watch.
            self.shared.news.store(true, Ordering::SeqCst);
        }
    }

    fn update_health(&mut self, procedures: &[Procedure]) {
        let mut wrong = Vec::new();
        let keyless = app::models_without_key(self.runtime.settings(), self.runtime.env(), procedures);
        wrong.extend(keyless.iter().map(|(model, variable)| {
            format!("the model {model} has no key: the service's environment has no {variable}; key_command or key_file works here")
        }));
        let more = self.schedule.too_many();
        wrong.extend(
            (more > 0)
                .then(|| format!("{more} triggers aren't looked at: there are more than {}", app::ALL_TRIGGERS_MAX)),
        );
        wrong.extend((!self.held.is_empty()).then(|| format!("{} runs can't be stored", self.held.len())));
        wrong.extend((self.dropped > 0).then(|| format!("{} runs were left out: too many waited", self.dropped)));
        self.health.update(&self.runtime, &self.shared, wrong);
    }
}

/// Begins to watch directories for changes; `None` if the kernel doesn't report them.
fn watch(shared: &Arc<Shared>) -> Option<Watch> {
    let watch = Watch::new().ok()?;
    let mut reports: Reports = watch.reports().ok()?;
    let shared = Arc::clone(shared);
    let hear = move || {
        while reports.wait().is_ok() {
            shared.news.store(true, Ordering::SeqCst);
            shared.wake();
            std::thread::park_timeout(PAUSE);
        }
    };
    std::thread::Builder::new().name("service-files".into()).spawn(hear).ok()?;
    Some(watch)
}
