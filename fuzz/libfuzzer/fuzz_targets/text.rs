//! The target `text` of `arenagrad-fuzz`.

#![no_main]

arenagrad_libfuzzer::libfuzzer_target!("text");
