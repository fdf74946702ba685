//! Source positions, for errors and reports.

use std::fmt;

/// The position of a node or of an error in a source file or in a text.
///
/// `S` is how strings are stored: [`String`] in errors and reports, an interned `Sym` in the columns of a
/// graph, whose locations are `Copy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Location<S = String> {
    /// Unknown.
    #[default]
    Nowhere,
    /// A file and a line, from 1.
    Source(S, u32),
    /// A line and a column of a text, both from 1.
    Text(u32, u32),
    /// A node whose line is unknown, as the text form prints it.
    Node(S),
}

impl<S> Location<S> {
    /// The same location with its string converted by `f`.
    pub fn map<T>(self, f: impl FnOnce(S) -> T) -> Location<T> {
        match self {
            Location::Nowhere => Location::Nowhere,
            Location::Source(file, line) => Location::Source(f(file), line),
            Location::Text(line, col) => Location::Text(line, col),
            Location::Node(node) => Location::Node(f(node)),
        }
    }
}

/// The position in words: `src/main.rs:12`, `12:3`, `node n4`, or `no place`.
impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Location::Nowhere => f.write_str("no place"),
            Location::Source(file, line) => write!(f, "{file}:{line}"),
            Location::Text(line, col) => write!(f, "{line}:{col}"),
            Location::Node(n) => write!(f, "node {n}"),
        }
    }
}

impl Location {
    /// The line as text: `src/main.rs:12`, or `line 12:3` for a text. `None` without a line.
    pub fn origin(&self) -> Option<String> {
        match self {
            Location::Source(file, l) => Some(format!("{file}:{l}")),
            Location::Text(l, c) => Some(format!("line {l}:{c}")),
            _ => None,
        }
    }

    /// The same location; one in a text becomes a line of `file`.
    pub fn in_file(self, file: &str) -> Location {
        match self {
            Location::Text(l, _) => Location::Source(file.to_string(), l),
            other => other,
        }
    }
}
