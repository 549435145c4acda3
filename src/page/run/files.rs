//! What stands on the tabs about the files themselves, the manifest and the issues?

use crate::analysis::format;
use crate::analysis::health;
use crate::model::json::Json;
use crate::model::{Issue, IssueKind, ManifestState, Record, TraceFile};
use crate::page::lens::Lens;
use crate::page::part::fold::{Fold, ValueLinks};
use crate::page::part::href;
use crate::page::part::sign::{Link, Phrase, Sign};
use crate::page::run::tabs::{CountCheck, IssueRow, IssuesTab, ManifestTab, RuleRow};

/// So many issues are on one page.
const PER_PAGE: usize = 200;

/// The tab of the manifest.
pub(crate) fn manifest_tab(lens: &Lens<'_>) -> ManifestTab {
    let base = format!("{}/manifest", href::run(lens.key()));
    let mut fold = Fold::new(ValueLinks { value: format!("{base}/value"), raw: format!("{base}/raw") });
    let bytes = match lens.lines.manifest() {
        Ok(bytes) => bytes,
        Err(why) => {
            let missing = *lens.index.manifest() == ManifestState::Missing;
            let words =
                if missing { "There is no manifest.json.".to_owned() } else { format!("It cannot be read: {why}") };
            return ManifestTab { note: Phrase::from(words), ..ManifestTab::default() };
        }
    };
    let record = Record::of(&bytes);
    let repairs: Vec<&str> = record.repairs().collect();
    let json = Json::parse(&record.text);
    let note = match (&json, repairs.is_empty()) {
        (None, _) => {
            Phrase::from("The file is not JSON; it is shown as it is. The rest of this page keeps the last good one.")
        }
        (Some(Json::Object(_)), true) => Phrase::new(),
        (Some(Json::Object(_)), false) => Phrase::from(format!("Shown after a repair: {}.", repairs.join(", "))),
        (Some(_), _) => Phrase::from("The file is JSON, but not an object."),
    };
    let json = json.unwrap_or(Json::Deep(&record.text));
    ManifestTab {
        note,
        checks: checks(lens),
        rules: json.get("stop_rules").map(|rules| rule_rows(lens, rules)).unwrap_or_default(),
        entries: ManifestTab::entries_of(&json, &mut fold),
        raw: Some(Link::new(format!("manifest.json, {}", format::bytes(bytes.len() as u64)), format!("{base}/raw"))),
    }
}

/// The rules as our own engine records them: the budget, what accepts answers, all others.
fn rule_rows(lens: &Lens<'_>, rules: &Json<'_>) -> Vec<RuleRow> {
    let fired = |id: &str| match lens.index.stop() {
        Some(stop) if &*stop.criterion == id => "ended the run",
        Some(stop) if stop.also.iter().any(|also| also == id) => "true at the same moment",
        _ => "",
    };
    let from = |entry: &Json<'_>| entry.get("from").and_then(Json::as_str).unwrap_or("engine").into();
    let row = |id: &str, rule: String, entry: &Json<'_>| RuleRow {
        id: id.into(),
        rule: crate::page::part::text::one_line(&rule, 200).0.into(),
        from: from(entry),
        verdict: fired(id).into(),
    };
    let budget = ["steps", "time_ms", "tokens"].iter().filter_map(|key| {
        let entry = rules.get("budget")?.get(key).filter(|entry| !entry.is_empty())?;
        let limit = entry.get("limit").unwrap_or(entry);
        let (id, unit) = if *key == "time_ms" { ("time", "ms") } else { (*key, *key) };
        Some(row(&format!("budget.{id}"), format!("at most {limit} {unit}"), entry))
    });
    let mut rows: Vec<RuleRow> = budget.collect();
    for (list, name) in [("completion", "accept"), ("policies", "stop")] {
        for (at, entry) in rules.get(list).and_then(Json::as_array).unwrap_or_default().iter().enumerate() {
            let id = entry.get("id").and_then(Json::as_str).map_or_else(|| format!("{name}[{at}]"), str::to_owned);
            rows.push(row(&id, in_short(entry.get("rule").unwrap_or(entry)), entry));
        }
    }
    rows
}

/// `max_steps · steps 8`: the type of a rule, and whatever else it says.
fn in_short(rule: &Json<'_>) -> String {
    let Some(members) = rule.as_object() else { return rule.to_string() };
    if rule.get("opaque").is_some() {
        return "a rule in code; its answers are recorded with the steps".to_owned();
    }
    let kind = rule.get("type").and_then(Json::as_str).unwrap_or("no type");
    let others = members.iter().filter(|(key, _)| key != "type").map(|(key, value)| format!(" · {key} {value}"));
    kind.chars().map(String::from).chain(others).collect()
}

fn checks(lens: &Lens<'_>) -> Vec<CountCheck> {
    let Some(manifest) = lens.index.manifest().get() else { return Vec::new() };
    let several = lens.index.segments().len() > 1;
    let check = |what: &str, counted: Option<i64>, there: usize| {
        let verdict = match counted {
            None => Phrase::new().dim("not counted"),
            Some(counted) if counted == there as i64 => Phrase::from("equal"),
            Some(_) if several => Phrase::from("the last writer counts only what it wrote itself"),
            Some(0) if !manifest.is_final() => Phrase::from("counted only when the run is finished"),
            Some(_) => Phrase::new().strong("differ"),
        };
        CountCheck {
            what: what.into(),
            manifest: counted.map_or_else(|| format::MISSING.to_owned(), |counted| counted.to_string()).into(),
            file: there.to_string().into(),
            verdict,
        }
    };
    vec![
        check("steps", manifest.step_count, lens.index.steps().len()),
        check("events", manifest.event_count, lens.index.events().len()),
    ]
}

/// The tab of the issues; `after` is the place of the first one shown.
pub(crate) fn issues_tab(lens: &Lens<'_>, after: usize) -> IssuesTab {
    let issues = health::issues(lens.index);
    let unlisted = lens.summary.issues.0.saturating_sub(issues.len());
    let first = after.min(issues.len());
    let end = (first + PER_PAGE).min(issues.len());
    let mut counts: Vec<(IssueKind, usize)> = Vec::new();
    for issue in &issues {
        match counts.iter_mut().find(|(kind, _)| *kind == issue.kind) {
            Some((_, count)) => *count += 1,
            None => counts.push((issue.kind, 1)),
        }
    }
    let mut counts: Vec<(Sign, crate::page::part::text::Line)> =
        counts.into_iter().map(|(kind, count)| (level(kind), format!("{} {}", count, kind.label()).into())).collect();
    if unlisted > 0 {
        counts.push((
            Sign::plain("mk", "note"),
            format!("{} more of the same sorts, counted and not listed", format::count(unlisted as u64)).into(),
        ));
    }
    let link = |label: String, after: usize| {
        let query = [("tab", "issues"), ("after", &*after.to_string())];
        Link::new(label, href::with_query(&href::run(lens.key()), &query))
    };
    IssuesTab {
        clean: Phrase::from("Clean: every line of the three files was read as it was written."),
        counts,
        earlier: (first > 0).then(|| link(format!("earlier {PER_PAGE}"), first.saturating_sub(PER_PAGE))),
        later: (end < issues.len()).then(|| link(format!("later {}", PER_PAGE.min(issues.len() - end)), end)),
        rows: issues.get(first..end).unwrap_or_default().iter().map(|issue| row(lens, issue)).collect(),
    }
}

fn level(kind: IssueKind) -> Sign {
    if kind.is_problem() { Sign::word("mk err", "error", "problem") } else { Sign::plain("mk", "note") }
}

fn row(lens: &Lens<'_>, issue: &Issue) -> IssueRow {
    let sign = level(issue.kind);
    let at_line = |number: u64| match issue.file {
        TraceFile::Steps => {
            let n = lens.index.steps().binary_search_by_key(&number, |step| step.line).ok()?;
            Some(Link::new(format!("step {}", lens.label(n)), lens.at_step(n)))
        }
        TraceFile::Events => {
            let n = lens.index.events().binary_search_by_key(&number, |event| event.line).ok()?;
            Some(Link::new(format!("event {n}"), lens.at_event(n)))
        }
        TraceFile::Manifest => None,
    };
    let number = |number: Option<u64>| number.map_or_else(String::new, format::count);
    IssueRow {
        level: Sign { text: format!("{}: {}", sign.text.as_str(), issue.kind.label()).into(), ..sign },
        file: issue.file.name().into(),
        line: number(issue.line).into(),
        offset: number(issue.offset).into(),
        reason: Phrase::from(issue.reason.as_str()),
        link: issue.line.and_then(at_line),
    }
}
