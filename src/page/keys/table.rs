//! Which keys are there? One table for the list of keys and for the commands of the jump box.

/// Keys that belong together.
#[derive(Debug)]
pub(crate) struct Section {
    pub name: &'static str,
    pub keys: &'static [Key],
}

/// A key, or keys pressed one after the other, and what it does.
#[derive(Debug)]
pub(crate) struct Key {
    pub caps: &'static [&'static str],
    pub does: &'static str,
    /// Whether the jump box offers it: what depends on the focus is nothing without it.
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

/// Every page.
pub(crate) static EVERYWHERE: Section = Section {
    name: "Everywhere",
    keys: &[
        key(
            &["Ctrl", "K"],
            "jump to a run, a step, a page or a command (⌘ K on a Mac)",
        ),
        command(&["?"], "this list"),
        command(&["/"], "filter or search"),
        key(&["g", "r"], "runs"),
        key(&["g", "s"], "scores"),
        key(&["g", "c"], "compare"),
        key(&["g", "w"], "what-if"),
        key(&["g", "f"], "search the text of all runs"),
        command(&["t"], "theme: system, light, dark"),
        key(&["Esc"], "close, clear, leave the field"),
    ],
};

/// The run table.
pub(crate) static LISTS: Section = Section {
    name: "Lists",
    keys: &[
        key(&["j", "k"], "next, previous row"),
        key(&["Enter"], "open"),
        key(&["x"], "mark for a comparison"),
        command(&["c"], "compare the marked"),
        command(&["G"], "last row"),
    ],
};

/// The page of a run.
pub(crate) static RUN: Section = Section {
    name: "Run",
    keys: &[
        key(&["j", "k"], "next, previous step"),
        command(&[":"], "go to a step by its number"),
        command(&["e"], "next error, retry or stop mark"),
        command(&["E"], "previous error, retry or stop mark"),
        command(&["f"], "follow new steps"),
        key(&["[", "]"], "previous, next change of the state key"),
        command(&["v"], "back to the verdict"),
        command(&["r"], "replay from this step"),
        key(&["1", "…", "9"], "tabs"),
        key(&["←", "→"], "in a chart: previous, next point"),
    ],
};

/// The replay of a run.
pub(crate) static REPLAY: Section = Section {
    name: "Replay",
    keys: &[
        command(&["Space"], "play, pause"),
        key(&["j", "k"], "next, previous step"),
        key(&["n", "p"], "next, previous event"),
        command(&[","], "slower"),
        command(&["."], "faster"),
        command(&["b"], "on to a breakpoint"),
        command(&["B"], "back to a breakpoint"),
        command(&["e"], "next mark"),
        command(&["E"], "previous mark"),
        key(&["[", "]"], "previous, next change of a key"),
        key(&["g", "g"], "start"),
        command(&["G"], "end"),
    ],
};

/// All of them, as they are listed.
pub(crate) static SECTIONS: [&Section; 4] = [&EVERYWHERE, &LISTS, &RUN, &REPLAY];
