//! Why did the run stop, on its page? The panel with the sentence, its evidence, the rules, and what the trace itself says.

use crate::analysis::format;
use crate::analysis::health;
use crate::analysis::life::{Basis, Life};
use crate::analysis::verdict::{LimitFrom, Mark};
use crate::analysis::why::{self, Kind, Rule, Standing, rules};
use crate::model::Certainty;
use crate::page::lens::{Lens, micros, status};
use crate::page::part::href;
use crate::page::part::sign::{Link, Phrase, Sign};
use crate::page::run::says;
use crate::page::run::{Evidence, RuleBar, RuleLine, RulesTable, Verdict};

/// The verdict panel.
pub(crate) fn verdict(lens: &Lens<'_>) -> Verdict {
    let summary = lens.summary;
    let explained = why::why(summary, lens.index, lens.lines);
    let certainty = match summary.verdict.certainty {
        Certainty::Recorded => Phrase::new(),
        Certainty::Inferred if summary.life.liveness.may_grow() => Phrase::new(),
        Certainty::Inferred => Phrase::from("Inferred: no file says how the run ended."),
        Certainty::Unknown => Phrase::from("The files do not tell why."),
    };
    let trouble = explained.first_trouble.map_or_else(Phrase::new, |trouble| {
        match (trouble.step, trouble.event) {
            (Some(n), _) => Phrase::new().link(format!("Step {}", lens.label(n)), lens.at_step(n)),
            (None, Some(event)) => Phrase::new().link(format!("Event {event}"), lens.at_event(event)),
            (None, None) => Phrase::new(),
        }
        .text(format!(": {}", trouble.text))
    });
    Verdict {
        status: status(summary),
        headline: Phrase::from(format!("{}.", summary.verdict.sentence)),
        second: if summary.verdict.second.is_empty() {
            Phrase::new()
        } else {
            Phrase::from(summary.verdict.second.as_str())
        },
        certainty,
        pace: explained.pace.map_or_else(Phrase::new, |pace| Phrase::from(format!("{pace}."))),
        evidence: explained.evidence.iter().map(|evidence| line_of(lens, evidence)).collect(),
        first_trouble: trouble,
        contradictions: explained.contradictions.into_iter().map(Phrase::from).collect(),
        liveness: liveness(lens, &summary.life),
        health: health_line(lens),
        rules: table(lens, &explained.rules),
        says: says::says(lens),
    }
}

/// The rules; while the run goes on they say what is left.
fn table(lens: &Lens<'_>, rules: &[Rule]) -> RulesTable {
    let ended = !lens.summary.life.liveness.may_grow();
    RulesTable {
        title: if ended { "Stop rules" } else { "Room left" },
        tally: rules::tally(rules, ended).into(),
        rows: rules.iter().map(|rule| rule_line(rule, ended, lens.summary.verdict.mark)).collect(),
    }
}

fn rule_line(rule: &Rule, ended: bool, mark: Mark) -> RuleLine {
    let state = rule.state(ended);
    let (class, state) = match rule.result {
        Standing::Fired if mark == Mark::Limit => ("hit", Sign::word("mk lim", "limit", state)),
        // Amber is for limits alone.
        Standing::Fired if mark == Mark::Critic => ("ends", Sign::word("mk stop", "critic", state)),
        Standing::Fired if mark == Mark::Error => ("ends", Sign::word("mk err", "error", state)),
        Standing::Fired if mark == Mark::Answered => ("ends", Sign::word("mk", "ok", state)),
        Standing::Fired => ("ends", Sign::word("mk", "rule", state)),
        Standing::Held => ("", Sign::plain("mk", state)),
        Standing::Off => ("off", Sign::plain("mk", state)),
        Standing::Unknown => ("off", Sign::word("mk", "unknown", state)),
    };
    let fill = if class == "hit" { "f-warn" } else { "f-ink" };
    let amount =
        |value: Option<f64>| value.map_or_else(|| format::MISSING.to_owned(), |value| rule.amount(value)).into();
    RuleLine {
        class,
        name: rule.name().into(),
        id: if rule.is_listed() { rule.id.as_str().into() } else { "".into() },
        measured: amount(rule.reading.measured()),
        limit: amount(rule.reading.limit()),
        bar: rule.share().map(|share| RuleBar { class: fill, width: format!("{:.1}", share * 100.0) }),
        state,
        note: rule.note.as_str().into(),
        by: rule.limit_from.map_or(format::MISSING, LimitFrom::as_str).into(),
    }
}

fn line_of(lens: &Lens<'_>, evidence: &why::Evidence) -> Evidence {
    let (icon, class) = match evidence.kind {
        Kind::End => ("doc", ""),
        Kind::Rule if lens.summary.verdict.mark == Mark::Limit => ("limit", "lim"),
        Kind::Rule => ("rule", ""),
        Kind::Chain => ("loop", ""),
        Kind::Critic if lens.summary.verdict.mark == Mark::Critic => ("critic", "stop"),
        Kind::Critic => ("brand", ""),
        Kind::Error => ("error", "err"),
        Kind::Manifest => ("doc", ""),
        Kind::Answer => ("ok", ""),
        Kind::Gap => ("died", "err"),
    };
    let link = match (evidence.event, evidence.step) {
        (Some(event), _) => Some(Link::new(format!("event {event}"), lens.at_event(event))),
        (None, Some(n)) => {
            let last = evidence.last_step.filter(|last| *last != n).map(|last| lens.label(last));
            let words = last
                .map_or_else(|| format!("step {}", lens.label(n)), |last| format!("steps {}–{last}", lens.label(n)));
            Some(Link::new(words, lens.at_step(n)))
        }
        (None, None) => None,
    };
    let (text, _) = crate::page::part::text::one_line(&evidence.text, 240);
    Evidence { icon, class, text: Phrase::from(text), link }
}

fn liveness(lens: &Lens<'_>, life: &Life) -> Phrase {
    let words = match life.basis {
        Basis::End | Basis::Manifest => return Phrase::new(),
        Basis::Teardown => return "Ended: tool sets were torn down and no END event followed".into(),
        Basis::Process => return "The recorded process does not exist any more".into(),
        Basis::Nothing => return "Nothing carries a time".into(),
        Basis::Event => "The newest event is from",
        Basis::Growth => "The board saw the files grow",
        Basis::ManifestTime => "No event has a time; the manifest is from",
        Basis::FileTime => {
            "Nothing in the files has a time; a copy would change that of the newest file, which is from"
        }
    };
    let Some(sign) = life.sign else { return Phrase::from(format!("{words} an unknown time")) };
    let said = Phrase::new().text(format!("{words} ")).age(format::age(sign, lens.now, lens.zone), lens.iso(sign));
    match lens.index.slowest_gap() {
        0 => said,
        slowest => said.dim(format!(" · longest pause in the run {}", micros(slowest))),
    }
}

fn health_line(lens: &Lens<'_>) -> Phrase {
    let words = health::in_words(lens.summary.issues);
    if lens.summary.issues.0 == 0 {
        return Phrase::from(words);
    }
    let first = health::issues(lens.index).into_iter().min_by_key(|issue| !issue.kind.is_problem());
    let first = first.map_or_else(String::new, |issue| format!(" {}: {}", issue.file.name(), issue.reason));
    Phrase::new().link(words, href::tab(lens.key(), "issues")).text(first)
}
