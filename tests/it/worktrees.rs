//! Git's linked work trees that a model's command creates, uses and removes, with git itself. They are protected, since they
//! decide which configuration git reads; for one that leads to the repository around it there is no question.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;

use crate::changes::{read, work};
use crate::sessions::git;
use crate::wall::{output, results, scene};

/// Sandboxes with a copy, and on the workspace itself.
const TIERS: [&str; 3] = ["overlay", "bubblewrap", "landlock"];
/// The start of the note about changes for which the person wasn't asked.
const DROPPED: &str = "[dropped, it would have changed: ";

/// A repository that runs its own program by a relative path, and has files that are protected by name, one of them a link.
fn repository(commands: &[&str], tier: &str) -> TempDir {
    let home =
        scene(commands, &format!("security = {{autonomy = \"full\", tier = \"{tier}\", forbidden_commands = {{}}}}"));
    let at = work(home.path(), ".");
    git(&at, &["init", "-qb", "main"]);
    for (path, text) in [
        ("docs/guide.md", "guide\n"),
        (".github/workflows/ci.yml", "on: push\n"),
        ("tools/monitor", "#!/bin/sh\nexit 1\n"),
        (".gitattributes", "*.txt text\n"),
    ] {
        fs::create_dir_all(at.join(path).parent().expect("a parent")).expect("a directory");
        fs::write(at.join(path), text).expect("a file");
    }
    fs::set_permissions(at.join("tools/monitor"), fs::Permissions::from_mode(0o755)).expect("a mode");
    std::os::unix::fs::symlink("docs/guide.md", at.join("AGENTS.md")).expect("a link");
    for words in [
        &["add", "-A"][..],
        &["commit", "-qm", "one"],
        &["config", "user.name", "a"],
        &["config", "user.email", "a@example.org"],
        &["config", "core.fsmonitor", "tools/monitor"],
    ] {
        git(&at, words);
    }
    home
}

fn outputs(results: &[Value]) -> Vec<&str> {
    results.iter().map(output).collect()
}

/// Once, the new files stayed, and the work tree lost its link to the repository.
#[test]
fn a_work_tree_is_made_used_and_removed_unasked() {
    for tier in TIERS {
        let commands = [
            "git worktree add -q sub/x",
            "cd sub/x && echo new > n.txt && git add -A && git commit -qm two && git status --short && cd ../..",
            "git worktree add -q y && git -C sub/x worktree list",
            "git worktree remove y",
        ];
        let home = repository(&commands, tier);
        let results = results(home.path());
        let at = work(home.path(), ".");
        let all = outputs(&results);
        assert!(all.iter().all(|text| !text.contains(DROPPED) && !text.contains("restored")), "{tier}: {all:?}");
        assert_eq!(git(&at.join("sub/x"), &["log", "--format=%s %D"]), "two HEAD -> x\none y, main", "{tier}: {all:?}");
        assert_eq!(git(&at.join("sub/x"), &["-c", "core.fsmonitor=false", "status", "--short"]), "", "{tier}: {all:?}");
        assert_eq!(git(&at, &["worktree", "list"]).lines().count(), 2, "{tier}: {all:?}");
        assert!(all[2].contains("work/y") && !at.join("y").exists(), "{tier}: {all:?}");
        let reads = ["AGENTS.md", ".github/workflows/ci.yml"].map(|path| read(home.path(), &format!("sub/x/{path}")));
        assert_eq!(reads, ["guide\n", "on: push\n"], "{tier}");
    }
}

/// Ways in which a work tree leads git elsewhere, or contains something that git would run.
#[test]
fn a_work_tree_that_leads_elsewhere_is_not_kept_unasked() {
    const NEW: &str = "git worktree add -q t && ";
    let tampered = [
        ("a link of git's elsewhere", "echo gitdir: ../other/.git/worktrees/t > t/.git"),
        ("a link of git's through a directory", "echo \"gitdir: $PWD/sub/../.git/worktrees/t\" > t/.git"),
        ("another configuration", "echo ../../../old > .git/worktrees/t/commondir"),
        ("an own configuration", "echo '[core] fsmonitor = x' > .git/worktrees/t/config.worktree"),
        ("another way back", "echo \"$PWD/other/.git\" > .git/worktrees/t/gitdir"),
        ("an index that is a link", "ln -sf ../../config .git/worktrees/t/index"),
        ("git's directory as a link", "mv .git/worktrees/t g && ln -s ../../g .git/worktrees/t"),
        ("a program", "chmod +x t/.git"),
        (
            "a submodule's directory",
            "cd .git/worktrees/t && mkdir -p modules/m && cp HEAD modules/m && echo x > modules/m/config",
        ),
    ];
    for tier in TIERS {
        for (what, change) in tampered {
            let home = repository(&[&format!("{NEW}{change}")], tier);
            let results = results(home.path());
            let told = results[0].to_string();
            assert!(["[dropped, ", "restored", "denied"].iter().any(|it| told.contains(it)), "{tier}, {what}: {told}");
            let at = work(home.path(), ".");
            assert!(!at.join("t/.git").exists(), "{tier}, {what}: {told}");
            for name in ["commondir", "gitdir", "config.worktree", "modules/m/config"] {
                let path = at.join(".git/worktrees/t").join(name);
                assert!(path.symlink_metadata().is_err(), "{tier}, {what}: {name} is there; {told}");
            }
        }
    }
}

/// Git runs configured programs by paths relative to the top of a work tree, and once these names were not protected there.
#[test]
fn a_new_work_tree_holds_no_other_program_of_gits_than_the_repository() {
    for tier in TIERS {
        let commands =
            ["git worktree add -q t && echo 'touch ran' >> t/tools/monitor && echo x >> t/docs/guide.md && \
                         echo 'run: x' >> t/.github/workflows/ci.yml && echo plain > t/plain"];
        let home = repository(&commands, tier);
        let results = results(home.path());
        let told = output(&results[0]);
        for path in ["t/tools/monitor", "t/docs/guide.md", "t/.github/workflows/ci.yml"] {
            assert!(told.contains(path), "{tier}: {told}");
            assert_eq!(read(home.path(), path), "(no file)", "{tier}: {path}; {told}");
        }
        assert_eq!(read(home.path(), "t/plain"), "plain\n", "{tier}: {told}");
    }
}

/// A user's work tree retains its links, and one that the sandbox doesn't show isn't treated as removed.
#[test]
fn a_work_tree_of_the_users_keeps_its_links() {
    for tier in TIERS {
        let commands = [
            "git worktree prune; ls .git/worktrees",
            "echo ../../../old > .git/worktrees/out/commondir",
            "echo \"$PWD/old/.git\" > .git/worktrees/in/gitdir",
            "mkdir sub; cp in/.git sub/.git",
            // Without a copy undo can revert it.
            if tier == "overlay" { "rm -r .git/worktrees/in" } else { ":" },
        ];
        let home = repository(&commands, tier);
        let at = work(home.path(), ".");
        git(&at, &["worktree", "add", "-q", "../out"]);
        git(&at, &["worktree", "add", "-q", "in"]);
        let results = results(home.path());
        let all = outputs(&results);
        assert!(!at.join("sub/.git").exists(), "{tier}: {all:?}");
        for tree in [home.path().join("out"), at.join("in")] {
            assert_eq!(git(&tree, &["-c", "core.fsmonitor=false", "status", "--short"]), "", "{tier}: {all:?}");
        }
        assert_eq!(git(&at, &["worktree", "list", "--porcelain"]).matches("prunable").count(), 0, "{tier}: {all:?}");
        assert!(Path::new(&git(&at.join("in"), &["rev-parse", "--git-common-dir"])).ends_with(".git"), "{tier}");
    }
}

/// Without a person to ask the model learns which path was missing, and no half of a work tree is left.
#[test]
fn a_work_tree_outside_the_workspace_is_refused_with_its_path() {
    for tier in TIERS {
        let home = repository(&["git worktree add ../out"], tier);
        let results = results(home.path());
        let told = results[0]["error"]["message"].as_str().unwrap_or_default();
        let out = home.path().join("out");
        assert!(told.contains(&format!("it writes {} directly", out.display())), "{tier}: {results:?}");
        assert!(!out.exists() && !work(home.path(), ".git/worktrees").exists(), "{tier}");
    }
}

/// Once, git found no repository in a linked work tree or in a submodule, since its directory is outside of the workspace.
#[test]
fn git_reads_the_repository_of_a_workspace_that_is_a_linked_work_tree_or_a_submodule() {
    for tier in TIERS {
        let commands = ["git log --format=%s && git status --short && git diff", "git commit -qam two"];
        for kind in ["tree", "module"] {
            let home = scene(&commands, &format!("security = {{tier = \"{tier}\"}}"));
            let (at, main) = (home.path().join("work"), home.path().join("main"));
            fs::remove_dir_all(&at).expect("it goes");
            fs::create_dir(&main).expect("a directory");
            git(&main, &["init", "-qb", "main"]);
            fs::write(main.join("a.txt"), "a\n").expect("a file");
            git(&main, &["add", "-A"]);
            git(&main, &["commit", "-qm", "one"]);
            match kind {
                "tree" => drop(git(&main, &["worktree", "add", "-q", "../work"])),
                _ => {
                    git(home.path(), &["clone", "-q", "main", "work"]);
                    fs::create_dir_all(home.path().join("top/.git/modules")).expect("a directory");
                    fs::rename(at.join(".git"), home.path().join("top/.git/modules/m")).expect("it moves");
                    fs::write(at.join(".git"), "gitdir: ../top/.git/modules/m\n").expect("a file");
                    let worktree = at.canonicalize().expect("a path").display().to_string();
                    let config = home.path().join("top/.git/modules/m/config");
                    git(home.path(), &["config", "-f", &config.display().to_string(), "core.worktree", &worktree]);
                }
            }
            fs::write(at.join("a.txt"), "changed\n").expect("a file");
            let results = results(home.path());
            let looked = output(&results[0]);
            assert!(looked.starts_with("one\n M a.txt\ndiff"), "{tier}, {kind}: {results:?}");
            // Without a copy a commit needs a question before it runs, and there is no person here.
            let refused = results[1].to_string();
            let why = if tier == "overlay" { "a command can only read; the user can run this" } else { "consent" };
            assert!(refused.contains(why), "{tier}, {kind}: {results:?}");
            assert_eq!(git(&at, &["log", "--format=%s"]), "one", "{tier}, {kind}");
        }
    }
}
