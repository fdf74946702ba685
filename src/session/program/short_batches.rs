//! Inputs with more rows than a batch: which of them a caller writes in part, so that a step would read old rows.
//!
//! Each element holds a mark while the caller writes. An element that holds it afterwards was not written, and gets
//! back what it was. Elements of one or two bytes have no mark that no value has, so such inputs are left alone.

use super::Program;
use super::method::Method;
use crate::error::{Error, Kind, Result};
use crate::session::bindings::{Binding, Role};

/// Bytes that no caller writes; those of an element of 4 bytes are the first or the last four.
const MARK: [u8; 8] = 0xFFF4_93A5_C65B_E2D1_u64.to_le_bytes();

/// Inputs that are longer than a batch, with memory for what they hold before it is written.
pub(crate) struct MarkedInputs {
    rows: usize,
    before: Vec<(usize, Vec<u8>)>,
}

impl Program {
    /// The inputs of `method` that have more than `rows` rows.
    pub(crate) fn longer_inputs(&self, method: Method, rows: usize) -> MarkedInputs {
        let longer = |(i, b): &(usize, &Binding)| {
            let long = b.role == Role::Input && b.dims.first().is_some_and(|&n| n > rows);
            long && b.dtype.size() >= 4 && self.fresh.is_read(method.at as usize, *i)
        };
        let all = self.bindings.iter().enumerate().filter(longer).map(|(i, b)| (i, vec![0; b.bytes]));
        MarkedInputs { rows, before: all.collect() }
    }

    /// Marks these inputs.
    pub(crate) fn mark_inputs(&mut self, marked: &mut MarkedInputs) {
        for (i, before) in &mut marked.before {
            let bytes = self.arena.slice_mut(self.bindings[*i].range());
            before.copy_from_slice(bytes);
            bytes.chunks_mut(8).for_each(|part| part.copy_from_slice(&MARK[..part.len()]));
        }
    }

    /// Gives elements that were not written back what they were. Fails if exactly the first rows of an input were
    /// written, as many as a batch has.
    pub(crate) fn unmark_inputs(&mut self, marked: &MarkedInputs) -> Result<()> {
        let mut partly = None;
        for (i, before) in &marked.before {
            let b = &self.bindings[*i];
            let (size, bytes) = (b.dtype.size(), self.arena.slice_mut(b.range()));
            let batch = marked.rows * (b.bytes / size / b.dims[0].max(1));
            let mut short = batch * size < b.bytes;
            for (k, (now, was)) in bytes.chunks_exact_mut(size).zip(before.chunks_exact(size)).enumerate() {
                let unwritten = now.iter().enumerate().all(|(j, &x)| x == MARK[(k * size + j) % 8]);
                if unwritten {
                    now.copy_from_slice(was);
                }
                short &= unwritten == (k >= batch);
            }
            partly = partly.or(short.then_some(*i));
        }
        let Some(i) = partly else { return Ok(()) };
        let (b, rows) = (&self.bindings[i], marked.rows);
        let text = format!(
            "input {:?} ({}{}) has {} rows, and only the {rows} of a batch were written: the step would read old rows in \
             the others; build the graph for batches of {rows}, or take batches of {}",
            b.name, b.dtype, b.dims, b.dims[0], b.dims[0]
        );
        Err(Error::new(Kind::Data, text))
    }
}
