//! `board usage`: prints what runs used, by day, week, month, run, model or project.

use std::io::{self, Write};

use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _};

use super::columns::Columns;
use super::command::{Between, Done, cut, query_at, write_json};
use super::config::Settings;
use super::look::{Ink, Look};
use super::roots::Roots;
use crate::analysis::format::{self, MISSING, visible_line};
use crate::analysis::query::Clock;
use crate::analysis::summary::Summary;
use crate::analysis::usage::{By, Days, Usage, Used, usage};

/// Maximum number of characters of a row's name.
const MAX_NAME: usize = 44;

/// What to print.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum What {
    Daily,
    Weekly,
    Monthly,
    #[value(name = "run", alias = "session")]
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
    after_help = "Costs with ≈ are estimates from prices. ≥ means that runs without a price are excluded. – means not recorded.
A cost is unknown if tokens are recorded, but neither their cost nor a price for them is known."
)]
pub(super) struct Args {
    /// How to group runs
    #[arg(value_name = "BY")]
    what: What,
    #[command(flatten)]
    roots: Roots,
    /// Count only matching runs, as in `board list`
    #[arg(long, value_name = "QUERY", allow_hyphen_values = true)]
    query: Option<String>,
    #[command(flatten)]
    between: Between,
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

/// Parses a time zone.
fn zone(text: &str) -> Result<TimeZone, String> {
    TimeZone::get(text).map_err(|_| format!("`{text}` isn't a known time zone"))
}

pub(super) fn run(args: &Args, look: &Look, out: &mut dyn Write) -> Done {
    args.between.check()?;
    let zone = args.timezone.as_ref().unwrap_or(&look.zone).clone();
    let clock = Clock::at(look.now, &zone);
    let query = query_at("usage", args.query.as_deref().unwrap_or_default(), &clock)?;
    let runs = args.roots.runs(
        &args.settings,
        &[&query],
        "pass a directory that contains runs, or --sessions: board usage daily DIR",
    )?;
    let chosen = runs.iter().map(AsRef::as_ref);
    let chosen: Vec<&Summary> = chosen
        .filter(|run: &&Summary| query.matches(*run))
        .collect();
    let today = Timestamp::from_microsecond(look.now)
        .unwrap_or_default()
        .to_zoned(zone.clone())
        .date();
    if args.what == What::Statusline {
        let of = |days| usage(chosen.iter().copied(), By::Day, days, &zone).total;
        let month = Days {
            since: Some(today.first_of_month()),
            until: Some(today),
        };
        let week = Days {
            since: today.checked_sub(6.days()).ok(),
            until: Some(today),
        };
        let [today, week, month] = [Days::last(1, today), week, month].map(of);
        let cost = |used: &Used| match used.runs {
            0 => format::usd(0.0),
            _ => used.cost_words(),
        };
        writeln!(
            out,
            "{} today · {} last 7 days · {} this month · {} tokens today",
            cost(&today),
            cost(&week),
            cost(&month),
            format::tokens(today.tokens)
        )?;
        return Ok(0);
    }
    let days = Days {
        since: args.between.since,
        until: args.between.until,
    };
    let report = usage(chosen.iter().copied(), args.what.by(), days, &zone);
    if args.json {
        write_json(out, &report)?;
    } else {
        write_text(&report, args, look, out)?;
    }
    Ok(0)
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
        used.cost_words(),
    ]
}

fn write_text(report: &Usage, args: &Args, look: &Look, out: &mut dyn Write) -> io::Result<()> {
    let heads = [
        args.what.by().head(),
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
    let heads = heads.map(str::to_owned);
    let lines = rows.iter().map(|(_, cells)| cells);
    let table = Columns::of(lines.chain([&heads, &total]), |at| at > 0);
    writeln!(out, "{}", look.paint(Ink::Dim, &table.line(&heads)))?;
    for (is_model, cells) in &rows {
        let text = table.line(cells);
        if *is_model {
            writeln!(out, "{}", look.paint(Ink::Dim, &text))?;
        } else {
            writeln!(out, "{text}")?;
        }
    }
    writeln!(out, "{}", table.line(&total))?;
    let marks = report.total.marks().into_iter();
    let marks = marks.map(|(mark, words)| format!("{mark} {words}"));
    for note in marks
        .chain(report.without_usage())
        .chain(report.without_time())
    {
        writeln!(out, "{}", look.paint(Ink::Dim, &note))?;
    }
    Ok(())
}
