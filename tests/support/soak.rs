//! How much is tried? Little each time all tests run, all of it where `BOARD_SOAK` is set, as `tests/soak` does.

/// Whether the large numbers are asked for.
pub(crate) fn soak() -> bool {
    std::env::var_os("BOARD_SOAK").is_some()
}

/// `soak` where the large numbers are asked for, `usual` elsewhere.
pub(crate) fn times(usual: usize, soak: usize) -> usize {
    if self::soak() { soak } else { usual }
}
