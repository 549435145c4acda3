//! Saves a run as a single HTML file that loads nothing and works in any browser.
//!
//! The file reuses the parts of the board's pages. Links to the board become links within the file
//! or are removed.

pub(crate) mod fill;
pub(crate) mod handler;

use std::io::{self, Write};

use askama::Template;

use crate::page::part::href;
use crate::page::part::sign::Phrase;
use crate::page::part::strip::Strip;
use crate::page::part::text::{self, Line};
use crate::page::run::head::RunHead;
use crate::page::run::verdict::Verdict;
use crate::page::scores::ScoresBody;
use crate::page::step::StepView;

/// The controls of the replay. The script that makes them work also shows them.
const BAR: &str = include_str!("../../../templates/export/export_bar.html");
/// The script that replays a saved run.
const SCRIPT: &str = include_str!("../../../static/export.js");

/// The part of the file before the first step.
#[derive(Template)]
#[template(path = "export/page.html")]
pub(crate) struct ExportHead<'a> {
    /// The nonce of the scripts and styles in this file. A trace's author can't know it.
    pub nonce: String,
    /// The step and the event of that step that the file opens at.
    pub cursor: Option<(usize, usize)>,
    /// When and where the run was saved from, and what is omitted.
    pub notes: Vec<String>,
    pub head: RunHead<'a>,
    pub verdict: Verdict<'a>,
    pub strip: Strip,
    pub scores: Option<ScoresBody<'a>>,
    /// The child runs.
    pub started: Vec<Phrase>,
}

/// A step in the file, `#step-{n}`.
#[derive(Debug, Clone, Template)]
#[template(path = "export/export_step.html")]
pub(crate) struct ExportStep {
    pub step_view: StepView,
    /// The phase classes of its events, in order, separated by spaces.
    pub phases: String,
    /// The text that replaces the step's sections once the file is full. Empty otherwise.
    pub left_out: Line,
}

/// Renders and writes a part of the file without any addresses of the board. Returns the bytes
/// written.
///
/// # Errors
/// Returns errors of the writer and of the template.
pub(crate) fn write_part(
    out: &mut dyn Write,
    part: &impl Template,
    key: &str,
    picture: &mut PictureAt<'_>,
) -> io::Result<usize> {
    let html = in_place(&prepared(part, key)?, key, picture);
    out.write_all(html.as_bytes())?;
    Ok(html.len())
}

fn prepared(part: &impl Template, key: &str) -> io::Result<String> {
    let html = without(
        &offline(&part.render().map_err(io::Error::other)?, key),
        " data-value=\"",
    );
    // A page with all steps has too many scrollable sections for them to be landmarks.
    Ok(html.replace(" role=\"region\"", " role=\"group\""))
}

/// Writes the part of the file before the first step, including the style sheet. Returns the bytes
/// written.
///
/// # Errors
/// Returns errors of the writer and of the template.
pub(crate) fn write_head(
    out: &mut dyn Write,
    head: &ExportHead<'_>,
    key: &str,
) -> io::Result<usize> {
    let html = prepared(head, key)?;
    let style = crate::page::assets::find("export.css").map_or("", |asset| asset.text);
    // Text from traces is escaped, so the first `</head>` is the page's own.
    let (before, after) = html.split_once("</head>").unwrap_or((&html, ""));
    write!(
        out,
        "{before}<style nonce=\"{}\">{style}</style>\n</head>{after}",
        head.nonce
    )?;
    Ok(html.len() + style.len())
}

/// Writes the end of the file: the states as data, and the script.
///
/// # Errors
/// Returns errors of the writer.
pub(crate) fn write_end(out: &mut dyn Write, states: &str, nonce: &str) -> io::Result<()> {
    // In a script element, only `<` can start an end tag.
    let states = states.replace('<', "\\u003c");
    write!(
        out,
        "{BAR}</main>\n<script type=\"application/json\" id=\"states\">{states}</script>\n\
         <script type=\"module\" nonce=\"{nonce}\">{SCRIPT}</script>\n</body>\n</html>\n"
    )
}

/// Returns the data URL of the picture at an address of the board, or the reason it isn't in the
/// file.
pub(crate) type PictureAt<'r> = dyn FnMut(&str) -> Result<String, String> + 'r;

/// Embeds the pictures found in this run's values, because the file can't request them from the
/// board.
fn in_place(html: &str, key: &str, picture: &mut PictureAt<'_>) -> String {
    const IMAGE: &str = "<img src=\"";
    let run = href::run(key);
    let mut out = String::with_capacity(html.len());
    let mut rest = html;
    while let Some((before, found)) = rest.split_once(IMAGE) {
        out.push_str(before);
        let (address, after) = found.split_once('"').unwrap_or((found, ""));
        if address.starts_with(&run) {
            match picture(&address.replace("&#38;", "&")) {
                Ok(data) => out.push_str(&format!("{IMAGE}{data}\"")),
                Err(why) => {
                    out.push_str(&format!("<span class=\"odd\">{why}</span> "));
                    rest = after.split_once('>').map_or("", |(_, after)| after);
                    continue;
                }
            }
        } else {
            out.push_str(&format!("{IMAGE}{address}\""));
        }
        rest = after;
    }
    out.push_str(rest);
    out
}

/// Turns links to this run's steps into links within the file, keeps fragment links, and removes
/// all others.
fn offline(html: &str, key: &str) -> String {
    const ATTRIBUTE: &str = " href=\"";
    let run = href::run(key);
    let mut out = String::with_capacity(html.len());
    let mut rest = html;
    while let Some(at) = rest.find(ATTRIBUTE) {
        let (before, found) = rest.split_at(at);
        let value = found.get(ATTRIBUTE.len()..).unwrap_or_default();
        let (value, after) = value.split_once('"').unwrap_or((value, ""));
        out.push_str(before);
        let step = value
            .strip_prefix(&run)
            .and_then(|rest| rest.strip_prefix("?step=").or(rest.strip_prefix("/steps/")));
        match step
            .filter(|step| !step.is_empty() && step.bytes().all(|digit| digit.is_ascii_digit()))
        {
            Some(step) => out.push_str(&format!("{ATTRIBUTE}#step-{step}\"")),
            None if value.strip_prefix(&run) == Some("#pending") => {
                out.push_str(&format!("{ATTRIBUTE}#pending\""))
            }
            None if value.starts_with('#') => out.push_str(&format!("{ATTRIBUTE}{value}\"")),
            None => {}
        }
        rest = after;
    }
    out.push_str(rest);
    out
}

/// Removes an attribute and its value.
fn without(html: &str, attribute: &str) -> String {
    let mut parts = html.split(attribute);
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |all, part| {
        all + part.split_once('"').map_or("", |(_, after)| after)
    })
}

/// Returns the media type of a picture by its file name. Supports raster formats only, because an
/// SVG can contain scripts.
pub(crate) fn picture_type(name: &str) -> Option<&'static str> {
    match name.rsplit_once('.')?.1.to_ascii_lowercase().as_str() {
        "png" => Some("image/png"),
        "jpg" | "jpeg" => Some("image/jpeg"),
        "gif" => Some("image/gif"),
        "webp" => Some("image/webp"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::page::export::*;

    #[test]
    fn links_stay_inside_the_file_or_lead_nowhere() {
        let html = r##"<a href="/runs/a%2Fb?step=4">x</a> <a class="b" href="/runs/a%2Fb/steps/12">y</a> <a href="/runs/a%2Fb/steps/12/raw">w</a> <a href="/api/x" rel="next">z</a> <use href="#i-ok"></use>"##;
        assert_eq!(
            offline(html, "a/b"),
            r##"<a href="#step-4">x</a> <a class="b" href="#step-12">y</a> <a>w</a> <a rel="next">z</a> <use href="#i-ok"></use>"##
        );
        assert_eq!(
            offline("<a href=\"/runs/other?step=4\">x</a>", "a/b"),
            "<a>x</a>"
        );
        assert_eq!(
            offline("<a href=\"/runs/a%2Fb#pending\">x</a>", "a/b"),
            "<a href=\"#pending\">x</a>"
        );
    }

    #[test]
    fn an_attribute_that_leads_to_the_board_goes() {
        let html =
            r#"<q data-value="/runs/a/steps/0/value?at=">x</q><code data-value="/y">z</code>"#;
        assert_eq!(without(html, " data-value=\""), "<q>x</q><code>z</code>");
    }

    #[test]
    fn pictures_in_values_stand_in_the_file_or_are_named() {
        let html = r#"<a href="/x"><img src="/runs/a%2Fb/steps/4/value?at=%2Fx&#38;as=picture" alt="A" loading="lazy"></a> <img src="data:image/png;base64,AA" alt="B">"#;
        let mut asked = Vec::new();
        let mut picture = |address: &str| {
            asked.push(address.to_owned());
            Ok("data:image/png;base64,BB".to_owned())
        };
        let placed = in_place(html, "a/b", &mut picture);
        assert_eq!(
            placed,
            r#"<a href="/x"><img src="data:image/png;base64,BB" alt="A" loading="lazy"></a> <img src="data:image/png;base64,AA" alt="B">"#
        );
        assert_eq!(asked, ["/runs/a%2Fb/steps/4/value?at=%2Fx&as=picture"]);
        let named = in_place(html, "a/b", &mut |_| Err("left out".to_owned()));
        assert_eq!(
            named,
            r#"<a href="/x"><span class="odd">left out</span> </a> <img src="data:image/png;base64,AA" alt="B">"#
        );
    }

    #[test]
    fn data_cannot_leave_its_element() {
        let mut out = Vec::new();
        write_end(&mut out, "[\"</script><img>\"]", "n").unwrap();
        let html = String::from_utf8(out).unwrap();
        assert!(html.contains(r#"["\u003c/script>\u003cimg>"]"#), "{html}");
    }
}
