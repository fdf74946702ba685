//! The tensors of a step that the trainer itself reads and writes: rate, loss, mask.

use crate::error::{Error, Kind, Result};
use crate::passes::optimiser::LR;
use crate::session::{Elem, Handle, Method, Program};

/// Name of the input that tells real examples (1) from those that only fill up a batch (0); see
/// [`Partial::Pad`](crate::train::Partial::Pad). It has one element for each example of a batch, of type f32, f64, u8
/// or bool.
pub const MASK: &str = "mask";

/// A handle of a tensor, f32 or f64.
#[derive(Clone, Copy)]
pub enum Scalar {
    F32(Handle<f32>),
    F64(Handle<f64>),
}

impl Scalar {
    /// The input called `name` of method `m`.
    pub fn input(p: &Program, m: Method, name: &str) -> Result<Scalar> {
        match p.input_of::<f32>(m, name) {
            Ok(slot) => Ok(Scalar::F32(slot)),
            Err(_) => Ok(Scalar::F64(p.input_of::<f64>(m, name)?)),
        }
    }

    /// The output called `name` of method `m`.
    pub fn output(p: &Program, m: Method, name: &str) -> Result<Scalar> {
        match p.output_of::<f32>(m, name) {
            Ok(slot) => Ok(Scalar::F32(slot)),
            Err(_) => Ok(Scalar::F64(p.output_of::<f64>(m, name)?)),
        }
    }

    /// The first element; NaN if there is none.
    pub fn read(self, p: &Program) -> Result<f64> {
        Ok(match self {
            Scalar::F32(slot) => p.get(slot)?.first().map_or(f64::NAN, |&x| f64::from(x)),
            Scalar::F64(slot) => p.get(slot)?.first().copied().unwrap_or(f64::NAN),
        })
    }

    /// Writes a scalar.
    pub fn write(self, p: &mut Program, x: f64) -> Result<()> {
        match self {
            Scalar::F32(slot) => p.write(slot, &[x as f32]),
            Scalar::F64(slot) => p.write(slot, &[x]),
        }
    }

    /// The tensor's name.
    pub fn name(self, p: &Program) -> &str {
        let name = match self {
            Scalar::F32(slot) => p.name_of(slot),
            Scalar::F64(slot) => p.name_of(slot),
        };
        name.unwrap_or("loss")
    }
}

/// The input [`MASK`].
#[derive(Clone, Copy)]
pub enum Mask {
    Float(Scalar),
    Byte(Handle<u8>),
}

impl Mask {
    /// The mask of method `m`, for batches of `batch` examples.
    pub fn new(p: &Program, m: Method, batch: usize) -> Result<Mask> {
        let mask = match p.input_of::<u8>(m, MASK) {
            Ok(slot) => Mask::Byte(slot),
            Err(_) => Mask::Float(Scalar::input(p, m, MASK).map_err(|e| e.context("padded batches"))?),
        };
        let elements = match mask {
            Mask::Byte(slot) => p.get(slot)?.len(),
            Mask::Float(Scalar::F32(slot)) => p.get(slot)?.len(),
            Mask::Float(Scalar::F64(slot)) => p.get(slot)?.len(),
        };
        match elements == batch {
            true => Ok(mask),
            false => {
                let text = format!("input {MASK:?} has {elements} elements for batches of {batch} examples");
                Err(Error::new(Kind::Shape, text))
            }
        }
    }

    /// Writes 1 for the first `real` examples and 0 for the others.
    pub fn write(self, p: &mut Program, real: usize) -> Result<()> {
        fn put<T: Elem>(to: &mut [T], real: usize, [no, yes]: [T; 2]) {
            to.iter_mut().enumerate().for_each(|(i, x)| *x = if i < real { yes } else { no });
        }
        match self {
            Mask::Byte(slot) => put(p.get_mut(slot)?, real, [0, 1]),
            Mask::Float(Scalar::F32(slot)) => put(p.get_mut(slot)?, real, [0.0, 1.0]),
            Mask::Float(Scalar::F64(slot)) => put(p.get_mut(slot)?, real, [0.0, 1.0]),
        }
        Ok(())
    }
}

/// A training method, with the tensors that the trainer uses.
#[derive(Clone, Copy)]
pub struct StepIo {
    pub method: Method,
    /// Examples of a batch; 0 for any number.
    pub examples: usize,
    pub lr: Scalar,
    pub loss: Scalar,
    pub mask: Option<Mask>,
}

impl StepIo {
    /// Those of `method`, whose scalar output `loss` is reported.
    pub fn new(p: &Program, method: Method, loss: &str, examples: usize) -> Result<StepIo> {
        let (lr, loss) = (Scalar::input(p, method, LR)?, Scalar::output(p, method, loss)?);
        Ok(StepIo { method, examples, lr, loss, mask: None })
    }
}
