//! A tile program as the compiler builds it.
//!
//! Invariant, checked by [`TileProgram::check`]: operands precede their uses (inputs first, then steps), element types
//! agree, and [`supports_operand_type`] allows every step. `tile_plan` plans a checked program.

use super::tile_op::{TileOp, supports_operand_type};
use arenagrad_arena::DType;

/// Maximal number of inputs.
pub const MAX_INPUTS: usize = 64;
/// Maximal number of outputs.
pub const MAX_OUTPUTS: usize = 32;
/// Maximal number of steps.
pub const MAX_STEPS: usize = 256;
/// Maximal number of dimensions of a strided view, after contiguous dimensions are merged.
pub const MAX_DIMS: usize = 8;

/// Merges adjacent dimensions with contiguous strides and drops those of size 1: `(dim, stride)`, outermost first.
pub(super) fn merge_dims(dims: &[usize], strides: &[isize]) -> Vec<(usize, isize)> {
    let mut out: Vec<(usize, isize)> = Vec::new();
    for (&dim, &stride) in dims.iter().zip(strides).filter(|(d, _)| **d != 1) {
        match out.last_mut() {
            Some(last) if last.1 == stride * dim as isize => *last = (last.0 * dim, stride),
            _ => out.push((dim, stride)),
        }
    }
    out
}

/// Which element of an input is read for element `i` of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    /// Element `i`.
    Full,
    /// Element 0: a scalar.
    Scalar,
    /// Element `i % n`: a vector along the last axes.
    Suffix(usize),
    /// Element `i / n`: a vector along the first axes.
    Prefix(usize),
    /// Element `base + Σ indexₖ · stridesₖ`, where `index` is the row-major multi-index of `i` in `dims`.
    Strided {
        /// Dimensions of the view; their product is the program's length.
        dims: Vec<usize>,
        /// Stride of each dimension in elements: 0 broadcasts, negative reverses.
        strides: Vec<isize>,
        /// Offset of index 0.
        base: usize,
    },
}

/// An input of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// Type of the elements.
    pub elem: DType,
    /// How elements are read.
    pub access: Access,
}

/// One operation on tiles.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TileStep {
    /// The operation.
    pub op: TileOp,
    /// Type of the operands (of `b` and `c` for [`TileOp::Select`]; of the result for [`TileOp::Fill`]).
    pub elem: DType,
    /// Type of the result.
    pub out: DType,
    /// Operands: `k` is input `k`, `inputs + s` is step `s`. Operands beyond the arity are ignored.
    pub args: [u16; 3],
    /// Immediates.
    pub imm: [f64; 2],
}

impl TileStep {
    /// A step whose result type follows from the operation. Missing operands become 0.
    pub fn new(op: TileOp, elem: DType, args: &[u16], imm: [f64; 2]) -> TileStep {
        let mut all = [0; 3];
        for (to, from) in all.iter_mut().zip(args) {
            *to = *from;
        }
        TileStep { op, elem, out: if op.compares() { DType::Bool } else { elem }, args: all, imm }
    }

    /// A constant. A fill is the sum of its immediates: x + −0 is x for every x, −0 included.
    pub fn fill(elem: DType, x: f64) -> TileStep {
        TileStep::new(TileOp::Fill, elem, &[], [x, -0.0])
    }

    /// A conversion.
    pub fn cast(from: DType, to: DType, arg: u16) -> TileStep {
        TileStep { op: TileOp::Cast, elem: from, out: to, args: [arg, 0, 0], imm: [0.0; 2] }
    }
}

/// A pointwise computation over `len` elements.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct TileProgram {
    /// Inputs.
    pub inputs: Vec<Input>,
    /// Steps, in order of execution.
    pub steps: Vec<TileStep>,
    /// Operand index of each output.
    pub outputs: Vec<u16>,
    /// Number of elements of every output.
    pub len: usize,
}

impl TileProgram {
    /// Type of operand `v`, if there is one.
    pub fn elem(&self, v: u16) -> Option<DType> {
        let v = usize::from(v);
        match self.inputs.get(v) {
            Some(input) => Some(input.elem),
            None => self.steps.get(v - self.inputs.len()).map(|s| s.out),
        }
    }

    /// Checks the invariant in the head of this file; `Err` says what is wrong.
    pub fn check(&self) -> Result<(), &'static str> {
        if self.inputs.len() > MAX_INPUTS || self.outputs.len() > MAX_OUTPUTS || self.steps.len() > MAX_STEPS {
            return Err("too many inputs, outputs or steps");
        }
        for input in &self.inputs {
            if input.elem.is_complex() {
                return Err("an input of complex numbers");
            }
            self.check_access(&input.access)?;
        }
        for (s, step) in self.steps.iter().enumerate() {
            self.check_step(self.inputs.len() + s, step)?;
        }
        if self.outputs.iter().any(|o| self.elem(*o).is_none()) {
            return Err("an output names no operand");
        }
        Ok(())
    }

    fn check_access(&self, access: &Access) -> Result<(), &'static str> {
        match access {
            Access::Full | Access::Scalar => Ok(()),
            Access::Suffix(n) | Access::Prefix(n) if *n == 0 && self.len > 0 => Err("a period of 0"),
            Access::Suffix(_) | Access::Prefix(_) => Ok(()),
            Access::Strided { dims, strides, .. } => {
                if dims.len() != strides.len() || dims.iter().product::<usize>() != self.len {
                    return Err("a strided view that does not fit the program's length");
                }
                if merge_dims(dims, strides).len() > MAX_DIMS {
                    return Err("a strided view of too many dimensions");
                }
                Ok(())
            }
        }
    }

    fn check_step(&self, v: usize, step: &TileStep) -> Result<(), &'static str> {
        if !supports_operand_type(step.op, step.elem) {
            return Err("an operation that its element type does not have");
        }
        let natural = if step.op.compares() { DType::Bool } else { step.elem };
        if step.op != TileOp::Cast && step.out != natural {
            return Err("a step whose result type is not the operation's");
        }
        if step.out.is_complex() {
            return Err("a step to complex numbers");
        }
        for (k, arg) in step.args.iter().take(step.op.arity()).enumerate() {
            if usize::from(*arg) >= v {
                return Err("an operand that does not come before its use");
            }
            if self.elem(*arg) != Some(step.op.operand(step.elem, k)) {
                return Err("an operand of another type than the step's");
            }
        }
        Ok(())
    }
}
