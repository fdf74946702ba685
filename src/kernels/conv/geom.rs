//! The geometry of a 2-D convolution: sizes, and checks of user input.
//!
//! Invariant: kernels require a geometry that [`ConvGeom::count`] accepts. Op definitions make it of shapes and
//! attributes; it is the parameters of the kernels.

use crate::params::params;
use crate::window::{WindowGeometry, offsets_fit_u32};
use arenagrad_arena::ensure;

params! {
    /// A 2-D convolution: x `[n, c_in, h, w]`, weight `[c_out, c_in / groups, kh, kw]`.
    pub struct ConvGeom {
        /// Images; may be 0.
        pub n: usize,
        /// Input channels.
        pub c_in: usize,
        /// Output channels.
        pub c_out: usize,
        /// Independent groups of channels.
        pub groups: usize,
        /// Windows over the planes of x. What is padded is zero.
        pub windows: WindowGeometry<2>,
        /// Whether it is computed by Winograd's minimal filtering; see [`Convolutions`](super::Convolutions).
        pub winograd: bool,
    }
}

impl ConvGeom {
    /// Height and width of the output, or the reason why the kernels refuse the convolution.
    pub fn count(&self) -> Result<[usize; 2], String> {
        let [ho, wo] = self.windows.count()?;
        let WindowGeometry { size: [h, w], kernel: [kh, kw], stride, pad: [rows, cols], .. } = self.windows;
        ensure!(
            self.c_in > 0 && self.c_out > 0 && h > 0 && w > 0,
            "a convolution needs at least one channel and one pixel"
        );
        ensure!(
            self.groups > 0 && self.c_in.is_multiple_of(self.groups) && self.c_out.is_multiple_of(self.groups),
            "groups must divide the input and the output channels"
        );
        // Phases of a strip round its rows and columns up.
        let span = |size: usize, pad: [usize; 2], s: usize| {
            pad.into_iter().fold(size, usize::saturating_add).saturating_add(s.saturating_mul(2))
        };
        let widest = self.c_in.max(self.c_out);
        let fit = offsets_fit_u32(&[widest, span(h, rows, stride[0]), span(w, cols, stride[1])])
            && offsets_fit_u32(&[widest, kh, kw])
            && offsets_fit_u32(&[self.c_out, ho, wo]);
        ensure!(fit, "the image or the kernel is too large");
        Ok([ho, wo])
    }

    /// Elements of x and dx.
    pub fn x_len(&self) -> usize {
        self.n * self.c_in * self.windows.size.iter().product::<usize>()
    }

    /// Elements of y and dy.
    pub fn y_len(&self) -> usize {
        self.n * self.c_out * self.windows.out().iter().product::<usize>()
    }

    /// Elements of the weight and of its gradient.
    pub fn w_len(&self) -> usize {
        self.c_out * self.taps()
    }

    /// Taps of a window in one plane.
    pub fn window(&self) -> usize {
        self.windows.kernel.iter().product()
    }

    /// Multiplications for one output element: `c_in / groups * kh * kw`.
    pub fn taps(&self) -> usize {
        self.c_in / self.groups * self.window()
    }

    /// Whether each window is one pixel, and there is a window for each pixel.
    pub(super) fn windows_are_pixels(&self) -> bool {
        self.window() == 1 && self.windows.stride == [1, 1] && self.windows.pad == [[0; 2]; 2]
    }
}
