//! The batches of a workload, and its params from a file.
//!
//! Invariant: the names in data files never change: `p.PARAM` is a param, and the name of an input is its batches.

use super::workloads::{Range, Workload};
use crate::fail::{Fail, Run, fail_bad_input};
use crate::weights_file;
use arenagrad::error::Result;
use arenagrad::graph::DType;
use arenagrad::session::{Binding, Elem, Handle, Program, Role};
use arenagrad::train::Loaded;
use std::path::Path;

/// Largest data file, in bytes.
const FILE_LIMIT: u64 = 1 << 30;
/// Batches of synthetic data.
const BATCHES: usize = 8;

/// An input of the program, by its type.
#[derive(Clone, Copy)]
enum Port {
    Int(Handle<i32>),
    Float(Handle<f32>),
    Double(Handle<f64>),
}

impl Port {
    fn open(p: &Program, b: &Binding) -> Result<Port> {
        Ok(match b.dtype {
            DType::I32 => Port::Int(p.input(&b.name)?),
            DType::F64 => Port::Double(p.input(&b.name)?),
            _ => Port::Float(p.input(&b.name)?),
        })
    }
}

/// Batches, as the bytes of the inputs.
pub struct Batches {
    count: usize,
    /// Each input with all its batches, one after another.
    inputs: Vec<(Port, Vec<u8>)>,
}

/// The inputs of a step that have no value of their own.
fn open_inputs(p: &Program) -> Vec<Binding> {
    p.bindings().iter().filter(|b| b.role == Role::Input && b.default.is_none()).cloned().collect()
}

/// A number in 0..1 for element `i`. Neighbours differ, so that rows of tables are read in no order.
fn spread(i: usize) -> f64 {
    f64::from((i as u32).wrapping_mul(2_654_435_761)) / 2f64.powi(32)
}

/// The bytes of `n` elements of the input `b` of synthetic data.
fn synthetic(w: &Workload, b: &Binding, n: usize) -> Vec<u8> {
    let at = |i: usize| {
        let Range { from, to } = (w.range)(b, i);
        from + (to - from) * spread(i)
    };
    match b.dtype {
        DType::I32 => (0..n).flat_map(|i| (at(i).floor() as i32).to_le_bytes()).collect(),
        DType::F64 => (0..n).flat_map(|i| at(i).to_le_bytes()).collect(),
        _ => (0..n).flat_map(|i| (at(i) as f32).to_le_bytes()).collect(),
    }
}

impl Batches {
    /// Synthetic batches of numbers in the ranges of the workload.
    pub fn synthetic(w: &Workload, p: &Program) -> Result<Batches> {
        let data = |b: &Binding| Ok((Port::open(p, b)?, synthetic(w, b, BATCHES * b.dims.numel())));
        Ok(Batches { count: BATCHES, inputs: open_inputs(p).iter().map(data).collect::<Result<_>>()? })
    }

    /// The batches in a file: a tensor for each input, with a leading axis over batches.
    pub fn load(p: &Program, file: &Loaded, path: &Path) -> Run<Batches> {
        let open = open_inputs(p);
        let first = open.first().map_or("", |b| &b.name);
        let count = file.find(first).and_then(|e| e.dims.first().copied()).unwrap_or(0);
        if count == 0 {
            return Err(fail_bad_input(format!("{}: {first} holds no batch", path.display())));
        }
        let read = |b: &Binding| -> Run<(Port, Vec<u8>)> {
            let dims: Vec<usize> = std::iter::once(count).chain(b.dims.iter().copied()).collect();
            let e = file.expect(&b.name, b.dtype, &dims).map_err(|e| Fail::from(e.context(path.display())))?;
            finite(path, &b.name, b.dtype, e.bytes)?;
            Ok((Port::open(p, b)?, e.bytes.to_vec()))
        };
        Ok(Batches { count, inputs: open.iter().map(read).collect::<Run<_>>()? })
    }

    /// Number of batches.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Bytes of all batches.
    pub fn bytes(&self) -> u64 {
        self.inputs.iter().map(|(_, all)| all.len() as u64).sum()
    }

    /// Copies batch `i` into the inputs.
    pub fn feed(&self, p: &mut Program, i: usize) -> Result<()> {
        for (port, all) in &self.inputs {
            let size = all.len() / self.count;
            let bytes = &all[size * i..size * (i + 1)];
            match *port {
                Port::Int(slot) => write(p, slot, bytes)?,
                Port::Float(slot) => write(p, slot, bytes)?,
                Port::Double(slot) => write(p, slot, bytes)?,
            }
        }
        Ok(())
    }
}

fn write<T: Elem>(p: &mut Program, slot: Handle<T>, bytes: &[u8]) -> Result<()> {
    bytemuck::cast_slice_mut(p.get_mut(slot)?).copy_from_slice(bytes);
    Ok(())
}

/// Reads the data file of a workload.
pub fn open_file(path: &Path) -> Run<Loaded> {
    weights_file::open_safetensors_file(path, FILE_LIMIT)
}

/// Gives each param the value called `p.<name>` in `file`. Fails on a value that is not finite.
pub fn load_params(w: &Workload, program: &mut Program, file: &Loaded, path: &Path) -> Run {
    let params: Vec<Binding> = program.bindings().iter().filter(|b| b.role == Role::Param).cloned().collect();
    for b in &params {
        let e = file.expect(&format!("p.{}", (w.alias)(&b.name)), b.dtype, &b.dims);
        let e = e.map_err(|e| Fail::from(e.context(path.display())))?;
        finite(path, e.name, b.dtype, e.bytes)?;
        program.persistent_mut(&b.name)?.1.copy_from_slice(e.bytes);
    }
    Ok(())
}

/// Fails if an element of these bytes is a float that is not finite.
fn finite(path: &Path, name: &str, dtype: DType, bytes: &[u8]) -> Run {
    let odd = match dtype {
        DType::F32 => bytes.as_chunks::<4>().0.iter().position(|b| !f32::from_le_bytes(*b).is_finite()),
        DType::F64 => bytes.as_chunks::<8>().0.iter().position(|b| !f64::from_le_bytes(*b).is_finite()),
        _ => None,
    };
    match odd {
        Some(i) => Err(fail_bad_input(format!("{}: element {i} of {name:?} is not finite", path.display()))),
        None => Ok(()),
    }
}
