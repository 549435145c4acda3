//! Tests that a saved run is self-contained: verdict, steps, scores and replay, opened from disk
//! without a network.

use std::path::Path;
use std::process::Command;

use crate::board::BINARY;
use crate::disk::corpus;
use crate::looks::violations;
use crate::page::{PHONE, Page};
use crate::soak::times;

/// Saves a run and opens the file, as its recipient would.
fn saved(run: &Path, more: &[&str]) -> (tempfile::TempDir, Page) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("saved.html");
    let made = Command::new(BINARY)
        .arg("export")
        .arg(run)
        .arg("--html")
        .arg(&file)
        .args(more)
        .output()
        .unwrap();
    assert!(
        made.status.success(),
        "{}",
        String::from_utf8_lossy(&made.stderr)
    );
    let page = Page::open();
    page.without_network();
    page.goto(&format!("file://{}", file.display()));
    (dir, page)
}

fn fix_bug() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("sample_runs/fix_bug")
}

#[test]
fn a_saved_run_shows_everything_without_a_network() {
    let (_dir, page) = saved(&fix_bug(), &[]);
    assert_eq!(page.text("#verdict"), "Answered at step 10.");
    assert_eq!((page.count(".xstep"), page.count(".lane")), (11, 2));
    assert!(
        page.text("#step-5").contains("1 of 4 failed"),
        "{}",
        page.text("#step-5")
    );
    assert_eq!(
        page.count("[href]:not([href^='#']), [src]:not([src^='data:'])"),
        0,
        "no link leads out of the file"
    );
    page.eval("document.querySelector('.ev a[href]').click()");
    page.wait("location.hash.startsWith('#step-')");
    assert_eq!(page.complaints(), Vec::<String>::new());
}

#[test]
fn it_opens_at_the_cursor_and_replays_there_and_back() {
    let (_dir, page) = saved(&fix_bug(), &["--step", "5", "--event", "4"]);
    assert_eq!(page.text("[data-where]"), "step 5, event 4 of 8");
    assert_eq!(page.count(".xstep:not([hidden])"), 1);
    assert_eq!(page.text("[data-state-of]"), "before step 5");
    page.press("n");
    page.wait("document.querySelector('[data-state-of]').textContent === 'after step 5'");
    let suspect = "[...document.querySelectorAll('[data-state] .chg')].map(row => row.innerText.replace(/\\s+/g, ' ').trim())";
    let changed = page.eval(suspect).to_string();
    assert!(
        changed.contains("suspect \\\"discount\\\" at 5"),
        "{changed}"
    );
    let picture = || page.text("main");
    let before = picture();
    page.eval("for (let i = 0; i < 1000; i++) document.querySelector('[data-to=on]').click()");
    assert!(
        page.text("[data-where]").starts_with("step 10, event"),
        "{}",
        page.text("[data-where]")
    );
    page.eval("for (let i = 0; i < 1000; i++) document.querySelector('[data-to=back]').click()");
    assert!(
        page.text("[data-where]").starts_with("step 0, event 1 of"),
        "{}",
        page.text("[data-where]")
    );
    // The address is updated once the walk is over.
    page.wait("location.hash === '#step=0&event=1'");
    page.eval("location.hash = '#step=5&event=5'");
    page.wait("document.querySelector('[data-where]').textContent === 'step 5, event 5 of 8'");
    assert_eq!(picture(), before, "the address matches the cursor");
    page.press("G");
    page.press(" ");
    page.wait("document.querySelector('[data-play]').getAttribute('aria-pressed') === 'true'");
    // From the end, playing starts over.
    page.wait("Number(document.querySelector('[data-slide]').value) > 0");
    assert!(
        page.text("[data-where]").starts_with("step 0, event"),
        "{}",
        page.text("[data-where]")
    );
    page.press(" ");
    assert_eq!(
        page.eval("document.querySelector('[data-play]').getAttribute('aria-pressed')"),
        "false"
    );
    assert_eq!(page.complaints(), Vec::<String>::new());
}

#[test]
fn it_is_readable_for_everyone_and_on_a_phone() {
    let runs = [
        (fix_bug(), &["--step", "5"][..]),
        (corpus().join("q060/q060_visual_desktop"), &[]),
    ];
    for (nth, (run, more)) in runs.into_iter().enumerate() {
        let (_dir, page) = saved(&run, more);
        // One run at laptop width and one at phone width; both at both widths in soak tests.
        let looks = [(1280, "light"), (PHONE, "dark")];
        for (width, theme) in looks.into_iter().skip(times(nth, 0)).take(times(1, 2)) {
            page.look(width, theme);
            assert_eq!(
                violations(&page),
                Vec::<String>::new(),
                "{} at {width} in {theme}",
                run.display()
            );
            let wide = page.eval("document.documentElement.scrollWidth - innerWidth");
            assert!(wide.as_i64() <= Some(0), "{wide} px too wide");
        }
    }
    let (_dir, page) = saved(&corpus().join("q060/q060_visual_desktop"), &[]);
    assert_eq!(
        page.eval("document.querySelector('.pictures img').naturalWidth > 0"),
        true,
        "pictures are in the file"
    );
}

#[test]
fn hostile_text_stays_text() {
    let (_dir, page) = saved(&corpus().join("q060/q060_html_injection"), &["--step", "1"]);
    assert_eq!(
        page.count(
            ".xstep script, .xstep iframe, .xstep img:not([src^='data:']), [onerror], [onload]"
        ),
        0
    );
    assert!(
        page.text("main").contains("<script>"),
        "the text itself is present"
    );
    assert_eq!(page.complaints(), Vec::<String>::new());
}
