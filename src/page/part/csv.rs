//! How is a table written for spreadsheets and other programs? Fields and line ends of RFC 4180.

use std::io::{self, Write};

/// Writes one row; a field is quoted where its text would end it.
///
/// # Errors
/// What `out` says.
pub(crate) fn write_row(out: &mut dyn Write, fields: impl Iterator<Item = impl AsRef<str>>) -> io::Result<()> {
    for (at, field) in fields.enumerate() {
        if at > 0 {
            out.write_all(b",")?;
        }
        let field = field.as_ref();
        if field.contains([',', '"', '\r', '\n']) {
            write!(out, "\"{}\"", field.replace('"', "\"\""))?;
        } else {
            out.write_all(field.as_bytes())?;
        }
    }
    out.write_all(b"\r\n")
}
