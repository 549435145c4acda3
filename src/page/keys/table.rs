//! Defines the keyboard shortcuts, both for the list of shortcuts and for the commands of the jump
//! box.

/// A group of shortcuts.
#[derive(Debug)]
pub(crate) struct Section {
    pub name: &'static str,
    pub keys: &'static [Key],
}

/// A shortcut, which is one or more keys pressed in order, and what it does.
#[derive(Debug)]
pub(crate) struct Key {
    pub caps: &'static [&'static str],
    pub does: &'static str,
    /// Whether the jump box offers it. It offers no shortcuts that depend on the focus.
    pub is_command: bool,
}

const fn key(caps: &'static [&'static str], does: &'static str) -> Key {
    Key {
        caps,
        does,
        is_command: false,
    }
}

const fn command(caps: &'static [&'static str], does: &'static str) -> Key {
    Key {
        caps,
        does,
        is_command: true,
    }
}

/// Shortcuts on every page.
pub(crate) static EVERYWHERE: Section = Section {
    name: "Everywhere",
    keys: &[
        key(
            &["Ctrl", "K"],
            "search, or jump to a run, a step, a tab, a page or a command (⌘ K on a Mac)",
        ),
        command(&["?"], "keyboard shortcuts"),
        command(&["/"], "filter or search"),
        key(&["g", "r"], "runs"),
        key(&["g", "c"], "compare"),
        key(&["g", "s"], "scores"),
        key(&["g", "w"], "what-if"),
        key(&["g", "e"], "recent edits"),
        key(&["g", "o"], "overview"),
        key(&["g", "u"], "usage"),
        key(&["g", "l"], "failures"),
        key(&["g", "x"], "experiments"),
        key(&["g", "f"], "search the text of all runs"),
        command(&["t"], "change theme (system, light, dark)"),
        key(
            &["Esc"],
            "close the box, clear the field or what was found, or leave the field",
        ),
    ],
};

/// Shortcuts of the run table.
pub(crate) static LISTS: Section = Section {
    name: "Lists",
    keys: &[
        key(&["j", "k"], "next, previous row"),
        key(&["Enter"], "open"),
        key(&["x"], "mark for comparison"),
        key(&["s"], "star, kept by this browser"),
        command(&["c"], "compare marked runs"),
        command(&["G"], "last row"),
    ],
};

/// Shortcuts on a run's page.
pub(crate) static RUN: Section = Section {
    name: "Run",
    keys: &[
        key(&["j", "k"], "next, previous step, or file in the Files tab"),
        key(&["J", "K"], "next, previous prompt in the transcript"),
        key(
            &["Enter"],
            "open or close the calls of the step in the transcript",
        ),
        key(&["n", "N"], "next, previous match"),
        key(&["y"], "copy the link to the step in the transcript"),
        command(&[":"], "go to a step by number"),
        command(&["e"], "next error, retry or stop"),
        command(&["E"], "previous error, retry or stop"),
        command(&["f"], "follow new steps"),
        key(&["[", "]"], "previous, next change to the state key"),
        command(&["v"], "show the verdict and its evidence"),
        command(&["r"], "replay from this step"),
        key(&["1", "…", "9"], "tabs"),
        key(&["←", "→"], "in a chart: previous, next point or block"),
        command(&["+"], "zoom the timeline in"),
        command(&["-"], "zoom the timeline out"),
        command(&["0"], "show the whole timeline"),
    ],
};

/// Shortcuts of the replay.
pub(crate) static REPLAY: Section = Section {
    name: "Replay",
    keys: &[
        command(&["Space"], "play, pause"),
        key(&["j", "k"], "next, previous step"),
        key(&["n", "p"], "next, previous event"),
        command(&[","], "slower"),
        command(&["."], "faster"),
        command(&["b"], "next breakpoint"),
        command(&["B"], "previous breakpoint"),
        command(&["e"], "next error, retry or stop"),
        command(&["E"], "previous error, retry or stop"),
        key(&["[", "]"], "previous, next change to a key"),
        key(&["g", "g"], "start"),
        command(&["G"], "end"),
    ],
};

/// All sections in the order they are listed.
pub(crate) static SECTIONS: [&Section; 4] = [&EVERYWHERE, &LISTS, &RUN, &REPLAY];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::shell::{MORE, NAV};

    #[test]
    fn every_link_of_the_navigation_has_its_own_key() {
        for link in NAV.iter().chain(MORE) {
            let listed = EVERYWHERE.keys.iter();
            let listed = listed.filter(|key| key.caps == ["g", link.go]);
            assert_eq!(listed.count(), 1, "g {}", link.go);
        }
    }
}
