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
fn marks_beside_each_other_are_one_bar_as_high_as_their_share() {
    assert_eq!(
        bars([1.0, 1.0, 0.0, 1.0].into_iter(), 10),
        "M0 16V10H2V16M3 16V10H4V16"
    );
    assert_eq!(bars([0.0].into_iter(), 10), "");
    // A seventh is still seen, and less than a half.
    assert_eq!(
        bars([1.0 / 7.0, 0.5, 0.0].into_iter(), 10),
        "M0 16V14H1V16M1 16V13H2V16"
    );
}
