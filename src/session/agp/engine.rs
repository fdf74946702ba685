//! Which engine wrote a file, for the reader that compares, and for the error that tells.

use super::fields::{Done, Fields, Record};
use crate::kernels::gemm::bf16_engine;
use crate::kernels::simd::isa;
use crate::nodes::ops::table::OPS;

/// What the record of a method has: a file with other fields is of another engine.
const FIELDS: &[u8] = b"placements tapes products convolutions recomputed kept";

/// See the file's head.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EngineRecord {
    /// The engine's version.
    version: String,
    /// A CRC-32 of the names of its ops and of their attributes, and of [`FIELDS`].
    ops: u64,
    /// The instruction set, and how bf16 products are computed.
    instructions: String,
}

impl Record for EngineRecord {
    fn fields(&mut self, f: &mut dyn Fields) -> Done {
        f.text(&mut self.version)?;
        f.long(&mut self.ops)?;
        f.text(&mut self.instructions)
    }
}

impl EngineRecord {
    /// This engine, on this CPU.
    pub fn here() -> EngineRecord {
        let mut sum = crc32fast::Hasher::new();
        sum.update(FIELDS);
        for def in OPS {
            sum.update(def.name.as_bytes());
            sum.update(&[0]);
            def.attrs.iter().for_each(|field| sum.update(field.name.as_bytes()));
            sum.update(&[1]);
        }
        let instructions = format!("{}, bf16 by {}", isa().name(), bf16_engine().unwrap_or("no instructions"));
        EngineRecord { version: env!("CARGO_PKG_VERSION").to_string(), ops: u64::from(sum.finalize()), instructions }
    }

    /// Whether the engine's ops are those of this one.
    pub fn is_of_here(&self) -> bool {
        let here = EngineRecord::here();
        (&self.version, self.ops) == (&here.version, here.ops)
    }

    /// In words: `arenagrad 0.1.0 (ops 1a2b3c4d, avx2, bf16 by avx2)`.
    pub fn text(&self) -> String {
        format!("arenagrad {} (ops {:08x}, {})", self.version, self.ops, self.instructions)
    }
}
