//! Numbers that the readers of tables do not take as they are: lists of a given length, of which the parser of TOML
//! alone would drop the rest, and infinity, which JSON has not.

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

/// Reads the order of a norm: a number, which may be the text `inf`.
pub fn read_norm_order<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
    #[derive(serde::Deserialize)]
    #[serde(untagged, expecting = "a norm is of an order that is a number or inf")]
    enum Given {
        Number(f64),
        Word(Word),
    }
    #[derive(serde::Deserialize)]
    enum Word {
        #[serde(rename = "inf")]
        Inf,
    }
    Ok(Option::<Given>::deserialize(from)?.map(|given| match given {
        Given::Number(x) => x,
        Given::Word(Word::Inf) => f64::INFINITY,
    }))
}
