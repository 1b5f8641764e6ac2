//! Answers from this machine, without a model: built-in recipes, the installed manual pages, the help of programs
//! without one, and lines of the person's own history. It returns the three lines that fit a question best; it runs
//! none and changes nothing except its own index. It must not know how lines are shown, nor where the history is.

mod helps;
mod pages;
mod rank;
mod recipes;
mod roff;
mod words;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread;

pub use helps::{Jail, Programs};
use pages::Pages;
use rank::Ranked;

/// Limit on the hits of a question.
pub const HITS_MAX: usize = 3;
/// Directories of manual pages on any machine.
const COMMON_MAN_PATH: [&str; 2] = ["/usr/local/share/man", "/usr/share/man"];

/// The sources of the answers.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The place of the index; without it no manual pages are known.
    pub directory: Option<PathBuf>,
    /// Directories of manual pages, each with `man1` and so on in it.
    pub man_path: Vec<PathBuf>,
    /// The programs that are asked for their help if they have no page; none without a jail for them.
    pub programs: Option<Programs>,
}

/// The facts about the person's machine and shell, for one question.
pub struct Known<'k> {
    /// `true` if a command can be run here.
    pub has_command: &'k dyn Fn(&str) -> bool,
    /// The person's own lines that succeeded, the newest first.
    pub lines: &'k [String],
    /// Minimum words with a meaning in a question; with fewer, only a recipe that contains the question as a phrase answers it.
    pub words_min: usize,
}

/// The source of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A recipe that is built in.
    Recipe,
    /// A manual page, as `man` is asked for it.
    Page(String),
    /// The text that a program prints for `--help`.
    Help(String),
    /// The person's own history.
    History,
}

/// A line that may answer a question.
#[derive(Clone, Debug, PartialEq)]
pub struct Hit {
    /// The line to use. Names in capitals are for the person to fill in.
    pub line: String,
    /// Its effect.
    pub about: String,
    /// Its source.
    pub source: Source,
    /// The command that isn't installed, if so.
    pub missing: Option<String>,
}

/// The result of a question.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// The best lines, the best one first; at most three.
    pub hits: Vec<Hit>,
    /// The manual pages are being read: the same question may find more in a while.
    pub is_reading: bool,
    /// The reason why there is no index of manual pages, reported once.
    pub problem: Option<String>,
}

/// Answers questions from this machine. Nothing is read, and no thread begun, before the first one.
#[derive(Debug, Default)]
pub struct Manual {
    options: Options,
    recipes: Option<rank::Recipes>,
    pages: Option<Pages>,
    reading: Option<Receiver<Result<bool, String>>>,
    /// The stamp of the pages when an index was last begun, so that one that fails isn't begun with each question.
    tried: Option<String>,
}

impl Manual {
    /// Makes a manual that answers from these sources; opens nothing.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self { options, ..Self::default() }
    }

    /// Finds the lines that fit a question best. Never waits for the manual pages: if they haven't been read yet, or
    /// have changed, they are read in the background.
    pub fn ask(&mut self, question: &str, known: &Known) -> Answer {
        let problem = self.refresh();
        let question = rank::Question::new(question);
        let recipes = self.recipes.get_or_insert_with(rank::Recipes::read);
        if question.words() < known.words_min {
            let hits = best(recipes.rank_verbatim(&question), known);
            return Answer { hits, is_reading: self.reading.is_some(), problem };
        }
        let mut ranked = recipes.rank(&question);
        ranked.extend(self.pages.as_ref().map(|pages| rank::pages(&question, pages)).unwrap_or_default());
        ranked.extend(recipes.rank_lines(&question, known.lines));
        Answer { hits: best(ranked, known), is_reading: self.reading.is_some(), problem }
    }

    /// Opens the index, and starts a rebuild if there is none or the pages have changed since.
    fn refresh(&mut self) -> Option<String> {
        let directory = self.options.directory.clone()?;
        let mut problem = None;
        if let Some(reading) = &self.reading {
            match reading.try_recv() {
                Err(TryRecvError::Empty) => {
                    // Pages can be searched before the programs have been asked for their help.
                    self.pages = self.pages.take().or_else(|| Pages::open(&directory));
                    return None;
                }
                Err(TryRecvError::Disconnected) => self.reading = None,
                Ok(ended) => problem = self.ended(ended),
            }
        }
        let stamp = pages::stamp(&self.options.man_path, self.options.programs.as_ref());
        if self.pages.as_ref().is_none_or(|pages| !pages.is_of(&stamp)) {
            self.pages = Pages::open(&directory).or(self.pages.take());
        }
        let is_fresh = self.pages.as_ref().is_some_and(|pages| pages.is_of(&stamp));
        if !is_fresh && self.tried.as_ref() != Some(&stamp) {
            self.begin(directory, stamp);
        }
        problem
    }

    fn ended(&mut self, ended: Result<bool, String>) -> Option<String> {
        self.reading = None;
        match ended {
            Ok(true) => {
                self.pages = self.options.directory.as_deref().and_then(Pages::open);
                None
            }
            // Another session reads the pages: the next question looks for its index.
            Ok(false) => {
                self.tried = None;
                None
            }
            Err(why) => Some(why),
        }
    }

    fn begin(&mut self, directory: PathBuf, stamp: String) {
        self.tried = Some(stamp);
        let (to, reading) = channel();
        let (man_path, programs) = (self.options.man_path.clone(), self.options.programs.clone());
        let begun = thread::Builder::new().name("manual".into()).spawn(move || {
            let _ = to.send(pages::make(&directory, &man_path, programs.as_ref()));
        });
        self.reading = begun.is_ok().then_some(reading);
    }
}

/// The directories of `man`: those of `MANPATH`, in which an empty one means the usual ones, beside the directories of
/// `PATH`.
#[must_use]
pub fn man_path(man_path: Option<&OsStr>, path: Option<&OsStr>) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    let mut add = |directory: PathBuf| {
        if directory.is_absolute() && !found.contains(&directory) && found.len() < 64 {
            found.push(directory);
        }
    };
    let usual = || {
        let beside = |directory: PathBuf| {
            let top = directory.parent().map(Path::to_owned).unwrap_or_default();
            [top.join("share/man"), top.join("man")]
        };
        let path = path.map(std::env::split_paths).into_iter().flatten();
        path.flat_map(beside).chain(COMMON_MAN_PATH.map(PathBuf::from)).collect::<Vec<_>>()
    };
    match man_path.filter(|it| !it.is_empty()) {
        None => usual().into_iter().for_each(add),
        Some(named) => {
            for directory in std::env::split_paths(named) {
                if directory.as_os_str().is_empty() {
                    usual().into_iter().for_each(&mut add);
                } else {
                    add(directory);
                }
            }
        }
    }
    found
}

/// The best lines, each once, those that can be run here before others that fit as well.
fn best(mut ranked: Vec<Ranked>, known: &Known) -> Vec<Hit> {
    for it in &mut ranked {
        if it.command.split_whitespace().next().is_some_and(|name| !(known.has_command)(name)) {
            it.score *= rank::MISSING;
            it.hit.missing = it.command.split_whitespace().next().map(str::to_owned);
        }
    }
    ranked.sort_by(|one, other| other.score.total_cmp(&one.score));
    let mut hits: Vec<Hit> = Vec::new();
    for it in ranked {
        if hits.len() < HITS_MAX && hits.iter().all(|hit| hit.line != it.hit.line) {
            hits.push(it.hit);
        }
    }
    hits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_search_path_of_man_is_followed() {
        let beside = man_path(None, Some(OsStr::new("/opt/x/bin:bin:/usr/bin")));
        let paths: Vec<&str> = beside.iter().filter_map(|it| it.to_str()).collect();
        assert_eq!(paths, ["/opt/x/share/man", "/opt/x/man", "/usr/share/man", "/usr/man", "/usr/local/share/man"]);
        let named = man_path(Some(OsStr::new("/m:")), None);
        assert_eq!(named, ["/m", "/usr/local/share/man", "/usr/share/man"].map(PathBuf::from));
        assert_eq!(man_path(Some(OsStr::new("/m")), None), [PathBuf::from("/m")]);
    }
}
