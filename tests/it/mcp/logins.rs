//! Logins at servers with an address, in a network whose only way out is a proxy.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use tempfile::TempDir;

use super::{at, has_python};
use crate::changes::home;
use crate::https::{Front, passed_on};
use crate::need::{TEST_PATH, require};
use crate::pty::{Session, Spawn, program, status_code};

const SITE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/mcp/logins.py");
/// Returns from a login page with a code, as a browser does.
const BROWSER: &str = "#!/usr/bin/python3
import sys, urllib.parse, urllib.request
sent = urllib.parse.parse_qs(urllib.parse.urlsplit(sys.argv[1]).query)
back = urllib.parse.urlencode({'code': 'code-1', 'state': sent['state'][0], 'iss': 'https://login.example'})
urllib.request.build_opener(urllib.request.ProxyHandler({})).open(sent['redirect_uri'][0] + '?' + back)
";

/// A server and its authorization server, whose names only a proxy can resolve.
struct Far {
    home: TempDir,
    site: Child,
    authority: PathBuf,
    proxy: String,
    asked: Receiver<String>,
    _front: Front,
}

impl Far {
    /// Starts both; the server's document names `giver`.
    fn start(giver: &str) -> Self {
        let mut site = Command::new("/usr/bin/python3");
        let mut site = site.args(["-IS", SITE, giver]).stdout(Stdio::piped()).spawn().expect("python3 runs");
        let mut port = String::new();
        BufReader::new(site.stdout.take().expect("its output")).read_line(&mut port).expect("a port");
        let front = Front::before(port.trim(), "tools");
        let (listener, (asks, asked)) = (TcpListener::bind("127.0.0.1:0").expect("a port"), channel());
        let proxy = format!("http://ann:word@{}", listener.local_addr().expect("an address"));
        let encrypted = front.port;
        std::thread::spawn(move || passed_on(listener, encrypted, &asks));
        let home = home(&[], "mcp = { servers = { far = { url = \"https://tools.example/mcp\" } } }");
        let browser = home.path().join("browser");
        fs::write(&browser, BROWSER).expect("a browser");
        fs::set_permissions(&browser, fs::Permissions::from_mode(0o755)).expect("it can be run");
        Self { home, site, authority: front.authority(), proxy, asked, _front: front }
    }

    /// Runs `reedclaw mcp` at a terminal with a proxy for all but some names; with `asks`, it opens the address of a login.
    /// Returns the status and the screen.
    fn mcp(&self, args: &[&str], without: &str, asks: bool) -> (i32, String) {
        let path = |path: &Path| path.display().to_string();
        let spawn = Spawn::new(program()).args(&[&["mcp"], args].concat()).env("NO_PROXY", without);
        let spawn = spawn.env("HTTPS_PROXY", &self.proxy).env("SSL_CERT_FILE", &path(&self.authority));
        let spawn = spawn.env("BROWSER", &path(&self.home.path().join("browser"))).env("PATH", TEST_PATH);
        let session = Session::spawn(spawn.home(at(&self.home)).cwd(&at(&self.home).join("work")).size(40, 200));
        if asks {
            session.expect_text("your answer: ");
            session.line("1");
        }
        let (status, _) = session.expect_end();
        (status_code(status), session.screen_text())
    }

    /// The hosts that the proxy was asked for since the last call.
    fn asked(&self) -> Vec<String> {
        let head = |head: String| {
            assert!(
                head.contains("Proxy-Authorization: Basic YW5uOndvcmQ=\r\n") && !head.contains("token-1"),
                "{head}"
            );
            head.split(' ').nth(1).unwrap_or_default().to_owned()
        };
        self.asked.try_iter().map(head).collect()
    }
}

impl Drop for Far {
    fn drop(&mut self) {
        let _ = self.site.kill();
        let _ = self.site.wait();
    }
}

#[test]
fn a_login_and_its_server_are_reached_by_the_proxy_of_the_environment() {
    if !has_python() || !require(&["openssl"]) {
        return;
    }
    let far = Far::start("https://login.example");
    let (code, screen) = far.mcp(&["test", "far"], "", false);
    assert!(code == 4 && screen.contains("far needs a login"), "{code} {screen}");
    assert!(far.asked().iter().all(|place| place == "tools.example:443"));

    // A name that bypasses the proxy is looked up here, and isn't known.
    let (code, screen) = far.mcp(&["login", "far"], "login.example", false);
    assert!(code != 0 && !screen.contains("logged in"), "{code} {screen}");
    assert!(far.asked().iter().all(|place| place == "tools.example:443"));

    let (code, screen) = far.mcp(&["login", "far"], "localhost,.corp", true);
    assert!(code == 0 && screen.contains("logged in at far"), "{code} {screen}");
    let asked = far.asked();
    for name in ["tools.example:443", "login.example:443"] {
        assert!(asked.iter().any(|place| place == name), "{name}: {asked:?}");
    }
    let (code, screen) = far.mcp(&["test", "far"], "", false);
    assert!(code == 3 && screen.contains("far is not allowed"), "the token counts: {code} {screen}");
}

/// The proxy is in the network that such an address belongs to, so it must not be asked for one.
#[test]
fn no_proxy_is_asked_for_a_private_address_that_a_server_names() {
    if !has_python() || !require(&["openssl"]) {
        return;
    }
    for giver in ["https://10.0.0.7", "https://169.254.169.254", "https://[::1]"] {
        let far = Far::start(giver);
        let (code, screen) = far.mcp(&["login", "far"], "", false);
        assert!(code != 0 && !screen.contains("logged in"), "{giver}: {code} {screen}");
        let host = giver.trim_start_matches("https://");
        assert!(screen.contains(host), "the refusal names the address: {screen}");
        let asked = far.asked();
        assert!(!asked.is_empty() && asked.iter().all(|place| place == "tools.example:443"), "{giver}: {asked:?}");
    }
}
