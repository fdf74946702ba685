//! Bounds of numbers in a configuration.
//!
//! Invariant: a message names the key or the option, the value and the bounds.

use super::fault::{KeyFault, KeyRun, key_fault, option_fault};
use arenagrad_tables::bounds;
use std::fmt::Display;

/// Largest number of steps.
pub const STEP_LIMIT: u64 = 1 << 32;
/// Largest batch, number of channels, width or context. A larger number is a mistake.
pub const SIZE_LIMIT: usize = 1 << 16;

/// `x`, or a fault of `key` unless `low <= x <= high`. A name that begins with `--` is that of an option.
pub fn within_bounds<T: PartialOrd + Display + Copy>(key: &str, x: T, low: T, high: T) -> KeyRun<T> {
    Ok(bounds::within_bounds(key, x, low, high)?)
}

/// A fault of `name`, which is an option if it begins with `--`, else a key.
pub fn fault_of_bounds(name: &str, message: impl Display) -> KeyFault {
    if name.starts_with("--") { option_fault(message) } else { key_fault(name, message) }
}
