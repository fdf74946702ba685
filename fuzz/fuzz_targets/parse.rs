//! Any text is a sound graph that prints back, or it has errors with places. Seeds: `tests/filetests`.

#![no_main]

use arenagrad::tools::testing::check_text;

libfuzzer_sys::fuzz_target!(|text: &str| check_text(text));
