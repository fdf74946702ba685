//! The sum of the outer products of each group: `w[e] = Σ x[i]ᵀ · g[i]` over the rows `i` of group `e`.

use crate::abi::{Args, MatrixMut};
use crate::by_dtype::by_dtype;
use crate::gemm::{Gemm, GemmFloat, OpenProduct, open_unit_rows};
use crate::params::params;
use arenagrad_arena::dtype::DType;

params! {
    /// Params of [`grouped_outer_kernel`].
    pub struct GroupedOuter {
        /// Rows of x and g: the terms of all sums.
        pub rows: usize,
        /// Columns of x: rows of a matrix of the result.
        pub k: usize,
        /// Columns of g and of the result.
        pub n: usize,
        /// Number of groups.
        pub groups: usize,
    }
}

impl GroupedOuter {
    /// Terms of a group of average size.
    fn terms(&self) -> usize {
        (self.rows / self.groups.max(1)).max(1)
    }

    /// The product of a group of average size.
    fn open<T: GemmFloat>(&self) -> OpenProduct {
        OpenProduct::new::<T>(Gemm::new(self.k, self.n, self.terms()).with_a_transposed())
    }

    /// Rows of the result, counted over all groups, in a unit.
    fn unit_rows(&self) -> usize {
        open_unit_rows(self.terms() * self.n)
    }

    /// Elements of the result in each unit.
    pub fn per_unit(&self) -> usize {
        self.unit_rows() * self.n
    }

    /// Number of units.
    pub fn units(&self) -> usize {
        (self.groups * self.k).div_ceil(self.unit_rows())
    }

    /// Elements of scratch of each thread.
    pub fn scratch(&self, dtype: DType) -> usize {
        match dtype {
            DType::F32 => self.open::<f32>().scratch::<f32>(),
            _ => self.open::<f64>().scratch::<f64>(),
        }
    }
}

/// The sum of the outer products of the rows of each group; zeros for a group without rows.
///
/// Reads x: `T[rows, k]` and g: `T[rows, n]`, rows by rising group; starts: `i32[groups + 1]`; writes
/// `T[groups, k, n]`, [`GroupedOuter::per_unit`], and scratch (`Split::PerThread`, [`GroupedOuter::scratch`]; it may be
/// left out if that is 0); params [`GroupedOuter`].
pub fn grouped_outer_kernel<T: GemmFloat>(args: &mut Args<'_>) {
    let p = GroupedOuter::from_words(args.params());
    if args.units().is_empty() || p.k == 0 || p.n == 0 {
        return;
    }
    let (x, g, starts) = (args.read::<T>(0), args.read::<T>(1), args.read::<i32>(2));
    let (row, y) = (args.units().start * p.unit_rows(), args.write::<T>(0));
    let scratch = if args.writes() > 1 { args.write::<T>(1) } else { &mut [] };
    let product = p.open::<T>();
    let rows = y.len() / p.n;
    let mut y = MatrixMut::new(y, rows, p.n);
    for group in row / p.k..(row + rows).div_ceil(p.k) {
        // Rows of this group's matrix that the call computes.
        let (from, to) = ((group * p.k).max(row), ((group + 1) * p.k).min(row + rows));
        let terms = starts[group] as usize..starts[group + 1] as usize;
        let a = x.get(terms.start * p.k + from - group * p.k..).unwrap_or_default();
        let b = &g[terms.start * p.n..terms.end * p.n];
        product.compute((a, b), terms.len(), y.part(from - row..to - row, 0..p.n), scratch);
    }
}

by_dtype!(grouped_outer_kernel_for = grouped_outer_kernel::<floats>);
