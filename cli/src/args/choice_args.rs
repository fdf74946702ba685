//! Choices of a session, by their names.

use arenagrad::Precision;
use arenagrad::session::{Convolutions, Keep};

/// The choice called `name`, of `all`, or their names: `it may be f32, bf16`.
pub fn choice_of<T: Copy>(all: &[(T, &str)], name: &str) -> Result<T, String> {
    let found = all.iter().find(|c| c.1 == name).map(|c| c.0);
    found.ok_or_else(|| format!("it may be {}", all.iter().map(|c| c.1).collect::<Vec<_>>().join(", ")))
}

/// Parses the name of a precision.
pub fn precision_arg(name: &str) -> Result<Precision, String> {
    choice_of(Precision::ALL, name)
}

/// Parses the name of a way of computing convolutions.
pub fn convolutions_arg(name: &str) -> Result<Convolutions, String> {
    choice_of(Convolutions::ALL, name)
}

/// Parses the name of a type in which values are kept.
pub fn keep_arg(name: &str) -> Result<Keep, String> {
    choice_of(Keep::ALL, name)
}
