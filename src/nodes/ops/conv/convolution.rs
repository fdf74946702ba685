//! The 2-D convolution of a node: its geometry, which is the kernels' parameters, and the three ops that share it.

use crate::arena::Node;
use crate::arena::ids::Id;
use crate::kernels::conv::{ConvGeom, Convolutions};
use crate::nodes::Graph;
use crate::nodes::arguments::size_attrs::{size_attr_to_i64, to_size_attrs};
use crate::nodes::ir::attrs::Attrs;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::opdef::Op;
use crate::nodes::ir::site::Site;
use crate::nodes::ops::common::window_geometry::first_entries;
use crate::nodes::ops::conv::attrs::{ConvAttrs, ConvBiasActAttrs, ConvInputGradAttrs, ConvWeightGradAttrs};

/// The convolution of x by w of these dimensions.
pub fn of_dims(x: &[usize], w: &[usize], a: &ConvAttrs) -> ConvGeom {
    let ([n, c_in, size @ ..], [c_out, _, kernel @ ..]) = (first_entries::<4>(x), first_entries::<4>(w));
    ConvGeom { n, c_in, c_out, groups: a.groups(), windows: a.windows(size, kernel).tight(), winograd: false }
}

/// The convolution of a node: of `conv2d`, biased or not, of its input gradient or of its weight gradient. Its first
/// two operands have dimensions `a` and `b`.
pub fn of_node(op: Op, a: &[usize], b: &[usize], attrs: &Attrs<'_>) -> ConvGeom {
    let size = |d: &[usize], i: usize| d.get(i).copied().unwrap_or(0);
    match op {
        Op::CONV2D => of_dims(a, b, &ConvAttrs::of(attrs)),
        Op::CONV2D_BIAS_ACT => of_dims(a, b, &ConvBiasActAttrs::of(attrs).into()),
        Op::CONV2D_INPUT_GRAD => {
            let grad = ConvInputGradAttrs::of(attrs);
            let [h, w] = first_entries(&to_size_attrs(&grad.in_hw));
            let conv = ConvAttrs::from(grad);
            of_dims(&[size(a, 0), size(b, 1) * conv.groups(), h, w], b, &conv)
        }
        _ => {
            let grad = ConvWeightGradAttrs::of(attrs);
            let [kh, kw] = first_entries(&to_size_attrs(&grad.kernel));
            let conv = ConvAttrs::from(grad);
            let c_in = size(a, 1).checked_div(conv.groups()).unwrap_or(0);
            of_dims(a, &[size(b, 1), c_in, kh, kw], &conv)
        }
    }
}

/// The convolution of the node that a rule rewrites.
pub fn of_site(s: &Site<'_, '_>) -> ConvGeom {
    of_node(s.op, &s.args[0].dims(), &s.args[1].dims(), &s.attrs)
}

/// The number of convolutions of `g`, and of their gradients, that are computed by Winograd's minimal filtering.
pub fn count_winograd(g: Graph<'_>, convolutions: Convolutions) -> usize {
    let ops = [Op::CONV2D, Op::CONV2D_BIAS_ACT, Op::CONV2D_INPUT_GRAD, Op::CONV2D_WEIGHT_GRAD];
    let nodes = (0..g.nodes()).map(Node::new).filter(|n| ops.contains(&g.op[n.at()]));
    let geometries = nodes.map(|n| {
        let dims = [0, 1].map(|i| g.dims(g.args_of(n)[i]));
        of_node(g.op[n.at()], &dims[0], &dims[1], &g.attrs(n))
    });
    geometries.filter(|geom| convolutions.of(*geom).winograd).count()
}

fn attrs_of(c: &ConvGeom) -> ConvAttrs {
    ConvAttrs::new(&c.windows, size_attr_to_i64(c.groups))
}

/// y = `conv2d(x, w)`.
pub fn forward<'g>(c: &ConvGeom, x: Var<'g>, w: Var<'g>) -> Var<'g> {
    x.g.emit1(Op::CONV2D, &[x, w], &attrs_of(c).list())
}

/// dx = `conv2d_input_grad(dy, w)`.
pub fn input_grad<'g>(c: &ConvGeom, dy: Var<'g>, w: Var<'g>) -> Var<'g> {
    dy.g.emit1(Op::CONV2D_INPUT_GRAD, &[dy, w], &attrs_of(c).input_grad(c.windows.size).list())
}

/// dw = `conv2d_weight_grad(x, dy)`.
pub fn weight_grad<'g>(c: &ConvGeom, x: Var<'g>, dy: Var<'g>) -> Var<'g> {
    x.g.emit1(Op::CONV2D_WEIGHT_GRAD, &[x, dy], &attrs_of(c).weight_grad(c.windows.kernel).list())
}
