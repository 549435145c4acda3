//! Describes the object stores among the roots: how current the data is, what is missing, and what
//! it costs.

use std::time::Instant;

use crate::analysis::format::{self, count, counted};
use crate::page::runs::fill::about::SkippedRow;
use crate::page::runs::fill::list::{ListContext, Store};
use crate::page::runs::fill::row::line;
use crate::page::shell::When;

impl Store {
    fn micros(&self, moment: Instant, now: i64) -> i64 {
        let ago = self.read_at.saturating_duration_since(moment).as_micros();
        now.saturating_sub(i64::try_from(ago).unwrap_or(i64::MAX))
    }

    fn when(&self, moment: Instant, ctx: &ListContext) -> Option<When> {
        When::of(self.micros(moment, ctx.now), ctx.now, &ctx.zone)
    }

    pub(crate) fn name(&self) -> String {
        line(&self.status.address)
    }

    /// Returns the time up to which the shown data is complete.
    pub(crate) fn as_of(&self, ctx: &ListContext) -> Option<When> {
        self.when(self.status.as_of?, ctx)
    }

    /// Returns the time of the last complete listing.
    pub(crate) fn listed(&self, ctx: &ListContext) -> Option<When> {
        self.when(self.status.listed?, ctx)
    }

    /// Counts the objects, `209 objects, 12 MB`, and states which of them aren't here.
    pub(crate) fn holds(&self) -> String {
        let status = &self.status;
        // A listing that waits for its budget may take hours.
        let waits = status.paused_until.map(|until| {
            let wait = format::duration(until.saturating_duration_since(self.read_at));
            format!("next request in {wait} (request budget)")
        });
        if status.listed.is_none() {
            return match (status.listing, waits) {
                (Some(found), None) => format!("listing, {} so far", counted(found, "object")),
                (Some(found), Some(waits)) => {
                    format!("listing, {} so far, {waits}", counted(found, "object"))
                }
                (None, _) => "not listed yet".to_owned(),
            };
        }
        let mut parts = vec![format!(
            "{}, {}",
            counted(status.objects, "object"),
            format::bytes(status.bytes)
        )];
        parts.extend(waits.map(|waits| format!("listing again, {waits}")));
        if status.waiting > 0 {
            parts.push(format!("{} to fetch", count(status.waiting as u64)));
        }
        if status.evicted > 0 {
            parts.push(format!(
                "{} evicted (fetched again when their run is opened)",
                count(status.evicted as u64)
            ));
        }
        if status.others > 0 {
            parts.push(format!("{} ignored by name", count(status.others as u64)));
        }
        parts.join(" · ")
    }

    /// Describes the cost: `cache 12 MB of 10 GB · listed every 10 s, at most 60 requests per minute
    /// · 34 requests sent`.
    pub(crate) fn cost(&self) -> String {
        let status = &self.status;
        let (kept, limit) = (
            format::bytes(status.kept_bytes),
            format::bytes(status.limit),
        );
        let every = format::duration(status.every);
        let (budget, sent) = (
            counted(status.budget as usize, "request"),
            counted_u64(status.requests, "request"),
        );
        format!(
            "cache {kept} of {limit} · listed every {every}, at most {budget} per minute · {sent} sent"
        )
    }

    /// Describes a problem: what happened, what to do, and since when.
    pub(crate) fn trouble(
        &self,
        ctx: &ListContext,
    ) -> Option<(String, Option<String>, Option<When>)> {
        let trouble = self.status.trouble.as_ref()?;
        Some((
            line(&trouble.what),
            trouble.hint.as_deref().map(line),
            self.when(trouble.since, ctx),
        ))
    }

    /// Lists the skipped objects, and counts them.
    pub(crate) fn odd(&self) -> (Vec<SkippedRow>, String) {
        let (odd, total) = (&self.status.odd, self.status.odd_total);
        let rows = odd
            .iter()
            .map(|odd| SkippedRow::new(&odd.path, &odd.reason))
            .chain(SkippedRow::rest(total.saturating_sub(odd.len())));
        (
            rows.collect(),
            format!("{} skipped", counted(total, "object")),
        )
    }
}

fn counted_u64(number: u64, noun: &str) -> String {
    counted(usize::try_from(number).unwrap_or(usize::MAX), noun)
}
