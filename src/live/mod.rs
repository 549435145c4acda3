//! What changed? Finds runs below the roots, follows them and keeps their indexes.
