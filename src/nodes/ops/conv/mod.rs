//! Convolutions: over planes with their adjoints, over one and three axes, transposed, and with an epilogue.

pub mod attrs;
mod batch;
pub mod bias_act;
pub mod conv2d;
pub mod conv_nd;
pub mod conv_options;
pub mod conv_transpose;
pub mod convolution;
pub mod lower;
pub mod var;

use crate::ensure;
use crate::nodes::ir::infer::Infer;
use attrs::ConvAttrs;

/// Checks the lists, and two operands of rank `N` + 2 and one float type.
fn check_lists_and_operands<const N: usize>(
    cx: &Infer<'_>,
    a: &ConvAttrs,
    names: [&str; 2],
) -> Result<[Vec<usize>; 2], String> {
    cx.float(0)?;
    cx.same_dtype(0, 1)?;
    a.check::<N>()?;
    Ok([cx.rank(0, names[0], N + 2)?.to_vec(), cx.rank(1, names[1], N + 2)?.to_vec()])
}

/// Checks that `w` has the input channels of `x`.
pub(in crate::nodes::ops) fn check_input_channels(a: &ConvAttrs, x: &[usize], w: &[usize]) -> Result<(), String> {
    let groups = a.check_groups(x[1], w[0])?;
    ensure!(w[1] == x[1] / groups, "w takes {} channels a group, x has {} in {groups} groups", w[1], x[1]);
    Ok(())
}
