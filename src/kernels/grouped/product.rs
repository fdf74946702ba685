//! Each row times the matrix of its group: `y[i] = x[i] · w[group of i]`.

use super::group_rows;
use crate::abi::{Args, MatrixMut, Split};
use crate::by_dtype::by_dtype;
use crate::gemm::{Gemm, GemmFloat, OpenProduct, open_unit_columns, open_unit_rows};
use crate::params::params;
use arenagrad_arena::dtype::DType;

params! {
    /// Params of [`grouped_product_kernel`].
    pub struct GroupedProduct {
        /// Rows of x and of the result.
        pub rows: usize,
        /// Terms of a sum.
        pub k: usize,
        /// Columns of the result.
        pub n: usize,
        /// Number of groups.
        pub groups: usize,
        /// Whether the matrices are stored with their axes exchanged, `[groups, n, k]`.
        pub transposed: bool,
    }
}

impl GroupedProduct {
    /// The product of a group of average size.
    fn open<T: GemmFloat>(&self) -> OpenProduct {
        let g = Gemm::new(self.rows / self.groups.max(1), self.n, self.k);
        OpenProduct::new::<T>(if self.transposed { g.with_b_transposed() } else { g })
    }

    /// How units divide the result, and their number.
    pub fn division(&self) -> (Split, usize) {
        if let Some(width) = self.columns() {
            return (Split::Columns { row: self.n, width }, self.n.div_ceil(width));
        }
        let rows = open_unit_rows(self.k * self.n);
        (Split::PerUnit(rows * self.n), self.rows.div_ceil(rows))
    }

    /// Columns of a unit, or `None` if units divide rows.
    fn columns(&self) -> Option<usize> {
        open_unit_columns(self.rows, self.n, self.rows * self.k)
    }

    /// Elements of scratch of each thread.
    pub fn scratch(&self, dtype: DType) -> usize {
        match dtype {
            DType::F32 => self.open::<f32>().scratch::<f32>(),
            _ => self.open::<f64>().scratch::<f64>(),
        }
    }
}

/// Each row times the matrix of its group.
///
/// Reads x: `T[rows, k]`, rows by rising group; w: `T[groups, k, n]`, or `T[groups, n, k]` if `transposed`; starts:
/// `i32[groups + 1]`; writes `T[rows, n]`, [`GroupedProduct::division`], and scratch (`Split::PerThread`,
/// [`GroupedProduct::scratch`]; it may be left out if that is 0); params [`GroupedProduct`].
pub fn grouped_product_kernel<T: GemmFloat>(args: &mut Args<'_>) {
    let p = GroupedProduct::from_words(args.params());
    let units = args.units();
    if units.is_empty() || p.n == 0 {
        return;
    }
    let (x, w, starts) = (args.read::<T>(0), args.read::<T>(1), args.read::<i32>(2));
    let (row, column, mut y) = match p.columns() {
        Some(width) => (0, (units.start * width).min(p.n), args.panel::<T>(0)),
        None => {
            let y = args.write::<T>(0);
            let rows = y.len() / p.n;
            (units.start * open_unit_rows(p.k * p.n), 0, MatrixMut::new(y, rows, p.n))
        }
    };
    let scratch = if args.writes() > 1 { args.write::<T>(1) } else { &mut [] };
    let (product, columns) = (p.open::<T>(), y.cols());
    let first = column * if p.transposed { p.k } else { 1 };
    for (group, rows) in group_rows::groups_within(starts, row..row + y.rows()) {
        let a = &x[rows.start * p.k..rows.end * p.k];
        let b = w[group * p.k * p.n..(group + 1) * p.k * p.n].get(first..).unwrap_or_default();
        product.compute((a, b), p.k, y.part(rows.start - row..rows.end - row, 0..columns), scratch);
    }
}

by_dtype!(grouped_product_kernel_for = grouped_product_kernel::<floats>);
