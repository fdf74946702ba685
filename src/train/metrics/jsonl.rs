//! Lines of JSON.
//!
//! Invariant: a line is one write, its newline included, so a reader of complete lines sees all of it or nothing.

use std::fmt::Write as _;
use std::io::Write;

/// A writer of JSON lines: one object in each line.
pub struct Jsonl<W> {
    out: W,
    line: String,
}

impl<W: Write> Jsonl<W> {
    /// Writes to `out`.
    pub fn new(out: W) -> Jsonl<W> {
        Jsonl { out, line: String::with_capacity(256) }
    }

    /// Writes a line: integers first, then floats. NaN and infinities become `null`.
    pub fn write(&mut self, whole: &[(&str, u64)], fractions: &[(&str, f64)]) -> std::io::Result<()> {
        self.line.clear();
        let mut sep = '{';
        // Writing to a string cannot fail.
        for (key, x) in whole {
            let _ = write!(self.line, "{sep}\"{key}\":{x}");
            sep = ',';
        }
        for (key, x) in fractions {
            let _ = match x.is_finite() {
                true => write!(self.line, "{sep}\"{key}\":{x}"),
                false => write!(self.line, "{sep}\"{key}\":null"),
            };
            sep = ',';
        }
        self.line.push_str("}\n");
        self.out.write_all(self.line.as_bytes())
    }

    /// The underlying writer.
    pub fn get_ref(&self) -> &W {
        &self.out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_json_and_hold_null_for_what_is_no_number() {
        let mut out = Vec::new();
        let mut j = Jsonl::new(&mut out);
        j.write(&[("step", 3)], &[("loss", 0.5), ("lr", f64::NAN)]).unwrap();
        j.write(&[], &[("loss", 1e-300)]).unwrap();
        let text = String::from_utf8(out).unwrap();
        let tiny = 1e-300;
        assert_eq!(text, format!("{{\"step\":3,\"loss\":0.5,\"lr\":null}}\n{{\"loss\":{tiny}}}\n"));
    }
}
