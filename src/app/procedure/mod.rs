//! Procedures for a face: the files that there are, the trust in them, and their problems. It must not know how they are shown.

mod beside;
mod journal;
mod schedule;
mod unattended;

use std::path::{Path, PathBuf};

use crate::base::hash::sha256_hex;
use crate::config::{self, Env, Overlay, Settings, Trust, TrustVerdict};
use crate::files::{EntryKind, PathError, Root};
use crate::proto::Failure;
use crate::sop::{self, Definition, FILE_BYTES_MAX, FILE_NAME, Problem, Trigger};
use crate::tools::Registry;

pub use beside::{Beside, Shown, untrusted_files};
pub use schedule::{ALL_TRIGGERS_MAX, Due, Facts as TriggerFacts, Moment, Schedule, next_time};
pub use unattended::{hooked_procedure, may_take_up, models_with_variable, models_without_key, work_procedure};

pub use journal::{
    SopJournal, SopStart, begin_procedure, find_sop_run, imagined_run, last_fire, open_sop_runs, sop_lines, sop_row,
    sop_runs, waiting_sops,
};

/// The directory of procedures, in a workspace and in the config directory.
const DIRECTORY: &str = "sops";
/// The directory of the records of trust.
const RECORDS: &str = "trust-sops";
/// Limit on the procedures in one place.
const PROCEDURES_MAX: usize = 200;
/// Limits on the files of a procedure and on the levels of its directories.
const FILES_MAX: usize = 200;
const DEPTH_MAX: usize = 4;
/// Limit on the bytes of a file beside the procedure's own.
const HELPER_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// A procedure that was found.
#[derive(Clone, Debug)]
pub struct Procedure {
    /// Its name: that of its directory.
    pub name: String,
    /// Its directory.
    pub place: PathBuf,
    /// Belongs to a workspace, and not to the user.
    pub is_project: bool,
    /// The text of its file.
    pub text: String,
    /// The content of the file; `None` if it has problems.
    pub definition: Option<Definition>,
    /// The problems of the file.
    pub problems: Vec<Problem>,
    /// `true` if a person trusts exactly these files.
    pub is_trusted: bool,
    /// The files as they were when they were trusted, if they have changed since.
    pub before: Option<String>,
    /// The directory and the text about its files, to be trusted as a whole.
    overlay: Option<Overlay>,
}

impl Procedure {
    /// Its file.
    #[must_use]
    pub fn file(&self) -> PathBuf {
        self.place.join(FILE_NAME)
    }

    /// The text that a person trusts: a line with hash and path for each file, and the procedure's own file whole.
    #[must_use]
    pub fn manifest(&self) -> &str {
        self.overlay.as_ref().map_or("", Overlay::text)
    }

    /// Returns the directory in which runs of a procedure that was found for `around` work.
    ///
    /// # Errors
    /// The file names a directory that isn't there.
    pub fn workspace(&self, env: &Env, around: &Path) -> Result<PathBuf, Failure> {
        let own = self.definition.as_ref().map(|it| it.workspace.as_str()).filter(|own| !own.is_empty());
        let Some(own) = own else { return Ok(around.to_owned()) };
        at_home(env, own).canonicalize().map_err(|error| {
            Failure::user(format!("the workspace {own} of the procedure {}: {error}", self.name))
                .hint("make the directory, or change the key workspace")
        })
    }

    /// The standing in one word.
    #[must_use]
    pub fn standing(&self) -> &'static str {
        match (self.is_trusted, self.problems.is_empty(), &self.before) {
            (_, false, _) => "broken",
            (true, ..) => "trusted",
            (false, _, Some(_)) => "changed",
            (false, _, None) => "new",
        }
    }

    /// The definition, if the procedure may run.
    ///
    /// # Errors
    /// Its file has problems, or these files aren't trusted.
    pub fn usable(&self) -> Result<&Definition, Failure> {
        let Some(definition) = &self.definition else {
            return Err(Failure::user(format!("the procedure {} has problems", self.name))
                .hint(format!("reedclaw sop validate {} lists them", self.name)));
        };
        if !self.is_trusted {
            let why = if self.before.is_some() { "has changed since you trusted it" } else { "isn't trusted" };
            return Err(Failure::refused(format!("the procedure {} {why}", self.name))
                .hint(format!("reedclaw sop trust {} shows it and asks", self.name)));
        }
        Ok(definition)
    }
}

/// The directories of the user's own procedures that the config adds, and the environment.
pub type SopPlaces<'a> = (&'a [String], &'a Env);

/// Directories in which procedures are looked for, each with whether it is the workspace's: the user's own come first.
fn directories((more, env): SopPlaces<'_>, workspace: &Path) -> Vec<(PathBuf, bool)> {
    let own = config::config_directory(env).map(|config| config.join(DIRECTORY));
    let more = more.iter().map(|path| at_home(env, path));
    own.into_iter().chain(more).map(|place| (place, false)).chain([(workspace.join(DIRECTORY), true)]).collect()
}

/// A path of the config or of a file, whose `~` is the home.
fn at_home(env: &Env, path: &str) -> PathBuf {
    let home = env.get(std::ffi::OsStr::new("HOME"));
    path.strip_prefix("~/").zip(home).map_or_else(|| path.into(), |(below, home)| Path::new(home).join(below))
}

/// Finds the procedures: the user's own, then those of a workspace. The user's own wins a name.
#[must_use]
pub fn procedures(places: SopPlaces<'_>, workspace: &Path) -> Vec<Procedure> {
    let env = places.1;
    let trust = Trust::in_directory(env, RECORDS);
    let mut found: Vec<Procedure> = Vec::new();
    for (place, is_project) in directories(places, workspace) {
        let Ok(root) = Root::open(&place, None) else { continue };
        let entries = root.list(".").unwrap_or_default();
        let names = entries.into_iter().filter(|entry| entry.kind == EntryKind::Directory).map(|entry| entry.name);
        let mut count = 0;
        for name in names {
            if found.iter().all(|known| known.name != name)
                && let Some(procedure) = procedure_in(&trust, root.path().join(&name), name, is_project)
            {
                count += 1;
                found.push(if count > PROCEDURES_MAX { beyond(procedure) } else { procedure });
            }
        }
    }
    found.sort_by(|one, other| one.name.cmp(&other.name));
    found
}

/// Marks a procedure beyond the limit: it is listed, but doesn't run.
fn beyond(procedure: Procedure) -> Procedure {
    let what = format!("its directory has more than {PROCEDURES_MAX} procedures");
    let problem = Problem { line: 1, what, hint: "move some to another directory of sop.dirs".into() };
    unread(procedure.name, procedure.place, procedure.is_project, problem)
}

fn procedure_in(trust: &Trust, place: PathBuf, name: String, is_project: bool) -> Option<Procedure> {
    let root = Root::open(&place, None).ok()?;
    let content = match root.read(FILE_NAME, FILE_BYTES_MAX as u64) {
        Ok(content) => content.bytes,
        Err(PathError::Missing) => return None,
        Err(error) => {
            let what = Problem { line: 1, what: error.to_string(), hint: "write a plain file".into() };
            return Some(unread(name, place, is_project, what));
        }
    };
    let Ok(text) = String::from_utf8(content) else {
        let what = Problem { line: 1, what: "it isn't UTF-8".into(), hint: "save it as UTF-8".into() };
        return Some(unread(name, place, is_project, what));
    };
    let (definition, mut problems) = sop::read_partly(&text);
    if let Some(other) = definition.as_ref().map(|it| &it.name).filter(|other| **other != name) {
        let what = format!("the name {other:?} isn't that of the directory");
        problems.push(Problem { line: 1, what, hint: format!("write name = {name:?}") });
    }
    if is_project && definition.as_ref().is_some_and(|it| !it.workspace.is_empty()) {
        let what = "a project's procedure works in its project, and names no workspace".to_owned();
        let hint = "remove the key workspace, or move the procedure to your own".to_owned();
        problems.push(Problem { line: line_of(&text, "workspace"), what, hint });
    }
    let overlay =
        manifest(&root, &text).and_then(|it| Overlay::of_texts(&place, it).map_err(|error| error.to_string()));
    if let Err(why) = &overlay {
        problems.push(Problem { line: 1, what: why.clone(), hint: "move other files away".into() });
    }
    let overlay = overlay.ok();
    let (is_trusted, before) = match overlay.clone().map(|it| trust.judge(it)) {
        Some(TrustVerdict::Trusted(_)) => (true, None),
        Some(TrustVerdict::Unknown { before, .. }) => (false, before),
        _ => (false, None),
    };
    let definition = definition.filter(|_| problems.is_empty());
    Some(Procedure { name, place, is_project, text, definition, problems, is_trusted, before, overlay })
}

fn unread(name: String, place: PathBuf, is_project: bool, what: Problem) -> Procedure {
    Procedure {
        name,
        place,
        is_project,
        text: String::new(),
        definition: None,
        problems: vec![what],
        is_trusted: false,
        before: None,
        overlay: None,
    }
}

/// Makes the text that a person trusts, from a text of the procedure's own file.
fn manifest(root: &Root, text: &str) -> Result<String, String> {
    let mut lines = Vec::new();
    hashes(root, "", DEPTH_MAX, &mut lines)?;
    let own_path = format!("{FILE_NAME}\n");
    if let Some(own) = lines.iter_mut().find(|line| line.split_once("  ").is_some_and(|(_, path)| path == own_path)) {
        *own = format!("{}  {own_path}", sha256_hex(text.as_bytes()));
    }
    Ok(format!("{}\n{text}", lines.concat()))
}

/// The name of a file beside a procedure's own that has changed since a run of it began. None if all are as they were, or a
/// person trusts them as they are now; the run itself goes on with its own `text`.
fn changed_since(env: &Env, place: &Path, text: &str, digest: &str) -> Option<String> {
    let unknown = || Some(place.display().to_string());
    let Ok(root) = Root::open(place, None) else { return unknown() };
    let Ok(now) = manifest(&root, text) else { return unknown() };
    if sha256_hex(now.as_bytes()) == digest {
        return None;
    }
    let own = root.read(FILE_NAME, FILE_BYTES_MAX as u64).ok().and_then(|it| String::from_utf8(it.bytes).ok());
    let now = own.and_then(|own| manifest(&root, &own).ok());
    let Some(overlay) = now.clone().and_then(|now| Overlay::of_texts(place, now).ok()) else { return unknown() };
    let before = match Trust::in_directory(env, RECORDS).judge(overlay) {
        TrustVerdict::Trusted(_) => return None,
        TrustVerdict::Unknown { before, .. } => before.unwrap_or_default(),
        TrustVerdict::Never => String::new(),
    };
    let now = now.unwrap_or_default();
    let (before, now) = (beside::lines(&before), beside::lines(&now));
    let differs = |path: &&&str| before.get(**path) != now.get(**path);
    now.keys().chain(before.keys()).find(differs).map(|path| (*path).to_owned()).or_else(unknown)
}

fn hashes(root: &Root, below: &str, depth: usize, lines: &mut Vec<String>) -> Result<(), String> {
    let place = if below.is_empty() { "." } else { below };
    for entry in root.list(place).map_err(|error| format!("{place}: {error}"))? {
        let path = if below.is_empty() { entry.name.clone() } else { format!("{below}/{}", entry.name) };
        match entry.kind {
            EntryKind::Directory if depth > 0 => hashes(root, &path, depth - 1, lines)?,
            EntryKind::File => {
                let content = root.read(&path, HELPER_BYTES_MAX).map_err(|error| format!("{path}: {error}"))?;
                lines.push(format!("{}  {path}\n", sha256_hex(&content.bytes)));
            }
            _ => return Err(format!("{path} is neither a plain file nor a directory near the top")),
        }
        if lines.len() > FILES_MAX {
            return Err(format!("the directory holds more than {FILES_MAX} files"));
        }
    }
    Ok(())
}

/// Finds a procedure by its name.
///
/// # Errors
/// There is none.
pub fn find_procedure(places: SopPlaces<'_>, workspace: &Path, name: &str) -> Result<Procedure, Failure> {
    procedures(places, workspace).into_iter().find(|it| it.name == name).ok_or_else(|| {
        Failure::user(format!("there is no procedure {name} for {}", workspace.display()))
            .hint("reedclaw sop list lists them")
    })
}

/// Reads the procedure whose file or directory a path names, wherever that is.
///
/// # Errors
/// There is no such file.
pub fn procedure_at(env: &Env, path: &Path) -> Result<Procedure, Failure> {
    let missing = |why: &str| {
        Failure::user(format!("{}: {why}", path.display()))
            .hint(format!("name a file {FILE_NAME}, or a procedure of reedclaw sop list"))
    };
    let whole = path.canonicalize().map_err(|error| missing(&error.to_string()))?;
    let place = if whole.is_dir() { Some(whole.as_path()) } else { whole.parent() };
    let name = place.and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    let found = place.zip(name).filter(|_| whole.is_dir() || whole.file_name().is_some_and(|name| name == FILE_NAME));
    let trust = Trust::in_directory(env, RECORDS);
    let found = found.and_then(|(place, name)| procedure_in(&trust, place.to_owned(), name, false));
    found.ok_or_else(|| missing("there is no procedure"))
}

/// Trusts exactly the files that were read.
///
/// # Errors
/// They can't be trusted, or the record can't be written.
pub fn trust_procedure(env: &Env, procedure: &Procedure) -> Result<(), Failure> {
    let failed = |why: String| Failure::unavailable(format!("the trust in {} can't be kept: {why}", procedure.name));
    let overlay = procedure.overlay.clone().ok_or_else(|| failed("its files can't be read".into()))?;
    Trust::in_directory(env, RECORDS).trust(overlay).1.map_err(|error| failed(error.to_string()))?;
    beside::keep_copies(env, procedure);
    Ok(())
}

/// Revokes the trust; returns whether there was any.
///
/// # Errors
/// The record can't be removed.
pub fn untrust_procedure(env: &Env, procedure: &Procedure) -> Result<bool, Failure> {
    let Some(overlay) = &procedure.overlay else { return Ok(false) };
    Trust::in_directory(env, RECORDS)
        .forget(overlay)
        .map_err(|error| Failure::unavailable(format!("the record of trust can't be removed: {error}")))
}

/// The tools that steps can name, for [`procedure_problems`]; none of them can run.
#[must_use]
pub fn step_tools(settings: &Settings, env: &Env) -> Registry {
    super::tools_alone(settings, env).0
}

/// All problems of a procedure: those of its file, and tools, time zones and other procedures that don't exist.
#[must_use]
pub fn procedure_problems(registry: &Registry, procedure: &Procedure, all: &[Procedure]) -> Vec<Problem> {
    let mut problems = procedure.problems.clone();
    // The readable parts of a file with problems are checked, too.
    let partly = || sop::read_partly(&procedure.text).0;
    let Some(definition) = procedure.definition.clone().or_else(partly) else { return problems };
    for step in &definition.steps {
        let place = |what: String| format!("step {}: {what}", step.id);
        if let sop::Act::Model { tools, .. } = &step.act {
            let wrong = tools.iter().flat_map(|tool| tool_problems(registry, tool, None));
            problems.extend(wrong.map(|(what, hint)| Problem { line: step.line, what: place(what), hint }));
        }
        if let sop::Act::Tool { tool, args } = &step.act {
            let wrong = tool_problems(registry, tool, Some(args));
            problems.extend(wrong.into_iter().map(|(what, hint)| Problem { line: step.line, what: place(what), hint }));
        }
    }
    for step in &definition.steps {
        if let sop::Act::Procedure { name, inputs } = &step.act {
            let wrong = inner_problem(procedure, name, all).map(|(what, hint)| (what, hint.to_owned()));
            let wrong = wrong.into_iter().chain(input_problems(name, inputs, all));
            let place = |what: String| format!("step {}: {what}", step.id);
            problems.extend(wrong.map(|(what, hint)| Problem { line: step.line, what: place(what), hint }));
        }
    }
    for trigger in &definition.triggers {
        if let Trigger::Cron { zone, .. } = trigger
            && zone_of(zone).is_none()
        {
            let line = line_of(&procedure.text, zone);
            let what = format!("there is no time zone {zone:?}");
            problems.push(Problem { line, what, hint: "write one such as Europe/Berlin".into() });
        }
    }
    problems.sort_by_key(|problem| problem.line);
    problems
}

/// Returns the fault of a step that begins another procedure: there is no such procedure, or it begins this one again.
fn inner_problem(procedure: &Procedure, name: &str, all: &[Procedure]) -> Option<(String, &'static str)> {
    let found = |name: &str| all.iter().find(|it| it.name == name);
    if found(name).is_none() {
        return Some((format!("there is no procedure {name}"), "reedclaw sop list lists them"));
    }
    let (mut open, mut seen) = (vec![name], Vec::new());
    while let Some(next) = open.pop() {
        if next == procedure.name {
            return Some((format!("{name} leads back to {next}"), "a procedure can't begin itself"));
        }
        if seen.contains(&next) {
            continue;
        }
        seen.push(next);
        let steps = found(next).and_then(|it| it.definition.as_ref()).map(|it| it.steps.as_slice());
        open.extend(steps.unwrap_or_default().iter().filter_map(|step| match &step.act {
            sop::Act::Procedure { name, .. } => Some(name.as_str()),
            _ => None,
        }));
    }
    None
}

/// Returns the inputs that a step passes to a procedure that doesn't define them, and the required ones that the step lacks.
fn input_problems(name: &str, inputs: &serde_json::Value, all: &[Procedure]) -> Vec<(String, String)> {
    let Some(definition) = all.iter().find(|it| it.name == name).and_then(|it| it.definition.as_ref()) else {
        return Vec::new();
    };
    let names = sop::argument_names(inputs);
    let hint = || format!("reedclaw sop show {name} lists its inputs");
    let unknown = names.iter().filter(|input| !definition.inputs.contains_key(**input));
    let mut wrong: Vec<_> = unknown.map(|input| (format!("{name} has no input {input}"), hint())).collect();
    let needed =
        definition.inputs.iter().filter(|(input, it)| it.default.is_none() && !names.contains(&input.as_str()));
    wrong.extend(needed.map(|(input, _)| (format!("{name} needs the input {input}"), hint())));
    wrong
}

fn line_of(text: &str, part: &str) -> usize {
    text.lines().position(|line| line.contains(part)).map_or(1, |at| at + 1)
}

/// The time zone with a name; the machine's if there is none.
pub(super) fn zone_of(name: &str) -> Option<jiff::tz::TimeZone> {
    match name {
        "" => Some(jiff::tz::TimeZone::try_system().unwrap_or(jiff::tz::TimeZone::UTC)),
        name => jiff::tz::TimeZone::get(name).ok(),
    }
}

/// Returns the faults of a call by its tool's schema; arguments that come from elsewhere are unknown yet.
fn tool_problems(registry: &Registry, tool: &str, args: Option<&serde_json::Value>) -> Vec<(String, String)> {
    // A server's tools are known only after its start.
    if tool.contains("__") {
        return Vec::new();
    }
    let Some(spec) = registry.specs().find(|spec| spec.is_in(&[tool.to_owned()])) else {
        let what = format!("there is no tool {tool}");
        return vec![(what, "reedclaw tool list lists them".to_owned())];
    };
    let Some(args) = args else { return Vec::new() };
    let hint = || format!("reedclaw tool list --json has the schema of {tool}");
    let known = spec.schema.get("properties").and_then(|it| it.as_object());
    let names = sop::argument_names(args);
    let unknown = names.iter().filter(|name| known.is_some_and(|known| !known.contains_key(**name)));
    let mut wrong: Vec<_> = unknown.map(|name| (format!("{tool} has no argument {name}"), hint())).collect();
    let required = spec.schema.get("required").and_then(|it| it.as_array()).into_iter().flatten();
    let missing = required.filter_map(|it| it.as_str()).filter(|name| !names.contains(name));
    wrong.extend(missing.map(|name| (format!("{tool} needs the argument {name}"), hint())));
    wrong
}
