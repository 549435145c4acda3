//! Prints measurements, one per line: the name, the numbers, and the goal if there is one.

use std::time::Duration;

use crate::memory;

/// Repeated measurements of one quantity.
#[derive(Debug, Default)]
pub(crate) struct Samples(Vec<f64>);

impl Samples {
    /// Adds a measurement.
    pub(crate) fn push(&mut self, took: Duration) {
        self.push_ms(took.as_secs_f64() * 1e3);
    }

    /// Adds a measurement in milliseconds.
    pub(crate) fn push_ms(&mut self, ms: f64) {
        self.0.push(ms);
        self.0.sort_by(f64::total_cmp);
    }

    /// Returns the median.
    pub(crate) fn median(&self) -> f64 {
        self.at(0.5)
    }

    fn at(&self, share: f64) -> f64 {
        let last = self.0.len().saturating_sub(1);
        self.0
            .get((last as f64 * share).round() as usize)
            .copied()
            .unwrap_or(f64::NAN)
    }

    /// Prints median, 90th and 99th percentile and the maximum.
    pub(crate) fn print(&self, what: &str, goal: &str) {
        let numbers = format!(
            "p50 {:8.2}  p90 {:8.2}  p99 {:8.2}  max {:8.2} ms  (n={})",
            self.at(0.5),
            self.at(0.9),
            self.at(0.99),
            self.at(1.0),
            self.0.len()
        );
        line(what, &numbers, goal);
    }
}

/// Prints one duration.
pub(crate) fn duration(what: &str, took: Duration, goal: &str) {
    line(what, &format!("{:12.2} ms", took.as_secs_f64() * 1e3), goal);
}

/// Prints the time per step.
pub(crate) fn per_step(what: &str, took: Duration, steps: u64, goal: &str) {
    line(
        what,
        &format!("{:12.2} us a step", took.as_secs_f64() * 1e6 / steps as f64),
        goal,
    );
}

/// Prints one number.
pub(crate) fn number(what: &str, number: f64, goal: &str) {
    line(what, &format!("{number:12.1}"), goal);
}

/// Prints a number of bytes.
pub(crate) fn bytes(what: &str, bytes: u64, goal: &str) {
    line(what, &format!("{:12.1} KiB", bytes as f64 / 1024.0), goal);
}

/// Prints the current and peak memory of process `pid`.
pub(crate) fn memory(pid: u32, goal: &str) {
    match memory::now_kib(pid).zip(memory::most_kib(pid)) {
        Some((now, most)) => line(
            "memory",
            &format!(
                "{:12.1} MiB, at most {:.1}",
                now as f64 / 1024.0,
                most as f64 / 1024.0
            ),
            goal,
        ),
        None => line("memory", "not known on this system", goal),
    }
}

/// Returns the CPU time that process `pid` has used.
pub(crate) fn cpu(pid: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // Fields 14 and 15, in ticks of 10 ms. Counting starts after the name, which may contain
    // anything.
    let fields: Vec<&str> = stat
        .rsplit(')')
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .collect();
    let ticks = |at: usize| {
        fields
            .get(at)
            .and_then(|text| text.parse::<u64>().ok())
            .unwrap_or_default()
    };
    Duration::from_millis((ticks(11) + ticks(12)) * 10)
}

/// Whether the child process `pid` has exited but hasn't been waited for.
pub(crate) fn has_ended(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ")
        .next()
        .is_none_or(|rest| rest.is_empty() || rest.starts_with('Z'))
}

fn line(what: &str, numbers: &str, goal: &str) {
    let goal = if goal.is_empty() {
        String::new()
    } else {
        format!("   goal {goal}")
    };
    println!("  {what:<44} {numbers}{goal}");
}
