//! Checks the sources against the planned dependencies between top-level modules.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::disk::walk;

/// The modules that each module may use. A new dependency needs an entry here and a reason in its
/// commit.
const ARROWS: &[(&str, &[&str])] = &[
    ("error", &[]),
    ("model", &[]),
    // Parses bytes into the model.
    ("format", &["model"]),
    ("trace", &["error", "model", "format"]),
    // What-if, the live engine and the tests evaluate the same rules, so rules must not depend on
    // any of them.
    ("stop", &["model"]),
    ("engine", &["error", "model", "stop", "trace"]),
    ("tools", &["error", "engine", "group"]),
    // `stop` defines what recorded codes mean and evaluates the rules for what-if. `format` is the
    // only reader of records, whichever tool wrote them.
    ("analysis", &["error", "model", "format", "stop"]),
    // Model prices are a single table for all callers. Tools of other programs are called over
    // bounded `lines`.
    (
        "llm",
        &[
            "error", "model", "stop", "engine", "tools", "group", "lines", "wire",
        ],
    ),
    // The processes that a child process started, whichever program it is.
    ("group", &[]),
    // Lines of bounded length, independent of what they contain.
    ("lines", &[]),
    // Threads that share work, independent of what it is.
    ("in_order", &[]),
    // An HTTP client, independent of the requests.
    ("wire", &["error"]),
    // The board's own files, independent of their contents.
    ("cache_file", &[]),
    // Texts in a database of the board's own, independent of whose they are.
    ("text_index", &["cache_file"]),
    // `trace` decides which objects may belong to traces. Tokens for Azure come from a program.
    ("mirror", &["error", "trace", "group", "wire", "cache_file"]),
    // A row's verdict and liveness are computed once per change, not for each query over thousands
    // of rows.
    (
        "live",
        &[
            "error",
            "mirror",
            "model",
            "trace",
            "analysis",
            "cache_file",
            "in_order",
        ],
    ),
    // What a program needs to explain one recorded run.
    ("recorded", &["error", "model", "trace", "analysis"]),
    // Rules are named and explained in the page's words, and `analysis` evaluates them.
    (
        "page",
        &[
            "error",
            "model",
            "format",
            "stop",
            "analysis",
            "live",
            "in_order",
            "text_index",
        ],
    ),
    // The same answers over HTTP and, message by message, to clients of the Model Context Protocol.
    // Types of `analysis` are documents, and the API describes their schemas.
    (
        "serve",
        &[
            "error",
            "model",
            "analysis",
            "live",
            "page",
            "lines",
            "text_index",
        ],
    ),
    (
        "cli",
        &[
            "error",
            "model",
            "format",
            "trace",
            "stop",
            "engine",
            "llm",
            "analysis",
            "mirror",
            "live",
            "page",
            "serve",
            "wire",
            "recorded",
            "in_order",
            "text_index",
        ],
    ),
    ("main", &["error", "cli"]),
    (
        "lib",
        &[
            "error",
            "model",
            "format",
            "trace",
            "stop",
            "engine",
            "tools",
            "llm",
            "analysis",
            "mirror",
            "recorded",
            "group",
            "in_order",
            "lines",
            "live",
            "page",
            "serve",
            "wire",
            "cache_file",
            "text_index",
            "cli",
        ],
    ),
];

/// Crates and items that only some modules may use.
const KEYS: &[(&str, &[&str])] = &[
    ("askama", &["page"]),
    ("axum", &["page", "serve"]),
    ("cap_fs_ext", &["trace"]),
    ("cap_std", &["tools", "trace"]),
    ("clap", &["cli", "main"]),
    ("hyper", &["serve"]),
    ("hyper_util", &["serve", "wire"]),
    ("lz4_flex", &["model", "text_index"]),
    ("mimalloc", &["main"]),
    ("nix", &["llm"]),
    ("notify", &["live"]),
    ("object_store", &["mirror"]),
    ("postcard", &["live", "model", "text_index"]),
    ("sha2", &["mirror", "serve", "page", "trace"]),
    ("rmcp", &["llm", "serve"]),
    ("rusqlite", &["trace", "text_index"]),
    (
        "rustix",
        // `cli` asks for the width of the terminal, and `page` for the work of a thread.
        &[
            "trace",
            "tools",
            "llm",
            "serve",
            "group",
            "cache_file",
            "cli",
            "page",
        ],
    ),
    (
        "std::fs",
        &[
            "trace",
            "engine",
            "llm",
            "mirror",
            "live",
            "cli",
            "cache_file",
            "text_index",
            // Says what is at a path that isn't a run.
            "recorded",
        ],
    ),
    ("toml", &["llm", "cli"]),
    ("unicode_width", &["cli"]),
    (
        "SystemTime::now",
        &[
            "engine",
            "live",
            "mirror",
            "cli",
            "page",
            "serve",
            "text_index",
        ],
    ),
];

pub(crate) fn project() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Lists the product's source files, without test modules.
pub(crate) fn sources() -> Vec<PathBuf> {
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

/// Returns the module to which a source file belongs.
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

/// Returns a file's code with comments blanked and inline tests removed. Line numbers stay the
/// same.
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

/// Lists every module named in a `crate::` path in `code`, with its line number.
fn uses(code: &str) -> Vec<(usize, String)> {
    // `Error`, `Kind` and `Result` are re-exports of the error module at the crate root.
    let as_room = |name: String| match name.as_str() {
        "Error" | "Kind" | "Result" => "error".to_owned(),
        _ => name,
    };
    let found = named_in(code, "crate")
        .into_iter()
        .chain(named_in(code, "trace_board"));
    found.map(|(line, name)| (line, as_room(name))).collect()
}

/// Lists the lines on which `code` names an external crate, or one item `in::it`.
fn lines_naming(code: &str, thing: &str) -> Vec<usize> {
    let (home, item) = thing
        .split_once("::")
        .map_or((thing, None), |(home, item)| (home, Some(item)));
    let named = named_in(code, home)
        .into_iter()
        .filter(|(_, name)| item.is_none_or(|item| item == name));
    named.map(|(line, _)| line).collect()
}

/// Lists the names below `home::` in `code`, alone or in a group, with the line on which the path
/// starts.
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

/// Lists the first path segments inside a `{..}` group, up to its closing brace.
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

/// Cargo ignores the profile's `strip` for a package with its own profile settings.
#[test]
fn the_release_binary_is_stripped() {
    let manifest = fs::read_to_string(project().join("Cargo.toml")).expect("the manifest exists");
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
fn arrows_between_modules_point_one_way() {
    let mut wrong = Vec::new();
    for path in sources() {
        let here = room(&path);
        let Some(may_use) = allowed(ARROWS, &here) else {
            panic!("{} is in no module of the table", path.display());
        };
        for (line, name) in uses(&code(&path)) {
            if name != here && !may_use.contains(name.as_str()) {
                wrong.push(format!(
                    "{}:{line}: {here} must not know {name}",
                    path.display()
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn each_foreign_thing_has_its_module() {
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
                    "{}:{line}: {here} must not use {thing}",
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
    let text = fs::read_to_string(project().join("Cargo.toml")).expect("it exists");
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
    // The client of models needs the seven for HTTP; all of them together are 94 crates.
    let few = "bytes cap-fs-ext cap-std flate2 fluent-uri foldhash http http-body-util hyper-rustls hyper-util jiff memchr percent-encoding rawzip regex rustix ruzstd serde serde_json schemars sse-stream tempfile thin-vec tokio tokio-stream tracing";
    assert_eq!(always.join(" "), few);
}

#[test]
fn nobody_lifts_what_is_forbidden() {
    // A crate without the lint table, or an attribute that overrides it, would allow unsafe code.
    for (manifest, table) in [
        ("Cargo.toml", "unsafe_code = \"forbid\""),
        ("fuzz/Cargo.toml", "unsafe_code = \"deny\""),
    ] {
        let text = fs::read_to_string(project().join(manifest)).expect("it exists");
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
                // Quoted words belong to this list itself.
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
            fs::read_to_string(dir.join("README.md")).expect("a README next to the vendored files");
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
fn what_contributing_names_exists() {
    let text = fs::read_to_string(project().join("CONTRIBUTING.md")).expect("it exists");
    let (_, text) = text
        .split_once("## Add something")
        .expect("the section exists");
    let (text, _) = text
        .split_once("## Rules for all code")
        .expect("the next section exists");
    // Every second piece is code.
    let pieces: Vec<&str> = text.split('`').collect();
    let is_path = |piece: &str| {
        let top = piece.split('/').next().unwrap_or_default();
        piece.contains('/')
            && !piece.contains("NAME")
            && [
                "docs",
                "fuzz",
                "sample_runs",
                "src",
                "static",
                "templates",
                "tests",
            ]
            .contains(&top)
    };
    let (mut wrong, mut names) = (Vec::new(), 0);
    for at in (1..pieces.len())
        .step_by(2)
        .filter(|at| is_path(pieces[*at]))
    {
        let path = project().join(pieces[at]);
        if !path.exists() {
            wrong.push(pieces[at].to_owned());
        }
        // "`TOOLS` in `src/format/tools.rs`" and "`Rows` (`src/format/opencode.rs`)"
        let between = pieces[at - 1];
        let is_named = between.trim() == "(" || between.split_whitespace().last() == Some("in");
        if is_named && at > 2 && between.len() < 20 && path.is_file() {
            let name = pieces[at - 2];
            let name = name
                .split("::")
                .last()
                .unwrap_or(name)
                .trim_end_matches('!');
            let code = fs::read_to_string(&path).expect("it can be read");
            if !name.contains("NAME") && !code.contains(name) {
                wrong.push(format!("{name} in {}", pieces[at]));
            }
            names += 1;
        }
    }
    assert_eq!(wrong, [] as [String; 0]);
    assert!(names > 8, "{names} names");
}

#[test]
fn every_test_file_is_listed() {
    for binary in ["tests/it", "tests/e2e", "tests/bench"] {
        let dir = project().join(binary);
        let main = fs::read_to_string(dir.join("main.rs")).expect("the binary has a main");
        for entry in fs::read_dir(&dir).expect("the directory exists").flatten() {
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
