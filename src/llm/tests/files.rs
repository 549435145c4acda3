//! Tests agent files: their content, and how errors in them are reported.

use std::fs;
use std::path::Path;

use crate::error::Kind;
use crate::llm::{AgentFile, EXAMPLE};

const MODEL: &str = "[model]\nbase_url = \"http://127.0.0.1:1/v1\"\nmodel = \"tiny\"\n";

fn parse(text: &str) -> crate::Result<AgentFile> {
    AgentFile::parse(text, Path::new("dir/agent.toml"))
}

/// Returns the error for a file with `text` after the model.
#[track_caller]
fn wrong(text: &str) -> String {
    let error = parse(&format!("{MODEL}{text}")).unwrap_err();
    assert_eq!(error.kind(), Kind::Usage);
    error.to_string()
}

#[test]
fn the_example_is_an_agent_file() {
    let file = parse(EXAMPLE).unwrap();
    assert_eq!((file.name(), file.key_variable()), ("fixer", None));
    assert!(file.objective().unwrap().starts_with("Find out why"));
    assert_eq!((file.critics.len(), file.policies.len()), (2, 3));
    assert_eq!(file.settings["temperature"], 0.2);
}

#[test]
fn the_docs_show_an_agent_file() {
    let docs = include_str!("../../../docs/agents.md");
    let (_, shown) = docs.split_once("## Run an agent").unwrap();
    let (_, shown) = shown.split_once("```toml\n").unwrap();
    let (shown, _) = shown.split_once("```").unwrap();
    let file = parse(shown).unwrap();
    assert_eq!(
        (
            file.critics.len(),
            file.policies.len(),
            file.workspace.tools.len()
        ),
        (1, 1, 4)
    );
}

#[test]
fn an_address_and_a_model_are_enough() {
    let file = parse(MODEL).unwrap();
    assert_eq!(
        (file.name(), file.objective(), file.key_variable()),
        ("agent", None, Some("OPENAI_API_KEY"))
    );
    assert_eq!(
        file.workspace.tools.len(),
        5,
        "run_command is not a default tool"
    );
    assert!(!file.needs_key(), "a local server rarely needs a key");
    let named = parse(&format!("{MODEL}api_key_env = \"KEY\"")).unwrap();
    assert!(named.needs_key() && named.key_variable() == Some("KEY"));
    assert!(
        parse(&MODEL.replace("127.0.0.1:1", "a.example"))
            .unwrap()
            .needs_key()
    );
    assert_eq!(
        parse(&format!("{MODEL}api_key_env = \"\""))
            .unwrap()
            .key_variable(),
        None
    );
}

#[test]
fn a_mistake_is_told_with_its_line() {
    assert_eq!(
        wrong("[budget]\nstpes = 3"),
        "dir/agent.toml:5: unknown key `stpes`; use one of `steps`, `seconds`, `hard_seconds`, `tokens`"
    );
    assert!(
        wrong("[workspace]\ntools = [\"read_file\", \"rm\"]")
            .starts_with("dir/agent.toml:5: tools: unknown value `rm`")
    );
    assert!(
        wrong("[workspace]\ntools = [\n  \"read_file\",\n  \"rm\",\n]")
            .starts_with("dir/agent.toml:7: tools: unknown value `rm`")
    );
    assert_eq!(
        wrong("[budget]\nsteps = -1"),
        "dir/agent.toml:5: steps: must be a whole number ≥ 0, not -1"
    );
    assert!(
        wrong("timeout_s = 0")
            .starts_with("dir/agent.toml:4: expected a number of seconds above 0")
    );
    assert_eq!(
        wrong("\n[prices.\"a*b\"]\ninput = 1\noutput = 1"),
        "dir/agent.toml:5: a name can contain one *, only at its end"
    );
    assert!(wrong("x = [").starts_with("dir/agent.toml:4: "));
    let missing = parse("[agent]\nname = \"x\"\n").unwrap_err();
    assert!(
        missing.to_string().ends_with("`model` is missing") && !missing.hints().is_empty(),
        "{missing}"
    );
}

#[test]
fn rules_are_short_or_tables_and_stand_in_their_list() {
    let rules = "[stop]\ncompletion = [\"keyword=DONE\"]\npolicies = [\"max_steps=8\", { type = \"timeout\", seconds = 9 }]";
    let file = parse(&format!("{MODEL}{rules}")).unwrap();
    assert_eq!((file.completion.len(), file.policies.len()), (1, 2));
    let rule = |text: &str| wrong(&format!("[stop]\npolicies = [\n  {text},\n]"));
    assert!(rule("\"max_step=8\"").starts_with("dir/agent.toml:6: unknown rule `max_step`"));
    assert!(
        rule("{ type = \"max_steps\", step = 8 }")
            .starts_with("dir/agent.toml:6: unknown key `step`")
    );
    assert!(
        rule("\"content_match=(\"")
            .starts_with("dir/agent.toml:6: the pattern \"(\" doesn't compile")
    );
    assert!(rule("7").starts_with("dir/agent.toml:6: policies: must be a rule"));
    assert_eq!(
        rule("\"final_result\""),
        "dir/agent.toml:6: this rule accepts answers, so it belongs in `completion`"
    );
    let refused = wrong("[stop]\ncompletion = [\"max_steps=1\"]");
    assert_eq!(
        refused,
        "dir/agent.toml:5: this rule never accepts an answer, so it belongs in `policies`"
    );
}

#[test]
fn critics_are_of_three_kinds() {
    let critic = |rest: &str| wrong(&format!("[[critic]]\n{rest}"));
    let vibes = critic("kind = \"vibes\"");
    assert!(
        vibes.starts_with("dir/agent.toml:5: kind: unknown value `vibes`; use one of `command`"),
        "{vibes}"
    );
    assert!(critic("kind = \"command\"").ends_with("`command` is missing"));
    assert!(
        critic("kind = \"regex\"\npattern = \"(\"")
            .ends_with("the pattern \"(\" doesn't compile: unclosed group")
    );
    assert!(
        critic("kind = \"judge\"\ncriteria = \"x\"\nwhen = \"never\"")
            .contains("unknown value `never`")
    );
    let good = "[[critic]]\nkind = \"regex\"\npattern = \"x\"\nwant = false\nwhen = \"every_step\"\non_fail = \"stop\"";
    assert_eq!(parse(&format!("{MODEL}{good}")).unwrap().critics.len(), 1);
}

#[test]
fn other_files_lie_beside_this_one() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("agent.toml");
    fs::write(dir.path().join("prompt.md"), "Be kind.").unwrap();
    fs::write(dir.path().join("answer.json"), "{\"type\": \"object\"}").unwrap();
    let rest = "[agent]\nsystem_file = \"prompt.md\"\n[stop]\ncompletion = [\"structured_output=answer.json\"]";
    fs::write(&path, format!("{MODEL}{rest}")).unwrap();
    let file = AgentFile::load(&path).unwrap();
    assert_eq!(
        (file.system.as_str(), file.completion.len()),
        ("Be kind.", 1)
    );
    fs::remove_file(dir.path().join("prompt.md")).unwrap();
    let missing = AgentFile::load(&path).unwrap_err();
    assert!(
        missing.to_string().contains("agent.toml:5: can't read ")
            && missing.to_string().ends_with("prompt.md")
    );
    assert_eq!(
        AgentFile::load(&dir.path().join("none.toml"))
            .unwrap_err()
            .kind(),
        Kind::NotFound
    );
    let both = wrong("[agent]\nsystem = \"x\"\nsystem_file = \"y\"");
    assert_eq!(
        both,
        "dir/agent.toml:6: set either `system` or `system_file`, not both"
    );
}
