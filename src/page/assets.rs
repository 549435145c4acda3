//! Which static files are compiled in, and under which address.
//!
//! The address carries a hash of the content, so a browser may keep a file for ever and still sees a new one at once.

use std::hash::{DefaultHasher, Hasher};
use std::sync::LazyLock;

/// One embedded file.
#[derive(Debug)]
pub(crate) struct Asset {
    /// The name below `static/`.
    pub name: &'static str,
    /// The MIME type it is served with.
    pub mime: &'static str,
    /// The content.
    pub bytes: &'static [u8],
}

const CSS: &str = "text/css; charset=utf-8";
const JS: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

/// The one style sheet: what all pages share, then what single pages add.
const STYLE: &str = concat!(
    include_str!("../../static/board.css"),
    include_str!("../../static/pages/replay.css"),
    include_str!("../../static/pages/run.css"),
    include_str!("../../static/pages/whatif.css"),
    include_str!("../../static/pages/compare.css"),
    include_str!("../../static/pages/state.css"),
    include_str!("../../static/pages/scores.css"),
    include_str!("../../static/pages/search.css"),
);

macro_rules! asset {
    ($name:literal, $mime:expr) => {
        Asset { name: $name, mime: $mime, bytes: include_bytes!(concat!("../../static/", $name)) }
    };
}

/// All embedded files.
pub(crate) static ASSETS: &[Asset] = &[
    Asset { name: "board.css", mime: CSS, bytes: STYLE.as_bytes() },
    asset!("icon.svg", SVG),
    asset!("theme.js", JS),
    asset!("back.js", JS),
    asset!("state.js", JS),
    asset!("live.js", JS),
    asset!("news.js", JS),
    asset!("clock.js", JS),
    asset!("keys.js", JS),
    asset!("marks.js", JS),
    asset!("follow.js", JS),
    asset!("replay.js", JS),
    asset!("transport.js", JS),
    asset!("scores.js", JS),
    asset!("vendor/htmx.min.js", JS),
];

/// The scripts every page loads after it is drawn, in this order.
pub(crate) const MODULES: [&str; 10] = [
    "state.js",
    "live.js",
    "news.js",
    "clock.js",
    "keys.js",
    "marks.js",
    "follow.js",
    "replay.js",
    "transport.js",
    "scores.js",
];

static VERSION: LazyLock<String> = LazyLock::new(|| {
    // One version for the set, because the files belong together.
    let mut hash = DefaultHasher::new();
    ASSETS.iter().for_each(|asset| hash.write(asset.bytes));
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
