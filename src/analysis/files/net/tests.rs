//! Tests net changes against diffs written by hand.

use super::*;

/// Returns an edit of step `n` without recorded texts.
fn event(n: usize, op: Op) -> Event {
    Event {
        edit: n,
        step: n,
        op,
        before: None,
        after: None,
    }
}

/// Returns an edit that replaces `old` by `new`.
fn replace(n: usize, old: &str, new: &str) -> Event {
    event(n, Op::Replace(old.into(), new.into(), false))
}

/// Returns the same edit with the text of the file before it.
fn on(text: &str, event: Event) -> Event {
    Event {
        before: Some(Some(text.to_owned())),
        ..event
    }
}

fn net_of(events: &[Event]) -> Net {
    replayed(events, Vec::new(), &mut MAX_WORK.clone())
}

/// Writes a net change as lines: the sign, the text, and the step that wrote it.
fn shown(net: &Net) -> String {
    let mut out = String::new();
    for hunk in &net.hunks {
        let number = |n: Option<usize>| n.map_or("?".to_owned(), |n| n.to_string());
        out.push_str(&format!("@{} {}\n", number(hunk.old), number(hunk.new)));
        for line in &hunk.lines {
            let sign = match line.sign {
                Sign::Same => ' ',
                Sign::Del => '-',
                Sign::Ins => '+',
            };
            let by = match line.by {
                Some(Writer::Step(n)) => format!(" [{n}]"),
                Some(Writer::Outside) => " [outside]".to_owned(),
                None => String::new(),
            };
            let end = if line.has_end { "" } else { " (no end)" };
            out.push_str(&format!("{sign}{}{by}{end}\n", line.text));
        }
    }
    out
}

#[test]
fn edits_of_a_known_text_have_numbers_and_writers() {
    let text = "a\nb\nc\nd\ne\nf\ng\nh\ni\n";
    let net = net_of(&[
        on(text, replace(3, "b\n", "B\n")),
        replace(5, "h\ni\n", "h\nH\ni\n"),
        replace(6, "B\n", "BB\n"),
    ]);
    assert_eq!(
        shown(&net),
        "@1 1\n a\n-b\n+BB [6]\n c\n d\n e\n f\n g\n h\n+H [5]\n i\n"
    );
    assert_eq!(
        (net.added, net.removed, net.status),
        (2, 1, NetStatus::Modified)
    );
    assert_eq!(
        net.patch("x.txt").unwrap(),
        "diff --git a/x.txt b/x.txt\n--- a/x.txt\n+++ b/x.txt\n@@ -1,9 +1,10 @@\n a\n-b\n+BB\n c\n d\n e\n f\n g\n h\n+H\n i\n"
    );
}

#[test]
fn changes_far_apart_are_two_hunks() {
    let text: String = (1..=20).map(|n| format!("{n}\n")).collect();
    let net = net_of(&[
        on(&text, replace(1, "2\n3\n4\n", "2\n4\n")),
        replace(2, "\n19\n", "\nxix\n"),
    ]);
    assert_eq!(
        shown(&net),
        "@1 1\n 1\n 2\n-3\n 4\n 5\n 6\n@16 15\n 16\n 17\n 18\n-19\n+xix [2]\n 20\n"
    );
}

#[test]
fn an_edit_that_does_not_match_is_listed_apart() {
    let net = net_of(&[
        on("a\nb\n", replace(0, "a\n", "A\n")),
        replace(1, "nothing like it", "x"),
        replace(2, "b\n", "B\n"),
    ]);
    assert_eq!(shown(&net), "@1 1\n-a\n-b\n+A [0]\n+B [2]\n");
    assert_eq!(
        net.apart,
        [(1, "its old text isn't in the known text".to_owned())]
    );
    assert!(net.patch("x").is_none(), "a patch would lack an edit");
    let twice = net_of(&[on("a\na\n", replace(0, "a", "b"))]);
    assert_eq!(
        twice.apart.len(),
        1,
        "which of them was replaced is unknown"
    );
}

#[test]
fn a_text_that_changed_between_edits_is_marked() {
    let net = net_of(&[
        on("a\nb\n", replace(0, "a\n", "A\n")),
        on("A\nb\nformatted\n", replace(1, "b\n", "B\n")),
    ]);
    assert_eq!(
        shown(&net),
        "@1 1\n-a\n-b\n+A [0]\n+B [1]\n+formatted [outside]\n"
    );
    assert!(net.is_outside);
}

#[test]
fn a_new_file_and_a_deleted_file() {
    let new = Event {
        before: Some(None),
        ..event(0, Op::Write("x\ny".into()))
    };
    let net = net_of(&[new, replace(1, "y", "z")]);
    assert_eq!(shown(&net), "@1 1\n+x [0]\n+z [1] (no end)\n");
    assert_eq!(net.status, NetStatus::Added);
    assert_eq!(
        net.patch("n").unwrap(),
        "diff --git a/n b/n\nnew file mode 100644\n--- /dev/null\n+++ b/n\n@@ -0,0 +1,2 @@\n+x\n+z\n\\ No newline at end of file\n"
    );
    let net = net_of(&[on("x\n", event(0, Op::Delete))]);
    assert_eq!(
        (shown(&net).as_str(), net.status),
        ("@1 1\n-x\n", NetStatus::Deleted)
    );
    assert_eq!(
        net.patch("n").unwrap(),
        "diff --git a/n b/n\ndeleted file mode 100644\n--- a/n\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-x\n"
    );
    let net = net_of(&[event(0, Op::Delete)]);
    assert_eq!((net.hunks.len(), net.status), (0, NetStatus::Deleted));
}

#[test]
fn a_whole_text_without_a_known_text_before_is_no_new_file() {
    let net = net_of(&[replace(0, "a", "b"), event(1, Op::Write("x\n".into()))]);
    assert_eq!(net.status, NetStatus::Written);
    assert_eq!(shown(&net), "@1 1\n+x [1]\n");
    assert_eq!(net.apart.len(), 1);
    assert!(net.patch("x").is_none());
}

#[test]
fn windows_line_ends_stay() {
    let net = net_of(&[on("a\r\nb\r\nc\r\n", replace(0, "a\nb\n", "a\nB\n"))]);
    assert_eq!(shown(&net), "@1 1\n a\r\n-b\r\n+B\r [0]\n c\r\n");
}

#[test]
fn a_missing_line_feed_at_the_end_stays_missing() {
    let net = net_of(&[on("a\nb", replace(0, "a", "A"))]);
    assert_eq!(shown(&net), "@1 1\n-a\n+A [0]\n b (no end)\n");
    assert!(
        net.patch("x")
            .unwrap()
            .ends_with(" b\n\\ No newline at end of file\n")
    );
}

#[test]
fn every_occurrence_is_replaced_if_asked_for() {
    let all = event(4, Op::Replace("a".into(), "b".into(), true));
    let net = net_of(&[on("a\nx\na\n", all)]);
    assert_eq!(shown(&net), "@1 1\n-a\n+b [4]\n x\n-a\n+b [4]\n");
}

#[test]
fn a_change_that_was_undone_leaves_nothing() {
    let net = net_of(&[on("a\n", replace(0, "a", "b")), replace(1, "b", "a")]);
    assert_eq!((net.hunks.len(), net.added, net.removed), (0, 0, 0));
}

#[test]
fn fragments_are_joined_and_have_no_numbers() {
    let net = net_of(&[
        replace(0, "one\n", "uno\n"),
        replace(1, "uno", "eins"),
        replace(2, "other\n", "autre\n"),
        replace(3, "before\neins\nafter\n", "before\neins\nlast\n"),
    ]);
    assert_eq!(
        shown(&net),
        "@? ?\n-other\n+autre [2]\n@? ?\n before\n-one\n-after\n+eins [1]\n+last [3]\n"
    );
    assert!(!net.is_numbered && net.patch("x").is_none());
}

#[test]
fn edits_before_the_first_known_text_are_undone_in_it() {
    let net = net_of(&[
        replace(0, "one\n", "uno\n"),
        on("head\nuno\ntail\n", replace(1, "tail\n", "end\n")),
    ]);
    assert_eq!(
        shown(&net),
        "@1 1\n head\n-one\n-tail\n+uno [0]\n+end [1]\n"
    );
    let unclear = net_of(&[
        replace(0, "one", "uno"),
        on("uno uno\n", replace(1, "uno uno", "x")),
    ]);
    assert_eq!(unclear.apart.len(), 1);
    assert_eq!(shown(&unclear), "@1 1\n-uno uno\n+x [1]\n");
}

#[test]
fn a_text_that_was_read_gives_numbers() {
    let read = |output: &str, is_part| numbered_lines(output, is_part).unwrap();
    let whole = read(
        "     1→a\n     2→b\n\n<system-reminder>\nx\n</system-reminder>\n",
        false,
    );
    assert!(whole.is_whole && whole.lines == ["a\n", "b\n"]);
    let net = replayed(
        &[replace(3, "b\n", "B\n")],
        vec![whole],
        &mut MAX_WORK.clone(),
    );
    assert_eq!(shown(&net), "@1 1\n a\n-b\n+B [3]\n");
    assert!(
        net.patch("x").is_none(),
        "whether the last line ends with a line feed isn't known"
    );
    let part = read("41\tx\n42\ty\n43\tz\n", true);
    let net = replayed(&[replace(3, "y", "Y")], vec![part], &mut MAX_WORK.clone());
    assert_eq!(shown(&net), "@41 41\n x\n-y\n+Y [3]\n z\n");
    assert!(numbered_lines("no numbers", false).is_none());
}

#[test]
fn a_patch_without_numbers_applies_in_order() {
    let line = |sign, text: &str| (sign, text.to_owned());
    let hunk = vec![
        line(Sign::Same, "b"),
        line(Sign::Del, "c"),
        line(Sign::Ins, "C"),
    ];
    let named = (Some("@@ second".to_owned()), hunk);
    let text = "b\nc\nsecond\nb\nc\n";
    let net = net_of(&[on(text, event(7, Op::Hunks(vec![named])))]);
    assert_eq!(shown(&net), "@2 2\n c\n second\n b\n-c\n+C [7]\n");
}

#[test]
fn the_numbers_of_several_patches_refer_to_the_first_version() {
    let line = |sign, text: &str| (sign, text.to_owned());
    let first = vec![line(Sign::Ins, "new"), line(Sign::Same, "one")];
    let second = vec![line(Sign::Del, "two"), line(Sign::Ins, "zwei")];
    let hunks = |place: &str, lines| Op::Hunks(vec![(Some(place.to_owned()), lines)]);
    let net = net_of(&[
        event(0, hunks("@@ -5,1 +5,2 @@", first)),
        event(1, hunks("@@ -21,1 +21,1 @@", second)),
    ]);
    assert_eq!(
        shown(&net),
        "@5 5\n+new [0]\n one\n@20 21\n-two\n+zwei [1]\n"
    );
    assert!(net.patch("x").is_some());
}

#[test]
fn hostile_texts_take_bounded_work() {
    let text = "a\n".repeat(60_000);
    let other = "b\na\n".repeat(60_000);
    let write = |n, text: &str| event(n, Op::Write(text.to_owned()));
    let mut events = vec![on(&text, write(0, &other))];
    events.extend((1..200).map(|n| write(n, if n % 2 == 0 { &other } else { &text })));
    let mut work = 1_000_000;
    let net = replayed(&events, Vec::new(), &mut work);
    assert!(net.apart.len() > 100, "{}", net.apart.len());
    let marks = "<script>\u{202e}\u{0}\n\"'</pre>";
    let net = net_of(&[on(marks, replace(0, "<script>", "</script>"))]);
    assert!(net.patch("a\nb").is_none() && net.patch("x").is_some());
}

#[test]
fn a_replacement_that_grows_too_much_is_listed_apart() {
    let all = |n| event(n, Op::Replace("a".into(), "b".repeat(32 * 1024), true));
    let text = "a".repeat(100_000);
    let whole = net_of(&[on(&text, all(0))]);
    let parts = net_of(&[replace(0, "x", &text), all(1)]);
    for (net, edit) in [(whole, 0), (parts, 1)] {
        let why = "the text after it is too large".to_owned();
        assert_eq!(net.apart, [(edit, why)]);
    }
}

#[test]
fn the_search_for_parts_inside_an_old_text_is_bounded() {
    let mut events: Vec<_> = (0..50)
        .map(|n| replace(n, &format!("<{n}>"), &format!("({n})")))
        .collect();
    events.push(replace(50, &"x".repeat(50_000), "y"));
    let net = replayed(&events, Vec::new(), &mut 1_000_000);
    let why = "there are too many edits to replay in one request".to_owned();
    assert_eq!(net.apart, [(50, why)]);
    assert_eq!(net.hunks.len(), 50);
}

/// Returns a hunk that replaces a line.
fn hunk(place: &str, old: &str, new: &str) -> Hunk {
    let lines = vec![(Sign::Del, old.to_owned()), (Sign::Ins, new.to_owned())];
    (Some(place.to_owned()), lines)
}

#[test]
fn hunks_of_one_patch_stay_apart() {
    let hunks = vec![
        hunk("@@ -1 +1 @@", "x = 1", "x = 2"),
        hunk("@@ -9 +9 @@", "x = 2", "x = 3"),
    ];
    let net = net_of(&[event(0, Op::Hunks(hunks))]);
    assert_eq!(
        net.patch("x").unwrap(),
        "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,1 +1,1 @@\n-x = 1\n+x = 2\n@@ -9,1 +9,1 @@\n-x = 2\n+x = 3\n"
    );
    let later = net_of(&[
        event(0, Op::Hunks(vec![hunk("@@ -1 +1 @@", "x = 1", "x = 2")])),
        event(1, Op::Hunks(vec![hunk("@@ -9 +9 @@", "x = 2", "x = 3")])),
        event(2, Op::Hunks(vec![hunk("@@ -1 +1 @@", "x = 2", "x = 4")])),
    ]);
    assert_eq!(
        shown(&later),
        "@1 1\n-x = 1\n+x = 4 [2]\n@9 9\n-x = 2\n+x = 3 [1]\n"
    );
}

#[test]
fn the_numbers_of_all_hunks_are_those_before_their_patch() {
    let more = vec![
        (Sign::Ins, "new".to_owned()),
        (Sign::Same, "one".to_owned()),
    ];
    let hunks = vec![
        (Some("@@ -5,1 +5,2 @@".to_owned()), more),
        hunk("@@ -20 +21 @@", "two", "zwei"),
    ];
    let net = net_of(&[event(0, Op::Hunks(hunks))]);
    assert_eq!(
        shown(&net),
        "@5 5\n+new [0]\n one\n@20 21\n-two\n+zwei [0]\n"
    );
}

#[test]
fn a_patch_with_a_failing_hunk_changes_nothing() {
    let hunks = vec![
        hunk("@@", "other", "autre"),
        hunk("@@", "a", "b"),
        hunk("@@", "last", "fin"),
    ];
    let net = net_of(&[replace(0, "one\n", "a\na\n"), event(1, Op::Hunks(hunks))]);
    assert_eq!(shown(&net), "@? ?\n-one\n+a [0]\n+a [0]\n");
    assert_eq!(net.apart.len(), 1);
}

#[test]
fn a_path_does_not_say_that_a_file_is_new() {
    for said in [
        "File created successfully at: /a/x.py",
        "Successfully created and wrote to new file: /a/x.py.",
    ] {
        assert!(says_created(said, "/a/x.py"), "{said}");
    }
    for (said, path) in [
        ("Wrote 3 lines to /a/created_at.py", "/a/created_at.py"),
        ("Wrote file created.py", "/a/file created.py"),
        ("The file /a/x.py has been updated.", "/a/x.py"),
        ("Wrote the column created_at", "/a/x.py"),
    ] {
        assert!(!says_created(said, path), "{said}");
    }
}

#[test]
fn the_status_is_that_of_the_first_and_the_last_version() {
    let new = |n| Event {
        before: Some(None),
        ..event(n, Op::Write("x\n".into()))
    };
    let nothing = net_of(&[new(0), event(1, Op::Delete)]);
    assert_eq!(
        (nothing.status, nothing.hunks.len()),
        (NetStatus::Modified, 0)
    );
    let again = net_of(&[replace(0, "a", "b"), event(1, Op::Delete), new(2)]);
    assert_eq!(again.status, NetStatus::Written);
    let hunks = Op::Hunks(vec![hunk("@@ -3 +3 @@", "a", "b")]);
    let part = net_of(&[event(0, hunks), event(1, Op::Delete)]);
    assert_eq!(part.status, NetStatus::Deleted);
    assert!(part.patch("x").is_none(), "most of its lines aren't known");
}

#[test]
fn a_truncated_read_is_not_the_whole_file() {
    let is_whole = |rest: &str| {
        let output = format!("     1→a\n     2→b\n{rest}");
        numbered_lines(&output, false).unwrap().is_whole
    };
    let reminder = "<system-reminder>\nx\n</system-reminder>";
    assert!(is_whole("") && is_whole("\n \n") && is_whole(reminder));
    assert!(!is_whole("… 500 more lines"));
    assert!(!is_whole("     9→c"));
    assert!(!is_whole(&format!("{reminder}\n… 500 more lines")));
}

#[test]
fn hostile_line_numbers_do_no_harm() {
    let most = usize::MAX;
    assert!(numbered_lines(&format!("{most}→a\n"), true).is_none());
    assert!(numbered_lines(&format!("{}→a\n{most}→b\n", u32::MAX), true).is_some());
    let place = format!("@@ -{most} +{most} @@");
    let hunks = || Op::Hunks(vec![hunk(&place, "a", "b")]);
    let lines = || Op::Lines(most, most, None, "x".into());
    for op in [
        hunks(),
        lines(),
        Op::Lines(most, 0, None, "x".into()),
        Op::Insert(Some(most), "x".into()),
    ] {
        net_of(&[event(0, op)]);
    }
    for op in [hunks(), lines(), Op::Insert(Some(most), "x".into())] {
        let net = net_of(&[on("a\n", event(0, op))]);
        assert!(net.apart.len() + net.hunks.len() == 1);
    }
}

/// Applies a patch to a text, by the numbers of its hunks alone.
fn apply(text: &str, patch: &str) -> String {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let (mut out, mut at) = (String::new(), 0);
    let mut rest = patch.split_inclusive('\n').peekable();
    while let Some(line) = rest.next() {
        let Some(old) = line.strip_prefix("@@ -") else {
            let is_in_hunk =
                out.len() + at > 0 && !line.starts_with("diff") && !line.starts_with("---");
            if !is_in_hunk && !line.starts_with([' ', '-', '+'])
                || line.starts_with("---")
                || line.starts_with("+++")
            {
                continue;
            }
            let is_open = rest.peek().is_some_and(|next| next.starts_with('\\'));
            let own = if is_open {
                line[1..].trim_end_matches('\n')
            } else {
                &line[1..]
            };
            if !line.starts_with('+') && !line.starts_with('\\') {
                assert_eq!(lines[at], own, "{patch}");
                at += 1;
            }
            if line.starts_with([' ', '+']) {
                out.push_str(own);
            }
            continue;
        };
        let (start, count) = old.split(' ').next().unwrap().split_once(',').unwrap();
        let start: usize = start.parse().unwrap();
        let start = if count == "0" { start } else { start - 1 };
        out.extend(lines[at..start].iter().copied());
        at = start;
    }
    out.extend(lines[at..].iter().copied());
    out
}

proptest::proptest! {
    #[test]
    fn a_patch_leads_from_the_first_text_to_the_last(
        text in "([ab\\n]|a\\r\\n){0,60}",
        edits in proptest::collection::vec(("[ab\\n]{1,4}", "[abc\\n]{0,5}"), 1..6),
    ) {
        let (mut now, mut events) = (text.clone(), Vec::new());
        for (n, (old, new)) in edits.iter().enumerate() {
            if now.matches(&**old).count() == 1 {
                events.push(on(&now, replace(n, old, new)));
                now = now.replace(&**old, new);
            }
        }
        let net = net_of(&events);
        proptest::prop_assert!(net.apart.is_empty());
        match net.patch("x") {
            Some(patch) => proptest::prop_assert_eq!(apply(&text, &patch), now),
            None => proptest::prop_assert_eq!(text, now),
        }
    }
}

/// Returns an edit that replaces the line `from`, whose text it names.
fn line(n: usize, from: usize, old: &str, new: &str) -> Event {
    event(n, Op::Lines(from, 1, Some(old.into()), new.into()))
}

#[test]
fn a_line_replaced_by_its_number_is_part_of_the_change() {
    // The sample `fix_bug` read lines 4 to 7 before its first edit.
    let read = || Read {
        from: 4,
        lines: split("total() {\n    sum=0\n    shift\n}\n"),
        is_whole: false,
    };
    let events = [
        line(4, 6, "    shift", ""),
        line(8, 14, "a / 10", "a / 100"),
    ];
    let net = replayed(&events, vec![read()], &mut MAX_WORK.clone());
    assert_eq!(
        shown(&net),
        "@4 4\n total() {\n     sum=0\n-    shift\n }\n@15 14\n-a / 10\n+a / 100 [8]\n"
    );
    assert!(net.apart.is_empty() && net.patch("x").is_some(), "{net:?}");
    let odd = [
        line(0, 6, "not there", "x"),
        event(1, Op::Lines(20, 2, None, "x".into())),
    ];
    let net = replayed(&odd, vec![read()], &mut MAX_WORK.clone());
    let why: Vec<&str> = net.apart.iter().map(|(_, why)| why.as_str()).collect();
    assert_eq!(
        why,
        [
            "its lines aren't those of the known text",
            "the text that it replaces isn't recorded"
        ]
    );
}

#[test]
fn the_result_of_a_reading_tool_may_be_an_object() {
    let part = r#"{"start_line": 4, "end_line": 5, "text": "a\nb\n", "total_lines": 16, "truncated_bytes": 0}"#;
    let read = plain_lines(part, true).unwrap();
    assert_eq!((read.from, read.lines.len(), read.is_whole), (4, 2, false));
    let whole = r#"{"start_line": 1, "text": "a\nb", "total_lines": 2, "truncated_bytes": 0}"#;
    assert!(plain_lines(whole, false).unwrap().is_whole);
    let content = |chars: usize| format!(r#"{{"content": "é\n", "chars": {chars}}}"#);
    assert!(plain_lines(&content(2), false).unwrap().is_whole);
    assert!(plain_lines(&content(200), false).is_none(), "truncated");
    assert!(plain_lines(&content(2), true).is_none(), "a part");
    let cut = r#"{"start_line": 4, "text": "a\nb", "total_lines": 16, "truncated_bytes": 9}"#;
    assert!(plain_lines(cut, false).is_none());
    for odd in ["{", "{}", r#"{"start_line": -1, "text": "a\n"}"#, "[1]"] {
        assert!(plain_lines(odd, false).is_none(), "{odd}");
    }
}

proptest::proptest! {
    #[test]
    fn shifts_add_up_like_one_changed_part_after_the_other(
        parts in proptest::collection::vec((1_usize..60, 0_usize..20, 0_usize..20), 0..12),
        at in 1_usize..70,
    ) {
        let mut moves: Vec<Move> =
            parts.into_iter().map(|(at, old, new)| Move { at, old, new }).collect();
        moves.sort_by_key(|one| one.at);
        let mut earlier = moves.iter().filter(|one| one.at < at);
        let expected = earlier.try_fold(at, |at, one| (at + one.new).checked_sub(one.old));
        proptest::prop_assert_eq!(now_at(&moves, &shifts(&moves), at), expected);
    }
}

/// Returns a patch of hunks without positions.
fn hunks(n: usize, lines: impl Iterator<Item = (Sign, String)>) -> Event {
    event(n, Op::Hunks(lines.map(|line| (None, vec![line])).collect()))
}

/// Replays edits of which the last one takes at least `least` work. Returns the net change, and the one
/// without so much work.
fn last_takes(least: usize, events: &[Event]) -> (Net, Net) {
    let (last, earlier) = events.split_last().unwrap();
    let mut left = MAX_WORK;
    let net = replayed(earlier, Vec::new(), &mut left);
    assert!(net.apart.is_empty(), "{:?}", net.apart);
    let whole = net_of(events);
    assert!(whole.apart.is_empty(), "{:?}", whole.apart);
    let net = replayed(events, Vec::new(), &mut (MAX_WORK - left + least));
    let why = "there are too many edits to replay in one request";
    assert_eq!(net.apart, [(last.edit, why.to_owned())]);
    (whole, net)
}

#[test]
fn parts_without_text_take_work_too() {
    let all = 300;
    let gone = |word: &str| {
        (0..all)
            .map(|n| (Sign::Del, format!("{word}{n}.")))
            .collect()
    };
    let (first, second): (Vec<_>, Vec<_>) = (gone("a"), gone("b"));
    let events = [hunks(0, first.into_iter()), hunks(1, second.into_iter())];
    let (whole, part) = last_takes(all * all, &events);
    assert_eq!((whole.removed, part.removed), (2 * all, all));
}

#[test]
fn joining_parts_that_were_long_before_takes_work() {
    let (all, length) = (50, 10_000);
    let long = |n: usize| format!("{n}{}\n", "x".repeat(length));
    let mut events: Vec<Event> = (0..all)
        .map(|n| replace(n, &long(n), &format!("<{n}>\n")))
        .collect();
    let old: String = (0..all).map(|n| format!("<{n}>\n")).collect();
    events.push(replace(all, &old, "none\n"));
    let (whole, part) = last_takes(all * all * length, &events);
    assert_eq!((whole.removed, whole.added), (all, 1));
    assert_eq!((part.removed, part.added), (all, all), "the parts stay");
}
