//! placeholder until merged
pub(crate) fn duration(micros: i64) -> String {
    format!("{} s", micros as f64 / 1e6)
}
pub(crate) fn count(n: u64) -> String {
    n.to_string()
}
pub(crate) fn score(s: f64) -> String {
    format!("{s:.2}")
}
