//! Checks the sources against the planned dependencies between top-level modules ("rooms").

use std::collections::{BTreeMap, BTreeSet};
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
    ("tools", &["error", "engine"]),
    // `stop` defines what recorded codes mean and evaluates the rules for what-if. `format` is the
    // only reader of records, whichever tool wrote them.
    ("analysis", &["error", "model", "format", "stop"]),
    // Model prices are a single table for all callers. Tools of other programs are called over
    // bounded `lines`.
    (
        "llm",
        &["error", "model", "stop", "engine", "tools", "lines", "wire"],
    ),
    // Lines of bounded length, independent of what they contain.
    ("lines", &[]),
    // An HTTP client, independent of the requests.
    ("wire", &["error"]),
    // The board's own files, independent of their contents.
    ("cache_file", &[]),
    // `trace` decides which objects may belong to traces.
    ("mirror", &["error", "trace", "wire", "cache_file"]),
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
        ],
    ),
    // Rules are named and explained in the page's words, and `analysis` evaluates them.
    (
        "page",
        &["error", "model", "format", "stop", "analysis", "live"],
    ),
    // The same answers over HTTP and, message by message, to clients of the Model Context Protocol.
    ("serve", &["error", "model", "live", "page", "lines"]),
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
            "lines",
            "live",
            "page",
            "serve",
            "wire",
            "cache_file",
            "cli",
        ],
    ),
];

/// Crates and items that only some modules may use.
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
    ("rmcp", &["llm", "serve"]),
    ("rustix", &["trace", "tools", "llm", "serve", "cache_file"]),
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
        ],
    ),
    ("toml", &["llm", "cli"]),
    (
        "SystemTime::now",
        &["engine", "live", "mirror", "cli", "page", "serve"],
    ),
];

/// The modules whose files don't import each other in a circle, each with the folders in which they
/// still may. The list only grows, and the folders only become fewer.
const FREE_OF_CIRCLES: &[(&str, &[&str])] = &[
    ("cache_file", &[]),
    ("engine", &[]),
    ("lines", &[]),
    // A tool holds its server, and the server lists its tools.
    ("llm", &["llm::mcp"]),
    ("model", &[]),
    // A group is a rule that holds rules, so the list of all rules and each rule know each other.
    ("stop", &["stop::rules"]),
    ("tools", &[]),
    ("trace", &[]),
    ("wire", &[]),
];

fn project() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Lists the product's source files, without test modules.
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

/// One source file of a module: the names in its scope and the paths that its code uses.
#[derive(Default)]
struct Source {
    /// What an imported name stands for, as a path from the crate root.
    scope: BTreeMap<String, Vec<String>>,
    /// The modules whose names are all imported.
    globs: Vec<Vec<String>>,
    /// The names that the file re-exports but doesn't use.
    passed_on: BTreeSet<String>,
    /// The names of its own items.
    items: BTreeSet<String>,
    /// All names and paths in the code, outside of imports.
    paths: BTreeSet<Vec<String>>,
}

/// The files of one module by their module paths, such as `["engine", "parse", "xml"]`.
type Files = BTreeMap<Vec<String>, Source>;

/// Splits code into identifiers, `::` and single characters. Drops comments, literals, and items
/// that only exist in tests.
fn tokens(text: &str) -> Vec<String> {
    let mut tokens: Vec<String> = Vec::new();
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        let raw = rest.trim_start_matches('b').strip_prefix('r');
        let raw = raw.filter(|rest| rest.trim_start_matches('#').starts_with('"'));
        rest = if let Some(comment) = rest.strip_prefix("//") {
            comment.split_once('\n').map_or("", |(_, rest)| rest)
        } else if let Some(raw) = raw {
            let hashes = raw.len() - raw.trim_start_matches('#').len();
            let end = format!("\"{}", "#".repeat(hashes));
            let text = &raw[hashes + 1..];
            text.split_once(&end).map_or("", |(_, rest)| rest)
        } else if let Some(text) = rest.strip_prefix('"') {
            let mut is_escaped = false;
            let end = text.find(|letter| {
                let is_end = letter == '"' && !is_escaped;
                is_escaped = letter == '\\' && !is_escaped;
                is_end
            });
            end.map_or("", |end| &text[end + 1..])
        } else if let Some(text) = rest.strip_prefix('\'') {
            let mut letters = text.char_indices();
            let first = letters.next().map(|(_, letter)| letter);
            let second = letters.next().filter(|(_, letter)| *letter == '\'');
            match (first, second) {
                (Some('\\'), _) => text
                    .get(2..)
                    .and_then(|text| text.split_once('\''))
                    .map_or("", |(_, rest)| rest),
                (_, Some((end, _))) => &text[end + 1..],
                // A lifetime.
                _ => text.trim_start_matches(is_of_a_name),
            }
        } else if is_of_a_name(letter) {
            let name = ident(rest);
            let rest = &rest[name.len()..];
            tokens.push(name);
            rest
        } else if let Some(rest) = rest.strip_prefix("::") {
            tokens.push("::".to_owned());
            rest
        } else {
            if !letter.is_whitespace() {
                tokens.push(letter.to_string());
            }
            &rest[letter.len_utf8()..]
        };
    }
    without_tests(&tokens)
}

fn is_of_a_name(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// Drops every item behind a `#[cfg(test)]`.
fn without_tests(tokens: &[String]) -> Vec<String> {
    let test = ["#", "[", "cfg", "(", "test", ")", "]"];
    let mut kept = Vec::new();
    let mut rest = tokens;
    while let Some((token, after)) = rest.split_first() {
        let Some(item) = rest
            .get(..test.len())
            .filter(|tokens| *tokens == test)
            .and_then(|_| rest.get(test.len()..))
        else {
            kept.push(token.clone());
            rest = after;
            continue;
        };
        let mut depth = 0_u32;
        let end = item.iter().position(|token| {
            match token.as_str() {
                "{" | "(" | "[" => depth += 1,
                "}" | ")" | "]" => depth = depth.saturating_sub(1),
                _ => {}
            }
            depth == 0 && matches!(token.as_str(), ";" | "}" | ",")
        });
        rest = end.map_or(&[], |end| &item[end + 1..]);
    }
    kept
}

/// Reads the imports and paths of the file with the module path `here`.
fn source(here: &[String], text: &str) -> Source {
    let tokens = tokens(text);
    let children: Vec<&str> = tokens
        .windows(2)
        .filter(|pair| pair[0] == "mod")
        .map(|pair| pair[1].as_str())
        .collect();
    let mut source = Source::default();
    let mut re_exports = BTreeSet::new();
    let mut depth = 0_i32;
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        if token == "use" && tokens.get(at + 1).is_some_and(|next| next != "<") {
            let is_re_export = at > 0 && matches!(tokens[at - 1].as_str(), "pub" | ")");
            let end = tokens[at..].iter().position(|token| token == ";");
            let end = at + end.expect("an import ends");
            for (path, name) in imports(&tokens[at + 1..end]) {
                let is_child = children.contains(&path[0].as_str());
                let path = if is_child {
                    [here, &path].concat()
                } else {
                    absolute(here, path)
                };
                if name == "*" {
                    source.globs.push(path);
                } else if name != "_" {
                    re_exports.extend(is_re_export.then(|| name.clone()));
                    source.scope.insert(name, path);
                }
            }
            at = end;
        } else if token.starts_with(is_of_a_name) && token != "fn" {
            let before = at.checked_sub(1).map_or("", |before| &tokens[before]);
            let defines = ["struct", "enum", "trait", "type", "const", "static", "fn"];
            let mut path = vec![token.clone()];
            while let Some([colons, name]) = tokens.get(at + 1..at + 3)
                && colons == "::"
                && name.starts_with(is_of_a_name)
            {
                path.push(name.clone());
                at += 2;
            }
            if defines.contains(&before) && (before != "fn" || depth == 0) {
                source.items.insert(token.clone());
            } else if !matches!(before, "." | "::" | "mod") {
                let is_call = matches!(tokens.get(at + 1).map(String::as_str), Some("(" | "!"));
                // A lower-case name alone may be a variable.
                if path.len() > 1 || is_call || token.starts_with(char::is_uppercase) {
                    source.paths.insert(path);
                }
            }
        } else {
            match token.as_str() {
                "{" => depth += 1,
                "}" => depth -= 1,
                _ => {}
            }
        }
        at += 1;
    }
    let is_used = |name: &String| source.paths.iter().any(|path| path[0] == *name);
    re_exports.retain(|name| !is_used(name));
    source.passed_on = re_exports;
    source
}

/// Lists the paths of an import such as `a::{b, c::d as e}`, each with the name it brings into
/// scope.
fn imports(tree: &[String]) -> Vec<(Vec<String>, String)> {
    let mut found = Vec::new();
    let mut path: Vec<String> = Vec::new();
    let mut outer: Vec<usize> = vec![0];
    let mut name = None;
    for (at, token) in tree.iter().enumerate() {
        match token.as_str() {
            "::" => {}
            "{" => outer.push(path.len()),
            "," | "}" => {
                found.extend(name.take().map(|name| (path.clone(), name)));
                if token == "}" {
                    outer.pop();
                }
                path.truncate(*outer.last().expect("braces match"));
            }
            "as" => name = tree.get(at + 1).cloned(),
            "self" if at > 0 && outer.len() > 1 => name = path.last().cloned(),
            _ if at > 0 && tree[at - 1] == "as" => {}
            "*" => name = Some("*".to_owned()),
            _ => {
                path.push(token.clone());
                name = Some(token.clone());
            }
        }
    }
    found.extend(name.map(|name| (path, name)));
    found
}

/// Resolves the leading `crate`, `self` and `super` of a path in the module `here`.
fn absolute(here: &[String], path: Vec<String>) -> Vec<String> {
    let mut home = match path[0].as_str() {
        "self" | "super" => here.to_vec(),
        _ => Vec::new(),
    };
    for name in path {
        match name.as_str() {
            "crate" | "self" => {}
            "super" => drop(home.pop()),
            _ => home.push(name),
        }
    }
    home
}

/// Finds the file that defines what a path from the crate root names, and the name. `None` if it
/// isn't one of `files`, or if the path names a file as a whole.
fn definition<'a>(files: &'a Files, path: &[String]) -> Option<(&'a [String], String)> {
    let module = (1..=path.len())
        .rev()
        .find_map(|length| files.get_key_value(&path[..length]));
    let (module, source) = module?;
    let (name, members) = path[module.len()..].split_first()?;
    let has = |glob: &&Vec<String>| {
        let it = [glob.as_slice(), std::slice::from_ref(name)].concat();
        let source = files.get(*glob);
        let is_named = source
            .is_some_and(|source| source.items.contains(name) || source.scope.contains_key(name));
        is_named || files.contains_key(&it)
    };
    let target = match source.scope.get(name) {
        _ if source.items.contains(name) => None,
        Some(target) => Some(target.clone()),
        None => {
            let glob = source.globs.iter().find(has);
            glob.map(|glob| [glob.as_slice(), std::slice::from_ref(name)].concat())
        }
    };
    match target {
        Some(target) if target != path => definition(files, &[&target, members].concat()),
        _ => Some((module, name.clone())),
    }
}

/// Lists the names that each file takes from each other file.
fn arrows(files: &Files) -> BTreeMap<(&[String], &[String]), BTreeSet<String>> {
    let mut arrows = BTreeMap::new();
    for (here, source) in files {
        let imported = source
            .scope
            .iter()
            .filter(|(name, _)| !source.passed_on.contains(*name))
            .map(|(_, path)| path.clone());
        let named = source.paths.iter().map(|path| match path[0].as_str() {
            "crate" | "self" | "super" => absolute(here, path.clone()),
            _ => [here, path.as_slice()].concat(),
        });
        for path in imported.chain(named) {
            if let Some((there, name)) = definition(files, &path).filter(|(there, _)| there != here)
            {
                arrows
                    .entry((here.as_slice(), there))
                    .or_insert_with(BTreeSet::new)
                    .insert(name);
            }
        }
    }
    arrows
}

/// Describes the circles among `files`, one line for each import that is part of one. Skips imports
/// inside the folders `except`.
fn circles(files: &Files, except: &[&str]) -> Vec<String> {
    let mut arrows = arrows(files);
    arrows.retain(|(from, to), _| {
        let is_inside = |file: &[String], folder: &str| {
            let mut names = file.iter().map(String::as_str);
            folder.split("::").all(|name| names.next() == Some(name))
        };
        !except
            .iter()
            .any(|folder| is_inside(from, folder) && is_inside(to, folder))
    });
    let reached = |from: &[String]| {
        let mut reached: BTreeSet<&[String]> = BTreeSet::new();
        let mut open: Vec<&[String]> = arrows
            .keys()
            .filter(|(start, _)| *start == from)
            .map(|(_, end)| *end)
            .collect();
        while let Some(next) = open.pop() {
            if reached.insert(next) {
                open.extend(
                    arrows
                        .keys()
                        .filter(|(start, _)| *start == next)
                        .map(|(_, end)| *end),
                );
            }
        }
        reached
    };
    let reached: BTreeMap<&[String], _> = files
        .keys()
        .map(|file| (file.as_slice(), reached(file)))
        .collect();
    let is_tied = |one: &[String], other: &[String]| {
        reached[one].contains(other) && reached[other].contains(one)
    };
    let tied = arrows.iter().filter(|((from, to), _)| is_tied(from, to));
    tied.map(|((from, to), names)| {
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        format!(
            "{} uses {} of {}",
            from.join("::"),
            names.join(", "),
            to.join("::")
        )
    })
    .collect()
}

/// Reads the files of one module.
fn files_of(room: &str) -> Files {
    let src = project().join("src");
    let mut files = Files::new();
    for path in sources() {
        let below = path
            .strip_prefix(&src)
            .expect("a source file")
            .with_extension("");
        let mut module: Vec<_> = below
            .iter()
            .map(|name| name.to_string_lossy().into_owned())
            .collect();
        if module.last().is_some_and(|last| last == "mod") {
            module.pop();
        }
        if module[0] == room {
            let text = fs::read_to_string(&path).expect("sources are UTF-8");
            files.insert(module.clone(), source(&module, &text));
        }
    }
    files
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
                    "{}:{line}: {here} must not know {name}",
                    path.display()
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn an_import_circle_is_found_however_it_is_spelled() {
    let file = |path: &str, text: &str| {
        let module: Vec<_> = path.split("::").map(str::to_owned).collect();
        (module.clone(), source(&module, text))
    };
    let of = |files: [(&str, &str); 3]| {
        let files: Files = files.iter().map(|(path, text)| file(path, text)).collect();
        circles(&files, &[])
    };
    let high = "use super::low::{self, Low as Other, more::{Deep}};";
    let tied = [
        "room::high uses Low of room::low",
        "room::low uses High of room::high",
    ];
    for low in [
        "use super::high::High;",
        "use crate::room::High;",
        "use super::*; fn f(_: High) {}",
        "fn f() -> super::High { crate::room::high::High::new() }",
        "fn f() { use super::high::{High}; }",
    ] {
        let mod_rs = "mod high; mod low; pub use self::high::High; pub(crate) use low::Low;";
        let found = of([("room", mod_rs), ("room::high", high), ("room::low", low)]);
        assert_eq!(found, tied, "{low}");
    }
    for low in [
        "// use super::high::High;\nconst A: &str = \"use super::high::High;\";",
        "#[cfg(test)]\nmod tests { use super::super::high::High; }",
        "use std::fmt; fn f(high: u8, x: &'static str) -> char { high.low; '\"' }",
    ] {
        let mod_rs = "mod high; mod low; pub use high::High; pub use low::Low;";
        let found = of([("room", mod_rs), ("room::high", high), ("room::low", low)]);
        assert!(found.is_empty(), "{found:?}");
    }
    // A folder's first file counts as any other, if it defines or uses something.
    let mod_rs = "mod high; use high::High; struct Own; fn f(_: High) {}";
    let found = of([
        ("room", mod_rs),
        ("room::high", "use super::Own;"),
        ("room::low", ""),
    ]);
    assert_eq!(
        found,
        [
            "room uses High of room::high",
            "room::high uses Own of room"
        ]
    );
}

#[test]
fn no_file_imports_its_importer() {
    let mut wrong = Vec::new();
    for (room, except) in FREE_OF_CIRCLES {
        let files = files_of(room);
        assert!(!files.is_empty(), "{room} is a module");
        wrong.extend(circles(&files, except));
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
    let few = "flate2 foldhash jiff memchr percent-encoding rawzip regex rustix ruzstd serde serde_json schemars tempfile thin-vec tokio tracing";
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
