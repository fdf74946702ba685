//! The target `adapters` of `arenagrad-fuzz`.

#![no_main]

arenagrad_libfuzzer::libfuzzer_target!("adapters");
