//! The room as a whole: real files in a temporary directory, with the environment as an argument.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, Instant};

use super::*;

mod closed;

/// A home with a config in it.
struct Home {
    dir: tempfile::TempDir,
}

impl Home {
    fn with(config: impl AsRef<[u8]>) -> Self {
        let home = Self { dir: tempfile::tempdir().expect("a directory") };
        home.write("home/.config/reedclaw/config.lua", config);
        fs::create_dir_all(home.dir.path().join("work")).expect("a directory");
        home
    }

    fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.dir.path().join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        fs::write(&path, text).expect("a file");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("permissions");
    }

    fn request(&self) -> LoadRequest {
        let home = self.dir.path().join("home").into_os_string();
        LoadRequest { explicit: None, env: [("HOME".into(), home)].into(), cwd: self.dir.path().join("work") }
    }

    fn load(&self) -> Loaded {
        load(&self.request()).expect("a load")
    }
}

fn lines(loaded: &Loaded) -> Vec<String> {
    loaded.problems.iter().map(ToString::to_string).collect()
}

fn defaults() -> Settings {
    Home::with("").load().settings
}

#[test]
fn without_a_config_the_defaults_hold() {
    let home = Home::with("");
    fs::remove_file(home.dir.path().join("home/.config/reedclaw/config.lua")).expect("removed");
    let loaded = home.load();
    assert_eq!(lines(&loaded), Vec::<String>::new());
    assert_eq!((loaded.path, loaded.source), (None, None));
    let settings = loaded.settings;
    assert_eq!((settings.default_model, settings.models.len()), (None, 0));
    assert_eq!(settings.history.dir, Some(home.dir.path().join("home/.local/share/reedclaw")));
    assert_eq!(settings.context.max_turns, 40);
    assert_eq!(settings.editor.completion_timeout_ms, 1000);
    assert_eq!((settings.shell.capture_head_bytes, settings.shell.capture_tail_bytes), (128 << 10, 1 << 20));
    assert!(settings.system_prompt.contains("login shell"));
}

#[test]
fn the_plain_shape_of_a_config_loads() {
    let loaded = Home::with(
        r#"return {
            default_model = "qwen2.5",
            models = { ["qwen2.5"] = { endpoint = "http://h:1/v1", model = "q", temperature = 1, key_env = "K" } },
            shell = { known_commands = { "a", "b" }, capture_output = false, confirm_cmd = true },
            context = { max_turns = 3, token_budget = 1000 },
            history = { dir = os.getenv("HOME") .. "/h" },
        }"#,
    )
    .load();
    assert_eq!(lines(&loaded), Vec::<String>::new());
    let settings = loaded.settings;
    let model = &settings.models["qwen2.5"];
    assert_eq!((model.endpoint.as_str(), model.model.as_str()), ("http://h:1/v1", "q"));
    assert_eq!((model.temperature, model.key.clone()), (Some(1.0), Some(KeySource::Variable("K".into()))));
    assert_eq!(model.idle_timeout_ms, 60000);
    assert_eq!(settings.default_model.as_deref(), Some("qwen2.5"));
    assert_eq!(settings.shell.known_commands, ["a", "b"]);
    assert!(!settings.shell.capture_output);
    // The default of exec_output_tokens exceeded the small budget.
    assert_eq!((settings.context.max_turns, settings.context.exec_output_tokens), (3, 500));
    assert!(settings.history.dir.expect("a directory").ends_with("home/h"));
}

#[test]
fn the_examples_load_without_a_problem() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let mut count = 0;
    for entry in fs::read_dir(dir).expect("examples") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|extension| extension == "lua") {
            let loaded = Home::with(fs::read(&path).expect("an example")).load();
            assert_eq!(lines(&loaded), Vec::<String>::new(), "{}", path.display());
            assert!(loaded.settings.default_model.is_some());
            count += 1;
        }
    }
    assert!(count >= 4);
    let full = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/full.lua")).expect("full.lua");
    for row in ROWS {
        let key = row.path.rsplit('.').next().expect("a word");
        // The example shows two of the four sources of a key, because a model has only one, and one of the three sources of a
        // login's secret.
        if !["key_command", "key", "client_secret_command", "client_secret_file"].contains(&key) {
            assert!(full.contains(&format!("{key} = ")), "full.lua lacks {}", row.path);
        }
    }
    for row in HOOKS {
        let key = row.name.rsplit('.').next().expect("a word");
        assert!(full.contains(&format!("{key} = ")), "full.lua lacks {}", row.name);
    }
}

/// The comment above a line, as one text.
fn comment_above(lines: &[&str], at: usize) -> String {
    let is_comment = |line: &&&str| line.trim().starts_with("-- ") && !line.contains(" = ");
    let above: Vec<&str> = lines[..at].iter().rev().take_while(is_comment).map(|line| line.trim()).collect();
    above.into_iter().rev().map(|line| line.trim_start_matches("--").trim()).collect::<Vec<_>>().join(" ")
}

/// The words about the allowed values that the comment on a setting must contain.
fn allowed(kind: Kind) -> Vec<String> {
    match kind {
        Kind::Integer(least, most) => vec![format!("{least} to {most}")],
        Kind::Number(least, most) => vec![format!("{least} to {most}")],
        Kind::Choice(words) => words.iter().map(|word| format!("\"{word}\"")).collect(),
        Kind::Bool => vec!["true or false".into()],
        _ => Vec::new(),
    }
}

#[test]
fn lua_of_the_documents_loads() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let docs = fs::read_dir(root.join("docs")).expect("the documents").map(|entry| entry.expect("a document").path());
    let documents = docs.filter(|path| path.extension().is_some_and(|end| end == "md"));
    let texts: Vec<String> =
        documents.chain([root.join("README.md")]).map(|path| fs::read_to_string(path).expect("a document")).collect();
    let after = texts.iter().flat_map(|text| text.split("```lua\n").skip(1));
    let blocks: Vec<&str> = after.filter_map(|rest| rest.split("```").next()).collect();
    assert!(blocks.len() >= 6, "{}", blocks.len());
    for block in blocks {
        assert_eq!(lines(&Home::with(block).load()), Vec::<String>::new(), "{block}");
    }
}

#[test]
fn every_setting_has_a_comment_in_the_reference() {
    let lines: Vec<&str> = DEFAULT_LUA.lines().collect();
    // Follows the tables by their brackets, including the commented-out model.
    let mut tables: Vec<String> = Vec::new();
    let mut seen = std::collections::BTreeSet::new();
    for (at, line) in lines.iter().enumerate().skip_while(|(_, line)| **line != "return {").skip(1) {
        let code = line.trim().trim_start_matches("-- ").trim();
        if code == "}," {
            tables.pop();
        } else if let Some((key, value)) = code.split_once(" = ") {
            let word = key.chars().all(|c| c.is_ascii_lowercase() || c == '_') || key == "[\"local\"]";
            if !word || value.starts_with("{ … }, one for each") {
                continue;
            }
            if value == "{" {
                tables.push(if ["[\"local\"]", "cloud", "git", "builds", "reviewer"].contains(&key) {
                    "NAME".into()
                } else {
                    key.into()
                });
                continue;
            }
            let path = tables.iter().map(String::as_str).chain([key]).collect::<Vec<_>>().join(".");
            assert!(lines[at - 1].trim().starts_with("-- "), "{path} has no comment above");
            let comment = comment_above(&lines, at);
            for word in ROWS.iter().filter(|row| row.path == path).flat_map(|row| allowed(row.kind)) {
                assert!(comment.contains(&word), "{path}: {word} is not in {comment:?}");
            }
            let hook = path.strip_prefix("hooks.").unwrap_or(&path);
            let known = ROWS.iter().any(|row| row.path == path) || HOOKS.iter().any(|row| row.name == hook);
            assert!(known, "{path} has no row");
            seen.insert(path);
        }
    }
    for limit in ["32 MiB", "50 ms", "5 ms"] {
        assert!(DEFAULT_LUA.contains(limit), "{limit}");
    }
    assert_eq!((crate::lua::LOAD_TIME.cpu.as_millis(), crate::lua::HOOK_TIME.cpu.as_millis()), (50, 5));
    assert_eq!(crate::lua::MEMORY_BYTES_MAX, 32 * 1024 * 1024);
    for row in HOOKS {
        let path = format!("{}{}", if row.kind == HookKind::Function { "hooks." } else { "" }, row.name);
        assert!(seen.contains(&path), "default.lua lacks {path}");
    }
    for row in ROWS {
        assert!(seen.contains(row.path), "default.lua lacks {}", row.path);
    }
}

#[test]
fn each_mistake_names_its_key_its_value_and_the_allowed_values() {
    for (config, want) in [
        (
            r#"{ context = { max_turns = "many" } }"#,
            r#"context.max_turns: "many" is not a number (1 to 1000); using 40"#,
        ),
        ("{ context = { max_turns = 0 } }", "context.max_turns: 0 is out of range (1 to 1000); using 40"),
        ("{ context = { max_turns = 2.5 } }", "context.max_turns: 2.5 is not a whole number (1 to 1000); using 40"),
        ("{ context = { max_turns = 1/0 } }", "context.max_turns: inf is out of range (1 to 1000); using 40"),
        ("{ context = { max_turns = 1e300 } }", "context.max_turns: 1000000000000"),
        ("{ context = 5 }", "context: 5 is not a table; ignored"),
        ("{ contxt = {} }", "contxt: unknown key; did you mean context?"),
        ("{ context = { maxturns = 4 } }", "context.maxturns: unknown key; did you mean max_turns?"),
        ("{ max_turns = 4 }", "max_turns: unknown key; did you mean context.max_turns?"),
        ("{ zzz = 4 }", "zzz: unknown key; ignored"),
        (
            "{ context = { token_budget = 1000, exec_output_tokens = 1000 } }",
            "context.exec_output_tokens: 1000 is not less than token_budget (1000); using 500",
        ),
        (
            "{ shell = { confirm_cmd = false } }",
            "shell.confirm_cmd: false is refused: at this stage a model's command always needs a yes; using true",
        ),
        ("{ shell = { capture_output = 1 } }", "shell.capture_output: 1 is not true or false; using true"),
        ("{ shell = { known_commands = { 'a b' } } }", r#"shell.known_commands: "a b" is not a word; ignored"#),
        ("{ shell = { program = 'zsh' } }", r#"shell.program: "zsh" is not an absolute path; ignored"#),
        ("{ prompt = 'fish' }", r#"prompt: "fish" is not "default" or "shell"; using "default""#),
        ("{ editor = { mode = 'vim' } }", r#"editor.mode: "vim" is not "emacs" or "vi"; using "emacs""#),
        ("{ editor = { abbreviations = { gs = 1 } } }", "editor.abbreviations.gs: 1 is not a string; ignored"),
        (
            "{ tools = { http_ports = { 80, 0 } } }",
            "tools.http_ports: a table is not a list of ports such as { 80, 443, 8080 }; using the default",
        ),
        ("{ history = { dir = print } }", "history.dir: a function is not an absolute path"),
        ("{ 'x' }", "the entry 1, which is not a name; ignored"),
        ("{ models = { a = {} } }", "models.a: has no endpoint; this model is left out"),
        ("{ mcp = { servers = { a = {} } } }", "mcp.servers.a: has neither command nor url; left out"),
        (
            "{ mcp = { servers = { a = { command = { 'x' }, url = 'https://h/mcp' } } } }",
            "mcp.servers.a: has both command and url; using command",
        ),
        (
            "{ mcp = { servers = { a = { url = 'http://h/mcp', key_env = 'K' } } } }",
            "mcp.servers.a: its key or headers would go unencrypted to another machine; nothing is sent there without https",
        ),
        ("{ models = { ['a b'] = {} } }", r#"models["a b"]: the name of a model has 1 to 64 bytes"#),
        (
            "{ models = { a = { endpoint = 'h:1' } } }",
            r#"models.a.endpoint: "h:1" is not an address such as "http://127.0.0.1:8080"; this model is left out"#,
        ),
        (
            "{ models = { a = { kind = 'magic', endpoint = 'http://h' } } }",
            "models.a.kind: \"magic\" is not \"openai-comp",
        ),
        ("{ models = { a = { kind = 'reliable' } } }", "models.a: has no of; this model is left out"),
        ("{ models = { a = { kind = 'router' } } }", "models.a: has no rules; this model is left out"),
        ("{ models = { a = { kind = 'mock' } } }", "models.a: has no script; this model is left out"),
        (
            "{ models = { a = { kind = 'anthropic', endpoint = 'h' } } }",
            r#"models.a.endpoint: "h" is not an address such as "http://127.0.0.1:8080"; this model is left out"#,
        ),
        (
            "{ default_model = 'b', models = { b = { kind = 'gemini' }, a = { kind = 'reliable', of = { 'b', 'c' } } } }",
            r#"models.a.of: "c" is not one of the models; left out"#,
        ),
        (
            "{ models = { a = { kind = 'reliable', of = {} } } }",
            "models.a.of: names no model, so this one can't answer",
        ),
        (
            "{ models = { l = { endpoint = 'http://h' }, a = { kind = 'router', rules = { cdoe = 'l', code = 'l' } } }, default_model = 'l' }",
            r#"models.a.rules: there is no task or hint "cdoe" (chat, code, summary, plan, commit, long, images, default); ignored"#,
        ),
        (
            "{ models = { a = { endpoint = 'http://h', idle_timeout_ms = -1 } } }",
            "models.a.idle_timeout_ms: -1 is out of range (1 to 3600000); using 60000",
        ),
        (
            "{ models = { a = { endpoint = 'http://h', temperature = 3 } } }",
            "models.a.temperature: 3 is out of range (0 to 2); ignored",
        ),
        (
            "{ models = { a = { endpoint = 'http://h' }, b = { endpoint = 'http://h' } } }",
            r#"default_model: not given, and there are several models ("a", "b"); none is chosen"#,
        ),
        (
            "{ default_model = 'c', models = { a = { endpoint = 'http://h' } } }",
            r#"default_model: "c" is not one of the models ("a"); ignored"#,
        ),
    ] {
        let shown = lines(&Home::with(format!("return {config}")).load());
        assert_eq!(shown.len(), 1, "{config}: {shown:?}");
        assert!(shown[0].starts_with("~/.config/reedclaw/config.lua:"), "{shown:?}");
        assert!(shown[0].contains(want), "{config}: {shown:?} lacks {want}");
    }
}

#[test]
fn models_that_ask_others_know_them_and_never_themselves() {
    let loaded = Home::with(
        "return { default_model = 'r', models = { \
         l = { endpoint = 'http://127.0.0.1:1', aliases = { 'near' } }, \
         c = { kind = 'anthropic', retries = 0, max_output_tokens = 5 }, \
         r = { kind = 'reliable', of = { 'near', 'c', 'w' }, allow_remote = true }, \
         w = { kind = 'router', rules = { code = 'r', default = 'l' } } } }",
    )
    .load();
    let models = &loaded.settings.models;
    assert_eq!(lines(&loaded).len(), 1, "{:?}", lines(&loaded));
    assert_eq!(models["r"].of, ["l", "c"]);
    assert!(models["r"].allow_remote && !models["c"].allow_remote);
    assert_eq!(models["w"].rules.values().collect::<Vec<_>>(), ["r", "l"]);
    assert_eq!((models["c"].endpoint.as_str(), models["c"].retries), ("https://api.anthropic.com", 0));
    assert_eq!((models["c"].max_output_tokens, models["l"].retries), (Some(5), 2));
    // A wrong address must not be replaced by the provider's own: the question would go elsewhere.
    let loaded = Home::with("return { models = { a = { kind = 'anthropic', endpoint = 'h', key_env = 'K' } } }").load();
    assert!(loaded.settings.models.is_empty());
}

#[test]
fn several_mistakes_are_reported_at_once_and_the_correct_keys_apply() {
    let loaded = Home::with(
        "return { prompt = 'shell', context = { max_turns = {}, token_budget = 9000 }, editor = { mode = 7 }, colr = 1 }",
    )
    .load();
    let keys: Vec<&str> = loaded.problems.iter().map(|problem| problem.key.as_str()).collect();
    assert_eq!(keys, ["colr", "context.max_turns", "editor.mode"]);
    assert_eq!(loaded.settings.prompt, PromptStyle::Shell);
    assert_eq!((loaded.settings.context.max_turns, loaded.settings.context.token_budget), (40, 9000));
}

#[test]
fn a_secret_in_the_config_is_reported_and_never_shown() {
    for config in [
        "api_key = 'sk-s3cret'",
        "key = 's3cret'",
        "key = { 's3cret' }",
        "key_command = 'echo s3cret'",
        "token = 's3cret'",
        "key_env = 'sk-s3cret'",
        "key_env = 's3cret key'",
        "endpoint = 'http://me:s3cret@h/'",
    ] {
        let home = Home::with(format!("return {{ models = {{ a = {{ endpoint = 'http://h', {config} }} }} }}"));
        let shown = lines(&home.load());
        assert_eq!(shown.len(), 1, "{shown:?}");
        assert!(!shown[0].contains("s3cret"), "{shown:?}");
        assert!(shown[0].contains("key"), "{shown:?}");
        let rows = home.load().layers.rows();
        assert!(rows.iter().all(|row| !row.value.contains("s3cret")), "{rows:?}");
    }
}

#[test]
fn secrets_in_addresses_and_arguments_are_not_shown() {
    let loaded = Home::with(
        "return { gateway = { database = 'postgres://u:s3cret@db/x', nats = { url = 'nats://u:p/s3cret@h:4222' } }, \
         tools = { search = 'searxng', search_url = 'https://s3cret@s.example/q?key=s3cret' }, \
         share = { gateway = 'https://u:p?s3cret@g.example' }, system_prompt = 'see https://a.example, me@b.example', \
         norris = { notify = { 'curl', '-H', 'Authorization: Bearer s3cret' } }, \
         service = { notify = { 'curl', 'https://hooks.example/s3cret' } } }",
    )
    .load();
    assert_eq!(lines(&loaded), Vec::<String>::new());
    assert_eq!(loaded.settings.service.notify.len(), 2);
    let shown = loaded.layers.lines(false).join("\n");
    assert!(!shown.contains("s3cret"), "{shown}");
    for line in [
        "gateway.database = \"postgres://***@db/x\"",
        "gateway.nats.url = \"nats://***@h:4222\"",
        "tools.search_url = \"https://***@s.example/q?***\"",
        "share.gateway = \"https://***@g.example\"",
        "system_prompt = \"see https://a.example, me@b.example\"",
        "norris.notify = { \"curl\", … 2 more }",
        "service.notify = { \"curl\", … 1 more }",
    ] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
}

#[test]
fn a_config_that_does_not_run_costs_only_itself() {
    for (config, want) in [
        ("return {\n  prompt = = 1\n}", "config.lua:2: "),
        ("local x = nil\nreturn { prompt = x.y }", "config.lua:2: attempt to index nil with 'y'"),
        ("error('no\\27[31m')", r"config.lua:1: no\u{1b}[31m"),
        ("return 5", "returns 5, not a table"),
        ("local a = 1", "returns nothing"),
        ("while true do end", "did not end within 50 ms"),
        ("while true do pcall(function() while true do end end) end", "did not end within 50 ms"),
        ("local function f() pcall(f) pcall(f) end while true do f() end", "did not end within 50 ms"),
        ("pcall(function() while true do end end) return {}", "did not end within 50 ms"),
        ("return ('a'):rep(40):match(('a*'):rep(30) .. 'b')", "did not end within 50 ms"),
        ("return ('a'):rep(8e6):find(('a'):rep(4e6) .. 'b', 1, true)", "is not allowed in a config"),
        ("return ('a'):rep(8e6):split(('a'):rep(4e6) .. 'b')", "is not allowed in a config"),
        ("local t = {} for i = 1, 1e9 do t[i] = {i} end", "config.lua"),
        ("return string.rep('x', 1e9)", "needs more than 32 MiB of memory"),
        ("return table.create(3e7, 1)", "needs more than 32 MiB of memory"),
        ("local s = 'x' while true do s = s .. s end", "needs more than 32 MiB of memory"),
        ("return require('x')", "require is not available in a config"),
        ("return loadstring('return 1')", "loadstring is not available in a config"),
        ("print('x')", "print is not available in a config"),
        ("return io.open('/etc/passwd')", "attempt to index nil with 'open'"),
        ("return os.execute('true')", "attempt to call a nil value"),
        ("string.rep = nil", "readonly table"),
    ] {
        let home = Home::with(config);
        let started = Instant::now();
        let loaded = home.load();
        assert!(started.elapsed() < Duration::from_secs(60), "{config}");
        let shown = lines(&loaded);
        assert_eq!(shown.len(), 1, "{config}: {shown:?}");
        assert!(shown[0].contains(want), "{config}: {shown:?} lacks {want}");
        assert!(shown[0].ends_with("; using the defaults, and tools are readonly until it can be read"), "{shown:?}");
        assert_eq!(loaded.settings.security.autonomy, crate::proto::action::Autonomy::Readonly);
        assert_eq!(loaded.settings.context.max_turns, 40);
    }
}

#[test]
fn bytes_that_are_no_text_are_refused() {
    for (bytes, want) in [
        (&b"\x06\x03\x01\x02"[..], "compiled Lua is refused"),
        (b"\x1bLuaR\0", "compiled Lua is refused"),
        (b"return { prompt = '\xff' }", "is not UTF-8 text"),
        (&[b' '; 300 * 1024], "is larger than 256 KiB"),
    ] {
        let shown = lines(&Home::with(bytes).load());
        assert!(shown.len() == 1 && shown[0].contains(want), "{shown:?}");
    }
    let loaded = Home::with("\u{feff}return { prompt = 'shell' }").load();
    assert_eq!((lines(&loaded).len(), loaded.settings.prompt), (0, PromptStyle::Shell));
}

/// The link's target may be on a disk that isn't mounted yet: the user meant that config, whatever it contains.
#[test]
fn a_config_behind_a_link_to_nothing_is_one_that_cant_be_read() {
    let home = Home::with("");
    home.write("work/config.lua", "return {}");
    let config = home.dir.path().join("home/.config");
    for (link, shown) in [
        (
            "reedclaw/config.lua",
            "~/.config/reedclaw/config.lua: is a link to something that isn't there; using the defaults",
        ),
        ("reedclaw", "config.lua: there is no such file: ~/.config/reedclaw is a link to something that isn't there"),
    ] {
        fs::remove_dir_all(&config).expect("removed");
        fs::create_dir_all(config.join(link).parent().expect("a parent")).expect("a directory");
        symlink("/mnt/absent/dotfiles", config.join(link)).expect("a link");
        let loaded = home.load();
        assert_eq!(loaded.settings.security.autonomy, crate::proto::action::Autonomy::Readonly, "{link}");
        assert!(lines(&loaded)[0].contains(shown), "{:?}", lines(&loaded));
        assert_eq!(Look::of_request(&home.request(), &loaded), None, "the user has a config");
    }
    fs::remove_file(config.join("reedclaw")).expect("removed");
    assert_eq!((home.load().path, lines(&home.load())), (None, Vec::new()));
}

#[test]
fn tricks_with_tables_neither_crash_nor_apply() {
    let trick = "setmetatable({}, { __index = function() error('x') end, __iter = error, __len = error })";
    for (config, problems) in [
        (format!("return {trick}"), 0),
        (format!("return {{ context = {trick}, shell = {{ known_commands = {trick} }}, models = {trick} }}"), 0),
        ("local t = {} t.context = t t.models = t return t".into(), 8),
        ("local t = {} for i = 1, 5000 do t['k' .. i] = 1 end return t".into(), 1001),
        ("return { shell = { known_commands = { [1] = 'a', [7] = 'b', x = 'c' } } }".into(), 1),
    ] {
        let loaded = Home::with(&config).load();
        assert!(lines(&loaded).len() <= problems.max(1) && lines(&loaded).is_empty() == (problems == 0), "{loaded:?}");
        assert_eq!(loaded.settings.context, defaults().context, "{config}");
    }
}

#[test]
fn the_environment_is_that_of_the_request() {
    let home = Home::with("return { system_prompt = os.getenv('WHO') or 'nobody', prompt = os.getenv('PATH') }");
    let mut request = home.request();
    request.env.insert("WHO".into(), "ada".into());
    let loaded = load(&request).expect("a load");
    assert_eq!((lines(&loaded).len(), loaded.settings.system_prompt.as_str()), (0, "ada"));

    let loaded = load(&LoadRequest::default()).expect("a load without HOME");
    assert_eq!(loaded.settings.history.dir, None);
    let problems = lines(&loaded);
    assert_eq!((loaded.settings.workspace_dir, problems), (None, Vec::<String>::new()));
}

#[test]
fn the_first_config_there_is_counts() {
    let home = Home::with("return { system_prompt = 'user' }");
    home.write("work/config.lua", "return { system_prompt = 'directory' }");
    home.write("xdg/reedclaw/config.lua", "return { system_prompt = 'xdg' }");
    home.write("variable.lua", "return { system_prompt = 'variable' }");
    home.write("option.lua", "return { system_prompt = 'option' }");
    let root = home.dir.path();
    let mut request = home.request();
    let got = |request: &LoadRequest| {
        let loaded = load(request).expect("a load");
        assert_eq!(lines(&loaded), Vec::<String>::new());
        (loaded.settings.system_prompt, loaded.source)
    };
    assert_eq!(got(&request), ("user".into(), Some(Source::User)));
    request.env.insert("XDG_CONFIG_HOME".into(), root.join("xdg").into());
    assert_eq!(got(&request), ("xdg".into(), Some(Source::User)));
    request.env.insert("REEDCLAW_CONFIG".into(), "../variable.lua".into());
    assert_eq!(got(&request), ("variable".into(), Some(Source::Variable)));
    request.explicit = Some("../option.lua".into());
    assert_eq!(got(&request), ("option".into(), Some(Source::Option)));

    request.explicit = Some("nope.lua".into());
    let error = load(&request).expect_err("an error");
    assert!(error.to_string().ends_with("work/nope.lua can't be read: there is no such file"), "{error}");
    assert_eq!(Failure::from(error).kind, crate::proto::FailureKind::Config);
    request.explicit = None;
    request.env.insert("REEDCLAW_CONFIG".into(), "/nope.lua".into());
    let loaded = load(&request).expect("a load");
    let want = "/nope.lua: there is no such file; using the defaults, and tools are readonly until it can be read";
    assert_eq!(lines(&loaded), [want]);
    assert_eq!(loaded.settings.security.autonomy, crate::proto::action::Autonomy::Readonly);
}

#[test]
fn a_config_in_the_working_directory_is_a_projects_file_if_there_is_no_own() {
    let home = Home::with("");
    home.write(
        "work/config.lua",
        "return { prompt = 'shell', shell = { program = '/tmp/evil' }, system_prompt = 'it' }",
    );
    let request = home.request();
    assert_eq!(Look::of_request(&request, &home.load()), None, "the user has a config");

    fs::remove_file(home.dir.path().join("home/.config/reedclaw/config.lua")).expect("removed");
    let load = || {
        let mut loaded = home.load();
        loaded.lay_trusted_project(&request);
        loaded
    };
    let before = load();
    assert_eq!((before.source, lines(&before), before.settings.prompt), (None, Vec::new(), PromptStyle::Default));
    let look = Look::of_request(&request, &before).expect("the file");
    let elsewhere = Look::around(&home.dir.path().join("home"), None, Some(&request.cwd));
    assert!(look.is_config() && elsewhere.is_none(), "only where the start was");
    assert!(Trust::of(&request.env).trust(look.read(&request.env).expect("a readable file")).1.is_ok());
    let trusted = load();
    assert_eq!((trusted.settings.prompt, trusted.settings.system_prompt.as_str()), (PromptStyle::Shell, "it"));
    assert_eq!(trusted.settings.shell.program, None);
    assert!(lines(&trusted)[0].contains("config.lua:1: shell.program: refused: a project can't choose the shell"));
    // One byte more.
    home.write("work/config.lua", "return { prompt = 'shell' } ");
    let changed = load();
    assert_eq!(changed.settings.prompt, PromptStyle::Default);
    assert!(lines(&changed)[0].contains("config.lua: warning: has changed since you trusted it"), "{changed:?}");
    home.write("work/.reedclaw.lua", "return {}");
    assert!(!Look::of_request(&request, &home.load()).expect("the file").is_config());
}

#[test]
fn the_shell_program_is_found_without_the_rest() {
    for (config, want) in [
        ("return { shell = { program = '/bin/zsh' }, nonsense = 1 }", Some("/bin/zsh")),
        ("return { shell = { program = '$HOME/../../bin/zsh' } }", None),
        ("return { shell = { program = '' } }", None),
        ("return { shell = { program = 5 } }", None),
        ("return { shell = 5 } -- program", None),
        ("while true do end -- program", None),
        ("program = = ", None),
        ("return { shell = { ['pro' .. 'gram'] = '/bin/zsh' } }", None),
    ] {
        let home = Home::with(config);
        let env = home.request().env;
        match want {
            Some(path) => assert_eq!(shell_program(&env), Some(path.into())),
            None if config.contains("HOME") => assert!(shell_program(&env).is_some()),
            None => assert_eq!(shell_program(&env), None, "{config}"),
        }
    }
    assert_eq!(shell_program(&Env::new()), None);
}

/// An arbitrary valid value of each kind, in Lua.
fn some_value(kind: Kind) -> String {
    match kind {
        Kind::Text { .. } | Kind::Secret => "'x'".into(),
        Kind::Address => "'http://evil.example'".into(),
        Kind::Times => "'01:00-02:00'".into(),
        Kind::VariableName => "'OTHER'".into(),
        Kind::Path => "'/evil'".into(),
        Kind::Choice(words) | Kind::ChoiceOrInteger(words, ..) => format!("'{}'", words.last().expect("a word")),
        Kind::Integer(least, _) => least.to_string(),
        Kind::Number(least, _) => least.to_string(),
        Kind::Bool => "false".into(),
        Kind::AlwaysTrue(_) => "true".into(),
        Kind::Words | Kind::Lines | Kind::Argv | Kind::Program => "{ 'evil' }".into(),
        Kind::Paths => "{ '/evil' }".into(),
        Kind::Programs => "{ 'evil: ask' }".into(),
        Kind::WordMap | Kind::Sources => "{ ls = 'evil' }".into(),
        Kind::Rules(words) => format!("{{ ls = '{}' }}", words.last().expect("a word")),
        Kind::Ports => "{ 22 }".into(),
    }
}

/// The settings with a project's file, which is trusted unchanged.
fn with_project(home: &Home, text: &str) -> Effective {
    home.write("work/.reedclaw.lua", text);
    let request = home.request();
    let look = Look::around(&request.cwd, None, None).expect("the file");
    let overlay = look.read(&request.env).expect("a readable file");
    let (trusted, written) = Trust::of(&request.env).trust(overlay);
    written.expect("a record");
    home.load().layers.with(&trusted, &request.env)
}

#[test]
fn no_key_that_grants_something_comes_from_a_project() {
    let home = Home::with("return { models = { a = { endpoint = 'https://api.example', key_env = 'K' } } }");
    let before = home.load().layers.rows();
    let mut refused = 0;
    for row in ROWS {
        let parts: Vec<&str> = row.path.split('.').map(|part| if part == "NAME" { "a" } else { part }).collect();
        let with = |value: String| {
            let text = parts.iter().rev().fold(value, |inner, part| format!("{{ {part} = {inner} }}"));
            with_project(&home, &format!("return {text}"))
        };
        let grants = matches!(row.project, Project::Not(_) | Project::NewLocal | Project::StricterEach(_));
        let mut effective = with(some_value(row.kind));
        if grants && row.kind == Kind::Bool && effective.problems.is_empty() {
            // That was the default, so nothing changed.
            effective = with("true".into());
        }
        if grants {
            refused += 1;
            assert_eq!(effective.layers.rows(), before, "{}", row.path);
            let shown: Vec<String> = effective.problems.iter().map(ToString::to_string).collect();
            assert!(shown.iter().any(|line| line.contains(": refused: a project can't ")), "{}: {shown:?}", row.path);
        }
        // Whatever a project does, the user's own addresses and keys don't change.
        let model = &effective.settings.models["a"];
        assert_eq!(model.endpoint, "https://api.example", "{}", row.path);
        assert_eq!(model.key, Some(KeySource::Variable("K".into())), "{}", row.path);
    }
    assert!(refused >= 8, "{refused}");
}

#[test]
fn the_secret_of_a_login_comes_from_a_variable_a_program_or_a_file() {
    for (config, source) in [
        ("client_secret_env = 'S'", KeySource::Variable("S".into())),
        ("client_secret_command = { 'pass', 's' }", KeySource::Command(vec!["pass".into(), "s".into()])),
        ("client_secret_file = '/s'", KeySource::File("/s".into())),
    ] {
        let server = format!("a = {{ url = 'https://h/mcp', oauth = {{ client_id = 'me', {config} }} }}");
        let loaded = Home::with(format!("return {{ mcp = {{ servers = {{ {server} }} }} }}")).load();
        assert_eq!(lines(&loaded), [""; 0], "{config}");
        assert_eq!(loaded.settings.mcp.servers["a"].client_secret, Some(source), "{config}");
    }
}

#[test]
fn the_example_of_a_project_holds_whole() {
    let home = Home::with("return { models = { a = { endpoint = 'http://h' } } }");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/project/.reedclaw.lua");
    let effective = with_project(&home, &fs::read_to_string(path).expect("the example"));
    assert_eq!(effective.problems, []);
    assert_eq!(effective.settings.models.len(), 2);
    // The user's only model stays the default, though it is no longer the only one.
    assert_eq!(effective.settings.default_model.as_deref(), Some("a"));
    assert!(effective.hooks.has("prompt") && effective.hooks.metas()[0].0 == "serve");
}

#[test]
fn trust_is_of_these_bytes_in_this_directory() {
    let home = Home::with("");
    let request = home.request();
    let read =
        || Look::around(&request.cwd, None, None).expect("the file").read(&request.env).expect("a readable file");
    home.write("work/.reedclaw.lua", "return { prompt = 'shell' }");
    let mut trust = Trust::of(&request.env);
    assert!(matches!(trust.judge(read()), TrustVerdict::Unknown { before: None, .. }));
    assert!(trust.trust(read()).1.is_ok());
    assert!(matches!(Trust::of(&request.env).judge(read()), TrustVerdict::Trusted(_)));
    // One byte more, and back.
    home.write("work/.reedclaw.lua", "return { prompt = 'shell' } ");
    let TrustVerdict::Unknown { before, .. } = trust.judge(read()) else { panic!("other bytes are trusted") };
    assert_eq!(before.as_deref(), Some("return { prompt = 'shell' }"));
    home.write("work/.reedclaw.lua", "return { prompt = 'shell' }");
    assert!(matches!(trust.judge(read()), TrustVerdict::Trusted(_)));
    // A record that others can write doesn't count; neither does a damaged one.
    let folder = home.dir.path().join("home/.local/state/reedclaw/trust");
    let record = fs::read_dir(&folder).expect("records").next().expect("one").expect("one").path();
    fs::set_permissions(&record, fs::Permissions::from_mode(0o620)).expect("permissions");
    assert!(matches!(trust.judge(read()), TrustVerdict::Unknown { .. }));
    fs::set_permissions(&record, fs::Permissions::from_mode(0o600)).expect("permissions");
    let text = fs::read_to_string(&record).expect("the record");
    for (old, new) in [("\"version\":1", "\"version\":0"), ("\"inode\":", "\"inode\":1"), ("{", "")] {
        fs::write(&record, text.replacen(old, new, 1)).expect("the record");
        assert!(matches!(trust.judge(read()), TrustVerdict::Unknown { .. }), "{old}");
    }
    fs::write(&record, &text).expect("the record");
    assert!(matches!(trust.judge(read()), TrustVerdict::Trusted(_)));
    assert!(trust.never(&read()).is_ok());
    assert_eq!(trust.judge(read()), TrustVerdict::Never);
    assert!(trust.forget(&read()).expect("forgotten"));
    assert!(matches!(trust.judge(read()), TrustVerdict::Unknown { before: None, .. }));
}

#[test]
fn a_files_changes_are_listed_without_running_it() {
    let home = Home::with("return { context = { max_turns = 11 } }");
    home.write(
        "work/.reedclaw.lua",
        "error('it ran')\nreturn {\n  context = { max_turns = 2 * 3 },\n  prompt = function() end,\n  \
         shell = { program = '/x' },\n  security = { forbidden_commands = { 'make' } },\n  [evil()] = 1,\n}",
    );
    let request = home.request();
    let overlay =
        Look::around(&request.cwd, None, None).expect("the file").read(&request.env).expect("a readable file");
    let (changes, is_complete) = overlay.changes(&home.load().layers);
    let shown: Vec<_> =
        changes.iter().map(|it| (it.line, it.key.as_str(), it.from.as_deref(), it.to.as_str())).collect();
    assert_eq!(
        shown,
        [
            (3, "context.max_turns", Some("11"), "2 * 3"),
            (4, "prompt", Some("\"default\""), "a function"),
            (5, "shell.program", None, "'/x'"),
            (6, "security.forbidden_commands", changes[3].from.as_deref(), "{ 'make' }"),
        ]
    );
    assert_eq!(changes[2].refused.as_deref(), Some("choose the shell"));
    assert_eq!(changes.iter().map(|it| it.adds).collect::<Vec<_>>(), [false, false, false, true]);
    assert!(!is_complete);
}

#[test]
fn the_nearest_file_counts_up_to_the_home() {
    let home = Home::with("");
    let root = home.dir.path();
    fs::create_dir_all(root.join("home/a/b")).expect("directories");
    home.write(".reedclaw.lua", "return {}");
    let from = |cwd: &str| Look::around(&root.join(cwd), Some(&root.join("home")), None);
    assert_eq!(from("home/a/b"), None);
    assert!(from("work").is_some(), "outside of the home it goes up to the root");
    home.write("home/.reedclaw.lua", "return {}");
    let of_home = from("home/a/b").expect("the home's own");
    home.write("home/a/.reedclaw.lua", "return {}");
    assert_ne!(from("home/a/b").expect("the nearer"), of_home);
    assert_eq!(from("home").expect("the home's own"), of_home);
    // A directory reached through a link is the link's target.
    symlink(root.join("home/a/b"), root.join("link")).expect("a link");
    assert_eq!(from("link"), from("home/a/b"));
}

#[test]
fn many_servers_have_their_values_and_more_than_32_are_a_problem() {
    let servers: Vec<String> = (10..44).map(|n| format!("s{n} = {{ command = {{ 'a' }}, call_ms = {n} }}")).collect();
    let text = format!("return {{ mcp = {{ servers = {{ {} }} }} }}", servers.join(", "));
    let loaded = Home::with(&text).load();
    let found = &loaded.settings.mcp.servers;
    assert_eq!((found.len(), found["s41"].times_ms), (32, [30_000, 41, 600_000, 600_000]));
    let problems = lines(&loaded);
    assert!(
        problems.len() == 1 && problems[0].ends_with("mcp.servers: has more than 32 servers; left out: s42, s43"),
        "{problems:?}"
    );
}
