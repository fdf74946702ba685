//! The error type of the library: a kind, a message that names the op and the shapes at fault, and a [`Location`].

pub use crate::location::Location;
use std::fmt;
use std::io::{self, ErrorKind};
use std::sync::Arc;

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

/// An error: its class, its message and its location. An error of the file system is its
/// [`source`](std::error::Error::source).
///
/// ```
/// use std::{error::Error as _, io};
/// let e = arenagrad::tools::ir::text::parse("graph").unwrap_err();
/// assert!(e.source().is_none());
/// let e = arenagrad::Error::from(io::Error::from(io::ErrorKind::NotFound));
/// let source = e.source().and_then(|s| s.downcast_ref::<io::Error>()).map(io::Error::kind);
/// assert_eq!(source, Some(io::ErrorKind::NotFound));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Error {
    /// The class.
    pub kind: Kind,
    /// One sentence that names the op, the shapes and the values at fault.
    pub message: String,
    /// The user's line, or the node at fault.
    pub location: Location,
    pub(crate) source: Option<Source>,
}

/// The error of the system that caused this one. Two are equal if their kinds are.
#[derive(Clone, Debug)]
pub(crate) struct Source(Arc<io::Error>);

impl PartialEq for Source {
    fn eq(&self, other: &Source) -> bool {
        self.0.kind() == other.0.kind()
    }
}

impl Eq for Source {}

/// A result with [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error without a location.
    pub fn new(kind: Kind, message: impl Into<String>) -> Error {
        Error { kind, message: message.into(), location: Location::Nowhere, source: None }
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

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|s| &*s.0 as _)
    }
}

impl From<io::Error> for Error {
    fn from(e: io::Error) -> Error {
        let kind = match e.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Kind::Full,
            _ => Kind::Io,
        };
        let text = e.to_string();
        Error { source: Some(Source(Arc::new(e))), ..Error::new(kind, text) }
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

    #[test]
    fn the_error_of_the_system_is_the_source() {
        use std::error::Error as _;
        let e = Error::from(io::Error::from(ErrorKind::PermissionDenied)).context("weights").at(Location::Text(1, 1));
        let source = e.source().and_then(|s| s.downcast_ref::<io::Error>()).map(io::Error::kind);
        assert_eq!((e.kind, source), (Kind::Io, Some(ErrorKind::PermissionDenied)));
        assert_ne!(e, Error { source: None, ..e.clone() });
    }
}
