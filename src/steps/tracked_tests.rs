//! Workspaces that are repositories, with an index in every possible state: after any command the contents are restored byte for
//! byte, and git's own files stay as they were.

use std::fs;
use std::process::{Command, Output};
use std::time::{Duration, SystemTime};

use proptest::prelude::*;

use super::store::table::Content;
use super::tests::{LIMITS, Scene, command};
use super::*;

/// Believes git's index at once.
const TRUSTING: Limits = Limits { compare_time: Duration::ZERO, ..LIMITS };

impl Scene {
    fn run(&self, words: &[&str]) -> Output {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=x", "-c", "user.email=x@y", "-c", "protocol.file.allow=always"]).args(words);
        git.current_dir(self.at("")).env_clear().env("PATH", "/usr/bin:/bin").env("HOME", self.top.path());
        git.output().expect("git")
    }

    fn git(&self, words: &str) {
        let output = self.run(&words.split(' ').collect::<Vec<_>>());
        assert!(output.status.success(), "{words}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Everything of the workspace but git's own.
    fn own(&self) -> std::collections::BTreeMap<PathBuf, (u32, Vec<u8>)> {
        let is_gits = |path: &Path| path.components().any(|part| part.as_os_str() == ".git");
        self.held().into_iter().filter(|(path, _)| !is_gits(path)).collect()
    }

    /// Makes the index look as old as that of a repository that wasn't just made.
    fn settle(&self) {
        let later = SystemTime::now() + Duration::from_secs(10);
        let index = fs::File::options().write(true).open(self.at(".git/index")).expect("an index");
        index.set_modified(later).expect("a time");
    }

    /// A repository of this number of files, in a pack.
    fn tracked(count: usize) -> Self {
        let scene = Self::new();
        (0..count).for_each(|number| scene.write(&format!("d{}/f{number}", number % 7), &format!("old {number}\n")));
        scene.git("init -q -b main");
        scene.git("add .");
        scene.git("commit -qm one");
        scene.git("repack -adq");
        scene.settle();
        scene
    }
}

fn contents(steps: &Steps) -> Vec<Content> {
    let (table, _) = steps.store.table().expect("a table");
    table.directories.values().flat_map(|it| it.iter()).map(|it| it.content).filter(|it| *it != Content::None).collect()
}

#[test]
fn files_in_git_are_stored_only_when_a_step_needs_them() {
    for (limits, is_compared) in [(LIMITS, true), (TRUSTING, false)] {
        let scene = Scene::tracked(100);
        scene.write("untracked", "u");
        let before = scene.own();
        let gits = super::tests::held(&scene.at(".git"));
        let mut steps = scene.steps_with(limits);
        let open = steps.before("work").expect("a look");
        let found = contents(&steps);
        let packed = |it: &&Content| matches!(it, Content::Packed { is_read, .. } if *is_read == is_compared);
        assert_eq!((found.len(), found.iter().filter(packed).count()), (101, 100), "{found:?}");
        assert_eq!(steps.store.packs().sizes().len(), 1, "only what git hasn't");
        assert_eq!(super::tests::held(&scene.at(".git")), gits, "git's own is read only");
        (0..100).for_each(|number| scene.write(&format!("d{}/f{number}", number % 7), "new"));
        // Git's contents are removed, too, and are still restored.
        fs::remove_dir_all(scene.at(".git")).expect("it goes");
        let made = steps.after(open).expect("a step");
        assert_eq!((made.files, made.lost), (100, 0));
        assert_eq!(steps.undo(1, false).expect("taken back").left, []);
        assert_eq!(scene.own(), before);
        let _ = steps.redo(1, false).expect("made again");
        assert_eq!(scene.read("d0/f0"), "new");
    }
}

/// A `git status` of the person, or of their prompt, counted as their change of the index.
#[test]
fn an_index_that_git_has_only_refreshed_is_taken_back() {
    let scene = Scene::tracked(8);
    let index = scene.at(".git/index");
    let read = || fs::read(&index).expect("an index");
    let mut steps = scene.steps();
    let before = read();
    scene.git("rm -q --cached d0/f0");
    let content = NewContent::Bytes { mode: 0o644, bytes: read() };
    fs::write(&index, &before).expect("the index");
    let expected = steps.root.stamp(Path::new(".git/index")).expect("a stamp");
    let _ =
        steps.adopt("git rm", vec![Incoming { path: ".git/index".into(), expected, content }], true).expect("adopted");
    let after = read();
    let touch = || {
        let file = fs::File::options().write(true).open(scene.at("d1/f1")).expect("a file");
        file.set_modified(SystemTime::now() - Duration::from_secs(100)).expect("a time");
        scene.git("status");
    };
    touch();
    assert_ne!(read(), after, "git has written it");
    let _ = steps.undo(1, false).expect("taken back");
    assert_eq!(read(), before);
    let _ = steps.redo(1, false).expect("made again");
    scene.git("rm -q --cached d2/f2");
    assert!(matches!(steps.undo(1, false), Err(StepsError::Conflicts(_))), "an entry is the person's");
}

#[test]
fn looking_ahead_knows_the_files_and_stores_little() {
    let scene = Scene::tracked(100);
    scene.write("untracked", "u");
    scene.write("large", &"x".repeat(900_000));
    let limits = Limits { bytes_max: 1_000_000, ..TRUSTING };
    let mut steps = scene.steps_with(limits);
    let _ = steps.before("one").expect("a look");
    assert!(contents(&steps).iter().any(|it| matches!(it, Content::Packed { is_read: false, .. })));
    let mut beside = steps.again().expect("the same");
    beside.ahead().expect("a look");
    let known = contents(&beside);
    assert!(!known.iter().any(|it| matches!(it, Content::Packed { is_read: false, .. })), "{known:?}");
    assert_eq!(known.iter().filter(|it| matches!(it, Content::Kept(_))).count(), 1, "{known:?}");
    // Without a repository it does nothing.
    let plain = Scene::of(&[("a", "a")]);
    plain.steps().ahead().expect("nothing");
    assert!(!plain.state().exists());
}

#[test]
fn packs_that_go_between_two_looks_are_noticed() {
    let scene = Scene::tracked(60);
    let before = scene.own();
    let mut steps = scene.steps_with(TRUSTING);
    let _ = command(&mut steps, || ());
    assert!(contents(&steps).iter().all(|it| matches!(it, Content::Packed { .. })));
    scene.git("rm -rq --cached .");
    scene.git("commit -qm none --allow-empty --amend");
    scene.git("reflog expire --expire=now --all");
    scene.git("gc -q --prune=now");
    let made =
        command(&mut steps, || (0..60).for_each(|number| scene.write(&format!("d{}/f{number}", number % 7), "n")));
    assert_eq!((made.files, made.lost), (60, 0));
    assert_eq!(steps.undo(1, false).expect("taken back").left, []);
    assert_eq!(scene.own(), before);
}

#[test]
fn files_in_a_damaged_pack_are_reported_as_lost() {
    let scene = Scene::tracked(60);
    let mut steps = scene.steps();
    let made = command(&mut steps, || {
        scene.write("d0/f0", "new");
        let pack = fs::read_dir(scene.at(".git/objects/pack")).expect("packs").flatten().map(|entry| entry.path());
        for path in pack.filter(|path| path.extension().is_some_and(|it| it == "pack")) {
            fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("a mode");
            // In place, so that the file that is held open is changed.
            fs::write(path, "PACK").expect("a file");
        }
    });
    assert_eq!((made.files, made.lost), (1, 1));
    let lost: Vec<_> = steps.list()[0].lost().map(|(path, why)| (path.to_owned(), why)).collect();
    assert_eq!(lost, [(PathBuf::from("d0/f0"), Why::Gone)]);
    assert_eq!(steps.undo(1, false).expect("the rest").left.len(), 1);
    assert_eq!(scene.read("d0/f0"), "new");
    // Unchanged files are read again, and stored from here on.
    let made = command(&mut steps, || scene.write("d1/f1", "new"));
    assert_eq!((made.files, made.lost), (1, 0));
    let _ = steps.undo(1, false).expect("taken back");
    assert_eq!(scene.read("d1/f1"), "old 1\n");
}

#[test]
fn packs_of_the_store_are_gits_own_and_make_room() {
    let scene = Scene::new();
    let limits = Limits { bytes_max: 100_000, ..LIMITS };
    let mut steps = scene.steps_with(limits);
    let name = |number: usize| format!("f{number}");
    let mut trees = vec![scene.own()];
    for round in 0..20 {
        let text = |number: usize| format!("{round} {number} {}\n", "word ".repeat(round * number % 50));
        let _ = command(&mut steps, || (0..70).for_each(|number| scene.write(&name(number), &text(number))));
        trees.push(scene.own());
    }
    let objects = steps.store.folder.join("git/objects/pack");
    let packs: Vec<_> = fs::read_dir(objects).expect("packs").flatten().map(|entry| entry.path()).collect();
    let indices: Vec<_> = packs.iter().filter(|path| path.extension().is_some_and(|it| it == "idx")).collect();
    assert!(!indices.is_empty() && indices.len() <= 20, "{packs:?}");
    for index in indices {
        let ended = scene.run(&["verify-pack", &index.display().to_string()]);
        assert!(ended.status.success(), "{ended:?}");
    }
    let count = steps.list().len();
    assert!(count > 1 && steps.cover().0 <= 100_000, "{count} {}", steps.cover().0);
    for tree in trees.iter().rev().skip(1).take(count) {
        assert_eq!(steps.undo(1, false).expect("taken back").left, []);
        assert_eq!(&scene.own(), tree);
    }
}

#[test]
fn attributes_that_stand_between_files_and_contents_are_seen() {
    let table: [(&str, Option<u64>); 9] = [
        ("", Some(0)),
        ("*.c text eol=lf\n*.png -text\n* -filter !working-tree-encoding", Some(0)),
        ("filter x", Some(0)),
        ("*.psd filter=lfs diff=lfs merge=lfs -text", Some(1024)),
        ("*.txt filter=rot13", None),
        ("*.txt filter", None),
        ("a\n*.txt\tworking-tree-encoding=UTF-16", None),
        ("[attr]secret filter=crypt", None),
        ("*.psd filter=lfs\n*.key filter=git-crypt", None),
    ];
    for (text, expected) in table {
        assert_eq!(super::look::git::shortest_plain(text.as_bytes()), expected, "{text:?}");
    }
}

#[test]
fn the_index_is_trusted_only_where_it_can_know() {
    // Attributes, the actions after the commit, whether the index is old enough, and whether it is then believed.
    let table = [
        ("", "status", true, true),
        ("", "status", false, false),
        ("* text eol=crlf\n", "status", true, false),
        ("*.txt filter=rot\n", "status", true, false),
        ("*.txt filter=lfs\n", "status", true, false),
        ("", "update-index --assume-unchanged a.txt b.txt", true, false),
        ("", "update-index --skip-worktree a.txt b.txt", true, false),
        ("", "rm -q --cached a.txt b.txt", true, false),
        ("", "update-index --index-version 4", true, true),
        ("", "update-index --split-index", true, false),
    ];
    for (attributes, state, is_old, is_believed) in table {
        let scene = Scene::new();
        scene.git("init -q");
        for word in ["clean", "smudge"] {
            assert!(scene.run(&["config", &format!("filter.rot.{word}"), "tr a-z n-za-m"]).status.success());
        }
        scene.write(".gitattributes", attributes);
        ["a.txt", "b.txt"].iter().for_each(|name| scene.write(name, &format!("text of {name}\r\n")));
        (0..40).for_each(|number| scene.write(&format!("u{number}"), &format!("{number}")));
        scene.git("add .gitattributes a.txt b.txt");
        scene.git("commit -qm one");
        scene.git("repack -adq");
        scene.git(state);
        if is_old {
            scene.settle();
        }
        let before = scene.own();
        let mut steps = scene.steps_with(TRUSTING);
        let open = steps.before("work").expect("a look");
        let name = |it: &&str| {
            steps.store.table().expect("a table").0.directories[Path::new("")].iter().any(|entry| {
                *entry.name == *it.as_bytes() && matches!(entry.content, Content::Packed { is_read: false, .. })
            })
        };
        let believed = ["a.txt", "b.txt"].into_iter().filter(name).count();
        assert_eq!(believed, if is_believed { 2 } else { 0 }, "{attributes} {state} {is_old}");
        ["a.txt", "b.txt"].iter().for_each(|name| scene.write(name, "new"));
        let _ = steps.after(open).expect("a step");
        assert_eq!(steps.undo(1, false).expect("taken back").left, []);
        assert_eq!(scene.own(), before, "{attributes} {state}");
    }
}

/// Indices that a command could write: made-up lengths and offsets, trees of directories that are nested without end, and paths
/// of version 4 that grow with each entry. They ended the session, or took all memory.
#[test]
fn a_crafted_index_is_read_without_harm() {
    let scene = Scene::tracked(40);
    let path = scene.at(".git/index");
    let read = || fs::read(&path).expect("an index");
    let mut crafted = Vec::new();
    for version in [2, 4] {
        scene.git(&format!("update-index --index-version {version}"));
        let whole = read();
        let (entries, _) = whole.split_at(whole.len() - 20);
        // A table of offsets that lead out of the file, and the end of the entries, which makes it count.
        let offsets = [&b"IEOT\0\0\0\x0c\0\0\0\x01"[..], &[0xff; 8]].concat();
        let nested = [&b"\0-1 1\n".repeat(200_000)[..], b"\0-1 0\n"].concat();
        let tree = [&b"TREE"[..], &u32::try_from(nested.len()).expect("short").to_be_bytes(), &nested].concat();
        for extension in [offsets, tree] {
            let from = u32::try_from(entries.len()).expect("short").to_be_bytes();
            let mut hasher = gix::hash::hasher(gix::hash::Kind::Sha1);
            hasher.update(&extension[..8]);
            let sum = hasher.try_finalize().expect("a hash");
            crafted.push([entries, &extension, b"EOIE\0\0\0\x18", &from, sum.as_bytes()].concat());
        }
        let mut random = 7_u64;
        for _ in 0..300 {
            let mut bytes = entries.to_vec();
            for _ in 0..3 {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let at = usize::try_from(random >> 40).expect("short") % bytes.len();
                bytes[at] = [0, 1, 0x3f, 0x7f, 0x80, 0xff][at % 6];
            }
            crafted.push(bytes);
        }
    }
    for length in [4_000, 1 << 20] {
        let mut grown = b"DIRC\0\0\0\x04\0\x01\0\0".to_vec();
        for number in 0..0x1_0000_u32 {
            grown.extend([0; 24]);
            grown.extend(0o100_644_u32.to_be_bytes());
            grown.extend([0; 34]);
            // Each path is the whole one before, and more.
            grown.extend(if number == 0 { [&[0], &*b"a".repeat(length), &[0]].concat() } else { b"\0b\0".to_vec() });
        }
        crafted.push(grown);
    }
    let steps = scene.steps_with(TRUSTING);
    for mut bytes in crafted {
        // Without a sum, as git leaves it with `index.skipHash`.
        bytes.extend([0; 20]);
        fs::write(&path, &bytes).expect("the index");
        scene.settle();
        let _ = super::are_alike_indices(&path, &path);
        let theirs = super::look::git::Theirs::of(&scene.at(""), 1 << 20).expect("a repository");
        let _ = super::look::git::Index::read(&theirs, &steps.root, &[]);
    }
}

/// One thing that brings a repository and its index into a state.
const STATES: [&str; 16] = [
    "update-index --assume-unchanged a.txt d/b.txt",
    "update-index --skip-worktree a.txt d/c.txt",
    "add -N later.txt",
    "update-index --split-index",
    "update-index --index-version 4",
    "config core.autocrlf true",
    "config core.autocrlf input",
    "config core.trustctime false",
    "config core.checkStat minimal",
    "rm -q --cached a.txt",
    "update-index --chmod=+x a.txt",
    "reset -q",
    "sparse-checkout set --no-cone /a.txt",
    "repack -adq",
    "commit -qam more",
    "update-index --refresh",
];
/// Attributes, some of which change git's version of a file without changing its length.
const ATTRIBUTES: [&str; 6] = [
    "",
    "* text=auto\n",
    "* text eol=crlf\n",
    "*.txt filter=rot\n",
    "*.txt ident\n",
    "d/* working-tree-encoding=ISO-8859-1\n",
];
/// Contents, most of the same length.
const TEXTS: [&str; 6] = ["one\ntwo\n", "one\r\nuw\n", "eno\nowt\n", "$Id$ ab\n", "ab\u{e9} cd\n", ""];
/// The last acts of a command.
const ENDS: [&str; 5] = ["checkout -qf -b other", "gc -q --prune=now", "stash -q", "clean -fdxq", "rm -rqf ."];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn whatever_the_index_says_what_was_there_comes_back(
        texts in prop::collection::vec(0..TEXTS.len(), 5),
        later in prop::collection::vec((0..5usize, 0..TEXTS.len()), 0..4),
        states in prop::collection::vec(0..STATES.len(), 0..5),
        attributes in prop_oneof![0..ATTRIBUTES.len(), Just(3)],
        forgotten in any::<bool>(),
        kind in 0..8u8,
        settled in prop::bool::weighted(0.8),
        trusting in prop::bool::weighted(0.8),
        end in 0..ENDS.len(),
        no_git in any::<bool>(),
    ) {
        const NAMES: [&str; 5] = ["a.txt", "d/b.txt", "d/c.txt", "d/e/f.txt", "g"];
        let scene = Scene::new();
        scene.git(if kind == 0 { "init -q -b main --object-format=sha256" } else { "init -q -b main" });
        for word in ["clean", "smudge"] {
            let key = format!("filter.rot.{word}");
            prop_assert!(scene.run(&["config", &key, "tr a-z n-za-m"]).status.success());
        }
        scene.write(".gitattributes", ATTRIBUTES[attributes]);
        NAMES.iter().zip(&texts).for_each(|(name, text)| scene.write(name, TEXTS[*text]));
        // Enough for the index to be asked at all.
        (0..40).for_each(|number| scene.write(&format!("many/f{number}.txt"), &format!("n {number}\n")));
        if kind == 1 {
            prop_assert!(scene.run(&["init", "-q", "sub"]).status.success());
            scene.write("sub/inner", "i");
            prop_assert!(scene.run(&["-C", "sub", "add", "."]).status.success());
            prop_assert!(scene.run(&["-C", "sub", "commit", "-qm", "s"]).status.success());
        }
        scene.git("add .");
        scene.git("commit -qm one");
        scene.git("repack -adq");
        scene.write("later.txt", "later\n");
        later.iter().for_each(|(name, text)| scene.write(NAMES[*name], TEXTS[*text]));
        // Commands that git refuses are skipped.
        states.iter().for_each(|state| drop(scene.run(&STATES[*state].split(' ').collect::<Vec<_>>())));
        if settled {
            scene.settle();
        }
        // A removed attribute still took effect when the file was added, so its length or its time must reveal that.
        if forgotten && !ATTRIBUTES[attributes].contains("filter=") {
            scene.write(".gitattributes", "");
        }
        let before = scene.own();
        let mut steps = scene.steps_with(if trusting { TRUSTING } else { LIMITS });
        let open = steps.before("work").expect("a look");
        drop(scene.run(&ENDS[end].split(' ').collect::<Vec<_>>()));
        NAMES.iter().for_each(|name| scene.write(name, "new"));
        (0..40).step_by(3).for_each(|number| drop(fs::remove_file(scene.at(&format!("many/f{number}.txt")))));
        if no_git {
            fs::remove_dir_all(scene.at(".git")).expect("it goes");
        }
        let made = steps.after(open).expect("a step");
        prop_assert_eq!(made.lost, 0);
        prop_assert_eq!(&steps.undo(1, false).expect("taken back").left, &[]);
        prop_assert_eq!(&scene.own(), &before);
    }
}
