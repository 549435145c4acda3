//! Reads the user's settings: directories to serve and prices of models. They're in a TOML file,
//! and every error is reported with its line and key. A table of only prices may also be JSON.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use toml::Spanned;

use super::warning::warn;
use crate::error::{Error, Kind, Result, in_plain_words};
use crate::live::{Editor, FollowedTags, TagFile};
use crate::mirror::Address;
use crate::model::price::{Price, Prices};
use crate::model::repair::without_place;
use crate::page::runs::saved::{MAX_VIEWS, SavedViews, View};

/// The files that contain the settings.
#[derive(Debug, Clone, Default, clap::Args)]
pub(super) struct Settings {
    /// Settings file, in TOML [default: ~/.config/board/config.toml]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Model prices per million tokens, in TOML or JSON, to estimate unrecorded costs. They override
    /// the built-in list prices
    #[arg(long, value_name = "FILE")]
    prices: Option<PathBuf>,
    /// Don't estimate unrecorded costs
    #[arg(long, conflicts_with = "prices")]
    no_prices: bool,
}

#[derive(Debug, Default)]
pub(super) struct Config {
    /// The directories to serve if none is given.
    pub(super) roots: Vec<PathBuf>,
    /// Whether to also serve the sessions of coding agents.
    pub(super) sessions: bool,
    /// The prices of models.
    pub(super) prices: Arc<Prices>,
    /// The saved views of the run table.
    pub(super) views: SavedViews,
    /// The editor that pages link files to.
    pub(super) editor: Option<Editor>,
}

impl Settings {
    /// Reads the files.
    ///
    /// # Errors
    /// A file that was named doesn't exist, or a file contains an invalid setting.
    pub(super) fn read(&self) -> Result<Config> {
        self.read_with(|name| std::env::var_os(name).filter(|value| !value.is_empty()))
    }

    fn read_with(&self, var: impl Fn(&str) -> Option<OsString>) -> Result<Config> {
        let own = own_file(&var);
        let file = self.config.as_ref().or(own.as_ref());
        let mut config = match file.map(|file| (file, fs::read_to_string(file))) {
            None => Config::default(),
            Some((_, Err(error)))
                if self.config.is_none() && error.kind() == io::ErrorKind::NotFound =>
            {
                Config::default()
            }
            Some((file, text)) => {
                let text = text.map_err(|error| unreadable("the settings", file, error))?;
                let place = ConfigText {
                    file,
                    text: &text,
                    hint: SETTINGS,
                };
                let Written {
                    roots,
                    sessions,
                    prices,
                    views,
                    editor,
                } = place.toml()?;
                let views = place.views(views)?;
                let home = home(&var);
                let root = |root: String| place.root(&root, home.as_deref());
                Config {
                    roots: roots.into_iter().map(root).collect::<Result<_>>()?,
                    sessions,
                    prices: Arc::new(place.prices(prices)?),
                    views: SavedViews::new(views, &file.to_string_lossy()),
                    editor: editor.map(|editor| place.editor(&editor)).transpose()?,
                }
            }
        };
        if let Some(file) = &self.prices {
            let text =
                fs::read_to_string(file).map_err(|error| unreadable("the prices", file, error))?;
            let place = ConfigText {
                file,
                text: &text,
                hint: PRICES,
            };
            // TOML never begins like this.
            let Table { prices } = if text.trim_start().starts_with('{') {
                place.json()?
            } else {
                place.toml()?
            };
            config.prices = Arc::new(place.prices(prices)?);
        }
        config.prices = Arc::new(if self.no_prices {
            Prices::default()
        } else {
            Arc::unwrap_or_clone(config.prices).with_list()
        });
        Ok(config)
    }
}

fn unreadable(what: &str, file: &Path, error: io::Error) -> Error {
    let kind = if error.kind() == io::ErrorKind::NotFound {
        Kind::NotFound
    } else {
        Kind::Unreadable
    };
    Error::new(kind, format!("can't read {what} in {}", file.display()))
        .because(error)
        .hint("check the path, and that the file is readable")
}

/// Returns the path of the user's settings file, whether or not it exists.
fn own_file(var: &impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    // The XDG specification says to ignore relative paths in this variable.
    let base = var("XDG_CONFIG_HOME")
        .map(PathBuf::from)
        .filter(|base| base.is_absolute());
    let base = base.or_else(|| {
        if cfg!(windows) {
            var("APPDATA").map(PathBuf::from)
        } else {
            None
        }
    });
    Some(
        base.or_else(|| Some(home(var)?.join(".config")))?
            .join("board")
            .join("config.toml"),
    )
}

/// Returns the file with the user's tags, in the directory of the user's settings file. It may not
/// exist.
pub(super) fn tag_file() -> Option<TagFile> {
    let own = own_file(&|name| std::env::var_os(name).filter(|value| !value.is_empty()))?;
    Some(TagFile::new(own.parent()?.to_owned()))
}

/// Reads the user's tags for a board that follows them. If the file can't be used, board starts
/// without them, and uses them once the file is mended.
pub(super) fn followed_tags() -> Arc<FollowedTags> {
    let (tags, fault) = FollowedTags::follow(tag_file());
    if let Some(fault) = fault {
        warn(&format!("{fault:#}"));
    }
    Arc::new(tags)
}

/// Returns the user's home directory.
pub(super) fn home(var: &impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    var(if cfg!(windows) { "USERPROFILE" } else { "HOME" }).map(PathBuf::from)
}

/// The settings file as written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Written {
    roots: Vec<String>,
    sessions: bool,
    prices: BTreeMap<String, Price>,
    views: Vec<Spanned<WrittenView>>,
    editor: Option<Spanned<String>>,
}

/// A saved view as written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenView {
    name: Spanned<String>,
    query: Spanned<String>,
    columns: Option<Spanned<Vec<String>>>,
}

/// The price file as written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    prices: BTreeMap<String, Price>,
}

/// What a settings file looks like.
const SETTINGS: &str = "the keys are roots = [\"~/runs\"], sessions = true, editor = \"vscode\", input, output, cached, cache_write, cache_write_1h and window under [prices.\"MODEL*\"], and name, query and columns under [[views]]";
/// What a price file looks like.
const PRICES: &str = "a price file has [prices.\"MODEL*\"] with input = 1.25, output = 10 (dollars per million tokens), cached, cache_write, cache_write_1h or window";

/// The file being parsed.
struct ConfigText<'a> {
    file: &'a Path,
    text: &'a str,
    /// What such a file looks like.
    hint: &'static str,
}

impl ConfigText<'_> {
    fn toml<T: DeserializeOwned>(&self) -> Result<T> {
        toml::from_str(self.text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            self.wrong(
                self.text
                    .get(..at)
                    .unwrap_or_default()
                    .matches('\n')
                    .count(),
                error.message(),
            )
        })
    }

    fn json<T: DeserializeOwned>(&self) -> Result<T> {
        serde_json::from_str(self.text).map_err(|error| {
            let line = error.line().saturating_sub(1);
            self.wrong(line, &without_place(&error))
        })
    }

    /// Returns an error for a line, counted from 0, with its number and key.
    fn wrong(&self, line: usize, what: &str) -> Error {
        let written = self.text.lines().nth(line).unwrap_or_default().trim();
        let key = written
            .split(['=', ':'])
            .next()
            .unwrap_or_default()
            .trim_matches(['{', ' ']);
        let key = key
            .strip_prefix('[')
            .and_then(|key| key.strip_suffix(']'))
            .unwrap_or(key);
        let key = key
            .strip_prefix('"')
            .and_then(|key| key.strip_suffix('"'))
            .unwrap_or(key);
        let what = in_plain_words(what);
        let key = if key.is_empty() || what.contains(&format!("`{key}`")) {
            String::new()
        } else {
            format!("{key}: ")
        };
        let error = Error::new(
            Kind::Usage,
            format!("{}:{}: {key}{what}", self.file.display(), line + 1),
        );
        error.hint(self.hint)
    }

    /// Resolves a directory to serve: relative paths are relative to the file, and `~/` is the
    /// user's home.
    fn root(&self, written: &str, home: Option<&Path>) -> Result<PathBuf> {
        let line = |text: &str| {
            self.text
                .lines()
                .position(|line| line.contains(text))
                .unwrap_or_default()
        };
        if written.is_empty() {
            return Err(self.wrong(line("roots"), "an empty string isn't a directory"));
        }
        if Address::is_meant(written) {
            return match Address::parse(written) {
                Ok(_) => Ok(written.into()),
                Err(error) => Err(self.wrong(line("roots"), &error.to_string())),
            };
        }
        Ok(match (written.strip_prefix("~/"), home) {
            (Some(below), Some(home)) => home.join(below),
            _ => self
                .file
                .parent()
                .map_or_else(|| written.into(), |dir| dir.join(written)),
        })
    }

    /// Returns the line that a value begins in, counted from 0.
    fn line_of(&self, span: &Range<usize>) -> usize {
        let before = self.text.get(..span.start).unwrap_or_default();
        before.matches('\n').count()
    }

    fn editor(&self, written: &Spanned<String>) -> Result<Editor> {
        let line = self.line_of(&written.span());
        Editor::parse(written.get_ref()).map_err(|why| self.wrong(line, &why))
    }

    fn views(&self, written: Vec<Spanned<WrittenView>>) -> Result<Vec<View>> {
        let line = |span: Range<usize>| self.line_of(&span);
        if let Some(view) = written.get(MAX_VIEWS) {
            let what = format!("at most {MAX_VIEWS} views");
            return Err(self.wrong(line(view.span()), &what));
        }
        let mut views: Vec<View> = Vec::new();
        for view in written {
            let view = view.into_inner();
            let at = |field: &str| match (field, &view.columns) {
                ("query", _) => line(view.query.span()),
                ("columns", Some(columns)) => line(columns.span()),
                _ => line(view.name.span()),
            };
            let name = view.name.get_ref().clone();
            if views.iter().any(|other| other.is_called(&name)) {
                let what = format!("another view is called {name}");
                return Err(self.wrong(at("name"), &what));
            }
            let columns = view
                .columns
                .as_ref()
                .map(|columns| columns.get_ref().clone());
            let made = View::new(
                name,
                view.query.get_ref().clone(),
                &columns.unwrap_or_default(),
            );
            views.push(made.map_err(|(field, why)| self.wrong(at(field), &why))?);
        }
        Ok(views)
    }

    fn prices(&self, rows: BTreeMap<String, Price>) -> Result<Prices> {
        Prices::new(rows, self.file.to_string_lossy().into_owned()).map_err(|odd| {
            let line = self
                .text
                .lines()
                .position(|line| line.contains(&odd.0))
                .unwrap_or_default();
            self.wrong(line, &odd.to_string())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::price::PriceSource;

    fn written(text: &str) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("some.toml");
        fs::write(&file, text).unwrap();
        (dir, file)
    }

    fn read(settings: &Settings) -> Result<Config> {
        settings
            .read_with(|name| (name == "HOME" || name == "USERPROFILE").then(|| "/home/me".into()))
    }

    fn config(text: &str) -> Result<Config> {
        let (_dir, file) = written(text);
        read(&Settings {
            config: Some(file),
            ..Settings::default()
        })
    }

    fn prices(text: &str) -> Result<Config> {
        let (_dir, file) = written(text);
        read(&Settings {
            prices: Some(file),
            ..Settings::default()
        })
    }

    #[test]
    fn a_whole_file_is_read() {
        let text = "sessions = true\nroots = [\"~/runs\", \"/srv/runs\", \"here\"]\n\
                    [prices.\"opus-*\"]\ninput = 3\ncached = 0.3\noutput = 15.0\n";
        let (dir, file) = written(text);
        let config = read(&Settings {
            config: Some(file.clone()),
            ..Settings::default()
        })
        .unwrap();
        assert_eq!(
            config.roots,
            [
                PathBuf::from("/home/me/runs"),
                "/srv/runs".into(),
                dir.path().join("here")
            ]
        );
        assert!(config.sessions);
        assert_eq!(config.views.views.len(), 2, "the built-in ones");
        assert_eq!(
            config.prices.of("opus-5"),
            Some((
                &Price {
                    input: 3.0,
                    cached: Some(0.3),
                    output: 15.0,
                    ..Price::default()
                },
                PriceSource::File
            ))
        );
        assert_eq!(config.prices.source_of(["opus-5"]), file.to_string_lossy());
    }

    #[test]
    fn the_docs_show_a_whole_file() {
        let docs = include_str!("../../docs/using.md");
        let (_, shown) = docs.split_once("## Settings").unwrap();
        let (_, shown) = shown.split_once("```toml\n").unwrap();
        let config = config(shown.split_once("```").unwrap().0).unwrap();
        assert_eq!((config.roots.len(), config.sessions), (2, true));
        assert_eq!(config.views.views.len(), 1);
        assert!(config.prices.of("claude-sonnet-4-5-20250929").is_some());
    }

    #[test]
    fn the_lines_that_the_board_suggests_read_back() {
        let (name, query) = ("a \"b\" \\ \u{7f} \u{202e} é", "task:\"two words\" -tool:x");
        let columns = vec!["cost".to_owned(), "model".to_owned()];
        let view = View::new(name.to_owned(), query.to_owned(), &columns).unwrap();
        let read = config(&crate::page::runs::views::lines(&view)).unwrap();
        assert_eq!(*read.views.views, [view]);
    }

    #[test]
    fn mistakes_are_told_with_line_and_key() {
        for (text, expected) in [
            (
                "sessions = true\nrots = [\"x\"]\n",
                ":2: unknown key `rots`; use one of",
            ),
            (
                "\nsessions = \"yes\"\n",
                ":2: sessions: must be true or false, not \"yes\"",
            ),
            ("roots = \"x\"", ":1: roots: must be a list, not \"x\""),
            (
                "roots = [\"x\", \"\"]",
                ":1: roots: an empty string isn't a directory",
            ),
            (
                "roots = [\"x\", \"s4://x\"]",
                ":1: roots: s4://x isn't a valid object store address: unknown scheme",
            ),
            (
                "[prices.a]\ninput = 1\noutput = -1",
                ":3: output: a price must be a number ≥ 0",
            ),
            (
                "[prices.a]\ninput = 1\noutput = \"2\"",
                ":3: output: must be a number, not \"2\"",
            ),
            (
                "[prices.a]\ninput = 1\noutput = 1\nlight = 1",
                ":4: unknown key `light`",
            ),
            (
                "\n[prices.\"a*b\"]\ninput = 1\noutput = 1",
                ":2: prices.\"a*b\": a name can contain one *, only at its end",
            ),
            ("[prices.a]\ninput = 1", "`output` is missing"),
            (
                "\n[[views]]\nname = \"a\"\nquery = \"err:true statsu:error\"\n",
                ":4: query: `statsu:error`: no field is called `statsu` (did you mean status?)",
            ),
            (
                "[[views]]\nname = \"a\"\nquery = \"\"\ncolumns = [\"coast\"]",
                ":4: columns: no column is called coast (did you mean cost?)",
            ),
            (
                "[[views]]\nname = \"\"\nquery = \"\"",
                ":2: name: a view needs a name",
            ),
            (
                "[[views]]\nname = \"a\"\nquery = \"\"\n[[views]]\nquery = \"x\"\nname = \"a\"",
                ":6: name: another view is called a",
            ),
            (
                "[[views]]\nname = \"a\"\nquery = \"\"\nsort = \"cost\"",
                ":4: unknown key `sort`",
            ),
            ("[[views]]\nname = \"a\"", "`query` is missing"),
            (
                "sessions = true\neditor = \"vim\"",
                ":2: editor: must be vscode, cursor, zed, idea, or a pattern",
            ),
            (
                "editor = \"javascript:{path}\"",
                ":1: editor: `javascript:` can't open an editor",
            ),
            ("sessions true", ":1: "),
        ] {
            let error = config(text).unwrap_err();
            assert_eq!(error.kind(), Kind::Usage, "{text}");
            assert!(error.to_string().contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn prices_may_be_json_and_win_over_those_of_the_settings() {
        let json = prices("{\"prices\": {\"a\": {\"input\": 1,\n \"output\": 2.5}}}").unwrap();
        assert_eq!(
            json.prices.of("a"),
            Some((
                &Price {
                    input: 1.0,
                    output: 2.5,
                    ..Price::default()
                },
                PriceSource::File
            ))
        );
        for (text, expected) in [
            (
                "{\"prices\": {\"a\": {\n\"input\": 1,\n \"output\": true}}}",
                ":3: output: must be a number, not true",
            ),
            ("{\"price\": {}}", ":1: unknown key `price`; use `prices`"),
            (
                "sessions = true",
                ":1: unknown key `sessions`; use `prices`",
            ),
        ] {
            let error = prices(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
        let (_dir, settings) = written("[prices.a]\ninput = 9\noutput = 9");
        let (_other, own) = written("[prices.b]\ninput = 1\noutput = 1");
        let both = read(&Settings {
            config: Some(settings),
            prices: Some(own),
            no_prices: false,
        })
        .unwrap();
        assert!(both.prices.of("a").is_none() && both.prices.of("b").is_some());
        let listed = "claude-sonnet-4-5-20250929";
        assert!(both.prices.of(listed).is_some(), "the list has the others");
        let none = read(&Settings {
            no_prices: true,
            ..Settings::default()
        });
        assert!(none.unwrap().prices.is_empty());
    }

    #[test]
    fn the_users_own_file_may_be_missing_and_a_named_one_may_not() {
        let home = tempfile::tempdir().unwrap();
        let var = |name: &str| match name {
            "HOME" | "USERPROFILE" => Some(home.path().into()),
            "XDG_CONFIG_HOME" => Some("relative".into()),
            _ => None,
        };
        let settings = Settings::default();
        assert!(!settings.read_with(var).unwrap().sessions);
        let dir = home.path().join(".config/board");
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("config.toml"), "sessions = true").unwrap();
        assert!(settings.read_with(var).unwrap().sessions);
        let elsewhere = |name: &str| {
            if name == "XDG_CONFIG_HOME" {
                Some(dir.clone().into())
            } else {
                var(name)
            }
        };
        assert!(!settings.read_with(elsewhere).unwrap().sessions);
        for missing in [
            Settings {
                config: Some(dir.join("none")),
                ..Settings::default()
            },
            Settings {
                prices: Some(dir.join("none")),
                ..Settings::default()
            },
        ] {
            assert_eq!(missing.read_with(var).unwrap_err().kind(), Kind::NotFound);
        }
    }
}
