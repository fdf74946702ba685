//! The targets of `arenagrad-fuzz` as libFuzzer runs them.

pub use arenagrad_fuzz;
pub use libfuzzer_sys;

/// The body of a target's file: runs the target called `$name`.
#[macro_export]
macro_rules! libfuzzer_target {
    ($name:literal) => {
        $crate::libfuzzer_sys::fuzz_target!(|data: &[u8]| $crate::arenagrad_fuzz::targets::run_named($name, data));
    };
}
