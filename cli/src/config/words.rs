//! Error messages of the TOML parser, in terms of the file format.
//!
//! Invariant: no message names a Rust type.

use bytesize::ByteSize;
use serde::de::{Deserializer, Error, Visitor};
use std::fmt;

/// Phrases of the parser, and the phrases that replace them.
const WORDS: [(&str, &str); 13] = [
    ("expected usize", "expected a whole number from 0"),
    ("expected u64", "expected a whole number from 0"),
    ("expected i64", "expected a whole number"),
    ("expected f64", "expected a number"),
    ("expected a boolean", "expected true or false"),
    ("expected path string", "expected a path in quotes"),
    ("expected a string", "expected a text in quotes"),
    ("wanted string or table", "expected a name in quotes"),
    ("expected a tuple of size 2", "expected a list of 2 numbers"),
    ("expected a tuple of size 3", "expected a list of 3 numbers"),
    ("expected a sequence", "expected a list"),
    ("expected struct", "expected the table"),
    (" as i128", ""),
];

/// The parser's message as one line, with its phrases replaced.
pub fn plain_words(message: &str) -> String {
    let line = message.replace('\n', "; ");
    WORDS.iter().fold(line, |line, (theirs, ours)| line.replace(theirs, ours))
}

/// Reads a number of bytes, or a text like "64MiB".
pub fn size<'de, D: Deserializer<'de>>(from: D) -> Result<Option<ByteSize>, D::Error> {
    from.deserialize_any(Size).map(Some)
}

struct Size;

impl Visitor<'_> for Size {
    type Value = ByteSize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number of bytes, or a size like \"64MiB\"")
    }

    fn visit_i64<E: Error>(self, n: i64) -> Result<ByteSize, E> {
        u64::try_from(n).map(ByteSize).map_err(|_| E::custom(format!("a size of {n} bytes is negative")))
    }

    fn visit_u64<E: Error>(self, n: u64) -> Result<ByteSize, E> {
        Ok(ByteSize(n))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<ByteSize, E> {
        text.parse().map_err(|_| E::custom(format!("{text:?} is no size; one is like \"64MiB\"")))
    }
}
