//! Constants as methods of [`Builder`], and of [`Var`] for its type and shape.

use crate::arena::Value;
use crate::error::Kind;
use crate::nodes::arguments::axes::axis_from_front;
use crate::nodes::ir::attrs::Attr;
use crate::nodes::ir::builder::{Builder, Var};
use crate::nodes::ir::dtype::{DType, Ty};
use crate::nodes::ir::opdef::Op;
use crate::nodes::ops::constant::attrs::{ConstantType, FullAttrs, IotaAttrs};

impl Builder {
    /// A tensor of shape `dims` filled with `value`, which must be an element of `dtype`: a fraction is no `i32`. A
    /// complex tensor gets imaginary parts of 0.
    #[track_caller]
    pub fn full(&self, value: f64, dims: impl AsRef<[usize]>, dtype: DType) -> Var<'_> {
        match self.shape(dims.as_ref()) {
            Some(shape) => self.emit1(Op::FULL, &[], &FullAttrs { value, dtype, shape }.list()),
            None => self.var(Value::NONE),
        }
    }

    /// A constant tensor of little-endian bytes in row-major order. Another number of bytes than the shape and the type
    /// need is an error.
    #[track_caller]
    pub fn constant_bytes(&self, bytes: &[u8], dims: impl AsRef<[usize]>, dtype: DType) -> Var<'_> {
        match self.shape(dims.as_ref()) {
            Some(shape) => {
                // As `ConstantAttrs` writes it, without a copy of the data.
                let ty = ConstantType { dtype, shape };
                self.emit1(Op::CONSTANT, &[], &[&ty.list()[..], &[Attr::Bytes(bytes)]].concat())
            }
            None => self.var(Value::NONE),
        }
    }

    /// A constant `f32` tensor of shape `dims`, in row-major order. Another number of elements is an error.
    #[track_caller]
    pub fn constant(&self, data: &[f32], dims: impl AsRef<[usize]>) -> Var<'_> {
        self.constant_bytes(bytemuck::cast_slice(data), dims, DType::F32)
    }

    /// A constant `f64` tensor of shape `dims`, in row-major order. Another number of elements is an error.
    #[track_caller]
    pub fn constant_f64(&self, data: &[f64], dims: impl AsRef<[usize]>) -> Var<'_> {
        self.constant_bytes(bytemuck::cast_slice(data), dims, DType::F64)
    }

    /// The numbers 0, 1, 2 … along `axis` of a tensor of shape `dims`, the same along the other axes. A negative axis
    /// counts from the end. `dtype` is `f32`, `f64`, `i32`, `i64` or `u32`.
    #[track_caller]
    pub fn iota(&self, axis: i64, dims: impl AsRef<[usize]>, dtype: DType) -> Var<'_> {
        let axis = axis_from_front(axis, dims.as_ref().len());
        match self.shape(dims.as_ref()) {
            Some(shape) => self.emit1(Op::IOTA, &[], &IotaAttrs { axis, dtype, shape }.list()),
            None => self.var(Value::NONE),
        }
    }

    /// Each of these vectors repeated over the grid that they span, as in `torch.meshgrid` with `indexing="ij"`: vector
    /// i runs along axis i, and all results have shape `[n₀, n₁, …]`.
    #[track_caller]
    pub fn meshgrid<'g>(&'g self, xs: &[Var<'g>]) -> Vec<Var<'g>> {
        self.with_caller(|| {
            let none = vec![self.var(Value::NONE); xs.len()];
            if !self.owns("meshgrid", xs) || xs.iter().any(|x| !x.is_some()) {
                return none;
            }
            if let Some((i, x)) = xs.iter().enumerate().find(|(_, x)| x.rank() != 1) {
                self.fail(Kind::Shape, format!("meshgrid: operand {i} has shape {}; vectors are needed", x.dims()));
                return none;
            }
            let grid: Vec<usize> = xs.iter().map(|x| x.numel()).collect();
            let along = |(i, x): (usize, &Var<'g>)| {
                let mut d = vec![1; grid.len()];
                d[i] = grid[i];
                x.reshape(d).broadcast(&grid)
            };
            xs.iter().enumerate().map(along).collect()
        })
    }
}

impl<'g> Var<'g> {
    /// A tensor of this one's shape and type, filled with `value`.
    #[track_caller]
    pub fn full_like(self, value: f64) -> Var<'g> {
        if !self.is_some() {
            return self;
        }
        let Ty { dtype, shape } = self.ty();
        self.g.emit1(Op::FULL, &[], &FullAttrs { value, dtype, shape }.list())
    }
}
