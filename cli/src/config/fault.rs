//! Faults of a configuration: the message, and the key or option at fault.
//!
//! Invariant: a message says what was expected, in terms of the file format.

use crate::fail::{Fail, fail_bad_input};
use arenagrad_tables::toml_positions::TomlPositions;
use std::fmt::Display;
use std::path::Path;

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq)]
enum Origin {
    /// A key, as `optimiser.group[0].lr_scale`.
    Key(String),
    /// An option of the command line.
    CommandLine,
    /// Neither: a path that cannot be read, for instance.
    Other,
}

/// Why a configuration is refused.
#[derive(Debug, Clone, PartialEq)]
pub struct KeyFault {
    origin: Origin,
    fail: Fail,
}

/// The result of reading a part of a configuration.
pub type KeyRun<T = ()> = Result<T, KeyFault>;

/// A fault of the value at `key`. The message names the key.
pub fn key_fault(key: impl Display, message: impl Display) -> KeyFault {
    KeyFault { origin: Origin::Key(key.to_string()), fail: fail_bad_input(message) }
}

/// A fault of an option of the command line.
pub fn option_fault(message: impl Display) -> KeyFault {
    KeyFault { origin: Origin::CommandLine, fail: fail_bad_input(message) }
}

impl From<arenagrad_tables::fault::KeyFault> for KeyFault {
    fn from(fault: arenagrad_tables::fault::KeyFault) -> KeyFault {
        if fault.key.starts_with("--") { option_fault(fault.message) } else { key_fault(fault.key, fault.message) }
    }
}

impl From<Fail> for KeyFault {
    fn from(fail: Fail) -> KeyFault {
        KeyFault { origin: Origin::Other, fail }
    }
}

impl From<KeyFault> for Fail {
    fn from(fault: KeyFault) -> Fail {
        fault.fail
    }
}

impl KeyFault {
    /// The failure of a run whose configuration is the `text` of `file`. It names file and line.
    pub fn in_file(self, file: &Path, text: &str) -> Fail {
        let place = match &self.origin {
            Origin::CommandLine => return self.fail,
            Origin::Other => String::new(),
            Origin::Key(key) => TomlPositions::new(text).line(key).map_or(String::new(), |line| format!(":{line}")),
        };
        Fail { message: format!("{}{place}: {}", file.display(), self.fail.message), ..self.fail }
    }
}
