//! Triggers of procedures that a service looks after: the times that are due, and files that were made or changed. It must not
//! know how a run works.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use globset::{Glob, GlobSet, GlobSetBuilder};

use super::{Procedure, zone_of};
use crate::base::time::utc;
use crate::files::{EntryKind, Root};
use crate::proto::known_paths;
use crate::sop::{Fired, Trigger, cron};

/// A missed time is made up for if it isn't older than this, in milliseconds: a day.
const MISSED_MS_MAX: i64 = 86_400_000;
/// A time is missed if it is older than this when the service looks, in milliseconds.
const LATE_MS: i64 = 90_000;
/// Limits on the files of a workspace that a trigger looks at, on the directories that hold them, and on the levels of these.
const FILES_MAX: usize = 20_000;
const DIRECTORIES_MAX: usize = 4_096;
const DEPTH_MAX: usize = 8;
/// Limit on the runs that one file may begin in a minute, and on those for files that changed while the procedure was
/// at work: a procedure beyond it writes the files that it waits for.
const FIRES_MAX: usize = 5;
const MINUTE_MS: i64 = 60_000;
/// Shortest time until the next look at a file that settles, and the time until the next look at a file whose procedure
/// has begun too many runs, in milliseconds.
const LOOK_AGAIN_MS: i64 = 50;
const SLOW_MS: i64 = 5_000;
/// The stamp of a file that no run can be begun for: its name isn't UTF-8.
const UNNAMED: &str = "";
/// Limit on the triggers of all procedures.
pub const ALL_TRIGGERS_MAX: usize = 500;

/// A trigger that is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Due {
    /// The number of its procedure among those that were looked at.
    pub procedure: usize,
    /// The moment, for which only one run begins.
    pub slot: String,
    /// Its time, Unix milliseconds.
    pub at: i64,
    /// The trigger of the run.
    pub fired: Fired,
}

/// The facts about the world at one look.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// The time, Unix milliseconds.
    pub now: i64,
    /// No schedule begins a run now.
    pub is_quiet: bool,
    /// Something in a watched directory has changed.
    pub has_news: bool,
}

/// The facts about a procedure for a look.
pub trait Facts {
    /// The directory that it works in; none if that isn't there.
    fn workspace(&self, procedure: &Procedure) -> Option<PathBuf>;

    /// Time of the newest run that a moment with this beginning has begun, Unix milliseconds.
    fn last(&self, procedure: &Procedure, prefix: &str) -> Option<i64>;

    /// Returns whether a run of it is at work, or about to be.
    fn is_at_work(&self, procedure: &Procedure) -> bool;
}

/// The state of a trigger since the service began.
#[derive(Clone, Debug, Default)]
struct Known {
    /// The time until which the schedule was looked at.
    until: Option<i64>,
    /// A quiet time has delayed it.
    was_quiet: bool,
    /// Its files, by path.
    files: Option<BTreeMap<String, KnownFile>>,
    /// Recent times at which each file began runs, by path, and recent times of runs for files that changed while the
    /// procedure was at work.
    fires: BTreeMap<String, Vec<i64>>,
    own_fires: Vec<i64>,
    /// Such files wait, and this was reported.
    is_slowed: bool,
}

/// A file of a trigger.
#[derive(Clone, Debug)]
struct KnownFile {
    stamp: String,
    /// Time since which it has this stamp, Unix milliseconds.
    since: i64,
    /// No run is needed for it any more.
    is_over: bool,
    /// Changed while the procedure was at work.
    is_own: bool,
}

/// A look at the files of a trigger.
#[derive(Clone, Copy, Debug)]
struct Look<'a> {
    key: &'a str,
    number: usize,
    settle_ms: i64,
    now: i64,
    name: &'a str,
    is_at_work: bool,
}

/// The triggers that a service looks after.
#[derive(Clone, Debug, Default)]
pub struct Schedule {
    known: BTreeMap<String, Known>,
    /// Sentences about triggers that were stopped or left out, until they are taken.
    notes: Vec<String>,
    /// Directories in which files are looked for.
    directories: BTreeSet<PathBuf>,
    /// The time of the last look, of the next one, and of the next one at all files, Unix milliseconds.
    last: i64,
    next: Option<i64>,
    next_files: i64,
    /// Triggers that aren't looked at: there are too many.
    too_many: usize,
}

impl Schedule {
    /// Finds what is due now, in the order of time. In a quiet time no schedule is due; afterwards the newest time in it is.
    pub fn due(&mut self, procedures: &[Procedure], moment: Moment, facts: &dyn Facts) -> Vec<Due> {
        let Moment { now, has_news, .. } = moment;
        self.next = None;
        if now < self.last {
            self.forget_after(now);
        }
        self.last = now;
        let looks_at_files = has_news || now >= self.next_files || self.has_unsettled(now);
        if now >= self.next_files {
            self.next_files = now + MINUTE_MS;
        }
        if looks_at_files {
            self.directories.clear();
        }
        let (mut due, mut seen, mut keys) = (Vec::new(), 0, BTreeSet::new());
        for (at, procedure) in procedures.iter().enumerate() {
            let Ok(definition) = procedure.usable() else { continue };
            for (number, trigger) in definition.triggers.iter().enumerate() {
                seen += 1;
                if seen > ALL_TRIGGERS_MAX {
                    continue;
                }
                // A changed trigger is another one.
                let key = format!("{} {number} {trigger:?}", procedure.place.display());
                let found = match trigger {
                    Trigger::Cron { at, zone, catches_up } => {
                        let last = || facts.last(procedure, &format!("cron:{number}:"));
                        let time = self.cron(&key, (at, zone, *catches_up), moment, &last);
                        let time = time.filter(|_| definition.overlaps || !self.is_skipped(procedure, facts));
                        let found = |time| (time, format!("cron:{number}:{}", utc(time)), Fired::by("cron"));
                        time.map(found).into_iter().collect()
                    }
                    Trigger::File { paths, settle_ms } if looks_at_files => {
                        let settle_ms = i64::try_from(*settle_ms).unwrap_or(i64::MAX);
                        let (name, is_at_work) = (procedure.name.as_str(), facts.is_at_work(procedure));
                        let look = Look { key: &key, number, settle_ms, now, name, is_at_work };
                        let workspace = facts.workspace(procedure);
                        workspace.map_or_else(Vec::new, |it| self.files(&it, paths, look))
                    }
                    Trigger::File { .. } | Trigger::Manual | Trigger::Webhook { .. } => Vec::new(),
                };
                due.extend(found.into_iter().map(|(time, slot, fired)| Due { procedure: at, slot, at: time, fired }));
                keys.insert(key);
            }
        }
        self.known.retain(|key, _| keys.contains(key));
        self.too_many = seen.saturating_sub(ALL_TRIGGERS_MAX);
        due.sort_by_key(|due| due.at);
        due
    }

    /// Forgets the times after `now`: the clock was set back, and after a wrong date nothing would begin until that date. A
    /// moment that comes again begins no second run, since the store knows it.
    fn forget_after(&mut self, now: i64) {
        self.next_files = now;
        for known in self.known.values_mut() {
            known.until = known.until.map(|until| until.min(now));
            let files = known.files.iter_mut().flat_map(BTreeMap::values_mut).map(|file| &mut file.since);
            let fires = known.fires.values_mut().flatten().chain(&mut known.own_fires);
            files.chain(fires).for_each(|time| *time = now.min(*time));
        }
    }

    fn is_skipped(&mut self, procedure: &Procedure, facts: &dyn Facts) -> bool {
        let is_at_work = facts.is_at_work(procedure);
        if is_at_work {
            self.notes.push(format!("{} began no run by the clock: its run before is still at work", procedure.name));
        }
        is_at_work
    }

    /// Returns the time of a schedule that is due.
    fn cron(
        &mut self,
        key: &str,
        (at, zone, catches_up): (&cron::Spec, &str, bool),
        Moment { now, is_quiet, .. }: Moment,
        last: &dyn Fn() -> Option<i64>,
    ) -> Option<i64> {
        let zone = zone_of(zone)?;
        self.look_again(at.next(&zone, now));
        let known = self.known.entry(key.to_owned()).or_default();
        // A run with a time in the future was begun by a wrong clock.
        let first = || if catches_up { last().unwrap_or(now).min(now) } else { now };
        if is_quiet {
            known.until.get_or_insert_with(first);
            known.was_quiet = true;
            return None;
        }
        let catches_up = std::mem::take(&mut known.was_quiet) || catches_up;
        let since = known.until.unwrap_or_else(first).max(now - MISSED_MS_MAX);
        let newest = newest(|after| at.next(&zone, after), since, now);
        known.until = Some(now);
        newest.filter(|time| catches_up || now - time <= LATE_MS)
    }

    /// Triggers that aren't looked at, since there are too many.
    #[must_use]
    pub fn too_many(&self) -> usize {
        self.too_many
    }

    /// The directories in which files are looked for; a change in them is news.
    #[must_use]
    pub fn directories(&self) -> &BTreeSet<PathBuf> {
        &self.directories
    }

    /// The time of the next look, Unix milliseconds: a schedule's next time, a file that settles, or a look at all files.
    #[must_use]
    pub fn next_look(&self) -> Option<i64> {
        let files = self.known.values().any(|known| known.files.is_some()).then_some(self.next_files);
        files.into_iter().chain(self.next).min()
    }

    fn look_again(&mut self, at: Option<i64>) {
        self.next = self.next.into_iter().chain(at).min();
    }

    /// Takes the notes since the last call, in words.
    pub fn take_notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    /// Returns whether a file waits to be left alone.
    fn has_unsettled(&self, now: i64) -> bool {
        let files = self.known.values().filter_map(|known| known.files.as_ref());
        files.flat_map(BTreeMap::values).any(|file| !file.is_over && file.since <= now)
    }

    fn files(&mut self, workspace: &Path, paths: &[String], look: Look<'_>) -> Vec<(i64, String, Fired)> {
        let mut watched = std::mem::take(&mut self.directories);
        let found = changed(workspace, paths, &mut watched);
        self.directories = watched;
        self.settled(look, found)
    }

    /// The files that have been left alone for long enough since they were made or changed.
    fn settled(&mut self, look: Look<'_>, found: BTreeMap<String, String>) -> Vec<(i64, String, Fired)> {
        let Look { key, number, settle_ms, now, name, is_at_work } = look;
        let known = self.known.entry(key.to_owned()).or_default();
        let Some(files) = &mut known.files else {
            // Files that exist at the start begin no run.
            let old = |stamp| KnownFile { stamp, since: now, is_over: true, is_own: false };
            known.files = Some(found.into_iter().map(|(path, stamp)| (path, old(stamp))).collect());
            return Vec::new();
        };
        let is_late = |time: &i64| now - time >= MINUTE_MS;
        known.fires.retain(|_, times| times.iter().any(|time| !is_late(time)));
        known.own_fires.retain(|time| !is_late(time));
        let (mut due, mut next, mut slowed, mut again) = (Vec::new(), BTreeMap::new(), 0, i64::MAX);
        for (path, stamp) in found {
            let before = files.remove(&path).filter(|before| before.stamp == stamp);
            let new = || KnownFile { stamp, since: now, is_over: false, is_own: is_at_work };
            let mut file = before.unwrap_or_else(new);
            if !file.is_over && now - file.since >= settle_ms {
                let fires = known.fires.entry(path.clone()).or_default();
                fires.retain(|time| !is_late(time));
                if file.stamp == UNNAMED {
                    file.is_over = true;
                    self.notes.push(format!("{name}: {path} began no run: its name isn't UTF-8; rename it"));
                } else if fires.len() >= FIRES_MAX {
                    file.is_over = true;
                    self.notes.push(format!(
                        "{name}: {path} began no run: it began {FIRES_MAX} in a minute; does the procedure write what it waits for?"
                    ));
                } else if file.is_own && known.own_fires.len() >= FIRES_MAX {
                    slowed += 1;
                    again = again.min(now + SLOW_MS);
                } else {
                    file.is_over = true;
                    fires.push(now);
                    known.own_fires.extend(file.is_own.then_some(now));
                    let fired = Fired { path: Some(path.clone()), ..Fired::by("file") };
                    due.push((file.since + settle_ms, format!("file:{number}:{path}:{}", file.stamp), fired));
                }
            }
            if !file.is_over && now - file.since < settle_ms {
                again = again.min((file.since + settle_ms).max(now + LOOK_AGAIN_MS));
            }
            next.insert(path, file);
        }
        if slowed > 0 && !std::mem::replace(&mut known.is_slowed, true) {
            self.notes.push(format!(
                "{name}: {slowed} files that changed during its runs wait: {FIRES_MAX} of them begin one in a minute"
            ));
        }
        known.is_slowed = slowed > 0;
        known.files = Some(next);
        self.look_again((again < i64::MAX).then_some(again));
        due
    }
}

/// The next time at which a trusted procedure begins a run, Unix milliseconds.
#[must_use]
pub fn next_time(procedure: &Procedure, now: i64) -> Option<i64> {
    let triggers = procedure.usable().ok()?.triggers.iter();
    let next = |trigger: &Trigger| match trigger {
        Trigger::Cron { at, zone, .. } => at.next(&zone_of(zone)?, now),
        _ => None,
    };
    triggers.filter_map(next).min()
}

/// The newest time after `since` that isn't after `now`.
fn newest(next: impl Fn(i64) -> Option<i64>, since: i64, now: i64) -> Option<i64> {
    let mut newest = None;
    let mut at = since;
    while let Some(time) = next(at).filter(|time| *time <= now) {
        (newest, at) = (Some(time), time);
    }
    newest
}

/// The files of a workspace that patterns match, each with a stamp that changes with the file. The directories in which they
/// are looked for are added to `watched`.
fn changed(workspace: &Path, patterns: &[String], watched: &mut BTreeSet<PathBuf>) -> BTreeMap<String, String> {
    let mut set = GlobSetBuilder::new();
    for pattern in patterns.iter().filter_map(|it| Glob::new(it).ok()) {
        set.add(pattern);
    }
    let (Ok(set), Ok(root)) = (set.build(), Root::open(workspace, None)) else { return BTreeMap::new() };
    let tops: BTreeSet<&str> = patterns.iter().map(|pattern| top_of(pattern)).collect();
    let mut walk = Walk { root: &root, set: &set, found: BTreeMap::new(), watched, left: DIRECTORIES_MAX };
    for top in tops.iter().filter(|top| !tops.iter().any(|other| is_below(top, other))) {
        // A directory that isn't there yet is made in one of these.
        let above = Path::new(top).ancestors().skip(1).map(|it| root.path().join(it));
        walk.watched.extend(above.filter(|it| it.is_dir()));
        walk.walk(top, DEPTH_MAX);
    }
    walk.found
}

/// The directory below which all paths of a pattern are; empty for the top.
fn top_of(pattern: &str) -> &str {
    let plain = pattern.find(['*', '?', '[', '{', '\\']).map_or(pattern, |at| &pattern[..at]);
    plain.rfind('/').map_or("", |at| &plain[..at])
}

/// Returns whether a directory is below another one.
fn is_below(path: &str, other: &str) -> bool {
    path != other && (other.is_empty() || path.strip_prefix(other).is_some_and(|rest| rest.starts_with('/')))
}

struct Walk<'a> {
    root: &'a Root,
    set: &'a GlobSet,
    found: BTreeMap<String, String>,
    watched: &'a mut BTreeSet<PathBuf>,
    /// Directories that may still be looked at.
    left: usize,
}

impl Walk<'_> {
    fn walk(&mut self, below: &str, depth: usize) {
        let place = if below.is_empty() { "." } else { below };
        let Some(left) = self.left.checked_sub(1) else { return };
        self.left = left;
        let Ok(entries) = self.root.list(place) else { return self.unnamed(below) };
        self.watched.insert(self.root.path().join(below));
        for entry in entries {
            let path = if below.is_empty() { entry.name.clone() } else { format!("{below}/{}", entry.name) };
            match entry.kind {
                EntryKind::Directory if depth > 0 && !is_made_by_tools(&entry.name) => self.walk(&path, depth - 1),
                EntryKind::File if self.found.len() < FILES_MAX && self.set.is_match(&path) => {
                    let Ok(data) = self.root.path().join(&path).symlink_metadata() else {
                        self.unnamed(&path);
                        continue;
                    };
                    let stamp = format!("{}.{}.{}.{}", data.ino(), data.len(), data.mtime(), data.mtime_nsec());
                    self.found.insert(path, stamp);
                }
                _ => {}
            }
        }
    }

    /// Notes a path that doesn't exist under this name because its real name isn't UTF-8.
    fn unnamed(&mut self, path: &str) {
        if path.contains(char::REPLACEMENT_CHARACTER) {
            self.found.insert(path.to_owned(), UNNAMED.to_owned());
        }
    }
}

/// Returns whether the content of a directory with this name is generated by tools.
fn is_made_by_tools(name: &str) -> bool {
    name == ".git" || known_paths::derived(Path::new(name)).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> BTreeMap<String, String> {
        files.iter().map(|(path, stamp)| ((*path).to_owned(), (*stamp).to_owned())).collect()
    }

    #[test]
    fn missed_times_are_one_and_none_comes_twice() {
        let hourly = |after: i64| Some((after / 3_600 + 1) * 3_600);
        assert_eq!(newest(hourly, 0, 3_599), None);
        assert_eq!(newest(hourly, 0, 3_600), Some(3_600));
        assert_eq!(newest(hourly, 100, 20_000), Some(18_000), "of several the newest");
        assert_eq!(newest(hourly, 20_000, 10_000), None, "a clock that was set back");
    }

    #[test]
    fn after_a_wrong_date_the_schedule_goes_on() {
        const HOUR: i64 = 3_600_000;
        let hourly = cron::Spec::parse("0 * * * *").expect("a schedule");
        let mut schedule = Schedule::default();
        let at = |schedule: &mut Schedule, now: i64| {
            let moment = Moment { now, is_quiet: false, has_news: false };
            schedule.cron("key", (&hourly, "UTC", false), moment, &|| None)
        };
        assert_eq!(at(&mut schedule, HOUR), None);
        assert_eq!(at(&mut schedule, 2 * HOUR), Some(2 * HOUR));
        at(&mut schedule, 1_000_000 * HOUR);
        fired(&mut schedule, 1_000_000 * HOUR, false, &[]);
        fired(&mut schedule, 1_000_000 * HOUR, false, &[("new", "1")]);
        schedule.forget_after(2 * HOUR + 1);
        assert_eq!(at(&mut schedule, 2 * HOUR + 1), None);
        assert_eq!(at(&mut schedule, 3 * HOUR), Some(3 * HOUR));
        assert_eq!(fired(&mut schedule, 3 * HOUR, false, &[("new", "1")]), ["new"]);
    }

    /// The paths that begin a run at a time.
    fn fired(schedule: &mut Schedule, now: i64, is_at_work: bool, files: &[(&str, &str)]) -> Vec<String> {
        let look = Look { key: "key", number: 0, settle_ms: 2_000, now, name: "x", is_at_work };
        let due = schedule.settled(look, found(files));
        due.into_iter().map(|(_, _, fired)| fired.path.expect("a path")).collect()
    }

    #[test]
    fn a_file_begins_a_run_once_it_is_left_alone() {
        let mut schedule = Schedule::default();
        let mut at = |now: i64, files: &[(&str, &str)]| fired(&mut schedule, now, false, files);
        assert!(at(0, &[("old", "1")]).is_empty(), "the files of the start");
        assert!(at(1_000, &[("old", "1"), ("new", "1")]).is_empty());
        assert!(at(2_000, &[("old", "1"), ("new", "2")]).is_empty(), "it is being written");
        assert!(at(3_000, &[("old", "1"), ("new", "2")]).is_empty());
        assert_eq!(at(4_000, &[("old", "1"), ("new", "2")]), ["new"]);
        assert!(at(9_000, &[("old", "1"), ("new", "2")]).is_empty());
        at(10_000, &[("old", "2"), ("new", "2")]);
        assert_eq!(at(12_000, &[("old", "2"), ("new", "2")]), ["old"]);
        at(13_000, &[("bad\u{fffd}", UNNAMED)]);
        assert!(
            at(15_000, &[("bad\u{fffd}", UNNAMED)]).is_empty() && at(17_000, &[("bad\u{fffd}", UNNAMED)]).is_empty()
        );
        assert_eq!(schedule.take_notes(), ["x: bad\u{fffd} began no run: its name isn't UTF-8; rename it"]);
        assert_eq!(schedule.next_look(), Some(0), "all files are looked at");
        assert_eq!(schedule.next, Some(3_000), "the first time at which a file may have settled");
    }

    #[test]
    fn a_thousand_files_at_once_begin_a_run_each_and_a_loop_is_stopped() {
        let names: Vec<String> = (0..1_000).map(|number| format!("f{number}")).collect();
        let many: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "1")).collect();
        let mut schedule = Schedule::default();
        fired(&mut schedule, 0, false, &[]);
        fired(&mut schedule, 1_000, false, &many);
        assert_eq!(fired(&mut schedule, 3_000, true, &many).len(), 1_000);
        assert!(schedule.take_notes().is_empty());

        // A procedure that writes the file that it waits for.
        let mut schedule = Schedule::default();
        fired(&mut schedule, 0, false, &[]);
        let mut runs = 0;
        for turn in 0..20 {
            let now = 1_000 + turn * 2_500;
            let stamp = turn.to_string();
            fired(&mut schedule, now, false, &[("loop", &stamp)]);
            runs += fired(&mut schedule, now + 2_000, false, &[("loop", &stamp)]).len();
        }
        assert_eq!(runs, 5, "within a minute");
        assert!(schedule.take_notes()[0].contains("does the procedure write what it waits for?"));

        // One that writes other such files: they wait, and none is lost.
        let mut schedule = Schedule::default();
        fired(&mut schedule, 0, false, &[]);
        fired(&mut schedule, 1_000, true, &many[..12]);
        let mut at = |now: i64| fired(&mut schedule, now, true, &many[..12]).len();
        assert_eq!([at(3_000), at(10_000), at(63_000), at(123_000), at(183_000)], [5, 0, 5, 2, 0]);
        assert_eq!(schedule.take_notes().len(), 1, "when they begin to wait");
    }

    #[test]
    fn files_are_looked_for_only_below_the_directories_of_their_patterns() {
        let work = tempfile::tempdir().expect("a directory");
        for name in ["inbox/deep/a.csv", "inbox/b.csv", "other/c.csv", "node_modules/x/d.csv", "top.csv"] {
            let path = work.path().join(name);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
            std::fs::write(path, "x").expect("a file");
        }
        let mut watched = BTreeSet::new();
        let paths = |found: BTreeMap<String, String>| found.into_keys().collect::<Vec<_>>();
        let found = changed(work.path(), &["inbox/**/*.csv".into(), "none/yet/*.csv".into()], &mut watched);
        assert_eq!(paths(found), ["inbox/b.csv", "inbox/deep/a.csv"]);
        let root = work.path().canonicalize().expect("a path");
        assert_eq!(watched, [root.clone(), root.join("inbox"), root.join("inbox/deep")].into());
        let found = changed(work.path(), &["**/*.csv".into()], &mut BTreeSet::new());
        assert_eq!(paths(found), ["inbox/b.csv", "inbox/deep/a.csv", "other/c.csv", "top.csv"]);
        use std::os::unix::ffi::OsStrExt;
        std::fs::write(work.path().join(std::ffi::OsStr::from_bytes(b"inbox/e\xff.csv")), "x").expect("a file");
        let found = changed(work.path(), &["inbox/e*".into()], &mut BTreeSet::new());
        assert_eq!(found.into_iter().collect::<Vec<_>>(), [("inbox/e\u{fffd}.csv".to_owned(), UNNAMED.to_owned())]);
    }
}
