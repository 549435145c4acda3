use super::*;

#[test]
fn what_is_missing_is_a_gap() {
    let heights = [Some(0.0), Some(0.0), None, Some(4.04), Some(2.0)];
    assert_eq!(stairs(heights.into_iter(), 1, None), "M0 1h1h1M3 5h1V3h1");
    assert_eq!(
        stairs(heights.into_iter(), 1, Some(9)),
        "M0 9V1h1h1V9M3 9V5h1V3h1V9"
    );
    assert_eq!(stairs([None, None].into_iter(), 0, Some(9)), "");
}

#[test]
fn marks_beside_each_other_are_one_dash() {
    assert_eq!(
        dashes([true, true, false, true].into_iter(), 10),
        "M0 12.5h2M3 12.5h1"
    );
    assert_eq!(dashes([false].into_iter(), 10), "");
}
