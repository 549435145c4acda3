//! Cuts fuzzing seeds from recorded runs into `fuzz/corpus/TARGET`; the arguments are run
//! directories.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// The fuzzer mutates longer seeds too slowly to find anything.
const MAX_BYTES: usize = 4096;
/// The same for databases, which have pages of 4 KiB.
const MAX_STORE_BYTES: usize = 65_536;
/// Maximum number of seeds kept per run and target.
const EACH: usize = 6;

fn main() -> io::Result<()> {
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut roots: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    if roots.is_empty() {
        roots = vec![project.join("sample_runs"), project.join("tests/corpus")];
    }
    let seeds = Seeds(project.join("fuzz/corpus"));
    for root in roots {
        runs(&root, &mut |dir| {
            seeds.of_run(dir).and_then(|()| seeds.of_tools(dir))
        })?;
    }
    Ok(())
}

/// Calls `each` for `dir` and every directory below it, since each may be a run.
fn runs(dir: &Path, each: &mut impl FnMut(&Path) -> io::Result<()>) -> io::Result<()> {
    each(dir)?;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            runs(&entry.path(), each)?;
        }
    }
    Ok(())
}

struct Seeds(PathBuf);

impl Seeds {
    fn of_run(&self, dir: &Path) -> io::Result<()> {
        let read = |name: &str| fs::read(dir.join(name)).unwrap_or_default();
        let (steps, events, manifest) = (
            read("steps.jsonl"),
            read("events.jsonl"),
            read("manifest.json"),
        );
        self.keep("manifest", &manifest)?;
        if steps.is_empty() && events.is_empty() {
            return Ok(());
        }
        let (steps, events) = (lines(&steps), lines(&events));
        let some = |lines: &[&[u8]], n: usize| {
            lines
                .iter()
                .take(n)
                .flat_map(|line| [line, &b"\n"[..]].concat())
                .collect()
        };
        for n in 1..=3 {
            let (head, tail): (Vec<u8>, Vec<u8>) = (some(&steps, n), some(&events, 3 * n));
            let whole = [&head[..], b"#\n", &tail].concat();
            self.keep(
                "tail",
                &[&b"\0\x20\x41\x60\x81\xa0\xc1\xff"[..], &whole].concat(),
            )?;
            self.keep("state", &whole)?;
        }
        for line in spread(&steps).chain(spread(&events)) {
            self.keep("lines", line)?;
            self.keep("redact", &[line, b"\n{\"note\": \"@\"}"].concat())?;
            let Ok(json) = serde_json::from_slice::<Value>(line) else {
                continue;
            };
            let changes = json["state_diff"].as_object().into_iter().flatten().take(2);
            for (key, change) in changes {
                self.keep(
                    "key_path",
                    format!("{key}[0].{key}\n{}", change["after"]).as_bytes(),
                )?;
            }
            self.texts(&json)?;
        }
        let manifest: Value = serde_json::from_slice(&manifest).unwrap_or_default();
        let rules = ["completion", "policies"].map(|list| manifest["stop_rules"][list].as_array());
        for rule in rules.into_iter().flatten().flatten() {
            self.keep("rules", rule["rule"].to_string().as_bytes())?;
        }
        Ok(())
    }

    /// Keeps the beginnings of other tools' trace files.
    fn of_tools(&self, dir: &Path) -> io::Result<()> {
        for entry in fs::read_dir(dir)? {
            let path = entry?.path();
            let name = path.to_string_lossy();
            // Indexes of these names in the list of the target `stores`.
            let stores = [
                "opencode.db",
                "kilo.db",
                "state.db",
                "crush.db",
                "sessions.db",
                ".aider.chat.history.md",
            ];
            if let Some(at) = stores.iter().position(|store| name.ends_with(store)) {
                let file = fs::read(&path)?;
                let log = fs::read(format!("{name}-wal")).unwrap_or_default();
                let (at, kib) = (at as u8, file.len().div_ceil(1024) as u8);
                self.keep("stores", &[&[at, kib], &file[..], &log].concat())?;
            }
            // Indexes of these extensions in the target's list of names.
            let ends = [(".traj.json", 4), (".traj", 3), (".json", 2), (".jsonl", 0)];
            let Some((_, at)) = ends
                .iter()
                .find(|(end, _)| name.ends_with(end))
                .filter(|_| path.is_file())
            else {
                continue;
            };
            let bytes = fs::read(&path)?;
            let head = bytes.get(..MAX_BYTES - 2).unwrap_or(&bytes);
            self.keep("tools", &[&[*at, 5], head].concat())?;
        }
        Ok(())
    }

    /// Keeps texts that could be model output.
    fn texts(&self, json: &Value) -> io::Result<()> {
        match json {
            Value::String(text) if text.len() > 20 && text.contains(['{', '<', ':']) => {
                self.keep("model_text", text.as_bytes())
            }
            Value::Array(items) => items.iter().try_for_each(|item| self.texts(item)),
            Value::Object(members) => members.values().try_for_each(|value| self.texts(value)),
            _ => Ok(()),
        }
    }

    fn keep(&self, target: &str, seed: &[u8]) -> io::Result<()> {
        let max = match target {
            "stores" => MAX_STORE_BYTES,
            _ => MAX_BYTES,
        };
        if seed.is_empty() || seed.len() > max {
            return Ok(());
        }
        let mut hash = DefaultHasher::new();
        seed.hash(&mut hash);
        let dir = self.0.join(target);
        fs::create_dir_all(&dir)?;
        fs::write(dir.join(format!("seed-{:016x}", hash.finish())), seed)
    }
}

/// Splits `bytes` into lines and drops empty ones and those too long for a seed.
fn lines(bytes: &[u8]) -> Vec<&[u8]> {
    bytes
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty() && line.len() < MAX_BYTES)
        .collect()
}

/// Picks a few lines evenly across a file.
fn spread<'a>(lines: &'a [&'a [u8]]) -> impl Iterator<Item = &'a [u8]> {
    lines.iter().step_by(lines.len() / EACH + 1).copied()
}
