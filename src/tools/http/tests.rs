//! The http tool against servers of the tests' own, and names that lead to an attacker's target.

use parking_lot::Mutex;
use std::io::{BufRead, BufReader, Write};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::*;
use crate::files::Root;
use crate::tools::{Found, Limits, Memory, Replies, Spill};

/// Answers each path with the bytes that `answer` returns for it; `None` leaves the connection silent.
fn serve(answer: impl Fn(&str) -> Option<Vec<u8>> + Send + 'static) -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address");
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&asked);
    std::thread::spawn(move || {
        let mut silent = Vec::new();
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut head = String::new();
            let mut reader = BufReader::new(stream.try_clone().expect("a stream"));
            while reader.read_line(&mut head).is_ok_and(|count| count > 2) {}
            let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
            seen.lock().push(head);
            match answer(&path) {
                Some(bytes) => drop(stream.write_all(&bytes)),
                None => silent.push(stream),
            }
        }
    });
    (address, asked)
}

fn page(kind: &str, body: impl AsRef<[u8]>) -> Option<Vec<u8>> {
    let body = body.as_ref();
    let head = format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n", body.len());
    Some([head.as_bytes(), body].concat())
}

fn redirect(to: &str) -> Option<Vec<u8>> {
    Some(format!("HTTP/1.1 302 Found\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n").into_bytes())
}

struct Nobody;

impl Replies for Nobody {
    fn reply(&mut self, _: &str, _: &[String]) -> Option<String> {
        None
    }
}

impl Memory for Nobody {
    fn search(&mut self, _: &str, _: usize) -> Result<Vec<Found>, String> {
        Ok(Vec::new())
    }
}

fn tool(ports: &[u16], allow_private: bool) -> Http {
    Http::new(HttpOptions { post: true, ports: ports.to_vec(), allow_private, ..HttpOptions::default() })
}

fn request(tool: &Http, method: &str, url: &str, is_stopped: &(dyn Fn() -> bool + Sync), limit_ms: u64) -> Outcome {
    let top = tempfile::tempdir().expect("a directory");
    let (root, spill) = (Root::open(top.path(), None).expect("a root"), Spill::new(top.path()));
    let limits = Limits { http: Duration::from_millis(limit_ms), ..Limits::default() };
    let place = Place { tree: &root, spill: &spill };
    let (person, memory) = (&mut Nobody, &mut Nobody);
    let work = Work {
        place,
        limits: &limits,
        is_stopped,
        person,
        memory,
        notes: &mut Vec::new(),
        used: &[],
        is_again: false,
        copied: None,
        new_in_home: Vec::new(),
        jobs: None,
        no_helper: None,
    };
    let sent = (method == "POST").then(|| ("text/plain".to_owned(), "sent".to_owned()));
    let ask = Ask { method: method.to_owned(), sent, header: None, deadline: Instant::now() + limits.http };
    match checked(url, &tool.reach).and_then(|url| tool.ask(&ask, url, &work)) {
        Ok(answer) => answer.outcome(method),
        Err(error) => error.into(),
    }
}

fn get(tool: &Http, url: &str) -> Outcome {
    request(tool, "GET", url, &|| false, 10_000)
}

fn code(outcome: &Outcome) -> &str {
    outcome.error.as_ref().map_or("", |error| error.code)
}

#[test]
fn text_comes_as_text_and_a_page_as_it_reads() {
    let (address, asked) = serve(|path| match path {
        "/text" => page("text/plain; charset=utf-8", "grüße\n"),
        "/latin" => page("text/plain; charset=ISO-8859-1", b"gr\xfc\xdfe"),
        "/page" => page("text/html", "<html><head><title>T</title></head><body><p>One <b>two</b></p></body></html>"),
        "/json" => page("application/json", "{\"a\": 1}"),
        "/utf16" => page("text/plain", b"\xff\xfeh\x00i\x00"),
        "/image" => page("image/png", b"\x89PNG\r\n"),
        "/nul" => page("text/plain", b"a\x00b"),
        "/untyped" => Some(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n\xff\xfd\xfc".to_vec()),
        "/packed" => Some(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-encoding: gzip\r\ncontent-length: 3\r\n\r\nabc"
                .to_vec(),
        ),
        "/long" => page("text/plain", vec![b'x'; BODY_BYTES_MAX + 10]),
        _ => Some(b"HTTP/1.1 404 Not Found\r\ncontent-type: text/plain\r\ncontent-length: 5\r\n\r\nno it".to_vec()),
    });
    let tool = tool(&[address.port()], true);
    let at = |path: &str| get(&tool, &format!("http://{address}{path}"));
    let text = at("/text");
    assert_eq!((text.success, text.output.as_str()), (true, "grüße\n"), "{text:?}");
    assert_eq!(text.metadata["status"], 200);
    assert_eq!(text.metadata["content_type"], "text/plain; charset=utf-8");
    assert_eq!(text.metadata["url"], format!("http://{address}/text"));
    for (path, output) in [("/latin", "grüße"), ("/page", "T\n\nOne two"), ("/json", "{\"a\": 1}"), ("/utf16", "hi")]
    {
        assert_eq!(at(path).output, output, "{path}");
    }
    for (path, expected) in [("/image", "binary"), ("/nul", "binary"), ("/untyped", "binary"), ("/packed", "packed")] {
        assert_eq!(code(&at(path)), expected, "{path}");
    }
    assert!(at("/image").error.expect("refused").message.contains("image/png, 6 bytes"));
    let missing = at("/missing");
    assert_eq!((code(&missing), missing.output.as_str(), missing.success), ("http-status", "no it", false));
    let long = at("/long");
    assert!(long.success && long.output.len() < BODY_BYTES_MAX + 100 && long.output.contains("the rest isn't read"));
    let head = request(&tool, "HEAD", &format!("http://{address}/text"), &|| false, 10_000);
    assert!(head.output.contains("status: 200") && head.output.contains("content-type: text/plain"), "{head:?}");
    assert_eq!(request(&tool, "POST", &format!("http://{address}/text"), &|| false, 10_000).output, "grüße\n");
    let asked = asked.lock();
    assert!(asked.iter().all(|head| !head.to_ascii_lowercase().contains("accept-encoding: gzip")), "{asked:?}");
    assert!(asked.iter().any(|head| head.starts_with("POST /text ")));
}

#[test]
fn a_redirect_is_followed_on_the_same_site_only_and_each_hop_is_judged() {
    let public = tool(&[80, 443], false);
    let from = |url: &str| Url::parse(url).expect(url);
    for (url, location, expected) in [
        ("http://a.example/", "/x", "http://a.example/x"),
        ("http://a.example/", "https://a.example/", "https://a.example/"),
        ("http://a.example/", "https://www.a.example/", "https://www.a.example/"),
        ("https://www.a.example/", "https://a.example/x", "https://a.example/x"),
        ("https://a.example/", "https://b.example/", "redirect"),
        ("https://a.example/", "https://a.example:80/", "redirect"),
        ("https://a.example/", "http://a.example/", "refused"),
        ("http://a.example/", "http://127.0.0.1/", "refused"),
        ("http://a.example/", "http://0x7f.1/", "refused"),
        ("http://a.example/", "http://2130706433/", "refused"),
        ("http://a.example/", "//169.254.169.254/latest/meta-data/", "refused"),
        ("http://a.example/", "http://[::ffff:127.0.0.1]/", "refused"),
        ("http://a.example/", "http://localhost/", "refused"),
        ("http://a.example/", "http://a.example:6379/", "refused"),
        ("http://a.example/", "http://user@a.example/", "refused"),
        ("http://a.example/", "file:///etc/passwd", "refused"),
        ("http://a.example/", "gopher://a.example/", "refused"),
    ] {
        let went = public.hop(&from(url), location, 0, false);
        let went = went.map_or_else(|error| error.code.to_owned(), |next| next.to_string());
        assert_eq!(went, expected, "{url} {location}");
    }
    let code = |redirects, has_body| {
        public.hop(&from("http://a.example/"), "/x", redirects, has_body).map_err(|error| error.code)
    };
    assert!(code(4, false).is_ok());
    assert_eq!((code(5, false), code(0, true)), (Err("redirects"), Err("redirect")));

    let (address, asked) = serve(|path| match path {
        "/once" => redirect("/end"),
        "/end" => page("text/plain", "there"),
        "/away" => redirect("http://example.com/"),
        _ => redirect("/round"),
    });
    let local = tool(&[80, address.port()], true);
    let once = get(&local, &format!("http://{address}/once"));
    assert_eq!((once.output.as_str(), &once.metadata["redirects"]), ("there", &1.into()));
    assert_eq!(once.metadata["url"], format!("http://{address}/end"));
    assert_eq!(super::tests::code(&get(&local, &format!("http://{address}/away"))), "redirect");
    asked.lock().clear();
    assert_eq!(super::tests::code(&get(&local, &format!("http://{address}/round"))), "redirects");
    assert_eq!(asked.lock().len(), 1 + REDIRECTS_MAX);
}

#[test]
fn a_name_that_leads_inside_is_refused_and_nothing_is_dialled() {
    let (address, asked) = serve(|_| page("text/plain", "inside"));
    let looked = Arc::new(AtomicUsize::new(0));
    let lookup = |answers: Vec<Vec<&'static str>>| -> Lookup {
        let looked = Arc::clone(&looked);
        Arc::new(move |_, port| {
            let count = looked.fetch_add(1, Ordering::SeqCst);
            let answer = answers.get(count).or(answers.last()).expect("an answer");
            Ok(answer.iter().map(|it| SocketAddr::new(it.parse::<IpAddr>().expect(it), port)).collect())
        })
    };
    let inside: [&[&'static str]; 6] = [
        &["127.0.0.1"],
        &["::1"],
        &["::ffff:127.0.0.1"],
        &["169.254.169.254"],
        &["8.8.8.8", "127.0.0.1"],
        &["64:ff9b::7f00:1"],
    ];
    for answer in inside {
        looked.store(0, Ordering::SeqCst);
        let tool = Http { lookup: lookup(vec![answer.to_vec()]), ..tool(&[address.port()], false) };
        let outcome = get(&tool, &format!("http://rebound.example:{}/", address.port()));
        assert_eq!(code(&outcome), "refused", "{answer:?} {outcome:?}");
    }
    for url in ["http://localhost", "http://127.0.0.1", "http://[::1]", "http://0x7f.1", "http://2130706433"] {
        let outcome = get(&tool(&[address.port()], false), &format!("{url}:{}/", address.port()));
        assert_eq!(code(&outcome), "refused", "{url}");
    }
    assert_eq!(asked.lock().len(), 0, "nothing was dialled");

    // A name whose address changes isn't looked up a second time: what was checked is what is dialled.
    looked.store(0, Ordering::SeqCst);
    let tool =
        Http { lookup: lookup(vec![vec!["127.0.0.1"], vec!["169.254.169.254"]]), ..tool(&[address.port()], true) };
    assert_eq!(get(&tool, &format!("http://rebound.example:{}/", address.port())).output, "inside");
    assert_eq!(looked.load(Ordering::SeqCst), 1);
    let none = Http { lookup: Arc::new(|_, _| Ok(Vec::new())), ..tool };
    assert_eq!(code(&get(&none, &format!("http://none.example:{}/", address.port()))), "unreachable");
}

#[test]
fn the_dialler_looks_itself_at_what_it_is_given() {
    // A resolver that let an address through by mistake: the connection still isn't made.
    #[derive(Debug)]
    struct Careless(SocketAddr);
    impl ureq::unversioned::resolver::Resolver for Careless {
        fn resolve(
            &self,
            _: &ureq::http::Uri,
            _: &ureq::config::Config,
            _: ureq::unversioned::transport::NextTimeout,
        ) -> Result<ureq::unversioned::resolver::ResolvedSocketAddrs, ureq::Error> {
            let mut addresses = self.empty();
            addresses.push(self.0);
            Ok(addresses)
        }
    }
    let (address, asked) = serve(|_| page("text/plain", "inside"));
    let reach = Reach { allow_private: false, ports: vec![address.port()], any_port: false };
    let guard = Guard { reach, lookup: system_lookup(), connect: CONNECT };
    let agent =
        Agent::with_parts(Agent::config_builder().proxy(None).build(), Dial(Arc::new(guard)), Careless(address));
    let error = agent.get(format!("http://a.example:{}/", address.port())).call().expect_err("not public");
    assert!(matches!(error, ureq::Error::Other(inner) if inner.is::<Refused>()));
    assert_eq!(asked.lock().len(), 0);
}

#[test]
fn a_stop_and_the_limit_end_a_request_that_waits() {
    let (address, asked) = serve(|_| None);
    let tool = tool(&[address.port()], true);
    let url = format!("http://{address}/");
    let is_stopped = AtomicBool::new(false);
    let stop = || is_stopped.load(Ordering::SeqCst);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let outcome = request(&tool, "GET", &url, &stop, 60_000);
            (outcome, Instant::now())
        });
        while asked.lock().is_empty() {
            std::thread::yield_now();
        }
        let stopped = Instant::now();
        is_stopped.store(true, Ordering::SeqCst);
        let (outcome, ended) = waiting.join().expect("no panic");
        assert_eq!(code(&outcome), "stopped");
        // Not by the time limit of a minute.
        assert!(ended - stopped < Duration::from_secs(20), "{:?}", ended - stopped);
    });
    let started = Instant::now();
    assert_eq!(code(&request(&tool, "GET", &url, &|| false, 200)), "timeout");
    assert!(started.elapsed() < Duration::from_secs(20));
}

#[test]
fn the_plan_holds_the_normalised_request() {
    let top = tempfile::tempdir().expect("a directory");
    let (root, spill) = (Root::open(top.path(), None).expect("a root"), Spill::new(top.path()));
    let place = Place { tree: &root, spill: &spill };
    let plan = |arguments: Value| tool(&[80, 443], false).plan(&arguments, place).map_err(|error| error.code);
    let planned = plan(json!({"url": "HTTPS://Example.COM:443/a?b#c"})).expect("a plan");
    assert_eq!(planned.action, Action::Http { method: "GET".into(), url: "https://example.com/a?b".into() });
    assert_eq!(planned.preview, "");
    let sent =
        plan(json!({"url": "http://example.com", "method": "POST", "body": "{}", "content_type": "application/json"}));
    assert_eq!(sent.expect("a plan").preview, "sends application/json:\n{}");
    for (arguments, expected) in [
        (json!({"url": "http://127.1/"}), "refused"),
        (json!({"url": "ftp://example.com/"}), "refused"),
        (json!({"url": "http://example.com/", "body": "x"}), "bad-arguments"),
        (json!({"url": "http://example.com/", "method": "POST", "content_type": "a\r\nHost: b"}), "bad-arguments"),
    ] {
        assert_eq!(plan(arguments.clone()), Err(expected), "{arguments}");
    }
    let spec = |post| Http::new(HttpOptions { post, ..HttpOptions::default() }).spec().schema;
    assert_eq!(spec(false)["properties"]["method"]["enum"], json!(["GET", "HEAD"]));
    assert!(spec(false)["properties"].get("body").is_none() && spec(true)["properties"].get("body").is_some());
}
