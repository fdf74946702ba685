//! The size limit of a file's header, and the constructor of errors about checkpoints.

use crate::error::{Error, Kind};

/// Largest header of a file, in bytes.
pub const HEADER_LIMIT: u64 = 16 << 20;

/// An error of kind [`Kind::Data`].
pub(super) fn bad_checkpoint(message: impl Into<String>) -> Error {
    Error::new(Kind::Data, message)
}
