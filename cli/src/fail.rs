//! How a command ends: well, with 1 (what was asked for did not hold), or with 2 (bad input).
//!
//! Invariant: a failure is one line. For all of the program.

use arenagrad::error::{Error, Kind, Location};
use std::fmt::Display;
use std::path::Path;

/// Why a command ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Fail {
    /// Exit code.
    pub code: u8,
    /// The line for standard error.
    pub message: String,
}

/// What a command returns.
pub type Run<T = ()> = Result<T, Fail>;

/// The input is bad: exit code 2.
pub fn bad(message: impl Display) -> Fail {
    Fail { code: 2, message: message.to_string() }
}

/// The input is fine, but what was asked for does not hold: exit code 1.
pub fn expectation_failed(message: impl Display) -> Fail {
    Fail { code: 1, message: message.to_string() }
}

impl From<Error> for Fail {
    fn from(e: Error) -> Fail {
        match e.kind {
            Kind::Diverged => expectation_failed(e),
            _ => bad(e),
        }
    }
}

/// `e`, which a text in `file` caused: `file:line:col: message`.
pub fn in_text(file: &Path, e: &Error) -> Fail {
    match e.location {
        Location::Text(line, col) => bad(format!("{}:{line}:{col}: {}", file.display(), e.message)),
        _ => bad(format!("{}: {e}", file.display())),
    }
}

/// Adds the file's name to an operating system's error.
pub fn io(path: &Path) -> impl Fn(std::io::Error) -> Fail {
    move |e| bad(format!("{}: {e}", path.display()))
}
