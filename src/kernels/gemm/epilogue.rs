//! What happens to a block of C after its last sum, while it is still in cache: bias, then activation.
//!
//! Invariant: applied once to each element. `blocked` and `vector` call it; op lowerings name it through [`Act`].

use super::tile::GemmFloat;

/// An activation function applied to C.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Act {
    /// The identity.
    #[default]
    None = 0,
    /// max(x, 0); NaN stays NaN.
    Relu = 1,
}

impl Act {
    /// The activation of a parameter word.
    pub(super) fn from_word(word: u64) -> Act {
        match word {
            0 => Act::None,
            1 => Act::Relu,
            _ => unreachable!("activation {word}"),
        }
    }
}

/// The slice function of an activation; `None` where there is nothing to do.
pub fn act_fn<T: GemmFloat>(act: Act) -> Option<fn(&mut [T])> {
    match act {
        Act::None => None,
        Act::Relu => Some(relu::<T>),
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

crate::simd! {
    fn add_row[T: GemmFloat](x: &mut [T], bias: &[T]) {
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

/// Bias and activation of one product.
#[derive(Clone, Copy)]
pub struct Epilogue<'a, T> {
    /// One number for each column of C, or none.
    pub bias: Option<&'a [T]>,
    /// The activation's slice function.
    pub act: Option<fn(&mut [T])>,
}

impl<T: GemmFloat> Epilogue<'_, T> {
    /// Finishes columns `from .. from + cols` of whole rows of C, which are `n` long.
    pub fn apply(&self, c: &mut [T], n: usize, from: usize, cols: usize) {
        match self.bias {
            Some([bias]) => add_one(c, *bias),
            Some(bias) => {
                let bias = &bias[from..from + cols];
                c.chunks_exact_mut(n).for_each(|row| add_row(&mut row[from..from + cols], bias));
            }
            None => {}
        }
        let Some(act) = self.act else { return };
        if cols == n {
            return act(c);
        }
        c.chunks_exact_mut(n).for_each(|row| act(&mut row[from..from + cols]));
    }
}
