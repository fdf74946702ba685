//! Bounds of numbers in a configuration.
//!
//! Invariant: a message names the key, the value and the bounds.

use crate::fail::{Run, fail_bad_input};
use std::fmt::Display;

/// Largest number of steps.
pub const STEP_LIMIT: u64 = 1 << 32;
/// Largest batch, number of channels, width or context. A larger number is a mistake.
pub const SIZE_LIMIT: usize = 1 << 16;

/// `x`, or an error that names `key` unless `low <= x <= high`.
pub fn within_bounds<T: PartialOrd + Display + Copy>(key: &str, x: T, low: T, high: T) -> Run<T> {
    if x >= low && x <= high {
        Ok(x)
    } else {
        Err(fail_bad_input(format!("{key} is {x}; it goes from {low} to {high}")))
    }
}
