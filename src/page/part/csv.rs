//! How is a table written for spreadsheets and other programs? Fields and line ends of RFC 4180.
//!
//! In what a person downloads, a word that a spreadsheet would run as a formula has an apostrophe before it: traces hold
//! what models wrote.

use std::borrow::Cow;
use std::io::{self, Write};

use crate::analysis::format::visible;

/// Writes one row; a field is quoted where its text would end it.
///
/// # Errors
/// What `out` says.
pub(crate) fn write_row(
    out: &mut dyn Write,
    fields: impl Iterator<Item = impl AsRef<str>>,
) -> io::Result<()> {
    write(out, fields, harmless)
}

/// The same for programs: each field to the letter, since they compare and join them.
///
/// # Errors
/// What `out` says.
pub(crate) fn write_row_verbatim(
    out: &mut dyn Write,
    fields: impl Iterator<Item = impl AsRef<str>>,
) -> io::Result<()> {
    write(out, fields, |field| field.into())
}

fn write(
    out: &mut dyn Write,
    fields: impl Iterator<Item = impl AsRef<str>>,
    shown: fn(&str) -> Cow<'_, str>,
) -> io::Result<()> {
    for (at, field) in fields.enumerate() {
        if at > 0 {
            out.write_all(b",")?;
        }
        let field = shown(field.as_ref());
        if field.contains([',', '"', '\r', '\n']) {
            write!(out, "\"{}\"", field.replace('"', "\"\""))?;
        } else {
            out.write_all(field.as_bytes())?;
        }
    }
    out.write_all(b"\r\n")
}

/// A field with nothing hidden in it, or a word that would be a formula with an apostrophe before it. A number is none,
/// whatever its sign.
pub(crate) fn harmless(field: &str) -> Cow<'_, str> {
    let runs = field.starts_with(['=', '+', '-', '@', '\t', '\r']) && field.parse::<f64>().is_err();
    if runs {
        Cow::Owned(format!("'{}", visible(field)))
    } else {
        visible(field)
    }
}
