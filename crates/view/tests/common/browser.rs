// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Headless Chromium through the DevTools protocol on two pipes: opens a page, evaluates in it, clicks, and notes all
//! that goes wrong. Never goes to a network.

use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Seconds after which the browser is ended, whatever it does.
const LIMIT_S: &str = "600";
/// Its view, CSS pixels.
const WIDTH: u32 = 1400;
const HEIGHT: u32 = 900;

/// One browser for all tests, by turns: to start one takes longer than most of them. It ends with its pipes.
static SHARED: Mutex<Option<Browser>> = Mutex::new(None);

/// The browser, until dropped; `None`, and a line that says so, where none is installed.
pub(crate) struct Turn(MutexGuard<'static, Option<Browser>>);

impl Turn {
    pub(crate) fn take() -> Option<Turn> {
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if shared.is_none() {
            *shared = Browser::start();
        }
        shared.is_some().then_some(Turn(shared))
    }
}

impl Deref for Turn {
    type Target = Browser;
    fn deref(&self) -> &Browser {
        self.0.as_ref().expect("taken only where there is one")
    }
}

impl DerefMut for Turn {
    fn deref_mut(&mut self) -> &mut Browser {
        self.0.as_mut().expect("taken only where there is one")
    }
}

pub(crate) struct Browser {
    /// It ends when its pipes do: nobody waits for it.
    _child: Child,
    to: File,
    from: BufReader<File>,
    session: Option<String>,
    next: u64,
    problems: Vec<String>,
}

/// The browser's command, where it is installed.
fn command() -> Option<&'static str> {
    let works = |name: &&str| {
        let version = Command::new(name).arg("--version").stderr(Stdio::null()).output();
        version.is_ok_and(|output| output.status.success())
    };
    ["chromium", "chromium-browser"].into_iter().find(works)
}

impl Browser {
    fn start() -> Option<Browser> {
        let Some(command) = command() else {
            println!("skipped: chromium is not installed");
            return None;
        };
        let folder =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(concat!("browser-", env!("CARGO_CRATE_NAME")));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        let pipes = [folder.join("to"), folder.join("from")];
        assert!(Command::new("mkfifo").args(&pipes).status().unwrap().success());
        let script = format!(
            "exec timeout {LIMIT_S} {command} --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage \
             --no-first-run --disable-background-networking --disable-component-update --disable-sync \
             --force-color-profile=srgb --window-size={WIDTH},{HEIGHT} --user-data-dir=\"$3\" --remote-debugging-pipe \
             3<\"$1\" 4>\"$2\""
        );
        let child = Command::new("sh")
            .args(["-c", &script, "sh"])
            .args(&pipes)
            .arg(folder.join("profile"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let to = File::options().write(true).open(&pipes[0]).unwrap();
        let from = BufReader::new(File::open(&pipes[1]).unwrap());
        let mut browser = Browser { _child: child, to, from, session: None, next: 0, problems: Vec::new() };
        let target = browser.call("Target.createTarget", json!({"url": "about:blank"}));
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let session = browser.call("Target.attachToTarget", attach);
        browser.session = session["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page.enable", "Runtime.enable", "Log.enable", "Network.enable"] {
            browser.call(domain, json!({}));
        }
        Some(browser)
    }

    /// Calls a method and waits for its result.
    pub(crate) fn call(&mut self, method: &str, params: Value) -> Value {
        self.next += 1;
        let mut message = json!({"id": self.next, "method": method, "params": params});
        if let Some(session) = &self.session {
            message["sessionId"] = session.clone().into();
        }
        self.to.write_all(format!("{message}\0").as_bytes()).unwrap();
        loop {
            let answer = self.receive();
            if answer["id"] == self.next {
                assert!(answer["error"].is_null(), "{method}: {}", answer["error"]);
                return answer["result"].clone();
            }
        }
    }

    fn receive(&mut self) -> Value {
        let mut bytes = Vec::new();
        self.from.read_until(0, &mut bytes).unwrap();
        assert_eq!(bytes.pop(), Some(0), "the browser has ended");
        let message: Value = serde_json::from_slice(&bytes).unwrap();
        self.note(&message);
        message
    }

    fn note(&mut self, message: &Value) {
        let params = &message["params"];
        match message["method"].as_str() {
            Some("Runtime.exceptionThrown") => self.problems.push(params["exceptionDetails"].to_string()),
            Some("Runtime.consoleAPICalled") if params["type"] == "error" => {
                self.problems.push(params["args"].to_string());
            }
            Some("Log.entryAdded") => self.problems.push(params["entry"].to_string()),
            Some("Network.requestWillBeSent") => {
                let url = params["request"]["url"].as_str().unwrap_or_default();
                if !["file:", "data:", "blob:", "about:"].iter().any(|own| url.starts_with(own)) {
                    self.problems.push(format!("asks for {url}"));
                }
            }
            _ => {}
        }
    }

    /// Opens a page of a file, with what stands behind `#`, and waits until it has read and drawn all.
    pub(crate) fn open(&mut self, page: &Path, hash: &str) {
        self.call("Page.navigate", json!({"url": "about:blank"}));
        let url = format!("file://{}#{hash}", page.display());
        self.call("Page.navigate", json!({"url": url}));
        while self.receive()["method"] != "Page.loadEventFired" {}
        let ready = "new Promise(resolve => { const look = () => document.documentElement.dataset.ready ? \
                     resolve(riser.idle()) : setTimeout(look, 20); look(); }).then(() => true)";
        assert_eq!(self.eval(ready), true);
    }

    /// The value of an expression in the page; a promise's when it is there.
    pub(crate) fn eval(&mut self, expression: &str) -> Value {
        let params = json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        let answer = self.call("Runtime.evaluate", params);
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {}", answer["exceptionDetails"]);
        answer["result"]["value"].clone()
    }

    /// Clicks at a place of the view, CSS pixels.
    pub(crate) fn click(&mut self, x: f64, y: f64) {
        for kind in ["mouseMoved", "mousePressed", "mouseReleased"] {
            let button = if kind == "mouseMoved" { "none" } else { "left" };
            let params = json!({"type": kind, "x": x, "y": y, "button": button, "clickCount": 1});
            self.call("Input.dispatchMouseEvent", params);
        }
    }

    /// Clicks in the middle of the element that an expression gives.
    pub(crate) fn click_on(&mut self, element: &str) {
        let place = format!(
            "(() => {{ const b = ({element}).getBoundingClientRect(); return [b.x + b.width / 2, b.y + b.height / 2]; }})()"
        );
        let place = self.eval(&place);
        self.click(place[0].as_f64().unwrap(), place[1].as_f64().unwrap());
    }

    /// Presses a key.
    pub(crate) fn key(&mut self, key: &str) {
        let (text, code) = match key {
            "Enter" => ("\r", 13),
            key if key.len() == 1 => (key, 0),
            _ => ("", 0),
        };
        for kind in ["keyDown", "keyUp"] {
            let text = if kind == "keyDown" { text } else { "" };
            let params = json!({"type": kind, "key": key, "text": text, "windowsVirtualKeyCode": code});
            self.call("Input.dispatchKeyEvent", params);
        }
    }

    /// Gives the view another size, CSS pixels; its own again with 0.
    pub(crate) fn size(&mut self, width: u32, height: u32) {
        let params = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", params);
    }

    /// Writes what is seen to a PNG.
    pub(crate) fn picture(&mut self, path: &Path) {
        use base64::Engine;
        let shot = self.call("Page.captureScreenshot", json!({"format": "png"}));
        let png = base64::engine::general_purpose::STANDARD.decode(shot["data"].as_str().unwrap()).unwrap();
        std::fs::write(path, png).unwrap();
    }

    /// All that went wrong so far: exceptions, errors on the console, requests to a network.
    pub(crate) fn problems(&mut self) -> Vec<String> {
        let own = self.eval("document.documentElement.dataset.errors");
        let mut problems = std::mem::take(&mut self.problems);
        if own != "0" {
            problems.push(format!("the page counts {own} errors"));
        }
        problems
    }
}
