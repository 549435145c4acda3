//! Reads the traces of each tool: bytes in, the types of `model` out.
//!
//! Each format has one file here and one row in `TOOLS`. No code outside this module depends on which
//! tool wrote a run. A record becomes a [`Step`], an [`Event`] or a
//! [`Manifest`](crate::model::Manifest). [`Capabilities`](crate::model::Capabilities) state what a
//! format can't record at all. Must not know the disk, pages or rules.
//!
//! QitOS and board's engine write a directory of three files, in dialects that one reader
//! handles. The file of every other tool defines how to recognize the tool's files, and how to read
//! one of their records (a line, or an element of a document). Its `Reader` reports to a
//! `Draft` what the record means for the run, which step it belongs to, and the `Part` of that
//! step that it holds. If the records are messages, a `Conversation` pairs results with calls. A
//! table of `ends!` maps the tool's words for an end to outcomes. Each record is an event of the
//! run. A step is assembled from the parts in its records, as a line in the layout of board's engine.
//! This happens at index time, to make the step's head, and again for a page. Both use the same
//! records and the same function, so they can't disagree.

/// Defines structs that hold the members of an object, each as JSON text. If a key is repeated, the
/// last member counts. A member whose key isn't a valid field name is written `field = "key"`.
macro_rules! fields {
    ($($vis:vis struct $name:ident { $($field:ident $(= $key:literal)?),* $(,)? })*) => { $(
        #[derive(Debug, Clone, Copy, Default)]
        $vis struct $name<'a> {
            $($vis $field: Option<&'a str>,)*
            /// The number of members, including those that are not read.
            #[allow(dead_code, reason = "only some formats use it")]
            $vis members: usize,
        }

        impl<'a> $name<'a> {
            #[allow(dead_code, reason = "some objects are read member by member instead")]
            $vis fn of(object: &'a str) -> Self {
                Self::read(&mut crate::model::json::walk::members(object))
            }

            /// Reads the objects of a list. Other items have no members.
            #[allow(dead_code, reason = "most objects aren't in lists")]
            $vis fn list(array: &'a str) -> Vec<Self> {
                crate::model::json::walk::objects(array, Self::read)
            }

            #[allow(dead_code, reason = "some objects are read member by member instead")]
            fn read(members: &mut dyn Iterator<Item = (&'a str, &'a str)>) -> Self {
                let mut out = Self::default();
                for (key, value) in members {
                    out.members += 1;
                    if let Some(key) = crate::model::json::walk::string(key) {
                        out.take(&key, value);
                    }
                }
                out
            }

            /// Takes in a member. Returns whether it replaces one.
            $vis fn take(&mut self, key: &str, value: &'a str) -> bool {
                $(if key == fields!(@key $field $($key)?) {
                    return self.$field.replace(value).is_some();
                })*
                false
            }
        }
    )* };
    (@key $field:ident) => { stringify!($field) };
    (@key $field:ident $key:literal) => { $key };
}

mod added;
mod aider;
mod amp;
mod atif;
mod claude;
mod cline;
mod codex;
mod continue_cli;
mod conversation;
mod copilot;
mod crush;
mod draft;
mod droid;
mod ends;
mod gemini;
mod goose;
mod gptme;
mod harbor;
mod hermes;
mod homes;
mod inspect;
mod kimi;
mod kimi_cli;
mod lines;
mod mini_swe_agent;
mod opencode;
mod openhands;
mod origin;
mod otlp;
mod part;
mod permissions;
mod pi;
mod qitos;
mod qwen;
mod reader;
mod recent;
mod rows;
mod shape;
mod shell;
mod swe_agent;
mod tau2;
mod template;
mod tools;
mod tree;
mod turns;
mod value;
mod vibe;
mod vibe2;
mod watch;

#[cfg(test)]
pub(crate) use qitos::event_kind;

pub(crate) use added::{OwnWords, own_words_of};
pub(crate) use draft::{Draft, EventDraft, Open, RecordPlace};
pub(crate) use gptme::clock_times;
pub(crate) use homes::{SESSION_HOMES, hidden_sessions};
#[cfg(feature = "board")]
pub(crate) use lines::name_stores;
pub use lines::{HEAD_BYTES, is_record, may_be_trace};
pub(crate) use lines::{SQLITE, store_of_log};
pub(crate) use lines::{before_compression, is_lines};
pub use origin::{EMPTY, Origin, UNKNOWN, is_hidden_folder, is_hidden_trace, origin};
pub(crate) use part::{Answer, CallDraft, Part, Tokens, is_at_limit};
#[cfg(feature = "board")]
pub(crate) use qitos::directory_format;
pub use qitos::{event_head, manifest, step_head};
pub(crate) use reader::{Reader, Source, Tool};
pub(crate) use shape::{
    Apart, Before, Belongs, Composed, Lines, Mark, Nearby, Numbering, Paths, Rewrite, Rows,
    Sections, Several, Shape, Stranger, Table,
};
pub(crate) use shell::{USER_SHELL, UserShell};
#[cfg(test)]
pub(crate) use tools::tool;
pub(crate) use tools::{ChildFiles, holds_parts};
pub(crate) use tools::{SEGMENTS, number_of, numbered};
pub(crate) use value::uncut;
pub(crate) use watch::{Values, WatchedValue};

#[cfg(test)]
pub(crate) use qitos::{event as event_in, step as step_in};

use crate::model::event::Event;
use crate::model::{Record, Step};

/// The phase of an event whose record is the content of a message.
pub const MESSAGE: &str = "message";
/// The stage of such an event if it's a system message.
pub const SYSTEM: &str = "system";
/// The phase of an event whose record is a text that other records refer to. Its stage is the key.
pub const STORED: &str = "attachment";

/// Returns the references in a JSON text to texts that are stored once: whole strings, each with its
/// offset. A reference ends with `//` and the key of the text.
pub fn stored_texts_in(json: &str) -> impl Iterator<Item = (usize, &str)> {
    inspect::references_in(json)
}

/// Returns the step in a record, if there is one.
pub fn step<'a>(record: &'a Record<'_>) -> Option<Step<'a>> {
    qitos::step(&record.text).filter(|_| record.fate.is_readable())
}

/// Returns the fields of an event that its head doesn't have.
pub fn event<'a>(record: &'a Record<'_>) -> Event<'a> {
    if record.fate.is_readable() {
        qitos::event(&record.text)
    } else {
        Event::default()
    }
}

#[cfg(test)]
mod tests;
