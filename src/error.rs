//! The one error type: what went wrong, on which op, with which shapes, and where.

use std::fmt;

/// What class of thing went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// An op's operands or attributes do not fit each other.
    Shape,
    /// An op has too few or too many operands.
    Arity,
    /// An op stands where its stage of compilation is past, or not yet reached.
    Stage,
    /// A name is unknown, used twice, or reserved.
    Name,
    /// Text, a file or a configuration cannot be read.
    Syntax,
    /// A derivative was asked for that does not exist.
    Derivative,
    /// A graph breaks one of the verifier's promises.
    Verify,
    /// A memory plan breaks one of the checker's promises, or cannot be made.
    Plan,
    /// Data met at run time is bad: an index out of range, a wrong length.
    Data,
    /// The operating system refused.
    Io,
    /// The loss of a training run is no number any more.
    Diverged,
}

/// Where the cause lies.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Place {
    /// Unknown.
    #[default]
    Nowhere,
    /// A line of the user's source.
    Source(String, u32),
    /// A line and a column of a text.
    Text(u32, u32),
    /// A node, as the text form names it.
    Node(String),
}

impl Place {
    /// The line, for people: `src/main.rs:12`, or `line 12:3` of a text; none where there is no line.
    pub fn origin(&self) -> Option<String> {
        match self {
            Place::Source(file, l) => Some(format!("{file}:{l}")),
            Place::Text(l, c) => Some(format!("line {l}:{c}")),
            _ => None,
        }
    }

    /// The same place; if it is in a text, in the one that `file` holds.
    pub fn in_file(self, file: &str) -> Place {
        match self {
            Place::Text(l, _) => Place::Source(file.to_string(), l),
            other => other,
        }
    }
}

/// An error with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The class.
    pub kind: Kind,
    /// One sentence that names the op, the shapes and the values at fault.
    pub message: String,
    /// Where.
    pub place: Place,
}

/// A result with [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error without a place.
    pub fn new(kind: Kind, message: impl Into<String>) -> Error {
        Error { kind, message: message.into(), place: Place::Nowhere }
    }

    /// The same error at `place`, unless it has one already.
    pub fn at(mut self, place: Place) -> Error {
        if self.place == Place::Nowhere {
            self.place = place;
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
        match &self.place {
            Place::Nowhere => write!(f, "{}", self.message),
            Place::Source(file, line) => write!(f, "{}, at {file}:{line}", self.message),
            Place::Text(line, col) => write!(f, "{line}:{col}: {}", self.message),
            Place::Node(n) => write!(f, "{}, at {n}", self.message),
        }
    }
}

impl std::error::Error for Error {}

impl From<std::io::Error> for Error {
    fn from(e: std::io::Error) -> Error {
        Error::new(Kind::Io, e.to_string())
    }
}
