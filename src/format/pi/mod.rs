//! Reads sessions of Pi: one JSON object per line, appended to `sessions/--PROJECT--/TIME_ID.jsonl`.
//!
//! The lines form a tree through `parentId`. A message of the model is one line, with its tokens, its
//! cost by Pi's price table, and why it ended. A failed request is a message without content. Pi
//! writes nothing when it is killed. This reader is based on versions 0.73 to 1.6.

mod line;
mod message;
pub(super) mod stream;

use line::{Line, has_header, is_stream};
use message::{Dialog, Message, assembled};

use super::part::text;
use super::tree::{Entry, Tree, hash};
use super::value::{count, cut, is_text, micros, millis, short};
use super::{Draft, EventDraft, Reader, Shape, Source, Tool, USER_SHELL};
use crate::model::{Can, Capabilities, Compaction, Format, Manifest};

/// A session file.
pub(super) static SESSION: Tool = Tool {
    format: Format {
        name: "Pi session",
        can: Capabilities {
            state: Can::Partly,
            times: Can::Yes,
            tokens: Can::Yes,
            cost: Can::Partly,
            ..Capabilities::NONE
        },
        file: "session file",
        is_session: true,
        adds_to_prompts: false,
        is_in_order: true,
        assemble: Some(assembled),
        ..Format::UNKNOWN
    },
    shape: Shape::Lines,
    is: |name, head| name.ends_with(".jsonl") && has_header(head) && !is_stream(head),
    reader: || Box::new(Session::default()),
};

/// A session while it is being read.
#[derive(Debug, Default)]
struct Session {
    dialog: Dialog,
    tree: Tree,
    /// If the session is a fork: the session that it was forked from, and when; microseconds. The
    /// file begins with copies of that session's lines, which are older.
    fork: Option<(Box<str>, i64)>,
    /// Whether a line of the session itself was read.
    is_begun: bool,
}

impl Reader for Session {
    fn record(&mut self, record: Source<'_>, draft: &mut Draft<'_>) {
        let line = Line::of(record.text);
        let message = line.message.map(Message::of).unwrap_or_default();
        let ts = draft.time(line.timestamp);
        let (kind, role) = (
            text(line.kind).unwrap_or_default(),
            text(message.role).unwrap_or_default(),
        );
        let mark = EventDraft::new(&kind, ts).stage(&role);
        if line.timestamp.is_some() && draft.is_again(record.text) {
            return draft.again(&mark);
        }
        if let Some(from) = self.copied(&line) {
            self.branch(&line, None, draft);
            return draft.copied(&from, &mark);
        }
        let mut step = None;
        match &*kind {
            "session" => {
                let at = draft.event(mark);
                self.begin(at, &line, draft);
            }
            "message" if role == "bashExecution" => {
                let stage = USER_SHELL;
                draft.event(EventDraft { stage, ..mark });
            }
            "message" => {
                let asked = millis(message.timestamp);
                step = self.dialog.message(&message, asked, mark, draft);
            }
            "context_edit" => {
                draft.event(mark);
                self.dialog.retry();
            }
            "compaction" => {
                let event = draft.event(mark);
                draft.compacted(Compaction {
                    event,
                    tokens: count(line.before),
                    tokens_after: None,
                    trigger: Box::default(),
                });
                self.dialog.spent_aside(line.usage);
            }
            _ => {
                draft.event(mark);
                let run = draft.run();
                match &*kind {
                    "model_change" => run.model = short(line.model).or(run.model.take()),
                    "thinking_level_change" => {
                        Manifest::add_name(&mut run.efforts, short(line.thinking_level));
                    }
                    "session_info" => run.titles = short(line.name).into_iter().collect(),
                    _ => self.dialog.spent_aside(line.usage),
                }
            }
        }
        self.branch(&line, step, draft);
    }

    fn look(&mut self, draft: &mut Draft<'_>) {
        self.dialog.look(draft);
        let run = draft.run();
        run.awaits_user = run.ended.is_some();
    }
}

impl Session {
    /// Takes the facts about the session from its header. A later header belongs to another one.
    fn begin(&mut self, at: usize, line: &Line<'_>, draft: &mut Draft<'_>) {
        if draft.run().run_id.is_some() {
            return;
        }
        self.dialog.begin(at, line, draft);
        let from = text(line.forked).filter(|from| !from.is_empty());
        self.fork = from
            .zip(micros(line.timestamp))
            .map(|(from, began)| (cut(id_in(&from)), began));
    }

    /// Returns the session that the line was copied from, or `None` for a line of this session.
    fn copied(&mut self, line: &Line<'_>) -> Option<Box<str>> {
        let (from, began) = self.fork.as_ref()?;
        let is_copy = micros(line.timestamp).map_or(!self.is_begun, |ts| ts < *began);
        self.is_begun |= !is_copy;
        is_copy.then(|| from.clone())
    }

    /// Records which branch the line is on.
    fn branch(&mut self, line: &Line<'_>, step: Option<usize>, draft: &mut Draft<'_>) {
        let Some(id) = line.id.filter(|_| line.kind != Some("\"session\"")) else {
            return;
        };
        let changes = self.tree.add(Entry {
            id: hash(&id),
            parent: line
                .parent
                .filter(|parent| is_text(Some(parent)))
                .map(|parent| hash(&parent)),
            step,
            ..Entry::default()
        });
        for (step, is_abandoned) in changes {
            draft.leave(step, is_abandoned);
        }
    }
}

/// Returns the id of a session in the path of its file: `…/TIME_ID.jsonl`.
fn id_in(path: &str) -> &str {
    let name = path.rsplit(['/', '\\']).next().unwrap_or(path);
    let stem = name.strip_suffix(".jsonl").unwrap_or(name);
    stem.rsplit('_').next().unwrap_or(stem)
}

#[cfg(test)]
mod tests {
    use super::id_in;

    #[test]
    fn a_session_is_named_in_the_path_of_its_file() {
        for (path, id) in [
            (
                "/home/me/.pi/sessions/--p--/2026-05-04T09-00-00-000Z_ab-1.jsonl",
                "ab-1",
            ),
            ("C:\\pi\\2026_ab.jsonl", "ab"),
            ("ab", "ab"),
            ("", ""),
        ] {
            assert_eq!(id_in(path), id);
        }
    }
}
