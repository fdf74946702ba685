//! Numbers of bytes in a configuration.

use bytesize::ByteSize;
use serde::de::{Deserializer, Error, Visitor};
use serde::{Serialize, Serializer};
use std::fmt;

/// Reads a number of bytes, or a text like "64MiB".
pub fn read_byte_size<'de, D: Deserializer<'de>>(from: D) -> Result<Option<ByteSize>, D::Error> {
    from.deserialize_any(ByteSizeVisitor).map(Some)
}

/// Writes the number of bytes; a text like "1.2 MiB" would be rounded. Integers of TOML are `i64`.
pub fn write_byte_size<S: Serializer>(size: &Option<ByteSize>, to: S) -> Result<S::Ok, S::Error> {
    size.map(|s| i64::try_from(s.as_u64()).unwrap_or(i64::MAX)).serialize(to)
}

/// A size in bytes. A size beyond the address space becomes `usize::MAX`.
pub fn byte_size_as_usize(size: ByteSize) -> usize {
    usize::try_from(size.as_u64()).unwrap_or(usize::MAX)
}

struct ByteSizeVisitor;

impl Visitor<'_> for ByteSizeVisitor {
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Serialize, Deserialize)]
    struct Config {
        #[serde(deserialize_with = "read_byte_size", serialize_with = "write_byte_size")]
        size: Option<ByteSize>,
    }

    #[test]
    fn a_size_that_is_written_is_the_size_that_is_read() {
        for bytes in [0, 1_300_000, 5_200_936, 1 << 40] {
            let text = toml::to_string(&Config { size: Some(ByteSize(bytes)) }).unwrap_or_default();
            let config: Result<Config, _> = toml::from_str(&text);
            assert_eq!(config.ok().and_then(|c| c.size), Some(ByteSize(bytes)), "{text}");
        }
    }
}
