//! Do the rooms keep to the plan? Reads the sources and checks who may know whom.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::disk::walk;

/// Which rooms a room may use. A new arrow is a new entry here, with its reason in the commit.
const ARROWS: &[(&str, &[&str])] = &[
    ("error", &[]),
    ("model", &[]),
    // Bytes in, model out.
    ("format", &["model"]),
    ("trace", &["error", "model", "format"]),
    // What-if, the live engine and the tests ask the same rules; they may know nothing that only one of them has.
    ("stop", &["model"]),
    ("engine", &["error", "model", "stop", "trace"]),
    ("tools", &["error", "engine"]),
    // What a recorded code means is known where codes are made; a what-if asks the rules themselves.
    // What a record says is read at one door, whoever wrote it.
    ("analysis", &["error", "model", "format", "stop"]),
    // Prices of models are one table, whoever is asked for a cost. Other programs offer tools in messages.
    (
        "llm",
        &["error", "model", "stop", "engine", "tools", "rpc", "wire"],
    ),
    // Messages, and no way for them to come or go.
    ("rpc", &[]),
    // A server, whatever it is asked.
    ("wire", &["error"]),
    // The files that the board keeps for itself, whatever they hold.
    ("own", &[]),
    // Which objects may belong to traces is known where files are looked for.
    ("mirror", &["error", "trace", "wire", "own"]),
    // A row's verdict and liveness are worked out once per change, not once per question about thousands of rows.
    (
        "live",
        &["error", "mirror", "model", "trace", "analysis", "own"],
    ),
    // Rules are named and explained in the words of the page; what they do is asked of `analysis`.
    (
        "page",
        &["error", "model", "format", "stop", "analysis", "live"],
    ),
    // The same answers over HTTP and, message by message, to a program that talks the Model Context Protocol.
    ("serve", &["error", "model", "live", "page", "rpc"]),
    (
        "cli",
        &[
            "error", "model", "format", "trace", "stop", "engine", "llm", "analysis", "mirror",
            "live", "page", "serve", "wire",
        ],
    ),
    ("main", &["error", "cli"]),
    (
        "lib",
        &[
            "error", "model", "format", "trace", "stop", "engine", "tools", "llm", "analysis",
            "mirror", "live", "page", "rpc", "serve", "wire", "own", "cli",
        ],
    ),
];

/// What only some rooms may touch.
const KEYS: &[(&str, &[&str])] = &[
    ("askama", &["page"]),
    ("axum", &["page", "serve"]),
    ("cap_std", &["tools"]),
    ("clap", &["cli", "main"]),
    ("hyper", &["serve"]),
    ("hyper_util", &["serve", "wire"]),
    ("mimalloc", &["main"]),
    ("nix", &["llm"]),
    ("notify", &["live"]),
    ("object_store", &["mirror"]),
    ("sha2", &["mirror", "serve", "cli"]),
    ("rustix", &["trace", "tools", "llm", "serve", "own"]),
    (
        "std::fs",
        &["trace", "engine", "llm", "mirror", "live", "cli", "own"],
    ),
    ("toml", &["llm", "cli"]),
    (
        "SystemTime::now",
        &["engine", "live", "mirror", "cli", "page", "serve"],
    ),
];

fn project() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The source files of the product, without its test modules.
fn sources() -> Vec<PathBuf> {
    let is_test = |path: &Path| {
        path.ends_with("tests.rs") || path.components().any(|part| part.as_os_str() == "tests")
    };
    let src = project().join("src");
    let mut files = walk(&src);
    files.retain(|path| {
        path.extension().is_some_and(|kind| kind == "rs")
            && !is_test(path.strip_prefix(&src).unwrap_or(path))
    });
    assert!(files.len() > 10, "the sources are found");
    files
}

/// The room a source file belongs to.
fn room(path: &Path) -> String {
    let below = path
        .strip_prefix(project().join("src"))
        .expect("a source file");
    let first = below.components().next().expect("it has a name");
    first
        .as_os_str()
        .to_string_lossy()
        .trim_end_matches(".rs")
        .to_owned()
}

/// The code of a file: comments blanked, inline tests cut off, line numbers kept.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).expect("sources are UTF-8");
    let product = text
        .split("#[cfg(test)]\nmod tests {")
        .next()
        .unwrap_or_default();
    product
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default().to_owned() + "\n")
        .collect()
}

/// Every room named by a `crate::` path in `code`, with the line it stands on.
fn uses(code: &str) -> Vec<(usize, String)> {
    // `Error`, `Kind` and `Result` are the names under which the crate root shows its error type.
    let as_room = |name: String| match name.as_str() {
        "Error" | "Kind" | "Result" => "error".to_owned(),
        _ => name,
    };
    let found = named_in(code, "crate")
        .into_iter()
        .chain(named_in(code, "trace_board"));
    found.map(|(line, name)| (line, as_room(name))).collect()
}

/// The lines on which `code` names a foreign thing: a crate, or one thing `in::it`.
fn lines_naming(code: &str, thing: &str) -> Vec<usize> {
    let (home, item) = thing
        .split_once("::")
        .map_or((thing, None), |(home, item)| (home, Some(item)));
    let named = named_in(code, home)
        .into_iter()
        .filter(|(_, name)| item.is_none_or(|item| item == name));
    named.map(|(line, _)| line).collect()
}

/// What `code` names below `home::`, alone or in a group, with the line on which the path begins.
fn named_in(code: &str, home: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (at, path) in code.match_indices(&format!("{home}::")) {
        // Part of a longer name, or of a word in a sentence.
        if code[..at]
            .ends_with(|letter: char| letter.is_alphanumeric() || letter == '_' || letter == '-')
        {
            continue;
        }
        let line = code[..at].matches('\n').count() + 1;
        let rest = &code[at + path.len()..];
        let names = match rest.strip_prefix('{') {
            Some(group) => top_names(group),
            None => vec![ident(rest)],
        };
        found.extend(names.into_iter().map(|name| (line, name)));
    }
    found
}

/// The first names inside a `{..}` group, up to its closing brace.
fn top_names(group: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut depth = 0_u32;
    let mut fresh = true;
    for (at, letter) in group.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => fresh = true,
            _ if fresh && !letter.is_whitespace() => {
                names.push(ident(&group[at..]));
                fresh = false;
            }
            _ => {}
        }
    }
    names
}

fn ident(text: &str) -> String {
    text.chars()
        .take_while(|letter| letter.is_alphanumeric() || *letter == '_')
        .collect()
}

fn allowed(table: &'static [(&str, &[&str])], name: &str) -> Option<BTreeSet<&'static str>> {
    table
        .iter()
        .find(|(key, _)| *key == name)
        .map(|(_, rooms)| rooms.iter().copied().collect())
}

/// Cargo drops `strip` of the profile for a package that has settings of its own.
#[test]
fn the_release_binary_is_stripped() {
    let manifest = fs::read_to_string(project().join("Cargo.toml")).expect("the manifest is there");
    let own = manifest
        .lines()
        .filter(|line| line.starts_with("trace-board = {"));
    assert!(manifest.contains("[profile.release]\nstrip = true\n"));
    assert!(
        own.into_iter()
            .all(|settings| settings.contains("strip = true"))
    );
}

#[test]
fn a_path_is_found_however_it_is_spelled() {
    let code = "use crate::model::{Run, Step};\nuse crate::{\n    Error,\n    live::{self, Library},\n};\nfn f() -> crate::Result<()> {}\n";
    let found: Vec<_> = uses(code)
        .into_iter()
        .map(|(line, name)| format!("{line} {name}"))
        .collect();
    assert_eq!(found, ["1 model", "2 error", "2 live", "6 error"]);
    let code = "use std::fs;\nuse std::{\n    fs::{self, File},\n    io,\n};\nuse std::{fs, io};\nuse std::{io, collections::{BTreeMap, fs}};\nstd::fs::read(path);\nmy_std::fs();\n";
    assert_eq!(lines_naming(code, "std::fs"), [1, 2, 6, 8]);
    assert_eq!(
        lines_naming("use axum::Router;\nlet axum = hyper_util::rt;\n", "axum"),
        [1]
    );
    assert_eq!(
        lines_naming(
            "let now = std::time::SystemTime::now();\n",
            "SystemTime::now"
        ),
        [1]
    );
}

#[test]
fn arrows_between_rooms_point_one_way() {
    let mut wrong = Vec::new();
    for path in sources() {
        let here = room(&path);
        let Some(may_use) = allowed(ARROWS, &here) else {
            panic!("{} is in no room of the table", path.display());
        };
        for (line, name) in uses(&code(&path)) {
            if name != here && !may_use.contains(name.as_str()) {
                wrong.push(format!(
                    "{}:{line}: {here} may not know {name}",
                    path.display()
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn each_foreign_thing_has_its_room() {
    let mut wrong = Vec::new();
    for path in sources() {
        let here = room(&path);
        let code = code(&path);
        for (thing, _) in KEYS
            .iter()
            .filter(|(_, rooms)| !rooms.contains(&here.as_str()))
        {
            for line in lines_naming(&code, thing) {
                wrong.push(format!(
                    "{}:{line}: {here} may not use {thing}",
                    path.display()
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn templates_escape_everything_and_carry_no_inline_code() {
    let mut wrong = Vec::new();
    for path in walk(&project().join("templates")) {
        let Ok(text) = fs::read_to_string(&path) else {
            continue;
        };
        for (number, line) in text.lines().enumerate() {
            let tight: String = line.split_whitespace().collect();
            let inline_script = line.contains("<script") && !line.contains("src=");
            if tight.contains("|safe")
                || line.contains(" style=")
                || line.contains("<style")
                || inline_script
            {
                wrong.push(format!(
                    "{}:{}: {}",
                    path.display(),
                    number + 1,
                    line.trim()
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_library_without_features_needs_few_others() {
    let text = fs::read_to_string(project().join("Cargo.toml")).expect("it is there");
    let table = text
        .split("\n[")
        .find_map(|table| table.strip_prefix("dependencies]\n"))
        .expect("it has dependencies");
    let always = table
        .lines()
        .filter(|line| !line.contains("optional = true"));
    let always: Vec<&str> = always
        .filter_map(|line| Some(line.split_once(" =")?.0))
        .collect();
    let few = "flate2 foldhash jiff memchr percent-encoding rawzip regex rustix ruzstd serde serde_json schemars tempfile thin-vec tokio tracing";
    assert_eq!(always.join(" "), few);
}

#[test]
fn nobody_lifts_what_is_forbidden() {
    // A crate without the table, or an attribute that the compiler takes before it, would.
    for (manifest, table) in [
        ("Cargo.toml", "unsafe_code = \"forbid\""),
        ("fuzz/Cargo.toml", "unsafe_code = \"deny\""),
    ] {
        let text = fs::read_to_string(project().join(manifest)).expect("it is there");
        assert!(
            text.contains("[lints.rust]") && text.contains(table),
            "{manifest}"
        );
    }
    let mut wrong = Vec::new();
    for room in ["src", "tests", "fuzz/src", "fuzz/fuzz_targets"] {
        for path in walk(&project().join(room))
            .into_iter()
            .filter(|path| path.extension().is_some_and(|kind| kind == "rs"))
        {
            let text = fs::read_to_string(&path).expect("sources are UTF-8");
            for (number, line) in text.lines().enumerate() {
                let code = line.split("//").next().unwrap_or_default();
                let begins = [
                    "unsafe {",
                    "unsafe fn ",
                    "unsafe impl ",
                    "unsafe extern ",
                    "#[unsafe(",
                ];
                // Words in quotes are this list.
                if begins
                    .iter()
                    .any(|word| code.contains(word) && !code.contains(&format!("\"{word}")))
                {
                    wrong.push(format!(
                        "{}:{}: {}",
                        path.display(),
                        number + 1,
                        line.trim()
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn vendored_files_are_what_their_readme_says() {
    for dir in ["static/vendor", "tests/e2e/vendor"] {
        let dir = project().join(dir);
        let readme =
            fs::read_to_string(dir.join("README.md")).expect("a README beside vendored files");
        for path in walk(&dir)
            .into_iter()
            .filter(|path| !path.ends_with("README.md"))
        {
            let name = path.file_name().expect("it is a file").to_string_lossy();
            let bytes = fs::read(&path).expect("it is readable");
            let hash: String = Sha256::digest(&bytes)
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect();
            let row = readme
                .lines()
                .find(|line| line.starts_with(&format!("| {name} |")));
            let row = row.unwrap_or_else(|| panic!("{} has no row in its README", path.display()));
            assert!(row.contains(&hash), "{} has sha256 {hash}", path.display());
        }
    }
}

#[test]
fn every_test_file_is_listed() {
    for binary in ["tests/it", "tests/e2e", "tests/bench"] {
        let dir = project().join(binary);
        let main = fs::read_to_string(dir.join("main.rs")).expect("the binary has a main");
        for entry in fs::read_dir(&dir)
            .expect("the directory is there")
            .flatten()
        {
            let name = entry.file_name().to_string_lossy().into_owned();
            if let Some(module) = name.strip_suffix(".rs").filter(|module| *module != "main") {
                assert!(
                    main.contains(&format!("mod {module};")),
                    "{binary}/main.rs does not list {name}"
                );
            }
        }
    }
}
