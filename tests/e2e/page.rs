//! A user's actions on a page, and what the user sees. Each page is a tab with its own session in
//! the browser that all tests share.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use base64::Engine as _;
use serde_json::{Value, json};

use crate::cdp::{Browser, Error};
use crate::wait::until;

/// Started once; exits with the process.
static BROWSER: LazyLock<Browser> =
    LazyLock::new(|| Browser::launch().unwrap_or_else(|error| panic!("{error}")));

/// Width of a phone's screen, in pixels.
pub(crate) const PHONE: u32 = 390;
/// Width of a laptop's screen, in pixels.
pub(crate) const LAPTOP: u32 = 1280;

/// An open tab with its own cookies and storage.
#[derive(Debug)]
pub(crate) struct Page {
    name: String,
    context: String,
    session: String,
}

impl Page {
    /// Opens a tab, 1280 pixels wide and in the light theme.
    pub(crate) fn open() -> Self {
        let name = std::thread::current()
            .name()
            .unwrap_or("page")
            .replace("::", "-");
        let context = text(
            &browser("Target.createBrowserContext", &json!({})),
            "browserContextId",
        );
        let target = browser(
            "Target.createTarget",
            &json!({"url": "about:blank", "browserContextId": context}),
        );
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let session = text(&browser("Target.attachToTarget", &attach), "sessionId");
        let page = Self {
            name,
            context,
            session,
        };
        for domain in ["Page", "Runtime", "Log", "Network"] {
            page.call(&format!("{domain}.enable"), &json!({}));
        }
        page.call("Page.setLifecycleEventsEnabled", &json!({"enabled": true}));
        page.call(
            "Emulation.setFocusEmulationEnabled",
            &json!({"enabled": true}),
        );
        page.look(LAPTOP, "light");
        page
    }

    /// Sets the width of the window and the system's color theme.
    pub(crate) fn look(&self, width: u32, theme: &str) {
        let metrics =
            json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 720});
        self.call("Emulation.setDeviceMetricsOverride", &metrics);
        let features = json!([{"name": "prefers-color-scheme", "value": theme},
            {"name": "prefers-reduced-motion", "value": "reduce"}]);
        self.call("Emulation.setEmulatedMedia", &json!({"features": features}));
    }

    /// Disconnects the page from the network.
    pub(crate) fn without_network(&self) {
        let nothing = json!({"offline": true, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1});
        self.call("Network.emulateNetworkConditions", &nothing);
    }

    /// Disables the page's scripts.
    pub(crate) fn without_scripts(&self) {
        self.call(
            "Emulation.setScriptExecutionDisabled",
            &json!({"value": true}),
        );
    }

    /// Navigates to `url` and waits until it's loaded.
    pub(crate) fn goto(&self, url: &str) {
        let answer = self.call("Page.navigate", &json!({"url": url}));
        assert!(answer.get("errorText").is_none(), "{url}: {answer}");
        // An earlier navigation may still be loading, so only this one's load event counts.
        let is_load = |event: &Value| {
            event["method"] == "Page.lifecycleEvent"
                && event["params"]["name"] == "load"
                && event["params"]["loaderId"] == answer["loaderId"]
        };
        until(&format!("{url} is loaded"), || {
            BROWSER.has_reported(&self.session, is_load).then_some(())
        });
    }

    /// Evaluates a script, awaits its promise if it returns one, and returns the value.
    pub(crate) fn eval(&self, script: &str) -> Value {
        self.try_eval(script)
            .unwrap_or_else(|error| panic!("{error}\nin {script}"))
    }

    /// Goes back in the history. The script returns before the page is replaced.
    pub(crate) fn back(&self) {
        self.eval("setTimeout(() => history.back()) && null");
    }

    /// Loads the page again. The script returns before the page is replaced.
    pub(crate) fn reload(&self) {
        self.eval("setTimeout(() => location.reload()) && null");
    }

    /// Waits until `script` is true in the page.
    pub(crate) fn wait(&self, script: &str) {
        // A page that is being replaced can't be queried, which counts as not yet true.
        let holds = || {
            self.try_eval(&format!("Boolean({script})"))
                .is_ok_and(|value| value == true)
        };
        until(script, || holds().then_some(()));
    }

    /// Returns the visible text of the first matching element.
    pub(crate) fn text(&self, selector: &str) -> String {
        let found = self.eval(&format!(
            "document.querySelector({})?.innerText ?? null",
            json!(selector)
        ));
        found
            .as_str()
            .unwrap_or_else(|| panic!("nothing matches {selector}"))
            .to_owned()
    }

    /// Returns the number of matching elements.
    pub(crate) fn count(&self, selector: &str) -> u64 {
        self.eval(&format!(
            "document.querySelectorAll({}).length",
            json!(selector)
        ))
        .as_u64()
        .unwrap_or(0)
    }

    /// Clicks the middle of the first matching element with a real mouse event.
    pub(crate) fn click(&self, selector: &str) {
        self.click_where(selector, "r.x + r.width / 2");
    }

    /// Clicks the left edge of the first matching element, `inset` pixels inside.
    pub(crate) fn click_edge(&self, selector: &str, inset: u32) {
        self.click_where(selector, &format!("r.x + {inset}"));
    }

    fn click_where(&self, selector: &str, x: &str) {
        let place = format!(
            "(e => {{ if (!e) return null; e.scrollIntoView({{block: 'center'}}); const r = e.getBoundingClientRect();
              return r.width ? [{x}, r.y + r.height / 2] : null }})(document.querySelector({}))",
            json!(selector)
        );
        let at = until(&format!("{selector} can be clicked"), || {
            self.try_eval(&place).ok().filter(|value| value.is_array())
        });
        for kind in ["mousePressed", "mouseReleased"] {
            let event =
                json!({"type": kind, "x": at[0], "y": at[1], "button": "left", "clickCount": 1});
            self.call("Input.dispatchMouseEvent", &event);
        }
    }

    /// Moves the pointer to the middle of the first matching element.
    pub(crate) fn hover(&self, selector: &str) {
        let middle = format!(
            "(e => {{ if (!e) return null; e.scrollIntoView({{block: 'center'}}); const r = e.getBoundingClientRect();
              return [r.x + r.width / 2, r.y + r.height / 2] }})(document.querySelector({}))",
            json!(selector)
        );
        let at = until(&format!("{selector} is there"), || {
            self.try_eval(&middle).ok().filter(Value::is_array)
        });
        self.call(
            "Input.dispatchMouseEvent",
            &json!({"type": "mouseMoved", "x": at[0], "y": at[1]}),
        );
    }

    /// Drags from one point of the window to another, through the middle.
    pub(crate) fn drag(&self, from: (f64, f64), to: (f64, f64)) {
        let middle = ((from.0 + to.0) / 2.0, (from.1 + to.1) / 2.0);
        let steps = [
            ("mousePressed", from),
            ("mouseMoved", middle),
            ("mouseMoved", to),
            ("mouseReleased", to),
        ];
        for (kind, (x, y)) in steps {
            let event = json!({"type": kind, "x": x, "y": y, "button": "left", "buttons": 1, "clickCount": 1});
            self.call("Input.dispatchMouseEvent", &event);
        }
    }

    /// Presses one key: a letter, or a name such as `Enter`.
    pub(crate) fn press(&self, key: &str) {
        let (code, text) = match key {
            "Enter" => (13, "\r"),
            "Escape" => (27, ""),
            "ArrowUp" => (38, ""),
            "Tab" => (9, ""),
            "End" => (35, ""),
            "Home" => (36, ""),
            "ArrowLeft" => (37, ""),
            "ArrowRight" => (39, ""),
            "ArrowDown" => (40, ""),
            letter => (
                letter
                    .chars()
                    .next()
                    .map_or(0, |c| u32::from(c.to_ascii_uppercase())),
                letter,
            ),
        };
        let kind = if text.is_empty() {
            "rawKeyDown"
        } else {
            "keyDown"
        };
        let down = json!({"type": kind, "key": key, "text": text, "windowsVirtualKeyCode": code});
        self.call("Input.dispatchKeyEvent", &down);
        self.call(
            "Input.dispatchKeyEvent",
            &json!({"type": "keyUp", "key": key, "windowsVirtualKeyCode": code}),
        );
    }

    /// Types `text` into the focused element.
    pub(crate) fn insert(&self, text: &str) {
        self.call("Input.insertText", &json!({"text": text}));
    }

    /// Returns texts of the page, including tooltips, with an invisible character: one that changes
    /// the text direction, has no width, or controls a terminal.
    pub(crate) fn unseen(&self) -> Value {
        self.eval(
            r"(() => {
                const unseen = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]/;
                const texts = [document.title];
                const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
                while (walk.nextNode()) if (!walk.currentNode.parentElement.closest('script')) texts.push(walk.currentNode.data);
                for (const element of document.querySelectorAll('[title], [aria-label], [alt], [placeholder]'))
                    texts.push(...['title', 'aria-label', 'alt', 'placeholder'].map(name => element.getAttribute(name) ?? ''));
                return texts.filter(text => unseen.test(text)).map(text => JSON.stringify(text.slice(0, 200)));
            })()",
        )
    }

    /// Returns the tab's path and query.
    pub(crate) fn location(&self) -> String {
        self.eval("location.pathname + location.search")
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    /// Returns every error, warning and violation that the page has reported.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let complaint = |event: &Value| match event["method"].as_str()? {
            "Runtime.consoleAPICalled" => {
                let kind = event["params"]["type"].as_str()?;
                ["error", "warning", "assert"]
                    .contains(&kind)
                    .then(|| event["params"]["args"].to_string())
            }
            "Runtime.exceptionThrown" => Some(event["params"]["exceptionDetails"].to_string()),
            "Log.entryAdded" => {
                let entry = &event["params"]["entry"];
                ["error", "warning"]
                    .contains(&entry["level"].as_str()?)
                    .then(|| entry.to_string())
            }
            _ => None,
        };
        BROWSER.of_events(&self.session, complaint)
    }

    /// Returns the number of requests so far, and the number of bytes received.
    pub(crate) fn requests(&self) -> (u64, u64) {
        // A `data:` URL isn't a request.
        let request = |event: &Value| {
            let url = event["params"]["request"]["url"].as_str()?;
            (event["method"] == "Network.requestWillBeSent" && url.starts_with("http"))
                .then_some(())
        };
        let bytes = |event: &Value| {
            let length = event["params"]["encodedDataLength"].as_f64();
            length.filter(|_| event["method"] == "Network.loadingFinished")
        };
        let bytes = BROWSER.of_events(&self.session, bytes);
        (
            BROWSER.of_events(&self.session, request).len() as u64,
            bytes.iter().sum::<f64>() as u64,
        )
    }

    /// Calls a DevTools method in this tab.
    pub(crate) fn call(&self, method: &str, params: &Value) -> Value {
        BROWSER
            .call(Some(&self.session), method, params)
            .unwrap_or_else(|error| panic!("{error}"))
    }

    fn try_eval(&self, script: &str) -> Result<Value, Error> {
        let params = json!({"expression": script, "awaitPromise": true, "returnByValue": true});
        let mut answer = BROWSER.call(Some(&self.session), "Runtime.evaluate", &params)?;
        match answer.get("exceptionDetails") {
            Some(details) => Err(Error::Script(details.to_string())),
            None => Ok(answer["result"]["value"].take()),
        }
    }

    /// Saves a screenshot, for debugging a failed test.
    fn keep_picture(&self) -> Result<PathBuf, Error> {
        let shot = json!({"format": "png", "captureBeyondViewport": true});
        let shot = BROWSER.call(Some(&self.session), "Page.captureScreenshot", &shot)?;
        let bytes = base64::engine::general_purpose::STANDARD
            .decode(shot["data"].as_str().unwrap_or_default());
        let path = scratch().join(format!("{}.png", self.name));
        let kept = fs::create_dir_all(scratch())
            .and_then(|()| fs::write(&path, bytes.unwrap_or_default()));
        kept.map_err(|error| Error::Start(error.to_string()))?;
        Ok(path)
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        if std::thread::panicking() {
            match self.keep_picture() {
                Ok(path) => eprintln!(
                    "--- the page at the time: {}\n{:#?}",
                    path.display(),
                    self.complaints()
                ),
                Err(error) => eprintln!("--- no picture of the page: {error}"),
            }
        }
        // Fails only if the browser has exited.
        let _ = BROWSER.call(
            None,
            "Target.disposeBrowserContext",
            &json!({"browserContextId": self.context}),
        );
    }
}

/// The directory of screenshots, below `target/`.
fn scratch() -> &'static Path {
    Path::new(concat!(env!("CARGO_TARGET_TMPDIR"), "/e2e"))
}

fn browser(method: &str, params: &Value) -> Value {
    BROWSER
        .call(None, method, params)
        .unwrap_or_else(|error| panic!("{error}"))
}

fn text(value: &Value, key: &str) -> String {
    value[key]
        .as_str()
        .unwrap_or_else(|| panic!("no {key} in {value}"))
        .to_owned()
}
