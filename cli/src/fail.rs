//! Failures of commands: an exit code and a message.

use arenagrad::error::{Error, Kind, Location};
use std::fmt::Display;
use std::path::Path;

/// Why a command failed.
#[derive(Clone, Debug, PartialEq)]
pub struct Fail {
    /// The exit code: 1 or 2.
    pub code: u8,
    /// The line for standard error.
    pub message: String,
}

/// The result of a command, or of a part of one.
pub type Run<T = ()> = Result<T, Fail>;

/// A failure with exit code 2: the input is bad.
pub fn fail_bad_input(message: impl Display) -> Fail {
    Fail { code: 2, message: message.to_string() }
}

/// A failure with exit code 1: the input is good, but what it asks for does not hold.
pub fn fail_expectation(message: impl Display) -> Fail {
    Fail { code: 1, message: message.to_string() }
}

impl From<Error> for Fail {
    fn from(e: Error) -> Fail {
        fail_with_exit_code(e.kind, e)
    }
}

/// A failure with the exit code of `kind`.
fn fail_with_exit_code(kind: Kind, message: impl Display) -> Fail {
    match kind {
        Kind::Diverged | Kind::Full | Kind::Memory => fail_expectation(message),
        _ => fail_bad_input(message),
    }
}

/// The failure `file:line:col: message` of an error in the text of `file`.
pub fn fail_in_text(file: &Path, e: &Error) -> Fail {
    match e.location {
        Location::Text(line, col) => {
            fail_with_exit_code(e.kind, format!("{}:{line}:{col}: {}", file.display(), e.message))
        }
        _ => fail_with_exit_code(e.kind, format!("{}: {e}", file.display())),
    }
}

/// Turns an error of the operating system into a failure that names the file.
pub fn fail_io(path: &Path) -> impl Fn(std::io::Error) -> Fail {
    move |e| Error::from(e).context(path.display()).into()
}
