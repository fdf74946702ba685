//! Each operation on each type against a plain scalar form.

use super::*;
use crate::vmath;
use bytemuck::Pod;
use half::{bf16, f16};

/// What one operation gives for bytes of `a`, `b`, `c`.
fn one(op: TileOp, elem: DType, out: DType, imm: [f64; 2], operands: &[Buffer]) -> Buffer {
    let len = operands.first().map_or(5, |b| b.len / op.operand(elem, 0).size());
    let inputs = (0..op.arity()).map(|k| full(op.operand(elem, k))).collect();
    let step = TileStep { op, elem, out, args: [0, 1, 2], imm };
    let p = TileProgram { inputs, steps: vec![step], outputs: vec![op.arity() as u16], len };
    run_in(&p, operands, &[], 1).0.remove(0)
}

fn specials(n: usize) -> Vec<f64> {
    let mut rng = Rng(11);
    let edge = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e30, -1e30];
    let spread = (0..n).map(|_| rng.float());
    edge.into_iter().cycle().take(n).zip(spread).enumerate().map(|(i, (e, s))| if i % 3 == 0 { e } else { s }).collect()
}

fn unary_reference(op: TileOp, x: f64, imm: [f64; 2]) -> f64 {
    use TileOp::*;
    match op {
        Neg => -x,
        Abs => x.abs(),
        Sign => {
            if x > 0.0 {
                1.0
            } else if x < 0.0 {
                -1.0
            } else {
                x
            }
        }
        Exp => x.exp(),
        Expm1 => x.exp_m1(),
        Log => x.ln(),
        Log1p => x.ln_1p(),
        Sqrt => x.sqrt(),
        Rsqrt => 1.0 / x.sqrt(),
        Recip => 1.0 / x,
        Sin => x.sin(),
        Cos => x.cos(),
        Tan => x.tan(),
        Atan => x.atan(),
        Tanh => x.tanh(),
        Sigmoid => 1.0 / (1.0 + (-x).exp()),
        Erf => vmath::erf(x),
        Floor => x.floor(),
        Ceil => x.ceil(),
        Round => x.round_ties_even(),
        Relu => {
            if x > 0.0 || x.is_nan() {
                x
            } else {
                0.0
            }
        }
        LeakyRelu => {
            if x > 0.0 {
                x
            } else {
                imm[0] * x
            }
        }
        Elu => {
            if x > 0.0 {
                x
            } else {
                imm[0] * x.exp_m1()
            }
        }
        Gelu => 0.5 * x * (1.0 + vmath::erf(x / 2f64.sqrt())),
        GeluGrad => {
            let (x, half) = (x.clamp(-40.0, 40.0), std::f64::consts::FRAC_1_SQRT_2);
            0.5 * (1.0 + vmath::erf(x * half)) + x * (-0.5 * x * x).exp() * 0.3989422804014327
        }
        GeluTanh => 0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x)).tanh()),
        GeluTanhGrad => {
            // Outside this range there are products of zeros and infinities.
            let x = x.clamp(-30.0, 30.0);
            let k = (8.0 / std::f64::consts::PI).sqrt();
            let sigma = |v: f64| if v < 0.0 { v.exp() / (1.0 + v.exp()) } else { 1.0 / (1.0 + (-v).exp()) };
            let (v, slope) = (k * (x + 0.044715 * x * x * x), k * (1.0 + 0.134145 * x * x));
            sigma(v) * (1.0 + x * sigma(-v) * slope)
        }
        Silu => x / (1.0 + (-x).exp()),
        SiluGrad => {
            let x = x.clamp(-800.0, 800.0);
            let sigma = |v: f64| 1.0 / (1.0 + (-v).exp());
            sigma(x) * (1.0 + x * sigma(-x))
        }
        Softplus => x.max(0.0) + (-x.abs()).exp().ln_1p(),
        Trunc => x.trunc(),
        Asin => x.asin(),
        Acos => x.acos(),
        Sinh => x.sinh(),
        Cosh => x.cosh(),
        Asinh => x.asinh(),
        Acosh => x.acosh(),
        Atanh => x.atanh(),
        Exp2 => x.exp2(),
        Log2 => x.log2(),
        Log10 => x.log10(),
        Erfc => vmath::erfc(x),
        Erfinv => vmath::erfinv(x),
        Erfcinv => vmath::erfcinv(x),
        Lgamma => vmath::lgamma(x),
        Digamma => vmath::digamma(x),
        Polygamma => vmath::polygamma(imm[0] as usize, x),
        Clamp => {
            if x.is_nan() {
                x
            } else {
                x.max(imm[0]).min(imm[1])
            }
        }
        _ => panic!("{op:?} is not unary"),
    }
}

fn near(got: f64, want: f64, tol: f64) -> bool {
    got == want || (got.is_nan() && want.is_nan()) || (got - want).abs() <= tol * want.abs().max(1e-2)
}

#[test]
fn unary_floats() {
    let imm = [-0.75, 1.25];
    for op in TileOp::ALL.iter().copied().filter(|o| o.arity() == 1 && supports_operand_type(*o, DType::F32)) {
        if matches!(op, TileOp::Copy | TileOp::Cast) {
            continue;
        }
        let x = specials(700);
        let wide = one(op, DType::F64, DType::F64, imm, &[Buffer::of(&x)]);
        let narrow: Vec<f32> = x.iter().map(|v| *v as f32).collect();
        let small = one(op, DType::F32, DType::F32, imm, &[Buffer::of(&narrow)]);
        for (i, x) in x.iter().enumerate() {
            let (w, s) = (wide.values::<f64>()[i], small.values::<f32>()[i]);
            let want = unary_reference(op, *x, imm);
            assert!(near(w, want, 1e-13), "{op:?}({x}) = {w}, not {want}");
            let want = unary_reference(op, narrow[i] as f64, imm) as f32;
            assert!(near(s as f64, want as f64, 2e-5), "{op:?}({}) = {s}, not {want}", narrow[i]);
        }
    }
}

fn zeros_keep_their_sign<T: Pod + PartialEq>(elem: DType, op: TileOp, a: &[T], b: &[T], want: &[T]) {
    let got = one(op, elem, elem, [0.0; 2], &[Buffer::of(a), Buffer::of(b)]);
    assert_eq!(got.bytes(), cast_slice::<T, u8>(want), "{op:?}");
}

#[test]
fn binary_floats() {
    use TileOp::*;
    let (x, mut y) = (specials(900), specials(900));
    y.rotate_left(13);
    let floats: Vec<Vec<f32>> = [&x, &y].map(|v| v.iter().map(|e| *e as f32).collect()).to_vec();
    let pick = |a: f64, b: f64, first: bool| {
        if a.is_nan() || b.is_nan() {
            f64::NAN
        } else if first {
            a
        } else {
            b
        }
    };
    for op in [Add, Sub, Mul, Div, Max, Min, Pow, Gate] {
        let want = |a: f64, b: f64| match op {
            Add => a + b,
            Sub => a - b,
            Mul => a * b,
            Div => a / b,
            Max => pick(a, b, a > b),
            Min => pick(a, b, a < b),
            Gate if a > 0.0 => b,
            Gate => 0.0,
            _ => a.powf(b),
        };
        let wide = one(op, DType::F64, DType::F64, [0.0; 2], &[Buffer::of(&x), Buffer::of(&y)]);
        let small = one(op, DType::F32, DType::F32, [0.0; 2], &[Buffer::of(&floats[0]), Buffer::of(&floats[1])]);
        for i in 0..x.len() {
            let (w, s) = (wide.values::<f64>()[i], small.values::<f32>()[i]);
            assert!(near(w, want(x[i], y[i]), 0.0), "{op:?}({}, {}) = {w}", x[i], y[i]);
            let (a, b) = (floats[0][i], floats[1][i]);
            assert!(near(s as f64, want(a as f64, b as f64) as f32 as f64, 1e-7), "{op:?}({a}, {b}) = {s}");
        }
    }
    zeros_keep_their_sign(DType::F32, Max, &[0.0f32, -0.0, -0.0], &[-0.0, 0.0, -0.0], &[0.0, 0.0, -0.0]);
    zeros_keep_their_sign(DType::F64, Min, &[0.0f64, -0.0, 0.0], &[-0.0, 0.0, 0.0], &[-0.0, -0.0, 0.0]);
}

#[test]
fn gates_have_the_bits_of_the_steps_they_stand_for() {
    fn check<T: Pod + PartialEq + std::fmt::Debug>(
        elem: DType,
        x: &[T],
        y: &[T],
        op: TileOp,
        want: impl Fn(T, T) -> T,
    ) {
        let got = one(op, elem, elem, [0.0; 2], &[Buffer::of(x), Buffer::of(y)]);
        for (got, (x, y)) in got.values::<T>().iter().zip(x.iter().zip(y)) {
            let want = want(*x, *y);
            // Only NaN is not itself.
            #[allow(clippy::eq_op)]
            let nan = *got != *got && want != want;
            assert!(*got == want || nan, "{op:?}({x:?}, {y:?}) = {got:?}, not {want:?}");
        }
    }
    let (x, mut y) = (specials(900), specials(900));
    y.rotate_left(13);
    let [a, b] = [&x, &y].map(|v| v.iter().map(|e| *e as f32).collect::<Vec<f32>>());
    check(DType::F32, &a, &b, TileOp::TanhGrad, |x, y| y * (1.0 - x * x));
    check(DType::F64, &x, &y, TileOp::TanhGrad, |x, y| y * (1.0 - x * x));
    check(DType::F32, &a, &b, TileOp::SigmoidGrad, |x, y| y * (x * (1.0 - x)));
    check(DType::F64, &x, &y, TileOp::SigmoidGrad, |x, y| y * (x * (1.0 - x)));
}

#[test]
fn comparisons() {
    use TileOp::*;
    let (x, mut y) = (specials(300), specials(300));
    y.rotate_left(6);
    let ints = |v: &[f64]| v.iter().map(|e| (*e).clamp(-4.0, 4.0) as i64).collect::<Vec<_>>();
    let (i, j) = (ints(&x), ints(&y));
    for op in [Eq, Ne, Lt, Le, Gt, Ge] {
        let holds = |o: Option<std::cmp::Ordering>| match op {
            Eq => o.is_some_and(|o| o.is_eq()),
            Ne => !o.is_some_and(|o| o.is_eq()),
            Lt => o.is_some_and(|o| o.is_lt()),
            Le => o.is_some_and(|o| o.is_le()),
            Gt => o.is_some_and(|o| o.is_gt()),
            _ => o.is_some_and(|o| o.is_ge()),
        };
        let got = one(op, DType::F64, DType::Bool, [0.0; 2], &[Buffer::of(&x), Buffer::of(&y)]);
        let want: Vec<u8> = x.iter().zip(&y).map(|(a, b)| holds(a.partial_cmp(b)) as u8).collect();
        assert_eq!(got.bytes(), want, "{op:?}");
        let got = one(op, DType::I64, DType::Bool, [0.0; 2], &[Buffer::of(&i), Buffer::of(&j)]);
        let want: Vec<u8> = i.iter().zip(&j).map(|(a, b)| holds(Some(a.cmp(b))) as u8).collect();
        assert_eq!(got.bytes(), want, "{op:?}");
    }
}

/// x·2ᵇ or ⌊x/2ᵇ⌋; all bits leave if b is not in `0..bits`.
fn shifted(x: i128, b: i128, bits: u32, left: bool) -> i128 {
    let within = (0..i128::from(bits)).contains(&b);
    match (left, within) {
        (true, true) => x << b,
        (true, false) => 0,
        (false, true) => x >> b,
        (false, false) => x >> 127,
    }
}

fn floor_quotient(a: i128, b: i128) -> i128 {
    let q = a / b;
    if a % b != 0 && (a < 0) != (b < 0) { q - 1 } else { q }
}

macro_rules! integers {
    ($($test:ident $t:ident $elem:ident)*) => {$(
        #[test]
        fn $test() {
            use TileOp::*;
            let mut rng = Rng(3);
            let mut a: Vec<$t> = (0..600).map(|_| rng.next() as $t).collect();
            let mut b: Vec<$t> = (0..600).map(|_| rng.next() as $t | 1).collect();
            a[..6].copy_from_slice(&[$t::MIN, $t::MIN, $t::MAX, 0, 1, $t::MIN]);
            // Shifts within and beyond the type, too.
            (6..80).for_each(|i| b[i] = (i as $t) % 70 | 1);
            b[..6].copy_from_slice(&[(0 as $t).wrapping_sub(1), 1, 2, 3, $t::MAX, $t::MAX]);
            let imm = [-3.0, 77.0];
            let bufs = [Buffer::of(&a), Buffer::of(&b)];
            let moved = [BitNot, BitAnd, BitOr, BitXor, ShiftLeft, ShiftRight, Fmod, Remainder, FloorDivide];
            for op in [Neg, Abs, Sign, Add, Sub, Mul, Div, Max, Min, Clamp].into_iter().chain(moved) {
                let got = one(op, DType::$elem, DType::$elem, imm, &bufs[..op.arity()]);
                for ((g, &x), &y) in got.values::<$t>().iter().zip(&a).zip(&b) {
                    let wide = x as i128;
                    let want = match op {
                        Neg => (0 as $t).wrapping_sub(x),
                        Abs => wide.unsigned_abs() as $t,
                        Sign => wide.signum() as $t,
                        Add => x.wrapping_add(y),
                        Sub => x.wrapping_sub(y),
                        Mul => x.wrapping_mul(y),
                        Div => (wide / y as i128) as $t,
                        Max => x.max(y),
                        Min => x.min(y),
                        BitNot => !x,
                        BitAnd => x & y,
                        BitOr => x | y,
                        BitXor => x ^ y,
                        ShiftLeft => shifted(wide, y as i128, <$t>::BITS, true) as $t,
                        ShiftRight => shifted(wide, y as i128, <$t>::BITS, false) as $t,
                        Fmod => (wide % y as i128) as $t,
                        Remainder => (((wide % y as i128) + y as i128) % y as i128) as $t,
                        FloorDivide => floor_quotient(wide, y as i128) as $t,
                        _ => wide.clamp((-3).max($t::MIN as i128), 77) as $t,
                    };
                    assert_eq!(*g, want, "{op:?}({x}, {y})");
                }
            }
        }
    )*};
}

integers! { on_i8 i8 I8  on_u8 u8 U8  on_i32 i32 I32  on_i64 i64 I64  on_u32 u32 U32 }

/// Powers are products that wrap; an exponent below 0 gives 0 and a fault, and the first of them is named.
#[test]
fn integers_are_raised() {
    fn check<T: Pod + PartialEq + std::fmt::Debug>(elem: DType, a: &[T], b: &[T], want: &[T], bad: Option<usize>) {
        let p = TileProgram {
            len: a.len(),
            inputs: vec![Input { elem, access: Access::Full }; 2],
            steps: vec![TileStep::new(TileOp::Pow, elem, &[0, 1], [0.0; 2])],
            outputs: vec![2],
        };
        let (outs, first) = run_in(&p, &[Buffer::of(a), Buffer::of(b)], &[], 1);
        assert_eq!((outs[0].values::<T>(), first), (want, bad), "{elem}");
    }
    check(
        DType::I32,
        &[0, 0, -2, -1, 3, 7],
        &[0, 5, 31, i32::MAX, 21, 1],
        &[1, 0, i32::MIN, -1, 1_870_418_611, 7],
        None,
    );
    check(DType::I64, &[3, 2, 10], &[40, 64, 18], &[12_157_665_459_056_928_801u64 as i64, 0, 10i64.pow(18)], None);
    check(DType::U8, &[2u8, 3, 255], &[7, 5, 255], &[128, 243, 255], None);
    check(DType::I8, &[2i8, 2, 1, 5], &[-1, 6, -128, 3], &[0, 64, 0, 125], Some(0));
    check(DType::U32, &[2u32, 3], &[31, u32::MAX], &[1 << 31, 2_863_311_531], None);
}

#[test]
fn truths() {
    use TileOp::*;
    let (a, b) = (Buffer::of(&[0u8, 0, 1, 1, 7, 0]), Buffer::of(&[0u8, 1, 0, 1, 1, 9]));
    let run = |op: TileOp| one(op, DType::Bool, DType::Bool, [0.0; 2], &[a.clone(), b.clone()][..op.arity()]);
    assert_eq!(run(And).bytes(), [0, 0, 0, 1, 1, 0]);
    assert_eq!(run(Or).bytes(), [0, 1, 1, 1, 1, 1]);
    assert_eq!(run(Eq).bytes(), [1, 0, 0, 1, 1, 0]);
    assert_eq!(run(Ne).bytes(), [0, 1, 1, 0, 0, 1]);
    assert_eq!(run(Not).bytes(), [1, 1, 0, 0, 0, 1]);
}

#[test]
fn copy_and_select_move_bytes() {
    for &elem in DType::REAL {
        let bytes = |k: usize| Buffer::of(&(0..40 * elem.size()).map(|i| (i * k) as u8).collect::<Vec<_>>());
        let (x, y) = (bytes(3), bytes(5));
        assert_eq!(one(TileOp::Copy, elem, elem, [0.0; 2], std::slice::from_ref(&x)).bytes(), x.bytes());
        let cond = Buffer::of(&(0..40).map(|i| (i % 3) as u8).collect::<Vec<_>>());
        let got = one(TileOp::Select, elem, elem, [0.0; 2], &[cond, x.clone(), y.clone()]);
        for (i, cell) in got.bytes().chunks_exact(elem.size()).enumerate() {
            let from = if i % 3 != 0 { &x } else { &y };
            assert_eq!(cell, &from.bytes()[i * elem.size()..][..elem.size()]);
        }
    }
}

#[test]
fn constants() {
    let fill = |elem, imm| one(TileOp::Fill, elem, elem, imm, &[]);
    assert_eq!(fill(DType::F32, [0.1, 0.0]).values::<f32>(), [0.1f32; 5]);
    assert_eq!(fill(DType::F64, [0.1, 0.0]).values::<f64>(), [0.1f64; 5]);
    assert_eq!(fill(DType::F16, [1.5, 0.0]).values::<f16>(), [f16::from_f32(1.5); 5]);
    assert_eq!(fill(DType::BF16, [1.5, 0.0]).values::<bf16>(), [bf16::from_f32(1.5); 5]);
    assert_eq!(fill(DType::I64, [9.223372036854776e18, -2.0]).values::<i64>(), [i64::MAX - 1; 5]);
    assert_eq!(fill(DType::I8, [-1000.0, 0.0]).values::<i8>(), [-128i8; 5]);
    assert_eq!(fill(DType::I16, [-1e6, 0.0]).values::<i16>(), [i16::MIN; 5]);
    assert_eq!(fill(DType::U16, [-3.0, 5.0]).values::<u16>(), [2u16; 5]);
    assert_eq!(fill(DType::U64, [18446744073709551615.0, -2.0]).values::<u64>(), [u64::MAX - 1; 5]);
    assert_eq!(fill(DType::Bool, [2.0, 0.0]).values::<u8>(), [1u8; 5]);
}

/// `values` as `elem`, and what those are as `f64`.
fn encoded(elem: DType, values: &[f64]) -> (Buffer, Vec<f64>) {
    macro_rules! number {
        ($t:ident) => {{
            let v: Vec<$t> = values.iter().map(|x| *x as $t).collect();
            (Buffer::of(&v), v.iter().map(|x| *x as f64).collect())
        }};
    }
    match elem {
        DType::F32 => number!(f32),
        DType::F64 => number!(f64),
        DType::I8 => number!(i8),
        DType::U8 => number!(u8),
        DType::I32 => number!(i32),
        DType::I64 => number!(i64),
        DType::U32 => number!(u32),
        DType::I16 => number!(i16),
        DType::U16 => number!(u16),
        DType::U64 => number!(u64),
        DType::F16 => {
            let v: Vec<f16> = values.iter().map(|x| f16::from_f64(*x)).collect();
            (Buffer::of(&v), v.iter().map(|x| x.to_f64()).collect())
        }
        DType::BF16 => {
            let v: Vec<bf16> = values.iter().map(|x| bf16::from_f64(*x)).collect();
            (Buffer::of(&v), v.iter().map(|x| x.to_f64()).collect())
        }
        DType::Bool => {
            let v: Vec<u8> = values.iter().map(|x| (*x != 0.0) as u8).collect();
            (Buffer::of(&v), v.iter().map(|x| *x as f64).collect())
        }
        _ => unreachable!("no tile step computes in {elem}"),
    }
}

#[test]
fn casts() {
    // Every value but the largest i64 and u64 is exact in f64. So the reference is one rounding from f64, saturating
    // for integers. Only a cast of the largest i64 to u64 tells it from 2⁶³.
    let mut values = specials(400);
    values.extend([3e9, -3e9, 65504.0, 65520.0, 1e-8, 255.5, -128.5, 300.0, 2048.5, 1.0 + 2f64.powi(-11)]);
    for &from in DType::REAL {
        let (source, exact) = encoded(from, &values);
        for &to in DType::REAL {
            let got = one(TileOp::Cast, from, to, [0.0; 2], std::slice::from_ref(&source));
            let (want, wide) = encoded(to, &exact);
            for (i, w) in wide.iter().enumerate() {
                let size = to.size();
                let (g, e) = (&got.bytes()[i * size..][..size], &want.bytes()[i * size..][..size]);
                let rounded = (from, to) == (DType::I64, DType::U64) && exact[i] == 63f64.exp2();
                assert!(g == e || w.is_nan() || rounded, "{from:?} {} to {to:?}: {g:?}, not {e:?}", exact[i]);
            }
        }
    }
    let wide = Buffer::of(&[i64::MAX, i64::MIN, -1, 4_294_967_296]);
    assert_eq!(
        one(TileOp::Cast, DType::I64, DType::U32, [0.0; 2], std::slice::from_ref(&wide)).values::<u32>(),
        [u32::MAX, 0, 0, u32::MAX]
    );
    assert_eq!(
        one(TileOp::Cast, DType::I64, DType::U64, [0.0; 2], std::slice::from_ref(&wide)).values::<u64>(),
        [i64::MAX as u64, 0, 0, 4_294_967_296]
    );
    let large = Buffer::of(&[u64::MAX, 1 << 63, 65_536, 0]);
    assert_eq!(
        one(TileOp::Cast, DType::U64, DType::I64, [0.0; 2], std::slice::from_ref(&large)).values::<i64>(),
        [i64::MAX, i64::MAX, 65_536, 0]
    );
    assert_eq!(one(TileOp::Cast, DType::U64, DType::U16, [0.0; 2], &[large]).values::<u16>(), [65535, 65535, 65535, 0]);
    assert_eq!(one(TileOp::Cast, DType::I64, DType::I8, [0.0; 2], &[wide]).values::<i8>(), [127, -128, -1, 127]);
}

#[test]
fn what_is_not_supported_is_refused() {
    for op in TileOp::ALL.iter().copied() {
        for &elem in DType::REAL {
            let inputs = (0..op.arity()).map(|k| full(op.operand(elem, k))).collect();
            let step = TileStep::new(op, elem, &[0, 1, 2], [0.0; 2]);
            let p = TileProgram { inputs, steps: vec![step], outputs: vec![op.arity() as u16], len: 3 };
            assert_eq!(p.check().is_ok(), supports_operand_type(op, elem), "{op:?} on {elem:?}");
            if supports_operand_type(op, elem) {
                let operands: Vec<Buffer> =
                    p.inputs.iter().map(|i| Buffer::of(&vec![1u8; 3 * i.elem.size()])).collect();
                assert_eq!(run_in(&p, &operands, &[], 1).1, None);
            }
        }
    }
    assert!(TileOp::ALL.iter().enumerate().all(|(i, o)| *o as usize == i));
}
