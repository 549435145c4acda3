//! Writes CSV with the fields and line ends of RFC 4180, for spreadsheets and other programs.
//!
//! Traces contain text of models. In downloads for people, fields that a spreadsheet would run as
//! formulas start with an apostrophe.

use std::borrow::Cow;
use std::io::{self, Write};

use crate::analysis::format::visible;

/// Writes one row for a person. Quotes fields as needed and disarms formulas.
///
/// # Errors
/// Returns the errors of `out`.
pub(crate) fn write_row(
    out: &mut dyn Write,
    fields: impl Iterator<Item = impl AsRef<str>>,
) -> io::Result<()> {
    write(out, fields, harmless)
}

/// Writes one row for programs, which compare and join fields, so each field is exact.
///
/// # Errors
/// Returns the errors of `out`.
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

/// Makes hidden characters visible, and puts an apostrophe before formulas. A number is not a
/// formula, even with a sign.
pub(crate) fn harmless(field: &str) -> Cow<'_, str> {
    let runs = field.starts_with(['=', '+', '-', '@', '\t', '\r']) && field.parse::<f64>().is_err();
    if runs {
        Cow::Owned(format!("'{}", visible(field)))
    } else {
        visible(field)
    }
}
