//! `board completions` and `board man`: prints shell completions and manual pages, generated from
//! the definitions of the commands.

use std::io::Write;

use clap::Command;
use clap_complete::Shell;

use super::command::Done;
use crate::error::{Error, Kind};

/// Print a shell completion script
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  board completions bash > ~/.local/share/bash-completion/completions/board
  board completions zsh > ~/.zfunc/_board
  board completions fish > ~/.config/fish/completions/board.fish")]
pub(super) struct Completions {
    /// The shell
    #[arg(value_name = "SHELL", value_enum)]
    shell: Shell,
}

/// Print the manual page of board or one of its commands
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: board man why | man -l -")]
pub(super) struct Man {
    /// Print the page of this command
    #[arg(value_name = "COMMAND")]
    command: Option<String>,
}

/// Prints a script for the commands of `board`.
pub(super) fn completions(args: &Completions, mut board: Command, out: &mut dyn Write) -> Done {
    // Generated in memory first, because the library panics if its output can't be written.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut board, "board", &mut script);
    out.write_all(&script)?;
    Ok(0)
}

/// Prints the page of `board` or one of its commands.
pub(super) fn man(args: &Man, mut board: Command, out: &mut dyn Write) -> Done {
    // Gives the commands their full names, such as board-why.
    board.build();
    let page = match &args.command {
        None => board,
        Some(name) => match board.find_subcommand(name) {
            Some(command) => command.clone(),
            None => {
                let names: Vec<_> = board.get_subcommands().map(Command::get_name).collect();
                let error = Error::new(Kind::Usage, format!("unknown command `{name}`"));
                return Err(error
                    .hint(format!("the commands are {}", names.join(", ")))
                    .into());
            }
        },
    };
    // An empty date would be omitted, and the next field would take its position.
    let source = concat!("board ", env!("CARGO_PKG_VERSION"));
    let mut page = page;
    let usage = page.render_usage().to_string();
    let man = clap_mangen::Man::new(page.clone())
        .date(" ")
        .source(source)
        .manual("board");
    man.render_title(out)?;
    man.render_name_section(out)?;
    as_written(out, "SYNOPSIS", usage.trim_start_matches("Usage:"))?;
    man.render_description_section(out)?;
    if page.get_arguments().any(|argument| !argument.is_hide_set()) {
        man.render_options_section(out)?;
    }
    if page.has_subcommands() {
        man.render_subcommands_section(out)?;
    }
    let more = page.get_after_long_help().or(page.get_after_help());
    if let Some(more) = more {
        let heading = match page.get_name() {
            "board" => "EXIT STATUS",
            "list" => "QUERIES",
            "whatif" => "RULES",
            "demo" => "SCENARIOS",
            "run" => "AGENT FILE",
            "completions" | "man" => "EXAMPLES",
            _ => "NOTES",
        };
        as_written(out, heading, &more.to_string())?;
    }
    Ok(0)
}

/// Writes a section whose lines keep their breaks, because they contain tables and files.
fn as_written(out: &mut dyn Write, heading: &str, text: &str) -> std::io::Result<()> {
    writeln!(out, ".SH \"{heading}\"\n.nf")?;
    for line in text.trim().lines() {
        // A line that begins with a dot or an apostrophe is a command.
        let start = if line.starts_with(['.', '\'']) {
            "\\&"
        } else {
            ""
        };
        let line = line.replace('\\', "\\e").replace('-', "\\-");
        writeln!(out, "{start}{line}")?;
    }
    writeln!(out, ".fi")
}
