//! The process of the program `arenagrad`; see `lib.rs`.

use arenagrad_cli::CountingAllocator;
use std::process::ExitCode;

#[global_allocator]
static GLOBAL: CountingAllocator = CountingAllocator;

fn main() -> ExitCode {
    arenagrad_cli::run_arenagrad()
}
