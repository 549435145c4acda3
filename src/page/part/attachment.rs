//! Shows a picture or a file that a value embeds as base64. A raster picture is shown in place,
//! from a separate address. Anything else is named by its type and size.
//!
//! Models and tools write such blocks in several ways, all with a type and a text. Board serves
//! a picture only if its first bytes match its type, and only types that can't contain scripts.

use askama::Template;
use askama::filters::HtmlSafe;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::analysis::format;
use crate::model::json::Json;
use crate::page::part::fold::Fold;
use crate::page::part::href;
use crate::page::part::text::Line;

/// Shorter texts are shown as text; bytes.
const MIN_BYTES: usize = 64;
/// A picture with more base64 is only named; bytes.
const MAX_BYTES: usize = 7 << 20;

/// A picture or a file inside a value.
#[derive(Debug, Clone, Template)]
#[template(path = "part/attachment.html")]
pub(crate) struct Attachment {
    /// The address of the picture. `None` if it is only named.
    pub picture: Option<String>,
    /// The address of the recorded value, if it has one.
    pub value: Option<String>,
    /// The type and the size.
    pub caption: Line,
}

impl HtmlSafe for Attachment {}

/// The embedded data of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Inside<'a> {
    /// The recorded MIME type.
    mime: &'a str,
    /// The bytes in base64.
    data: &'a str,
}

/// Returns whether a text is a `data:` URL with base64.
pub(crate) fn is_data(text: &str) -> bool {
    of_address(text).is_some()
}

fn of_address(text: &str) -> Option<Inside<'_>> {
    let (mime, data) = text.strip_prefix("data:")?.split_once(";base64,")?;
    let is_type = mime.len() < 100 && mime.bytes().all(|byte| byte.is_ascii_graphic());
    (is_type && is_base64(data)).then_some(Inside { mime, data })
}

/// Returns whether the beginning of a text looks like base64. Decoding checks the rest.
fn is_base64(text: &str) -> bool {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=');
    text.len() >= MIN_BYTES && text.as_bytes().iter().take(256).all(is_part)
}

/// Returns the picture or file that a value holds: a `data:` URL, or a block with a type and a
/// text.
pub(crate) fn of<'v>(value: &'v Json<'_>) -> Option<Inside<'v>> {
    match value {
        Json::String(text) => of_address(text),
        Json::Object(_) => {
            let word = |of: &'v Json<'_>, key: &str| of.get(key).and_then(Json::as_str);
            // `image_url` is an address, or an object with one.
            let address = ["image_url", "url", "image"].into_iter().find_map(|key| {
                let inner = value.get(key)?;
                of_address(inner.as_str().or_else(|| inner.get("url")?.as_str())?)
            });
            let source = ["source", "inlineData", "inline_data", "file"]
                .into_iter()
                .filter_map(|key| value.get(key));
            let block = || {
                source.chain([value]).find_map(|of| {
                    let data = ["data", "file_data", "base64"]
                        .into_iter()
                        .find_map(|key| word(of, key))?;
                    let keys = ["media_type", "mimeType", "mime_type", "mediaType"];
                    let mime = keys.into_iter().find_map(|key| word(of, key));
                    of_address(data).or_else(|| {
                        is_base64(data).then(|| Inside {
                            mime: mime.unwrap_or(""),
                            data,
                        })
                    })
                })
            };
            address.or_else(block)
        }
        _ => None,
    }
}

impl Inside<'_> {
    /// Returns the MIME type by the first bytes. `None` if it isn't a raster picture.
    fn raster(&self) -> Option<&'static str> {
        let head = self.data.get(..16)?;
        let head = STANDARD.decode(head).ok()?;
        let begins = |bytes: &[u8]| head.starts_with(bytes);
        match () {
            () if begins(b"\x89PNG\r\n\x1a\n") => Some("image/png"),
            () if begins(b"\xff\xd8\xff") => Some("image/jpeg"),
            () if begins(b"GIF87a") || begins(b"GIF89a") => Some("image/gif"),
            () if begins(b"RIFF") && head.get(8..12) == Some(b"WEBP") => Some("image/webp"),
            () => None,
        }
    }

    /// Returns whether it is a raster picture.
    pub(crate) fn is_picture(&self) -> bool {
        self.raster().is_some()
    }

    /// Returns the type and the bytes of a picture that may be shown.
    pub(crate) fn picture(&self) -> Option<(&'static str, Vec<u8>)> {
        let kind = self.raster().filter(|_| self.data.len() <= MAX_BYTES)?;
        Some((kind, STANDARD.decode(self.data).ok()?))
    }

    /// Returns the size in bytes.
    fn bytes(&self) -> u64 {
        let filled = self
            .data
            .bytes()
            .rev()
            .take_while(|byte| *byte == b'=')
            .count()
            .min(2);
        (self.data.len() / 4 * 3).saturating_sub(filled) as u64
    }
}

impl Attachment {
    /// Formats the data at `pointer`.
    pub(crate) fn new(inside: &Inside<'_>, pointer: &str, fold: &mut Fold) -> Self {
        let value = fold.links.value(pointer);
        let kind = inside.raster();
        let mut caption = match (kind, inside.mime) {
            (Some(kind), _) => kind.to_owned(),
            (None, "") => "data of unknown type".to_owned(),
            (None, mime) => mime.to_owned(),
        };
        caption.push_str(&format!(", {}", format::bytes(inside.bytes())));
        let picture = match (kind, fold.links.value.clone().as_str()) {
            (None, _) | (_, "") => None,
            (Some(_), _) if inside.data.len() > MAX_BYTES => {
                caption.push_str(": too large to show");
                None
            }
            (Some(_), _) if !fold.takes_picture() => {
                caption.push_str(": not shown (too many images)");
                None
            }
            (Some(_), base) => Some(href::with_query(
                base,
                &[("at", pointer), ("as", "picture")],
            )),
        };
        Self {
            picture,
            value,
            caption: caption.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::part::fold::ValueLinks;

    fn png() -> String {
        STANDARD.encode([b"\x89PNG\r\n\x1a\n".as_slice(), &[7; 90]].concat())
    }

    fn show(json: &str) -> String {
        let links = ValueLinks {
            value: "/v".into(),
            raw: "/raw".into(),
        };
        Fold::new(links)
            .json(&Json::parse(json).unwrap(), "/a")
            .render()
            .unwrap()
    }

    #[test]
    fn pictures_are_found_however_they_are_spelled() {
        let data = png();
        for json in [
            format!(r#""data:image/png;base64,{data}""#),
            format!(
                r#"{{"type": "image_url", "image_url": {{"url": "data:image/png;base64,{data}"}}}}"#
            ),
            format!(r#"{{"type": "input_image", "image_url": "data:image/png;base64,{data}"}}"#),
            format!(
                r#"{{"type": "image", "source": {{"type": "base64", "media_type": "image/png", "data": "{data}"}}}}"#
            ),
            format!(r#"{{"inlineData": {{"mimeType": "image/png", "data": "{data}"}}}}"#),
            format!(r#"{{"type": "image_base64", "data": "{data}"}}"#),
        ] {
            let html = show(&json);
            assert!(
                html.contains("<img src=\"/v?at=%2Fa&#38;as=picture\""),
                "{html}"
            );
            assert!(
                html.contains("image/png, 98 bytes") && !html.contains(&data),
                "{html}"
            );
        }
    }

    #[test]
    fn what_is_no_raster_picture_is_named() {
        let svg = STANDARD.encode(format!("<svg onload='alert(1)'>{}</svg>", " ".repeat(90)));
        for mime in ["image/svg+xml", "image/png", "text/html"] {
            let html = show(&format!(r#""data:{mime};base64,{svg}""#));
            assert!(!html.contains("<img") && html.contains(mime), "{html}");
            assert!(
                of(&Json::String(format!("data:{mime};base64,{svg}").into()))
                    .unwrap()
                    .picture()
                    .is_none()
            );
        }
        let pdf = STANDARD.encode([b'%'; 400]);
        let html = show(&format!(
            r#"{{"type": "document", "source": {{"media_type": "application/pdf", "data": "{pdf}"}}}}"#
        ));
        assert!(html.contains("application/pdf, 400 bytes"), "{html}");
    }

    #[test]
    fn words_are_no_attachments() {
        for json in [
            r#""data:image/png;base64,short""#,
            r#"{"data": "some words that are longer than a few letters, which base64 has not"}"#,
            "{}",
        ] {
            assert!(of(&Json::parse(json).unwrap()).is_none(), "{json}");
        }
    }

    #[test]
    fn many_pictures_are_counted_and_named() {
        let one = format!(r#""data:image/png;base64,{}""#, png());
        let html = show(&format!("[{}]", vec![one; 30].join(",")));
        assert_eq!(html.matches("<img").count(), 20);
        assert_eq!(html.matches("not shown (too many images)").count(), 10);
    }
}
