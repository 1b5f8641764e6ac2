//! Triggers of procedures that a service looks after: the times that are due, and files that were made or changed. It must not
//! know how a run works.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use globset::{Glob, GlobSet, GlobSetBuilder};

use super::{Procedure, zone_of};
use crate::base::time::utc;
use crate::files::{EntryKind, Root};
use crate::sop::{Fired, Trigger};

/// A missed time is made up for if it isn't older than this, in milliseconds: a day.
const MISSED_MS_MAX: i64 = 86_400_000;
/// A time is missed if it is older than this when the service looks, in milliseconds.
const LATE_MS: i64 = 90_000;
/// Files of a workspace that triggers look at, and levels of directories.
const FILES_MAX: usize = 20_000;
const DEPTH_MAX: usize = 8;
/// Runs that a file trigger may begin in a minute: more is a procedure that writes what it waits for.
const FIRES_MAX: usize = 5;
const MINUTE_MS: i64 = 60_000;

/// A trigger that is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Due {
    /// The moment, which begins one run and no second.
    pub slot: String,
    /// The trigger of the run.
    pub fired: Fired,
}

/// The state of a trigger since the service began.
#[derive(Clone, Debug, Default)]
struct Known {
    /// The time until which the schedule was looked at.
    until: Option<i64>,
    /// A quiet time has held it up.
    was_quiet: bool,
    /// The files: their stamp, since when they have it, and whether they have begun a run with it.
    files: Option<BTreeMap<String, (String, i64, bool)>>,
    /// Time when it began runs of late.
    fires: Vec<i64>,
}

/// The triggers that a service looks after.
#[derive(Clone, Debug, Default)]
pub struct Schedule {
    known: BTreeMap<String, Known>,
    /// Triggers that were stopped, in words, until they are told.
    stopped: Vec<String>,
}

impl Schedule {
    /// Finds what is due now; in a quiet time no schedule is, but the newest time in it is due afterwards. `last` tells the time of the newest run that a schedule of a procedure began.
    pub fn due(
        &mut self,
        procedure: &Procedure,
        workspace: &Path,
        (now, is_quiet): (i64, bool),
        last: &dyn Fn(&str) -> Option<i64>,
    ) -> Vec<Due> {
        let Ok(definition) = procedure.usable() else { return Vec::new() };
        let mut due = Vec::new();
        for (number, trigger) in definition.triggers.iter().enumerate() {
            // A changed trigger is another one.
            let key = format!("{} {number} {trigger:?}", procedure.place.display());
            match trigger {
                Trigger::Cron { at, zone, catches_up } => {
                    let Some(zone) = zone_of(zone) else { continue };
                    let known = self.known.entry(key).or_default();
                    let prefix = format!("cron:{number}:");
                    let first = || if *catches_up { last(&prefix).unwrap_or(now) } else { now };
                    if is_quiet {
                        known.until.get_or_insert_with(first);
                        known.was_quiet = true;
                        continue;
                    }
                    let catches_up = std::mem::take(&mut known.was_quiet) || *catches_up;
                    let since = known.until.unwrap_or_else(first).max(now - MISSED_MS_MAX);
                    let newest = newest(|after| at.next(&zone, after), since, now);
                    // A clock that was set back looks at no time twice.
                    known.until = Some(known.until.unwrap_or(now).max(now));
                    if let Some(time) = newest.filter(|time| catches_up || now - time <= LATE_MS) {
                        let fired = Fired { kind: "cron".into(), ..Fired::default() };
                        due.push(Due { slot: format!("{prefix}{}", utc(time)), fired });
                    }
                }
                Trigger::File { paths, settle_ms } => {
                    let found = changed(workspace, paths);
                    let settle_ms = i64::try_from(*settle_ms).unwrap_or(i64::MAX);
                    due.extend(self.settled(&key, number, found, settle_ms, now, &procedure.name));
                }
                Trigger::Manual | Trigger::Webhook { .. } => {}
            }
        }
        due
    }

    /// Whether it has looked at files.
    #[must_use]
    pub fn has_files(&self) -> bool {
        self.known.values().any(|known| known.files.is_some())
    }

    /// Takes the triggers that were stopped since the last call, in words.
    pub fn take_stopped(&mut self) -> Vec<String> {
        std::mem::take(&mut self.stopped)
    }

    /// The files that have been left alone for long enough since they were made or changed.
    fn settled(
        &mut self,
        key: &str,
        number: usize,
        found: BTreeMap<String, String>,
        settle_ms: i64,
        now: i64,
        name: &str,
    ) -> Vec<Due> {
        let known = self.known.entry(key.to_owned()).or_default();
        let Some(files) = &mut known.files else {
            // The files that are there at the start begin nothing.
            known.files = Some(found.into_iter().map(|(path, stamp)| (path, (stamp, now, true))).collect());
            return Vec::new();
        };
        let mut due = Vec::new();
        let mut next = BTreeMap::new();
        for (path, stamp) in found {
            let (since, mut has_fired) = match files.remove(&path) {
                Some((before, since, has_fired)) if before == stamp => (since, has_fired),
                _ => (now, false),
            };
            if !has_fired && now - since >= settle_ms {
                has_fired = true;
                known.fires.retain(|time| now - time < MINUTE_MS);
                if known.fires.len() < FIRES_MAX {
                    known.fires.push(now);
                    let fired = Fired { kind: "file".into(), path: Some(path.clone()), ..Fired::default() };
                    due.push(Due { slot: format!("file:{number}:{path}:{stamp}"), fired });
                } else {
                    let why = format!(
                        "{name}: {path} began no run: {FIRES_MAX} began in a minute; does it write what it waits for?"
                    );
                    self.stopped.push(why);
                }
            }
            next.insert(path, (stamp, since, has_fired));
        }
        known.files = Some(next);
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

/// The files of a workspace that patterns match, each with a stamp that changes with the file.
fn changed(workspace: &Path, patterns: &[String]) -> BTreeMap<String, String> {
    let mut set = GlobSetBuilder::new();
    for pattern in patterns.iter().filter_map(|it| Glob::new(it).ok()) {
        set.add(pattern);
    }
    let (Ok(set), Ok(root)) = (set.build(), Root::open(workspace, None)) else { return BTreeMap::new() };
    let mut found = BTreeMap::new();
    walk(&root, "", DEPTH_MAX, &set, &mut found);
    found
}

fn walk(root: &Root, below: &str, depth: usize, set: &GlobSet, found: &mut BTreeMap<String, String>) {
    let place = if below.is_empty() { "." } else { below };
    for entry in root.list(place).unwrap_or_default() {
        let path = if below.is_empty() { entry.name.clone() } else { format!("{below}/{}", entry.name) };
        match entry.kind {
            EntryKind::Directory if depth > 0 && entry.name != ".git" => walk(root, &path, depth - 1, set, found),
            EntryKind::File if found.len() < FILES_MAX && set.is_match(&path) => {
                if let Ok(data) = root.path().join(&path).symlink_metadata() {
                    let stamp = format!("{}.{}.{}.{}", data.ino(), data.len(), data.mtime(), data.mtime_nsec());
                    found.insert(path, stamp);
                }
            }
            _ => {}
        }
    }
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
    fn a_file_begins_a_run_once_it_is_left_alone_and_a_loop_is_stopped() {
        let mut schedule = Schedule::default();
        let mut at = |now: i64, files: &[(&str, &str)]| {
            let due = schedule.settled("key", 0, found(files), 2_000, now, "x");
            due.into_iter().map(|due| due.fired.path.expect("a path")).collect::<Vec<_>>()
        };
        assert!(at(0, &[("old", "1")]).is_empty(), "what is there at the start");
        assert!(at(1_000, &[("old", "1"), ("new", "1")]).is_empty());
        assert!(at(2_000, &[("old", "1"), ("new", "2")]).is_empty(), "it is being written");
        assert!(at(3_000, &[("old", "1"), ("new", "2")]).is_empty());
        assert_eq!(at(4_000, &[("old", "1"), ("new", "2")]), ["new"]);
        assert!(at(9_000, &[("old", "1"), ("new", "2")]).is_empty());
        at(10_000, &[("old", "2"), ("new", "2")]);
        assert_eq!(at(12_000, &[("old", "2"), ("new", "2")]), ["old"]);
        let many: Vec<(String, String)> = (0..1_000).map(|number| (format!("f{number}"), "1".to_owned())).collect();
        let many: Vec<(&str, &str)> = many.iter().map(|(path, stamp)| (path.as_str(), stamp.as_str())).collect();
        at(20_000, &many);
        assert_eq!(at(22_000, &many).len(), 3, "five in a minute");
        assert_eq!(schedule.take_stopped().len(), 997);
    }
}
