//! `board usage`: prints what runs used, by day, week, month, run, model or project.

use std::io::{self, Write};
use std::path::PathBuf;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _};

use super::command::{Done, FIELDS, cut, write_json};
use super::config::Settings;
use super::look::{Ink, Look};
use super::{serve, sessions};
use crate::analysis::format::{self, MISSING, counted, visible_line};
use crate::analysis::query::{Query, Sort};
use crate::analysis::select::select;
use crate::analysis::usage::{By, Days, Usage, Used, usage};
use crate::error::{Error, Kind};
use crate::live::Library;
use crate::model::price::LIST_DATE;

/// The most characters of a row's name.
const MAX_NAME: usize = 44;

/// What to print.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum What {
    Daily,
    Weekly,
    Monthly,
    Session,
    Model,
    Project,
    /// One line for a status bar
    Statusline,
}

impl What {
    /// Returns the rows of the report. A status line is about days.
    fn by(self) -> By {
        match self {
            What::Daily | What::Statusline => By::Day,
            What::Weekly => By::Week,
            What::Monthly => By::Month,
            What::Session => By::Session,
            What::Model => By::Model,
            What::Project => By::Project,
        }
    }
}

/// Print the tokens and the cost of runs, by day, week, month, run, model or project
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Costs with ≈ are estimates from prices. ⁺ means that runs without a price are left out. – means not recorded."
)]
pub(super) struct Args {
    /// What a row stands for
    #[arg(value_name = "BY")]
    what: What,
    /// Directories to search, up to 8 levels deep [default: the roots in the settings, else ./runs]
    #[arg(value_name = "ROOT")]
    roots: Vec<PathBuf>,
    /// Also count this user's Claude Code, Codex, Gemini CLI and Qwen Code sessions
    #[arg(long)]
    sessions: bool,
    /// Count only matching runs, as in `board list`
    #[arg(long, value_name = "QUERY", allow_hyphen_values = true)]
    query: Option<String>,
    /// The first day
    #[arg(long, value_name = "YYYY-MM-DD", value_parser = day)]
    since: Option<Date>,
    /// The last day
    #[arg(long, value_name = "YYYY-MM-DD", value_parser = day)]
    until: Option<Date>,
    /// The time zone of the days, such as Europe/Berlin [default: this machine's]
    #[arg(long, value_name = "ZONE", value_parser = zone)]
    timezone: Option<TimeZone>,
    /// List the models of each row
    #[arg(long)]
    models: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    settings: Settings,
}

/// Parses a day.
fn day(text: &str) -> Result<Date, String> {
    text.parse()
        .map_err(|_| format!("`{text}` is not a day; use YYYY-MM-DD"))
}

/// Parses a time zone.
fn zone(text: &str) -> Result<TimeZone, String> {
    TimeZone::get(text).map_err(|_| format!("`{text}` is not a known time zone"))
}

pub(super) fn run(args: &Args, look: &Look, out: &mut dyn Write) -> Done {
    let config = args.settings.read()?;
    let (roots, _) = serve::roots(&args.roots, args.sessions, &config, sessions::places())?;
    for root in &roots {
        super::stores::refuse(root)?;
    }
    let library = Library::load_with(roots, config.prices);
    let faults = library.status().roots.into_iter();
    if let Some((root, fault)) = faults
        .filter_map(|root| Some((root.path, root.fault?)))
        .next()
    {
        let what = format!("no runs in {}: {fault}", root.display());
        return Err(Error::new(Kind::NotFound, what)
            .hint("pass a directory that contains runs, or --sessions: board usage daily DIR")
            .into());
    }
    let query = Query::parse(args.query.as_deref().unwrap_or_default());
    if let Some(ignored) = query.ignored.first() {
        let what = format!("{}: {}", ignored.text, ignored.why);
        return Err(Error::new(Kind::Usage, what).hint(FIELDS).into());
    }
    let (runs, _) = library.listed(false);
    let runs: Vec<_> = runs.iter().map(|run| run.summary()).collect();
    let found = select(&runs, &query, Sort::default(), usize::MAX, None);
    let chosen = || found.rows.iter().map(|run| &***run);
    let zone = args.timezone.clone().unwrap_or_else(TimeZone::system);
    let today = Timestamp::from_microsecond(look.now)
        .unwrap_or_default()
        .to_zoned(zone.clone())
        .date();
    if args.what == What::Statusline {
        let of = |days| usage(chosen(), By::Day, days, &zone).total;
        let month = Days {
            since: Some(today.first_of_month()),
            until: Some(today),
        };
        let week = Days {
            since: today.checked_sub(6.days()).ok(),
            until: Some(today),
        };
        let [today, week, month] = [Days::last(1, today), week, month].map(of);
        writeln!(
            out,
            "{} today · {} in 7 days · {} this month · {} tokens today",
            cost(&today),
            cost(&week),
            cost(&month),
            format::tokens(today.tokens)
        )?;
        return Ok(0);
    }
    let days = Days {
        since: args.since,
        until: args.until,
    };
    let report = usage(chosen(), args.what.by(), days, &zone);
    if args.json {
        write_json(out, &report)?;
    } else {
        write_text(&report, args, look, out)?;
    }
    Ok(0)
}

/// Formats a cost with its marks: `≈$1.20⁺`.
fn cost(used: &Used) -> String {
    let plus = if used.runs_without_cost > 0 {
        "⁺"
    } else {
        ""
    };
    match used.cost {
        Some(cost) if used.cost_is_estimated => format!("≈{}{plus}", format::usd(cost)),
        Some(cost) => format!("{}{plus}", format::usd(cost)),
        None if used.tokens > 0 => "unknown".to_owned(),
        None => MISSING.to_owned(),
    }
}

/// The numbers of a row.
fn cells(name: String, used: &Used) -> [String; 8] {
    let known = |tokens: Option<u64>| tokens.map_or(MISSING.to_owned(), format::tokens);
    [
        name,
        format::count(used.runs as u64),
        format::tokens(used.tokens_uncached),
        known(used.tokens_cache_write),
        known(used.tokens_cached),
        format::tokens(used.tokens_out),
        format::tokens(used.tokens),
        cost(used),
    ]
}

fn write_text(report: &Usage, args: &Args, look: &Look, out: &mut dyn Write) -> io::Result<()> {
    let by = args.what.by();
    let head = match by {
        By::Day => "Day",
        By::Week => "Week from",
        By::Month => "Month from",
        By::Session => "Run",
        By::Model => "Model",
        By::Project => "Project",
    };
    let heads = [
        head,
        "Runs",
        "Input",
        "Cache write",
        "Cache read",
        "Output",
        "Tokens",
        "Cost",
    ];
    let name = |name: &str| match name {
        "" => "not recorded".to_owned(),
        name => cut(&visible_line(name), MAX_NAME),
    };
    let mut rows: Vec<(bool, [String; 8])> = Vec::new();
    for row in &report.rows {
        let shown = row.title.as_deref().unwrap_or(&row.name);
        rows.push((false, cells(name(shown), &row.used)));
        if args.models {
            for model in &row.models {
                rows.push((true, cells(format!("  {}", name(&model.name)), &model.used)));
            }
        }
    }
    let total = cells("Total".to_owned(), &report.total);
    let width = |at: usize| {
        let cell = |cells: &[String; 8]| cells.get(at).map_or(0, |cell| cell.chars().count());
        let all = rows.iter().map(|(_, cells)| cell(cells));
        all.chain([
            cell(&total),
            heads.get(at).map_or(0, |head| head.chars().count()),
        ])
        .max()
        .unwrap_or_default()
    };
    let widths: Vec<usize> = (0..heads.len()).map(width).collect();
    let line = |cells: &[String]| {
        let cell = |(at, cell): (usize, &String)| {
            let width = widths.get(at).copied().unwrap_or_default();
            if at == 0 {
                format!("{cell:<width$}")
            } else {
                format!("{cell:>width$}")
            }
        };
        let cells: Vec<String> = cells.iter().enumerate().map(cell).collect();
        cells.join("  ").trim_end().to_owned()
    };
    writeln!(
        out,
        "{}",
        look.paint(Ink::Dim, &line(&heads.map(str::to_owned)))
    )?;
    for (is_model, cells) in &rows {
        let text = line(cells);
        if *is_model {
            writeln!(out, "{}", look.paint(Ink::Dim, &text))?;
        } else {
            writeln!(out, "{text}")?;
        }
    }
    writeln!(out, "{}", line(&total))?;
    for note in notes(report) {
        writeln!(out, "{}", look.paint(Ink::Dim, &note))?;
    }
    Ok(())
}

/// Explains the marks and what isn't counted.
fn notes(report: &Usage) -> Vec<String> {
    let total = &report.total;
    let mut notes = Vec::new();
    if total.cost_is_estimated {
        notes.push(format!(
            "≈ estimated with list prices of {LIST_DATE} or your own prices"
        ));
    }
    if total.runs_without_cost > 0 {
        notes.push(format!(
            "⁺ leaves out {} tokens of {} without a known price; add one with --prices FILE",
            format::tokens(total.tokens_without_cost),
            counted(total.runs_without_cost, "run")
        ));
    }
    let mut not = |count: usize, what: &str| {
        if count > 0 {
            notes.push(format!("{}{what}", counted(count, "run")));
        }
    };
    not(report.runs_without_usage, " without recorded usage");
    not(
        report.runs_without_time,
        " left out: no time is recorded for their steps",
    );
    notes
}
