//! Finds the sessions of common coding agents: directories and databases in the user's home, some of
//! which a variable can move. Only checks whether they exist, and opens no files in them.

use std::collections::HashSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::config::home;
use crate::format::SESSION_HOMES;
use crate::live::Elsewhere;
use crate::trace::name_stores;

/// The tools that keep their sessions in a database: as [`SESSION_HOMES`], with the path of the database.
const STORES: [(&str, &str, &str, &str); 5] = [
    (
        "OpenCode",
        "XDG_DATA_HOME",
        ".local/share",
        "opencode/opencode.db",
    ),
    ("Kilo", "XDG_DATA_HOME", ".local/share", "kilo/kilo.db"),
    ("Hermes", "HERMES_HOME", ".hermes", "state.db"),
    (
        "Goose",
        "XDG_DATA_HOME",
        ".local/share",
        "goose/sessions/sessions.db",
    ),
    ("Goose", "GOOSE_PATH_ROOT", "", "data/sessions/sessions.db"),
];
/// The variables for the path of a database. A relative path is in the directory of the default one.
const DATABASES: [(&str, &str); 2] = [("OpenCode", "OPENCODE_DB"), ("Kilo", "KILO_DB")];

/// Has databases recognized whose names are in the environment, whatever these are.
pub(super) fn name_databases() {
    let of = |(tool, variable): (&str, &str)| {
        let path = PathBuf::from(std::env::var_os(variable)?);
        let name = path.file_name()?.to_str()?.to_owned();
        let (.., own) = STORES.into_iter().find(|(known, ..)| *known == tool)?;
        Some((name, Path::new(own).file_stem()?.to_str()?))
    };
    name_stores(DATABASES.into_iter().filter_map(of).collect());
}

/// Returns the directories and databases that exist.
pub(super) fn places() -> Vec<Elsewhere> {
    among(|name| std::env::var_os(name).filter(|value| !value.is_empty()))
}

fn among(var: impl Fn(&str) -> Option<OsString>) -> Vec<Elsewhere> {
    let home = home(&var);
    let place = |(tool, name, below, sessions): (&'static str, &str, &str, &str)| {
        let moved = if name.is_empty() {
            None
        } else {
            var(name).map(PathBuf::from)
        };
        let home = home.as_ref().filter(|_| !below.is_empty());
        let mut dir = moved.or_else(|| Some(home?.join(below)))?;
        if !sessions.is_empty() {
            dir.push(sessions);
        }
        Some(Elsewhere { tool, dir })
    };
    let folders = SESSION_HOMES.into_iter().filter_map(place);
    let stores = STORES.into_iter().filter_map(place).map(|mut store| {
        let named = DATABASES.iter().find(|(tool, _)| *tool == store.tool);
        if let Some(path) = named.and_then(|(_, name)| var(name)) {
            store.dir.set_file_name(path);
        }
        store
    });
    let mut known = HashSet::new();
    folders
        .filter(|place| place.dir.is_dir())
        .chain(stores.filter(|place| place.dir.is_file()))
        // Two variables may name the same place.
        .filter(|place| known.insert(place.dir.clone()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_there_is_named_and_a_variable_moves_it() {
        let home = tempfile::tempdir().unwrap();
        let moved = tempfile::tempdir().unwrap();
        let archived = moved.path().join("archived_sessions");
        let dirs = [
            home.path().join(".claude/projects"),
            home.path().join(".codex"),
            home.path().join(".pi/agent/sessions"),
            moved.path().join("sessions"),
        ];
        for dir in dirs.iter().chain([&archived]) {
            std::fs::create_dir_all(dir).unwrap();
        }
        let places = among(|name| match name {
            "HOME" | "USERPROFILE" => Some(home.path().into()),
            "CODEX_HOME" | "PI_CODING_AGENT_SESSION_DIR" => Some(moved.path().into()),
            _ => None,
        });
        let named: Vec<_> = places
            .iter()
            .map(|place| (place.tool, place.dir.clone()))
            .collect();
        let expected = [
            ("Claude Code", home.path().join(".claude/projects")),
            ("Codex", moved.path().join("sessions")),
            ("Codex", archived),
            ("Pi", home.path().join(".pi/agent/sessions")),
            ("Pi", moved.path().to_owned()),
        ];
        assert_eq!(named, expected);
        assert_eq!(among(|_| None), []);
    }

    #[test]
    fn a_place_that_two_variables_name_is_listed_once() {
        let home = tempfile::tempdir().unwrap();
        let sessions = home.path().join(".pi/agent/sessions");
        std::fs::create_dir_all(&sessions).unwrap();
        let places = among(|name| match name {
            "HOME" | "USERPROFILE" => Some(home.path().into()),
            "PI_CODING_AGENT_SESSION_DIR" => Some(sessions.clone().into()),
            _ => None,
        });
        assert_eq!(places.len(), 1, "{places:?}");
    }

    #[test]
    fn each_place_is_documented() {
        let manual = include_str!("../../docs/using.md");
        for (tool, name, below, sessions) in SESSION_HOMES.into_iter().chain(STORES) {
            let row = manual
                .lines()
                .find(|line| line.starts_with(&format!("| {tool} | `~/")))
                .expect(tool);
            let place = format!("`~/{below}/{sessions}`");
            assert!(below.is_empty() || row.contains(&place), "{place}: {row}");
            let name = format!("`{name}`");
            assert!(name == "``" || row.contains(&name), "{name}: {row}");
        }
    }

    #[test]
    fn databases_are_named_and_variables_move_them() {
        let home = tempfile::tempdir().unwrap();
        let files = [
            home.path().join(".local/share/opencode/opencode.db"),
            home.path().join(".local/share/kilo/kilo.db"),
            home.path().join(".hermes/state.db"),
            home.path().join(".local/share/goose/sessions/sessions.db"),
            home.path().join(".local/share/opencode/opencode-dev.db"),
            home.path().join("data/kilo/kilo.db"),
            home.path().join("data/sessions/sessions.db"),
        ];
        for file in &files {
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, "").unwrap();
        }
        let named = |moved: &[(&str, &Path)]| {
            let var = |name: &str| {
                let moved = moved.iter().find(|(known, _)| *known == name);
                let home = (name == "HOME").then_some(home.path());
                Some(moved.map(|(_, to)| *to).or(home)?.into())
            };
            let places = among(var).into_iter();
            places.map(|place| place.dir).collect::<Vec<_>>()
        };
        assert_eq!(named(&[]), files[..4]);
        let dev = Path::new("opencode-dev.db");
        assert_eq!(named(&[("OPENCODE_DB", dev)])[0], files[4]);
        assert_eq!(named(&[("OPENCODE_DB", &files[5])])[0], files[5]);
        assert_eq!(named(&[("KILO_DB", &files[5])])[1], files[5]);
        let data = home.path().join("data");
        let of = |places: &[usize]| places.iter().map(|n| files[*n].clone()).collect::<Vec<_>>();
        assert_eq!(named(&[("XDG_DATA_HOME", &data)]), of(&[5, 2]));
        assert_eq!(named(&[("HERMES_HOME", &data)]), of(&[0, 1, 3]));
        let root = home.path();
        assert_eq!(named(&[("GOOSE_PATH_ROOT", root)]), of(&[0, 1, 2, 3, 6]));
    }
}
