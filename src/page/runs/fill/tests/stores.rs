use std::time::{Duration, Instant};

use super::*;
use crate::live::MirrorStatus;
use crate::live::{Skipped, SkippedKind};
use crate::mirror::Trouble;
use crate::page::runs::fill::list::Store;

fn store(change: impl FnOnce(&mut MirrorStatus, Instant)) -> ListContext {
    let read_at = Instant::now() + Duration::from_secs(3_600);
    let mut status = MirrorStatus {
        address: "s3://team/runs".to_owned(),
        as_of: None,
        listed: None,
        listing: Some(2_000),
        paused_until: None,
        next: None,
        objects: 0,
        bytes: 0,
        others: 0,
        waiting: 0,
        kept_bytes: 0,
        limit: 10_000_000_000,
        evicted: 0,
        requests: 3,
        listings: 3,
        budget: 60,
        every: Duration::from_secs(10),
        trouble: None,
        odd: Arc::default(),
        odd_total: 0,
    };
    change(&mut status, read_at);
    ListContext {
        stores: vec![Store { status, read_at }],
        ..ctx("")
    }
}

#[test]
fn a_store_says_how_old_its_picture_is_what_it_costs_and_what_is_wrong() {
    let html = |ctx: &ListContext| page(ctx, &listed(many(1))).render().unwrap();
    let first = html(&store(|_, _| {}));
    for session_name in [
        "s3://team/runs",
        "not fully synced yet",
        "listing, 2,000 objects so far",
        "every 10.0 s",
        "60 requests per minute",
    ] {
        assert!(first.contains(session_name), "{session_name}: {first}");
    }
    assert!(!first.contains("Not updating") && !first.contains("(request budget)"));
    let paused = html(&store(|status, read_at| {
        status.paused_until = Some(read_at + Duration::from_secs(40))
    }));
    assert!(
        paused.contains("so far, next request in 40.0 s (request budget)"),
        "{paused}"
    );
    let hostile = || HOSTILE.to_owned();
    let whole = store(|status, read_at| {
        let ago = |seconds| read_at.checked_sub(Duration::from_secs(seconds));
        (status.as_of, status.listed, status.listing) = (ago(42), ago(7), None);
        (
            status.objects,
            status.waiting,
            status.evicted,
            status.others,
        ) = (1_234, 5, 17, 6);
        let since = read_at.checked_sub(Duration::from_secs(120)).unwrap();
        status.trouble = Some(Trouble {
            what: hostile(),
            hint: Some("ask for the right to".to_owned()),
            since,
        });
        status.odd = vec![Skipped {
            kind: SkippedKind::Object,
            path: hostile(),
            reason: "its name would lead outside the cache".to_owned(),
        }]
        .into();
        status.odd_total = 300;
    });
    for shown in [html(&whole), page(&whole, &[]).render().unwrap()] {
        for session_name in [
            "42 s ago",
            "1,234 objects",
            "5 to fetch",
            "17 evicted (fetched again",
            "6 ignored by name",
            "7 s ago",
            "300 objects skipped",
            "299 more",
        ] {
            assert!(shown.contains(session_name), "{session_name}: {shown}");
        }
        assert!(
            shown.contains("Not updating since")
                && shown.contains("2 min ago")
                && shown.contains("ask for the right to")
        );
        check_page(&shown);
    }
    assert!(
        html(&whole).contains("s3://team/runs isn't updating"),
        "the title line says it too"
    );
}
