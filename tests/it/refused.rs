//! The network, sockets and paths that the jail refused to a model's command: each refusal is seen, the command is offered access
//! to exactly that, and a yes opens nothing else. The built executable with a scripted model, in a session and without one.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::{Value, json};

use crate::changes::{numbered, read, work};
use crate::wall::{KEEP, output, reedclaw, results, scene, session};

#[test]
fn a_command_that_was_refused_the_network_is_offered_to_run_again() {
    // The effects of the script aren't known before it runs.
    let script = "echo run >> runs; exec 3<>/dev/tcp/nowhere.example/80";
    let home = scene(&["bash fetch.sh"], "");
    fs::write(work(home.path(), "fetch.sh"), script).expect("a script");
    let result = &results(home.path())[0];
    assert!(output(result).contains("[the network was refused: "), "{result}");
    let session = session(home.path());
    session.send(b"?please do\r");
    session.expect_text("It was refused the network: it looked for the host nowhere.example");
    session.expect_text("run once [y]");
    session.send(b"y");
    session.expect_text(KEEP);
    session.send(b"y");
    session.expect_text("that was it");
    assert_eq!(read(home.path(), "runs"), "run\n", "what the first run did is dropped");
}

#[test]
fn a_command_that_hides_that_it_was_refused_the_network_is_offered_it_once() {
    // It prints nothing and succeeds.
    let quiet = "(exec 3<>/dev/tcp/192.0.2.1/80) 2>/dev/null; echo fine";
    let home = scene(&["bash quiet.sh; echo new > b.txt", "bash quiet.sh; echo again"], "");
    fs::write(work(home.path(), "quiet.sh"), quiet).expect("a script");
    let results_unasked = results(home.path());
    assert!(output(&results_unasked[1]).starts_with("fine\nagain\n[the network was refused: "), "{results_unasked:?}");
    // A program's text doesn't count as an attempt.
    let said = scene(&["echo 'Could not resolve host: nowhere.example' >&2; exit 6"], "");
    assert!(!output(&results(said.path())[0]).contains("refused"));
    let session = session(home.path());
    session.send(b"?please do\r");
    session.expect_text("It was refused the network: it tried to reach 192.0.2.1:80");
    session.expect_text("run once [y]");
    session.send(b"n");
    session.expect_text(KEEP);
    session.send(b"y");
    // The second one isn't asked about.
    session.expect_text("that was it");
    assert_eq!(read(home.path(), "b.txt"), "new\n");
}

#[test]
fn words_that_speak_to_this_machine_open_no_network_unasked() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let speaks = format!("(exec 3<>/dev/tcp/127.0.0.1/{port}) && echo reached");
    // The rest of the line would get the network, too.
    let [plain, other] = [speaks.clone(), format!("{speaks}; sh net.sh")];
    for autonomy in ["readonly", "supervised", "full"] {
        let home = scene(&[&plain, &other], &format!("security = {{autonomy = \"{autonomy}\"}}"));
        fs::write(work(home.path(), "net.sh"), "ls /sys/class/net; cat /proc/net/route").expect("a script");
        let results = results(home.path());
        assert!(results.iter().all(|it| !output(it).contains("reached")), "{autonomy}: {results:?}");
        assert!(output(&results[0]).contains("[the network was refused: "), "{autonomy}: {results:?}");
        assert_eq!(output(&results[1]).lines().find(|line| line.starts_with("lo")), Some("lo"), "{results:?}");
    }
    // A yes gives access to the person's own server.
    let home = scene(&[&plain], "");
    let session = session(home.path());
    session.send(b"?please do\r");
    session.expect_text(&format!("no program listens at 127.0.0.1:{port} in the sandbox"));
    session.expect_text("run once [y]");
    session.send(b"y");
    session.expect_text("that was it");
    listener.set_nonblocking(true).expect("a mode");
    assert!(listener.accept().is_ok(), "it was reached");
    assert!(listener.accept().is_err(), "once");
}

#[test]
fn package_managers_ask_once_where_there_is_no_network_and_as_ever_where_there_is_one() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let retries = "echo retries=$PIP_RETRIES$npm_config_fetch_retries";
    let home = scene(&[&format!("{retries} | tee seen; (exec 3<>/dev/tcp/127.0.0.1/{port}) && echo reached")], "");
    let result = &results(home.path())[0];
    assert!(output(result).starts_with("retries=00\n"), "{result}");
    let session = session(home.path());
    session.send(b"?please do\r");
    session.expect_text("run once [y]");
    session.send(b"y");
    session.expect_text(KEEP);
    session.send(b"y");
    session.expect_text("that was it");
    assert_eq!(read(home.path(), "seen"), "retries=\n");
}

#[test]
fn a_datagram_that_names_its_address_in_a_message_header_is_seen() {
    // `sendmsg`, unlike `sendto`, has the address in memory; on a connected socket of the jail itself it has none.
    let script = "import socket\n\
                  a, b = socket.socketpair()\n\
                  a.sendmsg([b'own']); print(b.recv(9).decode())\n\
                  s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
                  try: s.sendmsg([b'x'], [], 0, ('192.0.2.7', 4242))\n\
                  except OSError: pass\n";
    let home = scene(&["python3 -IS send.py"], "");
    fs::write(work(home.path(), "send.py"), script).expect("a program");
    let result = &results(home.path())[0];
    assert!(output(result).starts_with("own\n[the network was refused: "), "{result}");
    assert!(output(result).contains("192.0.2.7:4242"), "{result}");
}

#[test]
fn a_command_is_offered_exactly_the_socket_that_it_was_refused() {
    let script = "import socket, sys\n\
                  def of(path):\n \
                  try: s = socket.socket(socket.AF_UNIX); s.connect(path); return s.recv(9).decode()\n \
                  except OSError as e: return type(e).__name__\n\
                  print(*[of(path) for path in sys.argv[1:]])\n";
    let home = scene(&["python3 -IS talk.py ~/agent.sock ~/other.sock"], "");
    fs::write(work(home.path(), "talk.py"), script).expect("a program");
    let services = ["agent.sock", "other.sock"].map(|name| {
        let service = std::os::unix::net::UnixListener::bind(home.path().join(name)).expect("a socket");
        std::thread::spawn(move || {
            for mut stream in service.incoming().flatten() {
                let _ = std::io::Write::write_all(&mut stream, b"welcome");
            }
        });
        name
    });
    let unasked = &results(home.path())[0];
    assert!(output(unasked).starts_with("FileNotFoundError FileNotFoundError\n[the socket "), "{unasked}");
    let session = session(home.path());
    session.send(b"?please do\r");
    session.expect_text(&format!("It was refused the socket {}", home.path().join(services[0]).display()));
    session.expect_text("run once [y]");
    session.send(b"y");
    // Only that one: the other one needs its own question.
    session.expect_text(&format!("It was refused the socket {}", home.path().join(services[1]).display()));
    session.expect_text("run once [y]");
    session.send(b"n");
    session.expect_text("that was it");
    session.expect_prompt();
    session.run(":show 1");
    session.expect_text("welcome FileNotFoundError");
}

#[test]
fn a_refused_command_can_run_in_the_persons_own_shell() {
    let script = "echo run >> runs; exec 3<>/dev/tcp/nowhere.example/80";
    let home = scene(&["bash fetch.sh"], "");
    fs::write(work(home.path(), "fetch.sh"), script).expect("a script");
    let session = session(home.path());
    session.send(b"?please do\r");
    session.expect_text("It was refused the network: ");
    session.expect_text("in my shell [s]");
    session.send(b"s");
    session.expect_text("that was it");
    assert_eq!(read(home.path(), "runs"), "run\n", "once, in the shell of the person");
}

#[test]
fn a_command_that_hides_that_it_was_refused_a_write_is_reported() {
    let home = scene(&["python3 put.py; echo fine"], "");
    fs::create_dir(home.path().join("other")).expect("a directory");
    // Neither the text nor the status shows the refusal; programs' settings aren't reported.
    let put = "import os\nhome = os.path.dirname(os.getcwd())\n\
               for path in ('/other/a.txt', '/.config/app/x', '/none/x'):\n    try: open(home + path, 'w').write('x')\n    \
               except OSError: pass\n";
    fs::write(work(home.path(), "put.py"), put).expect("a script");
    let result = &results(home.path())[0];
    let lines: Vec<&str> = output(result).lines().filter(|line| line.contains("was refused: ")).collect();
    let path = home.path().join("other/a.txt");
    assert!(matches!(lines[..], [only] if only.starts_with(&format!("[writing {} ", path.display()))), "{result}");
    assert!(output(result).contains("fine") && result["success"] == json!(true), "{result}");
}

#[test]
fn quiet_renames_links_modes_and_deletions_outside_are_seen() {
    let at = |home: &Path, name: &str| home.join("other").join(name).display().to_string();
    // These calls print nothing.
    let quiet = |call: &str| format!("python3 -IS -c \"import os\ntry: os.{call}\nexcept OSError: pass\"; echo fine");
    let changes = |old: &str, new: &str| {
        let made = ["rename('a.txt', 'NEW')", "link('a.txt', 'NEW')", "symlink('a.txt', 'NEW')", "mkfifo('NEW')"];
        let changed =
            ["truncate('OLD', 0)", "chmod('OLD', 0)", "utime('OLD')", "unlink('OLD')", "rename('OLD', 'b.txt')"];
        made.into_iter().chain(changed).map(|it| it.replace("NEW", new).replace("OLD", old)).collect::<Vec<String>>()
    };
    let scripts: Vec<String> = (0..9).map(|number| format!("sh {number}.sh")).collect();
    let home = scene(&scripts.iter().map(String::as_str).collect::<Vec<_>>(), "");
    fs::create_dir(home.path().join("other")).expect("a directory");
    let (old, new) = (at(home.path(), "old"), at(home.path(), "new"));
    fs::write(&old, "old\n").expect("a file");
    let changes = changes(&old, &new);
    for (number, call) in changes.iter().enumerate() {
        fs::write(work(home.path(), &format!("{number}.sh")), quiet(call)).expect("a script");
    }
    let results = results(home.path());
    for (at, (call, result)) in changes.iter().zip(&results).enumerate() {
        let told = match at {
            ..4 => format!("fine\n[writing {new} was refused: "),
            4..7 => format!("fine\n[writing {old} was refused: "),
            _ => format!("fine\n[it was refused: it tried to delete or move {old}, which is never done"),
        };
        assert!(output(result).starts_with(&told), "{call}: {result}");
    }
    assert_eq!(fs::read_to_string(old).expect("it is there"), "old\n");
}

#[test]
fn a_command_that_was_refused_a_path_is_offered_exactly_that() {
    let home = scene(&["python3 take.py", "sh put.sh"], "");
    fs::create_dir(home.path().join("out"))
        .and_then(|()| fs::create_dir(home.path().join("other")))
        .expect("directories");
    fs::write(home.path().join("out/data.csv"), "from outside\n").expect("a file");
    let data = home.path().join("out/data.csv");
    let script = format!("open('ran', 'a').write('x')\nprint(open({:?}).read())\n", data.display().to_string());
    fs::write(work(home.path(), "take.py"), script).expect("a script");
    fs::write(work(home.path(), "put.sh"), "cp a.txt ../other/a.txt\n").expect("a script");
    let result = &results(home.path())[0];
    assert!(output(result).contains(&format!("[reading {} was refused: ", data.display())), "{result}");
    let session = session(home.path());
    session.send(b"?please do\r");
    session.expect_text("It was refused reading");
    session.expect_text("run once [y]");
    session.send(b"y");
    session.expect_text(KEEP);
    session.send(b"y");
    session.expect_text("It was refused writing");
    session.expect_text("run once [y]");
    session.send(b"n");
    session.expect_text("that was it");
    assert_eq!(read(home.path(), "ran"), "x", "what the first run did is dropped");
    assert!(!home.path().join("other/a.txt").exists());
}

#[test]
fn a_granted_path_is_written_and_nothing_beside_it() {
    let home = scene(&["sh put.sh"], "");
    for name in ["other", "beside"] {
        fs::create_dir(home.path().join(name)).expect("a directory");
    }
    fs::write(home.path().join("other/a.txt"), "old\n").expect("a file");
    let put = "cp a.txt ../other/a.txt || exit 1; echo inside > b.txt; echo x > ../other/more.txt; echo x > ../beside/x; true\n";
    fs::write(work(home.path(), "put.sh"), put).expect("a script");
    let session = session(home.path());
    session.send(b"?please do\r");
    session.expect_text("It was refused writing");
    session.expect_text("Undo covers that path.");
    session.expect_text("run once [y]");
    session.send(b"y");
    // It hides the refusal of the next file, but the kernel saw it.
    session.expect_text("it tried to write");
    session.expect_text("more.txt");
    session.expect_text("run once [y]");
    session.send(b"n");
    session.expect_text(KEEP);
    session.send(b"y");
    session.expect_text("that was it");
    session.expect_prompt();
    let other = |name: &str| fs::read_to_string(home.path().join(name)).ok();
    assert_eq!((other("other/a.txt"), read(home.path(), "b.txt")), (Some(numbered(30)), "inside\n".to_owned()));
    assert_eq!((other("other/more.txt"), other("beside/x")), (None, None));
    // The receipts contain the runs and the accepted changes, and name the path; undo also reverts what is outside.
    let text = other(".local/state/reedclaw/receipts.jsonl").expect("receipts");
    assert_eq!(text.lines().filter(|line| line.contains("\"kind\":\"intent\"")).count(), 3, "{text}");
    assert_eq!(reedclaw(home.path(), &["receipt", "verify"]).0, Some(0));
    let path = home.path().join("other/a.txt").display().to_string();
    let named: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let of = |kind: &str, outside: &str| {
        named.iter().filter(|it| it["kind"] == json!(kind) && it["outside"] == json!(outside)).count()
    };
    assert_eq!((of("intent", &format!("write {path}")), of("outcome", &path)), (1, 1), "{text}");
    session.run(":steps");
    session.expect_text("[outside the workspace: ");
    let (_, shown, _) = reedclaw(home.path(), &["steps", "--diff", "2"]);
    assert!(shown.contains("+inside\n") && shown.contains(&format!("--- {path}\n")), "{shown}");
    assert!(shown.contains("-old\n+line 1\n"), "{shown}");
    session.run(":undo");
    session.expect_text("Undid step 2");
    session.expect_text("2 files");
    let both = || (read(home.path(), "b.txt"), other("other/a.txt"));
    assert_eq!(both(), ("(no file)".to_owned(), Some("old\n".to_owned())));
    session.run(":redo");
    session.expect_text("2 files");
    assert_eq!(both(), ("inside\n".to_owned(), Some(numbered(30))));
    // A later change there by another program isn't overwritten, and nothing is done by half.
    fs::write(home.path().join("other/a.txt"), "mine\n").expect("a file");
    session.run(":undo");
    session.expect_text("has changed since");
    assert_eq!(both(), ("inside\n".to_owned(), Some("mine\n".to_owned())));
}

#[test]
fn a_new_file_in_a_granted_directory_is_undone_without_anything_in_the_workspace() {
    let home = scene(&["sh put.sh"], "");
    fs::create_dir(home.path().join("other")).expect("a directory");
    fs::write(work(home.path(), "put.sh"), "cp a.txt ../other/new.txt\n").expect("a script");
    let session = session(home.path());
    session.send(b"?please do\r");
    session.expect_text("It was refused writing");
    session.expect_text("may change everything in");
    session.expect_text("run once [y]");
    session.send(b"y");
    session.expect_text("that was it");
    session.expect_prompt();
    let new = home.path().join("other/new.txt");
    assert_eq!(fs::read_to_string(&new).ok(), Some(numbered(30)));
    session.run(":undo");
    session.expect_text("Undid step 1");
    session.expect_text("1 file");
    assert!(!new.exists());
}

/// Once, the file stayed in the jail's private home, which ends with the session.
#[test]
fn what_is_agreed_to_right_in_the_home_is_made_there_and_undone() {
    let commands = [
        "echo hi > ~/new.txt; mkdir -p ~/deep/er; echo x > ~/deep/er/y; mkdir ~/deep/er/.git; echo z > b.txt",
        "cat ~/new.txt >> ~/there.txt",
    ];
    let home = scene(&commands, "");
    fs::write(home.path().join("there.txt"), "").expect("a file");
    let session = session(home.path());
    session.send(b"?please do\r");
    session.expect_text("new.txt");
    session.expect_text("run once [y]");
    assert!(!session.screen_text().contains("the sandbox can't open"), "{}", session.screen_text());
    session.send(b"y");
    session.expect_text(KEEP);
    session.send(b"y");
    session.expect_text("there.txt");
    session.expect_text("run once [y]");
    session.send(b"y");
    session.expect_text("that was it");
    session.expect_prompt();
    let own = |name: &str| fs::read_to_string(home.path().join(name)).ok();
    let all = || ["new.txt", "deep/er/y", "there.txt"].map(own);
    assert_eq!(all(), [Some("hi\n".into()), Some("x\n".into()), Some("hi\n".into())]);
    session.expect_text("/deep/er/.git as it is]");
    session.run(":undo");
    session.expect_text("Undid step");
    session.run(":undo");
    session.expect_text("Undid step");
    assert_eq!(all(), [None, None, Some(String::new())]);
    assert_eq!(read(home.path(), "b.txt"), "(no file)");
    session.run(":redo");
    session.expect_text("Redid step");
    assert_eq!((own("new.txt"), own("deep/er/y")), (Some("hi\n".into()), Some("x\n".into())));
}

/// Once, a second question offered to read the file, which wouldn't have helped.
#[test]
fn a_granted_file_that_its_mode_closes_is_not_offered_once_more() {
    let home = scene(&["cp a.txt ../other/closed.txt"], "");
    let closed = home.path().join("other/closed.txt");
    fs::create_dir(home.path().join("other")).expect("a directory");
    fs::write(&closed, "old\n").expect("a file");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o444)).expect("a mode");
    let session = session(home.path());
    session.send(b"?please do\r");
    session.expect_text("run once [y]");
    session.send(b"y");
    session.expect_text("that was it");
    assert!(!session.screen_text().contains("was refused"), "{}", session.screen_text());
    assert_eq!(fs::read_to_string(&closed).ok(), Some("old\n".to_owned()));
}

/// Once, the second run failed because the first one's directory already existed.
#[test]
fn a_command_that_runs_again_makes_its_path_of_the_home_anew() {
    let home = scene(&["mkdir ~/made && cp ~/there.txt ~/made/a && sh put.sh"], "");
    fs::write(home.path().join("there.txt"), "old\n").expect("a file");
    fs::create_dir(home.path().join("other")).expect("a directory");
    fs::write(work(home.path(), "put.sh"), "echo x > ~/other/new.txt\n").expect("a script");
    let session = session(home.path());
    session.send(b"?please do\r");
    session.expect_text("run once [y]");
    session.send(b"y");
    session.expect_text("writing");
    session.expect_text("other/new.txt");
    session.expect_text("run once [y]");
    assert!(!home.path().join("made").exists());
    session.send(b"y");
    session.expect_text("that was it");
    session.expect_prompt();
    let own = |name: &str| fs::read_to_string(home.path().join(name)).ok();
    assert_eq!((own("made/a"), own("other/new.txt")), (Some("old\n".into()), Some("x\n".into())));
}

/// Once, a script that wrote directly into the home seemed to succeed, and the person wasn't asked.
#[test]
fn what_a_script_makes_right_in_the_home_is_asked_about_and_made_there() {
    let home = scene(&["sh put.sh"], "");
    fs::write(work(home.path(), "put.sh"), "mkdir -p ~/made/x && echo hi > ~/made/x/f\n").expect("a script");
    let session = session(home.path());
    session.send(b"?please do\r");
    session.expect_text("it tried to write");
    session.expect_text("run once [y]");
    assert!(!home.path().join("made").exists());
    session.send(b"y");
    session.expect_text("that was it");
    session.expect_prompt();
    assert_eq!(fs::read_to_string(home.path().join("made/x/f")).ok(), Some("hi\n".to_owned()));
    session.run(":undo");
    session.expect_text("Undid step 1");
    assert!(!home.path().join("made/x").exists());
}

/// Once, the question named the file and the command succeeded, but the file was in the jail's private home, which ends with the
/// session: neither the person nor the model learned that.
#[test]
fn a_new_file_right_in_the_home_is_declared_lost_unless_the_users_own_shell_writes_it() {
    let home = scene(&["echo hi > ~/new.txt", "echo hi >> ~/there.txt"], "security = {tier = 'bubblewrap'}");
    fs::write(home.path().join("there.txt"), "").expect("a file");
    let session = session(home.path());
    session.send(b"?please do\r");
    let warning = "the sandbox can't open";
    session.expect_text(warning);
    session.expect_text("run once [y]");
    session.send(b"s");
    session.expect_text("there.txt");
    session.expect_text("run once [y]");
    session.send(b"y");
    session.expect_text("that was it");
    let own = |name: &str| fs::read_to_string(home.path().join(name)).unwrap_or_default();
    assert_eq!((own("new.txt"), own("there.txt")), ("hi\n".to_owned(), "hi\n".to_owned()));
}

#[test]
fn credentials_and_forbidden_paths_are_never_offered() {
    let commands = ["cat ~/.ssh/id_rsa", "sh a.sh", "sh b.sh"];
    let home = scene(&commands, "security = {forbidden_paths = {'~/closed'}}");
    for name in [".ssh/id_rsa", "closed/x"] {
        let path = home.path().join(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        fs::write(path, "secret\n").expect("a file");
    }
    fs::write(work(home.path(), "a.sh"), "cat $HOME/.ssh/id_rsa\n").expect("a script");
    fs::write(work(home.path(), "b.sh"), "cat $HOME/closed/x\n").expect("a script");
    let results = results(home.path());
    for result in &results {
        assert_eq!(result["success"], json!(false));
        assert!(!output(result).contains("was refused: ") && !output(result).contains("secret"), "{result}");
    }
    let session = session(home.path());
    session.send(b"?please do\r");
    // The person isn't asked about any of them.
    session.expect_text("that was it");
}
