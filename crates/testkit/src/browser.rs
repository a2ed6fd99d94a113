// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Headless Chromium, driven through the DevTools protocol on two pipes: opens a page, evaluates expressions, clicks, and
//! records errors. Never uses a network.

use crate::{once, runner};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{fs, thread};

/// The view in CSS pixels.
const WIDTH: u32 = 1400;
const HEIGHT: u32 = 900;
/// Maximum number of messages of a test.
const MESSAGES: u64 = 10_000;

/// The tab of the browser that all tests of a run share. Starting a browser takes longer than most tests. A new tab would compile all scripts
/// again, which takes three times as long as the rest of opening a page. Only one test at a time has the tab.
pub struct Browser {
    to: File,
    from: BufReader<File>,
    /// Number of the last message. Every turn has its own numbers, so an answer to an earlier turn is not mistaken for one of this turn.
    next: u64,
    target: Value,
    session: Option<String>,
    problems: Vec<String>,
    /// Folder of the run's browser.
    folder: PathBuf,
    /// Released after the tab is ready for the next test.
    _turn: File,
}

/// The browser's command if it is installed.
fn command() -> Option<&'static str> {
    let works = |name: &&str| {
        let version = Command::new(name).arg("--version").stderr(Stdio::null()).output();
        version.is_ok_and(|output| output.status.success())
    };
    ["chromium", "chromium-browser"].into_iter().find(works)
}

/// Starts the browser with its pipes in `folder`. The browser ends with this run.
#[expect(clippy::zombie_processes, reason = "it outlives the test that starts it")]
fn start(folder: &Path) -> Result<(), String> {
    let command = command().ok_or("skipped: chromium is not installed")?;
    let pipes = [folder.join("to"), folder.join("from")];
    assert!(Command::new("mkfifo").args(&pipes).status().unwrap().success());
    // Chromium has both pipes open in both directions, so it continues to run between two tests.
    let script = format!(
        "{command} --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage \
         --no-first-run --disable-background-networking --disable-component-update --disable-sync \
         --force-color-profile=srgb --window-size={WIDTH},{HEIGHT} --user-data-dir=\"$3\" --remote-debugging-pipe \
         3<>\"$1\" 4<>\"$2\" &
         while kill -0 {runner} && kill -0 $!; do sleep 0.5; done; kill $!; wait; rm \"$1\" \"$2\"",
        runner = runner(),
    );
    Command::new("sh")
        .args(["-c", &script, "sh"])
        .args(&pipes)
        .arg(folder.join("profile"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // The end of a test does not end the browser.
        .process_group(0)
        .spawn()
        .unwrap();
    Ok(())
}

impl Browser {
    /// Waits for the browser, and takes the tab that an earlier test has left or opens one. Without Chromium, prints that the test is skipped and returns `None`.
    pub fn take() -> Option<Browser> {
        let folder = once("browser", start).map_err(|why| println!("{why}")).ok()?;
        let mut turn = File::options().create(true).append(true).open(folder.join("turn")).unwrap();
        turn.lock().unwrap();
        // A byte for each turn: numbers of messages are 32 bits.
        turn.write_all(b".").unwrap();
        let next = turn.metadata().unwrap().len() * MESSAGES;
        // Without the browser there are no pipes.
        let to = File::options().write(true).open(folder.join("to")).expect("the browser has ended");
        let from = BufReader::new(File::open(folder.join("from")).unwrap());
        let (target, session, problems) = (Value::Null, None, Vec::new());
        let mut browser = Browser { to, from, next, target, session, problems, folder, _turn: turn };
        browser.target = match fs::read_to_string(browser.left_tab()) {
            Ok(target) => target.into(),
            Err(_) => browser.call("Target.createTarget", json!({"url": "about:blank"}))["targetId"].clone(),
        };
        // A test that is killed leaves no tab.
        let _ = fs::remove_file(browser.left_tab());
        let attach = json!({"targetId": browser.target, "flatten": true});
        let session = browser.call("Target.attachToTarget", attach);
        browser.session = session["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page.enable", "Runtime.enable", "Log.enable", "Network.enable"] {
            browser.call(domain, json!({}));
        }
        Some(browser)
    }

    /// Returns the file with the ID of the tab that a test has left for the next one.
    fn left_tab(&self) -> PathBuf {
        self.folder.join("tab")
    }

    /// Calls a method and waits for its result.
    pub fn call(&mut self, method: &str, params: Value) -> Value {
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

    /// Returns the next message to this tab, or to the browser while there is no tab.
    fn receive(&mut self) -> Value {
        loop {
            let mut bytes = Vec::new();
            self.from.read_until(0, &mut bytes).unwrap();
            assert_eq!(bytes.pop(), Some(0), "the browser has ended");
            // A test that was killed may have left half of a message, and messages to its own tab.
            let message: Value = serde_json::from_slice(&bytes).unwrap_or_default();
            if message.is_object() && message["sessionId"].as_str() == self.session.as_deref() {
                self.note(&message);
                return message;
            }
        }
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

    /// Opens a copy of the file `page` with the fragment `hash` and waits until the page has read and drawn its data. All copies have the
    /// same address, so Chromium compiles the scripts that they have in common only once.
    pub fn open(&mut self, page: &Path, hash: &str) {
        let copy = self.folder.join("page.html");
        fs::copy(page, &copy).unwrap();
        self.open_first(&copy, hash);
    }

    /// Opens the file `page` like [`open`](Self::open), but at its own address. Chromium compiles the scripts of a file that it opens for
    /// the first time.
    pub fn open_first(&mut self, page: &Path, hash: &str) {
        self.call("Page.navigate", json!({"url": "about:blank"}));
        let url = format!("file://{}#{hash}", page.display());
        self.call("Page.navigate", json!({"url": url}));
        while self.receive()["method"] != "Page.loadEventFired" {}
        let ready = "new Promise(resolve => { const look = () => document.documentElement.dataset.ready ? \
                     resolve(riser.idle()) : setTimeout(look, 20); look(); }).then(() => true)";
        assert_eq!(self.eval(ready), true);
    }

    /// Evaluates an expression in the page. Awaits the value of a promise.
    pub fn eval(&mut self, expression: &str) -> Value {
        let params = json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        let answer = self.call("Runtime.evaluate", params);
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {}", answer["exceptionDetails"]);
        answer["result"]["value"].clone()
    }

    /// Clicks at a position of the view, in CSS pixels.
    pub fn click(&mut self, x: f64, y: f64) {
        for kind in ["mouseMoved", "mousePressed", "mouseReleased"] {
            let button = if kind == "mouseMoved" { "none" } else { "left" };
            let params = json!({"type": kind, "x": x, "y": y, "button": button, "clickCount": 1});
            self.call("Input.dispatchMouseEvent", params);
        }
    }

    /// Clicks in the middle of the element that an expression returns.
    pub fn click_on(&mut self, element: &str) {
        let place = format!(
            "(() => {{ const b = ({element}).getBoundingClientRect(); return [b.x + b.width / 2, b.y + b.height / 2]; }})()"
        );
        let place = self.eval(&place);
        self.click(place[0].as_f64().unwrap(), place[1].as_f64().unwrap());
    }

    /// Presses a key.
    pub fn key(&mut self, key: &str) {
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

    /// Sets the size of the view in CSS pixels; 0 restores the default.
    pub fn size(&mut self, width: u32, height: u32) {
        let params = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", params);
    }

    /// Returns pairs of SVG texts in `element` that overlap by more than a pixel in both directions.
    pub fn overlapping_texts(&mut self, element: &str) -> Value {
        self.eval(&format!(
            "(() => {{
               const boxes = [...document.querySelectorAll('{element} text')].filter((e) => e.textContent.trim())
                 .map((e) => ({{ text: e.textContent, box: e.getBoundingClientRect() }})).filter(({{ box }}) => box.width > 0);
               const meet = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1
                 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 1;
               return boxes.flatMap((a, i) => boxes.slice(i + 1).filter((b) => meet(a.box, b.box)).map((b) => [a.text, b.text]));
             }})()"
        ))
    }

    /// Writes a screenshot to a PNG file.
    pub fn picture(&mut self, path: &Path) {
        use base64::Engine;
        let shot = self.call("Page.captureScreenshot", json!({"format": "png"}));
        let png = base64::engine::general_purpose::STANDARD.decode(shot["data"].as_str().unwrap()).unwrap();
        fs::write(path, png).unwrap();
    }

    /// Returns exceptions, console errors and network requests so far.
    pub fn problems(&mut self) -> Vec<String> {
        let own = self.eval("document.documentElement.dataset.errors");
        let mut problems = std::mem::take(&mut self.problems);
        if own != "0" {
            problems.push(format!("the page counts {own} errors"));
        }
        problems
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if thread::panicking() {
            // The next test gets a new tab. If the browser has ended, there is no tab to close.
            let close = json!({"id": self.next + 1, "method": "Target.closeTarget", "params": {"targetId": self.target}});
            let _ = self.to.write_all(format!("{close}\0").as_bytes());
            return;
        }
        self.call("Page.navigate", json!({"url": "about:blank"}));
        // The end of a session also ends its emulation of themes and sizes.
        let session = self.session.take();
        self.call("Target.detachFromTarget", json!({"sessionId": session}));
        fs::write(self.left_tab(), self.target.as_str().unwrap()).unwrap();
    }
}
