//! The functions that apply an activation, or the derivative of one, to a slice of C.

use super::act::Act;
use super::gemm_float::GemmFloat;
use crate::simd::Unmasked;
use crate::vmath;

/// The function that applies an activation to a slice. `None` for [`Act::None`] and act-grad epilogues.
pub fn act_fn<T: GemmFloat>(act: Act) -> Option<fn(&mut [T])> {
    match act {
        Act::None | Act::ReluGrad | Act::TanhGrad | Act::SigmoidGrad | Act::Mul => None,
        Act::Relu => Some(act_fn_relu::<T>),
        Act::Gelu => Some(gelu::<T>),
        Act::GeluTanh => Some(gelu_tanh::<T>),
        Act::Silu => Some(silu::<T>),
        Act::Tanh => Some(tanh::<T>),
        Act::Sigmoid => Some(sigmoid::<T>),
    }
}

/// The function that multiplies a slice of C by the derivative of an activation. It takes the derivative from its
/// second argument, the same slice of the act-grad operand. `None` for an activation.
pub fn act_grad_fn<T: GemmFloat>(act: Act) -> Option<fn(&mut [T], &[T])> {
    match act {
        Act::ReluGrad => Some(act_fn_relu_grad::<T>),
        Act::TanhGrad => Some(tanh_grad::<T>),
        Act::SigmoidGrad => Some(sigmoid_grad::<T>),
        Act::Mul => Some(mul::<T>),
        _ => None,
    }
}

crate::simd! {
    fn act_fn_relu[T: GemmFloat](x: &mut [T]) {
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

// The bits are those of the tile interpreter.
crate::simd! {
    fn act_fn_relu_grad[T: GemmFloat](x: &mut [T], r: &[T]) {
        let unmasked = Unmasked::new();
        for (x, r) in x.iter_mut().zip(r) {
            *x = unmasked.of(if *r > T::ZERO { *x } else { T::ZERO });
        }
    }
}

act_grads! {
    tanh_grad |x, r| x * (T::ONE - r * r);
    sigmoid_grad |x, r| x * (r * (T::ONE - r));
    mul |x, r| x * r;
}
