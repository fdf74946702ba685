//! The header of a file: its size limit, repeated names, and the constructor of errors about checkpoints.

use crate::error::{Error, Kind};
use std::borrow::Cow;
use std::ops::Range;

/// Largest header of a file, in bytes.
pub const HEADER_LIMIT: u64 = 16 << 20;

/// An error of kind [`Kind::Data`].
pub(super) fn bad_checkpoint_header(message: impl Into<String>) -> Error {
    Error::new(Kind::Data, message)
}

/// A key that the valid JSON object `header` repeats, if any. The parser keeps the last of equal keys and drops the
/// others without notice. Escapes are resolved before keys are compared: a name may be spelled in several ways.
pub(super) fn repeated_header_key(header: &[u8]) -> Option<String> {
    let (mut depth, mut at, mut keys) = (0, 0, Vec::new());
    // With its quotes.
    let mut last: Range<usize> = 0..0;
    while let Some(&c) = header.get(at) {
        match c {
            b'"' => {
                let start = at;
                at += 1;
                while header.get(at).is_some_and(|&c| c != b'"') {
                    at += 1 + usize::from(header[at] == b'\\');
                }
                last = start..(at + 1).min(header.len());
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth -= 1,
            b':' if depth == 1 => keys.push(unescaped_header_key(&header[last.clone()])),
            _ => {}
        }
        at += 1;
    }
    keys.sort_unstable();
    let twice = keys.windows(2).find(|w| w[0] == w[1])?;
    Some(String::from_utf8_lossy(&twice[0]).trim_matches('"').to_string())
}

/// A JSON string without its escapes, in quotes.
fn unescaped_header_key(raw: &[u8]) -> Cow<'_, [u8]> {
    match raw.contains(&b'\\').then(|| serde_json::from_slice::<String>(raw)) {
        Some(Ok(name)) => Cow::Owned(format!("\"{name}\"").into_bytes()),
        _ => Cow::Borrowed(raw),
    }
}
