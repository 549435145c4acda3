//! Scales tests up if `BOARD_SOAK` is set, as `tests/soak` does.

/// Whether `BOARD_SOAK` is set.
pub(crate) fn soak() -> bool {
    std::env::var_os("BOARD_SOAK").is_some()
}

/// Returns `soak` if `BOARD_SOAK` is set, else `usual`.
pub(crate) fn times(usual: usize, soak: usize) -> usize {
    if self::soak() { soak } else { usual }
}
