//! Cases of where runs are found: copies, foreign directories, skipped files.
