//! The `arenagrad` program.
fn main() {}
