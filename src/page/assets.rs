//! Which static files are compiled in, and under which address?
//!
//! The address carries a hash of the content, so a browser may keep a file for ever and still sees a new one at once.
//! A page asks for three: a style sheet of its own, the script that has to run before the first paint, and the script
//! for everything else. The sources are small; they are joined here, at compile time.

use std::hash::{DefaultHasher, Hasher};
use std::sync::LazyLock;

/// One embedded file.
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

/// A style sheet: what all pages share, then files of `static/pages/`.
macro_rules! sheet {
    ($name:literal: $($part:literal)*) => {
        Asset {
            name: $name,
            mime: "text/css; charset=utf-8",
            text: concat!(source!("board.css") $(, include_str!(concat!("../../static/pages/", $part, ".css")))*),
        }
    };
}

/// One script of several files. Each is a function of its own, so that two may use the same name.
macro_rules! script {
    ($name:literal: $first:expr, $($part:literal)*) => {
        Asset {
            name: $name,
            mime: "text/javascript; charset=utf-8",
            text: concat!($first $(, "\n(() => {\n\"use strict\";\n", source!($part), "})();\n")*),
        }
    };
}

/// All embedded files. The sheets are named by the templates, in `{% block sheet %}`.
pub(crate) static ASSETS: &[Asset] = &[
    sheet!("board.css":),
    sheet!("compare.css": "replay" "run" "whatif" "compare" "state" "scores"),
    sheet!("export.css": "replay" "run" "state" "scores" "export"),
    sheet!("replay.css": "replay" "run" "whatif" "state" "scores"),
    sheet!("run.css": "run" "state"),
    sheet!("runs.css": "runs"),
    sheet!("scores.css": "replay" "run" "whatif" "scores"),
    sheet!("search.css": "whatif" "search"),
    sheet!("whatif.css": "run" "whatif" "scores"),
    script!("head.js": "", "theme.js" "back.js"),
    script!("board.js": source!("vendor/htmx.min.js"),
        "copy.js" "values.js" "state.js" "live.js" "news.js" "clock.js" "keys.js" "jump.js" "marks.js" "steps.js" "tabs.js" "follow.js" "strip.js" "replay.js" "transport.js" "brush.js" "threshold.js" "scores.js"),
];

static VERSION: LazyLock<String> = LazyLock::new(|| {
    // One version for the set, because the files belong together.
    let mut hash = DefaultHasher::new();
    ASSETS
        .iter()
        .for_each(|asset| hash.write(asset.text.as_bytes()));
    format!("{:016x}", hash.finish())
});

/// The version of the set: 16 hex digits.
pub(crate) fn version() -> &'static str {
    &VERSION
}

/// The file called `name`, if it is embedded.
pub(crate) fn find(name: &str) -> Option<&'static Asset> {
    ASSETS.iter().find(|asset| asset.name == name)
}
