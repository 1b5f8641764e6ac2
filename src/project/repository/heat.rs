//! The files of a repository that are changed most, from its history: gix reads commits and trees, so that no program in a
//! repository's config can run. A history that gix can't read counts as empty.

use parking_lot::{Condvar, Mutex};
use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap, HashSet, VecDeque};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering as Order};
use std::time::{Duration, Instant};

use gix::ObjectId;
use gix::bstr::ByteSlice;
use gix::objs::tree::EntryMode;
use gix::objs::{CommitRefIter, Find, Kind, TreeRefIter};
use gix::odb::pack::cache::DecodeEntry;
use imara_diff::{Algorithm, Diff, InternedInput};

use crate::project::Repository;
use crate::project::repository::program::Trouble;

/// Limit on the newest commits that are examined, not counting merges.
pub const COMMITS_MAX: usize = 5_000;
/// Limit on the newest commits whose changed lines are counted: lines cost several times as much as names.
pub const COMMITS_WITH_LINES: usize = 50;
/// Limit on the files of a commit; one that changes more is a mass change and doesn't count as work on them.
const FILES_MAX: usize = 300;
/// Days after which a change counts half.
const HALF_LIFE_DAYS: f64 = 90.0;
const DAY_S: f64 = 86_400.0;
/// Limit on the threads.
const THREADS_MAX: usize = 4;
/// Number of commits that a thread takes at a time; consecutive commits share most of their trees.
const SHARE: usize = 128;
/// Limit on the depth of trees.
const DEPTH_MAX: usize = 256;
/// Limit on the bytes of a file whose lines are counted.
const COUNTED_BYTES_MAX: usize = 1024 * 1024;
/// Limit on the bytes of trees that a thread remembers.
const TREES_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Limits on the objects of a pack that a thread remembers because others are stored as differences from them, and on the bytes
/// of each.
const BASES_MAX: usize = 4096;
const BASE_BYTES_MAX: usize = 64 * 1024;

/// The amount of work on a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Heat {
    /// Its path, relative to the directory in question; the file may no longer exist.
    pub path: PathBuf,
    /// Number of commits that changed it, among the newest [`COMMITS_MAX`].
    pub commits: usize,
    /// Number of lines added or removed in the newest [`COMMITS_WITH_LINES`].
    pub lines: usize,
    /// Time of the last change, in seconds of Unix time.
    pub last_unix_s: i64,
    /// One for each commit, more for a commit that changed many lines; it halves for each 90 days before the newest commit.
    pub score: f64,
}

/// The limits of reading the history.
#[derive(Clone, Copy)]
pub struct Bounds<'a> {
    /// Limit on the newest commits that are examined, not counting merges.
    pub commits: usize,
    /// Limit on the newest commits whose changed lines are counted.
    pub with_lines: usize,
    /// Time limit.
    pub time: Duration,
    /// Returns `true` if the reading should stop.
    pub is_stopped: &'a dyn Fn() -> bool,
}

/// The changes of a commit.
struct Changed {
    unix_s: i64,
    /// The files, each with the number of lines added or removed.
    files: Vec<(Vec<u8>, usize)>,
}

/// Returns the files below a directory, the ones that are changed most first.
///
/// # Errors
/// There is no repository or no commit, or none that can be read; it took too long or was stopped.
pub fn heat(root: &Path, bounds: Bounds<'_>) -> Result<Vec<Heat>, Trouble> {
    if (bounds.is_stopped)() {
        return Err(Trouble::Stopped);
    }
    let repository = Repository::find(root).ok_or(Trouble::NoGit)?;
    let below = root.strip_prefix(&repository.root).map_err(|_| Trouble::NoGit)?;
    let options = gix::open::Options::isolated();
    let opened = gix::ThreadSafeRepository::open_opts(&repository.root, options).map_err(|_| Trouble::Unreadable)?;
    let own = opened.to_thread_local();
    // `None` if nothing has been committed yet.
    let head = own.head().map_err(|_| Trouble::Unreadable)?.id().ok_or(Trouble::NoGit)?.detach();
    let (work, deadline) = (Work::default(), Instant::now() + bounds.time);
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX);
    let below: Vec<&[u8]> = below.components().map(|part| part.as_os_str().as_encoded_bytes()).collect();
    let (changed, trouble) = std::thread::scope(|scope| {
        let (work, below, opened) = (&work, &below, &opened);
        let others: Vec<_> = (1..threads)
            .map(|_| scope.spawn(move || Reader::new(opened.to_thread_local().objects).look(work, below, &|| None)))
            .collect();
        let check = || {
            if (bounds.is_stopped)() {
                Some(Trouble::Stopped)
            } else if Instant::now() > deadline {
                Some(Trouble::Slow)
            } else {
                None
            }
        };
        let mut reader = Reader::new(own.objects.clone());
        // Otherwise other threads could finish a short history before this thread checks the time.
        let listed = check().map_or(Ok(()), Err);
        let listed = listed.and_then(|()| reader.list(head, own.is_shallow().unwrap_or(false), bounds, work, &check));
        work.close(listed.is_err());
        let own = listed.and_then(|()| reader.look(work, below, &check));
        let mut changed = Vec::new();
        let mut trouble = None;
        let others = others.into_iter().map(|it| it.join().unwrap_or(Err(Trouble::Unreadable)));
        for found in std::iter::once(own).chain(others.collect::<Vec<_>>()) {
            match found {
                Ok(mut found) => changed.append(&mut found),
                // If several threads fail, the first one, ours, has the cause.
                Err(found) => trouble = trouble.or(Some(found)),
            }
        }
        (changed, trouble)
    });
    match trouble {
        Some(trouble) => Err(trouble),
        None => Ok(weighed(&changed)),
    }
}

fn weighed(commits: &[Changed]) -> Vec<Heat> {
    use std::os::unix::ffi::OsStrExt;
    let newest = commits.iter().map(|commit| commit.unix_s).max().unwrap_or(0);
    let mut files: HashMap<&[u8], Heat> = HashMap::new();
    for Changed { unix_s, files: changed } in commits.iter().filter(|commit| commit.files.len() <= FILES_MAX) {
        let age_days = (newest - unix_s).max(0) as f64 / DAY_S;
        let weight = 0.5_f64.powf(age_days / HALF_LIFE_DAYS);
        for (path, lines) in changed {
            let heat = files.entry(path).or_insert_with(|| Heat {
                path: std::ffi::OsStr::from_bytes(path).into(),
                commits: 0,
                lines: 0,
                last_unix_s: *unix_s,
                score: 0.0,
            });
            heat.commits += 1;
            heat.lines += lines;
            heat.last_unix_s = heat.last_unix_s.max(*unix_s);
            heat.score += weight * (1.0 + (1.0 + *lines as f64).log10());
        }
    }
    let mut files: Vec<Heat> = files.into_values().collect();
    files.sort_unstable_by(|left, right| right.score.total_cmp(&left.score).then_with(|| left.path.cmp(&right.path)));
    files
}

/// A commit whose tree is to be compared with its parent's.
#[derive(Clone, Copy)]
struct Task {
    unix_s: i64,
    tree: ObjectId,
    parent: Option<ObjectId>,
    with_lines: bool,
}

/// A queue of commits for the threads.
#[derive(Default)]
struct Work {
    queue: Mutex<(VecDeque<Vec<Task>>, bool)>,
    more: Condvar,
    is_broken: AtomicBool,
}

impl Work {
    fn add(&self, tasks: Vec<Task>) {
        self.queue.lock().0.push_back(tasks);
        self.more.notify_one();
    }

    /// Closes the queue.
    fn close(&self, is_broken: bool) {
        self.is_broken.fetch_or(is_broken, Order::Relaxed);
        self.queue.lock().1 = true;
        self.more.notify_all();
    }

    fn take(&self) -> Option<Vec<Task>> {
        let mut queue = self.queue.lock();
        loop {
            if self.is_broken.load(Order::Relaxed) {
                return None;
            }
            if let Some(tasks) = queue.0.pop_front() {
                return Some(tasks);
            }
            if queue.1 {
                return None;
            }
            self.more.wait(&mut queue);
        }
    }
}

/// A commit in the list, ordered with the newest first.
#[derive(PartialEq, Eq)]
struct Waiting {
    unix_s: i64,
    /// Of two commits in the same second, the one that was found first precedes.
    order: std::cmp::Reverse<usize>,
    tree: ObjectId,
    parents: Vec<ObjectId>,
}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.unix_s, self.order).cmp(&(other.unix_s, other.order))
    }
}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Reads objects, for one thread.
struct Reader {
    objects: gix::OdbHandle,
    buffer: Vec<u8>,
    trees: HashMap<ObjectId, Rc<[u8]>>,
    trees_bytes: usize,
    /// The number of times that a pack was asked for the base of a delta object.
    asked: Arc<AtomicUsize>,
    /// The same number for the last share of commits, in the order newest first and oldest first: packs use either commit as the
    /// base of the other, and only one order finds the base in memory.
    costs: [Option<usize>; 2],
}

impl Reader {
    fn new(mut objects: gix::OdbHandle) -> Self {
        let asked = Arc::<AtomicUsize>::default();
        let counter = Arc::clone(&asked);
        objects.set_pack_cache(move || Box::new(Bases { table: Vec::new(), asked: Arc::clone(&counter) }));
        let (buffer, trees) = (Vec::new(), HashMap::new());
        Self { objects, buffer, trees, trees_bytes: 0, asked, costs: [None; 2] }
    }

    /// Lists the newest commits, and passes them on as they are found.
    fn list(
        &mut self,
        head: ObjectId,
        is_shallow: bool,
        bounds: Bounds<'_>,
        work: &Work,
        trouble: &dyn Fn() -> Option<Trouble>,
    ) -> Result<(), Trouble> {
        let mut seen = HashSet::from([head]);
        let mut waiting = BinaryHeap::from([self.commit(&head, 0)?.ok_or(Trouble::Unreadable)?]);
        let (mut count, mut found) = (0, 1);
        let mut tasks = Vec::with_capacity(SHARE);
        while let Some(Waiting { unix_s, tree, parents, .. }) = waiting.pop() {
            let mut parent_tree = None;
            for parent in &parents {
                let is_new = seen.insert(*parent);
                // A commit is compared even with a parent that was seen before, if it is the only one.
                if !is_new && parents.len() > 1 {
                    continue;
                }
                match self.commit(parent, found)? {
                    Some(commit) => {
                        parent_tree = Some(commit.tree);
                        if is_new {
                            found += 1;
                            waiting.push(commit);
                        }
                    }
                    // A shallow clone ends here.
                    None if is_shallow => {}
                    None => return Err(Trouble::Unreadable),
                }
            }
            if parents.len() > 1 {
                continue;
            }
            tasks.push(Task { unix_s, tree, parent: parent_tree, with_lines: count < bounds.with_lines });
            count += 1;
            // Commits with lines cost most, so each thread gets some of them.
            let share = if count <= bounds.with_lines { bounds.with_lines.div_ceil(THREADS_MAX) } else { SHARE };
            if tasks.len() >= share || count == bounds.commits {
                work.add(std::mem::replace(&mut tasks, Vec::with_capacity(SHARE)));
                if let Some(trouble) = trouble() {
                    return Err(trouble);
                }
            }
            if count == bounds.commits {
                break;
            }
        }
        work.add(tasks);
        Ok(())
    }

    /// A commit; `None` if it is missing.
    fn commit(&mut self, id: &ObjectId, order: usize) -> Result<Option<Waiting>, Trouble> {
        let found = self.objects.try_find(id, &mut self.buffer).map_err(|_| Trouble::Unreadable)?;
        let Some(data) = found.filter(|data| data.kind == Kind::Commit) else { return Ok(None) };
        let mut commit = CommitRefIter::from_bytes(data.data, id.kind());
        let unix_s = commit.committer().map_or(0, |committer| committer.seconds());
        let tree = commit.tree_id().map_err(|_| Trouble::Unreadable)?;
        let parents = commit.parent_ids().collect();
        Ok(Some(Waiting { unix_s, order: std::cmp::Reverse(order), tree, parents }))
    }

    /// Compares the trees of commits from the queue until the queue is empty.
    fn look(
        &mut self,
        work: &Work,
        below: &[&[u8]],
        trouble: &dyn Fn() -> Option<Trouble>,
    ) -> Result<Vec<Changed>, Trouble> {
        let mut changed = Vec::new();
        while let Some(mut tasks) = work.take() {
            let is_reversed = match self.costs {
                [Some(newest_first), Some(oldest_first)] => oldest_first < newest_first,
                [newest_first, _] => newest_first.is_some(),
            };
            if is_reversed {
                tasks.reverse();
            }
            let (is_whole, before) = (tasks.len() == SHARE, self.asked.load(Order::Relaxed));
            for task in tasks {
                let found = self.compare(task, below);
                match trouble().map_or(found, Err) {
                    Ok(found) => changed.push(found),
                    Err(trouble) => {
                        work.close(true);
                        return Err(trouble);
                    }
                }
            }
            if is_whole {
                self.costs[usize::from(is_reversed)] = Some(self.asked.load(Order::Relaxed) - before);
            }
        }
        Ok(changed)
    }

    fn compare(&mut self, task: Task, below: &[&[u8]]) -> Result<Changed, Trouble> {
        let new = self.descend(Some(task.tree), below)?;
        let old = self.descend(task.parent, below)?;
        let mut files = Vec::new();
        self.differ(old, new, &mut Vec::new(), 0, &mut files)?;
        let count = |(path, old, new): (Vec<u8>, Option<ObjectId>, Option<ObjectId>)| {
            let lines = if task.with_lines { self.lines(old, new)? } else { 0 };
            Ok((path, lines))
        };
        let files = if files.len() > FILES_MAX {
            files.into_iter().map(|(path, ..)| Ok((path, 0))).collect::<Result<_, _>>()
        } else {
            files.into_iter().map(count).collect()
        };
        Ok(Changed { unix_s: task.unix_s, files: files? })
    }

    /// Finds the tree of a subdirectory.
    fn descend(&mut self, tree: Option<ObjectId>, below: &[&[u8]]) -> Result<Option<ObjectId>, Trouble> {
        let mut at = tree;
        for name in below {
            let Some(tree) = at else { return Ok(None) };
            let bytes = self.tree(&tree)?;
            let mut entries = TreeRefIter::from_bytes(&bytes, tree.kind()).flatten();
            at = entries.find(|it| it.mode.is_tree() && it.filename == *name).map(|it| it.oid.to_owned());
        }
        Ok(at)
    }

    fn tree(&mut self, id: &ObjectId) -> Result<Rc<[u8]>, Trouble> {
        if let Some(known) = self.trees.get(id) {
            return Ok(Rc::clone(known));
        }
        let found = self.objects.try_find(id, &mut self.buffer).ok().flatten();
        let data = found.filter(|data| data.kind == Kind::Tree).ok_or(Trouble::Unreadable)?;
        let bytes: Rc<[u8]> = data.data.into();
        if self.trees_bytes + bytes.len() > TREES_BYTES_MAX {
            self.trees.clear();
            self.trees_bytes = 0;
        }
        self.trees_bytes += bytes.len();
        self.trees.insert(*id, Rc::clone(&bytes));
        Ok(bytes)
    }

    /// Collects the files in which two trees differ, up to a few more than [`FILES_MAX`].
    fn differ(
        &mut self,
        old: Option<ObjectId>,
        new: Option<ObjectId>,
        path: &mut Vec<u8>,
        depth: usize,
        files: &mut Vec<(Vec<u8>, Option<ObjectId>, Option<ObjectId>)>,
    ) -> Result<(), Trouble> {
        if old == new || depth > DEPTH_MAX {
            return Ok(());
        }
        let none: Rc<[u8]> = Rc::new([]);
        let old_bytes = old.map_or(Ok(Rc::clone(&none)), |id| self.tree(&id))?;
        let new_bytes = new.map_or(Ok(none), |id| self.tree(&id))?;
        let kind = old.or(new).map_or(gix::hash::Kind::Sha1, |id| id.kind());
        let (mut olds, mut news) = (
            TreeRefIter::from_bytes(&old_bytes, kind).peekable(),
            TreeRefIter::from_bytes(&new_bytes, kind).peekable(),
        );
        while files.len() <= FILES_MAX {
            let order = match (olds.peek(), news.peek()) {
                (None, None) => break,
                (Some(Err(_)), _) | (_, Some(Err(_))) => return Err(Trouble::Unreadable),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(Ok(old)), Some(Ok(new))) => {
                    gix::objs::tree::name_order(old.filename, old.mode.is_tree(), new.filename, new.mode.is_tree())
                }
            };
            let old = if order.is_le() { olds.next().and_then(Result::ok) } else { None };
            let new = if order.is_ge() { news.next().and_then(Result::ok) } else { None };
            let Some(name) = new.or(old).map(|it| it.filename) else { break };
            if let (Some(old), Some(new)) = (old, new)
                && (old.oid, old.mode) == (new.oid, new.mode)
            {
                continue;
            }
            let of = |it: Option<gix::objs::tree::EntryRef<'_>>, is: fn(EntryMode) -> bool| {
                it.filter(|it| is(it.mode)).map(|it| it.oid.to_owned())
            };
            let length = path.len();
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(name.as_bytes());
            let (old_tree, new_tree) = (of(old, |mode| mode.is_tree()), of(new, |mode| mode.is_tree()));
            self.differ(old_tree, new_tree, path, depth + 1, files)?;
            // Submodules are neither files nor directories.
            let (old_file, new_file) =
                (of(old, |mode| mode.is_blob_or_symlink()), of(new, |mode| mode.is_blob_or_symlink()));
            if old_file.is_some() || new_file.is_some() {
                files.push((path.clone(), old_file, new_file));
            }
            path.truncate(length);
        }
        Ok(())
    }

    /// Number of lines added and removed; zero for files that aren't text.
    fn lines(&mut self, old: Option<ObjectId>, new: Option<ObjectId>) -> Result<usize, Trouble> {
        let mut text = |id: Option<ObjectId>| {
            let Some(id) = id else { return Ok(Some(Vec::new())) };
            let found = self.objects.try_find(&id, &mut self.buffer).ok().flatten().ok_or(Trouble::Unreadable)?;
            let is_text = found.data.len() <= COUNTED_BYTES_MAX && memchr::memchr(0, found.data).is_none();
            Ok(is_text.then(|| found.data.to_vec()))
        };
        let (Some(old), Some(new)) = (text(old)?, text(new)?) else { return Ok(0) };
        let mut input = InternedInput::default();
        input.update_before(old.split_inclusive(|byte| *byte == b'\n'));
        input.update_after(new.split_inclusive(|byte| *byte == b'\n'));
        let diff = Diff::compute(Algorithm::Histogram, &input);
        Ok((diff.count_additions() + diff.count_removals()) as usize)
    }
}

/// Objects of packs from which others are stored as differences: a table in which newer objects replace older ones.
struct Bases {
    table: Vec<Option<Base>>,
    asked: Arc<AtomicUsize>,
}

struct Base {
    pack: u32,
    offset: u64,
    bytes: Box<[u8]>,
    kind: Kind,
    compressed: usize,
}

impl Bases {
    fn slot(&mut self, pack: u32, offset: u64) -> &mut Option<Base> {
        if self.table.is_empty() {
            self.table.resize_with(BASES_MAX, || None);
        }
        let mixed = (offset ^ u64::from(pack) << 48).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        &mut self.table[(mixed >> 52) as usize % BASES_MAX]
    }
}

impl DecodeEntry for Bases {
    fn put(&mut self, pack: u32, offset: u64, data: &[u8], kind: Kind, compressed: usize) {
        if data.len() <= BASE_BYTES_MAX {
            *self.slot(pack, offset) = Some(Base { pack, offset, bytes: data.into(), kind, compressed });
        }
    }

    fn get(&mut self, pack: u32, offset: u64, out: &mut Vec<u8>) -> Option<(Kind, usize)> {
        self.asked.fetch_add(1, Order::Relaxed);
        let found = self.slot(pack, offset).as_ref().filter(|it| (it.pack, it.offset) == (pack, offset))?;
        out.clear();
        out.extend_from_slice(&found.bytes);
        Some((found.kind, found.compressed))
    }
}

#[cfg(test)]
mod tests;
