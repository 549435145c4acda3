//! Embeds the static files and defines their addresses.
//!
//! The address contains a hash of the content, so browsers may cache a file forever and still load
//! a new version at once. A page requests three files: its own style sheet, the script that must
//! run before the first paint, and the script for everything else. The sources are small and are
//! joined at compile time.

use std::hash::{DefaultHasher, Hasher};
use std::sync::LazyLock;

/// An embedded file.
#[derive(Debug)]
pub(crate) struct Asset {
    /// The name below `/static/{version}/`.
    pub name: &'static str,
    /// The MIME type it is served with.
    pub mime: &'static str,
    pub text: &'static str,
}

macro_rules! source {
    ($name:literal) => {
        include_str!(concat!("../../static/", $name))
    };
}

/// A style sheet: the shared rules, then files of `static/pages/`.
macro_rules! sheet {
    ($name:literal: $($part:literal)*) => {
        Asset {
            name: $name,
            mime: "text/css; charset=utf-8",
            text: concat!(source!("board.css") $(, include_str!(concat!("../../static/pages/", $part, ".css")))*),
        }
    };
}

/// A script built from several files. Each file is wrapped in its own function, so names can't
/// clash.
macro_rules! script {
    ($name:literal: $first:expr, $($part:literal)*) => {
        Asset {
            name: $name,
            mime: "text/javascript; charset=utf-8",
            text: concat!($first $(, "\n(() => {\n\"use strict\";\n", source!($part), "})();\n")*),
        }
    };
}

/// All embedded files. Templates name their sheet in `{% block sheet %}`.
pub(crate) static ASSETS: &[Asset] = &[
    sheet!("board.css":),
    sheet!("compare.css": "replay" "run" "share" "whatif" "compare" "state" "scores"),
    sheet!("experiments.css": "usage" "experiment"),
    sheet!("export.css": "replay" "run" "state" "scores" "transcript" "export"),
    sheet!("overview.css": "usage" "overview"),
    sheet!("failures.css": "usage" "failures"),
    sheet!("replay.css": "replay" "run" "whatif" "state" "scores"),
    sheet!("run.css": "run" "share" "state" "transcript" "files" "timeline"),
    sheet!("runs.css": "runs"),
    sheet!("scores.css": "replay" "run" "share" "whatif" "scores"),
    sheet!("search.css": "whatif" "search"),
    sheet!("usage.css": "usage"),
    sheet!("whatif.css": "run" "share" "whatif" "scores"),
    script!("head.js": "", "theme.js" "back.js"),
    script!("board.js": source!("vendor/htmx.min.js"),
        "elements.js" "copy.js" "share.js" "values.js" "state.js" "live.js" "news.js" "clock.js" "keys.js" "jump.js" "marks.js" "views.js" "visit.js" "tell.js" "ended.js" "complete.js" "menus.js" "walk.js" "steps.js" "outline.js" "found.js" "find.js" "transcript.js" "tabs.js" "follow.js" "strip.js" "replay.js" "transport.js" "brush.js" "lanes.js" "zoom.js" "timeline.js" "threshold.js" "scores.js"),
];

static VERSION: LazyLock<String> = LazyLock::new(|| {
    // The files depend on each other, so they share one version.
    let mut hash = DefaultHasher::new();
    ASSETS
        .iter()
        .for_each(|asset| hash.write(asset.text.as_bytes()));
    format!("{:016x}", hash.finish())
});

/// Returns the version of all files: 16 hex digits.
pub(crate) fn version() -> &'static str {
    &VERSION
}

/// Returns the file called `name`, if it is embedded.
pub(crate) fn find(name: &str) -> Option<&'static Asset> {
    ASSETS.iter().find(|asset| asset.name == name)
}
