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
                let error = Error::new(Kind::Usage, format!("unknown command {name}"));
                return Err(error
                    .hint(format!("the commands are {}", names.join(", ")))
                    .into());
            }
        },
    };
    // An empty date would be omitted, and the next field would take its position.
    let source = concat!("board ", env!("CARGO_PKG_VERSION"));
    clap_mangen::Man::new(page)
        .date(" ")
        .source(source)
        .manual("board")
        .render(out)?;
    Ok(0)
}
