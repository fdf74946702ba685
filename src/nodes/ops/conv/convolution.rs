//! A 2-D convolution: its sizes, shared by its three ops.

use crate::kernels::conv::ConvGeom;
use crate::nodes::arguments::size_attrs::{size_attr_to_i64, to_size_attrs};
use crate::nodes::ir::attrs::Attrs;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::opdef::Op;
use crate::nodes::ir::site::Site;
use crate::nodes::ops::common::window_geometry::{WindowGeometry, first_entries};
use crate::nodes::ops::conv::attrs::{ConvAttrs, ConvBiasActAttrs, ConvInputGradAttrs, ConvWeightGradAttrs};

/// A 2-D convolution: x `[images, c_in, H, W]`, w `[c_out, c_in/groups, kh, kw]`.
#[derive(Clone, Copy)]
pub struct Convolution {
    /// Images; may be 0.
    pub images: usize,
    /// Channels of x.
    pub c_in: usize,
    /// Channels of y.
    pub c_out: usize,
    /// Independent groups of channels.
    pub groups: usize,
    /// Windows over the planes of x.
    pub windows: WindowGeometry<2>,
}

impl Convolution {
    /// The convolution of x by w of these dimensions.
    pub fn new(x: &[usize], w: &[usize], a: &ConvAttrs) -> Convolution {
        let ([images, c_in, size @ ..], [c_out, _, kernel @ ..]) = (first_entries::<4>(x), first_entries::<4>(w));
        Convolution { images, c_in, c_out, groups: a.groups(), windows: a.windows(size, kernel).tight() }
    }

    /// The convolution of a node: of `conv2d`, biased or not, of its input gradient or of its weight gradient. Its
    /// first two operands have dimensions `a` and `b`.
    pub fn of_node(op: Op, a: &[usize], b: &[usize], attrs: &Attrs<'_>) -> Convolution {
        let size = |d: &[usize], i: usize| d.get(i).copied().unwrap_or(0);
        match op {
            Op::CONV2D => Convolution::new(a, b, &ConvAttrs::of(attrs)),
            Op::CONV2D_BIAS_ACT => Convolution::new(a, b, &ConvBiasActAttrs::of(attrs).into()),
            Op::CONV2D_INPUT_GRAD => {
                let grad = ConvInputGradAttrs::of(attrs);
                let [h, w] = first_entries(&to_size_attrs(&grad.in_hw));
                let conv = ConvAttrs::from(grad);
                Convolution::new(&[size(a, 0), size(b, 1) * conv.groups(), h, w], b, &conv)
            }
            _ => {
                let grad = ConvWeightGradAttrs::of(attrs);
                let [kh, kw] = first_entries(&to_size_attrs(&grad.kernel));
                let conv = ConvAttrs::from(grad);
                let c_in = size(a, 1).checked_div(conv.groups()).unwrap_or(0);
                Convolution::new(a, &[size(b, 1), c_in, kh, kw], &conv)
            }
        }
    }

    /// The convolution of the node that a rule rewrites.
    pub fn of_site(s: &Site<'_, '_>) -> Convolution {
        Convolution::of_node(s.op, &s.args[0].dims(), &s.args[1].dims(), &s.attrs)
    }

    /// The kernels' parameters.
    pub fn geom(&self) -> ConvGeom {
        let WindowGeometry { size: [h, w], kernel: [kh, kw], stride, pad, dilation } = self.windows;
        let Convolution { images: n, c_in, c_out, groups, .. } = *self;
        ConvGeom { n, c_in, h, w, c_out, kh, kw, stride, pad: first_entries(pad.as_flattened()), dilation, groups }
    }

    /// Ho and Wo, or the reason why the kernels refuse the convolution.
    pub fn count(&self) -> Result<[usize; 2], String> {
        let count = self.windows.count()?;
        self.geom().validate()?;
        Ok(count)
    }

    fn attrs(&self) -> ConvAttrs {
        ConvAttrs::new(&self.windows, size_attr_to_i64(self.groups))
    }

    /// y = `conv2d(x, w)`.
    pub fn forward<'g>(&self, x: Var<'g>, w: Var<'g>) -> Var<'g> {
        x.g.emit1(Op::CONV2D, &[x, w], &self.attrs().list())
    }

    /// dx = `conv2d_input_grad(dy, w)`.
    pub fn input_grad<'g>(&self, dy: Var<'g>, w: Var<'g>) -> Var<'g> {
        dy.g.emit1(Op::CONV2D_INPUT_GRAD, &[dy, w], &self.attrs().input_grad(self.windows.size).list())
    }

    /// dw = `conv2d_weight_grad(x, dy)`.
    pub fn weight_grad<'g>(&self, x: Var<'g>, dy: Var<'g>) -> Var<'g> {
        x.g.emit1(Op::CONV2D_WEIGHT_GRAD, &[x, dy], &self.attrs().weight_grad(self.windows.kernel).list())
    }
}
