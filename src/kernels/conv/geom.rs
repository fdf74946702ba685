//! The geometry of a 2-D convolution: sizes, checks of user input, and the encoding as words of an instruction.
//!
//! Invariant: kernels require a geometry that [`ConvGeom::validate`] accepts. Op definitions build and check it,
//! lowering encodes it as words, and the entry points decode it.

use crate::window_sizes::{count_windows, offsets_fit_u32};

/// Sizes and attributes of `conv2d`: x `[n, c_in, h, w]`, weight `[c_out, c_in / groups, kh, kw]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ConvGeom {
    /// Images; may be 0.
    pub n: usize,
    /// Input channels.
    pub c_in: usize,
    /// Input height.
    pub h: usize,
    /// Input width.
    pub w: usize,
    /// Output channels.
    pub c_out: usize,
    /// Kernel height.
    pub kh: usize,
    /// Kernel width.
    pub kw: usize,
    /// Stride of windows, vertical and horizontal.
    pub stride: [usize; 2],
    /// Zeros around the image: top, bottom, left, right.
    pub pad: [usize; 4],
    /// Distance between the taps of a window, down and across.
    pub dilation: [usize; 2],
    /// Independent groups of channels.
    pub groups: usize,
}

impl ConvGeom {
    /// Number of words of [`ConvGeom::to_words`].
    pub const WORDS: usize = 16;

    /// Checks the geometry; `Err` says what is wrong.
    pub fn validate(&self) -> Result<(), &'static str> {
        let [t, b, l, r] = self.pad;
        if self.c_in == 0 || self.c_out == 0 || self.h == 0 || self.w == 0 {
            return Err("a convolution needs at least one channel and one pixel");
        }
        if self.kh == 0 || self.kw == 0 || self.stride.contains(&0) || self.dilation.contains(&0) {
            return Err("kernel, stride and dilation must be positive");
        }
        if self.groups == 0 || !self.c_in.is_multiple_of(self.groups) || !self.c_out.is_multiple_of(self.groups) {
            return Err("groups must divide the input and the output channels");
        }
        let rows = count_windows(self.h, self.kh, self.stride[0], [t, b], self.dilation[0]);
        let cols = count_windows(self.w, self.kw, self.stride[1], [l, r], self.dilation[1]);
        let (Some(rows), Some(cols)) = (rows, cols) else {
            return Err("the kernel window is larger than the padded image");
        };
        let plane = [self.h.saturating_add(t).saturating_add(b), self.w.saturating_add(l).saturating_add(r)];
        let [s0, s1] = self.stride.map(|s| s.saturating_mul(2));
        let taps = [self.c_in.max(self.c_out), self.kh, self.kw];
        let inner =
            offsets_fit_u32(&[self.c_in.max(self.c_out), plane[0].saturating_add(s0), plane[1].saturating_add(s1)]);
        if !inner || !offsets_fit_u32(&taps) || !offsets_fit_u32(&[self.c_out, rows, cols]) {
            return Err("the image or the kernel is too large");
        }
        Ok(())
    }

    /// Output height; 0 when no window fits.
    pub fn out_h(&self) -> usize {
        count_windows(self.h, self.kh, self.stride[0], [self.pad[0], self.pad[1]], self.dilation[0]).unwrap_or(0)
    }

    /// Output width; 0 when no window fits.
    pub fn out_w(&self) -> usize {
        count_windows(self.w, self.kw, self.stride[1], [self.pad[2], self.pad[3]], self.dilation[1]).unwrap_or(0)
    }

    /// Elements of x and dx.
    pub fn x_len(&self) -> usize {
        self.n * self.c_in * self.h * self.w
    }

    /// Elements of y and dy.
    pub fn y_len(&self) -> usize {
        self.n * self.c_out * self.out_h() * self.out_w()
    }

    /// Elements of the weight and of its gradient.
    pub fn w_len(&self) -> usize {
        self.c_out * self.taps()
    }

    /// Multiplications for one output element: `c_in / groups * kh * kw`.
    pub fn taps(&self) -> usize {
        self.c_in / self.groups * self.kh * self.kw
    }

    /// Whether each window is one pixel, and there is a window for each pixel.
    pub(super) fn windows_are_pixels(&self) -> bool {
        self.kh * self.kw == 1 && self.stride == [1, 1] && self.pad == [0; 4]
    }

    /// The geometry as parameter words.
    pub fn to_words(self) -> [u64; Self::WORDS] {
        let ([s0, s1], [t, b, l, r], [d0, d1]) = (self.stride, self.pad, self.dilation);
        [self.n, self.c_in, self.h, self.w, self.c_out, self.kh, self.kw, s0, s1, t, b, l, r, d0, d1, self.groups]
            .map(|v| v as u64)
    }

    /// Decodes [`ConvGeom::to_words`]; ignores words after the geometry.
    ///
    /// # Panics
    /// If there are fewer than [`ConvGeom::WORDS`] words.
    pub fn from_words(words: &[u64]) -> ConvGeom {
        let v = |i: usize| words[i] as usize;
        ConvGeom {
            n: v(0),
            c_in: v(1),
            h: v(2),
            w: v(3),
            c_out: v(4),
            kh: v(5),
            kw: v(6),
            stride: [v(7), v(8)],
            pad: [v(9), v(10), v(11), v(12)],
            dilation: [v(13), v(14)],
            groups: v(15),
        }
    }
}
