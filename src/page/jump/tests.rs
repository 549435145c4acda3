use super::*;
use crate::analysis::select::sample::run;
use crate::analysis::verdict::RunStatus;

fn summaries() -> Vec<Arc<Summary>> {
    let made = |key: &str, task: Option<&str>, updated: i64| {
        let mut summary = run(key, RunStatus::Answered, None);
        (summary.task, summary.run_id, summary.updated) =
            (task.map(Box::from), None, Some(updated));
        Arc::new(summary)
    };
    vec![
        made("sweep/calc_10", Some("mend the cart"), 10),
        made("sweep/calc_1", Some("mend the cart"), 30),
        made("other", Some("calc_1 <b>and</b> more"), 50),
        made("sweep/CALC_12", None, 20),
    ]
}

fn labels(typed: &str, at: &str) -> Vec<(&'static str, String)> {
    let offers = offers(typed, &Here::read(at), None, &summaries());
    offers
        .items
        .into_iter()
        .map(|offer| (offer.kind, offer.label))
        .collect()
}

fn runs_of(typed: &str) -> Vec<String> {
    labels(typed, "/")
        .into_iter()
        .filter(|(kind, _)| *kind == "run")
        .map(|(_, label)| label)
        .collect()
}

#[test]
fn the_run_that_is_called_so_comes_first() {
    assert_eq!(
        runs_of("calc_1"),
        [
            "mend the cart",
            "calc_1 <b>and</b> more",
            "CALC_12",
            "mend the cart"
        ]
    );
    assert_eq!(runs_of("calc_10"), ["mend the cart"]);
    // All words must match, in any order.
    assert_eq!(runs_of("cart sweep"), ["mend the cart", "mend the cart"]);
    assert_eq!(runs_of("nothing"), Vec::<String>::new());
}

#[test]
fn without_words_there_are_pages_and_the_newest_runs() {
    let all = labels("", "/");
    assert_eq!(all[0], ("page", "Overview".to_owned()));
    assert_eq!(runs_of("")[0], "calc_1 <b>and</b> more");
    assert!(all.contains(&("key", "compare marked runs".to_owned())));
    assert!(!labels("", "/search").contains(&("key", "compare marked runs".to_owned())));
}

#[test]
fn words_lead_on_as_a_filter_and_as_a_search() {
    let typed = "a&b \u{202e}";
    let offers = offers(typed, &Here::default(), None, &[]);
    let hrefs: Vec<_> = offers
        .items
        .iter()
        .filter_map(|offer| offer.href.as_deref())
        .collect();
    assert_eq!(
        hrefs,
        ["/search?q=a%26b%20%E2%80%AE", "/?q=a%26b%20%E2%80%AE"]
    );
    assert!(
        offers
            .items
            .iter()
            .all(|offer| !offer.label.contains('\u{202e}'))
    );
}
