//! A file that is read from its start, with its length known.
//!
//! Invariant: a length is compared with the rest of the file, and with the limit of a head, before memory is taken for
//! it. The number of strings is limited, too. Errors name the byte.

use super::bad_gguf;
use crate::error::{Error, Result};
use std::io::{ErrorKind, Read};

/// A reader, its position, and the length of the file.
pub struct Cursor<R> {
    from: R,
    at: u64,
    len: u64,
    /// Strings that were read.
    texts: u64,
}

/// Largest head of a file, in bytes: all that is before the tensors' data.
pub const HEADER_LIMIT: u64 = 256 << 20;
/// The most strings of a head: each takes more memory than its bytes in the file.
pub const MOST_TEXTS: u64 = 4 << 20;

impl<R: Read> Cursor<R> {
    /// At the start of a file of `len` bytes.
    pub fn new(from: R, len: u64) -> Cursor<R> {
        Cursor { from, at: 0, len, texts: 0 }
    }

    /// The position.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// Bytes that follow.
    pub fn left(&self) -> u64 {
        self.len - self.at
    }

    /// An error at this position.
    pub fn error(&self, message: impl std::fmt::Display) -> Error {
        bad_gguf(format!("byte {}: {message}", self.at))
    }

    /// Requires that `count` things of at least `each` bytes can follow, and gives `count` as a `usize`.
    pub fn fits(&self, count: u64, each: u64, what: &str) -> Result<usize> {
        let most = self.left().min(HEADER_LIMIT.saturating_sub(self.at)) / each;
        match usize::try_from(count) {
            Ok(n) if count <= most => Ok(n),
            _ => Err(self.error(format!("{count} {what}; at most {most} can follow"))),
        }
    }

    fn fill(&mut self, into: &mut [u8]) -> Result<()> {
        self.from.read_exact(into).map_err(|e| match e.kind() {
            ErrorKind::UnexpectedEof => self.error("the file has become shorter"),
            _ => Error::from(e),
        })?;
        self.at += into.len() as u64;
        Ok(())
    }

    /// The next `N` bytes.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        self.fits(N as u64, 1, "bytes are needed")?;
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    /// The next `len` bytes.
    pub fn bytes(&mut self, len: u64, what: &str) -> Result<Vec<u8>> {
        let mut bytes = vec![0; self.fits(len, 1, what)?];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    /// The next `u32`.
    pub fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// The next `u64`.
    pub fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// The next string: its length, then its bytes, which should be UTF-8.
    pub fn text(&mut self, what: &str) -> Result<Vec<u8>> {
        self.texts += 1;
        if self.texts > MOST_TEXTS {
            return Err(self.error(format!("more than {MOST_TEXTS} texts")));
        }
        let len = self.u64()?;
        self.bytes(len, what)
    }

    /// The next string as a key or a name: bytes that are not UTF-8 are escaped.
    pub fn name(&mut self, what: &str) -> Result<String> {
        String::from_utf8(self.text(what)?).or_else(|e| Ok(escaped_gguf_text(e.as_bytes())))
    }
}

/// A text whose bytes that are not UTF-8 are escapes, such as `\xff`.
pub(super) fn escaped_gguf_text(bytes: &[u8]) -> String {
    let mut text = String::new();
    for part in bytes.utf8_chunks() {
        text.push_str(part.valid());
        part.invalid().iter().for_each(|b| text.push_str(&format!("\\x{b:02x}")));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_bounds_what_is_read() {
        let mut c = Cursor::new(&[1u8, 0, 0, 0, 9, 9][..], 6);
        assert_eq!((c.left(), c.u32().unwrap(), c.at(), c.left()), (6, 1, 4, 2));
        let e = c.u32().unwrap_err().message;
        assert!(e.contains("byte 4: 4 bytes are needed; at most 2 can follow"), "{e}");
        let e = c.bytes(3, "things").unwrap_err().message;
        assert!(e.contains("byte 4: 3 things; at most 2 can follow"), "{e}");
        assert_eq!((c.bytes(2, "things").unwrap(), c.left()), (vec![9, 9], 0));
    }

    #[test]
    fn counts_are_bounded_by_the_rest_and_by_the_longest_head() {
        let of = |c: &Cursor<&[u8]>, count, each| c.fits(count, each, "things").map_err(|e| e.message);
        let c = Cursor::new(&b""[..], 10);
        assert_eq!(of(&c, 3, 3), Ok(3));
        assert_eq!(of(&c, 4, 3), Err("byte 0: 4 things; at most 3 can follow".into()));
        let mut c = Cursor::new(&[0u8; 8][..], u64::MAX);
        assert_eq!(c.u64().unwrap(), 0);
        assert_eq!(of(&c, HEADER_LIMIT - 8, 1), Ok(268_435_448));
        assert_eq!(of(&c, HEADER_LIMIT - 7, 1), Err("byte 8: 268435449 things; at most 268435448 can follow".into()));
    }

    #[test]
    fn a_name_that_is_not_utf8_is_escaped() {
        let file = [&4u64.to_le_bytes()[..], b"a\xc3\xff\xc3"].concat();
        assert_eq!(Cursor::new(&file[..], 12).name("bytes of a name").unwrap(), "a\\xc3\\xff\\xc3");
        assert_eq!(escaped_gguf_text("ü".as_bytes()), "ü");
    }
}
