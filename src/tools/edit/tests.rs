//! Edits of a small workspace: their results, their errors, and that a failed edit writes nothing.

use crate::files::Root;
use std::os::unix::fs::PermissionsExt;

use super::*;

struct Scene {
    top: tempfile::TempDir,
    root: Root,
    journals: Journals,
}

impl Scene {
    fn new() -> Self {
        let top = tempfile::tempdir().expect("a directory");
        let ws = top.path().join("ws");
        std::fs::create_dir_all(ws.join("src")).expect("directories");
        for (path, content) in [
            ("src/a.rs", &b"fn a() {\n    one();\n    two();\n}\n"[..]),
            ("src/b.rs", b"fn b() {\r\n    one();\r\n}"),
            ("latin", b"gr\xfc\xdfe one\n"),
            ("image", b"\x89PNG\0\x01"),
            ("marked", b"\xef\xbb\xbfone\n"),
        ] {
            std::fs::write(ws.join(path), content).expect("a file");
        }
        std::fs::set_permissions(ws.join("src/a.rs"), std::fs::Permissions::from_mode(0o755)).expect("permissions");
        for (to, link) in [("src", "link"), ("src/b.rs", "to-b"), ("b.rs", "src/to-b")] {
            std::os::unix::fs::symlink(to, ws.join(link)).expect("a link");
        }
        let (root, journals) = (Root::open(&ws, None).expect("a root"), Journals::new(top.path().join("edits")));
        Self { top, root, journals }
    }

    fn read(&self, path: &str) -> Option<Vec<u8>> {
        std::fs::read(self.root.path().join(path)).ok()
    }

    /// Makes a batch; returns what a person would see.
    fn batch(&self, edits: &[(&str, Value)]) -> Result<String, ToolError> {
        let edits: Vec<Value> = edits.iter().map(|(name, args)| json!({"tool": name, "args": args})).collect();
        let tool = Edit { kind: None, journals: self.journals.clone(), reads: Reads::default() };
        let draft = tool.draft(&json!({"edits": edits}), &self.root)?;
        let difference = draft.difference();
        let committed = self.journals.commit(&self.root, &draft.changes());
        committed
            .map(|()| format!("{}{}", difference.summary, difference.diff))
            .map_err(|it| path_error(&it.path, &it.error))
    }
}

#[test]
fn a_batch_is_made_in_order_and_shown_by_file() {
    let scene = Scene::new();
    let seen = scene.batch(&[
        (
            "edit_replace_exact",
            json!({"path": "src/a.rs", "old": "one();", "new": "three();", "expected_occurrences": null}),
        ),
        ("edit_replace_exact", json!({"path": "./link/a.rs", "old": "three();\n", "new": "three();\n    four();\n"})),
        ("edit_insert_at_line", json!({"path": "src/b.rs", "line": 2, "content": "    zero();"})),
        ("edit_create_file", json!({"path": "new/c.rs", "content": "c\n"})),
        ("edit_delete_file", json!({"path": "image"})),
        ("edit_replace_exact", json!({"path": "latin", "old": "one", "new": "two"})),
        ("edit_replace_exact", json!({"path": "marked", "old": "one", "new": "two"})),
        ("edit_create_file", json!({"path": "gone", "content": "x"})),
        ("edit_delete_file", json!({"path": "gone"})),
    ]);
    let expected = "6 files, 6 lines added, 3 removed\n  src/a.rs: 2 added, 1 removed\n  src/b.rs: 1 added, 0 removed, \
        lines end with CR LF\n  new/c.rs: new, 1 added, 0 removed\n  image: deleted, 0 added, 0 removed\n  latin: 1 added, \
        1 removed\n  marked: 1 added, 1 removed\n--- src/a.rs\n+++ src/a.rs\n@@ -1,4 +1,5 @@\n fn a() {\n-    one();\n+    \
        three();\n+    four();\n     two();\n }\n--- src/b.rs\n+++ src/b.rs\n@@ -1,3 +1,4 @@\n fn b() {\n+    zero();\n     \
        one();\n }\n\\ No newline at end of file\n--- /dev/null\n+++ new/c.rs\n@@ -0,0 +1,1 @@\n+c\nBinary file image: \
        from 6 bytes to nothing\n--- latin\n+++ latin\n@@ -1,1 +1,1 @@\n-gr\\xfc\\xdfe one\n+gr\\xfc\\xdfe two\n--- marked\n\
        +++ marked\n@@ -1,1 +1,1 @@\n-\u{feff}one\n+\u{feff}two\n";
    assert_eq!(seen.as_deref(), Ok(expected));
    for (path, content) in [
        ("src/a.rs", Some(&b"fn a() {\n    three();\n    four();\n    two();\n}\n"[..])),
        ("src/b.rs", Some(b"fn b() {\r\n    zero();\r\n    one();\r\n}")),
        ("new/c.rs", Some(b"c\n")),
        ("image", None),
        ("gone", None),
        ("latin", Some(b"gr\xfc\xdfe two\n")),
        ("marked", Some(b"\xef\xbb\xbftwo\n")),
    ] {
        assert_eq!(scene.read(path).as_deref(), content, "{path}");
    }
    let mode = std::fs::metadata(scene.root.path().join("src/a.rs")).expect("a file").permissions().mode();
    assert_eq!(mode & 0o7777, 0o755);
}

#[test]
fn one_edit_that_does_not_fit_prevents_all() {
    let scene = Scene::new();
    std::fs::write(scene.top.path().join("secret"), "one").expect("a file");
    let good = ("edit_replace_exact", json!({"path": "src/a.rs", "old": "one();", "new": "three();"}));
    let replace = |path: &str, old: &str| ("edit_replace_exact", json!({"path": path, "old": old, "new": "x"}));
    let create = |path: &str| ("edit_create_file", json!({"path": path, "content": "x"}));
    for (bad, code, words) in [
        (replace("src/a.rs", "one();"), "no-match", "edit 2 (edit_replace_exact): src/a.rs doesn't have the text"),
        (replace("src/a.rs", "();"), "count", "has the text 2 times, not 1: at lines 2, 3"),
        (replace("src/a.rs", "three();\n"), "", ""),
        (replace("none", "x"), "not-found", "none: there is no such file"),
        (replace("src/c.rs", "x"), "not-found", "src/c.rs: there is no such file or directory"),
        (replace("lib/c.rs", "x"), "not-found", "nor a directory lib"),
        (replace("src", "x"), "is-directory", "src: it is a directory"),
        (replace("image", "PNG"), "binary", "image is no text"),
        (replace("../secret", "one"), "outside", "../secret: it leads out"),
        (replace("a\nb", "one"), "path", "a control character"),
        (replace("src/a.rs", ""), "bad-arguments", "edit 2: "),
        (create("src/b.rs"), "exists", "src/b.rs is there already: 23 bytes, 3 lines"),
        (create("src/a.rs/x"), "not-directory", "src/a.rs/x: it is not a directory"),
        (create("src"), "is-directory", "src: it is a directory"),
        (("edit_create_file", json!({"path": "image", "content": "x", "overwrite": true})), "", ""),
        (("edit_delete_file", json!({"path": "none"})), "not-found", "none: there is no such file"),
        (("edit_delete_file", json!({"path": "src"})), "is-directory", "src: it is a directory"),
        (("edit_delete_file", json!({"path": "to-b"})), "is-link", "to-b is a link to src/b.rs: that file would go"),
        (("edit_delete_file", json!({"path": "link/to-b"})), "is-link", "link/to-b is a link to src/b.rs"),
        (("edit_delete_file", json!({"path": "link/b.rs"})), "", ""),
        (("edit_insert_at_line", json!({"path": "src/a.rs", "line": 6, "content": "x"})), "bad-range", "4 lines"),
        (("file_write", json!({"path": "x", "content": "x"})), "bad-arguments", "there is no edit file_write"),
    ] {
        let scene = if code.is_empty() { &Scene::new() } else { &scene };
        match scene.batch(&[good.clone(), bad.clone()]) {
            Ok(_) => assert!(code.is_empty(), "{bad:?}"),
            Err(error) => {
                assert_eq!(error.code, code, "{bad:?}: {error}");
                assert!(error.message.contains(words), "{bad:?}: {error}");
                assert_eq!(scene.read("src/a.rs").as_deref(), Some(&b"fn a() {\n    one();\n    two();\n}\n"[..]));
            }
        }
    }
    let error = scene.batch(&[replace("src/A.rs", "x")]).expect_err("another name");
    assert_eq!(error.hint, "in src there is a.rs, b.rs, to-b");
    assert_eq!(scene.batch(&[create("d"), create("d/x")]).expect_err("a file").code, "not-directory");
    assert_eq!(scene.batch(&[create("d/x"), create("d")]).expect_err("a directory").code, "is-directory");
    let back = ("edit_replace_exact", json!({"path": "src/a.rs", "old": "three();", "new": "one();"}));
    assert_eq!(scene.batch(&[good, back]).expect_err("nothing").code, "no-change");
}
