//! Tests which rows and columns a page shows, and the links to others.

use crate::analysis::columns::chosen;
use crate::page::runs::fill::tests::*;

#[test]
fn more_rows_go_on_below_and_lead_back() {
    let (runs, query) = (listed(many(1_500)), ctx("steps>=0"));
    let list = table(&query, many(1_500)).list;
    assert!(list.first().is_none());
    let more = list.more().unwrap();
    assert_eq!(
        (&*more.text, &*more.href),
        ("Show 200 more", "/?q=steps%3E%3D0&limit=400")
    );
    // A request for more rows doesn't mark any row as new.
    assert!(more.part.unwrap().ends_with("&limit=400&since=17"));
    let longer = ListContext {
        limit: 400,
        ..ctx("steps>=0")
    };
    let RunsBody { list, rows, .. } = page(&longer, &runs).body;
    assert_eq!(
        (list.showing(&rows.len()).as_str(), rows.len()),
        ("Showing 400 of 1,500", 400)
    );
    assert_eq!(list.first().as_deref(), Some("/?q=steps%3E%3D0"));
    // The page is full, so the next rows are on another page.
    let full = ListContext {
        limit: 1_000,
        ..ctx("steps>=0")
    };
    let more = page(&full, &runs).body.list.more().unwrap();
    assert!(
        more.text == "Next 500" && more.part.is_none() && more.href.contains("after="),
        "{more:?}"
    );
    let after = percent_encoding::percent_decode_str(more.href.split_once("after=").unwrap().1)
        .decode_utf8()
        .unwrap();
    let next = ListContext {
        after: Some(after.into_owned()),
        ..ctx("steps>=0")
    };
    let RunsBody { list, rows, .. } = page(&next, &runs).body;
    assert_eq!(
        (list.showing(&rows.len()).as_str(), rows.len()),
        ("Showing 1,001–1,200 of 1,500", 200)
    );
    assert_eq!(list.first().as_deref(), Some("/?q=steps%3E%3D0"));
    let runs = listed(many(500));
    let beyond = ListContext {
        after: Some("-1:x".into()),
        ..ctx("")
    };
    let page = page(&beyond, &runs);
    let RunsBody { list, rows, .. } = &page.body;
    assert_eq!(
        (rows.len(), list.showing(&0).as_str()),
        (0, "Showing none of 500")
    );
    assert!(list.first().is_some() && !page.render().unwrap().contains("No runs match"));
}

#[test]
fn a_reader_chooses_the_columns() {
    let chosen = chosen(["steps", "errors", "steps"].into_iter()).unwrap();
    let ctx = ListContext {
        chosen,
        ..ctx("calc")
    };
    let runs = listed(many(30));
    let list = page(&ctx, &runs).body.list;
    assert_eq!(
        list.columns
            .iter()
            .map(|(column, _)| column.name)
            .collect::<Vec<_>>(),
        ["run", "steps", "errors"]
    );
    assert_eq!(list.csv(), "/runs.csv?q=calc&cols=run%2Csteps%2Cerrors");
    assert_eq!(list.usual_columns(), "/?q=calc");
    assert!(
        list.offered_columns()
            .any(|(column, _, is_shown)| column.name == "errors" && is_shown)
    );
    // Updates of a run have the same cells.
    let requested = ask(&ctx, &page(&ctx, &runs).pulse);
    assert!(
        requested.query == "calc"
            && page(&ctx, &runs)
                .pulse
                .url
                .contains("cols=run%2Csteps%2Cerrors")
    );
    assert_eq!(
        crate::analysis::columns::chosen(["steps", "nonsense"].into_iter()).err(),
        Some("nonsense")
    );
}
