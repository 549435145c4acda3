//! Checks single lines and manifests: each is read completely or refused, and the result is bounded
//! and finite.

use serde_json::Value;
use trace_board::format;
use trace_board::model::json::{Json, same};
use trace_board::model::redact::{BLANK, Search};
use trace_board::model::repair::repair;
use trace_board::model::{Fate, Names};

/// Maximum length in bytes of any text in a head.
const MAX_HEAD_TEXT: usize = 4096;

/// Lines of the step and event files.
pub fn lines(data: &[u8]) {
    if data.contains(&b'\n') {
        data.split(|byte| *byte == b'\n').take(8).for_each(line);
    } else {
        line(data);
    }
}

fn line(data: &[u8]) {
    let (text, _) = repair(data);
    let (again, repairs) = repair(text.as_bytes());
    assert_eq!(
        (again.as_str(), repairs.len()),
        (text.as_str(), 0),
        "what is repaired needs no repair"
    );
    if let Some(json) = Json::parse(&text) {
        let written = json.to_string();
        let read = Json::parse(&written).expect("what is written is JSON");
        assert_eq!(read.to_string(), written);
        assert!(same(&json, &read), "{written}");
    }
    let strict = serde_json::from_slice::<Value>(data).ok();
    let mut names = Names::default();
    let (step, remarks) = format::step_head(data, &mut names);
    assert_eq!(
        (&step, &remarks),
        (&format::step_head(data, &mut Names::default()).0, &remarks)
    );
    agrees(step.fate, strict.as_ref(), remarks.len());
    assert!(
        step.critics
            .iter()
            .filter_map(|mark| mark.score)
            .all(f64::is_finite),
        "{:?}",
        step.critics
    );
    let texts = [&step.critic_reason, &step.error]
        .into_iter()
        .flatten()
        .chain([&step.call]);
    assert!(texts.into_iter().all(|text| text.len() <= MAX_HEAD_TEXT));
    let (event, _, remarks) = format::event_head(data, &mut Names::default());
    agrees(event.fate, strict.as_ref(), remarks.len());
}

/// Asserts that a line's fate agrees with a strict JSON parser.
fn agrees(fate: Fate, strict: Option<&Value>, remarks: usize) {
    match strict {
        Some(Value::Object(_)) => assert!(fate.is_readable(), "{fate:?}"),
        Some(_) => assert_eq!(fate, Fate::Foreign),
        None => assert!(fate != Fate::Good || remarks > 0 || strict.is_none()),
    }
    assert!(
        fate.is_readable() || remarks > 0,
        "a line that is not read has a remark"
    );
}

/// A manifest: read with bounded texts and finite numbers, or refused with a reason.
pub fn manifest(data: &[u8]) {
    let object = matches!(serde_json::from_slice(data), Ok(Value::Object(_)));
    match format::manifest(data) {
        Ok((manifest, _)) => {
            assert!(manifest.latency_s.is_none_or(f64::is_finite));
            assert!(manifest.tokens != Some(0) && manifest.failures.len() <= 32);
            let texts = [
                &manifest.run_id,
                &manifest.status,
                &manifest.final_result,
                &manifest.model,
                &manifest.agent,
            ];
            assert!(
                texts
                    .into_iter()
                    .flatten()
                    .all(|text| text.len() <= MAX_HEAD_TEXT)
            );
            assert_eq!(
                format!("{:?}", format::manifest(data).expect("it was read").0),
                format!("{manifest:?}")
            );
        }
        Err((_, why)) => assert!(!object && !why.is_empty(), "{why}"),
    }
}

/// Secrets planted where the input has an `@` don't appear in any redacted line.
pub fn redact(data: &[u8]) {
    const PLANT: &str = "plant-8f3a1c77";
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let text = text.replace('@', PLANT);
    let mut kept = vec![
        serde_json::json!({"password": PLANT}).to_string(),
        serde_json::json!({"said": text}).to_string(),
    ];
    kept.extend(text.lines().map(str::to_owned));
    let mut search = Search::default();
    kept.iter().for_each(|line| search.read(line.as_bytes()));
    let secrets = search.end();
    for line in &kept {
        let blanked = secrets.blank(line.as_bytes());
        assert!(!blanked.contains(PLANT), "{line} became {blanked}");
        let json: Value =
            serde_json::from_str(&blanked).unwrap_or_else(|wrong| panic!("{wrong}: {blanked}"));
        assert!(blanked.contains(BLANK) || !line.contains(PLANT));
        if let (Value::Object(blank), Ok(Value::Object(was))) = (&json, serde_json::from_str(line))
        {
            assert!(blank.len() <= was.len(), "nothing is added");
        }
    }
}
