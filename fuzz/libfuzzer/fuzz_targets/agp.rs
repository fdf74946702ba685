//! The target `agp` of `arenagrad-fuzz`.

#![no_main]

arenagrad_libfuzzer::libfuzzer_target!("agp");
