//! The error type of the library: a kind, a message that names the op and the shapes at fault, and a [`Location`].

pub use crate::location::Location;
use std::fmt;
use std::io::ErrorKind;

/// The class of an error. The program `arenagrad` exits with code 1 for [`Kind::Diverged`], [`Kind::Full`] and
/// [`Kind::Memory`], and with 2 for the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// The shapes, dtypes or attributes of an op do not match.
    Shape,
    /// An op has too few or too many operands.
    Arity,
    /// The stage of the graph does not allow the op: see `Stage`.
    Stage,
    /// A name is unknown, used twice, or reserved.
    Name,
    /// Text, a file or a configuration cannot be read.
    Syntax,
    /// The requested derivative does not exist.
    Derivative,
    /// A graph breaks an invariant of the verifier.
    Verify,
    /// A memory plan breaks an invariant of the checker, or no plan fits.
    Plan,
    /// Bad data at run time: an index out of range, a wrong length.
    Data,
    /// A file operation or another system call failed.
    Io,
    /// The disk, or the user's share of it, is full.
    Full,
    /// The system has no memory for the arena.
    Memory,
    /// The loss of a training run is NaN or infinite, or a value of a step that looks for NaN.
    Diverged,
}

/// An error: its class, its message and its location.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The class.
    pub kind: Kind,
    /// One sentence that names the op, the shapes and the values at fault.
    pub message: String,
    /// The user's line, or the node at fault.
    pub location: Location,
}

/// A result with [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error without a location.
    pub fn new(kind: Kind, message: impl Into<String>) -> Error {
        Error { kind, message: message.into(), location: Location::Nowhere }
    }

    /// The same error at `location`, unless it has a location already.
    pub fn at(mut self, location: Location) -> Error {
        if self.location == Location::Nowhere {
            self.location = location;
        }
        self
    }

    /// The same error with `what: ` before its message.
    pub fn context(mut self, what: impl fmt::Display) -> Error {
        self.message = format!("{what}: {}", self.message);
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.location {
            Location::Nowhere => write!(f, "{}", self.message),
            Location::Source(file, line) => write!(f, "{}, at {file}:{line}", self.message),
            Location::Text(line, col) => write!(f, "{line}:{col}: {}", self.message),
            Location::Node(n) => write!(f, "{}, at {n}", self.message),
        }
    }
}

impl std::error::Error for Error {}

impl From<std::io::Error> for Error {
    fn from(e: std::io::Error) -> Error {
        let kind = match e.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Kind::Full,
            _ => Kind::Io,
        };
        Error::new(kind, e.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_keeps_its_first_location() {
        let e = Error::new(Kind::Data, "bad").at(Location::Text(2, 3));
        assert_eq!((&e.location, e.to_string()), (&Location::Text(2, 3), "2:3: bad".to_string()));
        assert_eq!(e.clone().at(Location::Node("n1".to_string())), e);
        assert_eq!(e.context("row 4").to_string(), "2:3: row 4: bad");
    }
}
