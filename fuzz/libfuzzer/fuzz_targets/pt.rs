//! The target `pt` of `arenagrad-fuzz`.

#![no_main]

arenagrad_libfuzzer::libfuzzer_target!("pt");
