//! Lists of a given length. A longer list is refused: the parser of TOML alone would drop the rest.

use serde::de::{Deserialize, Deserializer, Error};

/// Reads a list of N numbers.
fn read_number_list<'de, const N: usize, D: Deserializer<'de>>(from: D) -> Result<[f64; N], D::Error> {
    let all = Vec::<f64>::deserialize(from)?;
    let wrong =
        |all: Vec<f64>| D::Error::custom(format!("a list of {} numbers, expected a list of {N} numbers", all.len()));
    all.try_into().map_err(wrong)
}

/// Reads a list of 2 numbers.
pub fn read_number_pair_list<'de, D: Deserializer<'de>>(from: D) -> Result<Option<(f64, f64)>, D::Error> {
    read_number_list(from).map(|[a, b]| Some((a, b)))
}

/// Reads a list of 3 numbers.
pub fn read_number_triple_list<'de, D: Deserializer<'de>>(from: D) -> Result<Option<(f64, f64, f64)>, D::Error> {
    read_number_list(from).map(|[a, b, c]| Some((a, b, c)))
}
