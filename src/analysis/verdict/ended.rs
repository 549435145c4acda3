//! Describes the end of another tool's run in one sentence, from what its format read from the
//! trace.

use std::borrow::Cow;

use super::RunStatus;
use super::facts::Facts;
use super::wording::{Note, NoteKind, Wording};
use crate::analysis::format::{amount, capitalised};
use crate::analysis::stated::{limit_beside, used_of, values};
use crate::model::json::Json;
use crate::model::{Certainty, EndKind, Ended, Named, Outcome, Reached};

/// Of a longer error, only the first sentence is quoted; characters.
const MAX_QUOTED: usize = 80;

/// Returns the status and the words.
pub(super) fn read(facts: &Facts<'_>, ended: &Ended) -> (RunStatus, Wording) {
    let cut = facts.cut();
    let wording = if ended.is_sentence {
        Wording::from(ended.detail.to_string())
    } else {
        wording(facts, ended, cut.is_some())
    };
    let mark = if ended.is_death() {
        RunStatus::Died
    } else if ended.kind() == Some(EndKind::Context) {
        // A full window limits what the run can do, as for a run of board's engine. Its outcome is
        // failed, because the tool couldn't continue.
        RunStatus::Limit
    } else {
        RunStatus::of(ended.outcome)
    };
    (mark, wording.note(&cut.unwrap_or_default()))
}

fn wording(facts: &Facts<'_>, ended: &Ended, is_cut: bool) -> Wording {
    if let Some(sentence) = at_once(ended) {
        return sentence.into();
    }
    let at = if ended.outcome == Outcome::Completed {
        "at"
    } else {
        "after"
    };
    let is_cancelled = ended.outcome == Outcome::Cancelled
        && (matches!(ended.named(), Named::Interruption(_)) || &*ended.headline == "Cancelled");
    let call = facts
        .cancelled_call()
        .filter(|_| is_cancelled && !is_cut && ended.later.is_empty())
        .filter(|_| !facts.has_declined());
    let step = match &call {
        _ if is_cut => String::new(),
        Some((step, _)) => format!(" in {step}"),
        None => facts.step_after(at),
    };
    let headline = match (ended.named(), &*ended.headline) {
        (_, "Answered") if ended.is_inferred_answer() => "Finished",
        (Named::Interruption(who), _) if ended.outcome == Outcome::Cancelled => {
            &format!("Cancelled{who}")
        }
        (_, headline) => headline,
    };
    let during = call.map_or_else(String::new, |(_, during)| format!(" {during}"));
    let of = |number| amount(number, ended.unit);
    let limit = facts.index.limit(ended.unit);
    // The numbers after a colon, and what contradicts them.
    let (numbers, contradiction) = match (ended.measured, ended.limit) {
        _ if let Some(stated) = limit.disputed() => {
            let values = values(stated, ended.unit);
            let dispute = format!("the records disagree on the limit ({values})");
            (ended.measured.map(of), dispute)
        }
        _ if !ended.refuted.is_empty() => {
            let used = each_of(&ended.refuted);
            (None, format!("but the trace records {used}"))
        }
        (Some(measured), Some(limit)) if ended.reading().is_refuted() => {
            let used = used_of(measured, limit, ended.unit);
            let bound = ended.bound.words();
            (None, format!("but the trace records {bound}{used}"))
        }
        (measured, limit) => {
            let numbers = match (measured, limit) {
                (Some(measured), Some(limit)) => {
                    let bound = ended.bound.words();
                    let compared = used_of(measured, limit, ended.unit);
                    Some(format!("{bound}{compared}"))
                }
                (None, Some(_)) => None,
                (measured, None) => measured.map(of),
            };
            (numbers, String::new())
        }
    };
    let mut head = match headline {
        // It happened in the step, not after it.
        Ended::CUT_REPLY => format!("{}{}", Ended::CUT_REPLY, in_step(facts, is_cut)),
        _ => format!("{headline}{step}{during}"),
    };
    let named = ended
        .limit
        .filter(|_| numbers.is_none() && contradiction.is_empty());
    let numbers = numbers
        .map(|numbers| format!(": {numbers}"))
        .or_else(|| named.map(|limit| limit_in_brackets(headline, &of(limit))));
    if let Some(numbers) = &numbers {
        head += numbers;
    }
    let mut brief = brief(ended, headline, &step, limit.disputed().is_some());
    let detail = detail(ended, numbers.is_some() || ended.limit.is_some());
    let detail = one_line(&detail);
    let detail = &*detail;
    let mut beside = "";
    if numbers.is_some() {
        // A second colon would make the sentence hard to read.
        beside = detail;
    } else if !detail.is_empty() {
        if !brief.is_empty() {
            brief = with_error(&brief, detail);
        }
        head += &format!(": {detail}");
    }
    let basis = if ended.certainty == Certainty::Inferred {
        match ended.is_own_word() {
            true => format!("inferred: {}", ended.word),
            false => format!("inferred from \"{}\"", ended.word),
        }
    } else {
        String::new()
    };
    let invalidation = facts
        .manifest
        .and_then(|manifest| manifest.invalidation.as_deref());
    Wording::new(head, brief)
        .basis(basis)
        .note(&contradiction)
        .note(beside)
        .note(ended.note.trim_end_matches('.'))
        .noted([Note::new(NoteKind::Reward, &*ended.reward)])
        .note(invalidation.unwrap_or_default())
        .note(&ended.later)
}

/// The longest HTTP status code in an error; characters.
const CODE: usize = 3;

/// Returns the end in the few words of a table cell. Empty if the sentence will do.
fn brief(ended: &Ended, headline: &str, step: &str, is_disputed: bool) -> String {
    // None of several limits is the right one.
    let limit = ended.limit.filter(|_| !is_disputed);
    match (ended.named(), ended.measured, limit) {
        (Named::Limit(name), Some(measured), Some(limit))
            if ended.refuted.is_empty() && !ended.reading().is_refuted() =>
        {
            let bound = ended.bound.words();
            format!("{name}: {bound}{}", used_of(measured, limit, ended.unit))
        }
        _ if headline == Ended::CUT_REPLY => "Reply token limit".to_owned(),
        _ if headline == Ended::CONTEXT_FULL => headline.to_owned(),
        (Named::Limit(name), None, Some(limit)) if ended.outcome == Outcome::Truncated => {
            let limit = amount(limit, ended.unit);
            format!("{name}{step}{}", limit_in_brackets(name, &limit))
        }
        (Named::Limit(name), ..) if ended.outcome == Outcome::Truncated => format!("{name}{step}"),
        (Named::Error(kind), ..) if ended.outcome == Outcome::Failed => {
            let step = if ended.detail.is_empty() { step } else { "" };
            format!("{}{step}", capitalised(kind))
        }
        _ if ended.outcome == Outcome::Failed => {
            let is_told = ended.detail.is_empty() || headline == Ended::REFUSED;
            if is_told { "" } else { headline }.to_owned()
        }
        (Named::Interruption(who), ..) => format!("Cancelled{who}{step}"),
        _ => String::new(),
    }
}

/// Formats a limit after the words that name it: ` (2 requests)`, or ` (limit 30 s)` after "Timeout" and
/// ` (limit 3)` without a unit.
fn limit_in_brackets(name: &str, limit: &str) -> String {
    match name.contains("limit") && limit.contains(' ') {
        true => format!(" ({limit})"),
        false => format!(" (limit {limit})"),
    }
}

/// Adds the words of an error: "API error 529: Overloaded".
fn with_error(kind: &str, words: &str) -> String {
    let is_code =
        |code: &&str| code.len() == CODE && code.bytes().all(|byte| byte.is_ascii_digit());
    let parts = words
        .split_once(' ')
        .map(|(code, why)| (code.trim_end_matches(':'), why));
    match parts.filter(|(code, _)| is_code(code)) {
        Some((code, why)) => format!("{kind} {code}: {why}"),
        None => format!("{kind}: {words}"),
    }
}

fn in_step(facts: &Facts<'_>, is_cut: bool) -> String {
    if is_cut {
        String::new()
    } else {
        facts.step_after("in")
    }
}

/// Returns the details from the tool, without a full stop. Of a long error, only the first sentence:
/// the evidence has all of it. Leaves out details that only repeat the headline and its numbers.
fn detail(ended: &Ended, has_numbers: bool) -> Cow<'_, str> {
    if let Some(message) = api_message(&ended.detail) {
        return message.into();
    }
    let is_long = ended.detail.chars().count() > MAX_QUOTED;
    let detail = if is_long && (has_numbers || ended.outcome == Outcome::Failed) {
        first_sentence(&ended.detail)
    } else {
        &ended.detail
    };
    // The evidence has these details, and the headline says as much.
    let is_said = matches!(&*ended.headline, Ended::CUT_REPLY | Ended::CONTEXT_FULL);
    if is_said || has_numbers && repeats(detail, ended) {
        return "".into();
    }
    // The headline already says that the API failed.
    let detail = match detail.strip_prefix("API Error: ") {
        Some(error) if ended.headline.contains("API error") => error,
        _ => detail,
    };
    detail.trim_end_matches('.').into()
}

/// Returns the code and the message of an API's error that quotes the response as JSON:
/// `400 API key not valid`.
fn api_message(detail: &str) -> Option<String> {
    let rest = detail.strip_prefix('[').unwrap_or(detail);
    let quoted = rest.strip_prefix("API Error: ")?;
    let quoted = quoted.get(..=quoted.rfind('}')?)?;
    let response = Json::parse(quoted.get(quoted.find('{')?..)?)?;
    let error = response.get("error")?;
    let message = error.get("message")?.as_str()?;
    let message = first_sentence(message).trim_end_matches('.');
    Some(match error.get("code").and_then(Json::as_f64) {
        Some(code) => format!("{code} {message}"),
        None => message.to_owned(),
    })
}

/// Returns a text with spaces instead of line breaks.
fn one_line(text: &str) -> Cow<'_, str> {
    let is_break = |c: char| matches!(c, '\n' | '\r');
    if !text.contains(is_break) {
        return Cow::Borrowed(text);
    }
    let lines = text.split(is_break).map(str::trim);
    let lines: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
    Cow::Owned(lines.join(" "))
}

/// Returns whether a detail begins like the headline and has no numbers except its own: "Token
/// limit exceeded. value: 280; limit: 250".
fn repeats(detail: &str, ended: &Ended) -> bool {
    let begin = |text: &str| {
        let words: Vec<_> = text.split_whitespace().take(2).collect();
        words.join(" ").to_lowercase()
    };
    let is_own = |number: f64| {
        let own = [ended.measured, ended.limit].into_iter().flatten();
        own.flat_map(|value| [value, value / 1e3])
            .any(|value| (value - number).abs() < 1e-9)
    };
    let mut numbers = detail
        .split(|char: char| !char.is_ascii_digit() && !matches!(char, '.' | ','))
        .map(|number| number.trim_matches(['.', ',']).replace(',', ""))
        .filter(|number| !number.is_empty())
        .peekable();
    // A longer text says more than the numbers.
    let is_short = detail.split_whitespace().count() <= 10;
    is_short
        && (begin(detail) == begin(&ended.headline)
            || ended.measured.is_none() && detail.contains("limit"))
        && numbers.peek().is_some()
        && numbers.all(|number| number.parse().is_ok_and(is_own))
}

/// Returns the text up to the end of its first sentence: a full stop before an uppercase letter that
/// doesn't belong to an abbreviation or a list, such as "e.g. Strict", "J. Doe" or "1. Install".
fn first_sentence(text: &str) -> &str {
    let is_end = |at: &usize| {
        let (head, rest) = text.split_at(*at);
        let word = head.rsplit(char::is_whitespace).next().unwrap_or_default();
        let word = word.trim_matches(|char: char| !char.is_alphanumeric());
        let is_number = word.len() < 3 && word.bytes().all(|byte| byte.is_ascii_digit());
        let is_short = word.chars().count() < 2 || word.contains('.') || word == "vs";
        let is_followed = rest.chars().nth(2).is_some_and(char::is_uppercase);
        is_followed && !is_number && !is_short
    };
    let end = text.match_indices(". ").map(|(at, _)| at).find(is_end);
    end.and_then(|end| text.get(..end)).unwrap_or(text)
}

/// Describes limits that were reached at the same time: "Step and cost limit reached: 1 step
/// (limit 1), $0.03 (limit $0.02)".
fn at_once(ended: &Ended) -> Option<String> {
    let first = Reached {
        measured: ended.measured?,
        limit: ended.limit?,
        unit: ended.unit,
    };
    let all: Vec<Reached> = [first]
        .into_iter()
        .chain(ended.also.iter().copied())
        .collect();
    let each = all.iter().map(|reached| {
        let (used, limit) = match reached.unit {
            "usd" => (cents(reached.measured), cents(reached.limit)),
            unit => (
                amount(reached.measured, unit),
                limit_beside(reached.limit, unit),
            ),
        };
        format!("{used} (limit {limit})")
    });
    let each: Vec<String> = each.collect();
    (all.len() > 1).then(|| format!("{}: {}", ended.headline, each.join(", ")))
}

/// Formats "1 of 50 steps, $0.03 of $3.00".
pub(super) fn each_of(limits: &[Reached]) -> String {
    let each = limits.iter().map(
        |Reached {
             measured,
             limit,
             unit,
         }| match *unit {
            "usd" => format!("{} of {}", cents(*measured), cents(*limit)),
            "ms" => format!("{} of {}", amount(*measured, unit), amount(*limit, unit)),
            _ => format!("{} of {}", amount(*measured, ""), amount(*limit, unit)),
        },
    );
    each.collect::<Vec<_>>().join(", ")
}

/// Formats an amount of money with as few decimals as possible, but at least two.
fn cents(value: f64) -> String {
    let words = amount(value, "usd");
    let Some((whole, decimals)) = words.split_once('.') else {
        return words;
    };
    format!("{whole}.{:0<2}", decimals.trim_end_matches('0'))
}

impl Facts<'_> {
    /// Describes a run that has a truncated line after the end of its last turn.
    pub(super) fn unreadable_tail(&self) -> String {
        let ended = self.manifest.and_then(|manifest| manifest.ended.as_deref());
        let turn = match ended {
            Some(ended) if ended.outcome != Outcome::Completed => {
                format!("{}{}", ended.headline, self.step_after("after"))
            }
            _ => format!("Replied{}", self.step_after("at")),
        };
        format!("{turn}; a truncated line follows, so the session may have continued")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Index;

    #[test]
    fn the_message_of_an_api_is_read_from_its_response() {
        let response = r#"{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT"}}"#;
        for detail in [
            format!("[API Error: {response}]"),
            format!("API Error: {response}"),
        ] {
            assert_eq!(
                api_message(&detail).as_deref(),
                Some("400 API key not valid")
            );
        }
        for detail in [
            "API Error: 529 {\"x\": 1}",
            "[API Error: {]",
            "API Error: none",
        ] {
            assert_eq!(api_message(detail), None, "{detail}");
        }
    }

    #[test]
    fn a_detail_that_repeats_the_numbers_is_left_out() {
        let ended = |measured| Ended {
            measured: Some(measured),
            limit: Some(250.0),
            ..Ended::new(
                "token",
                "Token limit reached",
                Outcome::Truncated,
                Certainty::Recorded,
            )
        };
        let detail = "Token limit exceeded. value: 280; limit: 250";
        assert!(repeats(detail, &ended(280.0)));
        assert!(!repeats(detail, &ended(281.0)), "another number");
        assert!(!repeats("The token limit is 250", &ended(280.0)));
    }

    fn turns(measured: Option<f64>, limit: Option<f64>) -> Ended {
        let (outcome, certainty) = (Outcome::Truncated, Certainty::Recorded);
        Ended::new("max_turns", "Turn limit reached", outcome, certainty)
            .compare(measured, limit, "turns")
    }

    #[test]
    fn a_detail_is_a_note_beside_a_limit() {
        let index = Index::default();
        let told = |measured, limit| {
            let ended = turns(measured, limit).detail("The agent took too long.");
            wording(&Facts::of(&index), &ended, false).sentence().0
        };
        let head = "Turn limit reached";
        let note = "The agent took too long";
        assert_eq!(told(None, None), format!("{head}: {note}"));
        assert_eq!(told(None, Some(3.0)), format!("{head} (3 turns) · {note}"));
        assert_eq!(
            told(Some(3.0), Some(3.0)),
            format!("{head}: 3 of 3 turns · {note}")
        );
    }

    #[test]
    fn a_disputed_limit_is_not_in_the_brief_form() {
        let told = |is_disputed| {
            let ended = turns(Some(3.0), Some(3.0));
            brief(&ended, &ended.headline, " after step 2", is_disputed)
        };
        assert_eq!(told(false), "Turn limit: 3 of 3 turns");
        assert_eq!(told(true), "Turn limit after step 2");
    }

    #[test]
    fn an_abbreviation_or_a_list_does_not_end_a_sentence() {
        for (text, first) in [
            ("The server is busy. Try again later.", "The server is busy"),
            ("Errors: 1. Field missing", "Errors: 1. Field missing"),
            (
                "Unknown option (e.g. Strict). Remove it.",
                "Unknown option (e.g. Strict)",
            ),
            ("Item No. 3 failed", "Item No. 3 failed"),
            ("See example.com. now", "See example.com. now"),
            ("The quota is used up. Ask J. Doe", "The quota is used up"),
            ("Ask J. Doe. He knows", "Ask J. Doe"),
            ("A limit of 4096. Try less", "A limit of 4096"),
            ("", ""),
        ] {
            assert_eq!(first_sentence(text), first);
        }
    }
}
