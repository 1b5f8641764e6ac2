//! Places and pairs of commands that one row of the table can't express: a workspace in an odd place, files that one command
//! leaves in its private home for the next, and the network of a job.

use super::*;

/// Runs a test here and, if the user is root, again as an ordinary user.
fn as_both(test: impl FnOnce()) {
    test();
    if let Some(failure) = again_as_other() {
        panic!("{failure}");
    }
}

impl Column {
    fn overlay() -> Option<Self> {
        Self::new("overlay-copy")
    }

    /// Runs a script on a copy, or in another view.
    fn script(&self, scene: &Scene, script: &str, change: impl FnOnce(&mut Grant)) -> (bool, String) {
        let (view, _layer) = self.view(scene);
        let mut grant = scene.grant(&self.outside, view);
        change(&mut grant);
        self.end_of(self.command(script, &grant))
    }

    fn command(&self, script: &str, grant: &Grant) -> Command {
        let words = ["--noprofile", "--norc", "-c", script].map(OsString::from);
        self.sandbox.command(OsStr::new("bash"), &words, grant).expect("a command")
    }
}

#[test]
fn files_left_in_a_private_home_do_not_affect_the_next_command() {
    as_both(|| {
        let Some(mut column) = Column::overlay() else { return };
        let scene = Scene::new(&mut column.outside);
        fs::create_dir_all(scene.home().join("deep/project")).expect("a folder");
        let deep = Scene { work: scene.home().join("deep/project"), top: scene.top.clone(), _held: scene._held };
        let before = column.outside.state(&deep);
        // Links at the paths of the next jail's mount points, in the home and in `/tmp`, and at the path of a tool that appears
        // later.
        let plants = "cd ~; mv deep d; ln -s $OUT deep; ln -s $OUT .cargo; ln -s $OUT .local; ln -s $OUT /tmp/project; \
                      ln -s $OUT/canary.txt .gitconfig; echo planted";
        let (is_done, text) = column.script(&deep, plants, |_| ());
        assert!(is_done, "{text}");
        fs::create_dir_all(deep.home().join(".cargo/bin")).expect("a folder");
        fs::create_dir_all(deep.home().join(".local/bin")).expect("a folder");
        fs::write(deep.home().join(".gitconfig"), "").expect("a file");
        let with_tools = column.outside.state(&deep);
        let (is_done, text) = column.script(&deep, "pwd; echo new >new.txt; ls; ls -d ~/.cargo/x; true", |_| ());
        assert!(is_done && text.contains("new.txt"), "{text}");
        assert!(text.starts_with(deep.work.to_str().expect("UTF-8")), "{text}");
        assert_eq!(difference(&with_tools, &column.outside.state(&deep)), [""; 0]);
        assert!(before.len() < with_tools.len() && !deep.work.join("new.txt").exists());
        assert_eq!(fs::read_dir(deep.top.join("outside")).expect("a list").count(), 2, "nothing was made outside");
    });
}

#[test]
fn no_other_command_changes_the_home_of_agreed_ones_or_of_checks() {
    use reedclaw::sandbox::Area;
    as_both(|| {
        let Some(mut column) = Column::overlay() else { return };
        let scene = Scene::new(&mut column.outside);
        let script = |area: Area, script: &str| {
            let (is_done, text) = column.script(&scene, script, |grant| grant.area = area);
            assert!(is_done, "{area:?}, {script}: {text}");
            text
        };
        script(
            Area::Session,
            "mkdir -p ~/.config/git ~/bin /tmp/bin; echo evil | tee ~/.config/git/config ~/bin/make >/tmp/bin/x",
        );
        let planted = "cat ~/.config/git/config ~/bin/make ~/.moved/p/one /tmp/bin/x /var/tmp/new 2>/dev/null";
        let fetch = "echo log >/tmp/log; mkdir -p ~/.cache/p; echo fetched | tee ~/.cache/p/one >~/.cache/p/two";
        assert_eq!(script(Area::Agreed, &format!("{planted}; {fetch}")), "", "what was planted isn't seen");
        // All sandboxes see the downloaded files. Each changes them only for itself, and its changes persist.
        let change = "cat ~/.cache/p/*; echo changed >>~/.cache/p/one; rm ~/.cache/p/two; mv ~/.cache ~/.moved; \
                      ln -s $OUT ~/.cache; cat ~/bin/make /tmp/log; rm /tmp/log; echo evil >/var/tmp/new";
        assert_eq!(script(Area::Session, change), "fetched\nfetched\nevil\nlog\n");
        assert_eq!(script(Area::Session, "ls ~/.moved/p; cat ~/.moved/p/one"), "one\nfetched\nchanged\n");
        let check = format!("{planted}; cat ~/.cache/p/* /tmp/log; echo built >~/.built");
        assert_eq!(script(Area::Checks, &check), "fetched\nfetched\nlog\n");
        assert_eq!(script(Area::Checks, "cat ~/.built"), "built\n");
        assert_eq!(script(Area::Agreed, &format!("{planted}; cat ~/.cache/p/* /tmp/log")), "fetched\nfetched\nlog\n");
        // Two programs that run at the same time share a home.
        let (view, _layer) = column.view(&scene);
        let mut first =
            column.command("echo first >~/first; printf +; read _; cat ~/second", &scene.grant(&column.outside, view));
        let mut first = first.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
        let mut out = first.stdout.take().expect("its output");
        out.read_exact(&mut [0]).expect("it has begun");
        script(Area::Session, "cat ~/first; echo second >~/second");
        drop(first.stdin.take());
        let mut text = String::new();
        out.read_to_string(&mut text).expect("its output");
        assert!(first.wait().expect("it ends").success(), "{text}");
        assert_eq!(text, "second\n");
    });
}

/// For a moment the name of a removed or replaced file leads to the file itself, and can't be a mount point.
#[test]
fn programs_start_while_somebody_replaces_and_removes_what_is_locked_and_hidden() {
    let Some(mut column) = Column::new("overlay-work") else { return };
    let scene = Scene::new(&mut column.outside);
    let locked = [".envrc", "AGENTS.md", "CLAUDE.md", ".gitlab-ci.yml"].map(|name| scene.work.join(name));
    let [hidden, new] = ["secret", "new"].map(|name| scene.work.join(name));
    let write = |path: &Path| fs::write(path, SECRET).expect("a file");
    let replace = || {
        for path in &locked {
            write(&new);
            fs::rename(&new, path).expect("it is replaced");
        }
        fs::remove_file(&hidden).expect("it is removed");
        write(&hidden);
    };
    locked.iter().chain([&hidden]).for_each(|path| write(path));
    let (has_ended, began) = (AtomicBool::new(false), Instant::now());
    let goes_on = || !has_ended.load(Ordering::Relaxed) && began.elapsed() < CASE_TIME;
    let ends: Vec<(bool, String)> = std::thread::scope(|scope| {
        scope.spawn(|| std::iter::repeat_with(replace).take_while(|()| goes_on()).count());
        let ends = (0..30).map(|_| column.script(&scene, "echo started", |_| ())).collect();
        has_ended.store(true, Ordering::Relaxed);
        ends
    });
    assert_eq!(ends, vec![(true, "started\n".to_owned()); 30]);
}

#[test]
fn a_home_as_the_workspace_shows_no_secret() {
    as_both(|| {
        let Some(mut column) = Column::overlay() else { return };
        let scene = Scene::new(&mut column.outside);
        let home = Scene { work: scene.home(), top: scene.top.clone(), _held: scene._held };
        let before = (column.outside.state(&home), fingerprint(&home.work, &[]));
        let layer = column.sandbox.layer(&home.work).expect("a layer");
        let grant = home.grant(&column.outside, View::Copy(Arc::clone(&layer)));
        let script =
            "grep -rs SECRET-KEY . ; echo x >.bashrc; echo x >.ssh/authorized_keys; mv .ssh s; cat s/id_rsa; true";
        let (is_done, text) = column.end_of(column.command(script, &grant));
        assert!(is_done && !text.contains(SECRET), "{text}");
        let changes = collect(
            &layer,
            &Layers::open([home.work.as_path()]).expect("the workspace opens"),
            &CollectLimits::default(),
        )
        .expect("changes");
        let paths: Vec<_> = changes.items.iter().map(|it| it.path.display().to_string()).collect();
        assert_eq!(paths, [".bashrc"]);
        assert_eq!(difference(&before.0, &column.outside.state(&home)), [""; 0]);
        assert_eq!(difference(&before.1, &fingerprint(&home.work, &[])), [""; 0]);
        let grant = Grant { workspace: "/".into(), ..home.grant(&column.outside, View::Look) };
        let refused = column.sandbox.command(OsStr::new("true"), &[], &grant).expect_err("a refusal");
        assert!(refused.message.contains("it holds the whole system"), "{refused}");
    });
}

#[test]
fn a_file_of_somebody_else_stays() {
    as_both(|| {
        let Some(place) = std::env::var_os(AGAIN) else { return };
        let Some(mut column) = Column::overlay() else { return };
        let scene = Scene::new(&mut column.outside);
        // Anyone may write the file, and the directory is ours. A copy of the file would be ours, too, so none is made.
        let foreign = Path::new(&place).join("foreign/overlay-copy");
        fs::rename(foreign, scene.work.join("theirs.txt")).expect("a file");
        let (is_done, text) = column.script(&scene, "echo more >>theirs.txt", |_| ());
        assert!(!is_done, "{text}");
        let data = fs::metadata(scene.work.join("theirs.txt")).expect("a file");
        assert_eq!((data.uid(), data.len()), (0, 7));
    });
}

/// Marks the process in which this test runs again, in its own mount namespace.
const MOUNTED: &str = "REEDCLAW_TEST_ESCAPE_MOUNTED";

#[test]
fn a_workspace_with_a_mount_below_gets_another_tier() {
    if let Some(work) = std::env::var_os(MOUNTED) {
        let state = Path::new(&work).with_file_name("wall");
        let place = Place { state: Some(state), workspace: Some(work.into()), ..Place::default() };
        let overlay = Sandbox::of_tier(Mode::Require, Tier::Overlay, program(), &place);
        assert!(overlay.expect_err("a refusal").contains("another file system is mounted"));
        let other = Sandbox::detect(Mode::Require, program(), &place);
        assert!(other.tier() < Tier::Overlay && other.tier() > Tier::None, "{:?}", other.tier());
        return;
    }
    if !crate::need::require_root() || !require(&["unshare", "mount"]) {
        return;
    }
    let dir = tempfile::tempdir_in(outside_of_tmp()).expect("a directory");
    fs::create_dir_all(dir.path().join("work/below")).expect("a folder");
    let name = std::thread::current().name().expect("the test's name").to_owned();
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", "mount -t tmpfs none \"$1/below\" && exec \"$0\" --exact \"$2\""]);
    command.arg(std::env::current_exe().expect("this test")).arg(dir.path().join("work")).arg(name);
    let ended = command.env(MOUNTED, dir.path().join("work")).output().expect("it runs");
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stdout));
}

/// A program that requests a page from a port of its loopback.
const GETS: &str = "import sys, urllib.request as r; print(r.urlopen(f'http://127.0.0.1:{sys.argv[1]}/own.txt', timeout=5).read().decode())";

#[test]
fn the_server_of_a_job_is_reached_by_the_next_command_and_not_from_outside() {
    as_both(|| {
        let Some(mut column) = Column::overlay() else { return };
        let scene = Scene::new(&mut column.outside);
        let git = scene.bash("git init -q .; mkdir -p .git/hooks; echo x >.git/hooks/x", &column.outside).status();
        assert!(git.expect("git runs").success());
        let job = |script: &str, network: bool| {
            let grant = Grant { network, ..scene.grant(&column.outside, View::Work) };
            let mut command = column.command(script, &grant);
            let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("a job");
            let mut byte = [0];
            let read = child.stdout.as_mut().expect("its output").read(&mut byte).expect("a byte");
            assert_eq!((read, &byte), (1, b"+"), "the job says when it serves");
            child
        };
        let port = column.outside.variables["PORT"].to_str().expect("UTF-8").parse::<u16>().expect("a port");
        // The port is in use outside: the job's loopback is another one.
        let serves = format!(
            "python3 -IS -c \"import http.server as h; s = h.HTTPServer(('127.0.0.1', {port}), h.SimpleHTTPRequestHandler); \
             print('+', end='', flush=True); s.serve_forever()\" 2>/dev/null"
        );
        let mut server = job(&serves, false);
        let gets = format!("python3 -IS -c \"{GETS}\" {port}");
        let of = |child: &Child| Some(child.id());
        let (is_reached, text) = column.script(&scene, &gets, |grant| grant.network_of = of(&server));
        assert!(is_reached && text == "mine\n\n", "{text}");
        let (is_reached, text) = column.script(&scene, &gets, |_| ());
        assert!(!is_reached, "without the job's network: {text}");
        assert!(column.outside.tcp.accept().is_err(), "somebody connected outside");
        // It has the same restrictions as every other command.
        let (is_done, _) = column.script(&scene, "python3 -IS $PROBE tcp4_out", |grant| grant.network_of = of(&server));
        assert!(!is_done && column.outside.tcp.accept().is_err());
        // Files that other programs run are locked, other files are written directly.
        let mut writer =
            job("echo x >made.txt; echo x >.git/hooks/x; echo x >>.git/config; mv .git g; printf +; sleep 60", false);
        assert!(scene.work.join("made.txt").exists() && !scene.work.join("g").exists());
        assert_eq!(fs::read_to_string(scene.work.join(".git/hooks/x")).expect("a hook"), "x\n");
        assert!(!fs::read_to_string(scene.work.join(".git/config")).expect("a file").contains("x\n"));
        // A job with the machine's network doesn't lend it to a command without one, and neither does a job that has ended.
        let mut granted = job("printf +; sleep 60", true);
        let out = "python3 -IS $PROBE host_loopback_port";
        let (is_done, text) = column.script(&scene, out, |grant| grant.network_of = of(&granted));
        assert!(!is_done && column.outside.tcp.accept().is_err(), "{text}");
        for child in [&mut server, &mut writer, &mut granted] {
            assert!(end(child.id(), Duration::from_millis(50)));
            child.wait().expect("its end");
        }
        let (is_done, text) = column.script(&scene, "echo alone", |grant| grant.network_of = of(&server));
        assert!(is_done && text == "alone\n", "{text}");
    });
}

#[test]
fn a_socket_that_was_named_by_a_relative_path_is_covered() {
    as_both(|| {
        let Some(mut column) = Column::overlay() else { return };
        let scene = Scene::new(&mut column.outside);
        let listens = "import socket, sys, time; s = socket.socket(socket.AF_UNIX); s.bind('deep/own.sock'); s.listen(); \
                       print('+', end='', flush=True); time.sleep(60)";
        fs::create_dir(scene.work.join("deep")).expect("a folder");
        let mut service = Command::new("/usr/bin/python3");
        service.args(["-IS", "-c", listens]).current_dir(&scene.work).stdout(Stdio::piped());
        let mut service = service.spawn().expect("a service");
        let mut byte = [0];
        service.stdout.as_mut().expect("its output").read_exact(&mut byte).expect("it listens");
        let connects = "python3 -IS -c \"import socket; socket.socket(socket.AF_UNIX).connect('deep/own.sock')\"";
        for view in [View::Work, View::Look] {
            let (is_reached, text) = column.script(&scene, connects, |grant| grant.view = view);
            assert!(!is_reached, "{text}");
        }
        service.kill().and_then(|()| service.wait()).expect("its end");
    });
}

/// The policy hasn't judged what it reads, so it sees no home; the parts with tools are open except for their credentials.
#[test]
fn a_first_look_sees_no_home_and_what_it_would_write_is_noted() {
    as_both(|| {
        for name in ["bubblewrap-first", "landlock-first"] {
            let Some(mut column) = Column::new(name) else { continue };
            let scene = Scene::new(&mut column.outside);
            for (name, text) in
                [("notes.txt", "PRIVATE-NOTE"), (".cargo/bin/tool", "a tool"), (".cargo/credentials.toml", SECRET)]
            {
                let path = scene.home().join(name);
                fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
                fs::write(path, text).expect("a file");
            }
            let layer = column.sandbox.layer(&scene.work).expect("a layer");
            let grant = scene.grant(&column.outside, View::First(Arc::clone(&layer)));
            let script = "cat own.txt ~/.cargo/bin/tool ~/notes.txt ~/.cargo/credentials.toml; ls ~; echo more >>own.txt; \
                          mkdir made; rm sub/deep.txt; echo x >$TMPDIR/x && cat $TMPDIR/x";
            let (_, text) = column.end_of(column.command(script, &grant));
            assert!(text.contains("mine\n") && text.contains("a tool") && text.contains("\nx\n"), "{name}: {text}");
            assert!(!text.contains("PRIVATE-NOTE") && !text.contains(SECRET), "{name}: {text}");
            assert_eq!(fs::read_to_string(scene.work.join("own.txt")).expect("the file"), "mine\n");
            assert!(scene.work.join("sub/deep.txt").exists() && !scene.work.join("made").exists());
            let work = scene.work.canonicalize().expect("a path");
            let noted = ["own.txt", "made"].map(|name| Missed::Write(work.join(name)));
            let noted = [&noted[..], &[Missed::Remove(work.join("sub/deep.txt"))]].concat();
            // Refusals inside bubblewrap can't be observed.
            assert_eq!(layer.missed(), (name == "landlock-first").then_some(noted), "{name}: {text}");
        }
    });
}

/// A command that writes the workspace directly could move the directory of a forbidden path, and the next command could read it.
#[test]
fn a_forbidden_path_is_hidden_wherever_its_directory_is_moved() {
    as_both(|| {
        for name in ["overlay-work", "bubblewrap-work", "landlock-work"] {
            let Some(mut column) = Column::new(name) else { continue };
            let scene = Scene::new(&mut column.outside);
            let forbidden = scene.work.join(".vscode/deep/forbidden.txt");
            for (path, text) in [(&forbidden, "FORBIDDEN-TEXT\n"), (&scene.work.join(".vscode/tasks.json"), "{}\n")] {
                fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
                fs::write(path, text).expect("a file");
            }
            let script = |script: &str| {
                column.script(&scene, script, |grant| {
                    grant.masked.push(forbidden.clone());
                    grant.read_only = protected(&scene.work);
                })
            };
            let (_, text) =
                script("mv .vscode moved; mv .vscode/deep .; mv moved/deep .; grep -rs FORBIDDEN . && echo seen");
            assert!(!text.contains("seen") && !text.contains("reedclaw: sandbox:"), "{name}: {text}");
            let (_, text) = script("grep -rs FORBIDDEN . && echo seen");
            assert!(!text.contains("seen"), "{name}: {text}");
            assert!(forbidden.exists(), "{name}");
        }
    });
}

/// A concurrent job can replace a directory by a link after its path was resolved. Bubblewrap follows the link: a known gap.
#[test]
fn a_directory_that_becomes_a_link_before_the_start_opens_nothing() {
    as_both(|| {
        for name in ["overlay-work", "landlock-work"] {
            let Some(mut column) = Column::new(name) else { continue };
            let scene = Scene::new(&mut column.outside);
            let swapped = scene.top.join("outside/swapped");
            fs::create_dir(&swapped).expect("a folder");
            let (view, _layer) = column.view(&scene);
            let grant = Grant { writable: vec![swapped.clone()], ..scene.grant(&column.outside, view) };
            let command = column.command("cat $OUT/swapped/id_rsa; echo x >$OUT/swapped/new", &grant);
            fs::remove_dir(&swapped).expect("removed");
            std::os::unix::fs::symlink(scene.home().join(".ssh"), &swapped).expect("a link");
            let (_, text) = column.end_of(command);
            assert!(!text.contains(SECRET), "{name}: {text}");
            assert!(!scene.home().join(".ssh/new").exists(), "{name}: {text}");
        }
    });
}
