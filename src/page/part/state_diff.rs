//! Shows changes of the state: a description, the changed pieces, and the whole values if the
//! pieces are incomplete.
//!
//! [`crate::analysis::diff`] finds the changes. This module only formats them.

use askama::Template;
use askama::filters::HtmlSafe;

use crate::analysis::diff::{self, Change, KeyChange, Kind, What};
use crate::analysis::format;
use crate::analysis::patch::recorded_diff;
use crate::model::json::Json;
use crate::page::part::action::not_shown;
use crate::page::part::edit::FileEdit;
use crate::page::part::fold::Fold;
use crate::page::part::json_tree::{JsonView, token};
use crate::page::part::text::Line;

/// Pieces that one row shows before it links to the whole values.
const PIECES: usize = 16;
/// Bytes of text that one piece shows.
const PIECE: usize = 160;

/// The State changes section of a step.
#[derive(Debug, Clone, Template)]
#[template(path = "part/state_diff.html")]
pub(crate) struct StateDiff {
    /// Describes the table for screen readers.
    pub caption: Line,
    /// One row per changed key, sorted by key.
    pub rows: Vec<DiffRow>,
    /// States how many changed keys have no row.
    pub more: Line,
    /// States how many keys are unchanged.
    pub unchanged: Option<Line>,
    pub unchanged_keys: Line,
}

impl HtmlSafe for StateDiff {}

#[derive(Debug, Clone)]
pub(crate) struct DiffRow {
    pub key: Line,
    pub change: Line,
    pub pieces: Vec<Piece>,
    /// The whole values, if the pieces don't show everything.
    pub whole: Option<Whole>,
    /// The changed lines, if the record has a diff of them.
    pub edit: Option<FileEdit>,
}

#[derive(Debug, Clone)]
pub(crate) struct Whole {
    /// The value before the step. `None` if the diff doesn't record it.
    pub before: Option<JsonView>,
    /// The value after the step. `None` if the diff doesn't record it.
    pub after: Option<JsonView>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Piece {
    /// Unchanged text, or a description.
    Same(Line),
    /// The path of a field.
    Field(Line),
    Del(Line),
    Ins(Line),
}

impl StateDiff {
    /// Reads the `state_diff` of a step, which is at `pointer` in its line. Returns `None` if
    /// nothing changed. `state` is the state before the step, if known: its other keys are the
    /// unchanged ones.
    pub(crate) fn new(
        state_diff: &Json<'_>,
        state: Option<&Json<'_>>,
        fold: &mut Fold,
        pointer: &str,
    ) -> Option<Self> {
        let changes = diff::changes_of_step(state_diff);
        if changes.is_empty() {
            return None;
        }
        let mut rows = Vec::new();
        for change in &changes {
            if !fold.takes(rows.len()) {
                break;
            }
            rows.push(row(change, state_diff, fold, pointer));
        }
        let more = not_shown(changes.len() - rows.len(), "more key", "more keys");
        let others = state.and_then(Json::as_object).unwrap_or_default().iter();
        let others: Vec<&str> = others
            .map(|(key, _)| key.as_ref())
            .filter(|key| state_diff.get(key).is_none())
            .collect();
        Some(Self {
            caption: "Changes made by this step".into(),
            rows,
            more,
            unchanged: (!others.is_empty())
                .then(|| format!("{} unchanged", format::counted(others.len(), "key")).into()),
            unchanged_keys: others.join(", ").into(),
        })
    }
}

fn row(change: &KeyChange<'_>, state_diff: &Json<'_>, fold: &mut Fold, pointer: &str) -> DiffRow {
    let (key, words) = change.row();
    let (pieces, cut) = pieces(change);
    for piece in &pieces {
        let (Piece::Same(text) | Piece::Field(text) | Piece::Del(text) | Piece::Ins(text)) = piece;
        fold.spend(text.as_str());
    }
    let diff = state_diff
        .get(change.key)
        .and_then(|entry| entry.get("diff"))
        .and_then(Json::as_str);
    let path = change.key.strip_prefix("files.").unwrap_or(change.key);
    let edit = diff
        .and_then(|diff| recorded_diff(path, diff))
        .map(|edit| FileEdit::new(&edit, Some(true), fold));
    // The lines of the edit show all of it.
    let cut = cut && edit.is_none();
    let pieces = match edit {
        Some(_) => Vec::new(),
        None => pieces,
    };
    let whole = state_diff.get(change.key).filter(|_| cut).map(|entry| {
        let mut side = |name: &str| {
            entry
                .get(name)
                .map(|value| fold.json(value, &format!("{pointer}/{}/{name}", token(change.key))))
        };
        Whole {
            before: side("before"),
            after: side("after"),
        }
    });
    let words = match &edit {
        Some(edit) => format!("+{} −{}", edit.added, edit.removed),
        None => words,
    };
    // A `state_diff` that isn't an object has no keys.
    let key = if key.is_empty() {
        "state_diff".to_owned()
    } else {
        key
    };
    DiffRow {
        key: key.into(),
        change: words.into(),
        pieces,
        whole,
        edit,
    }
}

/// Returns the pieces of a change, and whether they are incomplete.
pub(crate) fn pieces(change: &KeyChange<'_>) -> (Vec<Piece>, bool) {
    if let What::Changed {
        change: Change::Number { before, after },
        ..
    } = &change.what
    {
        return (
            vec![Piece::Same(format!("{before} → {after}").into())],
            false,
        );
    }
    let found = change.pieces(PIECES, PIECE);
    let mut cut = found.more > 0;
    let mut out = Vec::new();
    let mut path = String::new();
    for piece in found.pieces {
        if piece.path != path {
            path = piece.path;
            out.push(Piece::Field(path.as_str().into()));
        }
        cut |= piece.left_out > 0;
        // Unchanged text around a change already has an ellipsis.
        let ends = if piece.left_out > 0 && piece.kind != Kind::Same {
            "…"
        } else {
            ""
        };
        let text = format!("{}{ends}", piece.text).into();
        out.push(match piece.kind {
            Kind::Ins => Piece::Ins(text),
            Kind::Del => Piece::Del(text),
            Kind::Same => Piece::Same(text),
        });
    }
    if found.more > 0 {
        out.push(Piece::Field(
            format!("and {}", format::counted(found.more, "more piece")).into(),
        ));
    }
    (out, cut)
}

#[cfg(test)]
mod tests {
    use crate::page::part::fold::ValueLinks;
    use crate::page::part::state_diff::*;

    fn read(text: &str, state: Option<&str>) -> StateDiff {
        let state = state.map(|state| Json::parse(state).unwrap());
        let fold = &mut Fold::new(ValueLinks::default());
        StateDiff::new(
            &Json::parse(text).unwrap(),
            state.as_ref(),
            fold,
            "/state_diff",
        )
        .unwrap()
    }

    fn one(before: &str, after: &str) -> DiffRow {
        let diff = read(
            &format!(r#"{{"k": {{"before": {before}, "after": {after}}}}}"#),
            None,
        );
        diff.rows.into_iter().next().unwrap()
    }

    #[test]
    fn details_show_what_changed() {
        assert_eq!(one("4", "5").pieces, [Piece::Same("4 → 5".into())]);
        let row = one(
            r#"[{"id": 1, "status": "done"}]"#,
            r#"[{"id": 1, "status": "failed"}]"#,
        );
        assert_eq!(row.key.as_str(), "k[0]");
        assert_eq!(
            row.pieces,
            [
                Piece::Field("status".into()),
                Piece::Del("done".into()),
                Piece::Ins("failed".into())
            ]
        );
        let row = one(r#"["called a"]"#, r#"["called a", "called b"]"#);
        assert_eq!(
            row.pieces,
            [Piece::Field("[1]".into()), Piece::Ins("called b".into())]
        );
        assert!(row.whole.is_none());
        assert_eq!(one(r#""""#, r#""x""#).pieces[0], Piece::Del("\"\"".into()));
        assert!(
            read(r#"{"k": "__redacted__"}"#, None).rows[0]
                .change
                .as_str()
                .contains("redacted")
        );
    }

    #[test]
    fn what_is_shortened_can_be_seen_whole() {
        let long = serde_json::to_string(&"word ".repeat(200)).unwrap();
        let row = one("null", &long);
        assert!(
            row.whole
                .is_some_and(|whole| whole.before.is_some() && whole.after.is_some())
        );
        assert!(matches!(&row.pieces[0], Piece::Ins(text) if text.as_str().ends_with('…')));
        let many: Vec<usize> = (0..100).collect();
        let row = one("[]", &serde_json::to_string(&many).unwrap());
        assert_eq!(
            row.pieces.last(),
            Some(&Piece::Field("and 84 more pieces".into()))
        );
        assert!(row.whole.is_some());
    }

    #[test]
    fn unchanged_keys_are_counted() {
        let diff = read(
            r#"{"z": {"before": 1, "after": 2}, "a": {"before": 1, "after": 2}}"#,
            Some(r#"{"a": 1, "m": 1, "z": 1}"#),
        );
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
        let html = read(&text, Some(&format!("{{{evil}: 1, \"<script>b\": 2}}")))
            .render()
            .unwrap();
        assert!(
            !html.contains("<script")
                && !html.contains("</textarea")
                && !html.contains('\u{202e}')
                && !html.contains('\u{0}')
        );
        assert!(html.matches("&#60;script&#62;").count() > 5, "{html}");
    }
}
