//! What did a step change in the state, said in words? Built from `state_diff`, which holds whole values before and
//! after; this finds the difference between them.
//!
//! The words are exact about what is not known: a key that was absent and one that was null look alike in the file.

use std::cmp::Ordering;

use askama::Template;
use askama::filters::HtmlSafe;
use similar::{Algorithm, ChangeTag, DiffOp, TextDiff, capture_diff_slices};

use super::fold::Fold;
use super::json::{JsonView, token};
use super::text::{self, Line};
use crate::model::json::Json;

/// How many pieces of detail one row shows before it points to the whole values.
const PIECES: usize = 16;
/// How many characters one piece shows.
const PIECE: usize = 160;
/// Texts and lists larger than this are not aligned piece by piece: the work grows with the square.
const ALIGN: usize = 4000;
/// How deep the fields of objects are compared.
const DEEP: usize = 4;

/// The State diff section of a step.
#[derive(Debug, Clone, Template)]
#[template(path = "parts/state_diff.html")]
pub struct StateDiff {
    /// What the table shows, for those who cannot see where it stands.
    pub caption: Line,
    /// One row per changed key, sorted by key.
    pub rows: Vec<DiffRow>,
    /// How many keys are unchanged.
    pub unchanged: Option<Line>,
    /// Their names.
    pub unchanged_keys: Line,
}

impl HtmlSafe for StateDiff {}

/// One changed key.
#[derive(Debug, Clone)]
pub struct DiffRow {
    /// The key.
    pub key: Line,
    /// What kind of change it is.
    pub change: Line,
    /// The detail in pieces.
    pub pieces: Vec<Piece>,
    /// The whole values, where the pieces do not show everything.
    pub whole: Option<Whole>,
}

/// A value before and after.
#[derive(Debug, Clone)]
pub struct Whole {
    /// Before the step; `None` where the file has no such side.
    pub before: Option<JsonView>,
    /// After the step; `None` where the file has no such side.
    pub after: Option<JsonView>,
}

/// One piece of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// Text that did not change, or words.
    Same(Line),
    /// The name of a field.
    Field(Line),
    /// Removed.
    Del(Line),
    /// Added.
    Ins(Line),
}

impl StateDiff {
    /// Reads the `state_diff` of a step; `None` where nothing changed. `state` is the state before it, if it is known:
    /// its other keys are the unchanged ones. `pointer` is where the diff stands in its line.
    pub fn new(diff: &Json<'_>, state: Option<&Json<'_>>, fold: &mut Fold, pointer: &str) -> Option<Self> {
        let members = diff.as_object().filter(|members| !members.is_empty())?;
        let mut rows: Vec<DiffRow> =
            members.iter().map(|(key, value)| row(key, value, fold, &format!("{pointer}/{}", token(key)))).collect();
        rows.sort_by(|a, b| a.key.as_str().cmp(b.key.as_str()));
        let others = state.and_then(Json::as_object).unwrap_or_default();
        let others: Vec<&str> =
            others.iter().map(|(key, _)| key.as_ref()).filter(|key| diff.get(key).is_none()).collect();
        Some(Self {
            caption: "Changes made by this step".into(),
            rows,
            unchanged: (!others.is_empty()).then(|| format!("{} unchanged", text::counted(others.len(), "key")).into()),
            unchanged_keys: others.join(", ").into(),
        })
    }
}

fn row(key: &str, value: &Json<'_>, fold: &mut Fold, at: &str) -> DiffRow {
    let (before, after) = (value.get("before"), value.get("after"));
    let mut change = Change::default();
    let words = match (before, after) {
        (Some(before), Some(after)) => change.between(before, after),
        (None, Some(after)) => {
            change.ins(&short(after));
            "new".to_owned()
        }
        (Some(before), None) => {
            change.del(&short(before));
            "removed".to_owned()
        }
        (None, None) => {
            // QitOS writes a text in place of both sides where the key looks like a secret.
            change.same(&short(value));
            "changed, values not recorded".to_owned()
        }
    };
    let whole = (change.cut && (before.is_some() || after.is_some())).then(|| Whole {
        before: before.map(|value| fold.json(value, &format!("{at}/before"))),
        after: after.map(|value| fold.json(value, &format!("{at}/after"))),
    });
    DiffRow { key: key.into(), change: words.into(), pieces: change.pieces, whole }
}

/// The pieces found so far, and whether something had to be left out.
#[derive(Default)]
struct Change {
    pieces: Vec<Piece>,
    cut: bool,
}

impl Change {
    fn push(&mut self, text: &str, piece: fn(Line) -> Piece) {
        if self.pieces.len() >= PIECES {
            self.cut = true;
            return;
        }
        let (line, whole) = text::one_line(text, PIECE);
        self.cut |= !whole;
        self.pieces.push(piece(line.into()));
    }

    fn same(&mut self, text: &str) {
        self.push(text, Piece::Same);
    }

    fn ins(&mut self, text: &str) {
        self.push(text, Piece::Ins);
    }

    fn del(&mut self, text: &str) {
        self.push(text, Piece::Del);
    }

    /// The words for the change from `before` to `after`; pieces are added on the way.
    fn between(&mut self, before: &Json<'_>, after: &Json<'_>) -> String {
        match (before, after) {
            _ if before == after => {
                // NaN is not equal to itself, so QitOS lists it as changed in every step.
                self.same(&short(after));
                "listed, both sides alike".to_owned()
            }
            (Json::Number(old), Json::Number(new)) => {
                self.same(&format!("{old} → {new}"));
                delta(old, new).map_or("number".to_owned(), |delta| format!("number, {delta}"))
            }
            (Json::String(old), Json::String(new)) => self.texts(old, new),
            (Json::Array(old), Json::Array(new)) => self.lists(old, new),
            (Json::Object(_), Json::Object(_)) => {
                let (changed, all) = self.fields(before, after, "", 0);
                format!("{changed} of {all} fields")
            }
            _ => {
                self.del(&short(before));
                self.ins(&short(after));
                match (kind(before), kind(after)) {
                    (old, new) if old == new => old.to_owned(),
                    (old, new) => format!("{old} → {new}"),
                }
            }
        }
    }

    fn texts(&mut self, old: &str, new: &str) -> String {
        if let Some(tail) = new.strip_prefix(old).filter(|_| !old.is_empty()) {
            self.cut = true;
            self.same(&format!("… {}", last_words(old)));
            self.ins(tail);
            return format!("text, +{}", text::counted(tail.chars().count(), "character"));
        }
        if old.len().max(new.len()) > ALIGN * 4 {
            self.cut = true;
            return format!("text, {} → {}", text::size(old.len()), text::size(new.len()));
        }
        let diff = TextDiff::from_words(old, new);
        let words = |text: &str| text.split_whitespace().count();
        let mut runs: Vec<(ChangeTag, String)> = Vec::new();
        for part in diff.iter_all_changes() {
            match runs.last_mut() {
                Some((tag, text)) if *tag == part.tag() => text.push_str(part.value()),
                _ => runs.push((part.tag(), part.value().to_owned())),
            }
        }
        if !runs.iter().any(|(tag, text)| *tag == ChangeTag::Equal && words(text) > 0) {
            self.del(old);
            self.ins(new);
            return "text".to_owned();
        }
        let count = |wanted| runs.iter().filter(|(tag, _)| *tag == wanted).map(|(_, text)| words(text)).sum::<usize>();
        let changed = count(ChangeTag::Delete).max(count(ChangeTag::Insert));
        let last = runs.len() - 1;
        for (index, (tag, text)) in runs.iter().enumerate() {
            match tag {
                ChangeTag::Delete => self.del(text),
                ChangeTag::Insert => self.ins(text),
                ChangeTag::Equal => self.context(text, index == 0, index == last),
            }
        }
        if changed == 0 { "text, spaces".to_owned() } else { format!("text, {}", text::counted(changed, "word")) }
    }

    /// Unchanged text between changes: long stretches keep their ends only.
    fn context(&mut self, text: &str, first: bool, last: bool) {
        const NEAR: usize = 5;
        let words: Vec<&str> = text.split_whitespace().collect();
        if words.len() <= 2 * NEAR + 2 {
            self.same(text.trim());
            return;
        }
        self.cut = true;
        let (head, tail) = (words.get(..NEAR).unwrap_or_default(), words.get(words.len() - NEAR..).unwrap_or_default());
        let head = if first { String::new() } else { format!("{} ", head.join(" ")) };
        let tail = if last { String::new() } else { format!(" {}", tail.join(" ")) };
        self.same(&format!("{head}…{tail}"));
    }

    fn lists(&mut self, old: &[Json<'_>], new: &[Json<'_>]) -> String {
        let same_head = old.iter().zip(new).take_while(|(a, b)| a == b).count();
        if same_head == old.len() {
            new.iter().skip(same_head).for_each(|item| self.ins(&short(item)));
            return format!("list, +{} → {}", text::counted(new.len() - old.len(), "item"), text::count(new.len()));
        }
        if same_head == new.len() {
            old.iter().skip(same_head).for_each(|item| self.del(&short(item)));
            return format!("list, −{} → {}", text::counted(old.len() - new.len(), "item"), text::count(new.len()));
        }
        if old.len().max(new.len()) > ALIGN {
            self.cut = true;
            return format!("list, {} → {}", text::counted(old.len(), "item"), text::count(new.len()));
        }
        let texts = |items: &[Json<'_>]| items.iter().map(ToString::to_string).collect::<Vec<_>>();
        let (mut added, mut removed, mut edited) = (0, 0, 0);
        for op in capture_diff_slices(Algorithm::Myers, &texts(old), &texts(new)) {
            let (was, is) = (old.get(op.old_range()).unwrap_or_default(), new.get(op.new_range()).unwrap_or_default());
            if matches!(op, DiffOp::Equal { .. }) {
                continue;
            }
            let pairs = was.len().min(is.len());
            for (offset, (a, b)) in was.iter().zip(is).enumerate() {
                self.nested(a, b, &format!("[{}]", op.new_range().start + offset), 1);
            }
            was.iter().skip(pairs).for_each(|item| self.del(&short(item)));
            is.iter().skip(pairs).for_each(|item| self.ins(&short(item)));
            edited += pairs;
            removed += was.len() - pairs;
            added += is.len() - pairs;
        }
        let counts = [("+", added), ("−", removed), ("≠", edited)];
        let words: Vec<_> = counts.iter().filter(|(_, n)| *n > 0).map(|(sign, n)| format!("{sign}{n}")).collect();
        format!("list, {} → {}", words.join(" "), text::count(new.len()))
    }

    /// Compares the fields of two objects; answers how many of how many differ.
    fn fields(&mut self, before: &Json<'_>, after: &Json<'_>, path: &str, depth: usize) -> (usize, usize) {
        let (old, new) = (before.as_object().unwrap_or_default(), after.as_object().unwrap_or_default());
        let (mut changed, mut all) = (0, old.len());
        for (key, was) in old {
            let is = after.get(key);
            if is == Some(was) {
                continue;
            }
            changed += 1;
            let name = format!("{path}{key}");
            match is {
                Some(is) => self.nested(was, is, &name, depth + 1),
                None => {
                    self.push(&name, Piece::Field);
                    self.del(&short(was));
                }
            }
        }
        for (key, is) in new.iter().filter(|(key, _)| before.get(key).is_none()) {
            all += 1;
            changed += 1;
            self.push(&format!("{path}{key}"), Piece::Field);
            self.ins(&short(is));
        }
        (changed, all)
    }

    /// A change inside a container.
    fn nested(&mut self, was: &Json<'_>, is: &Json<'_>, name: &str, depth: usize) {
        match (was, is) {
            (Json::Object(_), Json::Object(_)) if depth < DEEP => {
                self.fields(was, is, &format!("{name}."), depth);
            }
            _ => {
                self.push(name, Piece::Field);
                match (was, is) {
                    (Json::Array(old), Json::Array(new)) if depth < DEEP => {
                        let words = self.lists(old, new);
                        self.same(&format!("({words})"));
                    }
                    _ => {
                        self.del(&short(was));
                        self.ins(&short(is));
                    }
                }
            }
        }
    }
}

/// A value as text: strings without their quotes, the rest as compact JSON.
fn short(value: &Json<'_>) -> String {
    match value {
        Json::String(text) if text.is_empty() => "\"\"".to_owned(),
        Json::String(text) => text.as_ref().to_owned(),
        _ => value.to_string(),
    }
}

fn kind(value: &Json<'_>) -> &'static str {
    match value {
        Json::Null => "null",
        Json::Bool(_) => "flag",
        Json::Number(_) => "number",
        Json::String(_) => "text",
        Json::Array(_) => "list",
        Json::Object(_) => "fields",
        Json::Deep(_) => "value",
    }
}

/// The signed difference of two numbers, where it can be said exactly or in few digits.
fn delta(old: &str, new: &str) -> Option<String> {
    if let (Ok(old), Ok(new)) = (old.parse::<i128>(), new.parse::<i128>()) {
        let delta = new.checked_sub(old)?;
        return Some(if delta < 0 { format!("−{}", delta.unsigned_abs()) } else { format!("+{delta}") });
    }
    let (old, new) = (old.parse::<f64>().ok()?, new.parse::<f64>().ok()?);
    let delta = new - old;
    let size = delta.abs();
    // Seven digits hide the noise of binary fractions: 0.3 - 0.1 is 0.2.
    let size = format!("{size:.6}").trim_end_matches('0').trim_end_matches('.').to_owned();
    match delta.partial_cmp(&0.0)? {
        _ if !delta.is_finite() || size == "0" || size.len() > 16 => None,
        Ordering::Less => Some(format!("−{size}")),
        _ => Some(format!("+{size}")),
    }
}

fn last_words(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.get(words.len().saturating_sub(4)..).unwrap_or_default().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::fold::ValueLinks;

    fn read(text: &str, state: Option<&str>) -> StateDiff {
        let state = state.map(|state| Json::parse(state).unwrap());
        let fold = &mut Fold::new(ValueLinks::default());
        StateDiff::new(&Json::parse(text).unwrap(), state.as_ref(), fold, "/state_diff").unwrap()
    }

    fn one(before: &str, after: &str) -> DiffRow {
        let diff = read(&format!(r#"{{"k": {{"before": {before}, "after": {after}}}}}"#), None);
        diff.rows.into_iter().next().unwrap()
    }

    fn words(before: &str, after: &str) -> String {
        one(before, after).change.to_string()
    }

    #[test]
    fn changes_are_named() {
        assert_eq!(words("1", "2"), "number, +1");
        assert_eq!(words("0.1", "0.3"), "number, +0.2");
        assert_eq!(words("12345678901234567890123", "12345678901234567890122"), "number, −1");
        assert_eq!(words("1e308", "-1e308"), "number");
        assert_eq!(words(r#""replace_text""#, r#""run_python""#), "text");
        assert_eq!(
            words(r#""add() has its operands reversed""#, r#""add() has its operands right, operator wrong""#),
            "text, 3 words"
        );
        assert_eq!(words(r#"["a"]"#, r#"["a", "b", "c"]"#), "list, +2 items → 3");
        assert_eq!(words(r#"["a", "b"]"#, r#"["a"]"#), "list, −1 item → 1");
        assert_eq!(words(r#"["a", "b", "c"]"#, r#"["b", "x"]"#), "list, −1 ≠1 → 2");
        assert_eq!(words(r#"{"a": 1, "b": 2, "c": 3}"#, r#"{"a": 1, "b": 3, "c": 3}"#), "1 of 3 fields");
        assert_eq!(words(r#""x""#, r#"["x"]"#), "text → list");
        assert_eq!(words("null", r#""x""#), "null → text");
        assert_eq!(words("false", "true"), "flag");
        assert_eq!(words("null", "null"), "listed, both sides alike");
        assert_eq!(read(r#"{"k": {"after": 1}}"#, None).rows[0].change.as_str(), "new");
        assert_eq!(read(r#"{"k": {"before": 1}}"#, None).rows[0].change.as_str(), "removed");
        assert_eq!(read(r#"{"k": "__redacted__"}"#, None).rows[0].change.as_str(), "changed, values not recorded");
    }

    #[test]
    fn details_show_what_changed() {
        let row = one(r#"[{"id": 1, "status": "done"}]"#, r#"[{"id": 1, "status": "failed"}]"#);
        assert_eq!(
            row.pieces,
            [Piece::Field("[0].status".into()), Piece::Del("done".into()), Piece::Ins("failed".into())]
        );
        let row = one(r#"["called a"]"#, r#"["called a", "called b"]"#);
        assert_eq!((row.pieces, row.whole.is_none()), (vec![Piece::Ins("called b".into())], true));
    }

    #[test]
    fn what_is_shortened_can_be_seen_whole() {
        let long = serde_json::to_string(&"word ".repeat(200)).unwrap();
        let row = one("null", &long);
        assert!(row.whole.is_some());
        let many: Vec<usize> = (0..100).collect();
        let row = one("[]", &serde_json::to_string(&many).unwrap());
        assert_eq!((row.pieces.len(), row.whole.is_some()), (PIECES, true));
        let huge = |c: &str| serde_json::to_string(&c.repeat(ALIGN * 5)).unwrap();
        assert!(one(&huge("a"), &huge("b")).whole.is_some());
        let appended = one(r#""one two""#, r#""one two three""#);
        assert_eq!(appended.change.as_str(), "text, +6 characters");
        assert!(appended.whole.is_some());
    }

    #[test]
    fn keys_are_sorted_and_unchanged_ones_counted() {
        let diff = read(
            r#"{"z": {"before": 1, "after": 2}, "a": {"before": 1, "after": 2}}"#,
            Some(r#"{"a": 1, "m": 1, "z": 1}"#),
        );
        assert_eq!(diff.rows[0].key.as_str(), "a");
        assert_eq!(diff.unchanged.unwrap().as_str(), "1 key unchanged");
        assert_eq!(diff.unchanged_keys.as_str(), "m");
        let empty = Json::parse("{}").unwrap();
        assert!(StateDiff::new(&empty, None, &mut Fold::new(ValueLinks::default()), "").is_none());
    }

    #[test]
    fn hostile_states_are_text() {
        let evil = serde_json::to_string("<script>\"'</textarea>\u{202e}\u{0}").unwrap();
        let text = format!(
            "{{{evil}: {{\"before\": {evil}, \"after\": [{evil}]}}, \"o\": {{\"before\": {{{evil}: 1}}, \"after\": {{{evil}: {evil}}}}}, \"r\": {evil}}}"
        );
        let html = read(&text, Some(&format!("{{{evil}: 1, \"<script>b\": 2}}"))).render().unwrap();
        assert!(
            !html.contains("<script")
                && !html.contains("</textarea")
                && !html.contains('\u{202e}')
                && !html.contains('\u{0}')
        );
        assert!(html.contains("<ins>&#60;script&#62;") || html.contains("<ins>[&#34;&#60;script"), "{html}");
    }
}
