//! Encrypted connections, on loopback: a server with a certificate that the test makes, in front of the scripted one. Asks the
//! built executable: a model and the tool `http`, with a named authority, and each reason to refuse.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::Sender;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::config::home;
use crate::need::{TEST_PATH, require};
use crate::pty::program;
use crate::server::{Server, Step, answer};

/// Accepts encrypted connections and forwards their bytes, in both directions, to the port in its arguments.
const FRONT: &str = r#"
import socket, ssl, sys, threading
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[1], sys.argv[2])
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)

def pump(source, target):
    try:
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass

def serve(plain):
    try:
        near = context.wrap_socket(plain, server_side=True)
    except OSError:
        return plain.close()
    far = socket.create_connection(("127.0.0.1", int(sys.argv[3])))
    threading.Thread(target=pump, args=(near, far), daemon=True).start()
    pump(far, near)
    try:
        near.unwrap()
    except OSError:
        pass
    near.close()

while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
"#;

/// The test's own authority, with a certificate for this machine, two for other names and one that has expired.
const CERTIFICATES: &str = r#"
set -eu
key="-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes"
printf '[ca]\ndefault_ca=d\n[d]\ndatabase=index\nserial=serial\nnew_certs_dir=.\ndefault_md=sha256\npolicy=p\nunique_subject=no\n[p]\ncommonName=supplied\n' > ca.conf
: > index
echo 01 > serial
openssl req -x509 $key -keyout ca.key -out ca.pem -days 30 -subj /CN=authority
openssl req $key -keyout key.pem -out own.csr -subj /CN=server
sign() {
    printf 'subjectAltName=%s\nbasicConstraints=CA:FALSE\nextendedKeyUsage=serverAuth\n' "$2" > "$1.ext"
    openssl ca -batch -config ca.conf -cert ca.pem -keyfile ca.key -in own.csr -out "$1.pem" -notext \
        -startdate 20200101000000Z -enddate "$3" -extfile "$1.ext"
}
sign good IP:127.0.0.1 20450101000000Z
sign other DNS:other.example 20450101000000Z
sign tools DNS:tools.example,DNS:login.example 20450101000000Z
sign expired IP:127.0.0.1 20210101000000Z
"#;

/// The encrypted front, with the certificates in a separate directory.
pub struct Front {
    directory: TempDir,
    child: Child,
    pub port: u16,
}

impl Front {
    /// Starts one in front of a server without encryption, with the certificate of this name.
    fn of(server: &Server, certificate: &str) -> Self {
        let far = server.endpoint();
        Self::before(far.rsplit(':').next().expect("a port"), certificate)
    }

    /// The same in front of a port of this machine.
    pub fn before(far: &str, certificate: &str) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let run = |program: &str, args: &[&str]| {
            let mut command = Command::new(program);
            command.args(args).env_clear().env("PATH", TEST_PATH).current_dir(directory.path()).stdin(Stdio::null());
            command
        };
        let made = run("bash", &["-c", CERTIFICATES]).output().expect("bash runs");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let mut front = run("python3", &["-c", FRONT, &format!("{certificate}.pem"), "key.pem", far]);
        let mut child = front.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("python3 runs");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("its output")).read_line(&mut line).expect("a line");
        let port = line.trim().parse().expect("a port");
        Self { directory, child, port }
    }

    pub fn authority(&self) -> PathBuf {
        self.directory.path().join("ca.pem")
    }

    fn address(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }

    /// A home whose config names the front as a model's server, and lets the tool `http` reach it.
    fn home(&self) -> TempDir {
        let config = format!(
            "return {{ models = {{ tiny = {{ endpoint = '{}', model = 'm', retries = 0 }} }}, memory = {{ auto = false }},\n\
             tools = {{ http_ports = {{ {} }}, http_allow_private = true }} }}",
            self.address(),
            self.port
        );
        home(&[(".config/reedclaw/config.lua", &config), ("ws/x", "")])
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Forwards connections as companies' proxies do; sends the request of each connection to `asked`.
pub fn passed_on(listener: TcpListener, port: u16, asked: &Sender<String>) {
    for client in listener.incoming() {
        let mut client = client.expect("a connection");
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            let mut byte = [0];
            client.read_exact(&mut byte).expect("a head");
            head.push(byte[0].into());
        }
        client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").expect("written");
        let there = TcpStream::connect(("127.0.0.1", port)).expect("a connection");
        let ways = [(&client, &there), (&there, &client)].map(|(from, to)| (from.try_clone(), to.try_clone()));
        for (mut from, mut to) in ways.map(|(from, to)| (from.expect("a socket"), to.expect("a socket"))) {
            std::thread::spawn(move || std::io::copy(&mut from, &mut to));
        }
        if asked.send(head).is_err() {
            return;
        }
    }
}

/// Runs the program; returns whether it succeeded, and its two outputs.
fn reedclaw(home: &Path, args: &[&str], env: &[(&str, &Path)]) -> (bool, String, String) {
    let mut command = Command::new(program());
    command.args(args).env_clear().env("HOME", home).env("PATH", TEST_PATH).current_dir(home.join("ws"));
    let output = command.envs(env.iter().copied()).stdin(Stdio::null()).output().expect("the program runs");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (output.status.success(), text(output.stdout), text(output.stderr))
}

fn asked(home: &Path, env: &[(&str, &Path)]) -> (bool, String, String) {
    reedclaw(home, &["agent", "-m", "hi"], env)
}

fn requested(home: &Path, url: &str, env: &[(&str, &Path)]) -> Value {
    let arguments = json!({"url": url}).to_string();
    let workspace = home.join("ws").display().to_string();
    let args = ["tool", "run", "http", "--json", &arguments, "--workspace", &workspace, "--yes"];
    let (_, output, errors) = reedclaw(home, &args, env);
    serde_json::from_str(&output).unwrap_or_else(|_| panic!("{output}{errors}"))
}

const PAGE: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 12\r\nconnection: close\r\n\r\n<p>hello</p>";

#[test]
fn an_answer_and_a_page_come_over_https_from_a_server_that_a_named_authority_vouches_for() {
    if !require(&["openssl", "python3"]) {
        return;
    }
    let server = Server::start();
    let front = Front::of(&server, "good");
    let home = front.home();
    let authority = front.authority();
    server.reply(answer("over an encrypted line"));
    let (success, output, errors) = asked(home.path(), &[("SSL_CERT_FILE", &authority)]);
    assert!(success && output.contains("over an encrypted line"), "{output}{errors}");
    server.reply(vec![Step::Raw(PAGE.into())]);
    let result = requested(home.path(), &front.address(), &[("SSL_CERT_FILE", &authority)]);
    assert_eq!((&result["output"], &result["metadata"]["status"]), (&json!("hello"), &json!(200)), "{result}");
    // A directory of certificates works too, whatever else it contains; and both may be named.
    let directory = home.path().join("certs");
    fs::create_dir(&directory).expect("a directory");
    fs::copy(&authority, directory.join("a.pem")).expect("a copy");
    fs::write(directory.join("README"), "words").expect("a file");
    server.reply(vec![Step::Raw(PAGE.into())]);
    let result = requested(home.path(), &front.address(), &[("SSL_CERT_DIR", &directory)]);
    assert_eq!(result["output"], "hello", "{result}");
    server.reply(answer("once more"));
    let both: [(&str, &Path); 2] = [("SSL_CERT_DIR", &directory), ("SSL_CERT_FILE", &authority)];
    let (success, output, errors) = asked(home.path(), &both);
    assert!(success && output.contains("once more"), "{output}{errors}");
}

#[test]
fn a_server_with_an_unknown_authority_gets_no_question() {
    if !require(&["openssl", "python3"]) {
        return;
    }
    let server = Server::start();
    let other = tempfile::tempdir().expect("a directory");
    let missing = other.path().join("none.pem");
    for (certificate, named, said, hint) in [
        ("good", None, "no trusted authority vouches", "SSL_CERT_FILE"),
        ("good", Some(missing.as_path()), "none.pem", "correct the variable"),
        ("other", Some(Path::new("")), "for another name", "the name in the certificate"),
        ("expired", Some(Path::new("")), "has expired", "clock"),
    ] {
        let front = Front::of(&server, certificate);
        let home = front.home();
        let authority = front.authority();
        let path = named.map(|path| if path.as_os_str().is_empty() { authority.as_path() } else { path });
        let env: Vec<(&str, &Path)> = path.into_iter().map(|path| ("SSL_CERT_FILE", path)).collect();
        let (success, output, errors) = asked(home.path(), &env);
        let told = format!("{output}{errors}");
        assert!(!success && told.contains(said) && told.contains(hint), "{certificate}: {told}");
        assert!(told.contains(&format!("127.0.0.1:{}", front.port)), "it says where: {told}");
        let result = requested(home.path(), &front.address(), &env);
        let error = &result["error"];
        assert_eq!(error["code"], "certificate", "{certificate}: {result}");
        let text = error.to_string();
        assert!(text.contains(said) && text.contains(hint) && text.contains(&front.address()), "{certificate}: {text}");
    }
    assert_eq!(server.requests(), 0, "nothing was sent");
}
