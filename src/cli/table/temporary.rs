//! Creates the temporary files of a table, and removes those that a killed program left.

use std::fs;
use std::io;
use std::path::Path;

use tempfile::NamedTempFile;

/// The prefix of temporary files, followed by the name of their table.
const BESIDE: &str = ".board-";

/// Creates a temporary file next to the note of a table. The caller renames it once it's complete.
///
/// # Errors
/// Returns errors from the system.
pub(super) fn beside(note: &Path) -> io::Result<NamedTempFile> {
    let prefix = prefix(note);
    let mut builder = tempfile::Builder::new();
    builder.prefix(&prefix);
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666)); // less what the umask takes
    builder.tempfile_in(note.parent().unwrap_or(note))
}

/// Returns the prefix of temporary files. It includes the table, since two programs may write the
/// two tables of one directory at once.
fn prefix(note: &Path) -> String {
    format!(
        "{BESIDE}{}-",
        note.file_stem().unwrap_or_default().to_string_lossy()
    )
}

/// Removes temporary files left when a program was killed.
pub(super) fn sweep(note: &Path) -> io::Result<()> {
    let prefix = prefix(note);
    for file in fs::read_dir(note.parent().unwrap_or(note))? {
        let file = file?;
        if file.file_name().to_string_lossy().starts_with(&prefix) && file.file_type()?.is_file() {
            fs::remove_file(file.path())?;
        }
    }
    Ok(())
}
