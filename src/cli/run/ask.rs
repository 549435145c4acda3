//! Asks the user at the terminal to approve each tool call that the agent file requires approval
//! for.

use std::io::{IsTerminal as _, stdin};
use std::sync::Arc;

use super::progress::Progress;
use crate::engine::{Consent, Person, Question};

/// The user at the terminal.
#[derive(Debug)]
pub(super) struct Terminal {
    pub(super) progress: Arc<Progress>,
}

impl Person for Terminal {
    async fn ask(&self, question: Question<'_>) -> Result<Consent, String> {
        if !stdin().is_terminal() || !self.progress.is_terminal() {
            return Ok(Consent::No(
                "approval is required, but there is no terminal to ask on".to_owned(),
            ));
        }
        let args = serde_json::to_string(question.args).unwrap_or_default();
        self.progress
            .say(&format!("step {}: {}", question.step, question.reason));
        self.progress.say(&format!(
            "allow {} {args}? y allows it; anything else denies it and is recorded as the reason",
            question.tool
        ));
        let read = tokio::task::spawn_blocking(|| {
            let mut line = String::new();
            stdin().read_line(&mut line).map(|_| line)
        });
        let line = read
            .await
            .map_err(|lost| lost.to_string())?
            .map_err(|error| error.to_string())?;
        Ok(consent(&line))
    }
}

fn consent(line: &str) -> Consent {
    match line.trim() {
        "y" | "Y" | "yes" => Consent::Yes,
        "" | "n" | "N" | "no" => Consent::No("the approver said no".to_owned()),
        why => Consent::No(format!("the approver said no: {why}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_yes_is_a_yes() {
        assert_eq!(
            (consent("y\n"), consent(" yes \n")),
            (Consent::Yes, Consent::Yes)
        );
        for no in ["", "\n", "n\n", "no"] {
            assert_eq!(
                consent(no),
                Consent::No("the approver said no".to_owned()),
                "{no}"
            );
        }
        assert_eq!(
            consent("look first\n"),
            Consent::No("the approver said no: look first".to_owned())
        );
    }
}
