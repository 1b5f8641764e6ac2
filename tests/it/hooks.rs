//! Hooks of the config in a live session: the effect of each, that a failing one is reported once and affects nothing else, and
//! the limits of a project's hooks.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::config::home;
use crate::pty::{Key, PROMPT, Session, Spawn, cursor_line};
use crate::server::{Server, answer};

const CONFIG: &str = ".config/reedclaw/config.lua";

/// A session whose config contains these lines.
fn session(lines: &str) -> Session {
    let config = format!("return {{\n{lines}\n}}\n");
    let session = Session::spawn(Spawn::reedclaw().file(CONFIG, &config).size(40, 160));
    session.expect_prompt();
    session
}

/// Waits until the cursor's line is this text, ignoring the right edge.
#[track_caller]
fn expect_line_of_cursor(session: &Session, line: &str) {
    session.expect(&format!("{line:?} at the prompt"), |screen| cursor_line(screen).starts_with(line));
}

#[test]
fn prompt_and_right_prompt_show_the_texts_of_their_hooks() {
    let session = session(
        "hooks = {\n  prompt = function(ctx) return \"\\27[32m<\" .. ctx.directory .. \":\" .. ctx.status .. \">\\27[0m\\27]0;x\\7 \" end,\n  \
         right_prompt = function(ctx) return \"R\" .. ctx.columns end,\n}",
    );
    expect_line_of_cursor(&session, "<~:0>");
    session.expect("the right prompt", |screen| cursor_line(screen).ends_with("R160"));
    session.line("mkdir d; cd d; false");
    session.expect("the new prompt", |screen| cursor_line(screen).starts_with("<~/d:1>"));
    assert!(memchr::memmem::find(&session.raw(), b"\x1b]0;x").is_none(), "a title passed");
}

#[test]
fn a_function_at_the_top_is_the_same_hook_and_nil_is_the_default() {
    let session = session("prompt = function(ctx) if ctx.status == 3 then return \"three \" end end");
    session.run("(exit 3)");
    session.expect("the hook's prompt", |screen| cursor_line(screen).starts_with("three"));
    session.run("true");
    session.expect("the default", |screen| cursor_line(screen).starts_with("~ ❯"));
}

#[test]
fn the_route_hook_decides_before_the_rules_but_not_before_the_user() {
    let server = Server::start();
    let hook = "editor = {autosuggest = false},\nroute = function(line, ctx)\n  if line == 'deploy now please' then return 'shell' end\n  \
                if line:match('^echo ask') then return 'ask' end\nend";
    let session =
        Session::spawn(server.shell("", hook).file("bin/deploy", "#!/bin/sh\necho deployed-$#\n").size(40, 80));
    let path = session.home().join("bin/deploy");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("permissions");
    session.run("PATH=$HOME/bin:$PATH");
    session.run("deploy now please");
    session.expect_line("deployed-2");
    session.run(":why");
    session.expect_text("the route hook of your config says so");
    // The glyph shows the hook's route while the line is typed, and a prefix takes precedence.
    session.type_text("echo ask");
    session.expect("the model's glyph", |screen| cursor_line(screen).ends_with("? echo ask"));
    session.press(Key::Ctrl('t'));
    session.expect("the shell's glyph", |screen| cursor_line(screen).ends_with(&format!("{PROMPT} echo ask")));
    session.press(Key::Enter);
    session.expect_line("ask");
    session.run("!echo ask-$((1+1))");
    session.expect_line("ask-2");
    assert_eq!(server.requests(), 0);
    session.run("echo ask me");
    assert!(server.request(1).content(-1).ends_with("echo ask me"));
}

#[test]
fn the_complete_hook_comes_first_and_nil_leaves_it_to_the_rest() {
    let session = session(
        "complete = function(line, pos)\n  if line:sub(1, pos):match('^deploy ') then\n    \
         return { 'staging', { value = 'live', description = 'the real one' }, 'bad\\27[2J', 'lively' }\n  end\nend",
    );
    session.type_text("deploy st\t");
    session.expect("the word", |screen| cursor_line(screen).ends_with("deploy staging"));
    session.interrupt();
    session.type_text("deploy li\t");
    session.expect_text("the real one");
    session.interrupt();
    session.type_text(":rese\t");
    session.expect("a meta command", |screen| cursor_line(screen).ends_with(":reset"));
    session.interrupt();
}

#[test]
fn hooks_receive_commands_directories_and_answers() {
    let server = Server::start();
    let hooks = "hooks = {\n  on_command = function(cmd, o) return 'told ' .. cmd .. ' ' .. o.status end,\n  \
                 on_directory = function(path) return 'now in ' .. path:match('[^/]*$') end,\n  \
                 on_answer = function(text) return 'heard ' .. #text end,\n}";
    server.reply(answer("four"));
    let session = Session::spawn(server.shell("", hooks).size(40, 80));
    session.run("mkdir there; (exit 5)");
    session.expect_line("told mkdir there; (exit 5) 5");
    session.run("cd there");
    session.expect_line("now in there");
    session.run("?what is it");
    session.expect_line("heard 4");
    // A line that begins with a space is not passed to hooks.
    session.run("clear");
    server.reply(answer("fifty"));
    session.run(" ?what else is it");
    session.expect_line("fifty");
    assert!(!session.screen_text().contains("heard"), "{}", session.screen_text());
    session.run(" echo quiet-$((1+1))");
    session.expect_line("quiet-2");
    assert!(!session.screen_text().contains("told  echo"), "{}", session.screen_text());
}

/// A secret in such a line stays out of the history; a hook, also a project's, could show it later.
#[test]
fn a_line_that_begins_with_a_space_is_not_shown_to_hooks() {
    let config = "local seen = {}\nlocal function see(line) seen[#seen + 1] = line end\nreturn {\n  \
                  editor = { autosuggest = false },\n  route = see,\n  complete = see,\n  keys = {\n    \
                  ['alt-w'] = function(ctx) return '<' .. table.concat(seen) .. '> at <' .. ctx.line .. '>' end,\n  },\n}\n";
    let session = Session::spawn(Spawn::reedclaw().file(CONFIG, config).size(40, 160));
    session.expect_prompt();
    session.type_text(" export TOKEN=hunter2\t");
    session.press(Key::Alt('w'));
    session.expect_line("<> at <>");
    session.interrupt();
    session.type_text("cd x");
    session.expect("the line, which has been routed", |screen| cursor_line(screen).ends_with("❯ cd x"));
    session.press(Key::Alt('w'));
    session.expect_text("cd x> at <cd x>");
    session.interrupt();
}

#[test]
fn keys_insert_give_orders_and_call() {
    let session = session(
        "keys = {\n  ['ctrl-g'] = { insert = 'echo ' },\n  f5 = { meta = ':why' },\n  \
         ['alt-q'] = function(ctx) return { insert = '[' .. ctx.line .. ']' } end,\n  \
         ['alt-x'] = function() return { exec = 'echo by-key-$((20+3))' } end,\n  \
         ['alt-w'] = function(ctx) return 'printed ' .. #ctx.line end,\n},\neditor = { autosuggest = false }",
    );
    session.press(Key::Ctrl('g'));
    session.type_text("one");
    session.expect("the inserted text", |screen| cursor_line(screen).ends_with("❯ echo one"));
    session.press(Key::Alt('q'));
    session.expect("what the function gave", |screen| cursor_line(screen).ends_with("❯ echo one[echo one]"));
    session.press(Key::Alt('w'));
    session.expect_line("printed 18");
    session.expect("the line again", |screen| cursor_line(screen).ends_with("❯ echo one[echo one]"));
    session.press(Key::Alt('x'));
    session.expect_line("by-key-23");
    session.expect("the line still", |screen| cursor_line(screen).ends_with("❯ echo one[echo one]"));
    session.press(Key::Enter);
    session.expect_line("one[echo one]");
    session.expect_prompt();
    session.send(b"\x1b[15~");
    session.expect_text("went to the shell");
    session.run("echo alive-$((1+1))");
    session.expect_line("alive-2");
}

#[test]
fn own_meta_commands_run_insert_ask_and_print() {
    let server = Server::start();
    let metas = "editor = {autosuggest = false},\nmeta = {\n  deploy = { help = 'deploys it', run = function(args) return { exec = 'echo to-' .. args } end },\n  \
                 draft = { help = 'drafts', run = function(args) return { insert = 'echo ' .. args } end },\n  \
                 tell = { help = 'tells', run = function(args) return { ask = 'about ' .. args } end },\n  \
                 say = { help = 'says', run = function() return 'said' end },\n  quit = function() return 'never' end,\n}";
    let session = Session::spawn(server.shell("", metas).size(50, 100));
    session.expect_text("meta.quit: :quit is one of ReedClaw's own; yours is not used");
    session.run(":deploy live");
    session.expect_line("$ echo to-live");
    session.expect_line("to-live");
    session.run(":say");
    session.expect_line("said");
    session.line(":draft x");
    session.expect("the draft", |screen| cursor_line(screen).ends_with("❯ echo x"));
    session.interrupt();
    session.run(":tell it");
    assert!(server.request(1).content(-1).ends_with("about it"));
    session.run("clear");
    session.run(":help own");
    session.expect_text("deploys it");
    assert!(!session.screen_text().contains("your own"), "a command that is never used: {}", session.screen_text());
    session.type_text(":depl\t");
    session.expect("the completed name", |screen| cursor_line(screen).ends_with(":deploy"));
    session.interrupt();
    session.run("true");
    session.line(":quit");
    assert_eq!(session.expect_exit().code(), Some(0));
}

#[test]
fn a_failed_hook_is_reported_once_and_off_until_reload() {
    for (hook, want) in [
        ("function() error('no \\27[2Jway') end", "config.lua:2: on_command: no"),
        ("function() while true do end end", "on_command: did not end within 5 ms"),
        ("function() return string.rep('x', 1e9) end", "on_command: needs more than 32 MiB of memory"),
        ("function() return ('a'):rep(40):match(('a*'):rep(30) .. 'b') end", "on_command: did not end within 5 ms"),
        ("function() return 7 end", "on_command: gave 7, not a string or nil"),
    ] {
        let session = session(&format!("on_command = {hook},\neditor = {{ autosuggest = false }}"));
        session.run("true");
        let want = want.replace("a integer", "a");
        session.expect_text(want.split(", not").next().expect("a part"));
        session.expect_text("it is off until :config reload");
        session.run("clear");
        session.run("echo alive-$((1+1))");
        session.expect_line("alive-2");
        assert!(!session.screen_text().contains(": on_command"), "{hook}: {}", session.screen_text());
        session.run(":config reload");
        session.run("clear");
        session.run("true");
        session.expect_text("on_command");
    }
}

#[test]
fn broken_prompt_route_and_complete_hooks_leave_the_defaults() {
    let session = session(
        "hooks = { prompt = function() return {} end, right_prompt = function() error('r') end,\n  \
         route = function() while true do end end, complete = function() return 5 end },\neditor = { autosuggest = false }",
    );
    session.expect_text("prompt: gave a table, not a string or nil; it is off until :config reload");
    session.expect_text("right_prompt: r");
    session.expect("the default prompt", |screen| cursor_line(screen).starts_with("~ ❯"));
    session.type_text("ech\t");
    session.expect("completion of our own", |screen| cursor_line(screen).contains("echo"));
    session.interrupt();
    session.run("echo alive-$((1+1))");
    session.expect_line("alive-2");
    session.expect_text("route: did not end within 5 ms");
    session.expect_text("complete: gave 5, not a list of strings");
}

#[test]
fn reload_reads_the_config_and_ignores_a_broken_file() {
    let session = session("prompt = \"default\"");
    let config = session.home().join(CONFIG);
    session.run("clear");
    fs::write(
        &config,
        "return { hooks = { prompt = function() return 'new ' end }, keys = { f5 = { insert = 'by-f5' } } }",
    )
    .expect("the config");
    session.line(":config reload");
    session.expect("the new prompt", |screen| cursor_line(screen).starts_with("new ❯"));
    session.send(b"\x1b[15~");
    session.expect("the new key", |screen| cursor_line(screen).ends_with("by-f5"));
    session.interrupt();
    fs::write(&config, "return { context = { max_turns = 0 }, prompt = ").expect("the config");
    session.line(":config reload");
    session.expect_text("config.lua:1: ");
    session.expect_text("the previous settings stay");
    session.expect("the prompt from before", |screen| cursor_line(screen).starts_with("new ❯"));
    // A broken key affects only that key, as at the start.
    fs::write(&config, "return { context = { max_turns = 0 }, prompt = 'default' }").expect("the config");
    session.line(":config reload");
    session.expect_text("context.max_turns");
    session.expect("the default prompt", |screen| cursor_line(screen).starts_with("~ 130 ❯"));
    session.run("echo alive-$((1+1))");
    session.expect_line("alive-2");
}

#[test]
fn edit_opens_the_config_and_reads_it_again() {
    let editor = "#!/bin/sh\necho \"return { prompt = function() return 'edited ' end }\" > \"$1\"\n";
    let spawn = Spawn::reedclaw().file("bin/ed", editor).env("EDITOR", "sh bin/ed").size(40, 120);
    let session = Session::spawn(spawn);
    session.expect_prompt();
    session.line(":config edit");
    session.expect("the edited prompt", |screen| cursor_line(screen).starts_with("edited ❯"));
    session.run(":config path");
    session.expect_text("/.config/reedclaw/config.lua");
    session.run(":config nonsense");
    session.expect_text(":config show, reload, edit, path, trust or untrust");
}

#[test]
fn keys_of_models_come_from_a_program_or_a_private_file() {
    let server = Server::start();
    let endpoint = server.endpoint();
    let config = format!(
        "return {{ default_model = 'p', models = {{\n p = {{ endpoint = '{endpoint}', key_command = {{ 'sh', '-c', 'echo run >> runs; echo sk-program' }} }},\n \
         f = {{ endpoint = '{endpoint}', key_file = '~/key', aliases = {{ 'file' }} }},\n \
         l = {{ endpoint = '{endpoint}', key = 'sk-literal' }},\n b = {{ endpoint = '{endpoint}', key_command = {{ 'false' }} }} }} }}"
    );
    let session = Session::spawn(Spawn::reedclaw().file(CONFIG, &config).file("key", "sk-file\n").size(40, 120));
    session.expect_text("config.lua:4: models.l.key: warning: a key in a config is read by whoever sees the config");
    session.run("?one");
    session.run("?two");
    for number in [1, 2] {
        assert!(server.request(number).head.contains("Bearer sk-program"), "{}", server.request(number).head);
    }
    assert_eq!(fs::read_to_string(session.home().join("runs")).expect("the runs"), "run\n");
    session.run(":model file");
    session.expect_text("f answers from now on");
    session.run("?three");
    session.expect_text("the key of f can't be read: ");
    session.expect_text("others can read it (chmod 600 makes it yours alone)");
    fs::set_permissions(session.home().join("key"), fs::Permissions::from_mode(0o600)).expect("permissions");
    session.run("?four");
    assert!(server.request(3).head.contains("Bearer sk-file"), "{}", server.request(3).head);
    session.run(":model l");
    session.run("?five");
    assert!(server.request(4).head.contains("Bearer sk-literal"));
    session.run(":model b");
    session.run("?six");
    session.expect_text("the key of b can't be read: false: it failed");
    assert!(!String::from_utf8_lossy(&session.raw()).contains("sk-"));
}

#[test]
fn hooks_of_a_project_come_and_go_and_run_nothing() {
    let project = "return {\n  prompt = function(ctx) return 'project ' end,\n  on_directory = function(p) return 'entered' end,\n  \
                   keys = { f5 = { insert = 'echo five' }, f6 = function() return { exec = 'touch evil' } end },\n  \
                   meta = { build = { help = 'b', run = function() return { exec = 'touch evil' } end },\n    \
                   tell = function() return { ask = 'secrets' } end, draft = function() return { insert = 'touch evil' } end },\n}\n";
    let own = "return { editor = { autosuggest = false }, hooks = { prompt = function() return 'own ' end } }";
    let home = home(&[("p/.reedclaw.lua", project), (CONFIG, own)]);
    let session = Session::spawn(Spawn::reedclaw().home(home.path()).size(50, 120));
    session.expect("the user's prompt", |screen| cursor_line(screen).starts_with("own ❯"));
    session.line("cd p");
    session.expect_text("trust [t]");
    session.expect_text("line 2: prompt: \"default\" → a function");
    session.type_text("t");
    session.expect_line("entered");
    session.expect("the project's prompt", |screen| cursor_line(screen).starts_with("project ❯"));
    session.send(b"\x1b[15~");
    session.expect("the project's key", |screen| cursor_line(screen).ends_with("❯ echo five"));
    session.interrupt();
    session.send(b"\x1b[17~");
    session.expect_text("keys[\"f6\"]: refused: a project can't run a command by a hook; only your own config can");
    session.expect_prompt();
    session.run(":build");
    session.expect_text("meta.build: refused: a project can't run a command by a hook; only your own config can");
    session.run(":tell");
    session.expect_text("meta.tell: refused: a project can't ask the model by a hook");
    // Typed ahead, the second Enter doesn't submit a line that the person hasn't read.
    session.send(b":draft\r\r");
    session.expect("the draft", |screen| cursor_line(screen).ends_with("❯ touch evil"));
    session.interrupt();
    session.line("cd");
    session.expect("the user's prompt again", |screen| cursor_line(screen).starts_with("own ❯"));
    session.run(":build");
    session.expect_text("there is no command :build");
    assert!(!home.path().join("p/evil").exists());
}

#[test]
fn a_hook_of_a_project_that_fails_leaves_the_users() {
    let project = "local n = 0\nreturn { prompt = function()\n  n = n + 1\n  if n > 1 then while true do end end\n  return 'project '\nend }\n";
    let own = "return { hooks = { prompt = function() return 'own ' end } }";
    let home = home(&[("p/.reedclaw.lua", project), (CONFIG, own)]);
    let session = Session::spawn(Spawn::reedclaw().home(home.path()).cwd(&home.path().join("p")).size(40, 120));
    session.expect_text("trust [t]");
    session.type_text("t");
    session.expect("a prompt of one of them", |screen| {
        let line = cursor_line(screen);
        line.starts_with("project ❯") || line.starts_with("own ❯")
    });
    session.run("true");
    session.expect("the user's prompt", |screen| cursor_line(screen).starts_with("own ❯"));
    session.run("true");
    session.expect_text("~/p/.reedclaw.lua:4: prompt: did not end within 5 ms");
}
