//! Error messages of the TOML parser, in terms of the file format.
//!
//! Invariant: no message names a Rust type.

/// Phrases of the parser, and the phrases that replace them.
const WORDS: [(&str, &str); 17] = [
    ("expected usize", "expected a whole number from 0"),
    ("invalid type: sequence", "invalid type: list"),
    ("invalid type: map", "invalid type: table"),
    ("unknown field `$__toml_private_datetime`, expected one of", "invalid type: date, expected a table of"),
    ("unknown field", "unknown key"),
    ("unknown variant", "unknown name"),
    ("expected u32", "expected a whole number from 0"),
    ("expected u64", "expected a whole number from 0"),
    ("expected i64", "expected a whole number"),
    ("expected f64", "expected a number"),
    ("expected a boolean", "expected true or false"),
    ("expected path string", "expected a path in quotes"),
    ("expected a string", "expected a text in quotes"),
    ("wanted string or table", "expected a name in quotes"),
    ("expected a sequence", "expected a list"),
    ("expected struct", "expected the table"),
    (" as i128", ""),
];

/// The parser's message as one line, with its phrases replaced.
pub fn plain_words(message: &str) -> String {
    let line = message.replace('\n', "; ");
    WORDS.iter().fold(line, |line, (theirs, ours)| line.replace(theirs, ours))
}
