//! Tests pages rendered from sample values, by element and attribute, never by layout.

use std::collections::HashSet;
use std::path::Path;

use askama::Template;
use jiff::tz::TimeZone;

use crate::analysis::facts::tests::Files;
use crate::analysis::life::ExternalFacts;
use crate::analysis::run_result::ShownStatus;
use crate::analysis::summary::{Summary, summary};
use crate::model::RunKey;
use crate::page::run_view::RunView;

use crate::page::shell::Status;

/// A text that closes an attribute, an element and a comment, and contains a tag that htmx
/// interprets.
pub(crate) const HOSTILE: &str =
    r#"a"'><script>alert(1)</script><hx-partial hx-target="body">--></title><head>"#;

/// A run read from files, for rendering pages.
pub(crate) struct Recorded {
    files: Files,
    pub(crate) summary: Summary,
    zone: TimeZone,
    _dir: Option<tempfile::TempDir>,
}

impl Recorded {
    /// Creates a run from these step lines.
    pub(crate) fn steps(lines: impl IntoIterator<Item = String>) -> Self {
        let lines: String = lines.into_iter().map(|line| line + "\n").collect();
        Self::files([("steps.jsonl", &*lines)])
    }

    /// Creates a run from these files.
    pub(crate) fn files<const N: usize>(files: [(&str, &str); N]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(dir.path().join(name), text).unwrap();
        }
        let run = Self::read(dir.path());
        Self {
            _dir: Some(dir),
            ..run
        }
    }

    /// Reads a recorded run from this repository.
    pub(crate) fn run(path: &str) -> Self {
        Self::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join(path))
    }

    fn read(path: &Path) -> Self {
        let files = Files::open(path);
        let summary = summary(
            &RunKey::new("a/b"),
            String::new(),
            &files.index,
            ExternalFacts::default(),
        );
        Self {
            files,
            summary,
            zone: TimeZone::UTC,
            _dir: None,
        }
    }

    pub(crate) fn view(&self) -> RunView<'_> {
        RunView {
            summary: &self.summary,
            index: &self.files.index,
            lines: &self.files,
            now: 0,
            stale: None,
            related_runs: &Vec::new,
            zone: &self.zone,
            editor: None,
            files: &|| Some(0),
        }
    }
}

/// A start tag with its unescaped attributes.
pub(crate) struct Tag {
    pub(crate) name: String,
    attributes: Vec<(String, String)>,
}

impl Tag {
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.attributes
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }
}

/// Returns all start tags of `html`. Parses only what our templates produce: attributes are bare or
/// double-quoted, except for htmx's configuration, which is single-quoted.
pub(crate) fn tags(html: &str) -> Vec<Tag> {
    let mut tags = Vec::new();
    let mut rest = html;
    while let Some(at) = rest.find('<') {
        rest = &rest[at + 1..];
        let name: String = rest
            .chars()
            .take_while(|c| c.is_ascii_alphanumeric() || *c == '-')
            .collect();
        if name.is_empty() {
            continue;
        }
        rest = &rest[name.len()..];
        let mut attributes = Vec::new();
        loop {
            rest = rest.trim_start();
            if rest.starts_with('>') || rest.is_empty() {
                break;
            }
            let end = rest.find(['=', '>', ' ', '\n']).unwrap();
            let key = rest[..end].to_owned();
            rest = &rest[end..];
            let mut value = String::new();
            if let Some(quoted) = rest.strip_prefix('=') {
                let quote = quoted.chars().next().unwrap();
                assert!(
                    matches!(quote, '"' | '\''),
                    "an attribute without quotes: {key}"
                );
                let (inside, after) = quoted[1..].split_once(quote).unwrap();
                value = unescape(inside);
                rest = after;
            }
            attributes.push((key, value));
        }
        tags.push(Tag { name, attributes });
    }
    tags
}

fn unescape(text: &str) -> String {
    text.replace("&#60;", "<")
        .replace("&#62;", ">")
        .replace("&#34;", "\"")
        .replace("&#39;", "'")
        .replace("&#38;", "&")
}

pub(crate) fn by_id<'a>(tags: &'a [Tag], id: &str) -> &'a Tag {
    tags.iter()
        .find(|tag| tag.get("id") == Some(id))
        .unwrap_or_else(|| panic!("no element #{id}"))
}

/// Checks the rules for every page: unique ids, no inline code, valid references, one heading, one
/// main element. Returns the page's tags.
pub(crate) fn check_page(html: &str) -> Vec<Tag> {
    let tags = tags(html);
    let mut ids = HashSet::new();
    for id in tags.iter().filter_map(|tag| tag.get("id")) {
        assert!(ids.insert(id), "the id {id} occurs twice");
    }
    for tag in &tags {
        assert!(
            tag.name != "style" && tag.get("style").is_none(),
            "inline style on {}",
            tag.name
        );
        assert!(
            !tag.attributes
                .iter()
                .any(|(key, _)| key.starts_with("on") || key.starts_with("hx-on"))
        );
        assert!(
            tag.name != "script" || tag.get("src").is_some(),
            "an inline script"
        );
        if tag.name == "use" {
            assert!(
                ids.contains(&tag.get("href").unwrap()[1..]),
                "no symbol {:?}",
                tag.get("href")
            );
        }
        for key in [
            "aria-labelledby",
            "aria-describedby",
            "for",
            "popovertarget",
        ] {
            assert!(
                tag.get(key).is_none_or(|id| ids.contains(id)),
                "{key} points nowhere: {:?}",
                tag.get(key)
            );
        }
    }
    for name in ["h1", "main"] {
        assert_eq!(
            tags.iter().filter(|tag| tag.name == name).count(),
            1,
            "one {name} in a page"
        );
    }
    tags
}

#[test]
fn every_status_has_a_shape_and_a_word() {
    let all = ShownStatus::ALL
        .map(Status::Of)
        .into_iter()
        .chain([Status::Contradicted, Status::Indexing]);
    let sprite = include_str!("../../templates/part/sprite.html");
    let mut seen = HashSet::new();
    for status in all {
        assert!(sprite.contains(&format!("id=\"{}\"", status.icon())));
        assert!(
            seen.insert(status.word()) && seen.insert(status.icon()),
            "{status:?} looks like another one"
        );
        assert!(status.render().unwrap().contains(status.word()));
        assert!(
            !status
                .mark()
                .render()
                .unwrap()
                .contains(&format!("{}</span>", status.word()))
        );
    }
}

#[test]
fn scripts_are_small_and_make_no_markup() {
    // The export is a single file, so its script is a single file too.
    let sources = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/static"))
        .unwrap()
        .flatten();
    let paths = sources
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|kind| kind == "js"));
    let joined = crate::page::assets::find("head.js")
        .unwrap()
        .text
        .to_owned()
        + crate::page::assets::find("board.js").unwrap().text;
    for path in paths.filter(|path| !path.ends_with("export.js")) {
        let (name, text) = (path.display(), std::fs::read_to_string(&path).unwrap());
        assert!(joined.contains(&text), "{name} is not served");
        assert!(text.lines().count() < 100, "{name} is too long");
        // Scripts may set custom properties for positions. The style sheet decides how they look.
        let text = text.replace(".style.setProperty(\"--", "");
        for forbidden in [
            ".innerHTML",
            ".outerHTML",
            ".insertAdjacentHTML",
            "document.write",
            "eval(",
            ".style",
        ] {
            assert!(!text.contains(forbidden), "{name} uses {forbidden}");
        }
    }
}
