//! `detect_languages` and `hotfiles`: the languages of the workspace, and the files that change most.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::files::{Opener, Walked};
use crate::gate::Permit;
use crate::project::languages::{self, FIRST_LINE_BYTES};
use crate::project::{Bounds, COMMITS_MAX, COMMITS_WITH_LINES, Heat, Repository, Trouble, heat};
use crate::proto::action::Action;
use crate::proto::tool::{Outcome, ToolError};
use crate::tools::search::{End, Walk, limit, limit_schema, note};
use crate::tools::{Offer, Place, Plan, Spec, Tool, Work};

/// `detect_languages`.
pub(in crate::tools) struct Languages;

impl Tool for Languages {
    fn spec(&self) -> Spec {
        let description = "Lists the programming languages of the workspace, the most bytes first: {language, bytes, \
                           percent}. Hidden, ignored, vendored and generated files don't count.";
        Spec {
            name: "detect_languages".into(),
            aliases: &[],
            description: description.into(),
            schema: json!({"type": "object", "properties": {}, "additionalProperties": false}),
        }
    }

    fn offer(&self) -> Offer {
        Offer::Extra
    }

    fn plan(&self, _: &Value, _: Place<'_>) -> Result<Plan, ToolError> {
        Ok(Plan::of(Action::List { path: ".".into() }).saying("Looking which languages are used".into()))
    }

    fn run(&mut self, _: &Permit, work: &mut Work<'_>) -> Outcome {
        let (sources, end) = sources(work);
        let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
        for source in &sources {
            *sums.entry(source.language).or_default() += source.bytes;
        }
        let all: u64 = sums.values().sum();
        let mut sums: Vec<(&str, u64)> = sums.into_iter().filter(|(_, bytes)| *bytes > 0).collect();
        sums.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
        let line = |(language, bytes): &(&str, u64)| {
            let percent = (*bytes as f64 * 1000.0 / all as f64).round() / 10.0;
            json!({"language": language, "bytes": bytes, "percent": percent}).to_string()
        };
        let mut lines: Vec<String> = sums.iter().map(line).collect();
        if lines.is_empty() {
            lines.push("[no file is in a programming language that is known]".into());
        }
        match note(end, &mut lines, work) {
            Ok(()) => Outcome::of(lines.join("\n")).with("files", sources.len()).with("is_all", end == End::Whole),
            Err(error) => error.into(),
        }
    }
}

/// A file in a programming language.
struct Source {
    path: PathBuf,
    language: &'static str,
    bytes: u64,
}

/// The workspace's own sources.
fn sources(work: &Work<'_>) -> (Vec<Source>, End) {
    let open = work.place.tree.opener();
    Walk::new(Path::new(""), work).each_file(|| {
        |file: &Walked<'_>, found: &mut Vec<Source>, _: &_| {
            let path = file.path;
            if languages::is_foreign(path) {
                return;
            }
            let language = languages::by_name(path).or_else(|| first_line(&open, path));
            if let (Some(language), Some(stamp)) = (language, file.stamp()) {
                found.push(Source { path: path.to_owned(), language, bytes: stamp.bytes });
            }
        }
    })
}

fn first_line(open: &Opener<'_>, path: &Path) -> Option<&'static str> {
    if !languages::may_say_in_first_line(path) {
        return None;
    }
    let mut bytes = Vec::new();
    open(path).ok()?.0.take(FIRST_LINE_BYTES as u64).read_to_end(&mut bytes).ok()?;
    languages::by_first_line(&bytes)
}

/// `hotfiles`.
pub(in crate::tools) struct HotFiles;

impl Tool for HotFiles {
    fn spec(&self) -> Spec {
        let description = format!(
            "Lists the files that are worked on most: {{path, score, reason}}, by the newest {COMMITS_MAX} commits of git's \
             history; where there is none, by the size of sources."
        );
        Spec {
            name: "hotfiles".into(),
            aliases: &[],
            description,
            schema: json!({
                "type": "object",
                "properties": {"limit": limit_schema()},
                "additionalProperties": false,
            }),
        }
    }

    fn offer(&self) -> Offer {
        Offer::Extra
    }

    fn plan(&self, _: &Value, _: Place<'_>) -> Result<Plan, ToolError> {
        Ok(Plan::of(Action::List { path: ".".into() }).saying("Looking which files are worked on most".into()))
    }

    fn run(&mut self, permit: &Permit, work: &mut Work<'_>) -> Outcome {
        let (root, is_stopped) = (work.place.tree, work.is_stopped);
        let bounds = Bounds {
            commits: COMMITS_MAX,
            with_lines: COMMITS_WITH_LINES,
            time: work.limits.tool,
            is_stopped: &|| is_stopped(),
        };
        let most = limit(permit.arguments());
        let may = |path: &Path| root.holds(path) && permit.may_read(&root.path().join(path));
        let history = match Repository::find(root.path()) {
            Some(_) => heat(root.path(), bounds),
            None => Err(Trouble::NoGit),
        };
        match history {
            Ok(files) if !files.is_empty() => {
                let own = files.iter().filter(|it| !languages::is_foreign(&it.path) && may(&it.path));
                let lines: Vec<String> = own.take(most).map(heat_line).collect();
                Outcome::of(lines.join("\n")).with("results", lines.len()).with("by", "history")
            }
            Err(Trouble::Stopped) => ToolError::new("stopped", "the user stopped it", "").into(),
            Ok(_) | Err(Trouble::NoGit) => largest(work, most, "there is no history", &may),
            Err(Trouble::Unreadable) => largest(work, most, "the history can't be read here", &may),
            Err(Trouble::Slow) => largest(work, most, "reading the history took too long", &may),
        }
    }
}

fn heat_line(file: &Heat) -> String {
    let Heat { path, commits, lines, last_unix_s, score } = file;
    let day = Timestamp::from_second(*last_unix_s).unwrap_or_default().strftime("%Y-%m-%d");
    let commits = if *commits == 1 { "1 commit".to_owned() } else { format!("{commits} commits") };
    let lines = match lines {
        0 => String::new(),
        lines => format!(", {lines} lines changed in the newest {COMMITS_WITH_LINES} commits"),
    };
    let score = (score * 100.0).round() / 100.0;
    json!({"path": path.to_string_lossy(), "score": score, "reason": format!("{commits}, the last on {day}{lines}")})
        .to_string()
}

/// Returns the largest sources, for a workspace without a usable history.
fn largest(work: &Work<'_>, most: usize, why: &str, may: &dyn Fn(&Path) -> bool) -> Outcome {
    let (mut sources, end) = sources(work);
    sources.sort_unstable_by(|left, right| right.bytes.cmp(&left.bytes).then_with(|| left.path.cmp(&right.path)));
    let line = |source: &Source| {
        let reason = format!("{} bytes of {}; {why}", source.bytes, source.language);
        json!({"path": source.path.to_string_lossy(), "score": source.bytes, "reason": reason}).to_string()
    };
    let mut lines: Vec<String> = sources.iter().filter(|it| may(&it.path)).take(most).map(line).collect();
    let count = lines.len();
    match note(end, &mut lines, work) {
        Ok(()) => Outcome::of(lines.join("\n")).with("results", count).with("by", "size"),
        Err(error) => error.into(),
    }
}
