//! Tests that text from models and tools is readable and can be copied, and that none of it
//! executes.

use std::fs;

use serde_json::{Value, json};

use crate::page::Page;
use crate::site::Site;
use crate::wait::until;

/// Sets `window.pwned` if a browser executes it.
const EVIL: &str = "<img src=x onerror=window.pwned=1><script>window.pwned=1</script></pre></code></span>\u{202e}\u{200b}";

/// A board over one run with two steps, `reads`, whose texts all contain [`EVIL`].
fn site() -> Site {
    let site = Site::with(&[]);
    let run = site.path("reads");
    fs::create_dir_all(&run).expect("a directory can be made");
    let code = format!(
        "# Head {EVIL}\n\n```python\ndef f(x='{EVIL}'): # {EVIL}\n    return 1\n```\n\n```{EVIL}\n{EVIL}\n```\n"
    );
    let png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    let svg = "PHN2ZyB4bWxucz0iaHR0cDovL3d3dy53My5vcmcvMjAwMC9zdmciIG9ubG9hZD0id2luZG93LnB3bmVkPTEiPjwvc3ZnPiAgICAgICAgICAg";
    let picture = |kind: &str, data: &str| json!({"type": "image_url", "image_url": {"url": format!("data:{kind};base64,{data}")}});
    let step = |n: usize| {
        json!({
            "step_id": n,
            "decision": {"mode": "act", "rationale": code, "actions": []},
            "actions": [{"name": "edit", "args": {"path": format!("a{EVIL}.py"), "old": "one\nsame", "new": format!("{EVIL}\nsame")}}, {"name": "look", "args": {}}],
            "action_results": [
                {"status": "success", "output": json!({"k": EVIL, "n": [1, true, null]}).to_string()},
                {"status": "success", "output": [picture("image/png", png), picture("image/svg+xml", svg), picture("text/html", svg)]},
            ],
            "tool_invocations": [{"tool_name": "edit", "status": "success"}, {"tool_name": "look", "status": "success"}],
        })
    };
    let event = |n: usize, payload: Value| json!({"step_id": n, "phase": "DECIDE", "ok": true, "ts": "2026-01-01T00:00:00Z", "payload": payload});
    let system = json!({"role": "system", "content": EVIL});
    let asked = json!({"role": "user", "content": [{"type": "text", "text": code}, picture("image/png", png)]});
    let more = json!({"role": "tool", "content": EVIL});
    let events = [
        event(
            0,
            json!({"stage": "model_input", "messages": [system, asked]}),
        ),
        event(0, json!({"stage": "model_output", "raw_output": code})),
        event(
            1,
            json!({"stage": "model_input", "messages": [system, asked, more]}),
        ),
    ];
    let lines = |all: &[Value]| {
        all.iter()
            .map(|line| format!("{line}\n"))
            .collect::<String>()
    };
    fs::write(run.join("steps.jsonl"), lines(&[step(0), step(1)])).expect("steps can be written");
    fs::write(run.join("events.jsonl"), lines(&events)).expect("events can be written");
    let tools = json!([{"name": EVIL, "description": EVIL, "parameters": {EVIL: EVIL}}]);
    let manifest = json!({"run_id": "reads", "schema_version": "v1", "status": "completed", "tool_manifest": tools});
    fs::write(run.join("manifest.json"), manifest.to_string()).expect("a manifest can be written");
    until("the run is read", || {
        (site.board.get("/api/runs/reads").status == 200).then_some(())
    });
    until("its steps are", || {
        (site.board.json("/api/runs/reads")["steps"] == 2).then_some(())
    });
    site
}

#[test]
fn nothing_that_is_set_acts() {
    let site = site();
    let file: String = format!("a{EVIL}.py")
        .bytes()
        .map(|byte| format!("%{byte:02X}"))
        .collect();
    let page = Page::open();
    for (path, shows) in [
        ("?step=0".to_owned(), ".md pre .c-k"),
        ("?step=0".to_owned(), ".pair pre .c-a"),
        ("?step=0".to_owned(), ".attached img"),
        ("?step=1".to_owned(), ".msg pre"),
        ("?tab=files".to_owned(), ".tree-f a"),
        (format!("?tab=files&file={file}"), ".net ins"),
        (format!("?tab=files&file={file}"), ".edit ins"),
        ("?tab=prompt".to_owned(), ".tools > li"),
        ("?tab=timeline".to_owned(), "#lanes a rect"),
        ("?tab=transcript".to_owned(), ".tool .edit ins"),
        ("?tab=transcript".to_owned(), ".tr .md pre .c-k"),
        ("?tab=events&open=1".to_owned(), ".opened .json"),
        ("/steps/0/value?at=".to_owned(), "pre .c-a"),
    ] {
        page.goto(&site.url(&format!("/runs/reads{path}")));
        page.wait("document.readyState === 'complete'");
        assert!(page.count(shows) > 0, "{path} shows {shows}");
        assert_eq!(
            page.eval("typeof window.pwned"),
            json!("undefined"),
            "{path}"
        );
        assert_eq!(page.eval("[...document.images].filter(image => !image.src.startsWith(location.origin)).length"), 0);
        assert_eq!(
            page.eval(
                "document.querySelectorAll('main script, main iframe, main svg[onload]').length"
            ),
            0
        );
        assert_eq!(page.unseen(), json!([]), "{path}");
        assert_eq!(page.complaints(), Vec::<String>::new(), "{path}");
    }
}

#[test]
fn a_picture_in_a_value_is_shown_and_nothing_else_is() {
    let site = site();
    let page = site.open("/runs/reads/steps/0");
    page.wait("[...document.querySelectorAll('.pairs .attached img')].some(image => (image.loading = 'eager', image.naturalWidth === 1))");
    assert_eq!(page.count(".pairs .attached img"), 1);
    let text = page.text(".pairs");
    assert!(
        text.contains("image/svg+xml") && text.contains("text/html"),
        "{text}"
    );
    for n in 0..2 {
        let at = format!(
            "/runs/reads/steps/0/value?at=%2Faction_results%2F1%2Foutput%2F{}&as=picture",
            n + 1
        );
        assert_eq!(site.board.get(&at).status, 404, "{at}");
    }
}

#[test]
fn a_text_a_call_and_a_command_can_be_copied() {
    let site = site();
    let page = site.open("/runs/reads?step=1");
    page.eval("navigator.clipboard.writeText = async (text) => { window.copied = text }; void 0");
    page.hover(".edit pre");
    page.click(".edit pre + .copy");
    page.wait("window.copied?.startsWith('-one\\n+')");
    page.wait("[...document.querySelectorAll('[role=status]')].some(said => said.textContent === 'Copied')");
    page.hover(".pair .call");
    page.click(".pair .call + .copy");
    page.wait("window.copied?.startsWith('edit(')");
    page.click("#stepview [data-copy]");
    page.wait("window.copied?.startsWith('board show ') && window.copied.endsWith(' --step 1')");
    page.click("[data-copy-link]");
    page.wait("window.copied === location.origin + '/runs/reads?step=1'");
    assert_eq!(page.complaints(), Vec::<String>::new());
}

#[test]
fn a_value_is_copied_exactly_and_whole() {
    let site = site();
    let page = site.open("/runs/reads/manifest/value?at=%2Ftool_manifest");
    page.eval("navigator.clipboard.writeText = async (text) => { window.copied = text }; void 0");
    page.hover(".json .json .k");
    page.click(".json .json > li > .copy");
    page.wait(&format!("window.copied === {}", json!(EVIL)));
    page.eval("document.querySelector('details[data-value] > summary').focus()");
    page.click("details[data-value] + .copy");
    page.wait(&format!(
        "window.copied && JSON.parse(window.copied)[0].parameters[{0}] === {0}",
        json!(EVIL)
    ));
    assert_eq!(page.complaints(), Vec::<String>::new());
}
