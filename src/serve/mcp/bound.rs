//! Truncates answers to the length that their reader asked for: long texts and lists first. Names every cut.

use std::borrow::Cow;

use crate::model::json::Json;

/// The longest texts, lists and objects of each stage, from the mildest to the last resort. Objects are rarely long, and
/// worth little without some of their fields.
const STAGES: [(usize, usize, usize); 9] = [
    (20_000, 2_000, 2_000),
    (8_000, 1_000, 1_000),
    (3_000, 400, 400),
    (1_200, 200, 200),
    (600, 100, 120),
    (300, 50, 80),
    (160, 24, 64),
    (80, 10, 64),
    (40, 3, 32),
];
/// How many cuts are named. The others are counted.
const MAX_NAMED: usize = 10;
/// The longest path of a cut.
const MAX_PLACE: usize = 80;

/// Returns the document in at most `max` bytes. `truncated` lists what was cut, by its path.
pub(super) fn bounded(document: &Json<'_>, max: usize) -> String {
    let whole = document.to_string();
    if whole.len() <= max {
        return whole;
    }
    for (texts, items, fields) in STAGES {
        let mut cuts = Cuts {
            texts,
            items,
            fields,
            named: Vec::new(),
            more: 0,
        };
        let short = cuts.cut(document, &mut String::new());
        let short = cuts.noted(short, whole.len()).to_string();
        if short.len() <= max {
            return short;
        }
    }
    // The names alone are too long, so this is the beginning as text. Escaping may make it longer again.
    let mut keep = max;
    loop {
        let end = whole.floor_char_boundary(keep);
        let said = format!(
            "truncated to the first {end} of {} bytes, as text",
            whole.len()
        );
        let text = Json::String(Cow::Borrowed(whole.get(..end).unwrap_or_default()));
        let said = Json::Array(vec![Json::String(said.into())]);
        let short =
            Json::Object(vec![("truncated".into(), said), ("text".into(), text)]).to_string();
        if short.len() <= max || keep == 0 {
            return short;
        }
        keep /= 2;
    }
}

/// The cuts of one stage.
struct Cuts {
    texts: usize,
    items: usize,
    fields: usize,
    named: Vec<String>,
    more: usize,
}

impl Cuts {
    fn cut<'a>(&mut self, value: &Json<'a>, at: &mut String) -> Json<'a> {
        match value {
            Json::String(text) => self
                .text(text, at)
                .map_or_else(|| value.clone(), |short| Json::String(short.into())),
            // If it must be cut, it becomes text.
            Json::Deep(text) => self
                .text(text, at)
                .map_or(Json::Deep(text), |short| Json::String(short.into())),
            Json::Array(items) => {
                if items.len() > self.items {
                    self.name(
                        at,
                        &format!("the first {} of {} entries", self.items, items.len()),
                    );
                }
                let items = items.iter().take(self.items).enumerate();
                Json::Array(
                    items
                        .map(|(n, item)| self.below(at, &n.to_string(), item))
                        .collect(),
                )
            }
            Json::Object(fields) => {
                if fields.len() > self.fields {
                    self.name(
                        at,
                        &format!("the first {} of {} keys", self.fields, fields.len()),
                    );
                }
                let fields = fields.iter().take(self.fields);
                Json::Object(
                    fields
                        .map(|(name, value)| (name.clone(), self.below(at, name, value)))
                        .collect(),
                )
            }
            Json::Null | Json::Bool(_) | Json::Number(_) => value.clone(),
        }
    }

    /// Returns the beginning of a text that is too long.
    fn text(&mut self, text: &str, at: &str) -> Option<String> {
        if text.len() <= self.texts {
            return None;
        }
        let end = text.floor_char_boundary(self.texts);
        self.name(at, &format!("the first {end} of {} bytes", text.len()));
        Some(format!(
            "{}… ({} more bytes)",
            text.get(..end).unwrap_or_default(),
            text.len() - end
        ))
    }

    fn below<'a>(&mut self, at: &mut String, name: &str, value: &Json<'a>) -> Json<'a> {
        let len = at.len();
        at.push('/');
        at.push_str(name);
        let value = self.cut(value, at);
        at.truncate(len);
        value
    }

    fn name(&mut self, at: &str, what: &str) {
        if self.named.len() == MAX_NAMED {
            self.more += 1;
            return;
        }
        let end = at.floor_char_boundary(MAX_PLACE);
        let place = at.get(..end).filter(|place| place.len() < at.len());
        let place = place.map_or_else(|| at.to_owned(), |place| format!("{place}…"));
        self.named.push(format!("{place}: {what}"));
    }

    /// Puts the list of cuts first, where a reader can't miss it.
    fn noted(self, value: Json<'_>, whole: usize) -> Json<'_> {
        let more = (self.more > 0).then(|| format!("and {} more places", self.more));
        let whole = format!("the full document has {whole} bytes");
        let said = self
            .named
            .into_iter()
            .chain(more)
            .chain([whole])
            .map(|text| Json::String(text.into()))
            .collect();
        let mut fields = vec![(Cow::Borrowed("truncated"), Json::Array(said))];
        match value {
            Json::Object(rest) => fields.extend(rest),
            other => fields.push(("value".into(), other)),
        }
        Json::Object(fields)
    }
}
