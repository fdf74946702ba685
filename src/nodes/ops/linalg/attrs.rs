//! Attributes of solves.

use crate::nodes::ir::attr_types::{attrs, choice};

choice! {
    /// What a solve does with a singular matrix, which has a zero or a NaN among its pivots.
    #[derive(Default)]
    #[non_exhaustive]
    pub enum Singular {
        /// The step ends with an error that names the matrix.
        #[default]
        Fault = "fault",
        /// The result of that matrix is NaN.
        Nan = "nan",
    }
}

attrs! {
    /// Attributes of `solve`.
    pub struct SolveAttrs {
        /// What a singular matrix gives.
        singular: Singular,
    }
}

attrs! {
    /// Attributes of `lu_solve`.
    pub struct LuSolveAttrs {
        /// Whether to solve with the transpose of the matrix.
        transpose: bool,
        /// What a singular matrix gives.
        singular: Singular,
    }
}

attrs! {
    /// Attributes of `triangular_solve`.
    pub struct TriangularSolveAttrs {
        /// Whether the matrix is the triangle from the diagonal up; else it is the one from the diagonal down.
        upper: bool,
        /// Whether to solve with the transpose of the triangle.
        transpose: bool,
        /// Whether the diagonal is 1 and is not read.
        unit: bool,
        /// What a singular matrix gives.
        singular: Singular,
    }
}
