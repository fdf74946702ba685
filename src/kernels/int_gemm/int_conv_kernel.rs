//! The kernel of convolutions of 8-bit integers: for each image and group, the product of the weights and the windows.
//!
//! | kernel | reads | writes | params |
//! |---|---|---|---|
//! | [`int_conv_kernel`] | x: `[images, groups · channels, h, w]`, weights: `[groups · m, channels, kh, kw]`, of one byte | `i32[images, groups · m, oh, ow]`, scratch | [`IntConv`] |
//! | [`int_conv_zeros_kernel`] | the same, zeros: `i8[groups · m]` | the same | [`IntConv`] |
//!
//! Padding counts as the zero point of x.

use super::int_codes::IntCodes;
use super::int_gemm_desc::{IntGemmBlocks, int_gemm_unit_rows};
use super::int_product::{IntBlock, multiply_int_block};
use super::int_rows::IntRows;
use super::int_tile::IntEngine;
use super::int_windows::IntWindows;
use crate::abi::{Args, MatrixMut};
use crate::params::params;
use crate::window::WindowGeometry;

params! {
    /// Params of [`int_conv_kernel`].
    pub struct IntConv {
        /// Number of images.
        pub images: usize,
        /// Groups of channels.
        pub groups: usize,
        /// Channels of x in a group.
        pub channels: usize,
        /// Channels of the result in a group.
        pub m: usize,
        /// The windows over the planes of x.
        pub windows: WindowGeometry<2>,
        /// Whether x has signed codes. Weights have.
        pub x_signed: bool,
        /// The zero of x, one of its codes.
        pub x_zero: i64,
        /// The zero of the weights.
        pub w_zero: i64,
    }
}

impl IntConv {
    /// Terms of a sum.
    pub fn k(&self) -> usize {
        self.channels * self.windows.kernel.iter().product::<usize>()
    }

    /// Elements of a channel of the result.
    fn n(&self) -> usize {
        self.windows.out().iter().product()
    }

    /// Elements of the result in a unit.
    pub fn per_unit(&self) -> usize {
        int_gemm_unit_rows(self.n(), self.k()) * self.n()
    }

    /// Number of units.
    pub fn units(&self) -> usize {
        (self.images * self.groups * self.m).div_ceil(int_gemm_unit_rows(self.n(), self.k()))
    }

    /// Elements of scratch of each thread.
    pub fn scratch(&self) -> usize {
        IntGemmBlocks::new(self.m, self.n(), self.k()).scratch()
    }

    /// The windows of one group of an image.
    fn windows<'a>(&self, x: &'a [u8], at: usize) -> IntWindows<'a> {
        let len = self.channels * self.windows.size.iter().product::<usize>();
        IntWindows {
            image: &x[at * len..][..len],
            codes: IntCodes::new(self.x_signed, self.x_zero),
            windows: self.windows,
            ow: self.windows.out()[1],
            k: self.k(),
        }
    }
}

/// Convolutions of 8-bit integers.
///
/// Reads x and the weights; writes `i32[images, groups · m, oh, ow]`, [`IntConv::per_unit`], and scratch
/// (`Split::PerThread`, [`IntConv::scratch`]); params [`IntConv`].
pub fn int_conv_kernel(args: &mut Args<'_>) {
    int_conv_units(args, &[]);
}

/// As [`int_conv_kernel`], with a zero point for each channel of the result beside [`IntConv::w_zero`].
///
/// Reads x, the weights and `i8[groups · m]`; writes as [`int_conv_kernel`]; params [`IntConv`].
pub fn int_conv_zeros_kernel(args: &mut Args<'_>) {
    let zeros = args.read::<i8>(2);
    int_conv_units(args, zeros);
}

fn int_conv_units<'a>(args: &mut Args<'a>, zeros: &'a [i8]) {
    let p = IntConv::from_words(args.params());
    let (x, w, engine) = (args.read::<u8>(0), args.read::<u8>(1), IntEngine::current());
    let (n, k, row) = (p.n(), p.k(), args.units().start * int_gemm_unit_rows(p.n(), p.k()));
    let (blocks, codes) = (IntGemmBlocks::new(p.m, n, k), IntCodes::new(true, p.w_zero));
    let (y, scratch) = (args.write::<i32>(0), args.write::<i32>(1));
    let all = y.len() / n.max(1);
    let mut y = MatrixMut::new(y, all, n);
    let mut done = 0;
    while done < all {
        let (at, from) = ((row + done) / p.m, (row + done) % p.m);
        let rows = (p.m - from).min(all - done);
        let group = at % p.groups * p.m;
        let zeros = zeros.get(group..).unwrap_or_default();
        let a = IntRows { data: &w[group * k..], codes, row: k, col: 1, k, zeros };
        let part = IntBlock { row: from, col: 0, c: y.part(done..done + rows, 0..n) };
        multiply_int_block(engine, &blocks, &a, &p.windows(x, at), part, scratch);
        done += rows;
    }
}
