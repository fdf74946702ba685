//! The target `gemm` of `arenagrad-fuzz`.

#![no_main]

arenagrad_libfuzzer::libfuzzer_target!("gemm");
