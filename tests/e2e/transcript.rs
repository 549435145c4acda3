//! Tests that a session can be read from top to bottom, however long it is.

use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::Write as _;

use serde_json::{Value, json};

use crate::page::Page;
use crate::site::Site;
use crate::wait::until;

/// The steps between two prompts.
const TURN: usize = 20;

/// The records of one step of a Claude Code session. The first step of a turn follows a prompt.
fn records(n: usize) -> String {
    let mut out = String::new();
    let mut record = |id: &str, kind: &str, message: Value| {
        let time = format!(
            "2026-03-0{}T{:02}:{:02}:00.000Z",
            1 + n / 1440,
            n / 60 % 24,
            n % 60
        );
        let record = json!({
            "type": kind, "uuid": format!("{id}{n}"), "sessionId": "s", "cwd": "/home/me/ledger", "version": "2.1.0",
            "timestamp": time, "message": message,
        });
        writeln!(out, "{record}").expect("a string can be written to");
    };
    if n.is_multiple_of(TURN) {
        record(
            "p",
            "user",
            json!({"role": "user", "content": format!("Please do part {}.", n / TURN)}),
        );
    }
    let reply = |content: Value, stop: &str| {
        json!({"role": "assistant", "id": format!("m{n}"), "model": "claude-sonnet-4-5", "content": content, "stop_reason": stop,
               "usage": {"input_tokens": 10, "output_tokens": 5}})
    };
    if n % TURN == TURN - 1 {
        let text = format!("Part {} is **done**.", n / TURN);
        record(
            "a",
            "assistant",
            reply(json!([{"type": "text", "text": text}]), "end_turn"),
        );
    } else {
        let call = json!([
            {"type": "text", "text": format!("Now number {n}.")},
            {"type": "tool_use", "id": format!("c{n}"), "name": "Bash", "input": {"command": format!("ls /home/me/ledger/part{n}")}},
        ]);
        record("a", "assistant", reply(call, "tool_use"));
        let result = json!([{"type": "tool_result", "tool_use_id": format!("c{n}"), "content": format!("file {n}\nother file")}]);
        record("r", "user", json!({"role": "user", "content": result}));
    }
    out
}

/// A board over one session of so many steps.
fn session(steps: usize) -> Site {
    session_of(&(0..steps).map(records).collect::<String>(), steps)
}

/// A board over one session with these records and so many steps.
fn session_of(text: &str, steps: usize) -> Site {
    let site = Site::with(&[]);
    fs::write(site.path("long.jsonl"), text).expect("a session can be written");
    until("the session is read", || {
        let answer = site.board.get("/api/runs/long.jsonl");
        (answer.status == 200 && site.board.json("/api/runs/long.jsonl")["steps"] == steps)
            .then_some(())
    });
    site
}

const PAGE: &str = "/runs/long.jsonl?tab=transcript";

/// Waits until step `n` is the first one below the bars at the top of the window.
fn wait_for(page: &Page, n: usize) {
    page.wait(&format!(
        "(step => step && Math.abs(step.getBoundingClientRect().top - document.querySelector('.bar2').getBoundingClientRect().bottom) < 8)
         (document.querySelector('#t{n}'))"
    ));
}

#[test]
fn every_step_of_a_long_session_is_reached_by_scrolling() {
    let site = session(2_000);
    let page = site.open(PAGE);
    page.wait("document.readyState === 'complete'");
    assert!(page.count("*") <= 1_500, "{} elements", page.count("*"));
    assert_eq!(page.text("#t0 .you .prose"), "Please do part 0.");
    assert_eq!(page.text("#t0 summary .a"), "ls part0");
    // In the middle of the scroll bar is the middle of the session.
    page.eval("scrollTo(0, document.documentElement.scrollHeight / 2)");
    page.wait(
        "(steps => steps.some(step => step.getBoundingClientRect().top < innerHeight && step.getBoundingClientRect().bottom > 0
            && step.dataset.n > 900 && step.dataset.n < 1100))([...document.querySelectorAll('.ts')])",
    );
    assert!(page.count("*") <= 1_500, "{} elements", page.count("*"));
    page.eval("scrollTo(0, document.documentElement.scrollHeight)");
    page.wait("document.querySelector('#t1999')");
    // Scrolling on from there, steps come without a gap between them.
    page.eval("scrollBy(0, -2000)");
    page.wait(
        "(steps => steps.every((step, at) => at === 0 || step.dataset.n - steps[at - 1].dataset.n === 1))
         ([...document.querySelectorAll('.ts')])",
    );
    assert_eq!(page.complaints(), Vec::<String>::new());
}

#[test]
fn scrolling_on_while_steps_load_does_not_jump() {
    // The first steps are much higher than the others, so the gaps change their height with each part.
    let tall = format!("{}Now number", "A line of its own.\\n\\n".repeat(30));
    let records = (0..2_000).map(|n| match n {
        ..300 => records(n).replace("Now number", &tall),
        _ => records(n),
    });
    let site = session_of(&records.collect::<String>(), 2_000);
    let page = site.open(PAGE);
    page.wait("document.readyState === 'complete' && document.querySelector('#t5')");
    // The user scrolls on between the request for the steps in a gap and its response.
    page.eval(
        "document.addEventListener('htmx:before:swap', () => scrollBy({ top: 1500, behavior: 'instant' }), { capture: true, once: true });
         scrollTo(0, document.documentElement.scrollHeight / 2)",
    );
    page.wait(
        "(part => part && [...document.querySelectorAll('.ts')].some(step => step.getBoundingClientRect().top < innerHeight
            && step.getBoundingClientRect().bottom > 0 && Math.abs(step.dataset.n - /around=([0-9]+)/.exec(part.name)[1]) < 80))
         (performance.getEntriesByType('resource').find(entry => entry.name.includes('/transcript/part')))",
    );
    assert_eq!(page.complaints(), Vec::<String>::new());
}

#[test]
fn keys_and_links_lead_to_prompts_and_steps() {
    let site = session(2_000);
    let page = site.open(&format!("{PAGE}&step=1000#t1000"));
    page.wait("document.readyState === 'complete'");
    wait_for(&page, 1_000);
    assert_eq!(
        page.text("#outline a[aria-current] .p1"),
        "Please do part 50."
    );
    for (key, step) in [
        ("J", 1_020),
        ("J", 1_040),
        ("K", 1_020),
        ("j", 1_021),
        ("k", 1_020),
        ("K", 1_000),
    ] {
        page.press(key);
        wait_for(&page, step);
    }
    // A prompt that isn't on the page.
    let first = page.eval("Number(document.querySelector('#outline a[data-step]').dataset.step)");
    let first = usize::try_from(first.as_u64().expect("a number")).expect("a step");
    assert!(first < 900, "{first} isn't on the page");
    // A click with the mouse would scroll the page first, and so change the outline.
    page.eval("document.querySelector('#outline a[data-step]').click()");
    wait_for(&page, first);
    assert_eq!(page.complaints(), Vec::<String>::new());
}

#[test]
fn a_text_is_found_and_its_steps_are_walked() {
    let site = session(2_000);
    let page = site.open(PAGE);
    page.wait("document.readyState === 'complete'");
    page.press("/");
    page.insert("part15");
    page.press("Enter");
    // 15, 150 to 158, and 1500 to 1598 without the last step of each turn.
    page.wait("document.querySelector('#found')?.textContent === '1 of 105 matches in 105 steps'");
    wait_for(&page, 15);
    assert!(
        page.location().contains("find=part15"),
        "{}",
        page.location()
    );
    page.wait("CSS.highlights.get('found').size > 0");
    for (key, step) in [
        ("n", 150),
        ("n", 151),
        ("N", 150),
        ("N", 15),
        ("N", 1_598),
        ("n", 15),
    ] {
        page.press(key);
        wait_for(&page, step);
    }
    // Escape clears the text, also after the focus has moved to a step.
    page.press("Escape");
    page.wait("document.querySelector('#finds').children.length === 0 && !document.querySelector('.bar2 .find input[name=find]').value");
    page.wait("!location.search.includes('find=') && !CSS.highlights.get('found')?.size");
    // While the user types, the field keeps the focus.
    page.press("/");
    page.insert("part777");
    page.wait("document.querySelector('#found').textContent === '1 of 1 match in 1 step'");
    wait_for(&page, 777);
    assert_eq!(page.eval("document.activeElement.name"), "find");
    assert_eq!(page.complaints(), Vec::<String>::new());
}

#[test]
fn enter_opens_the_calls_of_the_step_that_keys_moved_to() {
    let site = session(40);
    let page = site.open(PAGE);
    page.wait("document.readyState === 'complete'");
    page.press("j");
    wait_for(&page, 1);
    let open = "document.querySelectorAll('#t1 details.tool[open]').length";
    assert_eq!(page.eval(open), 0);
    page.press("Enter");
    page.wait(&format!("{open} === 1"));
    page.press("Enter");
    page.wait(&format!("{open} === 0"));
    assert_eq!(page.complaints(), Vec::<String>::new());
}

#[test]
fn without_scripts_a_session_is_read_page_by_page() {
    let site = session(200);
    let page = Page::open();
    page.without_scripts();
    page.goto(&site.url(PAGE));
    let mut steps = 0;
    while page.count(".winlink a[rel=next]") > 0 {
        steps += page.count(".ts");
        assert!(page.count(&format!("#t{steps}")) == 0);
        page.click(".winlink a[rel=next]");
        page.wait(&format!(
            "document.readyState === 'complete' && document.querySelector('#t{steps}')"
        ));
    }
    assert_eq!(steps + page.count(".ts"), 200);
    assert_eq!(page.count(".winlink a[rel=prev]"), 1);
}

#[test]
fn new_steps_are_shown_while_the_end_is_in_view() {
    let site = session(60);
    let page = site.open(&format!("{PAGE}&step=59#t59"));
    page.wait("document.readyState === 'complete' && document.querySelector('#t59')");
    page.eval("scrollTo(0, document.documentElement.scrollHeight)");
    page.wait("innerHeight + scrollY > document.documentElement.scrollHeight - 40");
    let mut file = OpenOptions::new()
        .append(true)
        .open(site.path("long.jsonl"))
        .expect("the session is there");
    let more: String = (60..66).map(records).collect();
    file.write_all(more.as_bytes()).expect("a session can grow");
    // A request from before the new steps may take them off the page for a moment.
    page.wait(
        "innerHeight + scrollY > document.documentElement.scrollHeight - 40 \
         && document.querySelector('#t65') \
         && document.querySelector('#t60 .you .prose')?.textContent === 'Please do part 3.'",
    );
    assert_eq!(page.complaints(), Vec::<String>::new());
}

#[test]
fn thinking_and_results_open_all_at_once() {
    let site = session(40);
    let page = site.open(PAGE);
    page.wait("document.readyState === 'complete'");
    assert_eq!(page.count(".tool[open]"), 0);
    page.click(".bar2 [data-open=tool]");
    page.wait("document.querySelectorAll('.tool:not([open])').length === 0");
    page.click(".bar2 [data-open=tool]");
    page.wait("document.querySelectorAll('.tool[open]').length === 0");
    assert_eq!(page.complaints(), Vec::<String>::new());
}

#[test]
fn a_transcript_of_five_thousand_steps_stays_small() {
    let site = session(5_000);
    for step in [0, 2_500, 4_999] {
        let page = site.open(&format!("{PAGE}&step={step}"));
        page.wait("document.readyState === 'complete'");
        page.wait(&format!("document.querySelector('#t{step}')"));
        assert!(page.count("*") <= 1_500, "{} elements", page.count("*"));
    }
}

#[test]
fn every_prompt_is_in_the_outline_or_behind_its_links() {
    let site = session(2_000);
    let page = site.open(PAGE);
    page.wait("document.readyState === 'complete'");
    // Those near the step in view have facts, too.
    assert_eq!(page.count("#outline a[data-step]"), 65);
    assert_eq!(page.count("#outline a[data-step] small"), 30);
    let links =
        "[...document.querySelectorAll('#outline .sub a')].map(link => link.textContent).join()";
    assert_eq!(page.eval(links), "Prompts 66–95,Prompts 96–100");
    page.eval("document.querySelector('#outline .sub:last-child a').click()");
    page.wait("document.querySelector('#outline a[aria-current] .p1')?.innerText === 'Please do part 95.'");
    page.wait("document.querySelector('#outline a[data-step=\"1980\"]')");
    assert_eq!(page.complaints(), Vec::<String>::new());
}

#[test]
fn a_key_copies_the_link_to_the_step() {
    let site = session(100);
    let page = site.open(&format!("{PAGE}&step=40#t40"));
    page.wait("document.readyState === 'complete'");
    wait_for(&page, 40);
    // The outline knows the step in view a moment later.
    page.wait("document.querySelector('#outline a[aria-current]')?.dataset.step === '40'");
    // The button says so for two seconds, which a busy machine may miss.
    page.eval("(() => { const button = document.querySelector('#t40 [data-copy-link]'); new MutationObserver(() => { window.wasCopied ||= button.textContent === 'Copied'; }).observe(button, { childList: true, characterData: true, subtree: true }); })()");
    page.press("y");
    page.wait("window.wasCopied");
}

#[test]
fn the_steps_of_a_session_begin_near_the_top_of_the_page() {
    let site = session(200);
    let page = Page::open();
    page.look(1_440, "light");
    page.goto(&site.url("/runs/long.jsonl?step=1"));
    page.wait("document.readyState === 'complete'");
    let top = page.eval("document.querySelector('#steprows').getBoundingClientRect().top + document.querySelector('#steps').scrollTop");
    let top = top.as_f64().expect("a number");
    // Eighteen rows of 28 px fit below it in a window of 900 px.
    assert!(top <= 340.0, "{top} px");
}

#[test]
fn keys_walk_the_files_of_a_run() {
    let edit = |n: usize, path: &str| {
        let call = json!([{"type": "tool_use", "id": format!("c{n}"), "name": "Edit",
            "input": {"file_path": format!("/home/me/ledger/{path}"), "old_string": "one", "new_string": "two"}}]);
        let reply = json!({"role": "assistant", "id": format!("m{n}"), "model": "claude-sonnet-4-5", "content": call, "stop_reason": "tool_use",
            "usage": {"input_tokens": 10, "output_tokens": 5}});
        let result = json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": format!("c{n}"), "content": "ok"}]});
        let record = |id: &str, kind: &str, message: &Value| {
            let record = json!({"type": kind, "uuid": format!("{id}{n}"), "sessionId": "s", "cwd": "/home/me/ledger", "version": "2.1.0",
                "timestamp": format!("2026-03-01T10:00:0{n}.000Z"), "message": message});
            format!("{record}\n")
        };
        record("a", "assistant", &reply) + &record("r", "user", &result)
    };
    let site = session_of(&(edit(0, "a.rs") + &edit(1, "b.rs")), 2);
    let page = site.open("/runs/long.jsonl?tab=files");
    page.wait("document.readyState === 'complete'");
    let is_at = |name: &str| {
        format!(
            "document.readyState === 'complete' && document.querySelector('#files .f[aria-current] i')?.textContent === '{name}'"
        )
    };
    page.wait(&is_at("a.rs"));
    page.press("j");
    page.wait(&is_at("b.rs"));
    page.press("k");
    page.wait(&is_at("a.rs"));
}

#[test]
fn the_menu_share_copies_the_step_in_view() {
    let site = session(100);
    let page = site.open(&format!("{PAGE}&step=40#t40"));
    page.wait("document.readyState === 'complete'");
    wait_for(&page, 40);
    page.eval("navigator.clipboard.writeText = async (text) => { window.copied = text }; void 0");
    page.eval("document.querySelector('#share > summary').click()");
    page.wait(
        "document.querySelector('#share #sheet table') && document.querySelector('#sheet').elements.step?.value === '40'",
    );
    page.eval("document.querySelector('#sheet [name=part][value=step]').click()");
    page.eval("document.querySelector('#sheet [data-copy-form]').click()");
    page.wait(
        "window.copied?.includes('Now number 40.') && !window.copied.includes('Now number 41.')",
    );
    assert_eq!(page.complaints(), Vec::<String>::new());
}

#[test]
fn the_first_error_beside_the_closed_verdict_names_its_command_and_links_its_step() {
    let failing = |n: usize| {
        let command = "uv run --locked pytest tests/unit/test_of_a_module_with_a_long_name.py -q";
        records(n)
            .replace(&format!("ls /home/me/ledger/part{n}"), command)
            .replace(
                "other file\"",
                "FAILED test_a - assert 1 == 2\",\"is_error\":true",
            )
    };
    let text = (0..20).map(|n| match n {
        3 => failing(n),
        n => records(n),
    });
    let site = session_of(&text.collect::<String>(), 20);
    let page = Page::open();
    for width in [1_440, 1_024, 390] {
        page.look(width, "light");
        page.goto(&site.url(PAGE));
        page.wait("document.readyState === 'complete'");
        assert_eq!(
            page.text(".vt code"),
            "uv run --locked pytest tests/uni…",
            "{width}"
        );
        let whole = page.eval("document.querySelector('.vt').title");
        let whole = whole.as_str().unwrap_or_default();
        assert!(
            whole.contains("module_with_a_long_name.py") && whole.contains("assert 1 == 2"),
            "{whole}"
        );
        let seen = page.eval(
            "(part => {
                const range = new Range();
                range.setStart(part.querySelector('code').nextSibling, 0);
                range.setEnd(part.querySelector('code').nextSibling, 12);
                const [error, box] = [range.getBoundingClientRect(), part.getBoundingClientRect()];
                return error.right < box.right && error.bottom <= box.bottom;
             })(document.querySelector('.vt'))",
        );
        assert_eq!(seen, true, "{width}: the error begins in view");
        page.click(".vt a");
        page.wait("location.search.includes('step=3') && document.readyState === 'complete'");
    }
    assert_eq!(page.complaints(), Vec::<String>::new());
}

#[test]
fn keys_walk_each_place_of_a_text_also_within_a_step() {
    let text = (0..40).map(|n| match n {
        3 => records(n).replace("other file", "a marked line\\nmarked and marked again"),
        7 => records(n).replace("Now number 7.", "It is marked."),
        _ => records(n),
    });
    let site = session_of(&text.collect::<String>(), 40);
    let page = site.open(PAGE);
    page.wait("document.readyState === 'complete'");
    page.press("/");
    page.insert("marked");
    page.press("Enter");
    let says = |words: &str| {
        page.wait(&format!(
            "document.querySelector('#found')?.textContent === '{words} of 4 matches in 2 steps'"
        ));
    };
    // The place that is marked as the current one: its step, and the characters before it in its line.
    let now = |step: u32, before: &str| {
        page.wait(&format!(
            "(([range]) => range?.startContainer.parentElement.closest('.ts').dataset.n === '{step}'
                && (own => (own.setStart(range.startContainer.parentElement.closest(':not(mark)'), 0), own.setEnd(range.startContainer, range.startOffset),
                    own.toString().split('\\n').at(-1)))(new Range()) === '{before}'
                && range.startContainer.parentElement.checkVisibility())
             ([...(CSS.highlights.get('found-now') ?? [])])"
        ));
    };
    says("1");
    now(3, "a ");
    for (key, place, step, before) in [
        ("n", "2", 3, ""),
        ("n", "3", 3, "marked and "),
        ("n", "4", 7, "It is "),
        ("N", "3", 3, "marked and "),
        ("N", "2", 3, ""),
        ("n", "3", 3, "marked and "),
        ("n", "4", 7, "It is "),
        ("n", "1", 3, "a "),
    ] {
        page.press(key);
        says(place);
        now(step, before);
    }
    // On a page that was opened with the text, the key shows the first place.
    page.goto(&site.url(&format!("{PAGE}&find=marked")));
    page.wait("document.readyState === 'complete' && document.querySelector('#t3')");
    page.press("n");
    says("1");
    now(3, "a ");
    // All places are marked, too.
    assert_eq!(page.eval("CSS.highlights.get('found').size >= 4"), true);
    assert_eq!(page.complaints(), Vec::<String>::new());
}

#[test]
fn on_a_phone_the_outline_is_folded_and_the_transcript_begins_on_the_first_screen() {
    let site = session(40);
    let page = Page::open();
    page.look(390, "light");
    for scripts in [true, false] {
        if !scripts {
            page.without_scripts();
        }
        page.goto(&site.url(PAGE));
        let top = page.eval("document.querySelector('#t0 .you').getBoundingClientRect().top");
        assert!(
            top.as_f64().is_some_and(|top| top < 800.0),
            "{top} px, scripts: {scripts}"
        );
        let seen = "document.querySelector('#outline').checkVisibility()";
        assert_eq!(page.eval(seen), false);
        page.click("#olbox");
        page.wait(seen);
    }
    // The button of a turn is beside its time, inside the margin of the page.
    let button = Page::open();
    for (width, margin) in [(1_440, 16), (1_300, 16), (1_024, 16), (768, 16), (390, 16)] {
        button.look(width, "light");
        button.goto(&site.url(PAGE));
        let place = button.eval(
            "(([time, copy, width]) => [Math.abs(time.top + time.height / 2 - copy.top - copy.height / 2) < 6, width - copy.right])
             ([document.createRange(), document.querySelector('#t0 .you .at .btn'), innerWidth].map(it => {
               if (it instanceof Range) it.selectNode(document.querySelector('#t0 .you .at').firstChild);
               return it.getBoundingClientRect?.() ?? it; }))",
        );
        assert_eq!(place[0], true, "{width}: {place}");
        assert!(
            place[1].as_f64() >= Some(f64::from(margin)),
            "{width}: {place}"
        );
    }
    page.look(1_024, "light");
    page.goto(&site.url(PAGE));
    assert_eq!(
        page.eval("[document.querySelector('#outline').checkVisibility(), document.querySelector('.olt').checkVisibility()]"),
        json!([true, false])
    );
}
