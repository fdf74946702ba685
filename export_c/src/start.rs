//! Start values: tables of words, and the statements that copy or fill them into the arena.

use crate::c_text::{CType, c_type, comment, number_of_bits};
use crate::call::pointer;
use arenagrad::graph::DType;
use std::fmt::Write;

/// The most bytes of start values: as text they are three times as long.
const MOST: usize = 64 << 20;

/// The start of all tensors.
#[derive(Default)]
pub struct Start {
    /// Constant arrays.
    pub tables: String,
    /// The body of the function that writes start values.
    pub text: String,
    /// Bytes of the arrays.
    pub bytes: usize,
    count: usize,
}

impl Start {
    /// The start of the tensor at byte `at` of the arena, of elements of type `dtype`.
    pub fn push(&mut self, name: &str, at: usize, dtype: DType, bytes: &[u8]) -> Result<(), String> {
        let (size, CType { tag, .. }) = (dtype.size(), c_type(dtype)?);
        let words: Vec<u64> = bytes.chunks_exact(size).map(little_endian).collect();
        let Some(&first) = words.first() else { return Ok(()) };
        let _ = writeln!(self.text, "    /* {} */", comment(name));
        if words.iter().all(|w| *w == first) {
            let value = number_of_bits(dtype, first)?;
            let _ = writeln!(self.text, "    ag_fill_{tag}({value}, {}, {});", words.len(), pointer(at, tag));
            return Ok(());
        }
        if self.bytes + bytes.len() > MOST {
            return Err(format!("start values of more than {MOST} bytes do not belong into C"));
        }
        let table = format!("start_{}", self.count);
        (self.count, self.bytes) = (self.count + 1, self.bytes + bytes.len());
        let (what, n) = (comment(name), words.len());
        let _ = writeln!(self.tables, "/* {what}, as bits */\nstatic const uint{}_t {table}[{n}] = {{", 8 * size);
        for line in words.chunks(8) {
            let line: Vec<String> = line.iter().map(|w| word(*w, size)).collect();
            let _ = writeln!(self.tables, "    {},", line.join(", "));
        }
        self.tables.push_str("};\n\n");
        // As bytes, because an array of integers may not be read as one of numbers.
        let to = pointer(at, "u8");
        let _ = writeln!(self.text, "    ag_copy((const unsigned char *){table}, {}, {to});", bytes.len());
        Ok(())
    }
}

/// A word of `size` bytes as C.
fn word(w: u64, size: usize) -> String {
    if size == 8 { format!("UINT64_C(0x{w:x})") } else { format!("0x{w:x}u") }
}

fn little_endian(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |w, b| w << 8 | u64::from(*b))
}
