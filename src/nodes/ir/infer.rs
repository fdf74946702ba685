//! Shape inference: operand types and attributes in, result types out. The verifier runs the same code again.

use super::attrs::Attrs;
use super::dtype::{DType, Ty};
use crate::arena::dims::Dims;
use crate::arena::shapes::Shapes;
use crate::arena::{Region, ids::Id};
use crate::ensure;

/// The types of a region's arguments and yields.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Signature {
    /// Types of the arguments.
    pub args: Vec<Ty>,
    /// Types of the yields.
    pub yields: Vec<Ty>,
}

/// The context of the shape inference of one node, for `infer` functions.
#[non_exhaustive]
pub struct Infer<'e> {
    /// Operand types.
    pub args: &'e [Ty],
    /// Attributes.
    pub attrs: Attrs<'e>,
    /// The interner of shapes.
    pub shapes: &'e mut Shapes,
    /// Signatures of the regions that stand before this node.
    pub regions: &'e [Signature],
    /// Result types.
    pub out: &'e mut Vec<Ty>,
}

impl Infer<'_> {
    /// Dimensions of operand `i`.
    #[inline]
    pub fn dims(&self, i: usize) -> Dims {
        self.shapes.dims(self.args[i].shape)
    }

    /// Element type of operand `i`.
    #[inline]
    pub fn dtype(&self, i: usize) -> DType {
        self.args[i].dtype
    }

    /// Adds a result of these dimensions.
    pub fn result(&mut self, dtype: DType, dims: &[usize]) -> Result<(), String> {
        let shape = self.shapes.intern(dims)?;
        self.out.push(Ty { dtype, shape });
        Ok(())
    }

    /// Adds a result of operand `i`'s type.
    pub fn same_as(&mut self, i: usize) -> Result<(), String> {
        self.out.push(self.args[i]);
        Ok(())
    }

    /// Requires that operands `i` and `j` have the same type.
    pub fn same(&self, i: usize, j: usize) -> Result<(), String> {
        ensure!(
            self.dtype(i) == self.dtype(j),
            "operand types {} and {} differ; cast one of them",
            self.dtype(i),
            self.dtype(j)
        );
        ensure!(self.args[i] == self.args[j], "shapes {} and {} differ", self.dims(i), self.dims(j));
        Ok(())
    }

    /// Requires that operand `i`, called `what`, has dimensions `dims`.
    pub fn expect_dims(&self, i: usize, what: &str, dims: &[usize]) -> Result<(), String> {
        ensure!(*self.dims(i) == *dims, "{what} has shape {}, not {}", self.dims(i), Infer::show_dims(dims));
        Ok(())
    }

    /// Requires that `x` is an element of operand `i`'s dtype.
    pub fn element(&self, i: usize, x: f64) -> Result<(), String> {
        self.dtype(i).refuses(x).map_or(Ok(()), Err)
    }

    /// Requires that operand `i` is not complex.
    pub fn real(&self, i: usize) -> Result<(), String> {
        let d = self.dtype(i);
        ensure!(!d.is_complex(), "operand {i} is {d}, and the op is for real numbers: take real(z) and imag(z)");
        Ok(())
    }

    /// Requires that operand `i` is complex. The dtype of its parts.
    pub fn complex(&self, i: usize) -> Result<DType, String> {
        let d = self.dtype(i);
        ensure!(d.is_complex(), "operand {i} is {d}; c64 or c128 is needed");
        Ok(d.part())
    }

    /// Requires that operand `i` is `f32` or `f64`.
    pub fn float(&self, i: usize) -> Result<DType, String> {
        self.real(i)?;
        let d = self.dtype(i);
        ensure!(d.is_float(), "operand {i} is {d}; f32 or f64 is needed");
        Ok(d)
    }

    /// Requires that operands `i` and `j` have the same dtype.
    pub fn same_dtype(&self, i: usize, j: usize) -> Result<(), String> {
        let (a, b) = (self.dtype(i), self.dtype(j));
        ensure!(a == b, "operand types {a} and {b} differ; cast one of them");
        Ok(())
    }

    /// Requires that operand `i` is `i32` or `i64`.
    pub fn index(&self, i: usize) -> Result<(), String> {
        let d = self.dtype(i);
        ensure!(d.is_index(), "indices are {d}; i32 or i64 is needed");
        Ok(())
    }

    /// Requires that operand `i`, called `what`, has rank `rank`. Its dimensions.
    pub fn rank(&self, i: usize, what: &str, rank: usize) -> Result<Dims, String> {
        let d = self.dims(i);
        ensure!(d.len() == rank, "{what} has shape {d}; rank {rank} is needed");
        Ok(d)
    }

    /// The signature of region `r`. An error if `r` does not stand before the node.
    pub fn signature(&self, r: Region) -> Result<Signature, String> {
        self.regions.get(r.at()).cloned().ok_or_else(|| format!("region {r} does not stand before its use"))
    }

    /// Dimensions as text: `[2,3]`.
    pub fn show_dims(dims: &[usize]) -> String {
        Dims::new(dims).map_or_else(|| format!("{dims:?}"), |d| d.to_string())
    }
}
