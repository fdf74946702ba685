//! Exported programs: a compiled program as one file, which is opened without a pass, a search or a reading of weights.
//!
//! ```text
//! header, table    magic, version of the format, byte order, length, CRC-32; each section's place and CRC-32
//! engine           version, ops and instructions of the engine that wrote it
//! for each method
//!     text         the graph as its user gave it, to be compiled again by another engine
//!     graph        the graph as it runs: columns of 32-bit words
//!     plan         the order of instructions, the offset of each buffer, the tapes
//! names            params and states: name, place, whether they hold a value
//! values           their bytes, as they lie in the arena: the front block of the opened program
//! ```
//!
//! A file holds decisions, not instructions. Opening verifies the graph, lowers it to instructions again, applies the
//! stored order and offsets, and has the checkers prove plan and tapes as after compiling. So a file that lies is an
//! error, and kernels get parameters that this engine wrote. The files are named `.agp`.

mod engine;
mod fields;
mod graph_record;
mod method_record;
mod open;
mod sections;
mod value_record;

use super::program::Program;
use super::published::Sharing;
use crate::arena::tensor::LINE;
use crate::error::{Error, Kind, Result};
use engine::EngineRecord;
use fields::Record;
use graph_record::GraphRecord;
use method_record::MethodRecord;
use sections::{Section, write_head};
use value_record::ValueRecord;

pub use open::OpenedHead;
pub use sections::{FIRST, MAGIC, check_crc, seal, table_bytes};

/// An exported program: its bytes up to those of params and states, and these.
pub struct ExportedHead<'p> {
    pub head: Vec<u8>,
    /// In two parts, as the arena may have two blocks.
    pub values: [&'p [u8]; 2],
}

impl Program {
    /// Bytes of the arena up to the end of its params and states, in whole lines.
    pub(crate) fn leaves_end(&self) -> usize {
        let kept = self.bindings.iter().filter(|b| b.is_persistent());
        kept.map(|b| b.range().end).max().unwrap_or(0).next_multiple_of(LINE)
    }

    /// The program as a file, in two parts.
    pub(crate) fn exported(&self) -> Result<ExportedHead<'_>> {
        if self.sources.is_empty() {
            let which = match self.sharing {
                Some(Sharing::Follows(_)) => "one that reads the params of another: export that one",
                _ => "a size of a sized program, or one that was compiled to be traced or to look for NaN",
            };
            return Err(Error::new(Kind::Data, format!("this program cannot be exported: it is {which}")));
        }
        let wrong = |why: String| Error::new(Kind::Data, why);
        let mut sections = vec![(Section::Engine, 0, EngineRecord::here().encode().map_err(wrong)?)];
        for (i, (source, method)) in self.sources.iter().zip(&self.methods).enumerate() {
            let i = i as u32;
            let text = source.text().map_err(|e| e.context(format!("method {:?}", method.name)))?;
            let mut plan = MethodRecord { name: method.name.clone(), decisions: source.decisions.clone() };
            let graph = GraphRecord::of(&source.graph.view()).encode().map_err(wrong)?;
            sections.push((Section::Text, i, text.into_bytes()));
            sections.push((Section::Graph, i, graph));
            sections.push((Section::Plan, i, plan.encode().map_err(wrong)?));
        }
        let names = ValueRecord::of(&self.bindings, &self.fresh).encode().map_err(wrong)?;
        sections.push((Section::Names, 0, names));
        let end = self.leaves_end();
        let split = self.arena.front().len().min(end);
        let values = [self.arena.slice(0..split), self.arena.slice(split..end)];
        let mut sum = crc32fast::Hasher::new();
        values.iter().for_each(|part| sum.update(part));
        Ok(ExportedHead { head: write_head(&sections, end, sum.finalize()), values })
    }

    /// The program as the bytes of a file: its graphs, its plans, and its params and states as they are now. See
    /// [`Program::export`] for what a file holds.
    ///
    /// # Errors
    /// As for [`Program::export`], but for those of files.
    ///
    /// ```
    /// use arenagrad::prelude::*;
    /// # fn main() -> Result<()> {
    /// let g = Builder::new("net");
    /// let y = nn::linear(&g, "fc", g.input("x", [2, 3], DType::F32), 4).relu();
    /// let mut p = Session::new().compile(&g.finish([y.named("y")])?)?;
    /// p.init(0)?;
    /// let bytes = p.export_bytes()?;
    ///
    /// let mut q = Program::open_bytes(&bytes)?;
    /// for p in [&mut p, &mut q] {
    ///     p.values_mut::<f32>("x")?.fill(0.5);
    ///     p.step()?;
    /// }
    /// assert_eq!(p.values::<f32>("y")?, q.values::<f32>("y")?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn export_bytes(&self) -> Result<Vec<u8>> {
        let ExportedHead { mut head, values } = self.exported()?;
        values.iter().for_each(|part| head.extend_from_slice(part));
        Ok(head)
    }
}
