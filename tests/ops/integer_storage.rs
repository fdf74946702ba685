//! Integers for storage and casts (`i16`, `u16`, `u64`): every cast against i128, moves, files, and what is refused.

#![allow(clippy::unwrap_used, clippy::panic)]

use arenagrad::graph::{Builder, DType, GraphBuf, Init, Var};
use arenagrad::session::{Elem, Program, Session};
use arenagrad::tools::ir::text;

/// An integer type of the test.
trait Int: Elem + PartialEq + std::fmt::Debug {
    const DTYPE: DType;
    const LOW: i128;
    const HIGH: i128;
    fn wide(self) -> i128;
    /// The nearest element to `x`.
    fn nearest(x: i128) -> Self;
}

macro_rules! ints {
    ($($t:ident = $d:ident,)*) => {$(
        impl Int for $t {
            const DTYPE: DType = DType::$d;
            const LOW: i128 = $t::MIN as i128;
            const HIGH: i128 = $t::MAX as i128;
            fn wide(self) -> i128 {
                self as i128
            }
            fn nearest(x: i128) -> $t {
                x.clamp($t::MIN as i128, $t::MAX as i128) as $t
            }
        }
    )*};
}

ints! { i8 = I8, u8 = U8, i16 = I16, u16 = U16, i32 = I32, u32 = U32, i64 = I64, u64 = U64, }

/// Numbers at and beside the ends of all types.
fn numbers() -> Vec<i128> {
    let powers = [0, 1, 7, 8, 15, 16, 24, 31, 32, 53, 63, 64].map(|k| 1i128 << k);
    powers.into_iter().flat_map(|p| [p - 1, p, p + 1, -p, 1 - p, -p - 1, p / 3, -p / 7]).collect()
}

fn program<T: Elem>(g: &GraphBuf, x: &[T]) -> Program {
    let mut p = Session::new().compile(g).unwrap();
    p.values_mut::<T>("x").unwrap().copy_from_slice(x);
    p.step().unwrap();
    p
}

/// `f` of an input `x` of `dtype` with `n` elements.
fn graph(dtype: DType, n: usize, f: impl for<'g> FnOnce(Var<'g>) -> Var<'g>) -> GraphBuf {
    let g = Builder::new("integers");
    let y = f(g.input("x", [n], dtype)).named("y");
    g.finish([y]).unwrap()
}

fn integer_cast<S: Int, D: Int>() {
    let x: Vec<S> = numbers().into_iter().map(S::nearest).collect();
    let g = graph(S::DTYPE, x.len(), |x| x.cast(D::DTYPE));
    // Through the text form, which must know the type.
    let again = text::parse(&text::print(g.view())).unwrap();
    let want: Vec<D> = x.iter().map(|x| D::nearest(x.wide())).collect();
    for g in [&g, &again] {
        assert_eq!(program(g, &x).values::<D>("y").unwrap(), want, "{} to {}", S::DTYPE, D::DTYPE);
    }
}

fn casts_from<S: Int>() {
    integer_cast::<S, i8>();
    integer_cast::<S, u8>();
    integer_cast::<S, i16>();
    integer_cast::<S, u16>();
    integer_cast::<S, i32>();
    integer_cast::<S, u32>();
    integer_cast::<S, i64>();
    integer_cast::<S, u64>();
    let x: Vec<S> = numbers().into_iter().map(S::nearest).collect();
    let to = |dtype: DType| program(&graph(S::DTYPE, x.len(), |x| x.cast(dtype)), &x);
    let (singles, doubles, truths) = (to(DType::F32), to(DType::F64), to(DType::Bool));
    for (i, x) in x.iter().enumerate() {
        // Rust rounds i128 to the nearest float, half to even.
        assert_eq!(singles.values::<f32>("y").unwrap()[i], x.wide() as f32, "{x:?} of {}", S::DTYPE);
        assert_eq!(doubles.values::<f64>("y").unwrap()[i], x.wide() as f64, "{x:?} of {}", S::DTYPE);
        assert_eq!(truths.values::<u8>("y").unwrap()[i], u8::from(x.wide() != 0), "{x:?} of {}", S::DTYPE);
    }
}

#[test]
fn casts_between_integers_saturate() {
    casts_from::<i8>();
    casts_from::<u8>();
    casts_from::<i16>();
    casts_from::<u16>();
    casts_from::<i32>();
    casts_from::<u32>();
    casts_from::<i64>();
    casts_from::<u64>();
}

fn from_floats<D: Int>() {
    let mut x: Vec<f64> = numbers().into_iter().map(|x| x as f64).collect();
    x.extend([0.5, -0.5, 1.9, -1.9, 65535.9, 32767.9, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e300, -0.0]);
    let want = |x: f64| match x {
        x if x.is_nan() => 0,
        x if x <= D::LOW as f64 => D::LOW,
        x if x >= D::HIGH as f64 => D::HIGH,
        x => x.trunc() as i128,
    };
    let got = program(&graph(DType::F64, x.len(), |x| x.cast(D::DTYPE)), &x);
    for (got, x) in got.values::<D>("y").unwrap().iter().zip(&x) {
        assert_eq!(got.wide(), want(*x), "{x} to {}", D::DTYPE);
    }
    let single: Vec<f32> = x.iter().map(|x| *x as f32).collect();
    let got = program(&graph(DType::F32, x.len(), |x| x.cast(D::DTYPE)), &single);
    for (got, x) in got.values::<D>("y").unwrap().iter().zip(&single) {
        assert_eq!(got.wide(), want(f64::from(*x)), "{x} to {}", D::DTYPE);
    }
}

#[test]
fn casts_from_floats_truncate_and_saturate() {
    from_floats::<i16>();
    from_floats::<u16>();
    from_floats::<u64>();
    // Through a half float: 65504 is its largest number.
    let g = graph(DType::U64, 3, |x| x.cast(DType::F16).cast(DType::U16));
    assert_eq!(program(&g, &[2049u64, 65504, u64::MAX]).values::<u16>("y").unwrap(), [2048, 65504, u16::MAX]);
}

fn moves<T: Int>() {
    let x: Vec<T> = [T::LOW, T::HIGH, 7, 8, 9, 10].map(T::nearest).into();
    let g = graph(T::DTYPE, 6, |x| {
        let rows = x.reshape([2, 3]).t();
        let rows = rows.concat(&[rows.builder().full(3.0, [1, 2], T::DTYPE)], 0);
        let rows = rows.gather(rows.builder().constant(&[3.0, 0.0], [2]).cast(DType::I64), 0);
        let mask = rows.cast(DType::F64).greater(5.0);
        mask.select(rows, rows.builder().full(1.0, [2, 2], T::DTYPE))
    });
    let want = [3, 3, T::LOW, 8].map(|x| if x > 5 { x } else { 1 });
    let p = program(&g, &x);
    let got: Vec<i128> = p.values::<T>("y").unwrap().iter().map(|x| x.wide()).collect();
    assert_eq!(got, want, "{}", T::DTYPE);
}

#[test]
fn elements_are_moved_filled_and_selected() {
    moves::<i16>();
    moves::<u16>();
    moves::<u64>();
}

#[test]
fn states_are_saved_and_loaded() {
    let g = Builder::new("kept");
    let [a, b, c] = [("a", DType::I16), ("b", DType::U16), ("c", DType::U64)]
        .map(|(name, dtype)| g.state(name, [3], dtype, Init::Constant(7.0)).cast(DType::F64));
    let graph = g.finish([(a + b + c).named("sum")]).unwrap();
    let mut p = Session::new().compile(&graph).unwrap();
    p.init(0).unwrap();
    p.step().unwrap();
    assert_eq!(p.values::<f64>("sum").unwrap(), [21.0; 3]);
    p.values_mut::<i16>("a").unwrap().copy_from_slice(&[i16::MIN, -1, i16::MAX]);
    p.values_mut::<u16>("b").unwrap().copy_from_slice(&[0, 1, u16::MAX]);
    p.values_mut::<u64>("c").unwrap().copy_from_slice(&[0, 1 << 63, u64::MAX]);
    let file = std::env::temp_dir().join(format!("arenagrad-integers-{}.safetensors", std::process::id()));
    p.save(&file).unwrap();
    let mut q = Session::new().compile(&graph).unwrap();
    q.load(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    assert_eq!(q.values::<i16>("a").unwrap(), [i16::MIN, -1, i16::MAX]);
    assert_eq!(q.values::<u16>("b").unwrap(), [0, 1, u16::MAX]);
    assert_eq!(q.values::<u64>("c").unwrap(), [0, 1 << 63, u64::MAX]);
    assert!(q.values::<u32>("b").unwrap_err().to_string().contains("u16"));
}

#[test]
fn arithmetic_is_refused() {
    let refused = |dtype: DType, f: for<'g> fn(Var<'g>) -> Var<'g>, words: &[&str]| {
        let g = Builder::new("refused");
        let y = f(g.input("x", [4], dtype));
        let e = g.finish([y.named("y")]).unwrap_err().to_string();
        assert!(words.iter().chain(&["integer_storage.rs"]).all(|w| e.contains(w)), "{e}");
    };
    for dtype in [DType::I16, DType::U16, DType::U64] {
        let name = dtype.name();
        refused(dtype, |x| x + x, &["add", "no arithmetic in", name, "cast"]);
        refused(dtype, |x| x.sum(..), &["no reduction of", name]);
        refused(dtype, |x| x.less(x), &["no comparison in", name]);
        refused(dtype, |x| x.bitwise_and(x), &["an integer type is needed", name]);
        refused(dtype, |x| x.reshape([2, 2]).matmul(x.reshape([2, 2])), &["matmul", name]);
        refused(dtype, |x| x.builder().full(0.5, [4], x.dtype()), &["0.5", name]);
        refused(dtype, |x| x.builder().full(-40000.0, [4], x.dtype()), &["-40000", name]);
        refused(dtype, |x| x.builder().iota(0, [4], x.dtype()), &["no iota of", name]);
        refused(dtype, |x| x.builder().full(1.0, [9], DType::F32).gather(x, 0), &["gather", name]);
    }
}

/// A cast saturates to the largest `i64`, which no `full` holds.
#[test]
fn a_constant_that_no_fill_holds_is_computed_at_run_time() {
    let g = Builder::new("saturated");
    let y = g.full(f64::INFINITY, [2], DType::F64).cast(DType::I64);
    let mut p = Session::new().compile(&g.finish([y.named("y")]).unwrap()).unwrap();
    p.step().unwrap();
    assert_eq!(p.values::<i64>("y").unwrap(), [i64::MAX; 2]);
}
