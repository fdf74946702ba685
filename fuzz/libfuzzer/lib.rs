//! The targets of `arenagrad-fuzz` as libFuzzer runs them.

/// The body of a target's file: runs the target called `$name`.
#[macro_export]
macro_rules! libfuzzer_target {
    ($name:literal) => {
        libfuzzer_sys::fuzz_target!(|data: &[u8]| arenagrad_fuzz::targets::run_named($name, data));
    };
}
