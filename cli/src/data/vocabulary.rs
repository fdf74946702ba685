//! The characters that a model knows.
//!
//! Invariant: they are sorted, and each token is an index into them.

use crate::fail::{Run, fail_bad_input};

/// Largest number of different characters. A file with more is not a text.
pub const LIMIT: usize = 1 << 16;

/// The characters that a model knows, sorted. A token is an index into them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vocabulary(Vec<char>);

impl Vocabulary {
    /// The characters of a text.
    pub fn of(text: &str) -> Vocabulary {
        let set: std::collections::BTreeSet<char> = text.chars().collect();
        Vocabulary(set.into_iter().collect())
    }

    /// Reads what [`Vocabulary::to_json`] wrote.
    pub fn from_json(text: &str) -> Result<Vocabulary, String> {
        let all: String = serde_json::from_str(text).map_err(|e| e.to_string())?;
        let v = Vocabulary(all.chars().collect());
        let sorted = v.0.windows(2).all(|w| w[0] < w[1]);
        if sorted && !v.0.is_empty() && v.0.len() <= LIMIT { Ok(v) } else { Err("not a sorted alphabet".into()) }
    }

    /// All characters as one JSON string.
    pub fn to_json(&self) -> Run<String> {
        serde_json::to_string(&self.0.iter().collect::<String>()).map_err(fail_bad_input)
    }

    /// Number of characters.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The tokens of a text. An error names the first unknown character.
    pub fn encode(&self, text: &str) -> Result<Vec<i32>, String> {
        let token = |(i, c): (usize, char)| {
            let found = self.0.binary_search(&c).map(|t| t as i32);
            found.map_err(|_| format!("character {i}, {c:?}, is not in the vocabulary of {} characters", self.len()))
        };
        text.chars().enumerate().map(token).collect()
    }

    /// The character of a token; U+FFFD if there is none.
    pub fn char(&self, token: usize) -> char {
        self.0.get(token).copied().unwrap_or(char::REPLACEMENT_CHARACTER)
    }
}
