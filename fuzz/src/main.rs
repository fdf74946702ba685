//! The program that runs fuzz targets; see `docs/fuzzing.md`.

use std::process::ExitCode;

fn main() -> ExitCode {
    arenagrad_fuzz::run_fuzz()
}
