//! What happens to a block of C after its last sum, while it is still in cache: bias, then activation; or the gradient
//! of an activation.
//!
//! Invariant: applied once to each element. `blocked`, `transposed`, `bf16` and `mod.rs` call it; op lowerings name it
//! through [`Act`].

use super::float::GemmFloat;
use crate::kernels::abi::MatrixMut;
use crate::kernels::float::Float;
use crate::kernels::simd::Unmasked;
use crate::kernels::vmath;

/// An activation function applied to C: bit for bit that of the pointwise op of its name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Act {
    /// The identity.
    #[default]
    None = 0,
    /// max(x, 0); NaN stays NaN.
    Relu = 1,
    /// x·Φ(x).
    Gelu = 2,
    /// ½x(1 + tanh u).
    GeluTanh = 3,
    /// x·sigmoid(x).
    Silu = 4,
    /// tanh x.
    Tanh = 5,
    /// 1/(1 + e⁻ˣ).
    Sigmoid = 6,
    /// x where r > 0, else 0, for a matrix r like C: relu's derivative at its result r times x.
    ReluGrad = 7,
    /// x·(1 − r²), as tanh's.
    TanhGrad = 8,
    /// x·r·(1 − r), as sigmoid's.
    SigmoidGrad = 9,
    /// x·r.
    Mul = 10,
}

impl Act {
    /// All activations, by their number.
    pub const ALL: [Act; 11] = [
        Act::None,
        Act::Relu,
        Act::Gelu,
        Act::GeluTanh,
        Act::Silu,
        Act::Tanh,
        Act::Sigmoid,
        Act::ReluGrad,
        Act::TanhGrad,
        Act::SigmoidGrad,
        Act::Mul,
    ];

    /// Whether it is an activation's gradient: then the product has no bias, and r in its place.
    #[inline]
    pub fn gates(self) -> bool {
        self >= Act::ReluGrad
    }

    /// The activation of a parameter word.
    pub(crate) fn from_word(word: u64) -> Act {
        Act::ALL[word as usize]
    }
}

/// The slice function of an activation; `None` where there is nothing to do, or another operand to do it by.
pub fn act_fn<T: GemmFloat>(act: Act) -> Option<fn(&mut [T])> {
    match act {
        Act::None | Act::ReluGrad | Act::TanhGrad | Act::SigmoidGrad | Act::Mul => None,
        Act::Relu => Some(relu::<T>),
        Act::Gelu => Some(gelu::<T>),
        Act::GeluTanh => Some(gelu_tanh::<T>),
        Act::Silu => Some(silu::<T>),
        Act::Tanh => Some(tanh::<T>),
        Act::Sigmoid => Some(sigmoid::<T>),
    }
}

/// The slice function of an activation's gradient; `None` for an activation.
pub fn act_grad_fn<T: GemmFloat>(act: Act) -> Option<fn(&mut [T], &[T])> {
    match act {
        Act::ReluGrad => Some(relu_gate::<T>),
        Act::TanhGrad => Some(tanh_gate::<T>),
        Act::SigmoidGrad => Some(sigmoid_gate::<T>),
        Act::Mul => Some(times::<T>),
        _ => None,
    }
}

crate::simd! {
    fn relu[T: GemmFloat](x: &mut [T]) {
        for x in x {
            *x = x.positive();
        }
    }
}

macro_rules! smooth {
    ($($f:ident)*) => {$(
        crate::simd! {
            fn $f[T: GemmFloat](x: &mut [T]) {
                for x in x {
                    *x = vmath::$f(*x);
                }
            }
        }
    )*};
}

smooth! { gelu gelu_tanh silu tanh sigmoid }

macro_rules! act_grads {
    ($($f:ident |$x:ident, $r:ident| $e:expr;)*) => {$(
        crate::simd! {
            fn $f[T: GemmFloat](x: &mut [T], r: &[T]) {
                for (x, r) in x.iter_mut().zip(r) {
                    let ($x, $r) = (*x, *r);
                    *x = $e;
                }
            }
        }
    )*};
}

// Bit for bit what the tile interpreter does.
crate::simd! {
    fn relu_gate[T: GemmFloat](x: &mut [T], r: &[T]) {
        let unmasked = Unmasked::new();
        for (x, r) in x.iter_mut().zip(r) {
            *x = unmasked.of(if *r > T::ZERO { *x } else { T::ZERO });
        }
    }
}

act_grads! {
    tanh_gate |x, r| x * (T::ONE - r * r);
    sigmoid_gate |x, r| x * (r * (T::ONE - r));
    times |x, r| x * r;
}

crate::simd! {
    /// Adds a bias to a row.
    pub fn add_row[T: GemmFloat](x: &mut [T], bias: &[T]) {
        for (x, b) in x.iter_mut().zip(bias) {
            *x += *b;
        }
    }
}

crate::simd! {
    fn add_one[T: GemmFloat](x: &mut [T], bias: T) {
        for x in x {
            *x += bias;
        }
    }
}

/// A step of plain SGD.
#[derive(Clone, Copy)]
pub struct SgdEpilogue<T> {
    /// The learning rate.
    pub lr: T,
    /// The weight decay.
    pub decay: T,
}

impl<T: Float> SgdEpilogue<T> {
    /// p after a step by gradient `g`, in the order of the kernel of the step.
    #[inline(always)]
    pub fn apply(self, p: T, g: T) -> T {
        let g = if self.decay == T::ZERO { g } else { g + p * self.decay };
        p - self.lr * g
    }
}

/// The gradient of an activation, by its result or its operand.
#[derive(Clone, Copy)]
pub struct ActGrad<'a, T> {
    /// Its slice function.
    pub f: fn(&mut [T], &[T]),
    /// What it is by, from the block of C on.
    pub by: &'a [T],
    /// Distance between its rows.
    pub row: usize,
}

impl<T: GemmFloat> ActGrad<'_, T> {
    /// Applies it to a block of C that begins at row and column `at`.
    fn apply(&self, mut c: MatrixMut<'_, T>, at: (usize, usize)) {
        let (row, cols) = (self.row, c.cols());
        let by = |i: usize| &self.by[(at.0 + i) * row + at.1..];
        match c.flat() {
            Some(c) if cols == row => (self.f)(c, &by(0)[..c.len()]),
            _ => (0..c.rows()).for_each(|i| (self.f)(c.row(i), &by(i)[..cols])),
        }
    }
}

/// What happens to C after its last sum.
#[derive(Clone, Copy)]
pub struct Epilogue<'a, T> {
    /// One number for each column of the block of C, or none.
    pub bias: Option<&'a [T]>,
    /// What happens after the bias is added.
    pub kind: Kind<'a, T>,
}

/// What happens to C after the bias is added.
#[derive(Clone, Copy)]
pub enum Kind<'a, T> {
    /// Nothing.
    None,
    /// An activation, by its slice function.
    Activation(fn(&mut [T])),
    /// An activation's gradient.
    ActGrad(ActGrad<'a, T>),
    /// The product is not stored: C takes a step by it.
    Sgd(SgdEpilogue<T>),
}

impl<T: GemmFloat> Epilogue<'_, T> {
    /// An epilogue that does nothing.
    pub const NONE: Epilogue<'static, T> = Epilogue { bias: None, kind: Kind::None };

    /// The step that C takes, if that is the epilogue.
    pub fn sgd(&self) -> Option<SgdEpilogue<T>> {
        if let Kind::Sgd(step) = self.kind { Some(step) } else { None }
    }

    /// Finishes a block of C that begins at row and column `at` of those that this is for.
    pub fn apply(&self, mut c: MatrixMut<'_, T>, at: (usize, usize)) {
        match (self.bias, c.flat()) {
            (Some([bias]), Some(c)) => add_one(c, *bias),
            (Some(bias), _) => {
                let bias = &bias[at.1..at.1 + c.cols()];
                (0..c.rows()).for_each(|i| add_row(c.row(i), bias));
            }
            (None, _) => {}
        }
        self.activate(c, at);
    }

    /// As [`Epilogue::apply`], where the bias is in already.
    pub fn activate(&self, mut c: MatrixMut<'_, T>, at: (usize, usize)) {
        match self.kind {
            // Tiles have taken the step.
            Kind::None | Kind::Sgd(_) => {}
            Kind::ActGrad(act_grad) => act_grad.apply(c, at),
            Kind::Activation(act) => match c.flat() {
                Some(c) => act(c),
                None => (0..c.rows()).for_each(|i| act(c.row(i))),
            },
        }
    }
}
