//! Any text parses to a valid graph that prints back to itself, or gives errors with locations. Seeds:
//! `tests/filetests`.

#![no_main]

use arenagrad::tools::testing::check_random_text;

libfuzzer_sys::fuzz_target!(|text: &str| check_random_text(text));
