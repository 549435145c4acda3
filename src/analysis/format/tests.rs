use proptest::prelude::*;

use super::*;
use crate::model::time::parse_ts;

fn micros(text: &str) -> i64 {
    parse_ts(text).unwrap().micros
}

fn berlin() -> TimeZone {
    // A fixed rule, so that the test needs no time zone database.
    TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap()
}

#[test]
fn durations() {
    for (us, text) in [
        (0, "0 ms"),
        (1, "<0.1 ms"),
        (49, "<0.1 ms"),
        (50, "0.1 ms"),
        (300, "0.3 ms"),
        (26_000, "26.0 ms"),
        (99_949, "99.9 ms"),
        (99_950, "100 ms"),
        (412_300, "412 ms"),
        (999_499, "999 ms"),
        (999_500, "1.0 s"),
        (3_412_000, "3.4 s"),
        (50_200_000, "50.2 s"),
        (59_949_999, "59.9 s"),
        (59_950_000, "1 min"),
        (309_400_000, "5 min 9 s"),
        (3_599_499_999, "59 min 59 s"),
        (3_599_500_000, "1 h"),
        (7_620_000_000, "2 h 7 min"),
        (86_370_000_000, "1 d"),
        (273_600_000_000, "3 d 4 h"),
    ] {
        assert_eq!(duration(Duration::from_micros(us)), text, "{us}");
    }
    assert!(duration(Duration::MAX).ends_with(" h"));
}

#[test]
fn offsets() {
    for (us, text) in [
        (0, "+0.000 s"),
        (17_442_000, "+17.442 s"),
        (17_442_499, "+17.442 s"),
        (59_999_500, "+1 min 00.000 s"),
        (309_442_000, "+5 min 09.442 s"),
        (7_623_005_000, "+2 h 07 min 03.005 s"),
        (-3_000, "−0.003 s"),
        (-300, "+0.000 s"),
    ] {
        assert_eq!(offset(us), text, "{us}");
    }
    assert_eq!(offset_short(17_442_000), "+17.4 s");
    assert_eq!(offset_short(59_960_000), "+1 min 00.0 s");
    assert!(offset(i64::MIN).starts_with('−'));
}

#[test]
fn ages() {
    let now = micros("2026-11-21T20:31:40Z");
    for (at, text) in [
        ("2026-11-21T20:31:39.5Z", "now"),
        ("2026-11-21T20:31:36Z", "4 s ago"),
        ("2026-11-21T20:30:41Z", "59 s ago"),
        ("2026-11-21T20:26:49Z", "4 min ago"),
        ("2026-11-21T17:31:40Z", "3 h ago"),
        ("2026-11-16T20:31:40Z", "5 d ago"),
        ("2026-11-14T20:31:41Z", "6 d ago"),
        ("2026-11-14T20:31:40Z", "14 Nov"),
        ("2026-02-22T04:41:38Z", "22 Feb"),
        ("2025-02-22T04:41:38Z", "22 Feb 2025"),
        ("2026-11-21T20:31:44Z", "in 4 s"),
        ("2026-11-21T21:31:44Z", "in 1 h"),
        ("2027-02-22T04:41:38Z", "22 Feb 2027"),
    ] {
        assert_eq!(age(micros(at), now, &TimeZone::UTC), text);
    }
    // In Berlin it's already the next year.
    assert_eq!(age(micros("2025-12-31T23:30:00Z"), now, &berlin()), "1 Jan");
    assert_eq!(age(i64::MIN, i64::MAX, &TimeZone::UTC), MISSING);
}

#[test]
fn clocks() {
    let stamp = parse_ts("2026-02-22T08:15:02.123456+00:00").unwrap();
    let local = clock(stamp, &berlin()).unwrap();
    assert_eq!(local.text, "09:15:02");
    assert_eq!(local.title, "22 Feb 2026, 09:15:02.123 (+01:00)");
    assert_eq!(local.iso, "2026-02-22T09:15:02.123456+01:00");
    let utc = clock(stamp, &TimeZone::UTC).unwrap();
    assert_eq!(utc.title, "22 Feb 2026, 08:15:02.123 UTC");
    assert_eq!(utc.iso, "2026-02-22T08:15:02.123456+00:00");
    // A time without a zone is shown as written.
    let naive = clock(parse_ts("2026-02-22T08:15:02").unwrap(), &berlin()).unwrap();
    assert_eq!(naive.text, "08:15:02");
    assert_eq!(naive.title, "22 Feb 2026, 08:15:02.000, zone not recorded");
    assert_eq!(naive.iso, "2026-02-22T08:15:02.000000");
    assert_eq!(
        clock(
            Stamp {
                micros: i64::MAX,
                zoned: true
            },
            &berlin()
        ),
        None
    );
}

#[test]
fn a_named_zone_is_named() {
    // Runs only if the system has a time zone database.
    if let Ok(zone) = TimeZone::get("Europe/Berlin") {
        let stamp = parse_ts("2026-07-01T08:15:02Z").unwrap();
        assert_eq!(
            clock(stamp, &zone).unwrap().title,
            "1 Jul 2026, 10:15:02.000 Europe/Berlin (+02:00)"
        );
    }
}

#[test]
fn numbers() {
    for (n, text) in [
        (0, "0"),
        (9686, "9,686"),
        (9999, "9,999"),
        (10_000, "10k"),
        (17_249, "17.2k"),
        (99_949, "99.9k"),
        (99_950, "100k"),
        (999_499, "999k"),
        (999_500, "1.0M"),
        (1_234_567, "1.2M"),
        (12_345_678_901, "12,345.7M"),
    ] {
        assert_eq!(tokens(n), text);
    }
    for (n, text) in [
        (0, "0 bytes"),
        (1, "1 byte"),
        (248, "248 bytes"),
        (999, "999 bytes"),
        (1000, "1.0 KB"),
        (4_120, "4.1 KB"),
        (999_949, "999.9 KB"),
        (999_950, "1.0 MB"),
        (1_234_567, "1.2 MB"),
        (400_000_000, "400.0 MB"),
        (1_500_000_000, "1.5 GB"),
    ] {
        assert_eq!(bytes(n), text);
    }
    assert!(bytes(u64::MAX).ends_with(" GB"));
    assert_eq!([signed(0), signed(3), signed(-1200)], ["0", "+3", "−1,200"]);
    assert_eq!(signed(i64::MIN), "−9,223,372,036,854,775,808");
    assert_eq!(
        [range(7, 13), range(7, 7), range(900, 1200)],
        ["7–13", "7", "900–1,200"]
    );
    assert_eq!(or_missing(None, tokens), "–");
    assert_eq!(or_missing(Some(5), tokens), "5");
}

#[test]
fn scores_and_shares() {
    let amounts = [12.5, 999_999_999.0, 1e9, -2e12, 1e308].map(usd);
    assert_eq!(
        amounts,
        [
            "$12.50",
            "$999999999.00",
            "$1.00e9",
            "−$2.00e12",
            "$1.00e308"
        ]
    );
    for (value, text) in [
        (0.9, "0.90"),
        (1.0, "1.00"),
        (0.333, "0.33"),
        (-0.5, "−0.50"),
        (-0.001, "0.00"),
        (-0.0, "0.00"),
        (17.0, "17.00"),
        (1e300, "1.00e300"),
        (f64::NAN, "–"),
        (f64::INFINITY, "–"),
    ] {
        assert_eq!(score(value), text);
    }
    for (part, whole, text) in [
        (0, 5, "0%"),
        (1, 3, "33%"),
        (2, 3, "67%"),
        (5, 5, "100%"),
        (1, 1000, "<1%"),
        (999, 1000, ">99%"),
        (3, 2, "150%"),
        (1, 0, "–"),
    ] {
        assert_eq!(percent(part, whole), text);
    }
}

#[test]
fn control_characters_are_visible_and_harmless() {
    assert_eq!(
        visible("\u{1b}[31mred\u{1b}[0m\u{7}\u{0}\r\n\tend\u{7f}"),
        "␛[31mred␛[0m␇␀\n\tend␡"
    );
    assert_eq!(visible("\u{9b}31m"), "⟨U+009B⟩31m");
    assert_eq!(visible_line("a\tb\nc"), "a⇥b↵c");
}

#[test]
fn hidden_characters_are_visible() {
    assert_eq!(visible("a\u{202e}gnp.exe"), "a⟨U+202E⟩gnp.exe");
    assert_eq!(
        visible("\u{feff}x\u{200b}y\u{2066}z\u{2069}\u{61c}"),
        "⟨U+FEFF⟩x⟨U+200B⟩y⟨U+2066⟩z⟨U+2069⟩⟨U+061C⟩"
    );
    assert_eq!(
        visible("l\u{2028}p\u{2029}n\u{85}"),
        "l⟨U+2028⟩p⟨U+2029⟩n⟨U+0085⟩"
    );
    assert_eq!(visible("\u{e0041}\u{e0042}"), "⟨U+E0041⟩⟨U+E0042⟩");
    assert_eq!(visible("a\u{200d}b"), "a⟨U+200D⟩b");
    assert_eq!(visible("a\u{fe0f}"), "a⟨U+FE0F⟩");
    assert_eq!(visible("é\u{fe00}\u{fe01}"), "é\u{fe00}⟨U+FE01⟩");
    assert_eq!(visible("é\u{200d}\u{200d}é"), "é⟨U+200D⟩⟨U+200D⟩é");
}

#[test]
fn ordinary_text_is_not_copied() {
    for text in [
        "",
        "plain\n\ttext",
        "Prüfe العربية 日本語",
        "👩‍👩‍👧 ❤️‍🔥 1️⃣ 🏳️‍🌈",
        "می‌خواهم",
        "e\u{301}",
    ] {
        assert!(
            matches!(visible(text), std::borrow::Cow::Borrowed(_)),
            "{text:?} became {:?}",
            visible(text)
        );
    }
}

proptest! {
    #[test]
    fn nothing_shown_controls_anything(text in any::<String>()) {
        let shown = visible(&text);
        prop_assert!(shown.chars().all(|c| !c.is_control() || matches!(c, '\n' | '\t')));
        let turned = shown.contains(['\u{202e}', '\u{200e}', '\u{2066}', '\u{feff}']);
        prop_assert!(!turned);
        prop_assert_eq!(visible(&shown), shown.as_ref());
        prop_assert!(!visible_line(&text).contains(|c: char| c.is_control()));
    }

    #[test]
    fn hidden_mixtures_too(text in "[a❤\u{1b}\u{200c}\u{200d}\u{fe0e}\u{fe0f}\u{202e}\u{ad} \n]{0,12}") {
        let shown = visible(&text);
        prop_assert_eq!(visible(&shown), shown.as_ref());
    }

    #[test]
    fn any_time_has_words(at in any::<i64>(), now in any::<i64>(), zoned in any::<bool>()) {
        age(at, now, &berlin());
        offset(at);
        offset_short(at);
        clock(Stamp { micros: at, zoned }, &berlin());
    }

    #[test]
    fn any_number_has_words(n in any::<u64>(), whole in any::<u64>(), value in any::<f64>()) {
        tokens(n);
        bytes(n);
        percent(n, whole);
        score(value);
        duration(Duration::from_nanos(n));
    }
}

#[test]
fn invalid_durations_are_shown_as_recorded() {
    assert_eq!(millis(26.02), "26.0 ms");
    assert_eq!(millis(-3.0), "-3 ms");
    assert_eq!(millis(f64::INFINITY), "inf ms");
}
