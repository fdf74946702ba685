//! The process of the program `arenagrad`; see `lib.rs`.

use std::process::ExitCode;

fn main() -> ExitCode {
    arenagrad_cli::run_arenagrad()
}
