//! The index of manual pages and help texts: pages are found below the directories that `man` reads. It is built in the
//! background when it is first needed, and stored in a SQLite file of limited size in the state directory. The file is
//! made beside its place and renamed, so that a question sees either a whole index or the previous one.

use std::collections::{HashMap, HashSet};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use flate2::read::GzDecoder;
use rusqlite::{Connection, OpenFlags, OptionalExtension, params};

use super::helps::{self, Programs};
use super::roff::{self, Page};
use super::words::{synonyms, terms};
use crate::files::{Locked, lock_file};

/// Sections whose pages are read: programs, games and administration; then formats and overviews, by their summary alone.
const SECTIONS: [(&str, bool); 5] = [("1", true), ("8", true), ("6", true), ("5", false), ("7", false)];
/// Limit on the pages that are read.
const PAGES_MAX: usize = 30_000;
/// Limit on the bytes of one unpacked page that are read.
const PAGE_BYTES_MAX: u64 = 2 * 1024 * 1024;
/// The usual limits. With the pages between two looks and the end of the text index, the file stays below 30 MB.
const ROOM: Room = Room { options_until_bytes: 18 * 1024 * 1024, pages_until_bytes: 24 * 1024 * 1024 };
/// Pages between two looks at the size.
const PAGES_A_LOOK: usize = 100;
/// A term in more documents than this distinguishes too little to select them.
const COMMON_DOCUMENTS: i64 = 4_000;
/// Limit on the candidates that are ranked.
const CANDIDATES_MAX: usize = 60;
/// More documents than fit in an index of the usual size.
const DOCUMENTS_MAX: u32 = 4_000_000;
/// Changes when the form of the index does.
const FORM: &str = "2";
/// The section of a help text.
pub(super) const HELP: &str = "help";
const FILE_NAME: &str = "pages.db";

/// Sizes of the index: beyond the first no more options are added, beyond the second no more pages.
#[derive(Clone, Copy)]
struct Room {
    options_until_bytes: u64,
    pages_until_bytes: u64,
}

/// A page or an option that a question may mean.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Candidate {
    pub command: String,
    pub section: String,
    /// The option, as it is typed; empty for the page as a whole.
    pub option: String,
    pub about: String,
}

/// The documents that match a question.
pub(super) struct Found {
    pub candidates: Vec<Candidate>,
    /// The number of documents that contain each word of the question, or a synonym.
    pub documents: HashMap<String, i64>,
    /// All documents.
    pub total: i64,
}

/// Describes the sources of an index in one text: a difference means that the index must be rebuilt.
pub(super) fn stamp(man_path: &[PathBuf], programs: Option<&Programs>) -> String {
    let mut stamp = format!("{FORM}\n");
    let of_programs = programs.map(|it| it.directories.as_slice()).unwrap_or_default();
    for directory in sections(man_path).map(|(directory, ..)| directory).chain(of_programs.iter().cloned()) {
        if let Ok(data) = directory.metadata() {
            stamp.push_str(&format!("{} {}\n", directory.display(), data.mtime()));
        }
    }
    stamp
}

/// An index that is open for questions.
#[derive(Debug)]
pub(super) struct Pages {
    connection: Connection,
    stamp: String,
}

impl Pages {
    /// Opens the index of a directory, if there is one.
    pub(super) fn open(directory: &Path) -> Option<Self> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(directory.join(FILE_NAME), flags).ok()?;
        connection.busy_timeout(Duration::ZERO).ok()?;
        let stamp = connection.query_row("SELECT stamp FROM made", [], |row| row.get(0)).ok()?;
        Some(Self { connection, stamp })
    }

    /// Returns whether the index was made from the present pages.
    pub(super) fn is_of(&self, stamp: &str) -> bool {
        self.stamp == stamp
    }

    /// Finds documents for the words of a question.
    pub(super) fn find(&self, question: &[String]) -> rusqlite::Result<Found> {
        let total = self.connection.query_row("SELECT documents FROM made", [], |row| row.get(0))?;
        let mut count = self.connection.prepare_cached("SELECT doc FROM term WHERE term = ?1")?;
        let mut documents_of = |term: &str| -> rusqlite::Result<i64> {
            Ok(count.query_row([term], |row| row.get(0)).optional()?.unwrap_or(0))
        };
        let mut documents = HashMap::new();
        let mut lists: Vec<(i64, String)> = Vec::new();
        for term in question {
            let mut all = 0;
            for one in std::iter::once(term).chain(synonyms(term)) {
                let count = documents_of(one)?;
                all = all.max(count);
                if count > 0 {
                    lists.push((count, one.clone()));
                }
            }
            documents.insert(term.clone(), all);
        }
        // The rarest word always counts, however common it is.
        lists.sort();
        let mut scores = Scores::default();
        let mut rows = self.connection.prepare_cached("SELECT rowid FROM words WHERE words MATCH ?1 LIMIT ?2")?;
        for (at, (count, term)) in lists.iter().enumerate() {
            if at > 0 && *count > COMMON_DOCUMENTS {
                break;
            }
            let weight = weight(*count, total);
            let quoted = format!("\"{term}\"");
            let mut found = rows.query(params![quoted, 4 * COMMON_DOCUMENTS])?;
            while let Some(row) = found.next()? {
                scores.add(row.get(0)?, weight);
            }
        }
        let mut read =
            self.connection.prepare_cached("SELECT command, section, option, about FROM document WHERE id = ?1")?;
        let candidate = |row: &rusqlite::Row| {
            Ok(Candidate { command: row.get(0)?, section: row.get(1)?, option: row.get(2)?, about: row.get(3)? })
        };
        let best = scores.best(CANDIDATES_MAX);
        let candidates = best.iter().map(|id| read.query_row([id], candidate)).collect::<Result<_, _>>()?;
        Ok(Found { candidates, documents, total })
    }
}

/// The scores of documents, by their number: an index numbers its documents from one on, without gaps. A number above
/// [`DOCUMENTS_MAX`] isn't one of ours.
#[derive(Default)]
struct Scores(Vec<f32>);

impl Scores {
    fn add(&mut self, id: u32, weight: f32) {
        if id > DOCUMENTS_MAX {
            return;
        }
        let at = id as usize;
        if at >= self.0.len() {
            self.0.resize(at + 1, 0.0);
        }
        self.0[at] += weight;
    }

    /// The numbers of the best documents, the best one first; of equal ones, the first.
    fn best(self, count: usize) -> Vec<u32> {
        let mut best: Vec<(u32, f32)> = (0..).zip(self.0).filter(|(_, score)| *score > 0.0).collect();
        let order = |one: &(u32, f32), other: &(u32, f32)| other.1.total_cmp(&one.1).then(one.0.cmp(&other.0));
        if best.len() > count {
            best.select_nth_unstable_by(count, order);
            best.truncate(count);
        }
        best.sort_unstable_by(order);
        best.into_iter().map(|(id, _)| id).collect()
    }
}

/// The weight of a word that occurs in this number of documents.
pub(super) fn weight(documents: i64, total: i64) -> f32 {
    let (documents, total) = (documents.max(0) as f32, total.max(1) as f32);
    ((total + 1.0) / (documents + 0.5)).ln().max(0.1)
}

/// Rebuilds the index, unless another process is doing it. Returns whether it was rebuilt. The pages can be searched
/// while the programs are still asked for their help.
///
/// # Errors
/// The failure to write, in words.
pub(super) fn make(directory: &Path, man_path: &[PathBuf], programs: Option<&Programs>) -> Result<bool, String> {
    let problem = |what: &str, error: &dyn std::fmt::Display| format!("{what} in {}: {error}", directory.display());
    let private = DirBuilder::new().recursive(true).mode(0o700).create(directory);
    private.map_err(|error| problem("no directory can be made", &error))?;
    let lock = lock_file(&directory.join("lock")).map_err(|error| problem("no file can be made", &error))?;
    let Ok(_locked) = Locked::take(lock, false, Duration::ZERO) else { return Ok(false) };
    // The stamp is taken first: a page that is installed meanwhile causes another rebuild.
    let stamp = stamp(man_path, programs);
    let draft = directory.join("pages.new");
    let made = || -> Result<(), String> {
        let unwritten = |error: &dyn std::fmt::Display| problem("the index can't be written", error);
        let _ = fs::remove_file(&draft);
        let names = write(&draft, man_path, ROOM).map_err(|error| unwritten(&error))?;
        if let Some(programs) = programs {
            // Without a stamp this index is used until the programs have answered, and never counts as complete.
            let early = directory.join("pages.early");
            let shown = fs::copy(&draft, &early).and_then(|_| fs::rename(&early, directory.join(FILE_NAME)));
            shown.map_err(|error| unwritten(&error))?;
            add_helps(&draft, &helps::ask(programs, &names), ROOM).map_err(|error| unwritten(&error))?;
        }
        set_stamp(&draft, &stamp).map_err(|error| unwritten(&error))?;
        fs::rename(&draft, directory.join(FILE_NAME)).map_err(|error| problem("the index can't be kept", &error))
    };
    let made = made();
    if made.is_err() {
        let _ = fs::remove_file(&draft);
    }
    made.map(|()| true)
}

/// Opens a draft. It isn't in use yet, so a crash costs nothing but the file.
fn open_draft(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    connection
        .execute_batch("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA locking_mode = EXCLUSIVE;")?;
    Ok(connection)
}

/// Writes an index of the pages; returns the names of the pages about programs.
fn write(path: &Path, man_path: &[PathBuf], room: Room) -> rusqlite::Result<HashSet<String>> {
    let file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(path);
    file.map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))?;
    let mut connection = open_draft(path)?;
    connection.execute_batch(
        "CREATE TABLE made (stamp TEXT, documents INTEGER);
         INSERT INTO made VALUES ('', 0);
         CREATE TABLE document (id INTEGER PRIMARY KEY, command TEXT, section TEXT, option TEXT, about TEXT);
         CREATE VIRTUAL TABLE words USING fts5(stems, content = '', detail = none, columnsize = 0);
         CREATE VIRTUAL TABLE term USING fts5vocab(words, 'row');",
    )?;
    let mut names = HashSet::new();
    add(&mut connection, room, |put| {
        for (file, name, section, has_options) in files(man_path) {
            let page = text_of(&file).and_then(|source| roff::read(&name, &source));
            if page.is_some_and(|page| !put(&page, section, has_options)) {
                break;
            }
            if has_options {
                names.insert(name);
            }
        }
    })?;
    Ok(names)
}

/// Adds help texts to an index.
fn add_helps(path: &Path, helps: &[Page], room: Room) -> rusqlite::Result<()> {
    add(&mut open_draft(path)?, room, |put| {
        let _ = helps.iter().all(|page| put(page, HELP, true));
    })
}

fn set_stamp(path: &Path, stamp: &str) -> rusqlite::Result<()> {
    open_draft(path)?.execute("UPDATE made SET stamp = ?1", [stamp]).map(drop)
}

/// Adds pages to an index in one transaction. `each` passes on a page with its section, and whether its options count;
/// the result tells whether there is room for more.
fn add(
    connection: &mut Connection,
    room: Room,
    each: impl FnOnce(&mut dyn FnMut(&Page, &str, bool) -> bool),
) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    let mut documents: i64 = transaction.query_row("SELECT documents FROM made", [], |row| row.get(0))?;
    let mut problem = Ok(());
    {
        let mut add = transaction.prepare("INSERT INTO document VALUES (?1, ?2, ?3, ?4, ?5)")?;
        let mut index = transaction.prepare("INSERT INTO words (rowid, stems) VALUES (?1, ?2)")?;
        let mut put = |command: &str, section: &str, option: &str, about: &str| -> rusqlite::Result<()> {
            documents += 1;
            add.execute(params![documents, command, section, option, about])?;
            index.execute(params![documents, terms(&format!("{command} {option} {about}")).join(" ")])?;
            Ok(())
        };
        let (mut size, mut pages) = (0, 0_usize);
        let mut page = |page: &Page, section: &str, has_options: bool| -> rusqlite::Result<bool> {
            if pages.is_multiple_of(PAGES_A_LOOK) {
                size = size_of(&transaction)?;
            }
            pages += 1;
            if size >= room.pages_until_bytes {
                return Ok(false);
            }
            put(&page.command, section, "", &page.summary)?;
            if has_options && size < room.options_until_bytes {
                for (option, about) in &page.options {
                    put(&page.command, section, option, about)?;
                }
            }
            Ok(true)
        };
        each(&mut |one, section, has_options| {
            let added = page(one, section, has_options);
            let goes_on = matches!(added, Ok(true));
            if let Err(error) = added {
                problem = Err(error);
            }
            goes_on
        });
    }
    problem?;
    transaction.execute("UPDATE made SET documents = ?1", [documents])?;
    transaction.commit()
}

fn size_of(connection: &Connection) -> rusqlite::Result<u64> {
    let pragma = |name: &str| connection.query_row(&format!("PRAGMA {name}"), [], |row| row.get::<_, i64>(0));
    Ok((pragma("page_count")? * pragma("page_size")?).unsigned_abs())
}

/// The directories of pages, with their section and whether options are read.
fn sections(man_path: &[PathBuf]) -> impl Iterator<Item = (PathBuf, &'static str, bool)> {
    SECTIONS.iter().flat_map(move |(section, has_options)| {
        man_path.iter().map(move |directory| (directory.join(format!("man{section}")), *section, *has_options))
    })
}

/// The files of pages. Short names come first, `git` and `git-log` before a name of five parts, because there may not
/// be room for all. As for `man`, the first directory that has a page counts.
fn files(man_path: &[PathBuf]) -> Vec<(PathBuf, String, &'static str, bool)> {
    let mut files: Vec<(PathBuf, String, &'static str, bool)> = Vec::new();
    let mut seen = HashSet::new();
    for (directory, section, has_options) in sections(man_path) {
        let Ok(entries) = fs::read_dir(&directory) else { continue };
        for entry in entries.flatten() {
            let file_name = entry.file_name();
            let Some(name) = file_name.to_str() else { continue };
            let name = name.strip_suffix(".gz").unwrap_or(name);
            let Some((name, ending)) = name.rsplit_once('.') else { continue };
            if ending.starts_with(section) && seen.insert((name.to_owned(), section)) {
                files.push((entry.path(), name.to_owned(), section, has_options));
            }
        }
    }
    let parts = |name: &str| name.matches(['-', '_', ':']).count().max(1);
    files.sort_by(|one, other| (parts(&one.1), &one.1).cmp(&(parts(&other.1), &other.1)));
    files.truncate(PAGES_MAX);
    files
}

fn text_of(path: &Path) -> Option<String> {
    // Reading a pipe in the place of a file would block.
    if !path.metadata().ok()?.is_file() {
        return None;
    }
    let file = File::open(path).ok()?;
    let mut bytes = Vec::new();
    if path.extension().is_some_and(|it| it == "gz") {
        GzDecoder::new(file).take(PAGE_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    } else {
        file.take(PAGE_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes pages of programs with options, and returns their directory.
    fn pages(count: usize, options: usize) -> tempfile::TempDir {
        let directory = tempfile::tempdir().expect("a directory");
        fs::create_dir(directory.path().join("man1")).expect("a section");
        for page in 0..count {
            let option =
                |at: usize| format!(".TP\n\\-\\-way{at}=N\nPolish the widgets of kind {at} in the manner {page}.\n");
            let options: String = (0..options).map(option).collect();
            let text = format!(".TH P 1\n.SH NAME\np{page} \\- polish widgets\n.SH OPTIONS\n{options}");
            fs::write(directory.path().join(format!("man1/p{page}.1")), text).expect("a page");
        }
        directory
    }

    #[test]
    fn an_index_stops_growing_at_its_limits_and_keeps_pages_before_options() {
        let man = pages(1_500, 10);
        let file = man.path().join("pages.db");
        // The looks at the size are a hundred pages apart, and the text index is merged at the end.
        for (options_until_bytes, pages_until_bytes, bytes_max, whole_pages) in
            [(400_000, 450_000, 600_000, 1_500..=1_500), (100_000, 100_000, 300_000, 100..=1_000)]
        {
            let _ = fs::remove_file(&file);
            write(&file, &[man.path().to_owned()], Room { options_until_bytes, pages_until_bytes }).expect("an index");
            let bytes = file.metadata().expect("a file").len();
            assert!(bytes < bytes_max, "{bytes} bytes");
            let count = |what: &str| -> i64 {
                let index = Connection::open(&file).expect("it opens");
                let sql = format!("SELECT count(*) FROM document WHERE option {what} ''");
                index.query_row(&sql, [], |row| row.get(0)).expect("a number")
            };
            let (whole, options) = (count("="), count("!="));
            assert!(whole_pages.contains(&whole) && options < 7_500, "{whole} pages, {options} options");
        }
    }
}
