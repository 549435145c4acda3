//! Determines which page the jump box is open on from the page's address, which a user may have
//! edited.

use crate::page::keys::table::{EVERYWHERE, LISTS, REPLAY, RUN, Section};

/// The information in a page's address.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Here {
    /// The key of the run shown.
    pub run: Option<String>,
    /// The selected step.
    pub step: Option<usize>,
    is_list: bool,
    is_replay: bool,
}

impl Here {
    /// Parses a path with its query. Unknown pages yield nothing.
    pub(super) fn read(address: &str) -> Self {
        let (path, query) = address.split_once('?').unwrap_or((address, ""));
        let mut parts = path.trim_start_matches('/').split('/');
        let run = (parts.next() == Some("runs"))
            .then(|| parts.next())
            .flatten();
        let run = run.and_then(|part| {
            percent_encoding::percent_decode_str(part)
                .decode_utf8()
                .ok()
        });
        let step = query
            .split('&')
            .find_map(|pair| pair.strip_prefix("step=")?.parse().ok());
        Self {
            run: run
                .filter(|key| !key.is_empty())
                .map(|key| key.into_owned()),
            step,
            is_list: path == "/",
            is_replay: parts.next() == Some("replay"),
        }
    }

    /// Returns the shortcuts available on the page.
    pub(super) fn sections(&self) -> Vec<&'static Section> {
        let own = match (&self.run, self.is_replay) {
            (Some(_), true) => Some(&REPLAY),
            (Some(_), false) => Some(&RUN),
            (None, _) => self.is_list.then_some(&LISTS),
        };
        own.into_iter().chain([&EVERYWHERE]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_tells_the_run_and_its_step() {
        let here = Here::read("/runs/a%2Fb%20c/replay?event=1&step=12");
        assert_eq!(
            (here.run.as_deref(), here.step, here.is_replay),
            (Some("a/b c"), Some(12), true)
        );
        assert_eq!(Here::read("/runs/").run, None);
        assert_eq!(Here::read("/runs/%ff?step=x"), Here::default());
        assert_eq!(Here::read("").sections().len(), 1);
        assert_eq!(Here::read("/?q=x").sections().len(), 2);
    }
}
