//! Numbers of bytes in a configuration.

use bytesize::ByteSize;
use serde::de::{Deserializer, Error, Visitor};
use std::fmt;

/// Reads a number of bytes, or a text like "64MiB".
pub fn read_byte_size<'de, D: Deserializer<'de>>(from: D) -> Result<Option<ByteSize>, D::Error> {
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
