//! The loops: one operation over slices, compiled for each instruction set.
//!
//! Invariant: element `i` of the result depends on element `i` of the operands alone.

pub(super) use super::element_numbers::{ElementInt, ElementNumber};
use crate::float::Float;
use crate::simd;
use bytemuck::{Pod, cast_slice, cast_slice_mut};
use std::ops;

/// A unary operation. The value carries the immediates.
pub(super) trait ElementMap<T>: Copy {
    fn at(self, x: T) -> T;
}

/// A binary operation.
pub(super) trait ElementZip<T>: Copy {
    type Out: Pod;
    fn at(self, x: T, y: T) -> Self::Out;
}

simd! {
    /// `dst` = op(a).
    pub(super) fn map_elements[T: Pod, O: ElementMap<T>](op: O, dst: &mut [T], a: &[T]) {
        for (d, x) in dst.iter_mut().zip(a) {
            *d = op.at(*x);
        }
    }
}

simd! {
    /// `dst` = op(a, b).
    pub(super) fn zip_elements[T: Pod, O: ElementZip<T>](op: O, dst: &mut [O::Out], a: &[T], b: &[T]) {
        for ((d, x), y) in dst.iter_mut().zip(a).zip(b) {
            *d = op.at(*x, *y);
        }
    }
}

/// Words that `select` picks by bit masks.
pub(super) trait ElementWord: Pod + ops::BitAnd<Output = Self> + ops::BitXor<Output = Self> {
    /// All bits set, or none.
    fn mask(on: bool) -> Self;
}

macro_rules! words {
    ($($t:ident)*) => {$(
        impl ElementWord for $t {
            #[inline(always)]
            fn mask(on: bool) -> $t { (on as $t).wrapping_neg() }
        }
    )*};
}

words! { u8 u16 u32 u64 }

simd! {
    fn choose_element_loops[W: ElementWord](dst: &mut [W], cond: &[u8], b: &[W], c: &[W]) {
        for (((d, k), x), y) in dst.iter_mut().zip(cond).zip(b).zip(c) {
            *d = *y ^ (*x ^ *y) & W::mask(*k != 0);
        }
    }
}

/// `dst` = b if the byte of `cond` is not 0, else c. Uses bit masks: a selection between two loads would become a
/// gather.
pub(super) fn select_elements<T: Pod>(dst: &mut [T], cond: &[u8], b: &[T], c: &[T]) {
    match size_of::<T>() {
        8 => choose_element_loops::<u64>(cast_slice_mut(dst), cond, cast_slice(b), cast_slice(c)),
        4 => choose_element_loops::<u32>(cast_slice_mut(dst), cond, cast_slice(b), cast_slice(c)),
        2 => choose_element_loops::<u16>(cast_slice_mut(dst), cond, cast_slice(b), cast_slice(c)),
        _ => choose_element_loops::<u8>(cast_slice_mut(dst), cond, cast_slice(b), cast_slice(c)),
    }
}

/// `dst` = by(a, b), 0 where b is 0. Returns the first position with b = 0.
pub(super) fn divide_elements<T: ElementInt>(dst: &mut [T], a: &[T], b: &[T], by: impl Fn(T, T) -> T) -> Option<usize> {
    checked_element_loop(dst, a, b, |y| y == T::default(), by)
}

/// `dst` = aᵇ, 0 where b is below 0. Returns the first position with such a b.
pub(super) fn raise_elements<T: ElementInt>(dst: &mut [T], a: &[T], b: &[T]) -> Option<usize> {
    checked_element_loop(dst, a, b, |y| y < T::default(), T::power)
}

#[inline(always)]
fn checked_element_loop<T: ElementInt>(
    dst: &mut [T],
    a: &[T],
    b: &[T],
    at_fault: impl Fn(T) -> bool,
    by: impl Fn(T, T) -> T,
) -> Option<usize> {
    let mut bad = false;
    for ((d, x), y) in dst.iter_mut().zip(a).zip(b) {
        let fault = at_fault(*y);
        *d = if fault { T::default() } else { by(*x, *y) };
        bad |= fault;
    }
    if bad { b.iter().position(|y| at_fault(*y)) } else { None }
}

macro_rules! maps {
    ($bound:ident: $($name:ident |$x:ident| $e:expr;)*) => {$(
        #[derive(Clone, Copy, Default)]
        pub(super) struct $name;
        impl<T: $bound> ElementMap<T> for $name {
            #[inline(always)]
            fn at(self, $x: T) -> T { $e }
        }
    )*};
}

macro_rules! zips {
    ($bound:ident -> $out:ty: $($name:ident |$x:ident, $y:ident| $e:expr;)*) => {$(
        #[derive(Clone, Copy, Default)]
        pub(super) struct $name;
        impl<T: $bound> ElementZip<T> for $name {
            type Out = $out;
            #[inline(always)]
            fn at(self, $x: T, $y: T) -> $out { $e }
        }
    )*};
}

maps! { ElementNumber:
    Neg |x| x.neg();
    Abs |x| ElementNumber::abs(x);
    Sign |x| x.sign();
}

maps! { Float:
    Floor |x| x.floor();
    Ceil |x| x.ceil();
    Round |x| x.round_even();
    // NaN fails the comparison and passes through.
    Relu |x| if x <= T::ZERO { T::ZERO } else { x };
}

zips! { ElementNumber -> T:
    Add |x, y| x.add(y);
    Sub |x, y| x.sub(y);
    SubFrom |x, y| y.sub(x);
    // A step of one operand, in a loop for two.
    NegFirst |x, _y| x.neg();
    Mul |x, y| x.mul(y);
    Max |x, y| ElementNumber::max(x, y);
    Min |x, y| ElementNumber::min(x, y);
}

maps! { ElementInt:
    BitNot |x| x.bit_not();
}

zips! { ElementInt -> T:
    BitAnd |x, y| x.bit_and(y);
    BitOr |x, y| x.bit_or(y);
    BitXor |x, y| x.bit_xor(y);
    ShiftLeft |x, y| x.shift_left(y);
    ShiftRight |x, y| x.shift_right(y);
}

zips! { Float -> T:
    Div |x, y| x / y;
    DivFrom |x, y| y / x;
    // As `NegFirst`.
    RecipFirst |x, _y| T::ONE / x;
    Gate |x, y| if x > T::ZERO { y } else { T::ZERO };
    TanhGrad |x, y| y * (T::ONE - x * x);
    SigmoidGrad |x, y| y * (x * (T::ONE - x));
}

zips! { ElementNumber -> u8:
    Equal |x, y| (x == y) as u8;
    Differ |x, y| (x != y) as u8;
    Less |x, y| (x < y) as u8;
    LessEqual |x, y| (x <= y) as u8;
    Greater |x, y| (x > y) as u8;
    GreaterEqual |x, y| (x >= y) as u8;
}

/// a where a > 0, else slope · a.
#[derive(Clone, Copy)]
pub(super) struct LeakyRelu<T>(pub T);

impl<T: Float> ElementMap<T> for LeakyRelu<T> {
    #[inline(always)]
    fn at(self, x: T) -> T {
        let low = self.0 * x;
        if x > T::ZERO { x } else { low }
    }
}

/// min(max(a, lo), hi); NaN stays.
#[derive(Clone, Copy)]
pub(super) struct Clamp<T>(pub T, pub T);

impl<T: ElementNumber> ElementMap<T> for Clamp<T> {
    #[inline(always)]
    fn at(self, x: T) -> T {
        let x = if x < self.0 { self.0 } else { x };
        if x > self.1 { self.1 } else { x }
    }
}

macro_rules! truths {
    ($($name:ident |$x:ident, $y:ident| $e:expr;)*) => {$(
        #[derive(Clone, Copy, Default)]
        pub(super) struct $name;
        impl ElementZip<u8> for $name {
            type Out = u8;
            #[inline(always)]
            fn at(self, $x: u8, $y: u8) -> u8 { ($e) as u8 }
        }
    )*};
}

truths! {
    And |x, y| (x != 0) & (y != 0);
    Or |x, y| (x | y) != 0;
    Xor |x, y| (x != 0) != (y != 0);
    Same |x, y| (x != 0) == (y != 0);
}

/// Logical not.
#[derive(Clone, Copy, Default)]
pub(super) struct Not;

impl ElementMap<u8> for Not {
    #[inline(always)]
    fn at(self, x: u8) -> u8 {
        (x == 0) as u8
    }
}
