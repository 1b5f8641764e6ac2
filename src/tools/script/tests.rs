//! Tools of a repository: their rights, and attacks on their limits.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;

use super::*;
use crate::files::Root;
use crate::tools::Spill;

struct Scene {
    dir: tempfile::TempDir,
    root: Root,
    spill: Spill,
}

impl Scene {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        for (path, text) in [
            ("src/a.txt", "old words\nmore\n"),
            ("src/b.txt", "old\n"),
            ("other.txt", "other\n"),
            (".env", "SECRET=1\n"),
            ("tools/lib.luau", "return { twice = function(text) return text .. text end }\n"),
        ] {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
            std::fs::write(path, text).expect("a file");
        }
        std::os::unix::fs::symlink("../other.txt", dir.path().join("src/link.txt")).expect("a link");
        std::os::unix::fs::symlink("../tools", dir.path().join("src/kit")).expect("a link");
        let root = Root::open(dir.path(), None).expect("a root");
        let spill = Spill::new(&dir.path().join("spill"));
        Self { dir, root, spill }
    }

    /// A tool with this body of `execute`, which may write below `src`.
    fn tool(&self, body: &str) -> Result<Script, String> {
        self.tool_of(&format!(
            "return {{ api = 1, name = \"probe\", description = \"d\", schema = {{ type = \"object\" }},\n\
             writes = {{ \"src/**\" }}, execute = function(files, args, ctx) {body}\nend }}\n"
        ))
    }

    fn tool_of(&self, text: &str) -> Result<Script, String> {
        std::fs::write(self.dir.path().join("tools/probe.luau"), text).expect("a file");
        let source = Source::read(&self.root, "probe")?;
        let may_read = Arc::new(|path: &Path| !path.ends_with(".env"));
        Script::load(source, may_read, Journals::new(self.dir.path().join("journals")), Reads::default())
    }

    fn tried(&self, body: &str) -> Result<Tried, String> {
        // The limit itself is tested, and not its length.
        let time = TimeLimit { cpu: Duration::from_millis(200), wall: Duration::from_secs(20) };
        Script { time, ..self.tool(body)? }
            .tried(&json!({"word": "new", "n": 3}), &self.root)
            .map_err(|error| error.message)
    }

    fn files(&self) -> Vec<(String, Vec<u8>)> {
        let mut all = Vec::new();
        for path in ["src/a.txt", "src/b.txt", "other.txt", ".env", "tools/lib.luau"] {
            all.push((path.to_owned(), std::fs::read(self.dir.path().join(path)).expect("a file")));
        }
        all
    }
}

#[test]
fn a_tool_reads_and_changes_files_by_one_edit() {
    let scene = Scene::new();
    let tool = scene
        .tool(
            "local text = files.read('src/a.txt')\n\
             files.write('src/a.txt', (string.gsub(text, 'old', args.word)))\n\
             files.write('src/deep/new.txt', require('lib').twice('x'))\n\
             files.rename('src/b.txt', 'src/c.txt')\n\
             ctx.log('said')\n\
             return { lines = files.lines('src/a.txt', 1, 1), list = files.list('src'), glob = files.glob('src/**/*.txt'),\n\
               found = files.search('^new', 'src/**'), gone = files.exists('src/b.txt'), there = files.exists('src/c.txt'),\n\
               json = json.decode(json.encode({ n = args.n })), diff = diff('a\\n', 'b\\n') }",
        )
        .expect("a tool");
    let before = scene.files();
    let place = Place { tree: &scene.root, spill: &scene.spill };
    let plan = tool.plan(&json!({"word": "new", "n": 3}), place).expect("a plan");
    let writes = ["src/a.txt", "src/c.txt", "src/deep/new.txt"].map(str::to_owned).to_vec();
    assert_eq!(plan.action, Action::Edit { writes, deletes: vec!["src/b.txt".into()] });
    assert!(plan.preview.contains("+new words") && plan.changes.len() == 4, "{}", plan.preview);
    assert_eq!(scene.files(), before, "nothing is written before the gate has judged it");
    let tried = tool.tried(&json!({"word": "new", "n": 3}), &scene.root).expect("tried");
    let result: Value = serde_json::from_str(&tried.result).expect("JSON");
    assert_eq!(result["lines"], json!(["new words"]));
    assert_eq!(result["list"], json!(["a.txt", "c.txt", "deep/", "kit", "link.txt"]));
    assert_eq!(result["glob"], json!(["src/a.txt", "src/c.txt", "src/deep/new.txt"]));
    assert_eq!(result["found"], json!([{"path": "src/a.txt", "line": 1, "text": "new words"}]));
    assert_eq!((&result["gone"], &result["there"]), (&json!(false), &json!(true)));
    assert_eq!(result["json"], json!({"n": 3}));
    assert!(result["diff"].as_str().expect("text").contains("-a\n+b\n"));
    assert_eq!(tried.log, ["said"]);
    let files = tried.files.expect("changes");
    files.apply(&scene.root, &Journals::new(scene.dir.path().join("journals")), &Reads::default()).expect("applied");
    assert_eq!(std::fs::read_to_string(scene.dir.path().join("src/deep/new.txt")).expect("a file"), "xx");
    assert!(!scene.dir.path().join("src/b.txt").exists());
}

#[test]
fn the_same_call_has_the_same_outcome() {
    let scene = Scene::new();
    let body = "local t = {} for i = 1, 20 do t[i] = math.random(1000) end return t";
    let first = scene.tried(body).expect("tried").result;
    assert_eq!(scene.tried(body).expect("tried").result, first);
}

#[test]
fn the_hash_counts_each_module_and_a_changed_text_does_not_run() {
    let scene = Scene::new();
    let tool = scene.tool("return require('lib').twice('x')").expect("a tool");
    let hash = |scene: &Scene| Source::read(&scene.root, "probe").expect("read").sha256();
    let before = hash(&scene);
    let grants = Grants::at(&scene.dir.path().join("state/tools.json"));
    std::fs::create_dir_all(scene.dir.path().join("state")).expect("a directory");
    let source = Source::read(&scene.root, "probe").expect("read");
    assert_eq!(grants.standing(&source), Standing::Unknown);
    grants.allow(&source).expect("written");
    assert_eq!(grants.standing(&source), Standing::Allowed);
    let lib = scene.dir.path().join("tools/lib.luau");
    let old = std::fs::read_to_string(&lib).expect("a file");
    std::fs::write(&lib, old.clone() + " ").expect("a file");
    assert_ne!(hash(&scene), before);
    let changed = Source::read(&scene.root, "probe").expect("read");
    assert_eq!(grants.standing(&changed), Standing::Changed);
    let place = Place { tree: &scene.root, spill: &scene.spill };
    let error = tool.plan(&json!({}), place).expect_err("it has changed");
    assert!(error.message.contains("has changed since the user allowed it"), "{error}");
    assert_eq!(grants.allowed_text("probe"), *source.files());
    grants.refuse(&changed).expect("written");
    assert_eq!(grants.standing(&changed), Standing::Refused);
    // The old text is allowed as it was.
    std::fs::write(&lib, old).expect("a file");
    assert_eq!(grants.standing(&Source::read(&scene.root, "probe").expect("read")), Standing::Allowed);
    grants.revoke("probe").expect("written");
    assert_eq!(grants.standing(&source), Standing::Unknown);
    std::fs::write(scene.dir.path().join("state/tools.json"), "{ damaged").expect("a file");
    assert_eq!(grants.standing(&source), Standing::Unknown);
}

#[test]
fn a_tool_that_says_something_wrong_of_itself_is_named_with_the_reason() {
    let scene = Scene::new();
    let whole =
        "api = 1, name = \"probe\", description = \"d\", schema = { type = \"object\" }, execute = function() end";
    assert!(scene.tool_of(&format!("return {{ {whole} }}")).is_ok());
    for (text, why) in [
        ("return 1".to_owned(), "not a table"),
        ("return {".to_owned(), "line 1"),
        ("error('no')".to_owned(), "no"),
        ("while true do end".to_owned(), "did not end within"),
        (format!("return {{ {} }}", whole.replace("api = 1", "api = 2")), "api has to be 1"),
        (format!("return {{ {} }}", whole.replace("probe", "other")), "its name is"),
        (format!("return {{ {} }}", whole.replace("execute = function() end", "")), "execute"),
        (format!("return {{ {} }}", whole.replace("\"object\"", "\"string\"")), "schema"),
        (format!("return {{ {whole}, writes = \"src/**\" }}"), "writes"),
        (format!("return {{ {whole}, writes = {{ \"[\" }} }}"), "writes"),
    ] {
        let error = scene.tool_of(&text).map(|_| ()).expect_err(&text);
        assert!(error.contains(why), "{text}: {error}");
    }
    std::fs::write(scene.dir.path().join("tools/probe.luau"), vec![b' '; 65 * 1024]).expect("a file");
    assert!(Source::read(&scene.root, "probe").is_err(), "it is too long");
}

/// Statement 32.
#[test]
fn attacks_end_within_the_bounds_and_change_nothing() {
    let scene = Scene::new();
    let attacks = [
        // Time and memory.
        "while true do end",
        "while true do pcall(error) end",
        "local f f = function() return pcall(f) or f() end return f()",
        "local f f = function() return 1 + f() end return f()",
        "return string.rep('x', 1e9)",
        "local s = 'x' while true do s = s .. s end",
        "local t = {} while true do t[#t + 1] = string.rep('x', 1000) end",
        "local t = {} for i = 1, 1e9 do t[i] = i end",
        "return table.concat(table.create(1e9, 'x'))",
        "return string.find(string.rep('a', 1e6), string.rep('a-', 200) .. 'b')",
        "return string.format('%99999999d', 1)",
        "local t = {} t.t = t return t",
        "local t = {} local u = t for i = 1, 100 do u.u = {} u = u.u end return t",
        "local t = {} for i = 1, 200000 do t[i] = i end return t",
        "return string.rep('x', 300 * 1024)",
        "local c = coroutine and coroutine.wrap(function() while true do end end) if c then c() end while true do end",
        "return setmetatable({}, { __index = function(t, k) return t[k] end }).x",
        // Attempts to leave the sandbox.
        "return os.time()",
        "return io.open('/etc/passwd')",
        "return loadstring('return 1')()",
        "return getfenv(0)",
        "return setfenv(1, {})",
        "return require('/etc/passwd')",
        "return require('../other')",
        "return debug.info(1, 'f').x.y",
        "getmetatable('').__index = {} return 1",
        "string.rep = nil return 1",
        "rawset(_G, 'x', 1) return files.read('none')",
        "return newproxy(true)",
        // Files that it may not touch.
        "files.write('other.txt', 'x')",
        "files.write('src/../other.txt', 'x')",
        "files.write('src/link.txt', 'x')",
        "files.write('src/kit/lib.luau', 'x')",
        "files.write('../outside', 'x')",
        "files.write('/etc/x', 'x')",
        "files.write('tools/lib.luau', 'x')",
        "files.write('Tools/lib.luau', 'x')",
        "files.write('.git/hooks/pre-commit', 'x')",
        "files.write('.reedclaw/tools.json', 'x')",
        "files.write('src/a\\nb', 'x')",
        "files.write('src', 'x')",
        "files.write('src/x', 'x') files.write('src/x/y', 'x')",
        "files.delete('other.txt')",
        "files.rename('src/a.txt', 'other.txt')",
        "files.rename('.env', 'src/env')",
        "return files.read('.env')",
        "return files.read('/etc/passwd')",
        "return files.search('(')",
        "return files.glob('[')",
        "for i = 1, 300 do files.write('src/' .. i, 'x') end",
        "local big = string.rep('x', 17 * 1024 * 1024) files.write('src/big', big)",
        "files.write('src/a.txt', 'changed') error('after a change')",
    ];
    assert!(attacks.len() >= 40);
    assert_eq!((TOOL_TIME.cpu.as_secs(), TOOL_TIME.wall.as_secs()), (5, 30));
    let before = scene.files();
    for attack in attacks {
        let began = Instant::now();
        let failed = scene.tried(attack);
        assert!(failed.is_err(), "{attack}: {:?}", failed.map(|it| it.result));
        assert!(began.elapsed() < Duration::from_secs(60), "{attack} took {:?}", began.elapsed());
        assert_eq!(scene.files(), before, "{attack}");
    }
}

#[test]
fn tests_of_a_tool_are_bounded_and_leave_the_tree_as_it_is() {
    let scene = Scene::new();
    let time = TimeLimit { cpu: Duration::from_millis(200), wall: Duration::from_secs(20) };
    let tool = scene.tool("files.write('src/a.txt', 'new'); error('after a change')").expect("a tool");
    let tool = Script { time, ..tool };
    let before = scene.files();
    let text = "return {\n\
         a_failed_call_changes_nothing = function(files, call)\n\
           assert(not pcall(call, {}))\nassert(files.read('src/a.txt') == 'old words\\nmore\\n')\nend,\n\
         ends = function() while true do end end,\n\
         writes_no_tool = function(files) files.write('tools/probe.luau', '') end }";
    let tested = tool.test(text, &scene.root).expect("tests");
    let failures: Vec<&str> = tested.iter().map(|it| it.failure.as_deref().unwrap_or_default()).collect();
    assert_eq!(failures[0], "");
    assert!(failures[1].contains("did not end within 200 ms"), "{failures:?}");
    assert!(failures[2].contains("isn't among the paths of `writes`"), "{failures:?}");
    assert_eq!(scene.files(), before);
    for (text, expected) in [
        ("return {}", "it has no tests"),
        ("return 1", "not a table"),
        ("return { a = 1 }", "functions with names"),
        ("return {", "line 1: "),
    ] {
        let why = tool.test(text, &scene.root).expect_err(text);
        assert!(why.contains(expected), "{text}: {why}");
    }
}
