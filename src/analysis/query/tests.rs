use proptest::prelude::*;

use super::*;
use crate::analysis::columns::{COLUMNS, MODEL, STATUS, STOP, UPDATED};

/// A subject built from rows: `field=word`, `field#number`, `changed=key`, or free text.
struct Row(Vec<&'static str>);

impl Row {
    fn each(&self, name: &str, sign: char, out: &mut dyn FnMut(&str)) {
        for row in &self.0 {
            if let Some(value) = row
                .strip_prefix(name)
                .and_then(|rest| rest.strip_prefix(sign))
            {
                out(value);
            }
        }
    }
}

impl Subject for Row {
    fn text(&self, out: &mut dyn FnMut(&str)) {
        self.0
            .iter()
            .filter(|row| !row.contains(['=', '#']))
            .for_each(|row| out(row));
    }
    fn words(&self, field: &Column, out: &mut dyn FnMut(&str)) {
        self.each(field.name, '=', out);
    }
    fn numbers(&self, field: &Column, out: &mut dyn FnMut(f64)) {
        self.each(field.name, '#', &mut |value| out(value.parse().unwrap()));
    }
    fn flag(&self, field: &Column) -> Option<bool> {
        let mut flag = None;
        self.each(field.name, '=', &mut |value| flag = Some(value == "true"));
        flag
    }
    fn is_recorded(&self, field: &Column) -> bool {
        let mut found = false;
        self.each(field.name, '=', &mut |_| found = true);
        self.each(field.name, '#', &mut |_| found = true);
        found
    }
    fn changed(&self, key: &str) -> bool {
        self.0.contains(&format!("changed={key}").as_str())
    }
}

fn run() -> Row {
    Row(vec![
        "q060_final_fix_bug",
        "Fix calc.py by plan. Prüfe ÄRGER",
        "status=answered",
        "status=completed",
        "stop=final",
        "outcome=completed",
        "liveness=finished",
        "task=Fix calc.py by plan",
        "model=Qwen/Qwen3-8B",
        "tool=read_file",
        "tool=run_python",
        "critic=safety",
        "critic=retry",
        "err=false",
        "steps#6",
        "tokens#12500",
        "score#0.25",
        "score#0.9",
        "duration#90.5",
        // 2026-02-22 04:41:38.940343 UTC
        "updated#1771735298940343",
        "changed=count",
    ])
}

#[track_caller]
fn hit(query: &str) {
    let parsed = Query::parse(query);
    assert_eq!(parsed.ignored, [], "{query}");
    assert!(parsed.matches(&run()), "{query} should match: {parsed:?}");
}

#[track_caller]
fn miss(query: &str) {
    let parsed = Query::parse(query);
    assert_eq!(parsed.ignored, [], "{query}");
    assert!(
        !parsed.matches(&run()),
        "{query} should not match: {parsed:?}"
    );
}

#[track_caller]
fn bad(query: &str, text: &str, why: &str) {
    let parsed = Query::parse(query);
    assert_eq!(parsed.ignored.len(), 1, "{parsed:?}");
    assert_eq!(parsed.ignored[0].text, text);
    assert!(
        parsed.ignored[0].why.contains(why),
        "{}",
        parsed.ignored[0].why
    );
}

#[test]
fn a_cost_that_is_no_number_is_explained_in_dollars() {
    for name in ["cost", "cost_recorded", "cost_estimated"] {
        let query = format!("{name}:x");
        bad(
            &query,
            &query,
            &format!("{name} needs an amount in dollars, such as {name}<0.5"),
        );
    }
    bad("steps:x", "steps:x", "steps needs a number");
    bad("score:x", "score:x", "such as score<0.5, score>=0.8");
}

/// Checks a query whose dates are in UTC, whatever the zone of the machine.
#[track_caller]
fn check_utc(query: &str, is_hit: bool) {
    let clock = Clock::at(0, &jiff::tz::TimeZone::UTC);
    let parsed = Query::parse_at(query, &clock);
    assert_eq!(parsed.ignored, [], "{query}");
    assert_eq!(parsed.matches(&run()), is_hit, "{query}: {parsed:?}");
}

#[test]
fn free_words() {
    hit("");
    hit("   ");
    hit("calc.py");
    hit("FIX");
    hit("q060 plan");
    hit("\"fix calc.py by\"");
    hit("ärger");
    hit("prüfe");
    hit("\"Fix calc");
    miss("\"fix by\"");
    miss("absent");
    miss("q060 absent");
    miss("finaly");
}

#[test]
fn words_of_fixed_lists_are_whole() {
    hit("stop:final");
    hit("STOP:Final");
    hit("stop=final");
    miss("stop:fin");
    miss("stop:final_result");
    hit("status:answered");
    hit("status:completed");
    hit("class:completed");
    hit("stop:budget_steps,final");
    miss("stop:budget_steps,budget_time");
    hit("stop:\"final\"");
    hit("stop:x,,final,");
}

#[test]
fn names_are_found_by_a_part() {
    hit("model:qwen");
    hit("model=qwen/qwen3-8b");
    miss("model=qwen");
    hit("tool:python");
    hit("tool=run_python,other");
    miss("tool=python");
    hit("task:\"calc.py by\"");
    hit("critic:retry");
    miss("agent:lead");
}

#[test]
fn numbers() {
    hit("steps:6");
    hit("steps=6");
    hit("steps<7");
    hit("steps<=6");
    hit("steps>=6");
    hit("steps>5.9");
    miss("steps<6");
    miss("steps>6");
    hit("steps:2..6");
    hit("steps:6..");
    hit("steps:..6");
    miss("steps:7..");
    hit("steps:1,2,6");
    hit("steps:1,5..7");
    hit("steps:>5");
    hit("steps:<2,>5");
    hit("tokens>10k");
    hit("tokens<1M");
    hit("tokens:12.5k");
    hit("score<0.3");
    hit("score>0.8");
    hit("score:.2...3");
    miss("score:0.3..0.8");
    hit("score>-1");
}

#[test]
fn durations_have_units() {
    hit("duration:90.5");
    hit("duration=90.5s");
    hit("dur>90");
    hit("dur<2m");
    hit("dur<2min");
    hit("duration>1m");
    hit("duration<1h");
    hit("duration:250ms..1h");
    miss("duration<250ms");
    bad("duration<1x", "duration<1x", "duration<90s");
    bad("duration<1k", "duration<1k", "duration<90s");
}

#[test]
fn moments_are_days_minutes_or_seconds() {
    let hit = |text: &str| check_utc(text, true);
    let miss = |text: &str| check_utc(text, false);
    hit("updated:2026-02-22");
    hit("updated:2026-02-22T04:41");
    hit("updated=2026-02-22T04:41:38Z");
    miss("updated:2026-02-22T04:41:38.5");
    hit("updated>=2026-02-22");
    hit("updated<=2026-02-22");
    miss("updated>2026-02-22");
    miss("updated<2026-02-22");
    hit("updated>2026-02-21");
    hit("updated:2026-02-20..2026-02-22");
    hit("updated:..2026-02-22");
    miss("updated:2026-02-23..");
    bad("updated:tomorrow", "updated:tomorrow", "updated:2026-02-22");
    bad("updated>5", "updated>5", "needs a date");
}

#[test]
fn errors_and_state() {
    hit("err:false");
    miss("err:true");
    hit("-err:true");
    hit("state.count changed");
    hit("state.count CHANGED steps:6");
    hit("state.\"count\" changed");
    miss("state.note changed");
    hit("-state.note changed");
}

#[test]
fn a_minus_takes_what_the_term_leaves() {
    miss("-steps:6");
    hit("-steps>6");
    // Unknown, so neither more nor less than 5 events: both exclusions match it.
    miss("events>5");
    miss("events<=5");
    hit("-events>5");
    hit("-events<=5");
    hit("-agent:lead");
    hit("-\"two words\"");
    miss("-stop:final");
}

#[test]
fn what_cannot_be_understood_is_named_and_the_rest_filters() {
    bad("steps:many", "steps:many", "steps<5");
    bad("a steps>5,6 b", "steps>5,6", "steps<5");
    bad("steps:6..2", "steps:6..2", "steps");
    bad("steps:..", "steps:..", "steps");
    bad("steps:inf", "steps:inf", "steps");
    bad("steps:nan", "steps:nan", "steps");
    bad("steps:5.", "steps:5.", "steps");
    bad("steps:1e999", "steps:1e999", "steps");
    bad("steps:", "steps:", "steps");
    bad("steps:=5", "steps:=5", "steps");
    bad("stop:", "stop:", "expected a value, as in stop:VALUE");
    bad(
        "stop:\"\"",
        "stop:\"\"",
        "expected a value, as in stop:VALUE",
    );
    bad("stop<5", "stop<5", "stop:value");
    bad("err:maybe", "err:maybe", "err:true");
    bad("err<true", "err<true", "err:true");
    bad("colour:red", "colour:red", "no field is called `colour`");
    bad("x colour:\"dark red\" y", "colour:\"dark red\"", "colour");
    bad("https://a.example/b", "https://a.example/b", "quotes");
    bad("- x", "-", "minus");
    bad("\"\"", "\"\"", "quotes");
    bad("state.x", "state.x", "state.KEY changed");
    bad("state.x altered", "state.x", "state.KEY changed");
    bad("state.", "state.", "state.KEY");
    bad("state.:5", "state.:5", "key");
    bad("-state.x:", "-state.x:", "state.x changed");
    bad(
        "a state.x:\"b c\" d",
        "state.x:\"b c\"",
        "can't match values of the state",
    );
    bad(
        "-state.\"a key\">5",
        "-state.\"a key\">5",
        "state.\"a key\" changed",
    );

    bad("steps!=3", "steps!=3", "-field:value");
    bad("steps>2 or tokens>5", "or", "field:a,b");
    bad("-(steps>3)", "-(steps>3)", "parentheses");
    bad("--steps>5", "--steps>5", "a single minus sign");
    hit("\"calc\" -\"or else\"");

    let query = Query::parse("steps:many stop:final colour:red");
    assert_eq!(query.terms.len(), 1);
    assert_eq!(query.ignored.len(), 2);
    assert!(query.matches(&run()));
    assert!(!Query::parse("steps:many stop:budget_steps").matches(&run()));
}

#[test]
fn times_of_day_and_paths_are_words() {
    for text in ["04:41", "/tmp/x=y", "<b>", ":x", "3<4", "a\"b"] {
        let query = Query::parse(text);
        assert_eq!(
            query.terms,
            [Term {
                negated: false,
                test: Test::Text(Needle::new(text))
            }]
        );
    }
}

#[test]
fn the_work_is_bounded() {
    let many = "a ".repeat(100);
    let query = Query::parse(&many);
    assert_eq!(query.terms.len(), 64);
    assert_eq!(query.ignored.len(), 1);
    assert!(query.ignored[0].why.contains("64 terms"));
    let list = format!("stop:{}", "x,".repeat(100));
    assert!(Query::parse(&list).ignored[0].why.contains("64 values"));
}

#[test]
fn long_and_wide_needles_take_the_other_search() {
    let long = "a".repeat(100);
    assert!(Needle::new(long.as_str()).within(&format!("b{}", long.to_uppercase())));
    assert!(!Needle::new(long.as_str()).within("aaa"));
    assert!(Needle::new("ÖL").within("heizöl"));
    assert!(Needle::new("a").within("ÖA"));
    assert!(!Needle::new("abc").within("ab"));
}

#[test]
fn one_spelling() {
    for (written, canonical) in [
        ("  a   b ", "a b"),
        ("\"a\"", "a"),
        ("\"a b\"", "\"a b\""),
        ("\"a b", "\"a b\""),
        ("\"-a\"", "\"-a\""),
        ("\"stop:x\"", "\"stop:x\""),
        (r#""say \"hi\" C:\new""#, r#""say \"hi\" C:\\new""#),
        ("Stop=a,\"b c\"", "stop:a,\"b c\""),
        ("class:died", "outcome:died"),
        ("model=x", "model=x"),
        ("dur:<2m", "duration<2m"),
        ("steps=6", "steps:6"),
        ("steps:<2,>5", "steps:<2,>5"),
        ("tokens:10k..", "tokens:10k.."),
        ("state.x=3 a", "a state.x=3"),
        ("state.\"a key\"  changed", "state.\"a key\" changed"),
        ("-err=TRUE", "-err:true"),
        ("colour:red  a", "a colour:red"),
    ] {
        assert_eq!(Query::parse(written).to_string(), canonical);
    }
}

#[test]
fn a_term_can_be_dropped() {
    let query = Query::parse("a stop:x,y bad: -steps>5");
    assert_eq!(query.without(0), "stop:x,y -steps>5 bad:");
    assert_eq!(query.without(1), "a -steps>5 bad:");
    assert_eq!(query.without(9), "a stop:x,y -steps>5 bad:");
}

#[test]
fn chips_toggle_their_value() {
    let toggled = |query: &str, field, value: &str| Query::parse(query).toggled(field, value);
    assert_eq!(toggled("", STOP, "final"), "stop:final");
    assert_eq!(
        toggled("fix", MODEL, "not recorded"),
        "fix model=\"not recorded\""
    );
    assert_eq!(toggled("stop:a fix", STOP, "b"), "stop:a,b fix");
    assert_eq!(toggled("stop:a,b fix", STOP, "A"), "stop:b fix");
    assert_eq!(toggled("stop:a fix", STOP, "a"), "fix");
    assert_eq!(toggled("-stop:a", STOP, "a"), "stop:a");
    assert_eq!(toggled("-stop:a,b", STOP, "a"), "-stop:b stop:a");
    assert_eq!(
        toggled("stop:a bad:", STATUS, "died"),
        "stop:a status:died bad:"
    );
}

#[test]
fn a_facet_forgets_its_own_group() {
    let query = Query::parse("stop:a -stop:b status:died steps>5");
    assert_eq!(query.without_field(STOP).to_string(), "status:died steps>5");
    assert!(query.has(STOP, "A"));
    assert!(!query.has(STOP, "b"));
    assert!(!query.has(MODEL, "a"));
}

fn queryish() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => prop::sample::select(vec![
            "stop", "status", "model", "tool", "err", "state.", "state.a.b", "steps", "duration", "foo", "true",
            "changed", ":", "=", "<", "<=", ">", ">=", "..", ",", "\"", "\\", "-", " ", " ", " ", "5", "0.5", "10k",
            "2m", "250ms", ".", "e", "é", "\n",
        ]).prop_map(str::to_owned),
        1 => "\\PC{0,3}",
    ];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn what_is_shown_reads_back(text in queryish()) {
        let query = Query::parse(&text);
        let shown = query.to_string();
        prop_assert_eq!(&Query::parse(&shown), &query, "{}", shown);
    }

    #[test]
    fn nothing_is_dropped_in_silence(text in queryish()) {
        let query = Query::parse(&text);
        prop_assert_eq!(query.terms.is_empty() && query.ignored.is_empty(), text.trim().is_empty());
    }

    #[test]
    fn any_text_can_be_asked_for(text in "\\PC{1,12}", state in any::<bool>()) {
        let test = if state {
            Test::Changed { key: text }
        } else {
            Test::Text(Needle::new(text))
        };
        let query = Query { terms: vec![Term { negated: false, test }], ignored: vec![] };
        prop_assert_eq!(Query::parse(&query.to_string()), query);
    }

    #[test]
    fn a_term_and_its_negation_share_nothing(text in queryish()) {
        for term in Query::parse(&text).terms {
            let other = Term { negated: !term.negated, ..term.clone() };
            prop_assert_ne!(term.matches(&run()), other.matches(&run()));
        }
    }

    #[test]
    fn a_chip_twice_is_no_chip(text in queryish(), value in "\\PC{1,8}") {
        let query = Query::parse(&text).without_field(STOP);
        let once = Query::parse(&query.toggled(STOP, &value));
        prop_assert!(once.has(STOP, &value));
        prop_assert_eq!(Query::parse(&once.toggled(STOP, &value)), query);
    }
}

#[test]
fn sort_keys_read_back() {
    for by in COLUMNS.iter().filter(|column| column.is_sortable()) {
        for reversed in [false, true] {
            let sort = Sort { by, reversed };
            assert_eq!(sort.to_string().parse(), Ok(sort));
        }
    }
    assert_eq!(Sort::default().to_string(), "updated");
    assert!("".parse::<Sort>().is_err());
    assert!("--run".parse::<Sort>().is_err());
    let error = "colour".parse::<Sort>().unwrap_err();
    assert!(
        error.contains("started, updated") && !error.contains("task"),
        "{error}"
    );
    assert!("task".parse::<Sort>().is_err() && "tool".parse::<Sort>().is_err());
}

#[test]
fn a_second_click_reverses() {
    let steps = Column::find("steps").unwrap();
    let sort = Sort::default().clicked(steps);
    assert_eq!(sort.to_string(), "steps");
    assert_eq!(sort.clicked(steps).to_string(), "-steps");
    assert_eq!(sort.clicked(steps).clicked(steps).to_string(), "steps");
    assert_eq!(Sort::default().clicked(UPDATED).to_string(), "-updated");
}

#[test]
fn unknown_values_come_last_both_ways() {
    for (text, expected) in [
        ("score", [Some(0.9), Some(0.1), None, Some(f64::NAN)]),
        ("-score", [Some(0.1), Some(0.9), None, Some(f64::NAN)]),
    ] {
        let sort: Sort = text.parse().unwrap();
        let mut values = [None, Some(0.1), Some(f64::NAN), Some(0.9)];
        values.sort_by(|a, b| sort.order(*a, *b));
        assert_eq!(values[..2], expected[..2]);
    }
    let names: Sort = "run".parse().unwrap();
    assert_eq!(names.order(Some("a"), Some("b")), std::cmp::Ordering::Less);
    assert!(!names.is_descending());
}

#[test]
fn relative_dates_follow_the_clock_and_its_zone() {
    // 2026-03-08 in New York has 23 hours: at 02:00 the clock goes to 03:00.
    let zone = jiff::tz::TimeZone::posix("EST5EDT,M3.2.0,M11.1.0").unwrap();
    let micros = |text: &str| text.parse::<jiff::Timestamp>().unwrap().as_microsecond();
    let clock = Clock::at(micros("2026-03-08T16:00:00Z"), &zone);
    let holds = |text: &str, at: &str| {
        let query = Query::parse_at(text, &clock);
        assert_eq!(query.ignored, [], "{text}");
        assert_eq!(Query::parse_at(&query.to_string(), &clock), query, "{text}");
        let [
            Term {
                test: Test::Number { any, .. },
                ..
            },
        ] = query.terms.as_slice()
        else {
            panic!("{text} isn't a number");
        };
        any.iter().any(|bound| bound.holds(micros(at) as f64))
    };
    for (text, first, last) in [
        (
            "started:today",
            "2026-03-08T05:00:00Z",
            "2026-03-09T03:59:59.999999Z",
        ),
        (
            "started:Yesterday",
            "2026-03-07T05:00:00Z",
            "2026-03-08T04:59:59.999999Z",
        ),
        (
            "started:yesterday..today",
            "2026-03-07T05:00:00Z",
            "2026-03-09T03:59:59.999999Z",
        ),
        (
            "started:2026-11-01..2026-11-07",
            "2026-11-01T04:00:00Z",
            "2026-11-08T04:59:59.999999Z",
        ),
    ] {
        let outside = |at: &str, by: i64| {
            let at = jiff::Timestamp::from_microsecond(micros(at) + by).unwrap();
            !holds(text, &at.to_string())
        };
        assert!(holds(text, first) && holds(text, last), "{text}");
        assert!(outside(first, -1) && outside(last, 1), "{text}");
    }
    for (text, at, expected) in [
        ("updated>7d", "2026-03-01T16:00:01Z", true),
        ("updated>7d", "2026-03-01T15:59:59Z", false),
        ("updated<2h", "2026-03-08T13:59:59Z", true),
        ("updated<2h", "2026-03-08T14:00:01Z", false),
        ("updated:90s", "2026-03-08T15:58:31Z", true),
        ("updated:2w..1d", "2026-03-07T17:00:00Z", false),
        ("updated>yesterday", "2026-03-08T05:00:00Z", true),
        ("updated<today", "2026-03-08T05:00:00Z", false),
    ] {
        assert_eq!(holds(text, at), expected, "{text} {at}");
    }
    for wrong in [
        "updated>7",
        "updated>-7d",
        "updated>1.5d",
        "updated>d",
        "started:tomorrow",
    ] {
        assert_eq!(Query::parse_at(wrong, &clock).ignored.len(), 1, "{wrong}");
    }
    let times = |text: &str, at: &str| {
        let query = Query::parse_at(text, &Clock::at(micros(at), &zone));
        assert_eq!(query.is_relative(), !query.times().is_empty(), "{text}");
        query.times()
    };
    for (text, at, same) in [
        ("started:today", "2026-03-08T23:59:00Z", true),
        ("started:today", "2026-03-09T05:00:00Z", false),
        ("a updated>7d", "2026-03-08T16:00:59Z", true),
        ("a updated>7d", "2026-03-08T16:01:00Z", false),
        ("updated:..2w", "2026-03-08T16:01:00Z", false),
        ("started:2026-03-08 steps>7", "2026-03-09T16:00:00Z", true),
    ] {
        let now = times(text, "2026-03-08T16:00:00Z");
        assert_eq!(now == times(text, at), same, "{text} {at}");
    }
    assert!(!Query::parse_at("started:2026-03-08 steps>7", &clock).is_relative());
    // However long ago, nothing overflows.
    assert!(
        Query::parse_at("updated>99999999999999999999d", &clock)
            .ignored
            .is_empty()
    );
}

#[test]
fn a_date_is_in_the_zone_of_the_reader_and_utc_if_it_says_so() {
    // The clock goes back at 02:00 on 1 November 2026, a day of 25 hours.
    let zone = jiff::tz::TimeZone::get("America/New_York").unwrap();
    let clock = Clock::at(0, &zone);
    let holds = |query: &str, at: &str| {
        let micros = at.parse::<jiff::Timestamp>().unwrap().as_microsecond();
        let row: &'static str = format!("started#{micros}").leak();
        let query = Query::parse_at(query, &clock);
        assert_eq!(query.ignored, [], "{query}");
        query.matches(&Row(vec![row]))
    };
    for (query, at, is_in) in [
        ("started:2026-11-01", "2026-11-01T03:59:59Z", false),
        ("started:2026-11-01", "2026-11-01T04:00:00Z", true),
        ("started:2026-11-01", "2026-11-02T04:59:59Z", true),
        ("started:2026-11-01", "2026-11-02T05:00:00Z", false),
        ("started:2026-11-01T00:00Z", "2026-11-01T00:00:59Z", true),
        ("started:2026-11-01T00:00", "2026-11-01T04:00:59Z", true),
        (
            "started:2026-10-30..2026-11-01",
            "2026-10-30T04:00:00Z",
            true,
        ),
        (
            "started:2026-10-30..2026-11-01",
            "2026-10-30T03:59:00Z",
            false,
        ),
        ("weekday:sun", "2026-11-02T04:30:00Z", true),
        ("weekday:mon", "2026-11-02T04:30:00Z", false),
        ("weekday:sat..mon", "2026-11-02T04:30:00Z", true),
        ("-weekday:mon..fri", "2026-11-02T04:30:00Z", true),
        ("weekday:Sunday,tuesday", "2026-11-02T04:30:00Z", true),
        ("hour:23", "2026-11-02T04:30:00Z", true),
        // 01:30 comes twice that night.
        ("hour:1", "2026-11-01T05:30:00Z", true),
        ("hour:1", "2026-11-01T06:30:00Z", true),
        ("hour:2", "2026-11-01T06:30:00Z", false),
        ("hour:22..4", "2026-11-02T04:30:00Z", true),
        ("hour:9..17", "2026-11-02T04:30:00Z", false),
        ("hour>=23", "2026-11-02T04:30:00Z", true),
        ("hour<23", "2026-11-02T04:30:00Z", false),
    ] {
        assert_eq!(holds(query, at), is_in, "{query} at {at}");
    }
    bad("hour:24", "hour:24", "a number from 0 to 23");
    bad("hour<0", "hour<0", "a number from 0 to 23");
    bad("weekday:someday", "weekday:someday", "weekday needs a day");
    bad("weekday<wed", "weekday<wed", "weekday needs a day");
    bad("weekdy:mon", "weekdy:mon", "did you mean weekday?");
    for (written, canonical) in [
        ("hour:9,10,11,14", "hour:9..11,14"),
        ("hour>20", "hour:21..23"),
        ("weekday:sat..mon", "weekday:mon,sat..sun"),
    ] {
        assert_eq!(Query::parse(written).to_string(), canonical);
    }
}

#[test]
fn none_is_a_missing_value_and_quotes_make_it_a_word() {
    hit("cost:none");
    miss("-cost:none");
    miss("steps:none");
    hit("-steps:none");
    hit("model=none,qwen/qwen3-8b");
    miss("model:none");
    miss("stop:NONE");
    hit("agent:none");
    miss("err:none");
    hit("partial:none");
    miss("model:\"none\"");
    miss("score:none");
    bad("cost:none,1", "cost:none,1", "can't be combined");
    for (written, canonical) in [
        ("Cost:NONE", "cost:none"),
        ("model:\"none\"", "model:\"none\""),
        ("stop:none,final", "stop:\"not recorded\",final"),
    ] {
        assert_eq!(Query::parse(written).to_string(), canonical);
        assert_eq!(Query::parse(canonical), Query::parse(written));
    }
}
