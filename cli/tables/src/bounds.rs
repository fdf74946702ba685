//! Bounds of numbers in a table.
//!
//! Invariant: a message names the key or the option, the value and the bounds.

use crate::fault::{KeyRun, key_fault};
use std::fmt::Display;

/// `x`, or a fault of `key` unless `low <= x <= high`.
pub fn within_bounds<T: PartialOrd + Display + Copy>(key: &str, x: T, low: T, high: T) -> KeyRun<T> {
    if x >= low && x <= high {
        return Ok(x);
    }
    Err(key_fault(key, format!("{key} is {x}; it goes from {low} to {high}")))
}
