//! What happens to a block of C after its last sum, while it is still in cache: bias, then activation.
//!
//! Invariant: applied once to each element. `blocked`, `low` and `mod.rs` call it; op lowerings name it through [`Act`].

use super::tile::GemmFloat;
use crate::kernels::abi::Panel;
use crate::kernels::float::Float;
use crate::kernels::vmath;

/// An activation function applied to C: bit for bit that of the point-wise op of its name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
}

impl Act {
    /// All activations, by their number.
    pub const ALL: [Act; 7] = [Act::None, Act::Relu, Act::Gelu, Act::GeluTanh, Act::Silu, Act::Tanh, Act::Sigmoid];

    /// The activation of a parameter word.
    pub(crate) fn from_word(word: u64) -> Act {
        Act::ALL[word as usize]
    }
}

/// The slice function of an activation; `None` where there is nothing to do.
pub fn act_fn<T: GemmFloat>(act: Act) -> Option<fn(&mut [T])> {
    match act {
        Act::None => None,
        Act::Relu => Some(relu::<T>),
        Act::Gelu => Some(gelu::<T>),
        Act::GeluTanh => Some(gelu_tanh::<T>),
        Act::Silu => Some(silu::<T>),
        Act::Tanh => Some(tanh::<T>),
        Act::Sigmoid => Some(sigmoid::<T>),
    }
}

crate::simd! {
    fn relu[T: GemmFloat](x: &mut [T]) {
        for x in x {
            // As the tile interpreter: −0 becomes +0, NaN stays.
            *x = if *x <= T::ZERO { T::ZERO } else { *x };
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
pub struct Descent<T> {
    /// The learning rate.
    pub lr: T,
    /// The weight decay.
    pub decay: T,
}

impl<T: Float> Descent<T> {
    /// p after a step by gradient `g`, in the order of the kernel of the step.
    #[inline(always)]
    pub fn apply(self, p: T, g: T) -> T {
        let g = if self.decay == T::ZERO { g } else { g + p * self.decay };
        p - self.lr * g
    }
}

/// Bias and activation of one product.
#[derive(Clone, Copy)]
pub struct Epilogue<'a, T> {
    /// One number for each column of the part of C, or none.
    pub bias: Option<&'a [T]>,
    /// The activation's slice function.
    pub act: Option<fn(&mut [T])>,
    /// What the product is the gradient for: it is not stored, but C takes the step.
    pub step: Option<Descent<T>>,
}

impl<T: GemmFloat> Epilogue<'_, T> {
    /// Finishes a part of C whose first column is `from` of those that the bias is for.
    pub fn apply(&self, mut c: Panel<'_, T>, from: usize) {
        match (self.bias, c.flat()) {
            (Some([bias]), Some(c)) => add_one(c, *bias),
            (Some(bias), _) => {
                let bias = &bias[from..from + c.cols()];
                (0..c.rows()).for_each(|i| add_row(c.row(i), bias));
            }
            (None, _) => {}
        }
        self.activate(c);
    }

    /// As [`Epilogue::apply`], where the bias is in already.
    pub fn activate(&self, mut c: Panel<'_, T>) {
        let Some(act) = self.act else { return };
        match c.flat() {
            Some(c) => act(c),
            None => (0..c.rows()).for_each(|i| act(c.row(i))),
        }
    }
}
