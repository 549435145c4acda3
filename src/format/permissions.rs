//! What tools record before a call for which they need the user's permission.

use super::value::cut;

/// At most this many open requests are remembered. A reply has few calls, and the newest matter.
const MAX_OPEN: usize = 64;

/// The open requests for permission with their ids, oldest first.
#[derive(Debug, Default)]
pub(super) struct Permissions(Vec<(Option<Box<str>>, Box<str>)>);

impl Permissions {
    /// Adds a request to use a tool.
    pub(super) fn ask(&mut self, id: Option<Box<str>>, tool: &str) {
        if self.0.len() >= MAX_OPEN {
            self.0.remove(0);
        }
        let words = format!("the request for permission to use {tool}");
        self.0.push((id, cut(&words)));
    }

    /// Removes the request with this id.
    pub(super) fn answer(&mut self, id: Option<&str>) {
        self.0.retain(|(open, _)| open.as_deref() != id);
    }

    /// Removes all requests. A program that was started again asks again.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Names what the user hasn't answered yet, if anything.
    pub(super) fn pending(&self) -> Option<Box<str>> {
        self.0.first().map(|(_, words)| words.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_newest_requests_are_remembered() {
        let mut open = Permissions::default();
        for n in 0..=MAX_OPEN {
            open.ask(Some(n.to_string().into()), &format!("tool {n}"));
        }
        assert_eq!(open.0.len(), MAX_OPEN);
        open.answer(Some("1"));
        let words = "the request for permission to use tool 2";
        assert_eq!(open.pending().as_deref(), Some(words));
        open.clear();
        assert_eq!(open.pending(), None);
    }
}
