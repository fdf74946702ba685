//! Faults of a table: the message, and the key at fault.
//!
//! Invariant: a message says what was expected, in terms of the table.

use arenagrad::error::Error;
use std::fmt::Display;

/// Why a table is refused.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct KeyFault {
    /// The path of the key, as `optimiser.group[0].lr_scale`.
    pub key: String,
    /// The message, which names the key.
    pub message: String,
}

/// The result of reading a table.
pub type KeyRun<T = ()> = Result<T, KeyFault>;

/// A fault of the value at `key`. The message names the key.
pub fn key_fault(key: impl Display, message: impl Display) -> KeyFault {
    KeyFault { key: key.to_string(), message: message.to_string() }
}

/// The fault `e` of the table `at`, of which `given` are the keys: of the first key that the error names, or of the
/// table.
pub fn table_fault(at: &str, given: &[String], e: &Error) -> KeyFault {
    let names = |key: &&String| {
        [" is ", " are ", ": "].iter().any(|after| e.message.contains(&format!("{key}{after}")))
            // The library counts the elements of pairs: beta1 and beta2 are those of `betas`.
            || *key == "betas" && e.message.contains("beta")
    };
    let key = given.iter().find(names);
    let path = key.map_or(at.to_string(), |key| format!("{at}.{key}"));
    let message = e.message.strip_prefix("schedule: ").unwrap_or(&e.message);
    key_fault(&path, format!("{path}: {message}"))
}
