//! A real Chromium without a window, driven over its debugging pipe: pages are loaded, read, clicked and typed into as a person
//! would. It must not know what is tested.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::need;
use crate::wait::wait_for;

/// Maximum wait for anything on the page. It is shorter than the limit of a test, so that the failure names what was missing.
const PATIENCE: Duration = Duration::from_secs(25);

/// The browser with one page.
pub struct Browser {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    session: String,
    target: String,
    last: u64,
    /// Lines that the page wrote to its console as errors, and exceptions.
    pub complaints: Vec<String>,
    _profile: TempDir,
}

/// A tab.
#[derive(Clone, Debug)]
pub struct Tab {
    session: String,
    target: String,
}

impl Browser {
    /// Starts a browser, if one is installed.
    pub fn start() -> Option<Self> {
        if !need::require(&["chromium"]) {
            return None;
        }
        let profile = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a profile");
        let arguments = format!(
            "exec chromium --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run \
             --disable-background-networking --remote-debugging-pipe --user-data-dir={} about:blank 3<&0 4>&1 </dev/null >/dev/null 2>&1",
            profile.path().display()
        );
        let mut command = Command::new("/bin/sh");
        command.args(["-c", &arguments]).env_clear().env("PATH", need::TEST_PATH).env("HOME", profile.path());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
        let (to, from) = (child.stdin.take().expect("a pipe"), child.stdout.take().expect("a pipe"));
        let mut browser = Self {
            child,
            to,
            from: BufReader::new(from),
            session: String::new(),
            target: String::new(),
            last: 0,
            complaints: Vec::new(),
            _profile: profile,
        };
        let targets = browser.call("Target.getTargets", json!({}));
        let page = targets["targetInfos"].as_array().expect("targets").iter().find(|it| it["type"] == "page");
        let target = page.expect("a page")["targetId"].as_str().expect("an id").to_owned();
        browser.attach(target);
        Some(browser)
    }

    fn attach(&mut self, target: String) -> Tab {
        self.session.clear();
        let attached = self.call("Target.attachToTarget", json!({"targetId": target, "flatten": true}));
        attached["sessionId"].as_str().expect("a session").clone_into(&mut self.session);
        for domain in ["Page", "Runtime", "Network", "Log"] {
            self.call(&format!("{domain}.enable"), json!({}));
        }
        self.target = target;
        self.tab()
    }

    /// The current tab.
    pub fn tab(&self) -> Tab {
        Tab { session: self.session.clone(), target: self.target.clone() }
    }

    /// Opens another tab and makes it the current one.
    pub fn open_tab(&mut self, url: &str) -> Tab {
        self.session.clear();
        let made = self.call("Target.createTarget", json!({"url": url}));
        let target = made["targetId"].as_str().expect("an id").to_owned();
        self.attach(target)
    }

    /// Makes a tab the current one.
    pub fn turn_to(&mut self, tab: &Tab) {
        tab.session.clone_into(&mut self.session);
        tab.target.clone_into(&mut self.target);
    }

    /// The page in the frame, once there is one.
    pub fn frame(&mut self) -> Tab {
        let target = wait_for("a frame", || {
            let targets = self.call("Target.getTargets", json!({}));
            let frame = targets["targetInfos"].as_array().expect("targets").iter().find(|it| it["type"] == "iframe");
            frame.map(|it| it["targetId"].as_str().expect("an id").to_owned())
        });
        self.attach(target)
    }

    /// Closes a tab as a crash does: nothing in it can act any more.
    pub fn close(&mut self, tab: &Tab) {
        self.session.clear();
        self.call("Target.closeTarget", json!({"targetId": tab.target}));
    }

    /// Sends a command and returns its result.
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        self.last += 1;
        let mut message = json!({"id": self.last, "method": method, "params": params});
        if !self.session.is_empty() {
            message["sessionId"] = self.session.clone().into();
        }
        self.to.write_all(format!("{message}\0").as_bytes()).expect("the browser listens");
        loop {
            let mut bytes = Vec::new();
            let count = self.from.read_until(0, &mut bytes).expect("the browser speaks");
            assert!(count > 0, "the browser ended at {method}");
            bytes.pop();
            let said: Value = serde_json::from_slice(&bytes).expect("JSON");
            if said["id"] == self.last {
                // A page that is still loading has no execution context; the caller tries again.
                let is_between = |why: &str| why.contains("execution context") || why.contains("target navigated");
                if said["error"]["message"].as_str().is_some_and(is_between) {
                    return Value::Null;
                }
                assert!(said["error"].is_null(), "{method}: {}", said["error"]);
                return said["result"].clone();
            }
            self.note(&said);
        }
    }

    fn note(&mut self, said: &Value) {
        let params = &said["params"];
        match said["method"].as_str() {
            Some("Runtime.exceptionThrown") => self.complaints.push(params["exceptionDetails"].to_string()),
            Some("Runtime.consoleAPICalled") if params["type"] == "error" => {
                self.complaints.push(params["args"].to_string())
            }
            Some("Log.entryAdded") if params["entry"]["source"] == "security" => {
                self.complaints.push(params["entry"]["text"].to_string());
            }
            _ => {}
        }
    }

    /// Loads an address.
    pub fn open(&mut self, url: &str) {
        self.call("Page.navigate", json!({"url": "about:blank"}));
        self.call("Page.navigate", json!({"url": url}));
    }

    /// Evaluates an expression in the page and awaits a promise.
    pub fn eval(&mut self, expression: &str) -> Value {
        let params =
            json!({"expression": expression, "awaitPromise": true, "returnByValue": true, "userGesture": true});
        let result = self.call("Runtime.evaluate", params);
        assert!(result["exceptionDetails"].is_null(), "{expression}: {}", result["exceptionDetails"]);
        result["result"]["value"].clone()
    }

    /// Waits until an expression is true.
    #[track_caller]
    pub fn wait(&mut self, expression: &str) {
        let until = Instant::now() + PATIENCE;
        // The page itself polls, so that the wait costs no round trips.
        let looked = format!(
            "new Promise((done) => {{ const look = () => {{ let found = false; try {{ found = !!({expression}); }} catch {{}} \
             if (found) done(true); else setTimeout(look, 20); }}; look(); setTimeout(() => done(false), 2000); }})"
        );
        while self.eval(&looked) != true {
            // A page that loads slowly has no body yet.
            let text = self.eval("document.body?.innerText");
            assert!(Instant::now() < until, "never: {expression}\n{text}\n{:?}", self.complaints);
        }
    }

    /// Waits until the page shows a text.
    #[track_caller]
    pub fn expect(&mut self, text: &str) {
        self.wait(&format!("document.body.innerText.includes({})", Value::from(text)));
    }

    /// Presses the button with these words, once it can be pressed.
    #[track_caller]
    pub fn press(&mut self, words: &str) {
        let words = Value::from(words);
        let button = format!(
            "[...document.querySelectorAll('button')].find((it) => it.innerText.trim() === {words} && !it.disabled)"
        );
        self.wait(&button);
        self.eval(&format!("{button}.click()"));
    }

    /// Follows the link with these words, once it is there.
    #[track_caller]
    pub fn press_link(&mut self, words: &str) {
        let link =
            format!("[...document.querySelectorAll('a')].find((it) => it.innerText.trim() === {})", Value::from(words));
        self.wait(&link);
        self.eval(&format!("{link}.click()"));
    }

    /// Presses a key.
    pub fn key(&mut self, key: &str) {
        let code = match key {
            "Tab" => 9,
            "Enter" => 13,
            "Escape" => 27,
            "ArrowRight" => 39,
            "ArrowDown" => 40,
            _ => 0,
        };
        let text = match key {
            "Enter" => "\r",
            key if key.chars().count() == 1 => key,
            _ => "",
        };
        let mut params = json!({"type": "keyDown", "key": key, "windowsVirtualKeyCode": code});
        if !text.is_empty() {
            params["text"] = text.into();
        }
        self.call("Input.dispatchKeyEvent", params);
        self.call("Input.dispatchKeyEvent", json!({"type": "keyUp", "key": key, "windowsVirtualKeyCode": code}));
    }

    /// Presses Tab until the element that has the focus, `it`, fulfils a condition.
    #[track_caller]
    pub fn tab_until(&mut self, condition: &str) {
        let is_there = format!("((it) => {condition})(document.activeElement)");
        for _ in 0..300 {
            self.key("Tab");
            if self.eval(&is_there) == true {
                return;
            }
        }
        panic!("Tab never reaches: {condition}\n{}", self.eval("document.body.innerText"));
    }

    /// Presses Shift and Tab.
    pub fn tab_back(&mut self) {
        for kind in ["rawKeyDown", "keyUp"] {
            let params = json!({"type": kind, "key": "Tab", "modifiers": 8, "windowsVirtualKeyCode": 9});
            self.call("Input.dispatchKeyEvent", params);
        }
    }

    /// Presses a key together with Ctrl.
    pub fn chord(&mut self, key: &str) {
        for kind in ["rawKeyDown", "keyUp"] {
            let code = key.bytes().next().map(|it| it.to_ascii_uppercase());
            self.call(
                "Input.dispatchKeyEvent",
                json!({"type": kind, "key": key, "modifiers": 2, "windowsVirtualKeyCode": code}),
            );
        }
    }

    /// Undoes the last change, with the focus outside of any field.
    pub fn undo(&mut self) {
        self.eval("document.activeElement.blur()");
        self.chord("z");
    }

    /// Moves the mouse, or presses or releases its left button.
    pub fn mouse(&mut self, kind: &str, x: f64, y: f64) {
        let params = json!({"type": kind, "x": x, "y": y, "button": "left", "buttons": 1, "clickCount": 1});
        self.call("Input.dispatchMouseEvent", params);
    }

    /// Types into the focused element.
    pub fn text(&mut self, text: &str) {
        self.call("Input.insertText", json!({"text": text}));
    }

    /// Sets the size of the window and the colour scheme; `forced` means a palette of the system.
    pub fn look(&mut self, width: u32, height: u32, scheme: &str) {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", size);
        let (scheme, forced) = if scheme == "forced" { ("dark", "active") } else { (scheme, "none") };
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": scheme},
            {"name": "forced-colors", "value": forced}]});
        self.call("Emulation.setEmulatedMedia", features);
    }

    /// Turns the network off or on.
    pub fn offline(&mut self, is_offline: bool) {
        let conditions = json!({"offline": is_offline, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1});
        self.call("Network.emulateNetworkConditions", conditions);
    }

    /// Saves a picture of the window, if `REEDCLAW_WRITE_PICTURES` names a directory.
    pub fn picture(&mut self, name: &str) {
        let Some(directory) = std::env::var_os("REEDCLAW_WRITE_PICTURES") else { return };
        let shot = self.call("Page.captureScreenshot", json!({"format": "png"}));
        let bytes = decode(shot["data"].as_str().expect("data"));
        std::fs::write(Path::new(&directory).join(name), bytes).expect("the picture");
    }

    /// Violations that axe finds, if `.ci/run` has installed it: rule and element of each.
    pub fn violations(&mut self) -> Vec<String> {
        let Some(clients) = need::acp_clients() else { return Vec::new() };
        let Ok(axe) = std::fs::read_to_string(clients.join("node_modules/axe-core/axe.min.js")) else {
            let _ = need::require_that(false, "axe-core isn't installed beside the editors' clients");
            return Vec::new();
        };
        self.eval(&format!("{axe}; 0"));
        let found = self.eval(
            "axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa']}).then((it) => \
             it.violations.flatMap((rule) => rule.nodes.map((node) => `${rule.id}: ${node.html.slice(0, 160)} ${node.failureSummary.slice(0, 200)}`)))",
        );
        serde_json::from_value(found).expect("texts")
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Decodes base64, the form in which the browser sends pictures.
fn decode(text: &str) -> Vec<u8> {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut bytes, mut bits, mut count) = (Vec::new(), 0_u32, 0);
    for letter in text.bytes() {
        let Some(value) = LETTERS.iter().position(|it| *it == letter) else { continue };
        bits = (bits << 6 | u32::try_from(value).expect("small")) & 0x00ff_ffff;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push(u8::try_from(bits >> count & 0xff).expect("a byte"));
        }
    }
    bytes
}
