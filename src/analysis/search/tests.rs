use proptest::prelude::*;

use super::*;

/// Returns the matches in `block`, for the lines that pass the sieve.
fn found(needle: &str, block: &str) -> Vec<InLine> {
    let needle = Needle::new(needle).unwrap();
    let lines = needle.candidates(block.as_bytes());
    lines
        .map(|range| needle.look(&block.as_bytes()[range]))
        .filter(|line| line.found > 0)
        .collect()
}

fn paths(needle: &str, block: &str) -> Vec<String> {
    found(needle, block)
        .into_iter()
        .flat_map(|line| line.hits)
        .map(|hit| hit.path)
        .collect()
}

#[test]
fn a_hit_names_its_field_and_shows_what_stands_around() {
    let block = "{\"a\": 1}\n{\"results\": [{\"out\": \"Caf\\u00e9 \\\"Nord\\\"\\nis open\"}, 0.25], \"odd key\": null}\n";
    let line = &found("NORD\"\nIS", block)[0];
    let hit = &line.hits[0];
    assert_eq!(
        (hit.path.as_str(), hit.in_key, line.as_text),
        ("results[0].out", false, false)
    );
    assert_eq!(
        (hit.before.as_str(), hit.text.as_str(), hit.after.as_str()),
        ("Café \"", "Nord\"\nis", " open")
    );
    assert_eq!(paths("0.25", block), ["results[1]"]);
    assert_eq!(paths("null", block), ["[\"odd key\"]"]);
    let key = &found("d k", block)[0].hits[0];
    assert_eq!((key.in_key, key.after.as_str()), (true, "ey: null"));
    assert_eq!(
        paths("\": 1", block),
        [""; 0],
        "separators between fields aren't part of the text"
    );
}

#[test]
fn what_is_shown_and_kept_is_bounded() {
    let long = format!(
        "{{\"x\": \"{}needle{}\"}}",
        "é".repeat(1_000),
        "é".repeat(1_000)
    );
    let hit = &found("needle", &long)[0].hits[0];
    assert_eq!(
        (hit.before.chars().count(), hit.after.chars().count()),
        (CHARS_BEFORE + 1, CHARS_AFTER + 1)
    );
    assert!(hit.before.starts_with('…') && hit.after.ends_with('…'));
    let many = format!("[{}]", vec!["\"needle\""; 500].join(","));
    let line = &found("needle", &many)[0];
    assert_eq!((line.hits.len(), line.found), (MAX_HITS_IN_LINE, 500));
    assert!(Needle::new("").is_err() && Needle::new(&"x".repeat(501)).is_err());
}

#[test]
fn lines_that_are_no_json_are_searched_as_they_stand() {
    let block = "not json: \"needle\"\n{\"torn\": \"needle\n{\"ok\": \"needle\"}\n{\"nan\": NaN, \"x\": \"a\\nneedle\"}";
    let lines = found("needle", block);
    assert_eq!(
        lines.iter().map(|line| line.as_text).collect::<Vec<_>>(),
        [true, true, false, false]
    );
    assert_eq!(
        lines[3].hits[0].path, "x",
        "repaired lines are searched as repaired"
    );
    assert_eq!(found("\"needle\"", block).len(), 1);
    let bytes = b"\xff\xfeneedle\xff";
    let needle = Needle::new("needle").unwrap();
    assert_eq!(
        needle
            .candidates(bytes)
            .map(|range| needle.look(&bytes[range]).found)
            .collect::<Vec<_>>(),
        [1]
    );
}

#[test]
fn each_spelling_is_found() {
    let spellings = [
        ("é", r#"{"x": "caf\u00e9"}"#),
        ("é", r#"{"x": "caf\u00E9"}"#),
        ("é", r#"{"x": "café"}"#),
        ("😀", r#"{"x": "\ud83d\ude00"}"#),
        ("😀", r#"{"x": "\uD83D\uDE00"}"#),
        ("a/b", r#"{"x": "a\/b"}"#),
        ("/", r#"{"x": "\/"}"#),
        ("<b>", r#"{"x": "\u003cb\u003e"}"#),
        ("word", r#"{"x": "w\u006frd"}"#),
        ("\"", r#"{"x": "\""}"#),
        ("\\", r#"{"x": "\\"}"#),
        ("\n", r#"{"x": "\n"}"#),
        ("\n", r#"{"x": "\u000a"}"#),
        ("\t", r#"{"x": "\t"}"#),
        ("\u{1b}[", r#"{"x": "\u001b["}"#),
        ("日本", r#"{"日本語": 1}"#),
        ("日本", r#"{"\u65e5\u672c\u8a9e": 1}"#),
        ("1E5", r#"{"x": 1e5}"#),
    ];
    for (needle, line) in spellings {
        assert_eq!(
            found(needle, &format!("{{}}\n{line}\n[]\n")).len(),
            1,
            "{needle:?} in {line}"
        );
    }
    assert!(
        found("É", r#"{"x": "é"}"#).is_empty(),
        "only ASCII letters are case-insensitive"
    );
}

/// Spells a character the way some writer would.
fn spell(c: char, style: u8) -> String {
    let numbered = || {
        c.encode_utf16(&mut [0; 2])
            .iter()
            .map(|unit| format!("\\u{unit:04x}"))
            .collect::<String>()
    };
    match (c, style) {
        (_, 0) => numbered(),
        (_, 1) => numbered().to_uppercase().replace("\\U", "\\u"),
        ('/', 2) => "\\/".to_owned(),
        ('"' | '\\' | '\0'..='\u{1f}', _) => {
            let quoted = serde_json::to_string(&c).unwrap();
            quoted[1..quoted.len() - 1].to_owned()
        }
        (c, 3) if !c.is_ascii() => numbered(),
        _ => c.to_string(),
    }
}

proptest! {
    /// The sieve passes every line that contains the text, and searching finds only text that's
    /// there.
    #[test]
    fn what_is_said_is_found(
        text in "[a-dA-D\"\\\\/é日😀\n\t <]{0,12}",
        needle in "[a-dA-D\"\\\\/é日😀\n\t <]{1,3}",
        styles in proptest::collection::vec(0_u8..8, 12),
        noise in "[ -~]{0,20}",
    ) {
        let spelled: String = text.chars().zip(styles).map(|(c, style)| spell(c, style)).collect();
        let block = format!("{noise}\n{{\"k_\": [\"{spelled}\"]}}\n{noise}");
        let says = text.to_ascii_lowercase().contains(&needle.to_ascii_lowercase());
        let raw = noise.to_ascii_lowercase().contains(&needle.to_ascii_lowercase());
        let found = found(&needle, &block);
        prop_assert_eq!(found.iter().any(|line| line.hits.iter().any(|hit| hit.path == "k_[0]")), says);
        // Noise almost never parses as JSON, but a number or a quoted word may.
        if serde_json::from_str::<serde_json::Value>(&noise).is_err() {
            prop_assert_eq!(found.iter().filter(|line| line.as_text).count(), if raw { 2 } else { 0 });
        }
    }
}

#[test]
fn hits_are_kept_run_by_run_up_to_a_number_and_all_are_counted() {
    let line = |hits: usize| {
        let line = Needle::new("x")
            .unwrap()
            .look(format!("[{}\"x\"]", "\"x\",".repeat(hits - 1)).as_bytes());
        LineMatch {
            file: TraceFile::Steps,
            place: LinePlace::default(),
            line,
        }
    };
    let mut tally = Tally::default();
    tally.keep(MAX_HITS, "a", line(2));
    tally.keep(MAX_HITS, "a", line(1));
    tally.keep(MAX_HITS, "b", line(MAX_HITS_IN_LINE + 5));
    let runs: Vec<_> = tally
        .found_in
        .iter()
        .map(|run| (&*run.key, run.lines.len()))
        .collect();
    assert_eq!(runs, [("a", 2), ("b", 1)]);
    assert_eq!(
        (tally.found, tally.kept),
        (8 + MAX_HITS_IN_LINE, 3 + MAX_HITS_IN_LINE)
    );
    for _ in 0..=MAX_HITS / MAX_HITS_IN_LINE {
        tally.keep(MAX_HITS, "b", line(MAX_HITS_IN_LINE));
    }
    assert_eq!((tally.kept, tally.found > MAX_HITS), (MAX_HITS, true));
    let lines = tally.found_in.iter().flat_map(|run| run.lines.iter());
    assert_eq!(
        lines.map(|found| found.line.hits.len()).sum::<usize>(),
        MAX_HITS
    );

    for n in 0..3 {
        tally.leave_out(
            2,
            LeftOut {
                key: n.to_string(),
                file: TraceFile::Events,
                why: String::new(),
            },
        );
    }
    assert_eq!((tally.left_out.len(), tally.left_out_count), (2, 3));
}

#[test]
fn a_text_is_found_in_another_one() {
    let needle = Needle::new("Ab").unwrap();
    assert_eq!(needle.first_in("éaB ab"), Some(2));
    assert_eq!(needle.first_in("a b"), None);
}
