//! The sandbox without a kernel: the masked paths, and the arguments for bubblewrap.

use std::fs;
use std::os::unix::fs::symlink;

use super::helper::filter::Network;
use super::*;

fn words(sandbox: &Sandbox, grant: &Grant) -> String {
    let spec = sandbox.spec(grant).unwrap();
    let words = bubblewrap::arguments(&spec, &[7, 8]);
    words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// Checks that two pieces are in a text, in this order.
#[track_caller]
fn in_order(text: &str, first: &str, second: &str) {
    let at = |piece: &str| text.find(piece).unwrap_or_else(|| panic!("no {piece} in {text}"));
    assert!(at(first) < at(second), "{first} isn't before {second} in {text}");
}

#[test]
fn bubblewrap_is_told_the_masks_before_what_is_open() {
    let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    // If the project itself is below /tmp, it is hidden as a whole.
    let is_hidden = dir.path().starts_with("/tmp");
    let path = |name: &str| dir.path().join(name);
    for name in ["project/.git/hooks", ".ssh", "data/plugin"] {
        fs::create_dir_all(path(name)).unwrap();
    }
    fs::write(path(".netrc"), "").unwrap();
    let sandbox =
        Sandbox::build(Mode::Prefer, Tier::Bubblewrap, Vec::new(), "/proc/self/exe".into(), &Place::default());
    let grant = Grant {
        masked: vec![path(".ssh"), path(".ssh/inner"), path("data"), path(".netrc"), path(".aws")],
        readable: vec![path("data/plugin")],
        read_only: vec![path("project/.git/hooks"), path("project/.git/config")],
        ..Grant::new(path("project"))
    };
    let text = words(&sandbox, &grant);
    let root = dir.path().display();
    if !is_hidden {
        in_order(&text, &format!("--tmpfs {root}/data"), &format!("--ro-bind-try {root}/data/plugin"));
        in_order(&text, &format!("--ro-bind-try {root}/data/plugin"), &format!("--remount-ro {root}/data"));
        assert!(text.contains(&format!("--tmpfs {root}/.ssh ")) && !text.contains(".ssh/inner"), "{text}");
        assert!(text.contains(&format!("--ro-bind /dev/null {root}/.netrc")), "{text}");
    }
    assert!(!text.contains(".aws") && !text.contains(".git/config"), "what isn't there can't be made: {text}");
    in_order(&text, "--ro-bind / /", "--tmpfs /tmp");
    in_order(&text, "--tmpfs /tmp", &format!("--bind {root}/project {root}/project "));
    in_order(
        &text,
        &format!("--bind {root}/project {root}/project "),
        &format!("--bind {root}/project/.git {root}/project/.git "),
    );
    in_order(&text, &format!("--bind {root}/project/.git "), &format!("--ro-bind {root}/project/.git/hooks"));
    assert!(text.contains("--unshare-net") && text.contains("--cap-drop ALL"), "{text}");
    assert!(text.ends_with(&format!("--chdir {root}/project --add-seccomp-fd 7 --add-seccomp-fd 8 --")), "{text}");
    assert!(!words(&sandbox, &Grant { network: true, ..grant }).contains("--unshare-net"));
}

#[test]
fn a_path_becomes_free_of_links_as_far_as_it_is_there() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().canonicalize().unwrap();
    fs::create_dir(dir.join("real")).unwrap();
    symlink(dir.join("real"), dir.join("link")).unwrap();
    fs::write(dir.join("real/file"), "").unwrap();
    symlink("link/file", dir.join("to a link")).unwrap();
    symlink("nowhere", dir.join("dangling")).unwrap();
    symlink("loop", dir.join("loop")).unwrap();
    let mut links = masks::Resolver::default();
    for (path, found) in [
        ("link/missing/deep", "real/missing/deep"),
        ("link/missing/other", "real/missing/other"),
        ("link/../real", "real"),
        ("link/./file", "real/file"),
        ("to a link", "real/file"),
        ("to a link/below", "real/file/below"),
        ("dangling/below", "dangling/below"),
        ("loop/below", "loop/below"),
    ] {
        assert_eq!(links.resolve(&dir.join(path)), dir.join(found), "{path}");
    }
    for (path, found) in
        [("/nowhere/at/all", "/nowhere/at/all"), ("/", "/"), ("/..", "/"), ("src", env!("CARGO_MANIFEST_DIR"))]
    {
        assert!(links.resolve(Path::new(path)).starts_with(found), "{path}");
    }
    let paths = ["/a/b", "/a", "/ab", "/a/c/d", "/c"].map(PathBuf::from);
    assert_eq!(masks::outermost(paths.into()), ["/a", "/ab", "/c"].map(PathBuf::from));
}

#[test]
fn each_tier_has_its_filters() {
    for tier in [Tier::Overlay, Tier::Bubblewrap, Tier::Landlock] {
        for (network, is_look) in [(Network::Own, false), (Network::Machine, false), (Network::Own, true)] {
            let filters = helper::filter::make(tier, network, is_look).unwrap();
            assert_eq!(filters.len(), 2);
            // The kernel takes 4,096 instructions of eight bytes.
            assert!(filters.iter().all(|it| it.len() < 4_096 && helper::filter::bytes(it).len() == it.len() * 8));
        }
    }
}

#[test]
fn tiers_are_in_order() {
    assert!(Tier::Overlay > Tier::Bubblewrap);
    assert!(Tier::Bubblewrap > Tier::Landlock && Tier::Landlock > Tier::None);
}
