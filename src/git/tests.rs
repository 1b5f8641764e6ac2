//! A repository against git's own program.

use std::process::Command;

use super::*;

fn who() -> Identity {
    Identity { name: "A Person".into(), email: "person@example.org".into() }
}

/// Runs git in a directory with a configuration of its own; returns its output.
fn git(at: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new("git");
    command.args(arguments).current_dir(at).env_remove("GIT_DIR").env("GIT_CONFIG_GLOBAL", "/dev/null");
    for name in ["GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"] {
        command.env(name, "tester@example.org");
    }
    let done = command.output().expect("git");
    assert!(done.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8_lossy(&done.stdout).trim().to_owned()
}

struct Scene {
    dir: tempfile::TempDir,
    repo: Repo,
}

impl Scene {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        git(dir.path(), &["init", "-q", "-b", "main"]);
        for (path, text) in [("a.txt", "one\ntwo\nthree\n"), ("src/b.txt", "b\n"), ("src/deep/c.txt", "c\n")] {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
            std::fs::write(path, text).expect("a file");
        }
        git(dir.path(), &["add", "-A"]);
        git(dir.path(), &["commit", "-q", "-m", "first"]);
        let repo = Repo::open(dir.path()).expect("a repository");
        Self { dir, repo }
    }

    fn commit(&self, parents: &[Oid], edits: &[(&str, Option<&str>)]) -> Oid {
        let base = self.repo.commit(parents[0]).expect("a commit").tree;
        let mut batch = self.repo.batch();
        let edits: Vec<TreeEdit> = edits
            .iter()
            .map(|(path, text)| {
                (path.into(), text.map(|it| (Mode::File, batch.blob_of(it.as_bytes()).expect("a blob"))))
            })
            .collect();
        let tree = batch.tree(base, &edits).expect("a tree");
        let new = NewCommit {
            tree,
            parents: parents.to_vec(),
            author: who(),
            committer: who(),
            time_s: 1_700_000_000,
            message: "a change\n".into(),
        };
        let id = batch.commit(&new).expect("a commit");
        batch.settle().expect("written");
        id
    }
}

#[test]
fn objects_that_are_written_are_gits_own() {
    let scene = Scene::new();
    let head = scene.repo.head().expect("a head");
    assert_eq!(head.branch.as_deref(), Some("refs/heads/main"));
    let first = head.commit.expect("a commit");
    let edits = [("src/deep/c.txt", None), ("src/new.txt", Some("new\n")), ("src/b.txt/inner", Some("x"))];
    let made = scene.commit(&[first], &edits);
    let at = scene.dir.path();
    assert_eq!(
        git(at, &["ls-tree", "-r", "--name-only", &made.to_string()]),
        "a.txt\nsrc/b.txt/inner\nsrc/new.txt",
        "a directory that became empty has gone, a file became a directory"
    );
    git(at, &["fsck", "--strict", "--no-dangling"]);
    let old = scene.repo.commit(first).expect("a commit").tree;
    let new = scene.repo.commit(made).expect("a commit").tree;
    let differ: Vec<String> =
        diff(&scene.repo, old, new).expect("a difference").iter().map(|it| it.path.display().to_string()).collect();
    assert_eq!(
        differ.join("\n"),
        git(at, &["diff", "--name-only", "--no-renames", &first.to_string(), &made.to_string()])
    );
    // The work tree and the index are as they were.
    assert_eq!(git(at, &["status", "--porcelain"]), "");
}

#[test]
fn a_reference_moves_only_from_where_it_is_expected() {
    let scene = Scene::new();
    let first = scene.repo.head().expect("a head").commit.expect("a commit");
    let (one, two) = (scene.commit(&[first], &[("x", Some("1"))]), scene.commit(&[first], &[("x", Some("2"))]));
    let name = "refs/heads/reedclaw/session/abc";
    scene.repo.swap(name, None, Some(one), &who()).expect("made");
    assert_eq!(scene.repo.tip(name), Ok(Some(one)));
    assert!(
        matches!(scene.repo.swap(name, None, Some(two), &who()), Err(GitError::Moved { is: Some(is), .. }) if is == one)
    );
    assert!(matches!(scene.repo.swap(name, Some(two), Some(first), &who()), Err(GitError::Moved { .. })));
    scene.repo.swap(name, Some(one), Some(two), &who()).expect("moved");
    // A reference that was deleted meanwhile isn't restored.
    git(scene.dir.path(), &["update-ref", "-d", name]);
    assert!(matches!(scene.repo.swap(name, Some(two), Some(one), &who()), Err(GitError::Moved { is: None, .. })));
    assert_eq!(scene.repo.tip(name), Ok(None));
    assert_eq!(scene.repo.refs("refs/heads/reedclaw/"), Ok(vec![]));
}

#[test]
fn a_reference_moves_although_others_lock_it_or_remove_its_folder() {
    let scene = Scene::new();
    let first = scene.repo.head().expect("a head").commit.expect("a commit");
    let one = scene.commit(&[first], &[("x", Some("1"))]);
    let name = "refs/heads/reedclaw/session/abc";
    let lock = scene.dir.path().join(".git").join(format!("{name}.lock"));
    scene.repo.swap(name, None, Some(first), &who()).expect("made");
    // The library itself waits for a tenth of a second; packing references on a busy machine takes longer.
    std::fs::write(&lock, "").expect("a lock");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let until = Instant::now() + Duration::from_millis(400);
            while Instant::now() < until {
                std::thread::park_timeout(Duration::from_millis(20));
            }
            std::fs::remove_file(&lock).expect("unlocked");
        });
        scene.repo.swap(name, Some(first), Some(one), &who()).expect("moved");
    });
    scene.repo.swap(name, Some(one), None, &who()).expect("deleted");
    // Git removes folders that become empty, also those in which a lock is just about to be made.
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let folders = [lock.parent().expect("a folder"), lock.parent().and_then(Path::parent).expect("a folder")];
            while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                for folder in folders {
                    let _ = std::fs::remove_dir(folder);
                }
                // Without a pause, a busy machine would leave the other side no time between two removals.
                std::thread::park_timeout(Duration::from_micros(200));
            }
        });
        let done = (0..100).try_for_each(|_| {
            scene.repo.swap(name, None, Some(one), &who())?;
            scene.repo.swap(name, Some(one), None, &who())
        });
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        done.expect("moved");
    });
}

#[test]
fn a_branch_that_stands_in_the_way_is_named() {
    let scene = Scene::new();
    let first = scene.repo.head().expect("a head").commit.expect("a commit");
    git(scene.dir.path(), &["branch", "reedclaw"]);
    for is_packed in [false, true] {
        if is_packed {
            git(scene.dir.path(), &["pack-refs", "--all", "--prune"]);
        }
        let refused = scene.repo.swap("refs/heads/reedclaw/session/abc", None, Some(first), &who());
        let words = refused.expect_err("refused").to_string();
        assert!(words.contains("the branch reedclaw stands in the way"), "{words}");
    }
    assert_eq!(git(scene.dir.path(), &["for-each-ref", "--format=%(refname)"]), "refs/heads/main\nrefs/heads/reedclaw");
}

#[test]
fn packed_references_and_objects_are_read() {
    let scene = Scene::new();
    let first = scene.repo.head().expect("a head").commit.expect("a commit");
    let one = scene.commit(&[first], &[("x", Some("1"))]);
    let name = "refs/heads/reedclaw/session/abc";
    scene.repo.swap(name, None, Some(one), &who()).expect("made");
    git(scene.dir.path(), &["gc", "-q", "--prune=now"]);
    assert_eq!(scene.repo.tip(name), Ok(Some(one)));
    let two = scene.commit(&[one], &[("x", Some("2"))]);
    scene.repo.swap(name, Some(one), Some(two), &who()).expect("moved");
    assert_eq!(scene.repo.refs("refs/heads/reedclaw/"), Ok(vec![(name.to_owned(), two)]));
    git(scene.dir.path(), &["fsck", "--strict"]);
}

#[test]
fn a_merge_is_gits_and_changes_nothing_until_it_is_for_good() {
    let scene = Scene::new();
    let env = [("PATH".into(), std::env::var_os("PATH").expect("a path"))].into();
    let program = Program::find(&env).expect("git");
    let scratch = tempfile::tempdir().expect("a directory");
    let first = scene.repo.head().expect("a head").commit.expect("a commit");
    let ours = scene.commit(&[first], &[("a.txt", Some("ONE\ntwo\nthree\n"))]);
    let theirs = scene.commit(&[first], &[("a.txt", Some("one\ntwo\nTHREE\n")), ("src/b.txt", None)]);
    make_bare(scratch.path(), &scene.repo).expect("a directory");
    let merged = program.merge(scratch.path(), None, (ours, theirs)).expect("merged");
    assert_eq!(merged.conflicts, []);
    assert!(!scene.repo.has(merged.tree), "a preview writes nothing into the repository");
    let mut batch = scene.repo.batch();
    batch.add_from(&Repo::open(scratch.path()).expect("a repository"), merged.tree).expect("added");
    batch.settle().expect("written");
    assert!(scene.repo.has(merged.tree));
    let shown = git(scene.dir.path(), &["show", &format!("{}:a.txt", merged.tree)]);
    assert_eq!(shown, "ONE\ntwo\nTHREE");
    let against = scene.commit(&[first], &[("a.txt", Some("other\ntwo\nthree\n"))]);
    let merged = program.merge(scratch.path(), None, (ours, against)).expect("merged");
    assert_eq!(merged.conflicts, [Conflict { path: "a.txt".into(), kind: "contents".into() }]);
    let gone = scene.commit(&[first], &[("a.txt", None), ("src/b.txt", Some("new\n"))]);
    let merged = program.merge(scratch.path(), None, (gone, against)).expect("merged");
    assert_eq!(merged.conflicts, [Conflict { path: "a.txt".into(), kind: "modify/delete".into() }]);
    // The marks have the name of a branch, and for a side that can't be a branch the name of the commit.
    let other = first.to_string();
    for (name, is_shown) in [
        ("main", true),
        ("my/branch", true),
        ("HEAD", false),
        ("HEAD~1", false),
        ("a b", false),
        ("--stdin", false),
        (&*other, false),
    ] {
        let sides = [("session", ours), (name, against)];
        let merged = program.merge_named(scratch.path(), None, sides).expect("merged");
        let fresh = Repo::open(scratch.path()).expect("a repository");
        let entry = fresh.entries(merged.tree).expect("entries").into_iter().find(|it| it.name == b"a.txt");
        let text = fresh.blob(entry.expect("the file").id, 1000).expect("read");
        let text = String::from_utf8(text).expect("text");
        assert!(text.starts_with("<<<<<<< session\n"), "{text}");
        assert_eq!(text.contains(&format!(">>>>>>> {name}\n")), is_shown, "{text}");
        assert_eq!(text.contains(&format!(">>>>>>> {against}\n")), !is_shown, "{text}");
    }
}

#[test]
fn a_merge_runs_nothing_that_the_repository_configures() {
    let scene = Scene::new();
    let at = scene.dir.path();
    let canary = at.join("canary");
    let touch = format!("touch {}; false", canary.display());
    git(at, &["config", "merge.evil.driver", &touch]);
    git(at, &["config", "filter.evil.clean", &touch]);
    git(at, &["config", "core.fsmonitor", &touch]);
    git(at, &["config", "core.hooksPath", at.to_str().expect("a path")]);
    let first = scene.repo.head().expect("a head").commit.expect("a commit");
    let attributes = (".gitattributes", Some("* merge=evil filter=evil\n"));
    let base = scene.commit(&[first], &[attributes]);
    let ours = scene.commit(&[base], &[("a.txt", Some("ONE\ntwo\nthree\n"))]);
    let theirs = scene.commit(&[base], &[("a.txt", Some("one\ntwo\nTHREE\n"))]);
    let env = [("PATH".into(), std::env::var_os("PATH").expect("a path"))].into();
    let program = Program::find(&env).expect("git");
    let scratch = tempfile::tempdir().expect("a directory");
    make_bare(scratch.path(), &scene.repo).expect("a directory");
    let _ = program.merge(scratch.path(), None, (ours, theirs));
    let _ = scene.repo.refs("refs/heads/");
    assert!(!canary.exists());
}

#[test]
fn kinds_of_repositories_that_cant_be_used_are_named() {
    let dir = tempfile::tempdir().expect("a directory");
    assert!(matches!(Repo::open(dir.path()), Err(GitError::None(_))));
    git(dir.path(), &["init", "-q", "other"]);
    let other = dir.path().join("other");
    git(&other, &["config", "core.repositoryFormatVersion", "1"]);
    git(&other, &["config", "extensions.refStorage", "unheard-of"]);
    let refused = Repo::open(&other).expect_err("refused");
    assert!(matches!(&refused, GitError::Unsupported(why) if why.contains("unheard-of")), "{refused}");
}

#[test]
fn objects_are_found_whatever_others_do_with_the_packs() {
    let scene = Scene::new();
    let at = scene.dir.path();
    let place = tempfile::tempdir().expect("a directory");
    let borrower = place.path().join("borrower");
    git(at, &["clone", "-q", "--shared", ".", borrower.to_str().expect("a path")]);
    let repos = [Repo::open(at).expect("a repository"), Repo::open(&borrower).expect("a repository")];
    let mut ids = Vec::new();
    // More packs than the library makes room for when it opens a repository.
    for number in 0..80 {
        std::fs::write(at.join("a.txt"), format!("{number}\n")).expect("a file");
        git(at, &["-c", "gc.auto=0", "commit", "-q", "-am", "one of many"]);
        git(at, &["repack", "-q", "-d"]);
        let id = oid_of(&git(at, &["rev-parse", "HEAD:a.txt"])).expect("an id");
        ids.push((id, format!("{number}\n")));
        for repo in &repos {
            assert_eq!(repo.blob(id, 100).expect("found"), ids[number].1.as_bytes());
        }
    }
    git(at, &["repack", "-q", "-a", "-d"]);
    for (id, text) in &ids {
        for repo in &repos {
            assert_eq!(repo.blob(*id, 100).expect("found"), text.as_bytes());
        }
    }
}

#[test]
fn what_is_put_into_a_pack_is_gits_own() {
    let scene = Scene::new();
    let objects = scene.dir.path().join(".git/objects");
    let contents =
        [vec![], b"short".to_vec(), vec![b'x'; 15], vec![b'y'; 16], (0..=255).cycle().take(70_000).collect()];
    let hash = gix::hash::Kind::Sha1;
    let of = |bytes: &Vec<u8>| gix::objs::compute_hash(hash, gix::objs::Kind::Blob, bytes).expect("a hash");
    let all: Vec<pack::Object<'_>> = contents.iter().map(|it| (of(it), gix::objs::Kind::Blob, &it[..])).collect();
    pack::write(&objects, hash, &all).expect("written");
    let name = |ending: &str| {
        let mut found = std::fs::read_dir(objects.join("pack")).expect("a folder").flatten().map(|it| it.path());
        found.find(|it| it.extension().is_some_and(|it| it == ending)).expect("a pack").display().to_string()
    };
    let listed = git(scene.dir.path(), &["verify-pack", "-v", &name("idx")]);
    for (id, _, bytes) in &all {
        assert!(listed.contains(&format!("{id} blob   {}", bytes.len())), "{id}: {listed}");
        assert_eq!(scene.repo.blob(*id, 100_000).expect("found"), *bytes);
    }
    // Repeating it changes nothing.
    pack::write(&objects, hash, &all).expect("written");
    git(scene.dir.path(), &["fsck", "--strict", "--no-dangling"]);
}
