//! Values of a model while it is read.

use crate::error::{Error, Result};
use crate::tensor::Tensor;
use arenagrad::graph::{DType, Var};
use std::rc::Rc;

/// Where a value is.
#[derive(Clone)]
pub enum Held<'g> {
    /// It follows from the model.
    Known(Rc<Tensor>),
    /// An initialiser of floats, which is a param from its first use on.
    Stored(Rc<str>, Rc<Tensor>),
    /// A node of the graph.
    Live(Var<'g>),
    /// A sequence, which exists while the model is read only.
    List(Vec<Val<'g>>),
    /// An optional value that is absent.
    Absent,
}

/// A value, and the dtype that the model gives it: a param of `f16` is kept in `f32`.
#[derive(Clone)]
pub struct Val<'g> {
    pub dtype: DType,
    pub held: Held<'g>,
}

impl<'g> Val<'g> {
    pub fn known(t: Tensor) -> Val<'g> {
        Val { dtype: t.dtype, held: Held::Known(Rc::new(t)) }
    }

    pub fn live(v: Var<'g>) -> Val<'g> {
        Val { dtype: v.dtype(), held: Held::Live(v) }
    }

    /// A sequence. Its dtype says nothing.
    pub fn list(all: Vec<Val<'g>>) -> Val<'g> {
        Val { dtype: all.first().map_or(DType::F32, |v| v.dtype), held: Held::List(all) }
    }

    pub fn is_known(&self) -> bool {
        matches!(self.held, Held::Known(_))
    }

    /// The shape of a tensor.
    pub fn dims(&self) -> Result<Vec<usize>> {
        match &self.held {
            Held::Known(t) | Held::Stored(_, t) => Ok(t.dims.clone()),
            Held::Live(v) => Ok(v.dims().to_vec()),
            Held::List(_) | Held::Absent => Err(Error::Model("a sequence stands where a tensor must".into())),
        }
    }
}

/// The dtype in which kernels compute for values of this dtype.
pub fn computed_in(dtype: DType) -> DType {
    match dtype {
        DType::F16 | DType::BF16 => DType::F32,
        DType::I16 | DType::U16 => DType::I32,
        DType::U64 => DType::I64,
        own => own,
    }
}
